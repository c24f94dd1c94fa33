// How long a kernel takes that is bound by memory: element-wise operations, softmax, normalisation, pooling, copies.
//
//   T(Q, r, n) = f(n) sum_i s_i max(0, Q - h_i L2) / B  +  r t_row / SMs
//
//   Q            bytes read and written
//   r            rows that are reduced, 0 where none are
//   n            elements of a row
//   B, L2, SMs   the datasheet's (hardware::DeviceSpec)
//   h_i, s_i     slope_changes: from Q = h_i L2 on, time grows by s_i / B more for each byte (less where negative)
//   f(n)         row_length_factors: 1, and from each of their lengths on its factor
//   t_row        time_per_row, of one multiprocessor
//
// Slopes: a kernel whose data are still in the L2 from before reads them there. As they outgrow it (from 1/2 L2, where
// what is read is half of Q, to 2 L2) every further byte also drives one out, which then comes from memory: the slope
// rises beyond that of large kernels, and falls back to it. Up to any slope change they never add up to less than 0.
// Row lengths: frameworks choose a kernel's block by its row's length (PyTorch: powers of two, threads of four
// elements), so that rows just past a threshold leave most of a block idle; the steps are where the rows show them.
//
// What a step adds between kernels (launches) is not in T, and neither is what a measurement added. Softmax and norm
// have a curve below rows of 1024 elements and one from there on, where frameworks change the kernel. Kinds nobody
// measured (pool, copy, lookup, batchnorm, update, recurrent) take the element-wise curve, and the answer says so.
// Source: slope changes at multiples of the L2 as the microbenchmarks of Jia et al., "Dissecting the NVIDIA Volta GPU
// Architecture via Microbenchmarking" (2018) suggest. Where the measurement's floor hides small kernels, one slope is
// all that data can tell, and small Q are extrapolated from large ones.
// Limits: contiguous access; no word on cold caches, on several kernels at once, or on arithmetic (pow).
//
// Worked example: V100, 900 GB/s, one slope {0, 1.1}: 90 MB read and written take 1.1 x 90 MB / 900 GB/s = 110 us. With
// time_per_row 80 ns and 80 multiprocessors, 1000 rows add 1 us. With row_length_factors {1537, 1.2}, rows of 2048 take
// 132 us + 1 us.
//
// Fitted by calib/memory_bound_fit.h, read from hardware/calibration by io/profile_file.h; layers add up in
// cost/kernel_time.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/primitives/kernel.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

struct MemoryBoundSize {
  DataSize traffic{};    // read and written
  double rows = 0;       // that are reduced
  std::int64_t row = 0;  // elements of one
};

/// Rows in a kernel that reads and writes every element once. 0 for row = 0: no reduction.
[[nodiscard]] double rows_of(DataSize traffic, std::int64_t row, DataSize element);

/// The kernel's own time.
[[nodiscard]] Time memory_bound_time(const hardware::MemoryBoundCurve& curve, const hardware::DeviceSpec& spec,
                                     MemoryBoundSize size);

/// What a measurement of a kernel of this time shows.
[[nodiscard]] Time measured_time(const hardware::MeasuringOverhead& overhead, Time kernel);

/// What a way of measuring adds; nothing for a series the curve does not know.
[[nodiscard]] hardware::MeasuringOverhead overhead_of(const hardware::MemoryBoundCurve& curve, std::string_view series);

struct ChosenMemoryBound {
  const hardware::MemoryBoundCurve* curve = nullptr;  // in the profile
  bool stand_in = false;                              // of another kind
};

/// The curve for a kind and length of row. Nothing where the profile has neither the kind nor one that stands in for
/// it: softmax and norm have no stand-in.
[[nodiscard]] std::optional<ChosenMemoryBound> choose_memory_bound(const hardware::GpuProfile& profile,
                                                                   primitives::MemoryBoundKind kind, std::int64_t row);

/// How far outside of what was measured a value lies, in doublings; 0 inside, and for features without a range.
[[nodiscard]] double doublings_outside(const hardware::CurveReport& report, std::string_view feature, double value);

}  // namespace ddlsim::cost
