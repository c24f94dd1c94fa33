// Which rows a fit may see, and what it is worth on those it may not.
//
// Rows are dealt by a hash of their shape, so that repetitions of a shape stay together and a row's fold does not
// depend on the other rows. Of five folds the first is kept for the report; the second chooses between models that the
// other three were fitted to. The parameters in a profile are fitted to all but the report's rows.
// Interval: cross-conformal over the four other folds. Each is predicted by a fit to the other three; of the n ratios
// measured / predicted, those with ranks floor(0.05 (n + 1)) and ceil(0.95 (n + 1)) are the ends. With fewer than 19
// ratios no rank holds 90 %, and the extremes are moved out by half. Its coverage is counted on the report's rows.
// Sources: Vovk, "Cross-conformal predictors" (2015); Lei et al., "Distribution-free predictive inference for
// regression" (2018).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ddlsim/hardware/gpu_profile.h"

namespace ddlsim::calib {

inline constexpr int kFolds = 5;
inline constexpr int kReportFold = 0;
inline constexpr int kSelectFold = 1;

/// The fold of a shape, by all the integers that make it.
[[nodiscard]] int fold_of(std::span<const std::int64_t> shape);

struct Judged {
  double predicted = 0;
  double measured = 0;
};

/// Mean of |predicted / measured - 1|; 0 without rows.
[[nodiscard]] double mean_error(std::span<const Judged> rows);

/// Fills held_out, mean, median, p95, worst and bias.
void judge(std::span<const Judged> held_out, hardware::CurveReport& report);

/// The 90 % interval of measured / predicted. {0, infinity} without ratios.
[[nodiscard]] std::pair<double, double> conformal_interval(std::vector<double> ratios);

/// Share of ratios within; 0 without ratios.
[[nodiscard]] double coverage_of(std::pair<double, double> interval, std::span<const double> ratios);

}  // namespace ddlsim::calib
