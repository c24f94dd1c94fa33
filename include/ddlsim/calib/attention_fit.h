// Fits the curve of flash attention (cost/attention_time.h) to measured rows of one GPU, precision and pass.
//
//   minimised  as of GEMMs (calib/gemm_fit.h)
//   predicted  max(floor, overhead + copied_passes (bytes of keys and values) / B + attention_time)
// Each series has its overhead, floor and copied_passes (forward alone): servers' kernels write keys and values into a
// cache besides, which no training step does, nor a series that has backward passes. A series that no fit saw has
// nothing added. Efficiency and tiles_to_fill are each width's own; a width with fewer than kLeastOfAWidth shapes has
// none and takes those of the widths beside it.
// The rows of a width's tile are the best of 64, 128, 192 and 256, tried one width after the other. Backward rows are
// few: they start from and are pulled to the forward curve. Every fifth distinct shape is held out for the report
// (calib/holdout.h). Limits: one curve for all of a library's kernels of a pass: what it gains by splitting keys is not
// seen.
// memory_efficiency ends at 1: few rows wait for memory, and the others would put it anywhere (an H200's own forward
// rows at an end of 1.5, and 5.7 % off those held out; at 0.94, and 3.9).
//
// Rows are sorted into curves by calib/fit.h; the curve is written by io/profile_file.h.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/primitives/kernel.h"
#include "ddlsim/support/error.h"

namespace ddlsim::calib {

inline constexpr std::size_t kLeastOfAWidth = 3;

struct AttentionRow {
  primitives::AttentionShape shape;
  std::int64_t batch = 1;
  Time time{};
  std::string series;
};

struct AttentionFitOptions {
  std::int64_t most_rows = 1200;                      // that the nonlinear search sees
  std::string measured;                               // for the report
  const hardware::AttentionCurve* forward = nullptr;  // where a backward fit starts; not owned
  std::set<std::string> training;                     // series with backward passes
};

/// Fails for fewer than 8 rows, rows of several passes, sizes or times that are not positive, rows of one shape.
[[nodiscard]] Expected<hardware::AttentionCurve> fit_attention(std::span<const AttentionRow> rows,
                                                               const hardware::DeviceSpec& spec, Precision precision,
                                                               const AttentionFitOptions& options = {});

/// What the measurement adds to a row.
[[nodiscard]] hardware::MeasuringOverhead overhead_of(const hardware::AttentionCurve& curve,
                                                      const hardware::DeviceSpec& spec, const AttentionRow& row);

/// What a measurement of this shape would show.
[[nodiscard]] Time as_measured(const hardware::AttentionCurve& curve, const hardware::DeviceSpec& spec,
                               const AttentionRow& row);

}  // namespace ddlsim::calib
