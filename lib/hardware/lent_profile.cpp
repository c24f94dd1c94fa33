#include "ddlsim/hardware/lent_profile.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::hardware {
namespace {

constexpr double kLargeProduct = 8192;  // squares of which sustained shares are of

/// How many times as many watts the lender has for a FLOP; 1: as many, more, or nobody knows.
double power_of(const Gpu& lender, const Gpu& borrower, Precision precision) {
  const auto lent = lender.peak.at(precision);
  const auto borrowed = borrower.peak.at(precision);
  if (!lent || !borrowed || lender.tdp <= Power::zero() || borrower.tdp <= Power::zero()) return 1;
  return std::min(1.0, (lender.tdp / borrower.tdp) * (*borrowed / *lent));
}

double relieved(double slowdown, double power) { return std::max(0.0, (1 + slowdown) * power - 1); }

/// Of tiles, or of widths.
template <typename Parts>
double best_efficiency(const Parts& parts) {
  double best = 0;
  for (const auto& part : parts) best = std::max(best, part.efficiency);
  return best;
}

/// How often a large product's k is twice as long as rows that cost no more.
double doublings(const GemmCurve& curve) { return std::max(0.0, portable_log2(kLargeProduct / curve.long_k)); }

/// What large products take before clocks fall, in times of the peak's.
double large_product(const GemmCurve& curve) {
  const double long_k = curve.long_k_slowdown * doublings(curve);
  return (1 + curve.prologue_steps / kLargeProduct) * (1 + long_k) / best_efficiency(curve.tiles);
}

/// The same of one GPU's single products; nothing: no curve of them.
std::optional<double> large_product(const GpuProfile& profile, Precision precision) {
  for (const GemmCurve& one : profile.gemms) {
    if (one.precision != precision || one.batched || one.grouped || one.tiles.empty()) continue;
    return large_product(one) * (1 + one.sustained_slowdown);
  }
  return std::nullopt;
}

/// The peak of one multiprocessor.
std::optional<ComputeRate> rate_of_one(const Gpu& gpu, Precision precision) {
  const auto peak = gpu.peak.at(precision);
  if (!peak || gpu.sm_count <= 0) return std::nullopt;
  return *peak / static_cast<double>(gpu.sm_count);
}

/// Clocks that go beyond those of the peak are not lent.
std::optional<double> own_share(const Gpu& borrower, Precision precision) {
  const auto share = sustained_share(borrower, precision);
  return share ? std::optional(std::min(1.0, *share)) : std::nullopt;
}

/// Makes a large product take `times` what it would at the peak, no less: long rows of k cost less, then prologues,
/// then all tiles are quicker.
void quicken(double times, GemmCurve& curve) {
  const double best = best_efficiency(curve.tiles);
  const double prologue = 1 + curve.prologue_steps / kLargeProduct;
  const double longer = doublings(curve);
  if (longer > 0) curve.long_k_slowdown = std::max(0.0, times * best / prologue - 1) / longer;
  if (times * best < prologue) curve.prologue_steps = std::max(0.0, times * best - 1) * kLargeProduct;
  const double faster = std::max(1.0, 1 / (times * best));
  for (GemmCurve::Tile& tile : curve.tiles) tile.efficiency *= faster;
}

/// By the borrower's own large products; false: nobody timed them.
bool by_own(const Gpu& borrower, GemmCurve& curve, Precision precision) {
  const auto share = own_share(borrower, precision);
  if (!share || curve.tiles.empty()) return false;
  const double times = 1 / *share;
  curve.sustained_slowdown = std::max(0.0, times / large_product(curve) - 1);
  if (times < large_product(curve)) quicken(times, curve);
  return true;
}

/// Likewise of attention, with what a multiprocessor does beside its products.
bool by_own(const GpuProfile& profile, const Gpu& lender, const Gpu& borrower, AttentionCurve& curve) {
  const auto share = own_share(borrower, curve.precision);
  const auto products = large_product(profile, curve.precision);
  const auto before = rate_of_one(lender, curve.precision);
  const auto now = rate_of_one(borrower, curve.precision);
  if (!share || !products || !before || !now || curve.widths.empty()) return false;
  const double best = best_efficiency(curve.widths);
  const double beside = std::max(0.0, (1 + curve.sustained_slowdown) / best - *products);
  const double times = best * (1 / *share + beside * (*now / *before));
  curve.sustained_slowdown = std::max(0.0, times - 1);
  for (AttentionCurve::Width& width : curve.widths) {
    width.efficiency = std::max(width.efficiency, std::min(1.0, width.efficiency / std::min(1.0, times)));
  }
  return true;
}

}  // namespace

std::shared_ptr<const GpuProfile> lent(std::shared_ptr<const GpuProfile> profile, const Gpu& lender,
                                       const Gpu& borrower) {
  auto made = std::make_shared<GpuProfile>(*profile);
  bool changed = false;
  const auto relieve = [&](double& slowdown, Precision precision) {
    const double before = slowdown;
    if (slowdown > 0) slowdown = relieved(slowdown, power_of(lender, borrower, precision));
    return slowdown != before;
  };
  const auto forget = [&](CurveReport& report) {
    changed = changed || report.another_run;
    report.another_run.reset();
  };
  const auto lend = [&](GemmCurve& curve, Precision precision) {
    return by_own(borrower, curve, precision) || relieve(curve.sustained_slowdown, precision);
  };
  for (GemmCurve& curve : made->gemms) {
    changed = lend(curve, curve.precision) || changed;
    forget(curve.report);
  }
  for (ConvolutionCurve& curve : made->convolutions) {
    changed = lend(curve.implicit_gemm, curve.precision) || changed;
    forget(curve.report);
  }
  for (AttentionCurve& curve : made->attention) {
    changed =
        by_own(*profile, lender, borrower, curve) || relieve(curve.sustained_slowdown, curve.precision) || changed;
    forget(curve.report);
  }
  for (MemoryBoundCurve& curve : made->memory_bound) forget(curve.report);
  if (!changed) return profile;
  return made;
}

}  // namespace ddlsim::hardware
