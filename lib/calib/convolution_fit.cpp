#include "ddlsim/calib/convolution_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/cost/convolution_time.h"
#include "row_fit.h"
#include "tile_search.h"

namespace ddlsim::calib {
namespace {

using hardware::ConvolutionCurve;
using hardware::DeviceSpec;
using hardware::GemmSize;

constexpr double kScale = 0.1;              // of residuals: the choice among algorithms is not the model's to know
constexpr double kConvolutionPrior = 0.03;  // per unit of a logarithm, of kConvolutionPriorRows rows
constexpr double kConvolutionPriorRows = 1200;
constexpr double kWorthAPart = 0.0025;  // of the cost
constexpr std::size_t kFewestGradients = 12;
constexpr int kRefitSteps = 15;

Expected<void> check(std::span<const ConvolutionRow> rows, const DeviceSpec& spec) {
  const auto bad = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  if (auto sound = check_spec(spec); !sound) return sound;
  std::set<std::uint64_t> shapes;
  std::size_t forward = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const primitives::ConvolutionShape& s = rows[i].shape;
    for (const std::int64_t x : {rows[i].batch, s.in, s.out, s.groups, s.input[0], s.input[1], s.output[0], s.output[1],
                                 s.kernel[0], s.kernel[1], s.stride[0], s.stride[1], s.dilation[0], s.dilation[1]}) {
      if (x < 1) return bad("row " + std::to_string(i + 1) + ": a size is not at least 1");
    }
    const double time = rows[i].time.in(seconds);
    if (!std::isfinite(time) || time <= 0) return bad("row " + std::to_string(i + 1) + ": the time is not positive");
    if (s.pass != primitives::ConvolutionPass::kForward) continue;
    ++forward;
    shapes.insert(shape_hash(shape_of(rows[i], 0)));
  }
  if (auto enough = check_count(forward, "forward convolutions"); !enough) return enough;
  if (shapes.size() < 2) return bad("all forward rows have one shape: a one-point curve; a fit needs several");
  return {};
}

/// Which algorithms and tiles a curve has.
struct Parts {
  std::vector<Tile> implicit_gemm;
  std::vector<Tile> nonfused;
  bool fused = true;
};

enum Shared : std::size_t {
  kOverhead,
  kFloor,
  kOverheadGrowth,
  kMemoryEfficiency,
  kNotOverlapped,
  kPrologueSteps,
  kPartialWaveCost,
  kSustainedSlowdown,
  kSlowdownHalfTime,
  kFusedEfficiency,
  kFusedPrologueSteps,
  kFusedWeightPasses,
  kNonfusedPrologueSteps,
  kNonfusedActivationPasses,
  kNonfusedWeightPasses,
  kNonfusedExtraLaunches,
  kSharedCount,
};

/// What a fit's rows and its GPU bound parameters by.
struct Bounds {
  double least_time = 0;
  double most_rows_before = 0;
  double most_slowdown = 1;
};

std::vector<Parameter> parameters_of(const Parts& parts, const Bounds& bounds) {
  const double t = bounds.least_time;
  const double rows = std::max(bounds.most_rows_before, 1.0);
  const double growth = t / (rows * std::sqrt(rows));
  std::vector<Parameter> all(kSharedCount);
  // A library that chooses an algorithm takes its time, so that most rows have more overhead than the fastest.
  all[kOverhead] = in_logarithm({t * 1e-2, t * 0.5, t * 1.5});
  all[kFloor] = in_logarithm({t * 0.5, t, t * 1.1});
  all[kOverheadGrowth] = in_logarithm({growth * 1e-3, growth, growth * 50});
  all[kMemoryEfficiency] = in_logarithm({0.2, 0.9, 1.5});
  all[kNotOverlapped] = in_logarithm({0.01, 0.8, 1});
  all[kPrologueSteps] = in_logarithm({0.1, 8, 2000});
  all[kPartialWaveCost] = in_logarithm({0.01, 0.8, 1});
  all[kSustainedSlowdown] = in_logarithm({1e-4, 0.01, bounds.most_slowdown});
  all[kSlowdownHalfTime] = in_logarithm({1e-5, 1e-3, 0.1});
  all[kFusedEfficiency] = in_logarithm({0.05, 0.8, 1.3});
  all[kFusedPrologueSteps] = in_logarithm({0.1, 20, 2000});
  all[kFusedWeightPasses] = in_logarithm({0.05, 1.5, 20});
  all[kNonfusedPrologueSteps] = in_logarithm({0.1, 8, 2000});
  all[kNonfusedActivationPasses] = in_logarithm({0.05, 2, 20});
  all[kNonfusedWeightPasses] = in_logarithm({0.05, 3, 20});
  all[kNonfusedExtraLaunches] = in_logarithm({1e-7, 5e-6, 3e-4});
  for (const auto* tiles : {&parts.implicit_gemm, &parts.nonfused}) {
    for (const Tile& tile : *tiles) {
      all.push_back(in_logarithm({0.02, tile.efficiency, 1.3}));
      all.push_back(in_logarithm({0.2, tile.tiles_to_fill, 8}));
    }
  }
  return all;
}

/// The curve at the logarithms x, into one whose vectors are there already.
void put(const std::vector<double>& x, const Parts& parts, ConvolutionCurve& curve) {
  auto& gemm = curve.implicit_gemm;
  gemm.overhead = seconds(e_to(x[kOverhead]));
  gemm.floor = seconds(e_to(x[kFloor]));
  gemm.memory_efficiency = e_to(x[kMemoryEfficiency]);
  gemm.not_overlapped = e_to(x[kNotOverlapped]);
  gemm.prologue_steps = e_to(x[kPrologueSteps]);
  gemm.partial_wave_cost = e_to(x[kPartialWaveCost]);
  gemm.sustained_slowdown = e_to(x[kSustainedSlowdown]);
  gemm.slowdown_half_time = seconds(e_to(x[kSlowdownHalfTime]));
  curve.overhead_growth = seconds(e_to(x[kOverheadGrowth]));
  curve.winograd_fused = {.efficiency = parts.fused ? e_to(x[kFusedEfficiency]) : 0,
                          .prologue_steps = e_to(x[kFusedPrologueSteps]),
                          .weight_passes = e_to(x[kFusedWeightPasses])};
  curve.winograd_nonfused.prologue_steps = e_to(x[kNonfusedPrologueSteps]);
  curve.winograd_nonfused.activation_passes = e_to(x[kNonfusedActivationPasses]);
  curve.winograd_nonfused.weight_passes = e_to(x[kNonfusedWeightPasses]);
  curve.winograd_nonfused.extra_launches = seconds(e_to(x[kNonfusedExtraLaunches]));
  gemm.tiles = parts.implicit_gemm;
  curve.winograd_nonfused.tiles = parts.nonfused;
  std::size_t i = kSharedCount;
  for (auto* tiles : {&gemm.tiles, &curve.winograd_nonfused.tiles}) {
    for (Tile& tile : *tiles) {
      tile.efficiency = e_to(x[i++]);
      tile.tiles_to_fill = e_to(x[i++]);
    }
  }
}

/// The tiles of cuDNN's kernels, as their names have them (scudnn_128x64, sgemm_32x128, h884cudnn_256x128).
Parts all_parts(Precision precision, const std::vector<Tile>& given) {
  const auto tiles = [](const std::vector<std::pair<double, double>>& shapes) {
    std::vector<Tile> made;
    for (const auto& [m, n] : shapes) made.push_back({.m = m, .n = n, .efficiency = 0.8, .tiles_to_fill = 1});
    return made;
  };
  Parts parts;
  parts.implicit_gemm = tiles({{128, 128}, {128, 64}, {128, 32}});
  parts.nonfused = tiles({{128, 128}, {128, 64}, {64, 64}, {32, 128}, {128, 32}});
  if (precision != Precision::kFp32) {
    // On tensor cores all of DeepBench's forward rows ran as implicit GEMMs.
    parts = {.implicit_gemm = tiles({{256, 128}, {256, 64}, {128, 128}, {128, 64}, {64, 64}}),
             .nonfused = {},
             .fused = false};
  }
  if (!given.empty()) parts.implicit_gemm = given;
  return parts;
}

struct FittedForward {
  Parts parts;
  SearchResult result;
};

/// What the search fits: forward rows, in their logarithms.
class ForwardFit {
 public:
  ForwardFit(std::vector<ConvolutionRow> rows, const DeviceSpec& spec, Precision precision, double most_slowdown)
      : rows_(std::move(rows)),
        spec_(spec),
        precision_(precision),
        most_slowdown_(most_slowdown),
        times_(log_times(rows_)) {
    for (const ConvolutionRow& row : rows_) {
      most_rows_before_ = std::max(most_rows_before_, static_cast<double>(row.rows_before));
    }
  }

