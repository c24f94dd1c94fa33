// What a few measured runs of a job say about its other configurations.
//
// A run is a configuration x (GPUs per server, servers, batch) with a measured step t and what the model predicts for
// it, P(x). The residual r(x) = ln(t / P) is a Gaussian process along the series:
//   r(x) = r0 k(x) + f(x) + noise     r0: of the smallest configuration, kept but in other splits and fuller passes
//   cov f(x), f(y) = s_k^2 a b + s_K^2 min(a, b)              a, b = log2(GPUs per server)
//                  + s_j^2 [both over several servers]
//                  + s_n^2 u v + s_N^2 min(u, v)              u, v = log2(servers)
//                  + s_c^2 c d                                c, d = share of the step that is no GPU time
//                  + s_B^2 min(|p|, |q|) if p q > 0           p, q = log2(batch / batch of the smallest)
//                  + s_v^2 V(x, y)                            of what is shared (ZeRO), and of what is kept
//                  + S(x, y) - k(x) k(y) S(smallest, smallest)
//   V(x, y) = 1 + [x, y alike] - [x alike the smallest] - [y alike the smallest], for each of the two
//   S(x, y) = (s_p^2 [x, y on ranks alike] + s_0^2 [x, y run by the same software]) exp(-(p - q)^2 / 2 l^2) + s_h^2 h i
//                                                  h, i = share of the GPU time that launching its kernels takes
//   k(x) = S(x, smallest) / S(smallest, smallest): 1 where x lies on ranks, is run and filled as the smallest is
// all but the last: a drift and a Brownian path along GPUs per server and along servers, a jump where the network
// begins, a communication that is slower or faster than modelled, and what ZeRO, recomputation and offload add to a
// job that is otherwise as it was, wherever its ranks lie. By s_h a step of few samples is late for what
// every pass takes, whatever its samples, which a larger batch hardly has. Given runs g the residual at x is
//   r0 k(x) + K_xg (K_gg + s_e^2 I)^-1 (r_g - r0 k_g),  variance  K_xx - K_xg (K_gg + s_e^2 I)^-1 K_gx + s_e^2
// by Cholesky. The standard deviations are the prior's: see RunPrior. Several runs of one configuration are one of
// their mean, with s_e^2 over their number.
//
// Of r0 what lies beyond three deviations, 3 sqrt(S(smallest, smallest)), is kept whole: no split and no filling takes
// a job so far from the model, but something that nobody stated about it.
//
// Over several servers, where the smallest configuration has one, what it took beyond its prediction is of no network:
// there r0 k(x) stands for ln(w + (1 - w) exp(r0 k(x))), w = (c - c_0) / (1 - c_0), at least 0, the share of the step
// that is neither GPU time nor of the smallest's communication c_0.
//
// Of configurations smaller than all that ran nobody knows which part of r0 is theirs, and which came with the GPUs and
// servers that they do not have: with e = s_m^2 / (s_m^2 + D^2), D^2 the terms of GPUs, servers and communication in
// `deviation_between` x and the smallest, r0 k(x) counts e times, and the variance is more by s_m^2 (1 - e).
//
// Runs that lie farther apart than the prior has it widen it: its variances count q times, q, from 1 to 25, the mean
// of squared residuals over what the prior expects, (r_g - r0 k_g)' (K_gg + s_e^2 I)^-1 (r_g - r0 k_g) / m, of the m
// configurations, two or more, that are not the smallest; a single one counts from three deviations on, by a ninth. So
// a run that fits no prior is still met, and the interval says how little is known beside it.
//
// Of nine configurations on, each of them measured once, the runs themselves say how much they scatter and how far they
// lie apart: the noise's variance, 1 to 1,024 times s_e^2, and q maximise the likelihood of the residuals times that of
// their own logarithms, normal with deviation 2 around none. And what they say of the step's parts (calib/run_shape.h)
// may come first, r being what it leaves: it does where, a fifth of the configurations left out at a time, what the
// rest predict of them is nearer with it, by a tenth of the mean absolute residual.
//
// The smallest configuration (`smaller` in calib/run_point.h) sets r0 by the mean of its runs. Callers that know better
// what made its difference (whatif/own_runs.h puts it on the GPU's speed) predict with that first, all GPU time e^g
// times as long; r0 is then 0, and what x does not keep of g is taken back: r(x) is less by g (1 - k(x)) (1 - c).
//
// Worked example (test): one GPU as predicted, two servers of one GPU 1.2 times as long, c = 0 in both. With s_j and
// s_N alone, 0.1 each, and noise 0.1: K_gg = 0.02 + 0.01, so at four servers (K_xg = 0.02, K_xx = 0.03) the step takes
// exp(0.02 / 0.03 ln 1.2) = 1.129 times what is predicted, +- sqrt(0.03 - 0.02^2 / 0.03 + 0.01) = 0.163.
//
// And (test): a job whose first split takes 1.2 times what is predicted; another, s_0 = s_p, is expected at
// exp(ln 1.2 / 2) = 1.095, +- sqrt(1.5 s_p^2 + s_e^2).
//
// And (test): one sample takes twice what is predicted, h = 0.6; of many samples, h = 0.1, with s_0 = 0.2, s_h = 1 and
// batches that are all alike a share of (0.04 + 0.06) / (0.04 + 0.36) = 1/4 is kept: 2^(1/4) = 1.19 times.
//
// And (test): 1.2 times what is predicted at batch 4; at 32, 3 doublings and l = 3, exp(-1/2) of that is kept, 1.117.
//
// And (test): 1.2 times without ZeRO; with it, 1.2 +- sqrt(2 s_v^2 + s_e^2): what replicas share is another step's
// part.
//
// And (test): four servers take 1.2 times what is predicted, no other run; with s_j = 0.1, s_m = 0.2 alone one server
// is expected at 1.2^0.8 = 1.157, +- sqrt(0.04 * 0.2 + s_e^2): a fifth of it may have come with the network.
//
// And (test): 8 GPUs of one server take 0.8 times what is predicted, c_0 = 0.1; four servers of which c = 0.95 is the
// network's keep 1/18 of that: w = 0.944, 0.944 + 0.056 * 0.8 = 0.989 times.
//
// Limits: residuals of one job; nothing is learnt about another model or GPU. Rasmussen and Williams, "Gaussian
// Processes for Machine Learning" (2006), algorithm 2.1.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ddlsim/calib/run_point.h"
#include "ddlsim/calib/run_shape.h"
#include "ddlsim/support/error.h"

