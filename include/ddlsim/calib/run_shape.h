// What many measured runs of a job say of its steps' parts.
//
// Runs of a few batches on one GPU and several tell what every pass takes whatever its samples (a slow host), and what
// joining GPUs takes whatever their bytes, which no factor on the step is:
//   t / P = g (1 - c) + l c + (h + w) / T
// with P the model's step, T its pass, c the share of the step that is no GPU time (calib/run_point.h); l and w differ
// within one server and over several, and w is 0 on one GPU. The six are at least 0 and minimise
//   sum over runs (t' / t - 1)^2 / 0.1^2 + ((g - 1) / 0.5)^2 + sum of ((l - 1) / 2)^2 + sum of (h / 0.5 T_0)^2 (w too)
// by calib/nnls.h, t' being the shape's step and T_0 the shortest pass of the runs: what the model says where runs do
// not speak. Then g and l count 0.1 at least.
//
// The form is Pollux's (Qiao et al., OSDI 2021, equations 8 to 11) on top of a model, which has bytes, overlap and
// kernels already.
//
// Worked example (test): passes that the model has at 10, 20 and 40 ms on one GPU took 12, 22 and 42: h is 2 ms but for
// what the prior keeps of it.
//
// Used by calib/run_posterior.h, which decides whether it is believed.
#pragma once

#include <span>

#include "ddlsim/calib/run_point.h"

namespace ddlsim::calib {

struct RunShape {
  double gpu = 1;           // g
  double within = 1;        // l, in one server
  double across = 1;        // l, over several
  double host = 0;          // h, seconds of a pass
  double join = 0;          // w, seconds of a pass on several GPUs of one server
  double join_servers = 0;  // w, over several servers

  /// t / P. At least what it is at c = 0 or c = 1 with no passes a second.
  [[nodiscard]] double ratio(const RunPoint& x) const;
};

/// Requires runs whose passes per second are known.
[[nodiscard]] RunShape shape_of(std::span<const MeasuredRun> runs);

}  // namespace ddlsim::calib
