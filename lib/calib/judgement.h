// How predictions did on rows they never saw.
#pragma once

#include <cstdint>
#include <vector>

#include "ddlsim/hardware/gpu_profile.h"

namespace ddlsim::calib {

/// Error figures, interval and cross-conformal coverage of predicted / measured; `half` says which rows judge which.
void judge_ratios(const std::vector<double>& predicted_to_measured, const std::vector<bool>& half,
                  hardware::CurveReport& report);

/// The q-quantile of values, by linear interpolation. Requires at least one.
[[nodiscard]] double quantile(std::vector<double> values, double q);

/// A number that depends on the words alone, whatever machine and library.
[[nodiscard]] std::uint64_t stable_hash(const std::vector<std::uint64_t>& words);

}  // namespace ddlsim::calib
