// When a time is known well enough, and what it is. Host only.
//
// The median of n samples lies between the r-th smallest and the r-th largest with a confidence of
// 1 - 2 P(B < r), B binomial(n, 1/2), whatever the samples' distribution (order statistics; David and Nagaraja, Order
// Statistics, 7.1). Sampling ends when half that interval is under 0.5 % of the median, or when the time is up.
// Example: of 9 samples, the 2nd smallest and the 2nd largest hold the median with 96 % confidence.
//
// Two modes (clocks that jump, two algorithms in turn): a gap of over 20 % of the median between neighbours in order,
// with at least 20 % of the samples on either side.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ddlsim::measure {

/// The greatest r with at least 95 % confidence; 0: too few samples for any.
inline std::size_t interval_rank(std::size_t n) {
  double term = std::pow(0.5, static_cast<double>(n));
  double below = term;  // P(B < r)
  std::size_t r = 0;
  while (below <= 0.025 && r < n / 2) {
    ++r;
    term *= static_cast<double>(n - r + 1) / static_cast<double>(r);
    below += term;
  }
  return r;
}

struct Summary {
  double median = 0;
  double mad = 0;  // median of |sample - median|
  double min = 0;
  double half_interval = INFINITY;  // share of the median
  std::size_t samples = 0;
  bool two_modes = false;
};

inline double median_of_sorted(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
}

inline bool has_two_modes(const std::vector<double>& sorted) {
  const std::size_t fewest = std::max<std::size_t>(2, (sorted.size() + 4) / 5);
  const double gap = 0.2 * median_of_sorted(sorted);
  for (std::size_t i = fewest; i + fewest <= sorted.size(); ++i) {
    if (sorted[i] - sorted[i - 1] > gap) return true;
  }
  return false;
}

/// `samples` must not be empty.
inline Summary summarise(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  Summary summary;
  summary.samples = samples.size();
  summary.median = median_of_sorted(samples);
  summary.min = samples.front();
  summary.two_modes = has_two_modes(samples);
  const std::size_t r = samples.size() > 1000 ? 0 : interval_rank(samples.size());
  if (r > 0) summary.half_interval = 0.5 * (samples[samples.size() - r] - samples[r - 1]) / summary.median;
  for (double& sample : samples) sample = std::abs(sample - summary.median);
  std::sort(samples.begin(), samples.end());
  summary.mad = median_of_sorted(samples);
  return summary;
}

struct StopRule {
  std::size_t least = 9;
  std::size_t least_late = 3;  // when the time is up
  std::size_t most = 200;
  double half_interval = 0.005;
  double seconds = 0.1;
};

inline bool enough(const std::vector<double>& samples, double seconds, const StopRule& rule) {
  if (samples.size() >= rule.most) return true;
  if (seconds >= rule.seconds) return samples.size() >= rule.least_late;
  return samples.size() >= rule.least && summarise(samples).half_interval < rule.half_interval;
}

}  // namespace ddlsim::measure
