// What needs no model: laws of scaling through measured points, beside which predictions must stand.
//
// Weak scaling, a step of t on n GPUs, least squares in ln t over the points:
//   perfect   t = a
//   Amdahl    t = a (1 + s (n - 1)), s >= 0: a share s of one GPU's step that every further GPU adds (Amdahl 1967, for
//             work that grows with the GPUs)
//   power     t = a n^b
// From points of one n alone all three are the first. Worked example (test): 100 ms on one GPU and 130 ms on four are
// s = 0.1 and b = 0.189; sixteen take 250 and 169 ms.
#pragma once

#include <span>

#include "ddlsim/support/units.h"

namespace ddlsim::calib {

struct ScalingPoint {
  double gpus = 1;
  Time step{};
};

/// At least one point, all above zero.
[[nodiscard]] Time perfect_scaling(std::span<const ScalingPoint> points);
[[nodiscard]] Time amdahl_scaling(std::span<const ScalingPoint> points, double gpus);
[[nodiscard]] Time power_law_scaling(std::span<const ScalingPoint> points, double gpus);

}  // namespace ddlsim::calib
