// Kernels between convolutions that take longer than moving their bytes, by how images lie.
//
// S: multiprocessors, c: a cycle of theirs, C: channels, N: numbers read and written, t_m: the time of moving them
// (cost/memory_bound_time.h, the element-wise curve).
//
//   batch normalisation, images channel by channel    t = max(1.5 t_m, 0.475 c N / min(C, 1.43 S))
//     One block for each channel, which takes as long for numbers of 16 bits as of 32: few channels leave
//     multiprocessors idle, and short numbers save nothing where memory is fast.
//   batch normalisation, images pixel by pixel        t = 1.25 t_m
//   either in bf16, which PyTorch gives to kernels of its own: 1.33 and 1.75 times that
//   pooling by windows                                t = max(t_m, 1.23 c N / S)
//   depthwise convolution, k taps a channel           t = max(t of cost/convolution_time.h, f(k) c N / S)
//     channel by channel, or in 32 bits               f = 0.93 + 0.101 k
//     pixel by pixel in 16 bits                       f = 0.101 + 0.0196 k
//
// c by the datasheet's peak in fp32, S and the lanes of a multiprocessor: 64 of P100, Volta, Turing and A100, else 128.
//
// Source: what the kernels of 24 torchvision models took on an H200 (bench/calibrate/measured/h200-sxm5-141gb,
// zoo-kernels: PyTorch 2.11, cuDNN 9.19), by name. Normalisation in fp32 and TF32 is 3 % off over 18 models, which lie
// from 1.5 to 5 times the bytes' time; depthwise ones of 3 x 3 and 5 x 5 are 5 % off. One GPU was measured: that blocks
// take as many cycles on other generations is assumed.
// Limits: kernels of 7 x 7 in 32 bits take twice as long again (ConvNeXt); average pooling of windows that overlap
// takes up to 1.6 times as long; group norm is listed as batch normalisation.
//
// Worked example: 64 images of 64 channels, 112 x 112, forward, fp32, on an H200 (c = 0.505 ns): N = 3 * 51.4 million,
// 617 MB, 0.14 ms moved at 4.4 TB/s, 0.21 ms in 1.5 passes; 154 million numbers by 64 blocks: 0.58 ms.
#pragma once

#include <cstdint>

#include "ddlsim/hardware/gpu.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

/// How a kernel's images lie, and in what numbers.
struct ImageNumbers {
  bool channels_first = true;
  Precision precision = Precision::kFp32;
};

/// What works on images.
struct ImageDevice {
  double multiprocessors = 1;
  Time cycle{};
};
[[nodiscard]] ImageDevice image_device(const hardware::Gpu& gpu);

/// Of batch normalisation that reads and writes `elements`, the batch included, of images of `channels`; `moved`: t_m.
[[nodiscard]] Time batch_norm_time(const ImageDevice& device, Time moved, double elements, std::int64_t channels,
                                   ImageNumbers numbers);

/// The least time of pooling that reads and writes `elements`.
[[nodiscard]] Time least_pooling_time(const ImageDevice& device, double elements);

/// The least time of a pass of a depthwise convolution of `taps` (9: 3 x 3) that reads and writes `elements`.
[[nodiscard]] Time least_depthwise_time(const ImageDevice& device, std::int64_t taps, double elements,
                                        ImageNumbers numbers);

}  // namespace ddlsim::cost
