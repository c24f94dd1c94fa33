#include "ddlsim/calib/holdout.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ddlsim::calib {

int fold_of(std::span<const std::int64_t> shape) {
  // splitmix64's mixing step (Steele et al. 2014), over the integers in turn.
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
  for (const std::int64_t value : shape) {
    hash += static_cast<std::uint64_t>(value) + 0x9e3779b97f4a7c15ULL;
    hash = (hash ^ (hash >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    hash = (hash ^ (hash >> 27U)) * 0x94d049bb133111ebULL;
    hash ^= hash >> 31U;
  }
  return static_cast<int>(hash % kFolds);
}

double mean_error(std::span<const Judged> rows) {
  double sum = 0;
  for (const Judged& row : rows) sum += std::abs(row.predicted / row.measured - 1.0);
  return rows.empty() ? 0.0 : sum / static_cast<double>(rows.size());
}

void judge(std::span<const Judged> held_out, hardware::CurveReport& report) {
  report.held_out = static_cast<std::int64_t>(held_out.size());
  if (held_out.empty()) return;
  std::vector<double> errors;
  double bias = 0;
  for (const Judged& row : held_out) {
    const double signed_error = row.predicted / row.measured - 1.0;
    bias += signed_error;
    errors.push_back(std::abs(signed_error));
  }
  std::sort(errors.begin(), errors.end());
  const auto rank = [&](double share) {
    const auto position = static_cast<std::size_t>(std::ceil(share * static_cast<double>(errors.size())));
    return errors[std::clamp<std::size_t>(position, 1, errors.size()) - 1];
  };
  report.mean = mean_error(held_out);
  report.bias = bias / static_cast<double>(errors.size());
  report.median = rank(0.5);
  report.p95 = rank(0.95);
  report.worst = errors.back();
}

std::pair<double, double> conformal_interval(std::vector<double> ratios) {
  if (ratios.empty()) return {0.0, std::numeric_limits<double>::infinity()};
  std::sort(ratios.begin(), ratios.end());
  const auto n = static_cast<double>(ratios.size());
  const auto low = static_cast<std::size_t>(std::floor(0.05 * (n + 1)));
  if (low == 0) return {ratios.front() / 1.5, ratios.back() * 1.5};
  const auto high = static_cast<std::size_t>(std::ceil(0.95 * (n + 1)));
  return {ratios[low - 1], ratios[std::min(high, ratios.size()) - 1]};
}

double coverage_of(std::pair<double, double> interval, std::span<const double> ratios) {
  if (ratios.empty()) return 0.0;
  const auto within = std::count_if(ratios.begin(), ratios.end(),
                                    [&](double ratio) { return interval.first <= ratio && ratio <= interval.second; });
  return static_cast<double>(within) / static_cast<double>(ratios.size());
}

}  // namespace ddlsim::calib
