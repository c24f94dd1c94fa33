#include "ddlsim/cost/attention_time.h"

#include <algorithm>
#include <cstddef>

#include "ddlsim/cost/memory_bound_time.h"
#include "ddlsim/support/portable_math.h"

namespace ddlsim::cost {
namespace {

using hardware::AttentionCurve;
using hardware::DeviceSpec;
using primitives::AttentionPass;
using primitives::AttentionShape;

constexpr double kLeastAttention = 1e-12;  // s; keeps what follows positive

double count_of(std::int64_t count) { return static_cast<double>(count); }

double rounded_up(double x) {
  const auto down = static_cast<double>(static_cast<std::int64_t>(x));
  return down < x ? down + 1 : down;
}

/// FLOPs of a pair of one head: two products forward, five backward.
double flops_per_pair(const AttentionShape& shape) {
  const bool forward = shape.pass == AttentionPass::kForward;
  return 2 * ((forward ? 1.0 : 3.0) * count_of(shape.width) + (forward ? 1.0 : 2.0) * count_of(shape.value_width));
}

/// What a head's tiles go over: steps of a tile in the mean, and of the longest one.
struct HeadTiles {
  double count = 1;
  double mean = 0;
  double longest = 0;
};

HeadTiles head_tiles(const AttentionShape& shape, double rows_of_tile) {
  const bool forward = shape.pass == AttentionPass::kForward;
  const double rows = count_of(forward ? shape.queries : shape.keys);
  const double all = count_of(forward ? shape.keys : shape.queries);
  HeadTiles tiles{.count = rounded_up(rows / rows_of_tile)};
  const double reach = shape.window > 0 ? std::min(all, count_of(shape.window) + rows_of_tile) : all;
  if (!shape.causal) {
    tiles.mean = reach;
    tiles.longest = reach;
    return tiles;
  }
  // Tile i reaches (i + 1) M + before, the last ones `reach`.
  const double before = std::max(all - rows, 0.0);
  const double rising = std::clamp((reach - before) / rows_of_tile, 0.0, tiles.count);
  const double whole = rounded_up(rising) > rising ? rounded_up(rising) - 1 : rising;
  tiles.mean = (rows_of_tile * whole * (whole + 1) / 2 + before * whole + reach * (tiles.count - whole)) / tiles.count;
  tiles.longest = std::min(reach, tiles.count * rows_of_tile + before);
  return tiles;
}

/// Of a width between two measured ones: in proportion to its logarithm.
AttentionCurve::Width width_at(const AttentionCurve& curve, double width) {
  const auto above = std::find_if(curve.widths.begin(), curve.widths.end(),
                                  [&](const AttentionCurve::Width& one) { return one.width >= width; });
  if (above == curve.widths.begin() || above == curve.widths.end() || above->width == width) {
    return above == curve.widths.end() ? curve.widths.back() : *above;
  }
  const AttentionCurve::Width& below = *(above - 1);
  const double share = portable_log2(width / below.width) / portable_log2(above->width / below.width);
  return {width, share < 0.5 ? below.rows : above->rows,
          below.efficiency + share * (above->efficiency - below.efficiency),
          below.tiles_to_fill + share * (above->tiles_to_fill - below.tiles_to_fill)};
}

double attention_compute(const AttentionCurve& curve, const DeviceSpec& spec, const AttentionShape& shape, double batch,
                         double slowdown) {
  const AttentionCurve::Width at = width_at(curve, head_width(shape));
  const HeadTiles tiles = head_tiles(shape, at.rows);
  const double slower = slowdown * (shape.pass == curve.pass ? 1 : kBackwardSlowdown);
  const double step = slower * at.rows * flops_per_pair(shape) * spec.multiprocessors /
                      (at.efficiency * spec.peak.in(flops_per_second));
  const double extra = curve.prologue_steps + (shape.causal || shape.window > 0 ? curve.masked_steps : 0.0);
  const double x = batch * count_of(shape.heads) * tiles.count / spec.multiprocessors;
  const double row = curve.partial_wave_cost * std::max(rounded_up(x), at.tiles_to_fill) +
                     (1 - curve.partial_wave_cost) * std::max(x, at.tiles_to_fill);
  const double time = step * std::max(row * (tiles.mean + extra), at.tiles_to_fill * (tiles.longest + extra));
  if (!(curve.sustained_slowdown > 0)) return time;
  return time * (1 + curve.sustained_slowdown * time / (time + curve.slowdown_half_time.in(seconds)));
}

}  // namespace

hardware::GpuGeneration attention_generation(const hardware::Gpu& gpu) {
  if (gpu.kernels_of == "Ampere") return hardware::GpuGeneration::kAmpere;
  return gpu.nccl_tuning.value_or(hardware::GpuGeneration::kAmpere);
}

std::optional<KernelSlowdown> kernel_slowdown(primitives::AttentionKernel kernel, hardware::GpuGeneration generation,
                                              AttentionPass pass, double width) {
  using primitives::AttentionKernel;
  struct OfWidths {
    double of_64, of_128;
  };
  constexpr OfWidths kFlash2OnHopper[] = {{1.57, 1.85}, {1.56, 1.74}};  // forward, backward
  constexpr OfWidths kFlash2OnBlackwell[] = {{2.3, 3.55}, {3.36, 3.25}};
  constexpr double kFlash1OnAmpere[] = {1.38, 2.0};
  const bool is_newest = generation == hardware::GpuGeneration::kBlackwell;
  if (kernel == AttentionKernel::kBest || (kernel == AttentionKernel::kSdpa && is_newest)) return KernelSlowdown{};
  if (kernel == AttentionKernel::kFlash1 && is_newest) return std::nullopt;
  const std::size_t at = pass == AttentionPass::kForward ? 0 : 1;
  KernelSlowdown slower;
  if (generation >= hardware::GpuGeneration::kHopper) {
    const OfWidths& here = (is_newest ? kFlash2OnBlackwell : kFlash2OnHopper)[at];
    slower.compute = here.of_64 + std::clamp(portable_log2(width / 64), 0.0, 1.0) * (here.of_128 - here.of_64);
  }
  if (kernel == AttentionKernel::kFlash1) slower.whole = kFlash1OnAmpere[at];
  return slower;
}

double head_width(const AttentionShape& shape) { return (count_of(shape.width) + count_of(shape.value_width)) / 2; }

double attention_pairs(const AttentionShape& shape) {
  const double queries = count_of(shape.queries);
  const double keys = count_of(shape.keys);
  const double window = shape.window > 0 ? std::min(count_of(shape.window), keys) : keys;
  if (!shape.causal) return queries * window;
  // Query i (from 0) has `before` + i + 1 keys up to its own, and looks at `window` of them at most.
  const double before = std::max(keys - queries, 0.0);
  const double rising = std::clamp(window - before, 0.0, queries);
  return rising * before + rising * (rising + 1) / 2 + (queries - rising) * window;
}

Work attention_work(const AttentionShape& shape, double batch) {
  return flops(flops_per_pair(shape) * attention_pairs(shape) * count_of(shape.heads) * batch);
}

DataSize attention_traffic(const AttentionShape& shape, double batch, DataSize element) {
  const double widths = count_of(shape.width) + count_of(shape.value_width);
  const double once =
      widths * (count_of(shape.heads) * count_of(shape.queries) + count_of(shape.kv_heads) * count_of(shape.keys));
  return element * (once * batch * (shape.pass == AttentionPass::kForward ? 1 : 2));
}

DataSize attention_moved(const AttentionShape& shape, double batch, DataSize element) {
  if (shape.pass == AttentionPass::kForward) return attention_traffic(shape, batch, element);
  const double widths = count_of(shape.width) + count_of(shape.value_width);
  const double own = count_of(shape.heads);  // each head of queries makes its own gradients of keys and values
  const double shared = count_of(shape.kv_heads);
  const double of_query = own * (8 * count_of(shape.width) + 3 * count_of(shape.value_width));
  const double of_key = (shared + own + (shared == own ? 0 : own + shared)) * widths;
  return element * ((count_of(shape.queries) * of_query + count_of(shape.keys) * of_key) * batch);
}

Time attention_time(const AttentionCurve& curve, const DeviceSpec& spec, const AttentionShape& shape, double batch,
                    DataSize element, const KernelSlowdown& slowdown) {
  const double compute = attention_compute(curve, spec, shape, batch, slowdown.compute);
  const DataSize moved =
      shape.pass == curve.pass ? attention_moved(shape, batch, element) : attention_traffic(shape, batch, element);
  const double move = moved.in(bytes) / (spec.memory.in(bytes_per_second)*curve.memory_efficiency);
  const double time = std::max(compute, move) + curve.not_overlapped * std::min(compute, move);
  return seconds(std::max(slowdown.whole * time, kLeastAttention));
}

const AttentionCurve* attention_curve(std::span<const AttentionCurve> curves, Precision precision, AttentionPass pass) {
  const auto found = std::find_if(curves.begin(), curves.end(), [&](const AttentionCurve& curve) {
    return curve.precision == precision && curve.pass == pass;
  });
  return found == curves.end() ? nullptr : &*found;
}

double outside(const hardware::CurveReport& report, const AttentionShape& shape, double batch) {
  return std::max({doublings_outside(report, "queries", count_of(shape.queries)),
                   doublings_outside(report, "keys", count_of(shape.keys)),
                   doublings_outside(report, "width", head_width(shape)),
                   doublings_outside(report, "heads", count_of(shape.heads) * batch),
                   doublings_outside(report, "flop", attention_work(shape, batch).in(flops))});
}

}  // namespace ddlsim::cost
