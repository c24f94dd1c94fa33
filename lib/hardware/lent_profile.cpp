#include "ddlsim/hardware/lent_profile.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ddlsim::hardware {
namespace {

/// How many times as many watts the lender has for a FLOP; 1: as many, more, or nobody knows.
double power_of(const Gpu& lender, const Gpu& borrower, Precision precision) {
  const auto lent = lender.peak.at(precision);
  const auto borrowed = borrower.peak.at(precision);
  if (!lent || !borrowed || lender.tdp <= Power::zero() || borrower.tdp <= Power::zero()) return 1;
  return std::min(1.0, (lender.tdp / borrower.tdp) * (*borrowed / *lent));
}

/// Of products on that GPU, if its own largest ones were timed.
std::optional<double> slowdown_of(const GemmCurve& curve, const Gpu& gpu) {
  const auto share = sustained_share(gpu, curve.precision);
  if (!share || curve.tiles.empty()) return std::nullopt;
  double best = 0;
  for (const GemmCurve::Tile& tile : curve.tiles) best = std::max(best, tile.efficiency);
  return std::max(0.0, best / *share - 1);
}

double relieved(double slowdown, double power) { return std::max(0.0, (1 + slowdown) * power - 1); }

}  // namespace

std::shared_ptr<const GpuProfile> lent(std::shared_ptr<const GpuProfile> profile, const Gpu& lender,
                                       const Gpu& borrower) {
  auto made = std::make_shared<GpuProfile>(*profile);
  bool changed = false;
  const auto relieve = [&](double& slowdown, Precision precision) {
    const double before = slowdown;
    if (slowdown > 0) slowdown = relieved(slowdown, power_of(lender, borrower, precision));
    changed = changed || slowdown != before;
  };
  const auto measured_or_relieved = [&](GemmCurve& curve, Precision precision) {
    const auto own = slowdown_of(curve, borrower);
    if (!own) return relieve(curve.sustained_slowdown, precision);
    changed = changed || *own != curve.sustained_slowdown;
    curve.sustained_slowdown = *own;
  };
  const auto forget = [&](CurveReport& report) {
    changed = changed || report.another_run;
    report.another_run.reset();
  };
  for (GemmCurve& curve : made->gemms) {
    measured_or_relieved(curve, curve.precision);
    forget(curve.report);
  }
  for (ConvolutionCurve& curve : made->convolutions) {
    measured_or_relieved(curve.implicit_gemm, curve.precision);
    forget(curve.report);
  }
  for (AttentionCurve& curve : made->attention) {
    relieve(curve.sustained_slowdown, curve.precision);
    forget(curve.report);
  }
  for (MemoryBoundCurve& curve : made->memory_bound) forget(curve.report);
  if (!changed) return profile;
  return made;
}

}  // namespace ddlsim::hardware