  [[nodiscard]] SearchResult fit(const Parts& parts, std::vector<double> from, int steps) const {
    const std::vector<Parameter> parameters = parameters_of(parts, {times_.least, most_rows_before_, most_slowdown_});
    if (from.empty()) {
      for (const Parameter& parameter : parameters) from.push_back(parameter.prior);
    }
    ConvolutionCurve tried;
    const Residuals residuals = [&](const std::vector<double>& x, std::vector<double>& out) {
      tried = curve_at(x, parts);
      out.resize(rows_.size());
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = ln(as_measured(tried, spec_, rows_[i]).in(seconds)) - times_.logs[i];
      }
    };
    SearchOptions options;
    options.most_steps = steps;
    options.scale = kScale;
    options.prior_weight = kConvolutionPrior * std::sqrt(static_cast<double>(rows_.size()) / kConvolutionPriorRows);
    return search(residuals, parameters, std::move(from), options);
  }

  [[nodiscard]] ConvolutionCurve curve_at(const std::vector<double>& x, const Parts& parts) const {
    ConvolutionCurve curve;
    curve.precision = precision_;
    curve.implicit_gemm.precision = precision_;
    put(x, parts, curve);
    if (most_rows_before_ == 0) curve.overhead_growth = Time::zero();
    return curve;
  }

