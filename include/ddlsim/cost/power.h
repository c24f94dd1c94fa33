// What a GPU's work draws, and how far its clocks fall where it would draw more than it may.
//
//   P(s) = idle + (A / s^2 + M) / (s C + R)    mean over one pass, forward and backward, of all of a model's layers
//   s    = the least of at least 1 for which P(s) <= limit
//   A    = sum of FLOPs * e(precision)         at the clocks of short bursts, which profiles are measured at
//   M    = sum of bytes * e_B
//   C    kernels bound by arithmetic, R by memory, and what kernels wait; software included (hardware/software.h)
//
// Kernels bound by arithmetic take s times as long: their clocks are 1 / s of a burst's. Voltage follows clocks, and an
// operation draws the square of the voltage. Memory has a clock of its own, which power does not touch. e, e_B, idle:
// `power` of a GPU's file (bench/calibrate/power.py); a GPU without them is taken to keep its clocks.
// A layer's attention and convolutions run in bf16 where products are of 8 and 4 bits.
// Source: measured on an H100 (bench/calibrate/measured, power.jsonl): products with pauses tell what a burst draws,
// without pauses how long they take at the limit. s measured and by this law: bf16 1.15 and 1.14, TF32 1.15 and 1.13,
// fp8 1.13 and 1.14, fp32 1.02 and 1.03. Voltage by frequency: Burd and Brodersen, HICSS 1995 (recalled).
// Adding gradients to those of earlier passes is in none of it, so that clocks do not depend on how many passes there
// are. Limits: one pass is one mean, as power is limited by what is drawn over tens of milliseconds; waiting for other
// GPUs and for launches would let clocks recover, and does not here. Random numbers: products of zeros draw half. Below
// two thirds of the clocks the voltage falls no further. Heat is no limit here.
//
// Worked example: A 85.4 J and C 0.1 s, M and R none, 121 W idle, a limit of 700 W: P(1) = 975 W,
// s = (85.4 J / (0.1 s * 579 W))^(1/3) = 1.138, P(s) = 700 W.
#pragma once

#include <optional>

#include "ddlsim/hardware/gpu.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::cost {

/// Of one pass at the clocks of bursts, beyond what an idle GPU draws.
struct DrawnByPass {
  Energy arithmetic{};
  Energy memory{};
  Time compute{};
  Time rest{};
};

struct SustainedClocks {
  double slowdown = 1;  // s
  Power drawn{};        // P(s): mean while kernels run, idle included; zero: nobody knows
  DrawnByPass pass{};   // what it is of
};

/// Requires a limit above what an idle GPU draws. Nothing drawn, or no time: 1 and idle.
[[nodiscard]] SustainedClocks sustained_clocks(const DrawnByPass& pass, const hardware::PowerDraw& draw, Power limit);

/// What the FLOPs of a layer's products draw. Nothing: nobody measured that precision.
[[nodiscard]] std::optional<EnergyPerFlop> drawn_per_flop(const workload::Layer& layer, const hardware::Gpu& gpu,
                                                          Precision precision);

}  // namespace ddlsim::cost
