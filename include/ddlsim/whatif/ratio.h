// How far the ratio of two predictions may be off.
//
// What is wrong with both sides in the same way cancels in their ratio, so it is known better than either. Of
// ln(speedup) the variance is the sum of
//   1. how far ln(measured / predicted) of the alternative may lie from the baseline's along GPUs per server, servers,
//      batch, communication and split of the model (calib::deviation_between, run_posterior.h);
//   2. (c - c')^2 s_g^2   c, c': the share of each step that is no GPU time; s_g: the deviation of what GPU time may be
//                         off by, from the ends of questions of one GPU (hardware/software.h);
//   3. s_k^2              of every other thing that differs: the strategy, and in proportion to the larger share of GPU
//                         time, 1 - min(c, c'), the GPU, the precision (ChangeSpread), the model (as much as the GPU)
//                         and software alone (fused, its year, its kernels: as much as the precision).
// Splits of the model count in 1 (s_p) where ranks run other kernels, or other software runs them (whole replicas and
// shared states). Where ranks keep their kernels what is wrong with these cancels:
//   recomputation   the same kernels more or less often: (s_g ln(speedup))^2, for what is left out or added may be off
//                   by s_g beside the rest
//   zero 1 to 3     another exchange around the same kernels: (s_c (e - e'))^2, e, e' the communication of each side as
//                   a share of its step, hidden or not: what hides may come out
//   offload         the same kernels, and what the host takes beside them, whose rates are assumed (plan/memory.h):
//                   half of that or twice, in 90 %: (ln(2) / 1.645 ln(speedup))^2
//   LoRA            of a layer's three products (forward, gradients of its input and of its weight) the last gives way
//                   to others: in 3 a third of the spread of software alone
// With its root s the 90 % interval is speedup x exp(-+ 1.645 s), and the alternative is faster with probability
// Phi(ln(speedup) / s). A change without effect is known for certain: none of the three is there.
// Where nothing differs but more bandwidth of the same network and no more latency, or that less is computed again, the
// alternative cannot be slower: the interval ends at 1; where more is computed again, it cannot be faster.
// Where measured runs corrected both sides, s is at most what their posterior leaves; where one side alone, s_g is
// added.
//
// Worked example (test): a network of twice the rate takes communication's share of a step from 0.5 to 0.4. With s_g
// 0.243 and the prior of communication 0.21 (run_posterior.h), s = 0.1 sqrt(0.21^2 + 0.243^2) = 0.0321: 1.25 times as
// fast is 1.19 to 1.32. And without full recomputation, 1.27 times as fast: s = 0.243 ln 1.27 = 0.0581, 1.15 to 1.40.
// Where nobody says what drives the networks, a comparison's interval also holds the ratio with the other transport.
//
// Limits: deviations are of published rows of training steps, most of them on NVIDIA's GPUs; normal, though pairs of
// rows have longer tails.
#pragma once

#include <utility>

#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

struct RatioEstimate {
  std::pair<double, double> interval_90{1, 1};
  double faster = 0;  // probability
};

/// One side of a ratio.
struct RatioSide {
  const Scenario* scenario = nullptr;
  double communication = 0;  // share of the step that is no GPU time, 0 to 1
  double sent = 0;           // of all messages, hidden or not, as a share of the step
};

/// Of throughput: `speedup` is the alternative's over the baseline's.
[[nodiscard]] RatioEstimate ratio_of(const RatioSide& baseline, const RatioSide& alternative, double speedup);

/// What something stays below with a probability of `sure`, between 0 and 1: the inverse of probability_below.
[[nodiscard]] double bound_with(double sure, double expected, std::pair<double, double> interval_90);

/// That something whose logarithm is normal about `expected`, with a 90 % interval, stays at or below `limit`. The two
/// halves of the interval may differ in width.
[[nodiscard]] double probability_below(double limit, double expected, std::pair<double, double> interval_90);

}  // namespace ddlsim::whatif