  /// Leaves out what the curve can do without: the fused algorithm, then tiles from the last on.
  [[nodiscard]] FittedForward best(const Parts& all) const {
    FittedForward best{all, fit(all, {}, 60)};
    if (best.parts.fused) {
      Parts without = best.parts;
      without.fused = false;
      try_without(best, std::move(without), {});
    }
    for (std::size_t t = best.parts.nonfused.size(); t-- > 0;) {
      Parts without = best.parts;
      without.nonfused.erase(without.nonfused.begin() + static_cast<std::ptrdiff_t>(t));
      try_without(best, std::move(without), best.parts.implicit_gemm.size() + t);
    }
    for (std::size_t t = best.parts.implicit_gemm.size(); t-- > 0 && best.parts.implicit_gemm.size() > 1;) {
      Parts without = best.parts;
      without.implicit_gemm.erase(without.implicit_gemm.begin() + static_cast<std::ptrdiff_t>(t));
      try_without(best, std::move(without), t);
    }
    best.result = fit(best.parts, best.result.x, 30);
    return best;
  }

 private:
  void try_without(FittedForward& best, Parts parts, std::optional<std::size_t> tile) const {
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
  double most_slowdown_;
  LogTimes times_;
  double most_rows_before_ = 0;
};

bool is_forward(const ConvolutionRow& row) { return row.shape.pass == primitives::ConvolutionPass::kForward; }

/// What a row took without the measurement's part; nothing where that hides it.
std::optional<Time> net_time(const ConvolutionCurve& curve, const ConvolutionRow& row) {
  const Time net = row.time - overhead_of(curve, row.rows_before);
  if (net <= Time::zero() || row.time <= curve.implicit_gemm.floor) return std::nullopt;
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
    if (row.shape.pass != primitives::ConvolutionPass::kInputGradient || steps != strided) continue;
    if (const auto net = net_time(curve, row)) ratios.push_back(*net / predicted(curve, spec, row));
  }
  return ratios.empty() ? otherwise : quantile(std::move(ratios), 0.5) * otherwise;
}

