// Which rows a fit may see, and what it is worth on those it may not: one set of rules for every family of curves.
//
// Rows are dealt by a hash of their shape, so that repetitions of a shape stay together and a row's fold does not
// depend on the other rows. Of five folds the first is kept for the report; the second chooses between models that the
// other three were fitted to. The parameters in a profile are fitted to all but the report's rows.
// Interval: cross-conformal over the four other folds. Each is predicted by a fit to the other three, which gives n
// ratios (measured - overhead) / kernel of the rows that show a kernel: the kernel rises above the measurement's floor
// and is at least half of what was measured. The ends are
//   n >= 19      the ratios with ranks floor(0.05 (n + 1)) and ceil(0.95 (n + 1))
//   9 <= n < 19  e^-q and e^q, q the |ln ratio| with rank ceil(0.9 (n + 1))
//   n < 9        no rank holds 90 %: the largest |ln ratio| and half as much again
// and 0.1 % on either side. Coverage is counted on the report's rows, which had no part in the ends.
// Worked example: ten ratios, the ninth |ln ratio| 0.09 and the tenth 0.1: rank ceil(9.9) = 10, ends e^-0.1 and e^0.1.
// Sources: Vovk, "Cross-conformal predictors" (2015); Lei et al., "Distribution-free predictive inference for
// regression" (2018).
//
// Used by calib/gemm_fit.h, calib/convolution_fit.h and calib/memory_bound_fit.h; the figures end in
// hardware::CurveReport (hardware/gpu_profile.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ddlsim/hardware/gpu_profile.h"

namespace ddlsim::calib {

inline constexpr int kFolds = 5;
inline constexpr int kReportFold = 0;
inline constexpr int kSelectFold = 1;

/// A number that depends on the integers alone, whatever machine and library.
[[nodiscard]] std::uint64_t shape_hash(std::span<const std::int64_t> shape);

/// The fold of a shape, by all the integers that make it.
[[nodiscard]] int fold_of(std::span<const std::int64_t> shape);

/// A measured row beside what a curve says of it, in seconds.
struct ComparedRow {
  double kernel = 0;  // the curve's
  double measured = 0;
  double overhead = 0;  // of the measurement
  double floor = 0;

  [[nodiscard]] double predicted() const;  // the whole measurement
};

/// Mean of |predicted / measured - 1|; 0 without rows.
[[nodiscard]] double mean_error(std::span<const ComparedRow> rows);

/// Fills held_out, mean, median, p95, worst and bias, and both figures above the floor.
void fill_errors(std::span<const ComparedRow> held_out, hardware::CurveReport& report);

/// (measured - overhead) / kernel; nothing where the row does not show the kernel.
[[nodiscard]] std::optional<double> kernel_ratio(const ComparedRow& row);

/// Of the rows that show their kernel; where none does, of all above the floor.
[[nodiscard]] std::vector<double> kernel_ratios(std::span<const ComparedRow> rows);

/// Fills interval and coverage: `cross_validated` are rows by fits that did not see them, `held_out` those of the
/// report.
void fill_interval(std::span<const ComparedRow> cross_validated, std::span<const ComparedRow> held_out,
                   hardware::CurveReport& report);

/// The 90 % interval of measured / predicted. {0, infinity} without ratios, or with one that is not positive at the
/// end it sets.
[[nodiscard]] std::pair<double, double> conformal_interval(std::vector<double> ratios);

/// Share of ratios within; 0 without ratios.
[[nodiscard]] double coverage_of(std::pair<double, double> interval, std::span<const double> ratios);

}  // namespace ddlsim::calib
