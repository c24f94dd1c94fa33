// A prediction as equations: where every number of it comes from.
//
// Each part is an equation with its symbols, the numbers put in (value, SI unit, provenance, source), and what the
// model computed. The result is the model's own, of the same priced step and timeline that the prediction is made of,
// and never that of the equation. Before an explanation is answered every equation is worked out from its numbers
// (support/formula.h): where one is off by more than 1e-6 there is no explanation but an error, so that an equation
// that was left behind by the code cannot be shown.
//
//   step          its parts, throughput, MFU
//   software      the factor on GPU time
//   power         what a GPU draws, and clocks that fall (cost/power.h)
//   compute       kernels by layer, the largest; without a profile the largest layer's roofline
//   memory-bound  likewise; weight update, copies
//   launch, other, input
//   push and pull stations of parameter servers
//   all-reduce    every size of message: latency, rate, wire, time; their sum
//   exposed       the last messages that follow each other without a gap, against the end of backward
//   memory        what the fullest GPU holds
//
// Of everything: jobs whose passes are alike (data parallelism, the analytic fidelity). What sticks out is, of servers
// in order of time, the longest way of messages through stations (`push and pull`, cost/parameter_server.h: bytes and
// pieces at each of the seven, the wire); by priority, and where weights are pulled at the next start, the last layer
// that the next forward pass waits for; of local SGD a share of its average. Of splits (stages, tensor groups, shards)
// the parts of the slowest ranks, which `bubble` completes: waiting for other stages; its collectives one by one, what
// of them is in the way as a sum. Of the event fidelity, of several kinds of GPU and of asynchronous exchanges: step,
// software, collectives, memory. A collective of another algorithm than a ring, double tree or NVLS has its latency and
// its seconds per byte as numbers.
//
// Worked example: eight V100 sum 25 MiB: v = 2 * (n - 1) / n = 1.75, t = L + S * b, as cost/collective.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/answer/explanation.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

inline constexpr double kExplainedWithin = 1e-6;

/// `part`: one of the names above; empty: all. Errors: those of predict; kNotFound for a part that the job does not
/// have; kUnsupported for a job with runs of its own, which no equation explains.
[[nodiscard]] Expected<answer::Explanation> explain(const Scenario& scenario, std::string_view part = {});

/// Errors: the part whose equation does not give its result.
[[nodiscard]] Expected<void> check_equations(const std::vector<answer::ExplainedPart>& parts);

}  // namespace ddlsim::whatif
