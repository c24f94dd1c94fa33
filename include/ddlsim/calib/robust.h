// Fits to measured times, in which some rows are spoilt: x >= 0 that minimises the sum of Huber's loss over the
// relative residuals (A x + fixed - measured) / measured.
//
// Iteratively reweighted least squares: a row with relative residual r counts min(1, k s / |r|), k = 1.345 (95 %
// efficiency where residuals are normal), s = 1.4826 x the median of |r|. Relative, so that microseconds and
// seconds count alike. Source: Huber, "Robust Statistics" (1981), chapter 7.
#pragma once

#include <vector>

#include "ddlsim/calib/nnls.h"

namespace ddlsim::calib {

struct RobustFit {
  std::vector<double> x;
  std::vector<double> standard_errors;
  double scale = 0;  // s: the spread of relative residuals
};

/// `system.b` is what A x is to reach; `measured`, one per row and positive, is what residuals are relative to (b
/// itself where no part of the time is fixed).
[[nodiscard]] RobustFit fit_relative(const LeastSquares& system, const std::vector<double>& measured,
                                     int iterations = 8);

/// The lower of the middle two where there are two. Requires at least one value.
[[nodiscard]] double median(std::vector<double> values);

/// The q-quantile, by linear interpolation between the two nearest. Requires at least one value.
[[nodiscard]] double quantile(std::vector<double> values, double q);

}  // namespace ddlsim::calib
