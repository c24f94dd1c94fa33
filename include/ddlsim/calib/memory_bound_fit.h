// Fits the curves of kernels bound by memory (cost/memory_bound_time.h) to measured times.
//
//   measured = max(floor, overhead + T(Q, r))      one floor and one overhead per series
//
// A harness that waits for each kernel cannot show one shorter than its own calls: the floor. Kernels above it carry a
// constant, the overhead. To take the floor for a constant would make every small kernel free and change the slope
// where kernels rise above it, which looks like an L2 cache and is none (V100, P100, T4, P4 and A100 of NeuSight's data
// do so at 11 to 14 us of kernel, whatever their L2).
//
// Steps: rows are parted into those at the floor and those above it, starting from 1.15 x the 5 % quantile of a series;
// slopes and overheads follow from the rows above by non-negative robust least squares (calib/robust.h), floors are
// medians of the rows below; the parting is renewed until it rests.
// Slope changes start at {0, 1/2, 1, 2, 8} x L2 and one is kept only if the fold set aside (calib/holdout.h) fares more
// than 10 % worse without it; the same for time_per_row. Any slope is at least 1/5: no L2 moves more than 5 times what
// the memory does (NVIDIA A100 white paper: 5,120 bytes per clock against 1,555 GB/s are 4.6 times), and the first is
// the least: a floor that hides small kernels would let it take any part of the overhead.
// Softmax and norm: one curve for rows below 1024 elements and one from 1025 on, where both have enough rows; within
// each, row lengths (powers of two and the eighths between them, at most five) are added, the best first, as long as
// each brings the four folds, every one by a fit to the others, 3 % closer; a length's factor is the median over its
// rows of (measured - rest) / moving, renewed in turn with the slopes.
// The interval is that of kernels. Limits: what the overhead holds of the kernel itself (its start, 1 to 3 us) is lost
// to the prediction.
//
// Rows are sorted into curves by calib/fit.h; the curve is written by io/profile_file.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/primitives/kernel.h"
#include "ddlsim/support/error.h"

namespace ddlsim::calib {

struct MemoryBoundFitOptions {
  std::string measured;  // where the rows come from, for the report
};

/// Rows of other ops, and rows left out, are passed over. Fails for a kind with fewer than 10 shapes or 3 sizes,
/// or with no row above its floor. Sorted by kind, then row_from.
[[nodiscard]] Expected<std::vector<hardware::MemoryBoundCurve>> fit_memory_bound(
    std::span<const primitives::KernelMeasurement> rows, const hardware::DeviceSpec& spec,
    const MemoryBoundFitOptions& options = {});

}  // namespace ddlsim::calib
