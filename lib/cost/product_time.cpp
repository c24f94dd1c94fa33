#include "ddlsim/cost/product_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::cost {
namespace {

using hardware::CurveReport;
using hardware::DeviceSpec;
using hardware::ProductCurve;
using hardware::ProductSize;

constexpr double kMostParts = 64;
constexpr double kShortestPart = 64;
constexpr double kLeastTime = 1e-12;  // s; keeps what follows positive for the smallest products

/// std::floor is a call without SSE 4.1, and this is what the time goes into. Beyond 1e15 doubles are whole anyway.
double whole(double x) { return x < 1e15 ? static_cast<double>(static_cast<std::int64_t>(x)) : x; }

double ceiling(double x) {
  const double down = whole(x);
  return down < x ? down + 1 : down;
}

/// What all tiles share, in seconds and steps of k.
struct Shared {
  double k = 1;
  double multiprocessors = 1;
  double k_start = 0;
  double most_parts = 1;
  double split_start = 0;
  double step = 0;  // of a tile of one element at efficiency 1
  double move = 0;
  double move_part = 0;  // more per part of a split k
};

struct Place {
  double step = 0;   // one step of k of one tile
  double tiles = 1;  // per multiprocessor, before k is split
  double resident = 1;
};

/// Before clocks fall.
double compute_time(const ProductCurve& curve, const Shared& shared, const Place& place, double parts) {
  const double x = place.tiles * parts;
  const double row =
      curve.quantised * std::max(ceiling(x), place.resident) + (1 - curve.quantised) * std::max(x, place.resident);
  const double steps = parts > 1 ? ceiling(shared.k / parts) : shared.k;
  return row * place.step * (steps + shared.k_start);
}

double time_of(const ProductCurve& curve, double compute, double move) {
  if (curve.slowdown > 0) compute *= 1 + curve.slowdown * compute / (compute + curve.settle.in(seconds));
  return std::max(compute, move) + curve.exposed * std::min(compute, move);
}

double best_split(const ProductCurve& curve, const Shared& shared, const Place& place) {
  double best = Time::infinity().in(seconds);
  const double full = 1 / place.tiles;
  const std::array<double, 4> tried{whole(full / 4), whole(full / 2), whole(full), whole(2 * full)};
  double before = 1;
  for (const double wanted : tried) {
    const double parts = std::min(wanted, shared.most_parts);
    if (parts <= before) continue;
    before = parts;
    const double compute = compute_time(curve, shared, place, parts);
    best = std::min(best, time_of(curve, compute, shared.move + parts * shared.move_part));
  }
  return best + shared.split_start;
}

/// Of whole k only the fastest tile matters, because what follows grows with it; splits also move more.
double best_of(const ProductCurve& curve, std::span<const ProductCurve::Tile> tiles_of, const Shared& shared,
               const ProductSize& size) {
  double compute = Time::infinity().in(seconds);
  double split = compute;
  for (const ProductCurve::Tile& tile : tiles_of) {
    const double tiles = size.products * ceiling(size.m / tile.m) * ceiling(size.n / tile.n);
    const Place place{.step = shared.step * tile.m * tile.n / tile.efficiency,
                      .tiles = tiles / shared.multiprocessors,
                      .resident = tile.resident};
    compute = std::min(compute, compute_time(curve, shared, place, 1));
    if (place.tiles <= 1 && shared.most_parts > 1) split = std::min(split, best_split(curve, shared, place));
  }
  return std::min(time_of(curve, compute, shared.move), split);
}

double feature(const ProductSize& size, const std::string& name) {
  if (name == "m") return size.m;
  if (name == "n") return size.n;
  if (name == "k") return size.k;
  if (name == "products") return size.products;
  if (name == "flop") return 2 * size.products * size.m * size.n * size.k;
  return 0;
}

}  // namespace

Time product_time(const ProductCurve& curve, const DeviceSpec& spec, const ProductSize& size, DataSize element) {
  return product_time(curve, spec, size, element,
                      element * (size.products * ((curve.left * size.m + size.n) * size.k + size.m * size.n)));
}

Time product_time(const ProductCurve& curve, const DeviceSpec& spec, const ProductSize& size, DataSize element,
                  DataSize moved) {
  const double peak = spec.peak.in(flops_per_second);
  const double bandwidth = spec.memory.in(bytes_per_second)*curve.memory;
  const double output = size.products * size.m * size.n;
  const double move = moved.in(bytes) / bandwidth;
  if (curve.tiles.empty()) return seconds(std::max({2 * output * size.k / peak, move, kLeastTime}));
  const bool far = curve.far > 0 && size.k > curve.far_k;
  const double slower = far ? 1 + curve.far * portable_log2(size.k / curve.far_k) : 1;
  const Shared shared{.k = size.k,
                      .multiprocessors = spec.multiprocessors,
                      .k_start = curve.k_start,
                      .most_parts = curve.batched ? 1 : std::min(kMostParts, whole(size.k / kShortestPart)),
                      .split_start = curve.split_start.in(seconds),
                      .step = 2 * slower * spec.multiprocessors / peak,
                      .move = move,
                      .move_part = element.in(bytes)*output * curve.split_passes / bandwidth};
  return seconds(std::max(best_of(curve, curve.tiles, shared, size), kLeastTime));
}

Time product_time(const ProductCurve& curve, const ProductWay& way, const DeviceSpec& spec, const ProductSize& size,
                  DataSize moved) {
  const double peak = spec.peak.in(flops_per_second);
  const Shared shared{.k = size.k,
                      .multiprocessors = spec.multiprocessors,
                      .k_start = way.k_start,
                      .most_parts = std::min(way.most_parts, whole(size.k / kShortestPart)),
                      .step = 2 * spec.multiprocessors / peak,
                      .move = moved.in(bytes) / (spec.memory.in(bytes_per_second)*curve.memory)};
  double time = best_of(curve, way.tiles, shared, size);
  if (way.turned) {
    const ProductSize turned{.products = size.products, .m = size.n, .n = size.m, .k = size.k};
    time = std::min(time, best_of(curve, way.tiles, shared, turned));
  }
  return seconds(std::max(time, kLeastTime));
}

const ProductCurve* product_curve(std::span<const ProductCurve> curves, Precision precision, double products) {
  const ProductCurve* found = nullptr;
  for (const ProductCurve& curve : curves) {
    if (curve.precision != precision) continue;
    if (curve.batched == (products > 1)) return &curve;
    if (found == nullptr) found = &curve;
  }
  return found;
}

double outside(const CurveReport& report, const ProductSize& size) {
  double most = 0;
  for (const CurveReport::Range& range : report.hull) {
    const double value = feature(size, range.feature);
    if (!(value > 0) || !(range.least > 0)) continue;
    if (value > range.most) most = std::max(most, portable_log2(value / range.most));
    if (value < range.least) most = std::max(most, portable_log2(range.least / value));
  }
  return most;
}

}  // namespace ddlsim::cost
