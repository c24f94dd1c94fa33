// How a job's loader goes with its cores, from a few measured rates.
//
//   rate(c) = min(ceiling, per_core e / (1 + contention (e - 1))),  e = c - 0.1
// which is cost/loader.h's stage `cpu` under what the GPU takes at most; the tenth of a core is the training process'.
// The ceiling is the rate at the most cores, where somebody says that it is one; per_core and contention go through the
// first and the last of the other points. One point under the ceiling: contention is plan::kDefaultContention; none:
// the loader was never what bound, and rate(c) is the ceiling. Limits: rates that rise by steps, as Synergy's at 9
// cores (2.0 times that at 3, where 12 have 2.94), are met halfway.
//
// Worked example (test/unit/calib/loader_fit_test.cpp): Synergy's ResNet-18 has 0.72, 1.75 and 2.4 times its rate at 3
// cores with 2, 6 and 24: per_core 0.406, contention 0.074, ceiling 2.4; the other six counts are met to 1.7 %.
#pragma once

#include <span>

#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::calib {

struct CorePoint {
  double cores = 1;
  Rate rate{};
};

struct LoaderCurve {
  Rate per_core = Rate::infinity();
  double contention = 0;
  Rate ceiling = Rate::infinity();
  double taken = 0;  // cores that do not load

  [[nodiscard]] Rate at(double cores) const;
};

/// `saturates`: the rate at the most cores is the ceiling. `taken`: cores of the training process. Errors:
/// kInvalidArgument for fewer than two points, or points in no order of cores, or without a rate.
[[nodiscard]] Expected<LoaderCurve> fit_loader(std::span<const CorePoint> points, bool saturates, double taken);

}  // namespace ddlsim::calib
