#include "ddlsim/calib/convolution_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/cost/convolution_time.h"
#include "judgement.h"
#include "tile_search.h"

namespace ddlsim::calib {
namespace {

using hardware::ConvolutionCurve;
using hardware::CurveReport;
using hardware::DeviceSpec;
using hardware::ProductSize;

constexpr double kScale = 0.1;  // of residuals: the choice among algorithms is not the model's to know
constexpr double kPull = 0.03;  // per unit of a logarithm, of kPullRows rows
constexpr double kPullRows = 1200;
constexpr double kLeastQuantile = 0.005;  // the very least time may be a fault of the clock
constexpr double kWorthAPart = 0.0025;    // of the cost
constexpr std::size_t kFewestGradients = 12;

std::uint64_t shape_hash(const ConvolutionShape& shape, std::int64_t batch, std::uint64_t salt) {
  const auto word = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
  return stable_hash({salt, static_cast<std::uint64_t>(shape.pass), word(batch), word(shape.in), word(shape.out),
                      word(shape.groups), word(shape.input[0]), word(shape.input[1]), word(shape.output[0]),
                      word(shape.output[1]), word(shape.kernel[0]), word(shape.kernel[1]), word(shape.stride[0]),
                      word(shape.stride[1]), word(shape.dilation[0]), word(shape.dilation[1])});
}

Expected<void> check(std::span<const ConvolutionRow> rows, const DeviceSpec& spec) {
  const auto bad = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  if (auto sound = check_spec(spec); !sound) return sound;
  std::set<std::uint64_t> shapes;
  std::size_t forward = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ConvolutionShape& s = rows[i].shape;
    for (const std::int64_t x : {rows[i].batch, s.in, s.out, s.groups, s.input[0], s.input[1], s.output[0], s.output[1],
                                 s.kernel[0], s.kernel[1], s.stride[0], s.stride[1], s.dilation[0], s.dilation[1]}) {
      if (x < 1) return bad("row " + std::to_string(i + 1) + ": a size is not at least 1");
    }
    const double time = rows[i].time.in(seconds);
    if (!std::isfinite(time) || time <= 0) return bad("row " + std::to_string(i + 1) + ": the time is not positive");
    if (s.pass != ConvolutionPass::kForward) continue;
    ++forward;
    shapes.insert(shape_hash(s, rows[i].batch, 0));
  }
  if (auto enough = check_count(forward, "forward convolutions"); !enough) return enough;
  if (shapes.size() < 2) return bad("all forward rows have one shape: a one-point curve; a fit needs several");
  return {};
}

/// Which algorithms and tiles a curve has.
struct Parts {
  std::vector<Tile> implicit;
  std::vector<Tile> transformed;
  bool fused = true;
};

enum Shared : std::size_t {
  kOverhead,
  kFloor,
  kDrift,
  kMemory,
  kExposed,
  kStart,
  kQuantised,
  kSlowdown,
  kSettle,
  kFusedEfficiency,
  kFusedStart,
  kFusedMoved,
  kApartStart,
  kApartMoved,
  kApartWeights,
  kApartLaunch,
  kSharedCount,
};

std::vector<Parameter> parameters_of(const Parts& parts, double least_time, double most_order) {
  const double t = least_time;
  const double drift = t / std::pow(std::max(most_order, 1.0), 1.5);
  std::vector<Parameter> all(kSharedCount);
  // A library that chooses an algorithm takes its time, so that most rows have more overhead than the fastest.
  all[kOverhead] = in_logarithm({t * 1e-2, t * 0.5, t * 1.5});
  all[kFloor] = in_logarithm({t * 0.5, t, t * 1.1});
  all[kDrift] = in_logarithm({drift * 1e-3, drift, drift * 50});
  all[kMemory] = in_logarithm({0.2, 0.9, 1.5});
  all[kExposed] = in_logarithm({0.01, 0.8, 1});
  all[kStart] = in_logarithm({0.1, 8, 2000});
  all[kQuantised] = in_logarithm({0.01, 0.8, 1});
  all[kSlowdown] = in_logarithm({1e-4, 0.01, 1});  // clocks do not fall below half
  all[kSettle] = in_logarithm({1e-5, 1e-3, 0.1});
  all[kFusedEfficiency] = in_logarithm({0.05, 0.8, 1.3});
  all[kFusedStart] = in_logarithm({0.1, 20, 2000});
  all[kFusedMoved] = in_logarithm({0.05, 1.5, 20});
  all[kApartStart] = in_logarithm({0.1, 8, 2000});
  all[kApartMoved] = in_logarithm({0.05, 2, 20});
  all[kApartWeights] = in_logarithm({0.05, 3, 20});
  all[kApartLaunch] = in_logarithm({1e-7, 5e-6, 3e-4});
  for (const auto* tiles : {&parts.implicit, &parts.transformed}) {
    for (const Tile& tile : *tiles) {
      all.push_back(in_logarithm({0.02, tile.efficiency, 1.3}));
      all.push_back(in_logarithm({0.2, tile.resident, 8}));
    }
  }
  return all;
}

/// The curve at the logarithms x, into one whose vectors are there already.
void put(const std::vector<double>& x, const Parts& parts, ConvolutionCurve& curve) {
  auto& product = curve.product;
  product.overhead = seconds(e_to(x[kOverhead]));
  product.floor = seconds(e_to(x[kFloor]));
  product.memory = e_to(x[kMemory]);
  product.exposed = e_to(x[kExposed]);
  product.k_start = e_to(x[kStart]);
  product.quantised = e_to(x[kQuantised]);
  product.slowdown = e_to(x[kSlowdown]);
  product.settle = seconds(e_to(x[kSettle]));
  curve.drift = seconds(e_to(x[kDrift]));
  curve.winograd2 = {.efficiency = parts.fused ? e_to(x[kFusedEfficiency]) : 0,
                     .k_start = e_to(x[kFusedStart]),
                     .moved = e_to(x[kFusedMoved])};
  curve.winograd4.k_start = e_to(x[kApartStart]);
  curve.winograd4.moved = e_to(x[kApartMoved]);
  curve.winograd4.weights = e_to(x[kApartWeights]);
  curve.winograd4.start = seconds(e_to(x[kApartLaunch]));
  product.tiles = parts.implicit;
  curve.winograd4.tiles = parts.transformed;
  std::size_t i = kSharedCount;
  for (auto* tiles : {&product.tiles, &curve.winograd4.tiles}) {
    for (Tile& tile : *tiles) {
      tile.efficiency = e_to(x[i++]);
      tile.resident = e_to(x[i++]);
    }
  }
}

/// The tiles of cuDNN's kernels, as their names have them (scudnn_128x64, sgemm_32x128, h884cudnn_256x128).
Parts all_parts(Precision precision, const std::vector<Tile>& given) {
  const auto tiles = [](const std::vector<std::pair<double, double>>& shapes) {
    std::vector<Tile> made;
    for (const auto& [m, n] : shapes) made.push_back({.m = m, .n = n, .efficiency = 0.8, .resident = 1});
    return made;
  };
  Parts parts;
  parts.implicit = tiles({{128, 128}, {128, 64}, {128, 32}});
  parts.transformed = tiles({{128, 128}, {128, 64}, {64, 64}, {32, 128}, {128, 32}});
  if (precision != Precision::kFp32) {
    // On tensor cores all of DeepBench's forward rows ran as implicit products.
    parts = {
        .implicit = tiles({{256, 128}, {256, 64}, {128, 128}, {128, 64}, {64, 64}}), .transformed = {}, .fused = false};
  }
  if (!given.empty()) parts.implicit = given;
  return parts;
}

struct Fitted {
  Parts parts;
  SearchResult result;
};

/// What the search fits: forward rows, in their logarithms.
class ForwardFit {
 public:
  ForwardFit(std::vector<ConvolutionRow> rows, const DeviceSpec& spec, Precision precision)
      : rows_(std::move(rows)), spec_(spec), precision_(precision) {
    std::vector<double> times;
    for (const ConvolutionRow& row : rows_) {
      times.push_back(row.time.in(seconds));
      logs_.push_back(ln(times.back()));
      most_order_ = std::max(most_order_, static_cast<double>(row.order));
    }
    least_ = quantile(std::move(times), kLeastQuantile);
  }

