// A profile that answers for another GPU of its architecture.
//
// A GPU whose power cannot hold its peak falls to lower clocks under lasting load: its curves' sustained_slowdown s
// (cost/gemm_time.h), which is that card's and no trait of its multiprocessors. Clocks follow from watts per FLOP, so a
// GPU with more of them slows down less:
//   1 + s' = max(1, (1 + s) w / w'),   w, w' = TDP / peak at the curve's precision, w' > w
// With less it is not slowed down more: at lower voltages a FLOP takes less energy, and how much less nobody measured.
// Two GPUs whose TDP is known, of which one is power-bound: RTX 2080 Ti (250 W, 13.45 TFLOP/s) by T4's fp32 curve (70
// W, 8.1, s = 1.5): s' = 2.5 * 8.64 / 18.6 - 1 = 0.16.
//
// Where the borrower's own largest products were timed (SustainedShares, hardware/gpu.h; squares of 8192), that says it
// instead. By the curve such a product takes t times what it would at the peak, before clocks fall:
//   t      = (1 + prologue_steps / 8192) (1 + long_k_slowdown max(0, log2(8192 / long_k))) / best tile's efficiency
//   1 + s' = 1 / (share t)
// and where that is below 1 s' is 0 and what the lender loses is less on the borrower, until such a product takes
// 1 / share: first what long rows of k cost, then the prologue, then all tiles are more efficient. A share above 1
// counts as 1, so that nothing is beyond the peak. L4, whose 72 W hold 53 of 121 TFLOP/s, by A40's fp16 curve (0.92):
// s' = 1.1, as much less as its prologue takes. H20, which reaches 142 of 148 TFLOP/s, by an H200's bf16 curve, whose
// best tile has 0.996 and whose prologue 303 steps: t becomes 1.043, long rows cost 0.0004 a doubling instead of 0.027.
//
// Attention takes q times longer than products of as many FLOPs would at the peak, for its exponentials and what else
// multiprocessors do one after another; that is theirs, whatever the rate of their tensor cores:
//   q = (1 + s) / efficiency - t (1 + s of products)           at the best width
//   (1 + s') / efficiency' = 1 / share + q (P' / S') / (P / S)  peaks P, multiprocessors S
// H20's multiprocessors have a quarter of an H200's rate: with t (1 + s) = 1.24 and 1 / efficiency = 1.54 it comes to
// 1.04 + 0.3 / 4 = 1.12, 0.9 of its peak.
//
// What another run of the lender showed (CurveReport::another_run) is the lender's as well, and is not lent.
// Source: energy per FLOP of fp32 products that are bound by power is alike within an architecture: 23.3 pJ on a GTX
// 1080 Ti (10.75 TFLOP/s at 250 W), 24 on a P4 (3.09 at 75 W); 21 on a V100 PCIe (11.85 at 250 W), 17 to 23 on a T4
// (4.19 and 3.08 at 70 W): medians of products of 20 GFLOP and more in DeepBench's and NeuSight's tables.
#pragma once

#include <memory>

#include "ddlsim/hardware/gpu.h"
#include "ddlsim/hardware/gpu_profile.h"

namespace ddlsim::hardware {

/// The profile of `lender` as it answers for `borrower`; itself where nothing changes, or a TDP is not known.
[[nodiscard]] std::shared_ptr<const GpuProfile> lent(std::shared_ptr<const GpuProfile> profile, const Gpu& lender,
                                                     const Gpu& borrower);

}  // namespace ddlsim::hardware
