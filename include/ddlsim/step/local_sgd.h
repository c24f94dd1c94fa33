// Local SGD: every replica trains by itself for n steps, then all of them average their weights.
//
// The plan's rows are then the weights, sent once in n steps when the update is done and beside nothing:
//   T = local + (average + wait_n) / n,     wait_n = sqrt(n) wait_1
//   local    forward, backward and update without anything sent
//   average  all rows one after the other, copies into their buffers and out of them included
//   wait_1   for the slowest GPU in one synchronous step: the sum of n independent steps varies sqrt(n) times as much
// All times of the mean step are the n-th part of a period's. Units: seconds.
// Sources: Stich, "Local SGD converges fast and communicates little", ICLR 2019; Lin et al., "Don't use large
// mini-batches, use local SGD", ICLR 2020; torch.distributed.algorithms.model_averaging (PeriodicModelAverager
// all-reduces parameters after the optimizer's step).
// Replicas may compute again, adapt (LoRA), keep other formats of states and leave activations on the host, which they
// do in either kind of step.
// Limits: replicas of one GPU, whole copies of the model and all-reduce alone. How many steps more it takes to the same
// accuracy is not modelled. With n = 1 gradients are summed as ever, beside backward.
//
// Worked example: two layers of 1 and 2 ms forward, twice that backward: 9 ms by oneself; 5 ms of ring for each. Every
// step 17 ms, as gradients travel beside backward; every 2nd 9 + 10 / 2 = 14 ms, every 5th 11 ms.
#pragma once

#include <cstdint>

#include "ddlsim/answer/timeline.h"
#include "ddlsim/cost/price.h"

namespace ddlsim::step {

/// The two kinds of steps of a period; neither has `sync_every` above 1 any more.
struct LocalSgd {
  cost::PricedStep local;
  cost::PricedStep averaging;
};
[[nodiscard]] LocalSgd taken_apart(const cost::PricedStep& step);

/// The mean step of a period of `every`. Of what a simulation is made it has the averaging step's.
[[nodiscard]] answer::Timeline amortised(const answer::Timeline& local, answer::Timeline averaging, std::int64_t every);

}  // namespace ddlsim::step
