// Flash attention on a GPU: tiles of queries that go over the keys, waves, masks, memory.
//
// A multiprocessor takes a tile of M queries of one head and goes over the keys that they look at; the scores stay on
// the chip. Of a sequence of q queries and k keys, R = ceil(q / M) tiles per head:
//   time     = slow(max(compute, move) + not_overlapped min(compute, move))
//   compute  = u max(f (mean + prologue_steps), r (longest + prologue_steps))
//   u        = 2 M (a d + b v) / (efficiency P / S)      one key of one tile; P peak, S multiprocessors
//   f        = p max(ceil(x), r) + (1 - p) max(x, r)     tiles in a row; p partial_wave_cost, r tiles_to_fill
//   x        = batch heads R / S                         tiles per multiprocessor
//   keys that tile i looks at: k; causal: min(k, (i + 1) M + k - q); with a window w: at most w + M of them; masked
//   tiles take masked_steps more. mean and longest are over the tiles.
//   move     = attention_moved / (memory_efficiency B)
//   slow     as in cost/gemm_time.h
// d, v: widths of a head's keys and values; forward a = b = 1. Backward, tiles are of keys and go over the queries, and
// make the scores again and four more products: a = 3, b = 2 (Dao et al.).
// efficiency, r and M are those of the width (d + v) / 2; between two measured widths efficiency and r are taken in
// proportion to the width's logarithm and M is the nearer one's; outside, the nearest width's.
// Forward, attention_moved is attention_traffic: queries, keys, values and output once. Backward it is more, as three
// kernels share the work (flash_api.cpp and flash_bwd_launch_template.h of FlashAttention-2): of every query 8 d + 3 v
// elements (output and its gradient for their dot product; queries and the output's gradient again; the gradient of
// queries summed in fp32, which is zeroed, added to and cast: six of 16 bits, and one), of every key d + v read of each
// head of keys and as many written of each head of queries, as each makes its own gradients of keys and values; where
// heads share keys these are read again and their sums written.
//   Measured: 128 tokens, 512 sequences, 64 heads over 8, width 128 take 2.1 times as long as 32 over 32; elements 2.07
//   times. Twice the forward pass's would say 1.13. Fitted to an H100's 79 rows of cuDNN, an
//   H200's 115 are 8.2 % off by that and 5.0 by this (bench/calibrate/measured).
// A curve is of the fastest kernel that was measured on its GPU; another kernel takes kernel_slowdown times as long:
//   FlashAttention-2 on Hopper   moves the same bytes (short sequences, which wait for memory, differ least) and
//                                computes longer: forward 1.57 at width 64 and 1.85 at 128, backward 1.56 and 1.74;
//                                between in proportion to the width's logarithm, outside the nearer's. 327 rows of
//                                PyTorch's flash backend on an H200 beside its cuDNN (bench/calibrate/measured,
//                                language); an H100's 333 and cudnn-frontend's 20 of an H200 had no part in it
//   FlashAttention-2 on B200     likewise, as it has none of Blackwell's instructions: about as fast as on Hopper.
//   Forward
//                                2.3 and 3.55, backward 3.36 and 3.25: medians of 2,048 tokens and more of
//                                Dao-AILab/flash-attention #1589 (width 64, no mask), meta-pytorch/tritonbench pull 171
//                                (128, no mask, forward) and Scicom-AI-Enterprise-Organization's
//                                causal-self-attention-benchmark-B200 (128, causal, both passes), beside this curve, of
//                                which that table's FlashAttention-4 is 1 % off. Short sequences differ less: 512
//                                tokens of width 64 take 1.6 and 1.8 times as long
//   PyTorch's own choice         scaled_dot_product_attention takes FlashAttention-2 before PyTorch 2.11 and asks cuDNN
//                                first since, on Hopper and Blackwell (sdp_utils.cpp: check_prefer_cudnn_attention;
//                                huggingface/transformers #48163); torchtitan asks cuDNN first on Blackwell (its
//                                models' attention.py), which is `sdpa` here
//   FlashAttention in Triton     1.38 forward, 2.0 backward of FlashAttention-2: the tutorial kernel of July 2023 on
//                                A100, the whole of it, causal, 1,024 to 16,384 keys, 84 to 122 and 49 to 81 TFLOP/s
//                                (triton-lang/triton pull 1917), beside this model's FlashAttention-2; on Hopper, whose
//                                instructions it does not use, times the line above (assumed)
// Where no profile has a backward curve, the forward curve answers, u kBackwardSlowdown times as long and bytes
// attention_traffic, with which kBackwardSlowdown was taken (with attention_moved and 1.05 such an answer is no nearer
// to the 323 backward rows of FlashAttention-2: 7.7 / 5.3 % off beside 7.4 / 5.3).
// Sources: Dao et al., FlashAttention (2022); Dao, FlashAttention-2 (2023), 3.3 (tiles over queries forward, over keys
// backward; causal tiles skip keys); Shah et al., FlashAttention-3 (2024).
// Where a kernel has other FLOPs than its shape's (a step of ring attention, a last chunk that is shorter), its time is
// in proportion to them.
// Limits: one kernel for all sizes (a library may split keys over tiles where queries are few, as in decoding, which is
// no training step); dropout, biases and sequences of unlike lengths in one batch are not told apart.
//
// Worked example: 256 queries, causal, one head of width 64, one sequence; M = 128, efficiency 1, r = 1, prologue_steps
// 0, masked_steps 0, p = 1, not_overlapped 0; 2 multiprocessors, 2 TFLOP/s. Tiles look at 128 and 256 keys: mean 192,
// longest 256. u = 2 * 128 * 128 / 1e12 s = 32.768 ns; x = 1, f = 1; compute = 256 u = 8.389 us.
//
// Fitted by calib/attention_fit.h, read from hardware/calibration by io/profile_file.h.
#pragma once

