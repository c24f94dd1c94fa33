// Fits the curve of convolutions (cost/convolution_time.h) to measured rows of one GPU and precision.
//
// Forward rows first, all algorithms together, since no row says which of them ran: all that cuDNN's kernel names know,
// by Levenberg-Marquardt in logarithms (calib/gemm_fit.h), then less what the curve can do without (0.25 % of the
// cost). The gradients' constants follow on their rows: input and strided by medians, the three of the weights by least
// squares; where there are none, what hardware/gpu_profile.h says stands. Held out is every fifth distinct shape and
// batch, of all passes.
// A measurement adds
//   max(floor, overhead + overhead_growth rows_before^1.5 + the kernel)
// rows_before being the rows that the session measured before, because the public rows' overhead grows while they are
// measured, on all five GPUs alike (V100: from 55 us to 310 us over 5,000 rows of shapes in random order); without it
// 18 to 22 % of error that is no convolution's. Where no row says it, nothing grows. Worked example: overhead 50 us,
// overhead_growth 0.001 us, rows_before 2500: 50 + 0.001 x 125,000 = 175 us are added. Source: the power is that of the
// five GPUs' shortest rows against the rows before them (1.4 to 1.6). Limits: an algorithm that no row asks for keeps
// its default; on tensor cores no Winograd is fitted.
//
// Rows are sorted into curves by calib/fit.h; the curve is written by io/profile_file.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ddlsim/calib/gemm_fit.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/support/error.h"

namespace ddlsim::calib {

struct ConvolutionRow {
  primitives::ConvolutionShape shape;
  std::int64_t batch = 1;
  Time time{};
  std::int64_t rows_before = 0;  // rows that the session measured before
};

/// Fails for fewer than 12 forward rows, sizes or times that are not positive, rows of one shape.
[[nodiscard]] Expected<hardware::ConvolutionCurve> fit_convolutions(std::span<const ConvolutionRow> rows,
                                                                    const hardware::DeviceSpec& spec,
                                                                    Precision precision,
                                                                    const GemmFitOptions& options = {});

/// What a measurement of this convolution would show: the curve's time with the overhead of its rows.
[[nodiscard]] Time as_measured(const hardware::ConvolutionCurve& curve, const hardware::DeviceSpec& spec,
                               const ConvolutionRow& row);

/// What the measurement adds to a row after `rows_before` others.
[[nodiscard]] Time overhead_of(const hardware::ConvolutionCurve& curve, std::int64_t rows_before);

/// Of this shape and batch, whether a fit holds it out.
[[nodiscard]] bool held_out(const primitives::ConvolutionShape& shape, std::int64_t batch);

}  // namespace ddlsim::calib
