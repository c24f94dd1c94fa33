// Fits the curve of GEMMs (cost/gemm_time.h) to measured rows of one GPU and precision.
//
//   minimised  sum of rho(log(predicted / measured)) + a weak pull towards the defaults, rho = soft-L1 of scale 5 %
//   predicted  max(floor, overhead + gemm_time)
// All parameters are positive, bounded and fitted in their logarithms by Levenberg-Marquardt with rows reweighted at
// every step. Tiles are added one at a time, the one that helps most, until none lowers the cost by 1 %; the fit from
// all candidates at once is the other start; the better one is kept, less the tiles it can do without.
// Every fifth distinct shape is held out for the report (calib/holdout.h). Of more rows than `most_rows`, that many are
// fitted, chosen by another hash; the same rows give the same curve. The refits behind the 90 % interval keep the tiles
// and start from the curve; of fewer than 300 rows they choose their own.
// left_operand_passes and overhead_per_row are fitted for fp8 (whose rows have the cast of their left operand). Layers
// of experts (cost::experts_time) are fitted the same way, routing_passes with them, to a grouped curve. Source: Huber,
// Robust Statistics, 1981. Limits: a fit knows nothing of clocks; another session is re-anchored by one factor
// (calib/check.h).
//
// Rows are sorted into curves by calib/fit.h; the curve is written by io/profile_file.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/primitives/kernel.h"
#include "ddlsim/support/error.h"

namespace ddlsim::calib {

struct GemmRow {
  hardware::GemmSize size;
  Time time{};
};

struct ExpertsRow {
  primitives::TimedExperts experts;
  Time time{};
};

struct GemmFitOptions {
  std::vector<hardware::GemmCurve::Tile> tiles;  // candidates; empty: those of the precision
  std::int64_t most_rows = 1200;                 // that the nonlinear search sees
  std::string measured;                          // for the report
  double most_slowdown = 1;  // of convolutions: their clocks are the GPU's, which do not fall below half
};

/// Fails for fewer than 12 rows, sizes or times that are not positive and finite, rows of one shape.
[[nodiscard]] Expected<hardware::GemmCurve> fit_gemms(std::span<const GemmRow> rows, const hardware::DeviceSpec& spec,
                                                      Precision precision, const GemmFitOptions& options = {});

/// A grouped curve from layers of experts. Fails as fit_gemms does.
[[nodiscard]] Expected<hardware::GemmCurve> fit_experts(std::span<const ExpertsRow> rows,
                                                        const hardware::DeviceSpec& spec, Precision precision,
                                                        const GemmFitOptions& options = {});

/// What a measurement of this GEMM would show: the curve's time with the overhead of its rows.
[[nodiscard]] Time as_measured(const hardware::GemmCurve& curve, const hardware::DeviceSpec& spec,
                               const hardware::GemmSize& size);

/// What the measurement adds to this GEMM.
[[nodiscard]] Time overhead_of(const hardware::GemmCurve& curve, const hardware::GemmSize& size);

/// Of this shape, whether a fit holds it out.
[[nodiscard]] bool held_out(const hardware::GemmSize& size);

}  // namespace ddlsim::calib
