// How far a stored profile is from measured rows.
//
// Each row is predicted by its curve, with what its way of measuring adds (nothing where the profile does not know the
// series), and without it. A curve's interval is asked of the rows that show a kernel: above the floor, the kernel at
// least half of the measurement; (measured - overhead) / kernel must lie within.
// Re-anchoring: the median of that ratio over the first N such rows of a curve scales the curve's kernels for the rest:
// one number for a GPU that is clocked or cooled otherwise.
// Worked example: kernels of 10, 20 and 40 us, measured in 11, 22 and 44 us without overhead: 9.1 % off; with one row
// as anchor the scale is 1.1 and the other two are met.
//
// Rows come from io/kernel_file.h, profiles from io/catalog.h; shown by report/views.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/hardware/gpu.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/primitives/kernel.h"

namespace ddlsim::calib {

/// What reports call a curve: "gemm fp16 batched", "convolution fp32", "softmax of rows from 1025", "attention
/// bf16 forward".
[[nodiscard]] std::string name_of_curve(const hardware::GemmCurve& curve);
[[nodiscard]] std::string name_of_curve(const hardware::ConvolutionCurve& curve);
[[nodiscard]] std::string name_of_curve(const hardware::MemoryBoundCurve& curve);
[[nodiscard]] std::string name_of_curve(const hardware::AttentionCurve& curve);

/// What a profile says of one measured row.
struct RowPrediction {
  std::string curve;
  const hardware::CurveReport* report = nullptr;  // of the profile
  Time kernel{};
  hardware::MeasuringOverhead added;
};

/// Nothing where the profile has no curve for the row.
[[nodiscard]] std::optional<RowPrediction> predict_row(const hardware::GpuProfile& profile, const hardware::Gpu& gpu,
                                                       const primitives::KernelMeasurement& row);

struct CheckedCurve {
  std::string curve;
  hardware::CurveReport errors;                     // held_out, mean ... bias: over all rows of the curve
  std::pair<double, double> interval{1, 1};         // as the profile has it
  std::int64_t asked = 0;                           // rows that show a kernel
  std::int64_t outside = 0;                         // of them, outside the interval
  double scale = 1;                                 // of the kernels, from the anchor's rows
  std::optional<hardware::CurveReport> anchored{};  // errors of the other rows after scaling
};

struct ProfileCheck {
  std::string profile;
  std::vector<CheckedCurve> curves;  // in the order of the rows
  std::int64_t without_curve = 0;    // rows
  std::int64_t left_out = 0;         // throttled or cold
};

/// `anchor`: how many rows set the scale; 0: none.
[[nodiscard]] ProfileCheck check_profile(const hardware::GpuProfile& profile, const hardware::Gpu& gpu,
                                         std::span<const primitives::KernelMeasurement> rows, std::int64_t anchor = 0);

/// Whether more rows of a curve lie outside its interval than 90 % allows: over `share` of them, and more than one.
[[nodiscard]] bool too_often_outside(const CheckedCurve& curve, double share = 0.2);

}  // namespace ddlsim::calib