  [[nodiscard]] SearchResult fit(const Parts& parts, std::vector<double> from, int steps) const {
    const std::vector<Parameter> parameters = parameters_of(parts, least_, most_order_);
    if (from.empty()) {
      for (const Parameter& parameter : parameters) from.push_back(parameter.home);
    }
    ConvolutionCurve tried;
    const Residuals residuals = [&](const std::vector<double>& x, std::vector<double>& out) {
      tried = curve_at(x, parts);
      out.resize(rows_.size());
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = ln(as_measured(tried, spec_, rows_[i]).in(seconds)) - logs_[i];
      }
    };
    SearchOptions options;
    options.most_steps = steps;
    options.scale = kScale;
    options.pull = kPull * std::sqrt(static_cast<double>(rows_.size()) / kPullRows);
    return search(residuals, parameters, std::move(from), options);
  }

  [[nodiscard]] ConvolutionCurve curve_at(const std::vector<double>& x, const Parts& parts) const {
    ConvolutionCurve curve;
    curve.precision = precision_;
    curve.product.precision = precision_;
    put(x, parts, curve);
    if (most_order_ == 0) curve.drift = Time::zero();
    return curve;
  }

  /// Leaves out what the curve can do without: the fused algorithm, then tiles from the last on.
  [[nodiscard]] Fitted best(const Parts& all) const {
    Fitted best{all, fit(all, {}, 60)};
    if (best.parts.fused) {
      Parts without = best.parts;
      without.fused = false;
      try_without(best, std::move(without), {});
    }
    for (std::size_t t = best.parts.transformed.size(); t-- > 0;) {
      Parts without = best.parts;
      without.transformed.erase(without.transformed.begin() + static_cast<std::ptrdiff_t>(t));
      try_without(best, std::move(without), best.parts.implicit.size() + t);
    }
    for (std::size_t t = best.parts.implicit.size(); t-- > 0 && best.parts.implicit.size() > 1;) {
      Parts without = best.parts;
      without.implicit.erase(without.implicit.begin() + static_cast<std::ptrdiff_t>(t));
      try_without(best, std::move(without), t);
    }
    best.result = fit(best.parts, best.result.x, 30);
    return best;
  }

