#include "judgement.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddlsim::calib {
namespace {

constexpr double kOneSided = 0.05;  // 90 % lie between

/// Split conformal: of n rows the ceil((n + 1) 0.95)-th, so that a new row is below it with 95 %.
std::pair<double, double> conformal(std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const double n = static_cast<double>(ratios.size());
  const double rank = std::min(n, std::ceil((n + 1) * (1 - kOneSided)));
  const auto upper = static_cast<std::size_t>(rank) - 1;
  return {ratios[ratios.size() - 1 - upper], ratios[upper]};
}

double covered(const std::vector<double>& ratios, std::pair<double, double> interval) {
  double inside = 0;
  for (const double ratio : ratios) inside += ratio >= interval.first && ratio <= interval.second ? 1 : 0;
  return inside;
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  if (below + 1 >= values.size()) return values.back();
  return values[below] + (place - static_cast<double>(below)) * (values[below + 1] - values[below]);
}

std::uint64_t stable_hash(const std::vector<std::uint64_t>& words) {
  std::uint64_t hash = 0x9e3779b97f4a7c15U;
  for (const std::uint64_t word : words) {
    // splitmix64 (Steele et al., OOPSLA 2014)
    hash += word + 0x9e3779b97f4a7c15U;
    hash = (hash ^ (hash >> 30U)) * 0xbf58476d1ce4e5b9U;
    hash = (hash ^ (hash >> 27U)) * 0x94d049bb133111ebU;
    hash ^= hash >> 31U;
  }
  return hash;
}

void judge_ratios(const std::vector<double>& predicted_to_measured, const std::vector<bool>& half,
                  hardware::CurveReport& report) {
  report.held_out = static_cast<std::int64_t>(predicted_to_measured.size());
  if (predicted_to_measured.empty()) return;
  std::vector<double> errors;
  std::vector<double> all;
  std::vector<double> one;
  std::vector<double> other;
  double sum = 0;
  double bias = 0;
  for (std::size_t i = 0; i < predicted_to_measured.size(); ++i) {
    const double ratio = predicted_to_measured[i];
    errors.push_back(std::abs(ratio - 1));
    sum += errors.back();
    bias += ratio - 1;
    all.push_back(1 / ratio);
    (half[i] ? one : other).push_back(1 / ratio);
  }
  const double count = static_cast<double>(errors.size());
  report.mean = sum / count;
  report.bias = bias / count;
  report.median = quantile(errors, 0.5);
  report.p95 = quantile(errors, 0.95);
  report.worst = *std::max_element(errors.begin(), errors.end());
  report.interval = conformal(all);
  report.coverage = 0;
  if (!one.empty() && !other.empty()) {
    report.coverage = (covered(one, conformal(other)) + covered(other, conformal(one))) / count;
  }
}

}  // namespace ddlsim::calib