namespace ddlsim::calib {

/// Standard deviations in log time. All but `batch` and `noise`: fitted by the maintainers on the committed tables of
/// bench/accuracy, one source left out at a time (ranges over the refits in brackets).
struct RunPrior {
  double gpus = 0.010;          // s_k, per doubling
  double gpus_path = 0.024;     // s_K [0.018, 0.026]
  double network_jump = 0.038;  // s_j [0.016, 0.041]
  double servers = 0.020;       // s_n, per doubling
  double servers_path = 0.062;  // s_N
  double communication = 0.21;  // s_c
  double batch = 0.05;          // s_B, per root of a doubling: assumed
  double alike_batches = 4;     // l, doublings: of pairs of rows
  double series = 0.13;         // s_0, what a job's splits share if the same software runs them
  double split = 0.16;          // s_p, of a split over ranks of its own
  double variant = 0.08;        // s_v, of what ranks share, and of what they keep: of pairs of rows
  double model = 0.2;           // s_m, of a job nobody ran: what predictions without runs are off
  double fixed = 1.0;           // s_h, of a GPU that launches alone keep busy
  double noise = 0.02;          // s_e, of one run: assumed
};

struct RunEstimate {
  double residual = 0;   // of ln(step / predicted)
  double kept = 0;       // of it, what is the smallest configuration's
  double deviation = 0;  // its standard deviation, that of a run of its own included
};

/// Of f(x) - f(y) for two configurations of which none was measured, r0 being the same:
///   s_k^2 (a - b)^2 + s_K^2 |a - b| + s_j^2 [one of them over several servers] + s_n^2 (u - v)^2 + s_N^2 |u - v|
///   + s_c^2 (c - d)^2 + s_B^2 |p - q| + 2 s_p^2 (1 - e [on ranks alike]) + 2 s_0^2 (1 - e [run by the same software])
///   + 2 s_v^2 ([other ZeRO] + [else kept]), e = exp(-(p - q)^2 / 2 l^2), and its root. Without s_h: who compares does
///   not ask what is fixed.
[[nodiscard]] double deviation_between(const RunPoint& x, const RunPoint& y, const RunPrior& prior = {});

class RunPosterior {
 public:
  /// `on_gpus`: g, what the predictions have on all GPU time already. Errors: kInvalidArgument without runs, for counts
  /// or batches below one, shares outside [0, 1] and residuals that are no numbers.
  [[nodiscard]] static Expected<RunPosterior> learn(std::span<const MeasuredRun> runs, const RunPrior& prior = {},
                                                    double on_gpus = 0);

  [[nodiscard]] RunEstimate at(const RunPoint& point) const;
  /// Of `at`, the residual alone, which takes less time.
  [[nodiscard]] double residual_at(const RunPoint& point) const;
  /// Of the smallest configuration, whose residual is kept.
  [[nodiscard]] const RunPoint& smallest() const { return smallest_; }
  [[nodiscard]] double base() const { return base_; }
  /// What comes before the residuals; nothing: the runs are too few, or no shape predicts them better.
  [[nodiscard]] const std::optional<RunShape>& shape() const { return shape_; }
  /// k(x): the share of the smallest configuration's residual that another one keeps.
  [[nodiscard]] double kept(const RunPoint& x) const;
  /// What the other runs and the prior, as it is, say of each run, in the order in which they were given.
  [[nodiscard]] std::span<const RunEstimate> by_others() const { return others_; }

 private:
  [[nodiscard]] static Expected<RunPosterior> beside(const std::optional<RunShape>& shape,
                                                     std::span<const MeasuredRun> runs, const RunPrior& prior,
                                                     double on_gpus);
  [[nodiscard]] double covariance(const RunPoint& x, const RunPoint& y) const;
  /// V(x, y), of a part of the split.
  [[nodiscard]] double varies(const RunPoint& x, const RunPoint& y, auto part) const;
  /// S(x, y).
  [[nodiscard]] double alike(const RunPoint& x, const RunPoint& y) const;
  /// What x has of the smallest configuration's residual beside what its prediction has already.
  [[nodiscard]] double mean(const RunPoint& x) const;
  /// e: 1 but where x is smaller than all that ran.
  [[nodiscard]] double known_of_smaller(const RunPoint& x) const;

  RunPrior prior_;
  std::optional<RunShape> shape_;
  RunPoint smallest_;
  double base_ = 0;
  double on_gpus_ = 0;
  double scale_ = 1;  // q
  std::vector<RunPoint> points_;
  std::vector<RunEstimate> others_;
  std::vector<double> weights_;  // (K_gg + s_e^2 I)^-1 (r_g - r0 k_g)
  std::vector<double> inverse_;  // (K_gg + s_e^2 I)^-1, row by row
};

}  // namespace ddlsim::calib
