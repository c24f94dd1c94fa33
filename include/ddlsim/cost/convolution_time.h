// Convolutions on a GPU: implicit GEMMs, Winograd, or what was measured.
//
// N images, C -> K channels in g groups, input H x W, output P x Q, kernel R x S. The library takes the fastest of
//
//   implicit GEMM: g of them (cost/gemm_time.h, k not split), which read the input once instead of R S times
//     forward            m = N P Q    n = K / g        k = C R S / g
//     input's gradient   m = N H W    n = C / g        k = K R S / g      times input_gradient
//       of strides       m = N P Q    n = C R S / g    k = K / g          times strided_gradient
//     weights' gradient  m = K / g    n = C R S / g    k = N P Q          times weight_gradient
//   GEMMs of a strided input's gradient are sent to where they add. The weights' gradient takes tiles either way round
//   and k in up to 256 parts, each weight_reduction_steps longer: parts are added where they meet.
//   C is a multiple of 8 where elements are narrower than 4 bytes: tensor cores pad.
//
//   fused Winograd: F(2 x 2, 3 x 3) in one kernel (cuDNN's WINOGRAD). A block makes 8 x 16 outputs of one image for 32
//   channels in 16 GEMMs of 32 x 32, k = C: 4 / 9 of the arithmetic where blocks are full; plus winograd_fused's
//   weight_passes (9 + 16) C K elements of weights
//
//   non-fused Winograd: F(4 x 4, 3 x 3) and F(2 x 2, 5 x 5) in kernels of their own (cuDNN's WINOGRAD_NONFUSED).
//   36 GEMMs m = N ceil(P / side) ceil(Q / side), n = K, k = C in tiles of its own; plus its extra_launches,
//   activation_passes of inputs, outputs and 36 m (C + K) transformed, weight_passes (R S + 36) C K
//
//   depthwise (C / g or K / g at most 4): twice the time of moving everything once
//
// Winograd: stride 1, dilation 1, one group. The input's gradient swaps C and K; the weights' gradient (non-fused
// alone) makes GEMMs of m = K, n = C, k = places, times weight_winograd. An exact shape and batch that was measured is
// taken as measured; of the same shape at another batch the nearest (in its ratio) is scaled by the closed form.
// Sources: Chetlur et al., cuDNN, arXiv:1410.0759 (implicit GEMMs); Lavin and Gray, CVPR 2016 (Winograd). Which
// algorithms run, their tiles and blocks: kernel names and grids of sitar-lab/NeuSight's measurements (a fused block is
// ceil(P / 8) by ceil(Q / 16) by N ceil(K / 32) of every grid on V100). 5 x 5, gradients and padding: DeepBench's rows.
// Depthwise: assumed; where that is less, what an H200 took counts (cost/image_kernels.h).
// A 1 x 1 convolution is no faster than its implicit GEMM: to take the plain GEMM's curve where that is faster was
// tried, and doubles the error on DeepBench's 1 x 1 rows of V100 in fp32, which no fit saw (25 % for 12 %).
// Limits: heuristics of a library are taken to be right; its version matters (gradients of strides and of 3 x 3 took up
// to twice as long before cuDNN 7); FFT algorithms, layout conversions between NCHW and NHWC and workspace limits are
// left out.
//
// Worked example: N 2, C 64, K 32, 16 x 16, 3 x 3, stride 1: forward m = 512, n = 32, k = 576: 9,437,184 multiply-adds;
// F(2 x 2): 4 blocks of 16 x 32 x 32 x 64, 4,194,304; F(4 x 4): 36 GEMMs of m = 32, n = 32, k = 64, 2,359,296.
//
// Fitted by calib/convolution_fit.h, read from hardware/calibration by io/profile_file.h; layers add up in
// cost/kernel_time.h.
#pragma once

#include <optional>
#include <span>

#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/support/provenance.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

/// What the library chooses: its time, and the share of the direct algorithm's FLOPs that it executes (4/9 by F(2 x 2,
/// 3 x 3), 1/4 by F(4 x 4, 3 x 3), 9/25 by F(2 x 2, 5 x 5)).
struct ConvolutionChoice {
  Time time{};
  double arithmetic = 1;
};
[[nodiscard]] ConvolutionChoice convolution_choice(const hardware::ConvolutionCurve& curve,
                                                   const hardware::DeviceSpec& spec,
                                                   const primitives::ConvolutionShape& shape, double batch,
                                                   DataSize element);

/// The closed form, overheads of measurements apart.
[[nodiscard]] Time convolution_time(const hardware::ConvolutionCurve& curve, const hardware::DeviceSpec& spec,
                                    const primitives::ConvolutionShape& shape, double batch, DataSize element);

/// The GEMM that a pass of a convolution is.
[[nodiscard]] hardware::GemmSize implicit_gemm(const primitives::ConvolutionShape& shape, double batch);

struct ConvolutionAnswer {
  Time time{};
  Provenance provenance = Provenance::kAnalytic;
};

/// From the measured table, which is in the order ByShape, where the shape is in it; nothing otherwise. `curve` scales
/// between batches; null: in proportion to the batch.
[[nodiscard]] std::optional<ConvolutionAnswer> measured_convolution(
    std::span<const hardware::MeasuredConvolution> table, const hardware::ConvolutionCurve* curve,
    const hardware::DeviceSpec& spec, Precision precision, const primitives::ConvolutionShape& shape, double batch);

}  // namespace ddlsim::cost
