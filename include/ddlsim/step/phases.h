// A coordinator's cycle (Horovod) and when backward begins have nothing to do with each other.
//
// Which wake a gradient just misses depends on the phase: the coordinator wakes at phi c, phi c + c, phi c + 2 c, ...
// of a step, c its cycle, and any phi is as likely. The step is the expected one, by the midpoint rule,
//   T = integral from 0 to 1 of T(phi) d phi  =  1/n sum of T((k + 1/2) / n) for k = 0 .. n - 1,   n = 16
// T(phi) the schedule of step/schedule.h; so is every part of it, and so they still add up to the step. T(phi) jumps
// where a gradient begins to miss a wake, by up to a cycle, or, where the library blocks the coordinator (MPI), by a
// message: of n phases the mean jumps by the n-th part. 16 are within 0.1 % of 256 (ResNet-50, horovod-mpi, 4 servers,
// 24 to 27 Gb/s; 8 are within 0.3 %, one 2 %).
// The event fidelity simulates every phase and takes the same mean. Who needs one step's kernels and messages (a trace,
// other jobs beside this one) gets those of the phase nearest to the mean.
// Source: horovod/common/operations.cc, RunLoopOnce: sleeps until a cycle after its last wake, whatever the framework
// does. Limits: phases of jobs that share links are alike; a wake is on time.
//
// Worked example: two layers of 1 and 2 ms forward, twice that backward, 5 ms of ring for each gradient, a cycle of 4
// ms: gradients are ready at 7 and 9 ms. Awake at 7 to 9 ms (phi from 3/4 to 1, and to 1/4), the first goes at once,
// the other 4 ms later, behind it: 17 + w ms, w from 0 to 2; awake at 9 to 11 ms, both go together, in 10 ms: 19 + w
// ms. The mean is (18 + 20) / 2 = 19 ms.
#pragma once

#include <vector>

#include "ddlsim/answer/timeline.h"
#include "ddlsim/cost/price.h"

namespace ddlsim::step {

/// Shares of a cycle, each as likely as the others.
[[nodiscard]] std::vector<double> phases();

/// Whether the step is the mean over phases: a plan that folds, whose gradients a coordinator fuses.
[[nodiscard]] bool wakes_in_cycles(const cost::PricedStep& step);

/// The schedule of such a step whose coordinator wakes first at `phase` cycles.
[[nodiscard]] answer::Timeline schedule_at(const cost::PricedStep& step, double phase,
                                           answer::Detail detail = answer::Detail::kParts);

/// Of one line or more, each as likely. What a step is made of (kWork) is that of the line nearest to the mean.
[[nodiscard]] answer::Timeline mean_of(std::vector<answer::Timeline> lines);

}  // namespace ddlsim::step