/// The three constants of the weights' gradient, pulled towards what stands without rows.
void fit_weight_gradients(ConvolutionCurve& curve, const DeviceSpec& spec, const std::vector<ConvolutionRow>& rows) {
  std::vector<const ConvolutionRow*> seen;
  for (const ConvolutionRow& row : rows) {
    if (row.shape.pass == primitives::ConvolutionPass::kWeightGradient && net_time(curve, row)) seen.push_back(&row);
  }
  if (seen.size() < kFewestGradients) return;
  const std::vector<Parameter> parameters{in_logarithm({0.2, curve.weight_gradient, 10}),
                                          in_logarithm({1, curve.weight_reduction_steps, 5000}),
                                          in_logarithm({0.2, curve.weight_winograd, 5})};
  const auto take = [&](const std::vector<double>& x) {
    curve.weight_gradient = e_to(x[0]);
    curve.weight_reduction_steps = e_to(x[1]);
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
  options.prior_weight = kConvolutionPrior;
  take(search(residuals, parameters, {parameters[0].prior, parameters[1].prior, parameters[2].prior}, options).x);
}

struct Fitted {
  ConvolutionCurve curve;
  FittedForward forward;
};

/// Fits to rows, which have an order by now: anew, or with the parts of `from` where there. Requires a forward row.
Fitted fit_to(const std::vector<ConvolutionRow>& rows, const DeviceSpec& spec, Precision precision,
              const GemmFitOptions& options, const FittedForward* from) {
  std::vector<ConvolutionRow> seen = rows_where(std::span<const ConvolutionRow>(rows), is_forward);
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(options.most_rows, 1));
  if (seen.size() > most) seen.resize(most);
  const ForwardFit forward(std::move(seen), spec, precision, options.most_slowdown);
  Fitted fitted;
  fitted.forward = from != nullptr ? FittedForward{from->parts, forward.fit(from->parts, from->result.x, kRefitSteps)}
                                   : forward.best(all_parts(precision, options.tiles));
  ConvolutionCurve& curve = fitted.curve;
  curve = forward.curve_at(fitted.forward.result.x, fitted.forward.parts);
  curve.input_gradient = input_ratio(curve, spec, rows, false, curve.input_gradient);
  curve.strided_gradient = input_ratio(curve, spec, rows, true, curve.strided_gradient);
  fit_weight_gradients(curve, spec, rows);
  curve.gradient_rows = std::count_if(rows.begin(), rows.end(), std::not_fn(is_forward));
  return fitted;
}

}  // namespace

Time overhead_of(const ConvolutionCurve& curve, std::int64_t rows_before) {
  const auto before = static_cast<double>(rows_before);
  return curve.implicit_gemm.overhead + curve.overhead_growth * (before * std::sqrt(before));
}

std::vector<std::int64_t> shape_of(const ConvolutionRow& row, std::int64_t salt) {
  const primitives::ConvolutionShape& shape = row.shape;
  return {salt,
          static_cast<std::int64_t>(shape.pass),
          row.batch,
          shape.in,
          shape.out,
          shape.groups,
          shape.input[0],
          shape.input[1],
          shape.output[0],
          shape.output[1],
          shape.kernel[0],
          shape.kernel[1],
          shape.stride[0],
          shape.stride[1],
          shape.dilation[0],
          shape.dilation[1]};
}

GemmSize size_of(const ConvolutionRow& row) { return cost::implicit_gemm(row.shape, static_cast<double>(row.batch)); }

bool held_out(const primitives::ConvolutionShape& shape, std::int64_t batch) {
  return fold_of_row(ConvolutionRow{shape, batch, {}}) == kReportFold;
}

Time as_measured(const ConvolutionCurve& curve, const DeviceSpec& spec, const ConvolutionRow& row) {
  return max(curve.implicit_gemm.floor, overhead_of(curve, row.rows_before) + predicted(curve, spec, row));
}

Expected<ConvolutionCurve> fit_convolutions(std::span<const ConvolutionRow> rows, const DeviceSpec& spec,
                                            Precision precision, const GemmFitOptions& options) {
  if (auto sound = check(rows, spec); !sound) return tl::unexpected<Error>(sound.error());
  const auto out = [](const ConvolutionRow& row) { return held_out(row.shape, row.batch); };
  const std::vector<ConvolutionRow> compared = rows_where(rows, out);
  const auto fitted = shuffled<ConvolutionRow>(rows_where(rows, std::not_fn(out)));
  if (std::none_of(fitted.begin(), fitted.end(), is_forward)) {
    return fail(ErrorCode::kInvalidArgument, "all forward rows are held out; a fit needs more shapes");
  }
  Fitted best = fit_to(fitted, spec, precision, options, nullptr);
  const bool anew = fitted.size() < kFewRows;
  best.curve.report = report_of(
      best.curve, fitted, compared,
      [&](const std::vector<ConvolutionRow>& some) {
        const bool forward = std::any_of(some.begin(), some.end(), is_forward);
        return forward ? fit_to(some, spec, precision, options, anew ? nullptr : &best.forward).curve : best.curve;
      },
      [&](const ConvolutionCurve& curve, const ConvolutionRow& row) {
        return ComparedRow{predicted(curve, spec, row).in(seconds), row.time.in(seconds),
                           overhead_of(curve, row.rows_before).in(seconds), curve.implicit_gemm.floor.in(seconds)};
      });
  best.curve.report.measured = options.measured;
  return best.curve;
}

}  // namespace ddlsim::calib
