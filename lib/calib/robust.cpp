#include "ddlsim/calib/robust.h"

#include <algorithm>
#include <cmath>

namespace ddlsim::calib {
namespace {

constexpr double kHuber = 1.345;
constexpr double kNormal = 1.4826;  // median of |r| to standard deviation
constexpr double kLeastScale = 1e-9;

double row_times(const LeastSquares& system, std::size_t row, const std::vector<double>& x) {
  double sum = 0;
  for (std::size_t j = 0; j < system.columns; ++j) sum += system.a[row * system.columns + j] * x[j];
  return sum;
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  if (below + 1 >= values.size()) return values.back();
  return values[below] + (place - static_cast<double>(below)) * (values[below + 1] - values[below]);
}

RobustFit fit_relative(const LeastSquares& system, const std::vector<double>& measured, int iterations) {
  RobustFit fit;
  std::vector<double> weights(system.rows());
  std::vector<double> residuals(system.rows());
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 1.0 / measured[i];
  LeastSquares weighted = system;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weighted.b[i] = system.b[i] * weights[i];
      for (std::size_t j = i * system.columns; j < (i + 1) * system.columns; ++j) {
        weighted.a[j] = system.a[j] * weights[i];
      }
    }
    fit.x = nnls(weighted);
    if (system.rows() == 0) break;
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      residuals[i] = std::abs(row_times(system, i, fit.x) - system.b[i]) / measured[i];
    }
    fit.scale = kNormal * median(residuals);
    const double threshold = kHuber * std::max(fit.scale, kLeastScale);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] = std::sqrt(std::min(1.0, threshold / std::max(residuals[i], kLeastScale))) / measured[i];
    }
  }
  fit.standard_errors = standard_errors(weighted, fit.x);
  return fit;
}

}  // namespace ddlsim::calib