 private:
  void try_without(Fitted& best, Parts parts, std::optional<std::size_t> tile) const {
    std::vector<double> x = best.result.x;
    if (tile) {
      const auto at = x.begin() + static_cast<std::ptrdiff_t>(kSharedCount + 2 * *tile);
      x.erase(at, at + 2);
    }
    SearchResult result = fit(parts, std::move(x), 0);
    if (result.cost < best.result.cost * (1 + kWorthAPart)) best = {std::move(parts), std::move(result)};
  }

  std::vector<ConvolutionRow> rows_;
  const DeviceSpec& spec_;
  Precision precision_;
  std::vector<double> logs_;
  double least_ = 0;
  double most_order_ = 0;
};

std::vector<CurveReport::Range> hull_of(const std::vector<ConvolutionRow>& rows) {
  std::vector<CurveReport::Range> hull{{"products", 0, 0}, {"m", 0, 0}, {"n", 0, 0}, {"k", 0, 0}, {"flop", 0, 0}};
  for (const ConvolutionRow& row : rows) {
    const ProductSize size = cost::implicit_product(row.shape, static_cast<double>(row.batch));
    const double features[]{size.products, size.m, size.n, size.k, 2 * size.products * size.m * size.n * size.k};
    for (std::size_t f = 0; f < hull.size(); ++f) {
      hull[f].least = hull[f].least > 0 ? std::min(hull[f].least, features[f]) : features[f];
      hull[f].most = std::max(hull[f].most, features[f]);
    }
  }
  return hull;
}

/// What a row took without the measurement's part; nothing where that hides it.
std::optional<Time> net_time(const ConvolutionCurve& curve, const ConvolutionRow& row) {
  const Time net = row.time - overhead_of(curve, row.order);
  if (net <= Time::zero() || row.time <= curve.product.floor) return std::nullopt;
  return net;
}

Time predicted(const ConvolutionCurve& curve, const DeviceSpec& spec, const ConvolutionRow& row) {
  return cost::convolution_time(curve, spec, row.shape, static_cast<double>(row.batch),
                                activation_size(curve.precision));
}

/// The median of what the input's gradients took relative to the curve, of strides or of none; 1 without rows.
double input_ratio(const ConvolutionCurve& curve, const DeviceSpec& spec, const std::vector<ConvolutionRow>& rows,
                   bool strided, double otherwise) {
  std::vector<double> ratios;
  for (const ConvolutionRow& row : rows) {
    const bool steps = row.shape.stride != std::array<std::int64_t, 2>{1, 1};
    if (row.shape.pass != ConvolutionPass::kInputGradient || steps != strided) continue;
    if (const auto net = net_time(curve, row)) ratios.push_back(*net / predicted(curve, spec, row));
  }
  return ratios.empty() ? otherwise : quantile(std::move(ratios), 0.5) * otherwise;
}

