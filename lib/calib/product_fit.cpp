#include "ddlsim/calib/product_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "ddlsim/cost/product_time.h"
#include "judgement.h"
#include "tile_search.h"

namespace ddlsim::calib {
namespace {

using hardware::CurveReport;
using hardware::DeviceSpec;
using hardware::ProductCurve;
using hardware::ProductSize;

constexpr double kLeastQuantile = 0.005;  // the very least time may be a fault of the clock

std::uint64_t shape_hash(const ProductSize& size, std::uint64_t salt) {
  const auto word = [](double x) { return static_cast<std::uint64_t>(std::clamp(x, 0.0, 1e18)); };
  return stable_hash({salt, word(size.products), word(size.m), word(size.n), word(size.k)});
}

Expected<void> check(std::span<const ProductRow> rows, const DeviceSpec& spec) {
  const auto bad = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
  if (auto sound = check_spec(spec); !sound) return sound;
  if (auto enough = check_count(rows.size(), "products"); !enough) return enough;
  std::set<std::tuple<double, double, double, double>> shapes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [size, time] = rows[i];
    for (const double x : {size.products, size.m, size.n, size.k}) {
      if (!positive(x) || x < 1) return bad("row " + std::to_string(i + 1) + ": a size is not at least 1");
    }
    if (!positive(time.in(seconds))) return bad("row " + std::to_string(i + 1) + ": the time is not positive");
    shapes.emplace(size.products, size.m, size.n, size.k);
  }
  if (shapes.size() < 2) return bad("all rows have one shape: a one-point curve; a fit needs several");
  return {};
}

std::vector<CurveReport::Range> hull_of(const std::vector<ProductRow>& rows) {
  std::vector<CurveReport::Range> hull{{"products", 0, 0}, {"m", 0, 0}, {"n", 0, 0}, {"k", 0, 0}, {"flop", 0, 0}};
  for (const auto& [size, time] : rows) {
    const double flop = 2 * size.products * size.m * size.n * size.k;
    const double features[]{size.products, size.m, size.n, size.k, flop};
    for (std::size_t f = 0; f < hull.size(); ++f) {
      hull[f].least = hull[f].least > 0 ? std::min(hull[f].least, features[f]) : features[f];
      hull[f].most = std::max(hull[f].most, features[f]);
    }
  }
  return hull;
}

}  // namespace

bool held_out(const ProductSize& size) { return shape_hash(size, 1) % 5 == 0; }

Time as_measured(const ProductCurve& curve, const DeviceSpec& spec, const ProductSize& size) {
  return max(curve.floor, curve.overhead + cost::product_time(curve, spec, size, activation_size(curve.precision)));
}

CurveReport judge(const ProductCurve& curve, const DeviceSpec& spec, std::span<const ProductRow> rows) {
  std::vector<double> ratios;
  std::vector<bool> half;
  for (const ProductRow& row : rows) {
    ratios.push_back(as_measured(curve, spec, row.size) / row.time);
    half.push_back(shape_hash(row.size, 2) % 2 == 0);
  }
  CurveReport report;
  judge_ratios(ratios, half, report);
  return report;
}

double anchor(const ProductCurve& curve, const DeviceSpec& spec, std::span<const ProductRow> rows) {
  std::vector<double> ratios;
  for (const ProductRow& row : rows) ratios.push_back(row.time / as_measured(curve, spec, row.size));
  return ratios.empty() ? 1 : quantile(std::move(ratios), 0.5);
}

Expected<ProductCurve> fit_products(std::span<const ProductRow> rows, const DeviceSpec& spec, Precision precision,
                                    const ProductFitOptions& options) {
  if (auto sound = check(rows, spec); !sound) return tl::unexpected<Error>(sound.error());
  std::vector<ProductRow> fitted;
  std::vector<ProductRow> judged;
  std::size_t many = 0;
  for (const ProductRow& row : rows) {
    (held_out(row.size) ? judged : fitted).push_back(row);
    many += row.size.products > 1 ? 1 : 0;
  }
  if (fitted.empty()) std::swap(fitted, judged);
  ProductCurve start;
  start.precision = precision;
  start.batched = many * 2 > rows.size();
  const auto before = [](const ProductRow& a, const ProductRow& b) {
    return shape_hash(a.size, 3) < shape_hash(b.size, 3);
  };
  std::vector<ProductRow> seen = fitted;
  std::stable_sort(seen.begin(), seen.end(), before);
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(options.most_rows, 1));
  if (seen.size() > most) seen.resize(most);

  std::vector<double> times;
  std::vector<double> log_times;
  for (const ProductRow& row : seen) {
    times.push_back(row.time.in(seconds));
    log_times.push_back(ln(row.time.in(seconds)));
  }
  TileProblem problem;
  problem.shared = product_parameters(quantile(times, kLeastQuantile));
  problem.rows = seen.size();
  const std::size_t tiles_at = problem.shared.size();
  problem.residuals = [&](const std::vector<double>& x, const std::vector<Tile>& tiles, std::vector<double>& out) {
    ProductCurve tried = start;
    put_parameters(x, tiles_at, tiles, tried);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = ln(as_measured(tried, spec, seen[i].size).in(seconds)) - log_times[i];
    }
  };
  const TileFit best = best_tiles(problem, options.tiles.empty() ? candidate_tiles(precision) : options.tiles);

  ProductCurve curve = start;
  put_parameters(best.result.x, tiles_at, best.tiles, curve);
  curve.report = judge(curve, spec, judged);
  curve.report.fitted = static_cast<std::int64_t>(fitted.size());
  curve.report.hull = hull_of(fitted);
  curve.report.measured = options.measured;
  return curve;
}

}  // namespace ddlsim::calib
