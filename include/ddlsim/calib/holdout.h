// Which rows a fit may see, and what it is worth on those it may not.
//
// Rows are dealt by a hash of their shape, so that repetitions of a shape stay together and a row's part does not
// depend on the other rows: of every five shapes one is kept for the report, one chooses between models and sets the
// interval, three are fitted for that choice. The parameters in a profile are fitted to all but the report's rows.
// Interval: split-conformal. Of the n ratios measured / predicted of rows that were not fitted, those with ranks
// floor(0.05 (n + 1)) and ceil(0.95 (n + 1)); with fewer than 19 ratios no rank holds 90 %, and the extremes are moved
// out by half. Its coverage is counted on the report's rows. Source: Lei et al., "Distribution-free predictive
// inference for regression" (2018).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ddlsim/hardware/gpu_profile.h"

namespace ddlsim::calib {

enum class Part { kFit, kSelect, kReport };

/// The part of a shape, by all the integers that make it.
[[nodiscard]] Part part_of(std::span<const std::int64_t> shape);

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
