// Fits the curve of convolutions (cost/convolution_time.h) to measured rows of one GPU and precision.
//
// As products are fitted (calib/product_fit.h), on the forward rows: the implicit product's curve and the two Winograd
// algorithms together, since no row says which of them ran. The ratios of the gradients are medians over their rows,
// 1 where there are none. Held out is every fifth distinct shape and batch, of all passes.
// Limits: an algorithm that no row asks for keeps its default; where no row could use Winograd, none is fitted.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ddlsim/calib/product_fit.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/support/error.h"

namespace ddlsim::calib {

struct ConvolutionRow {
  ConvolutionShape shape;
  std::int64_t batch = 1;
  Time time{};
};

/// Fails for fewer than 12 forward rows, sizes or times that are not positive, rows of one shape.
[[nodiscard]] Expected<hardware::ConvolutionCurve> fit_convolutions(std::span<const ConvolutionRow> rows,
                                                                    const hardware::DeviceSpec& spec,
                                                                    Precision precision,
                                                                    const ProductFitOptions& options = {});

/// What a measurement of this convolution would show: the curve's time with the overhead of its rows.
[[nodiscard]] Time as_measured(const hardware::ConvolutionCurve& curve, const hardware::DeviceSpec& spec,
                               const ConvolutionShape& shape, std::int64_t batch);

/// Of this shape and batch, whether a fit holds it out.
[[nodiscard]] bool held_out(const ConvolutionShape& shape, std::int64_t batch);

}  // namespace ddlsim::calib
