// What the report of errors counts.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

/// The least value at which so large a share of all weight is reached. Requires a value.
inline double weighted_quantile(std::vector<std::pair<double, double>> values, double share) {
  std::sort(values.begin(), values.end());
  double all = 0;
  for (const auto& [value, weight] : values) all += weight;
  double sum = 0;
  for (const auto& [value, weight] : values) {
    sum += weight;
    if (sum >= share * all) return value;
  }
  return values.back().first;
}

/// Of no value 0; of an even number the upper one.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

/// Of no value 0.
inline double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}
