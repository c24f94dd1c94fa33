#include "ddlsim/calib/holdout.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ddlsim::calib {
namespace {

constexpr double kHeld = 0.9;
constexpr double kEachSide = 0.05;
constexpr double kShown = 0.5;  // of a measurement is the kernel's
// Two passes of one benchmark differ by 0.1 % (nccl-tests' and MLPerf's logs).
constexpr double kRepeats = 0.001;

/// Both ends as far from 1: too few ratios to tell them apart.
std::pair<double, double> symmetric_interval(const std::vector<double>& ratios) {
  std::vector<double> away;
  for (const double ratio : ratios) {
    if (!(ratio > 0)) return {0.0, std::numeric_limits<double>::infinity()};
    away.push_back(std::max(ratio, 1 / ratio));
  }
  std::sort(away.begin(), away.end());
  const auto rank = static_cast<std::size_t>(std::ceil(kHeld * static_cast<double>(away.size() + 1)));
  const double end = rank <= away.size() ? away[rank - 1] : away.back() * std::sqrt(away.back());
  return {1 / end, end};
}

}  // namespace

std::uint64_t shape_hash(std::span<const std::int64_t> shape) {
  // splitmix64's mixing step (Steele et al. 2014), over the integers in turn.
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
  for (const std::int64_t value : shape) {
    hash += static_cast<std::uint64_t>(value) + 0x9e3779b97f4a7c15ULL;
    hash = (hash ^ (hash >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    hash = (hash ^ (hash >> 27U)) * 0x94d049bb133111ebULL;
    hash ^= hash >> 31U;
  }
  return hash;
}

int fold_of(std::span<const std::int64_t> shape) { return static_cast<int>(shape_hash(shape) % kFolds); }

double ComparedRow::predicted() const { return std::max(floor, overhead + kernel); }

double mean_error(std::span<const ComparedRow> rows) {
  double sum = 0;
  for (const ComparedRow& row : rows) sum += std::abs(row.predicted() / row.measured - 1.0);
  return rows.empty() ? 0.0 : sum / static_cast<double>(rows.size());
}

void fill_errors(std::span<const ComparedRow> held_out, hardware::CurveReport& report) {
  report.held_out = static_cast<std::int64_t>(held_out.size());
  if (held_out.empty()) return;
  std::vector<double> errors;
  std::vector<ComparedRow> above;
  double bias = 0;
  for (const ComparedRow& row : held_out) {
    const double signed_error = row.predicted() / row.measured - 1.0;
    bias += signed_error;
    errors.push_back(std::abs(signed_error));
    if (row.predicted() > row.floor) above.push_back(row);
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
  report.above_floor = static_cast<std::int64_t>(above.size());
  report.above_floor_mean = mean_error(above);
}

std::optional<double> kernel_ratio(const ComparedRow& row) {
  const double shown = row.predicted();
  if (!(row.kernel > 0) || shown <= row.floor || row.kernel < kShown * shown) return std::nullopt;
  return (row.measured - row.overhead) / row.kernel;
}

std::vector<double> kernel_ratios(std::span<const ComparedRow> rows) {
  std::vector<double> most;
  std::vector<double> all;
  for (const ComparedRow& row : rows) {
    if (const auto ratio = kernel_ratio(row)) most.push_back(*ratio);
    if (row.kernel > 0 && row.predicted() > row.floor) all.push_back((row.measured - row.overhead) / row.kernel);
  }
  return most.empty() ? all : most;
}

void fill_interval(std::span<const ComparedRow> cross_validated, std::span<const ComparedRow> held_out,
                   hardware::CurveReport& report) {
  report.interval = conformal_interval(kernel_ratios(cross_validated));
  // What the overhead swallows may leave nothing of a kernel, but never less.
  report.interval.first = std::max(report.interval.first * (1 - kRepeats), 0.0);
  report.interval.second *= 1 + kRepeats;
  report.coverage = coverage_of(report.interval, kernel_ratios(held_out));
}

std::pair<double, double> conformal_interval(std::vector<double> ratios) {
  if (ratios.empty()) return {0.0, std::numeric_limits<double>::infinity()};
  const auto n = static_cast<double>(ratios.size());
  const auto low = static_cast<std::size_t>(std::floor(kEachSide * (n + 1)));
  if (low == 0) return symmetric_interval(ratios);
  std::sort(ratios.begin(), ratios.end());
  const auto high = static_cast<std::size_t>(std::ceil((1 - kEachSide) * (n + 1)));
  return {ratios[low - 1], ratios[std::min(high, ratios.size()) - 1]};
}

double coverage_of(std::pair<double, double> interval, std::span<const double> ratios) {
  if (ratios.empty()) return 0.0;
  const auto within = std::count_if(ratios.begin(), ratios.end(),
                                    [&](double ratio) { return interval.first <= ratio && ratio <= interval.second; });
  return static_cast<double>(within) / static_cast<double>(ratios.size());
}

}  // namespace ddlsim::calib