#include <optional>
#include <span>

#include "ddlsim/hardware/gpu.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/primitives/kernel.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

/// How many times as long a FLOP takes in the backward pass as in the forward pass, where no backward pass was
/// measured. FlashAttention-2's kernels, which run on every GPU since Ampere: median of the ten shapes that
/// cudnn-frontend's benchmark (NVIDIA/cudnn-frontend @ 0b1577c) times on H200 with PyTorch's flash backend in both
/// passes: 1.05 to 1.25.
inline constexpr double kBackwardSlowdown = 1.12;

/// In fp32 and TF32 alike attention in one kernel (PyTorch's memory-efficient one, CUTLASS) reaches this share of the
/// peak of fp32, forward and backward: 19.5 to 25 and 21 to 30 of 67 TFLOP/s in ViT-B/16, GPT-2 and RoBERTa on an H200
/// (bench/calibrate/measured, zoo-kernels). Other GPUs are taken to reach the same.
inline constexpr double kSingleAttention = 0.35;

/// How many times as long as the GPU's best kernel another one takes.
struct KernelSlowdown {
  double compute = 1;  // of computing alone
  double whole = 1;    // of all of it, computing with the above
};

/// Whose kernels of attention a GPU runs: its own generation's, or Ampere's (Gpu::kernels_of: Ada, and Blackwell's
/// cards for desks and workstations).
[[nodiscard]] hardware::GpuGeneration attention_generation(const hardware::Gpu& gpu);

/// At a head's width (of queries' and values' the mean). Nothing: nobody measured it on such GPUs (FlashAttention in
/// Triton on Blackwell).
[[nodiscard]] std::optional<KernelSlowdown> kernel_slowdown(primitives::AttentionKernel kernel,
                                                            hardware::GpuGeneration generation,
                                                            primitives::AttentionPass pass, double width);

/// The mean width of a head's queries and values.
[[nodiscard]] double head_width(const primitives::AttentionShape& shape);

/// Pairs of a query and a key of one head that look at each other.
[[nodiscard]] double attention_pairs(const primitives::AttentionShape& shape);

/// FLOPs of `batch` sequences: 2 (a d + b v) per pair and head.
[[nodiscard]] Work attention_work(const primitives::AttentionShape& shape, double batch);

/// What it has to read and write: queries, keys, values, output, and their gradients in the backward pass.
[[nodiscard]] DataSize attention_traffic(const primitives::AttentionShape& shape, double batch, DataSize element);

/// What its kernels read and write: backward more than that.
[[nodiscard]] DataSize attention_moved(const primitives::AttentionShape& shape, double batch, DataSize element);

/// The GPU's time, the overhead of measurements apart, of a kernel as many times as slow as the curve's. Requires sizes
/// of at least 1 and a curve with widths. A forward curve asked for a backward pass answers with kBackwardSlowdown.
[[nodiscard]] Time attention_time(const hardware::AttentionCurve& curve, const hardware::DeviceSpec& spec,
                                  const primitives::AttentionShape& shape, double batch, DataSize element,
                                  const KernelSlowdown& slowdown = {});

/// The curve for a pass. Null without any.
[[nodiscard]] const hardware::AttentionCurve* attention_curve(std::span<const hardware::AttentionCurve> curves,
                                                              Precision precision, primitives::AttentionPass pass);

/// Octaves outside the rows that the curve was fitted to, in the feature that is farthest outside.
[[nodiscard]] double outside(const hardware::CurveReport& report, const primitives::AttentionShape& shape,
                             double batch);

}  // namespace ddlsim::cost
