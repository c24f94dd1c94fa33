#include "ddlsim/calib/convolution_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
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

constexpr double kScale = 0.15;           // of residuals: the choice among algorithms is not the model's to know
constexpr double kLeastQuantile = 0.005;  // the very least time may be a fault of the clock

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

/// Of the two Winograd algorithms, after the product's.
std::vector<Parameter> parameters_of(double least_time) {
  std::vector<Parameter> all = product_parameters(least_time);
  // A library that chooses an algorithm takes its time, so that most rows have more overhead than the fastest.
  all.front() = in_logarithm({least_time * 1e-2, least_time, least_time * 1.5});
  for (int algorithm = 0; algorithm < 2; ++algorithm) {
    all.push_back(in_logarithm({0.3, 1, 5}));         // rate
    all.push_back(in_logarithm({0.1, 1, 8}));         // moved
    all.push_back(in_logarithm({1e-7, 5e-6, 2e-5}));  // start: of up to three kernels
  }
  return all;
}

ConvolutionCurve curve_at(const std::vector<double>& x, const std::vector<Tile>& tiles, Precision precision) {
  ConvolutionCurve curve;
  curve.precision = precision;
  curve.product.precision = precision;
  const std::size_t shared = parameters_of(1).size();
  put_parameters(x, shared, tiles, curve.product);
  curve.product.far = 0;  // k runs over channels or over pixels, never along one long row
  std::size_t i = shared - 6;
  for (auto* winograd : {&curve.winograd2, &curve.winograd4}) {
    winograd->rate = e_to(x[i++]);
    winograd->moved = e_to(x[i++]);
    winograd->start = seconds(e_to(x[i++]));
  }
  return curve;
}

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

/// The median of what rows of this pass took, overhead apart, relative to the curve.
double ratio_of(const ConvolutionCurve& curve, const DeviceSpec& spec, const std::vector<ConvolutionRow>& rows,
                ConvolutionPass pass) {
  std::vector<double> ratios;
  for (const ConvolutionRow& row : rows) {
    const Time net = row.time - curve.product.overhead;
    if (row.shape.pass != pass || net <= Time::zero() || row.time <= curve.product.floor) continue;
    const auto batch = static_cast<double>(row.batch);
    ratios.push_back(net / cost::convolution_time(curve, spec, row.shape, batch, activation_size(curve.precision)));
  }
  return ratios.empty() ? 1 : quantile(std::move(ratios), 0.5);
}

}  // namespace

bool held_out(const ConvolutionShape& shape, std::int64_t batch) { return shape_hash(shape, batch, 1) % 5 == 0; }

Time as_measured(const ConvolutionCurve& curve, const DeviceSpec& spec, const ConvolutionShape& shape,
                 std::int64_t batch) {
  const Time net =
      cost::convolution_time(curve, spec, shape, static_cast<double>(batch), activation_size(curve.precision));
  return max(curve.product.floor, curve.product.overhead + net);
}

CurveReport judge(const ConvolutionCurve& curve, const DeviceSpec& spec, std::span<const ConvolutionRow> rows) {
  std::vector<double> ratios;
  std::vector<bool> half;
  for (const ConvolutionRow& row : rows) {
    ratios.push_back(as_measured(curve, spec, row.shape, row.batch) / row.time);
    half.push_back(shape_hash(row.shape, row.batch, 2) % 2 == 0);
  }
  CurveReport report;
  judge_ratios(ratios, half, report);
  return report;
}

double anchor(const ConvolutionCurve& curve, const DeviceSpec& spec, std::span<const ConvolutionRow> rows) {
  std::vector<double> ratios;
  for (const ConvolutionRow& row : rows) {
    ratios.push_back(row.time / as_measured(curve, spec, row.shape, row.batch));
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

  std::vector<double> times;
  std::vector<double> log_times;
  for (const ConvolutionRow& row : seen) {
    times.push_back(row.time.in(seconds));
    log_times.push_back(ln(row.time.in(seconds)));
  }
  TileProblem problem;
  problem.shared = parameters_of(quantile(times, kLeastQuantile));
  problem.rows = seen.size();
  problem.scale = kScale;
  problem.residuals = [&](const std::vector<double>& x, const std::vector<Tile>& tiles, std::vector<double>& out) {
    const ConvolutionCurve tried = curve_at(x, tiles, precision);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = ln(as_measured(tried, spec, seen[i].shape, seen[i].batch).in(seconds)) - log_times[i];
    }
  };
  const TileFit best = best_tiles(problem, options.tiles.empty() ? candidate_tiles(precision) : options.tiles);

  ConvolutionCurve curve = curve_at(best.result.x, best.tiles, precision);
  curve.input_gradient = ratio_of(curve, spec, fitted, ConvolutionPass::kInputGradient);
  curve.weight_gradient = ratio_of(curve, spec, fitted, ConvolutionPass::kWeightGradient);
  curve.report = judge(curve, spec, judged);
  curve.report.fitted = static_cast<std::int64_t>(fitted.size());
  curve.report.hull = hull_of(fitted);
  curve.report.measured = options.measured;
  return curve;
}

}  // namespace ddlsim::calib
