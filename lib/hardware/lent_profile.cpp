#include "ddlsim/hardware/lent_profile.h"

#include <algorithm>
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
  const auto forget = [&](CurveReport& report) {
    changed = changed || report.another_run;
    report.another_run.reset();
  };
  for (GemmCurve& curve : made->gemms) {
    relieve(curve.sustained_slowdown, curve.precision);
    forget(curve.report);
  }
  for (ConvolutionCurve& curve : made->convolutions) {
    relieve(curve.implicit_gemm.sustained_slowdown, curve.precision);
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
