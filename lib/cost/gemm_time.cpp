#include "ddlsim/cost/gemm_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::cost {
namespace {

using hardware::CurveReport;
using hardware::DeviceSpec;
using hardware::GemmCurve;
using hardware::GemmSize;

constexpr double kMostSplits = 64;
constexpr double kShortestPart = 64;
constexpr double kFp4OverFp8 = 1.6;        // gemm_time.h has where these are from
constexpr double kFp4Casts = 1.2;          // over those of fp8
constexpr double kFp4Operand = 9.0 / 32;   // of an element of two bytes
constexpr double kBatchedPrologue = 0.55;  // likewise
constexpr double kLeastTime = 1e-12;       // s; keeps what follows positive for the smallest GEMMs

/// std::floor is a call without SSE 4.1, and this is what the time goes into. Beyond 1e15 doubles are whole anyway.
double whole(double x) { return x < 1e15 ? static_cast<double>(static_cast<std::int64_t>(x)) : x; }

double ceiling(double x) {
  const double down = whole(x);
  return down < x ? down + 1 : down;
}

/// What all tiles share, in seconds and steps of k.
struct AllTiles {
  double k = 1;
  double multiprocessors = 1;
  double prologue_steps = 0;
  double longest_prologue = Time::infinity().in(seconds);  // of a tile of one element
  double most_splits = 1;
  double split_k_launch = 0;
  double step = 0;  // of a tile of one element at efficiency 1
  double move = 0;
  double move_part = 0;  // more per part of a split k
};

struct TileWork {
  double step = 0;   // one step of k of one tile
  double tiles = 1;  // per multiprocessor, before k is split
  double longest_prologue = Time::infinity().in(seconds);
  double tiles_to_fill = 1;
};

/// Before clocks fall.
double compute_time(const GemmCurve& curve, const AllTiles& shared, const TileWork& work, double parts) {
  const double x = work.tiles * parts;
  const double row = curve.partial_wave_cost * std::max(ceiling(x), work.tiles_to_fill) +
                     (1 - curve.partial_wave_cost) * std::max(x, work.tiles_to_fill);
  const double steps = parts > 1 ? ceiling(shared.k / parts) : shared.k;
  return row * (work.step * steps + std::min(work.step * shared.prologue_steps, work.longest_prologue));
}

double time_of(const GemmCurve& curve, double compute, double move) {
  if (curve.sustained_slowdown > 0) {
    compute *= 1 + curve.sustained_slowdown * compute / (compute + curve.slowdown_half_time.in(seconds));
  }
  return std::max(compute, move) + curve.not_overlapped * std::min(compute, move);
}

double best_split(const GemmCurve& curve, const AllTiles& shared, const TileWork& work) {
  double best = Time::infinity().in(seconds);
  const double full = 1 / work.tiles;
  const std::array<double, 4> tried{whole(full / 4), whole(full / 2), whole(full), whole(2 * full)};
  double before = 1;
  for (const double wanted : tried) {
    const double parts = std::min(wanted, shared.most_splits);
    if (parts <= before) continue;
    before = parts;
    const double compute = compute_time(curve, shared, work, parts);
    best = std::min(best, time_of(curve, compute, shared.move + parts * shared.move_part));
  }
  return best + shared.split_k_launch;
}

/// Of whole k only the fastest tile matters, because what follows grows with it; splits also move more.
double best_of(const GemmCurve& curve, std::span<const GemmCurve::Tile> tiles_of, const AllTiles& shared,
               const GemmSize& size) {
  double compute = Time::infinity().in(seconds);
  double split = compute;
  for (const GemmCurve::Tile& tile : tiles_of) {
    const double tiles = size.batch_count * ceiling(size.m / tile.m) * ceiling(size.n / tile.n);
    const TileWork work{.step = shared.step * tile.m * tile.n / tile.efficiency,
                        .tiles = tiles / shared.multiprocessors,
                        .longest_prologue = shared.longest_prologue * tile.m * tile.n,
                        .tiles_to_fill = tile.tiles_to_fill};
    compute = std::min(compute, compute_time(curve, shared, work, 1));
    if (work.tiles <= 1 && shared.most_splits > 1) split = std::min(split, best_split(curve, shared, work));
  }
  return std::min(time_of(curve, compute, shared.move), split);
}

double feature(const GemmSize& size, const std::string& name) {
  if (name.size() == 1) {
    switch (name.front()) {
      case 'm': return size.m;
      case 'n': return size.n;
      case 'k': return size.k;
      default: return 0;
    }
  }
  if (name == "batch_count") return size.batch_count;
  if (name == "flop") return 2 * size.batch_count * size.m * size.n * size.k;
  return 0;
}

/// What a GEMM's operands are for memory: their share of an element, and the passes that cast the left one.
struct Operands {
  double element = 1;
  double casts = 0;
};

Time with_casts(const GemmCurve& curve, const DeviceSpec& spec, const GemmSize& size, DataSize element,
                const Operands& operand) {
  const double operands = operand.element * (curve.left_operand_cost * size.m + size.n) * size.k;
  const Time product =
      gemm_time(curve, spec, size, element, element * (size.batch_count * (operands + size.m * size.n)));
  if (operand.casts == 0) return product;
  const double passes = operand.casts * size.batch_count * size.m * size.k;
  return product + element * passes / (spec.memory * curve.memory_efficiency);
}

}  // namespace

