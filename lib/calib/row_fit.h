// What the fits of GEMMs and of convolutions share: which rows they see, how they are compared, where they end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "ddlsim/calib/attention_fit.h"
#include "ddlsim/calib/convolution_fit.h"
#include "ddlsim/calib/gemm_fit.h"
#include "ddlsim/calib/holdout.h"
#include "ddlsim/calib/robust.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "tile_search.h"

namespace ddlsim::calib {

/// The integers that make a row's shape, the salt first.
[[nodiscard]] std::vector<std::int64_t> shape_of(const GemmRow& row, std::int64_t salt);
[[nodiscard]] std::vector<std::int64_t> shape_of(const ConvolutionRow& row, std::int64_t salt);
[[nodiscard]] std::vector<std::int64_t> shape_of(const AttentionRow& row, std::int64_t salt);
[[nodiscard]] std::vector<std::int64_t> shape_of(const ExpertsRow& row, std::int64_t salt);

/// As a GEMM.
[[nodiscard]] hardware::GemmSize size_of(const GemmRow& row);
[[nodiscard]] hardware::GemmSize size_of(const ConvolutionRow& row);
[[nodiscard]] hardware::GemmSize size_of(const ExpertsRow& row);

inline constexpr std::int64_t kFoldSalt = 1;
inline constexpr std::int64_t kOrderSalt = 3;
/// Of fewer, a fit's choice of tiles hangs on single rows, so that refits choose their own.
inline constexpr std::size_t kFewRows = 300;

template <typename Row>
[[nodiscard]] int fold_of_row(const Row& row) {
  return fold_of(shape_of(row, kFoldSalt));
}

/// In an order that depends on the shapes alone.
template <typename Row>
[[nodiscard]] std::vector<Row> shuffled(std::span<const Row> rows) {
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t i = 0; i < rows.size(); ++i) order.emplace_back(shape_hash(shape_of(rows[i], kOrderSalt)), i);
  std::sort(order.begin(), order.end());
  std::vector<Row> all;
  all.reserve(rows.size());
  for (const auto& [hash, i] : order) all.push_back(rows[i]);
  return all;
}

template <typename Row, typename Wanted>
[[nodiscard]] std::vector<Row> rows_where(std::span<const Row> rows, Wanted wanted) {
  std::vector<Row> chosen;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(chosen), wanted);
  return chosen;
}

/// The logarithms of what was measured, and the least of it: all that a search needs of times.
struct LogTimes {
  std::vector<double> logs;
  double least = 0;  // seconds; the very least may be a fault of the clock
};

template <typename Row>
[[nodiscard]] LogTimes log_times(const std::vector<Row>& rows) {
  std::vector<double> times;
  LogTimes of;
  for (const Row& row : rows) {
    times.push_back(row.time.in(seconds));
    of.logs.push_back(ln(times.back()));
  }
  of.least = quantile(std::move(times), 0.005);
  return of;
}

[[nodiscard]] std::vector<hardware::CurveReport::Range> hull_of(const std::vector<AttentionRow>& rows);
template <typename Row>
[[nodiscard]] std::vector<hardware::CurveReport::Range> hull_of(const std::vector<Row>& rows) {
  std::vector<hardware::CurveReport::Range> fitted_ranges{
      {"batch_count", 0, 0}, {"m", 0, 0}, {"n", 0, 0}, {"k", 0, 0}, {"flop", 0, 0}};
  for (const Row& row : rows) {
    const hardware::GemmSize size = size_of(row);
    const double features[]{size.batch_count, size.m, size.n, size.k, 2 * size.batch_count * size.m * size.n * size.k};
    for (std::size_t f = 0; f < fitted_ranges.size(); ++f) {
      fitted_ranges[f].least = fitted_ranges[f].least > 0 ? std::min(fitted_ranges[f].least, features[f]) : features[f];
      fitted_ranges[f].most = std::max(fitted_ranges[f].most, features[f]);
    }
  }
  return fitted_ranges;
}

/// The report of a curve fitted to `fitted`: its figures from the rows held out, its interval from refits to three
/// folds of four each. `refit(rows)` gives a curve, `compared(curve, row)` what it says of a row.
template <typename Row, typename Curve, typename Refit, typename Compare>
[[nodiscard]] hardware::CurveReport report_of(const Curve& curve, const std::vector<Row>& fitted,
                                              const std::vector<Row>& held_out, Refit refit, Compare compared_by) {
  hardware::CurveReport report;
  std::vector<ComparedRow> asked;
  for (const Row& row : held_out) asked.push_back(compared_by(curve, row));
  fill_errors(asked, report);
  std::vector<ComparedRow> cross_validated;
  for (int fold = 0; fold < kFolds; ++fold) {
    const auto within = [&](const Row& row) { return fold_of_row(row) == fold; };
    const std::vector<Row> left_out = rows_where(std::span<const Row>(fitted), within);
    const std::vector<Row> rest = rows_where(std::span<const Row>(fitted), std::not_fn(within));
    if (left_out.empty() || rest.empty()) continue;
    const Curve other = refit(rest);
    for (const Row& row : left_out) cross_validated.push_back(compared_by(other, row));
  }
  fill_interval(cross_validated, asked, report);
  report.fitted = static_cast<std::int64_t>(fitted.size());
  report.fitted_ranges = hull_of(fitted);
  return report;
}

}  // namespace ddlsim::calib
