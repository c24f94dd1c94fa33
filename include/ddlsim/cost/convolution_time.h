// Convolutions on a GPU: implicit products, Winograd, or what was measured.
//
// N images, C -> K channels in g groups, input H x W, output P x Q, kernel R x S. The library takes the fastest of
//   implicit product  products = g (cost/product_time.h), which reads the input once instead of R S times
//     forward            m = N P Q    n = K / g        k = C R S / g
//     input's gradient   m = N H W    n = C / g        k = K R S P Q / (g H W)      (times input_gradient)
//     weights' gradient  m = K / g    n = C R S / g    k = N P Q                    (times weight_gradient); its long
//                        k is split as that of a plain product, at the default costs of ProductCurve
//   F(2 x 2, 3 x 3)   16 products m = N ceil(P / 2) ceil(Q / 2), n = K, k = C, times winograd2.rate, plus its start and
//                     winograd2.moved (9 + 16) C K elements of weights transformed; fused, so 4 / 9 of the arithmetic
//   F(4 x 4, 3 x 3)   36 products m = N ceil(P / 4) ceil(Q / 4) likewise, plus winograd4.moved of all that its kernels
//                     move: weights (9 + 36) C K, inputs N C H W + 36 C m, outputs 36 K m + N K P Q; 1 / 4 of it
//   depthwise         (C / g or K / g at most 4) twice the time of moving everything once
// Winograd: 3 x 3, stride 1, dilation 1, one group. The input's gradient swaps C and K, the weights' gradient makes
// products of m = K, n = C, k = places.
// An exact shape and batch that was measured is taken as measured; of the same shape at another batch the nearest (in
// its ratio) is scaled by the closed form. A 1 x 1 convolution of stride 1 is a plain product.
// Sources: Chetlur et al., cuDNN, arXiv:1410.0759 (implicit products); Lavin and Gray, CVPR 2016 (Winograd; fused and
// in kernels of its own). Which algorithms run, and that Winograd's products are batches of 16 and 36: kernel names and
// grids of sitar-lab/NeuSight's measurements. Depthwise: assumed, nobody's measurement.
// Limits: heuristics of a library are taken to be right; FFT algorithms, layout conversions between NCHW and NHWC and
// workspace limits are left out.
//
// Worked example: N 2, C 64, K 32, 4 x 4, 3 x 3, stride 1: forward m = 32, n = 32, k = 576; F(2 x 2): 16 products of
// m = 8, n = 32, k = 64: 262,144 multiply-adds for 589,824.
#pragma once

#include <optional>
#include <span>

#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/support/provenance.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

/// The closed form, overheads of measurements apart.
[[nodiscard]] Time convolution_time(const hardware::ConvolutionCurve& curve, const hardware::DeviceSpec& spec,
                                    const ConvolutionShape& shape, double batch, DataSize element);

/// The matrix product that a pass of a convolution is.
[[nodiscard]] hardware::ProductSize implicit_product(const ConvolutionShape& shape, double batch);

struct ConvolutionAnswer {
  Time time{};
  Provenance provenance = Provenance::kAnalytic;
};

/// From the measured table where the shape is in it; nothing otherwise. `curve` scales between batches; null: in
/// proportion to the batch.
[[nodiscard]] std::optional<ConvolutionAnswer> measured_convolution(
    std::span<const hardware::MeasuredConvolution> table, const hardware::ConvolutionCurve* curve,
    const hardware::DeviceSpec& spec, Precision precision, const ConvolutionShape& shape, double batch);

}  // namespace ddlsim::cost
