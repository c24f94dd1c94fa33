#include "ddlsim/cost/memory_bound_time.h"

#include <string>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::cost {
namespace {

/// The curve of the kind with the longest row_from that is not over `row`; the shortest where all are.
const hardware::MemoryBoundCurve* curve_of(const hardware::GpuProfile& profile, primitives::MemoryBoundKind kind,
                                           std::int64_t row) {
  const hardware::MemoryBoundCurve* best = nullptr;
  for (const hardware::MemoryBoundCurve& curve : profile.memory_bound) {
    if (curve.kind != kind) continue;
    const bool reached = curve.row_from <= row;
    if (best == nullptr || (reached && (curve.row_from > best->row_from || best->row_from > row)) ||
        (!reached && best->row_from > row && curve.row_from < best->row_from)) {
      best = &curve;
    }
  }
  return best;
}

double factor_of(const hardware::MemoryBoundCurve& curve, std::int64_t row) {
  double factor = 1;
  for (const auto& [from, of] : curve.row_length_factors) {
    if (row >= from) factor = of;
  }
  return factor;
}

bool has_stand_in(primitives::MemoryBoundKind kind) {
  switch (kind) {
    case primitives::MemoryBoundKind::kElementwise:
    case primitives::MemoryBoundKind::kSoftmax:
    case primitives::MemoryBoundKind::kNorm: return false;
    case primitives::MemoryBoundKind::kBatchNorm:
    case primitives::MemoryBoundKind::kPool:
    case primitives::MemoryBoundKind::kCopy:
    case primitives::MemoryBoundKind::kLookup:
    case primitives::MemoryBoundKind::kUpdate:
    case primitives::MemoryBoundKind::kRecurrent: return true;
  }
  return false;
}

}  // namespace

double rows_of(DataSize traffic, std::int64_t row, DataSize element) {
  return row > 0 ? traffic / (2.0 * static_cast<double>(row) * element) : 0.0;
}

Time memory_bound_time(const hardware::MemoryBoundCurve& curve, const hardware::DeviceSpec& spec,
                       MemoryBoundSize size) {
  Time time{};
  for (const auto& [at, share] : curve.slope_changes) {
    const DataSize beyond = size.traffic - spec.l2 * at;
    if (beyond > DataSize::zero()) time += beyond / spec.memory * share;
  }
  return time * factor_of(curve, size.row) + curve.time_per_row * (size.rows / spec.multiprocessors);
}

Time measured_time(const hardware::MeasuringOverhead& overhead, Time kernel) {
  return max(overhead.floor, overhead.overhead + kernel);
}

hardware::MeasuringOverhead overhead_of(const hardware::MemoryBoundCurve& curve, std::string_view series) {
  for (const hardware::MeasuringOverhead& known : curve.overheads) {
    if (known.series == series) return known;
  }
  return {std::string(series), {}, {}};
}

std::optional<ChosenMemoryBound> choose_memory_bound(const hardware::GpuProfile& profile,
                                                     primitives::MemoryBoundKind kind, std::int64_t row) {
  if (const auto* own = curve_of(profile, kind, row)) return ChosenMemoryBound{own, false};
  if (!has_stand_in(kind)) return std::nullopt;
  if (const auto* other = curve_of(profile, primitives::MemoryBoundKind::kElementwise, 0)) {
    return ChosenMemoryBound{other, true};
  }
  return std::nullopt;
}

double doublings_outside(const hardware::CurveReport& report, std::string_view feature, double value) {
  for (const hardware::CurveReport::Range& range : report.fitted_ranges) {
    if (range.feature != feature || !(value > 0)) continue;
    if (range.most > 0 && value > range.most) return portable_log2(value / range.most);
    if (value < range.least) return portable_log2(range.least / value);
  }
  return 0.0;
}

}  // namespace ddlsim::cost
