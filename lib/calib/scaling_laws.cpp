#include "ddlsim/calib/scaling_laws.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddlsim::calib {
namespace {

/// ln a of t = a g(n), and the squares that are left; `g` gives ln g.
template <typename Shape>
std::pair<double, double> fitted(std::span<const ScalingPoint> points, const Shape& g) {
  double mean = 0;
  for (const ScalingPoint& p : points) {
    mean += (std::log(p.step.in(seconds)) - g(p.gpus)) / static_cast<double>(points.size());
  }
  double squares = 0;
  for (const ScalingPoint& p : points) squares += std::pow(std::log(p.step.in(seconds)) - g(p.gpus) - mean, 2);
  return {mean, squares};
}

}  // namespace

Time perfect_scaling(std::span<const ScalingPoint> points) {
  return seconds(std::exp(fitted(points, [](double) { return 0.0; }).first));
}

Time amdahl_scaling(std::span<const ScalingPoint> points, double gpus) {
  const auto of_one_size = [&](const ScalingPoint& p) { return p.gpus == points.front().gpus; };
  if (std::all_of(points.begin(), points.end(), of_one_size)) return perfect_scaling(points);
  const auto shape = [](double s) { return [s](double n) { return std::log1p(s * (n - 1)); }; };
  const auto squares = [&](double log_s) { return fitted(points, shape(std::exp(log_s))).second; };
  // Golden section over ln s; the squares have one minimum there, or none before s = 0.
  constexpr double kGolden = 0.6180339887498949;
  double low = std::log(1e-9);
  double high = std::log(1e3);
  while (high - low > 1e-9) {
    const double left = high - kGolden * (high - low);
    const double right = low + kGolden * (high - low);
    if (squares(left) <= squares(right)) {
      high = right;
    } else {
      low = left;
    }
  }
  const auto best = shape(std::exp(low));
  return seconds(std::exp(fitted(points, best).first + best(gpus)));
}

Time power_law_scaling(std::span<const ScalingPoint> points, double gpus) {
  const auto count = static_cast<double>(points.size());
  double x_mean = 0;
  double y_mean = 0;
  for (const ScalingPoint& p : points) {
    x_mean += std::log(p.gpus) / count;
    y_mean += std::log(p.step.in(seconds)) / count;
  }
  double xx = 0;
  double xy = 0;
  for (const ScalingPoint& p : points) {
    const double x = std::log(p.gpus) - x_mean;
    xx += x * x;
    xy += x * (std::log(p.step.in(seconds)) - y_mean);
  }
  const double slope = xx > 0 ? xy / xx : 0;
  return seconds(std::exp(y_mean + slope * (std::log(gpus) - x_mean)));
}

}  // namespace ddlsim::calib