/// The three constants of the weights' gradient, pulled towards what stands without rows.
void fit_weight_gradients(ConvolutionCurve& curve, const DeviceSpec& spec, const std::vector<ConvolutionRow>& rows) {
  std::vector<const ConvolutionRow*> seen;
  for (const ConvolutionRow& row : rows) {
    if (row.shape.pass == ConvolutionPass::kWeightGradient && net_time(curve, row)) seen.push_back(&row);
  }
  if (seen.size() < kFewestGradients) return;
  const std::vector<Parameter> parameters{in_logarithm({0.2, curve.weight_gradient, 10}),
                                          in_logarithm({1, curve.weight_start, 5000}),
                                          in_logarithm({0.2, curve.weight_winograd, 5})};
  const auto take = [&](const std::vector<double>& x) {
    curve.weight_gradient = e_to(x[0]);
    curve.weight_start = e_to(x[1]);
    curve.weight_winograd = e_to(x[2]);
  };
  const Residuals residuals = [&](const std::vector<double>& x, std::vector<double>& out) {
    take(x);
    out.resize(seen.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = ln(as_measured(curve, spec, *seen[i]) / seen[i]->time);
    }
  };
  SearchOptions options;
  options.scale = kScale;
  options.pull = kPull;
  take(search(residuals, parameters, {parameters[0].home, parameters[1].home, parameters[2].home}, options).x);
}

}  // namespace

Time overhead_of(const ConvolutionCurve& curve, std::int64_t order) {
  const auto before = static_cast<double>(order);
  return curve.product.overhead + curve.drift * (before * std::sqrt(before));
}

bool held_out(const ConvolutionShape& shape, std::int64_t batch) { return shape_hash(shape, batch, 1) % 5 == 0; }

Time as_measured(const ConvolutionCurve& curve, const DeviceSpec& spec, const ConvolutionRow& row) {
  return max(curve.product.floor, overhead_of(curve, row.order) + predicted(curve, spec, row));
}

CurveReport judge(const ConvolutionCurve& curve, const DeviceSpec& spec, std::span<const ConvolutionRow> rows) {
  std::vector<double> ratios;
  std::vector<bool> half;
  for (const ConvolutionRow& row : rows) {
    ratios.push_back(as_measured(curve, spec, row) / row.time);
    half.push_back(shape_hash(row.shape, row.batch, 2) % 2 == 0);
  }
  CurveReport report;
  judge_ratios(ratios, half, report);
  return report;
}

double anchor(const ConvolutionCurve& curve, const DeviceSpec& spec, std::span<const ConvolutionRow> rows) {
  std::vector<double> ratios;
  for (const ConvolutionRow& row : rows) {
    ratios.push_back(row.time / as_measured(curve, spec, row));
  }
  return ratios.empty() ? 1 : quantile(std::move(ratios), 0.5);
}

Expected<ConvolutionCurve> fit_convolutions(std::span<const ConvolutionRow> rows, const DeviceSpec& spec,
                                            Precision precision, const ProductFitOptions& options) {
  if (auto sound = check(rows, spec); !sound) return tl::unexpected<Error>(sound.error());
  std::vector<ConvolutionRow> fitted;
  std::vector<ConvolutionRow> judged;
  for (const ConvolutionRow& row : rows) (held_out(row.shape, row.batch) ? judged : fitted).push_back(row);
  std::vector<ConvolutionRow> seen;
  std::copy_if(fitted.begin(), fitted.end(), std::back_inserter(seen),
               [](const ConvolutionRow& row) { return row.shape.pass == ConvolutionPass::kForward; });
  if (seen.empty()) {
    return fail(ErrorCode::kInvalidArgument, "all forward rows are held out; a fit needs more shapes");
  }
  std::stable_sort(seen.begin(), seen.end(), [](const ConvolutionRow& a, const ConvolutionRow& b) {
    return shape_hash(a.shape, a.batch, 3) < shape_hash(b.shape, b.batch, 3);
  });
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(options.most_rows, 1));
  if (seen.size() > most) seen.resize(most);

  const ForwardFit forward(std::move(seen), spec, precision);
  const Fitted best = forward.best(all_parts(precision, options.tiles));
  ConvolutionCurve curve = forward.curve_at(best.result.x, best.parts);
  curve.input_gradient = input_ratio(curve, spec, fitted, false, curve.input_gradient);
  curve.strided_gradient = input_ratio(curve, spec, fitted, true, curve.strided_gradient);
  fit_weight_gradients(curve, spec, fitted);
  curve.gradient_rows = std::count_if(fitted.begin(), fitted.end(), [](const ConvolutionRow& row) {
    return row.shape.pass != ConvolutionPass::kForward;
  });
  curve.report = judge(curve, spec, judged);
  curve.report.fitted = static_cast<std::int64_t>(fitted.size());
  curve.report.hull = hull_of(fitted);
  curve.report.measured = options.measured;
  return curve;
}

}  // namespace ddlsim::calib
