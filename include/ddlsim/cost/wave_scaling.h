// A kernel's time on a GPU, from its time on another: wave scaling.
//
//   T_d = T_o * (B_o / B_d)^g * (C_o / C_d)^(1 - g)        o: where it was timed, d: where it is wanted
//   B = memory bandwidth; C = multiprocessors * clock; g = share of the memory in what bounds the kernel
// A kernel's blocks run in waves; a wave of a kernel bound by memory takes as long as its bytes, of one bound by
// arithmetic as long as the clock says, and the number of waves falls with the multiprocessors. (Large waves: the
// rounding of the last one is left out.)
// Source: Yu et al., "Habitat", USENIX ATC 2021, equations 1 and 2. Two departures: C is the peak rate at the
// precision of the GEMMs, which is multiprocessors * clock within an architecture and also counts what
// another architecture does per clock; and without counters g is 1 for kernels bound by memory, 0 for GEMMs and
// convolutions (by their names), where Habitat has a trained model for the latter.
// Times grow with the batch in proportion (assumed; Habitat predicts at the batch that was timed).
// Limits: no tile quantisation, no other algorithm that a library picks on another GPU; kernels too small to fill
// either GPU are scaled like the others.
//
// Worked example: 100 us on a V100 (900 GB/s, 15.7 TFLOP/s) on an A100 (1555 GB/s, 19.5 TFLOP/s): bound by memory
// 100 * 900 / 1555 = 57.88 us; by arithmetic 100 * 15.7 / 19.5 = 80.51 us; g = 0.5: sqrt(57.88 * 80.51) = 68.26 us.
//
// Timed layers come from importers/kineto_file.h (workload::MeasuredTime); cost/layer_time.h asks for their time.
#pragma once

#include "ddlsim/support/units.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::cost {

/// The step asked about over the step that was timed.
struct WaveScaling {
  double memory = 1;   // B_o / B_d
  double compute = 1;  // C_o / C_d
  double batch = 1;    // samples asked about / samples timed

  friend bool operator==(const WaveScaling&, const WaveScaling&) = default;
};

/// Requires `memory_share` (g) in [0, 1] and ratios over zero.
[[nodiscard]] Time wave_scaled(Time timed, double memory_share, const WaveScaling& scaling);

/// g of a bound. What the GPU does not bound takes its time whatever the GPU and the batch.
[[nodiscard]] Time wave_scaled(Time timed, workload::Bound bound, const WaveScaling& scaling);

}  // namespace ddlsim::cost
