// Matrix products (GEMMs) on a GPU: tiles, waves, split k, memory.
//
// C[m, n] = A[m, k] B[k, n] is cut into tiles, a multiprocessor computes tiles one after another, and k may be split in
// s parts that are summed at the end. The library takes the tile and the split that are fastest:
//   time     = min over tiles (M, N) and splits s of
//              max(compute, move) + not_overlapped min(compute, move) + (s > 1) split_k_launch
//   compute  = slow(f w (ceil(k / s) + prologue_steps) (1 + long_k_slowdown max(0, log2(k / long_k))))
//   w        = 2 M N / (efficiency P / S)                 one step of k of one tile; P peak, S multiprocessors
//   f        = p max(ceil(x), r) + (1 - p) max(x, r)      tiles in a row; p partial_wave_cost, r tiles_to_fill
//   x        = s batch_count ceil(m / M) ceil(n / N) / S  tiles per multiprocessor
//   slow(t)  = t (1 + sustained_slowdown t / (t + slowdown_half_time))   clocks fall under lasting load
//   move     = element batch_count (left_operand_cost m k + k n + m n + (s > 1) split_k_passes s m n)
//              / (memory_efficiency B)
// left_operand_cost: a tile reads a few elements of each of A's rows, k apart, at less than the memory's rate; where n
// is a tile or two wide nothing reads them again from the L2, and the GEMM is bound by it (V100's batched GEMMs of
// n <= 32 reach 5 TFLOP/s instead of 11, 340 GB/s of A). Splits tried: such that the tiles fill a quarter, half, all or
// twice the multiprocessors; at most 64 parts, none shorter than 64.
// Many products at once by a curve of single ones: prologue_steps w are at most 0.55 of the time in which a
// multiprocessor's share of the memory's bandwidth moves a tile of the result, element M N S / B. So it is where
// batched products were measured (fp32 on five GPUs: 0.23 to 0.86, median 0.55); a fit of single ones whose k is never
// short does not tell it from the rest (A40: 1.03). left_operand_passes: where rows of fp8 were measured with the cast
// of their bf16 activations (its scale is looked for first), as training with dynamic scales does it, element
// batch_count m k left_operand_passes / (memory_efficiency B) is added; weights come cast, and operands of fp8 take
// half an element. What that cast takes for every row besides (vLLM's searches rows one by one and joins them by
// atomics: 7 ns a row on H200) is overhead_per_row: it belongs to the measurement and is in no prediction. fp4 (NVFP4)
// has no table of products that is published: fp4_gemm_time takes the curve of fp8, whose tiles compute
//   a = min(1.6, fp4's peak / fp8's)  times as fast, whose operands are 9/32 of an element (4 bits and an 8-bit scale
//   for every 16) and whose casts take 1.2 times as long (Hadamard transforms, stochastic rounding, two scales).
// 1.6 and 1.2 are from the products of a block of 4096 wide on B300, twelve of them in 3.754 ms with their operands
// cast before and 6.439 ms with the casts (NVIDIA/TransformerEngine
// docs/features/low_precision_training/gemm_profiling, Apache-2.0, verified): this curve has 3.73 and 6.40 ms. Its fp8,
// without a change, has 8.11 ms where MXFP8 took 8.51. Experts (grouped): batch_count of them with the rows that each
// one has, in one kernel, no split; a measurement of a whole layer of experts is two of them (gate and up in one) and
//   routing  = element routing_passes (3 routed width + 2 tokens width + (2 or 3) routed inner) / B
// for sorting, activating and summing rows, which workload/op.h lists as kernels of their own.
// Sources: tiles and waves: NVIDIA, Matrix Multiplication Background User's Guide (tile and wave quantisation); Yu et
// al., Habitat, ATC 2021; Lee et al., NeuSight, ASPLOS 2025; split k: Osama et al., Stream-K, PPoPP 2023.
// Limits: the library's heuristics are taken to be right; layouts (NN, NT, TN) and alignment are those of the rows
// fitted; one GEMM at a time on an otherwise idle GPU; time jumps where a new wave begins, so a slightly larger GEMM
// may be faster than a smaller one by up to a wave.
//
// Worked example: m = 256, n = 256, k = 1000, fp32, one tile 128 x 128 of efficiency 1, prologue_steps 0,
// partial_wave_cost 1, tiles_to_fill 1, not_overlapped 0.5, memory_efficiency 1, nothing else; 2 multiprocessors,
// 2 TFLOP/s, 1 GB/s. x = 4 / 2, f = 2, w = 32768 / 1e12 s, compute = 2 * 1000 w = 65.536 us;
// move = 4 * 577,536 B / (1 GB/s) = 2310.144 us; time = 2310.144 + 32.768 us.
// With left_operand_cost 2, move = 4 * 833,536 B / (1 GB/s) = 3334.144 us.
//
// Fitted per GPU and precision by calib/gemm_fit.h, read from hardware/calibration by io/profile_file.h; convolutions
// are GEMMs in cost/convolution_time.h, layers add up in cost/kernel_time.h.
#pragma once

#include <span>

#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/primitives/kernel.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

/// The GPU's time, the overhead of measurements apart. Requires sizes of at least 1 and a curve with tiles; a curve
/// without any takes the peak for granted.
[[nodiscard]] Time gemm_time(const hardware::GemmCurve& curve, const hardware::DeviceSpec& spec,
                             const hardware::GemmSize& size, DataSize element);

/// The same in fp4 by the curve of fp8, on a GPU of that peak in fp4; `fp8` is the GPU's rates in fp8.
[[nodiscard]] Time fp4_gemm_time(const hardware::GemmCurve& curve, const hardware::DeviceSpec& fp8, ComputeRate peak,
                                 const hardware::GemmSize& size, DataSize element);

/// As above, of a GEMM whose operands and result are together `moved` to and from memory: less than all of them
/// (left_operand_cost has no say) where operands are made on the fly (implicit GEMMs of convolutions).
[[nodiscard]] Time gemm_time(const hardware::GemmCurve& curve, const hardware::DeviceSpec& spec,
                             const hardware::GemmSize& size, DataSize element, DataSize moved);

/// Another way to compute than the curve's own.
struct GemmVariant {
  std::span<const hardware::GemmCurve::Tile> tiles;  // at least one
  double prologue_steps = 0;
  double most_splits = 1;           // of k; parts are added up where they meet, which prologue_steps pay for
  bool either_orientation = false;  // every tile may also lie on its side
};

/// As above, that way: the curve gives memory_efficiency, not_overlapped, partial_wave_cost and clocks.
[[nodiscard]] Time gemm_time(const hardware::GemmCurve& curve, const GemmVariant& variant,
                             const hardware::DeviceSpec& spec, const hardware::GemmSize& size, DataSize moved);

/// A layer of experts, forward, rows evenly shared: by a grouped curve.
[[nodiscard]] Time experts_time(const hardware::GemmCurve& curve, const hardware::DeviceSpec& spec,
                                const primitives::TimedExperts& experts);

/// The curve for a GEMM of this precision: of experts for grouped ones, of batched GEMMs for many, where there is one;
/// else the one there is. Null without any.
[[nodiscard]] const hardware::GemmCurve* gemm_curve(std::span<const hardware::GemmCurve> curves, Precision precision,
                                                    double batch_count, bool grouped = false);

/// How many octaves a size lies outside the rows that a curve was fitted to, in the feature that is farthest outside:
/// 0 inside, 1 at twice the most or half the least.
[[nodiscard]] double outside(const hardware::CurveReport& report, const hardware::GemmSize& size);

}  // namespace ddlsim::cost