Time gemm_time(const GemmCurve& curve, const DeviceSpec& spec, const GemmSize& size, DataSize element) {
  // Operands of fp8 take one byte, what surrounds them two.
  const double operand = curve.precision == Precision::kFp8 ? 0.5 : 1.0;
  return with_casts(curve, spec, size, element, {operand, curve.left_operand_passes});
}

Time fp4_gemm_time(const GemmCurve& curve, const DeviceSpec& fp8, ComputeRate peak, const GemmSize& size,
                   DataSize element) {
  DeviceSpec spec = fp8;
  spec.peak = fp8.peak * std::min(kFp4OverFp8, peak / fp8.peak);
  return with_casts(curve, spec, size, element, {kFp4Operand, kFp4Casts * curve.left_operand_passes});
}

Time gemm_time(const GemmCurve& curve, const DeviceSpec& spec, const GemmSize& size, DataSize element, DataSize moved) {
  const double peak = spec.peak.in(flops_per_second);
  const double bandwidth = spec.memory.in(bytes_per_second)*curve.memory_efficiency;
  const double output = size.batch_count * size.m * size.n;
  const double move = moved.in(bytes) / bandwidth;
  if (curve.tiles.empty()) return seconds(std::max({2 * output * size.k / peak, move, kLeastTime}));
  const bool is_long = curve.long_k_slowdown > 0 && size.k > curve.long_k;
  const double slower = is_long ? 1 + curve.long_k_slowdown * portable_log2(size.k / curve.long_k) : 1;
  const bool never_batched = size.batch_count > 1 && !curve.batched && !curve.grouped;
  const AllTiles shared{
      .k = size.k,
      .multiprocessors = spec.multiprocessors,
      .prologue_steps = curve.prologue_steps,
      .longest_prologue =
          never_batched ? kBatchedPrologue * element.in(bytes)*spec.multiprocessors / spec.memory.in(bytes_per_second)
                        : Time::infinity().in(seconds),
      .most_splits = curve.batched || curve.grouped ? 1 : std::min(kMostSplits, whole(size.k / kShortestPart)),
      .split_k_launch = curve.split_k_launch.in(seconds),
      .step = 2 * slower * spec.multiprocessors / peak,
      .move = move,
      .move_part = element.in(bytes)*output * curve.split_k_passes / bandwidth};
  return seconds(std::max(best_of(curve, curve.tiles, shared, size), kLeastTime));
}

Time gemm_time(const GemmCurve& curve, const GemmVariant& variant, const DeviceSpec& spec, const GemmSize& size,
               DataSize moved) {
  const double peak = spec.peak.in(flops_per_second);
  const AllTiles shared{.k = size.k,
                        .multiprocessors = spec.multiprocessors,
                        .prologue_steps = variant.prologue_steps,
                        .most_splits = std::min(variant.most_splits, whole(size.k / kShortestPart)),
                        .step = 2 * spec.multiprocessors / peak,
                        .move = moved.in(bytes) / (spec.memory.in(bytes_per_second)*curve.memory_efficiency)};
  double time = best_of(curve, variant.tiles, shared, size);
  if (variant.either_orientation) {
    const GemmSize on_its_side{.batch_count = size.batch_count, .m = size.n, .n = size.m, .k = size.k};
    time = std::min(time, best_of(curve, variant.tiles, shared, on_its_side));
  }
  return seconds(std::max(time, kLeastTime));
}

namespace {

/// `routing` of the header: rows are sorted, activated and summed.
Time routing_time(const GemmCurve& curve, const DeviceSpec& spec, const primitives::TimedExperts& experts) {
  const auto count = [](std::int64_t a, std::int64_t b) { return static_cast<double>(a) * static_cast<double>(b); };
  const double first = experts.gated ? 2 : 1;
  const double elements = 3 * count(experts.routed, experts.width) + 2 * count(experts.tokens, experts.width) +
                          (first + 1) * count(experts.routed, experts.inner);
  return activation_size(curve.precision) * (elements * curve.routing_passes) / spec.memory;
}

}  // namespace

Time experts_time(const GemmCurve& curve, const DeviceSpec& spec, const primitives::TimedExperts& experts) {
  const double groups = static_cast<double>(std::min(experts.experts, experts.routed));
  const double rows = static_cast<double>(experts.routed) / groups;  // one at least
  const auto width = static_cast<double>(experts.width);
  const auto inner = static_cast<double>(experts.inner);
  const DataSize element = activation_size(curve.precision);
  return gemm_time(curve, spec, {groups, rows, experts.gated ? 2 * inner : inner, width}, element) +
         gemm_time(curve, spec, {groups, rows, width, inner}, element) + routing_time(curve, spec, experts);
}

const GemmCurve* gemm_curve(std::span<const GemmCurve> curves, Precision precision, double batch_count, bool grouped) {
  const GemmCurve* found = nullptr;
  for (const GemmCurve& curve : curves) {
    if (curve.precision != precision) continue;
    if (grouped && curve.grouped) return &curve;
  }
  for (const GemmCurve& curve : curves) {
    if (curve.precision != precision || curve.grouped) continue;
    if (curve.batched == (batch_count > 1)) return &curve;
    if (found == nullptr) found = &curve;
  }
  return found;
}

double outside(const CurveReport& report, const GemmSize& size) {
  double most = 0;
  for (const CurveReport::Range& range : report.fitted_ranges) {
    const double value = feature(size, range.feature);
    if (!(value > 0) || !(range.least > 0)) continue;
    if (value > range.most) most = std::max(most, portable_log2(value / range.most));
    if (value < range.least) most = std::max(most, portable_log2(range.least / value));
  }
  return most;
}

}  // namespace ddlsim::cost
