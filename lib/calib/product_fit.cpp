#include "ddlsim/calib/product_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "ddlsim/cost/product_time.h"
#include "ddlsim/support/portable_math.h"
#include "judgement.h"
#include "least_squares.h"

namespace ddlsim::calib {
namespace {

using hardware::CurveReport;
using hardware::DeviceSpec;
using hardware::ProductCurve;
using hardware::ProductSize;
using Tile = ProductCurve::Tile;

constexpr double kLn2 = 0.693147180559945309417232;
constexpr std::size_t kFewestRows = 12;
constexpr std::size_t kScreenRows = 500;   // that choose among candidate tiles
constexpr double kWorthATile = 0.01;       // of the cost
constexpr std::size_t kMostTiles = 8;
constexpr double kPull = 0.03;             // per unit of a logarithm, against residuals of about 0.05
constexpr std::size_t kShared = 12;        // parameters that are not a tile's

double ln(double x) { return portable_log2(x) * kLn2; }
double e_to(double x) { return portable_exp2(x / kLn2); }

std::uint64_t shape_hash(const ProductSize& size, std::uint64_t salt) {
  const auto word = [](double x) { return static_cast<std::uint64_t>(std::min(x, 1e18)); };
  return stable_hash({salt, word(size.products), word(size.m), word(size.n), word(size.k)});
}

/// Tiles of the libraries: cuBLAS' fp32 kernels are named after them (maxwell, volta, ampere _sgemm_128x64); those of
/// tensor cores are CUTLASS' default configurations, and small ones for products of few rows.
std::vector<Tile> candidates(Precision precision) {
  std::vector<std::pair<double, double>> shapes{{128, 128}, {64, 128}, {128, 64}, {64, 64}, {32, 128},
                                                {128, 32},  {32, 64},  {64, 32},  {32, 32}};
  if (precision != Precision::kFp32) {
    for (const auto& more : {std::pair{256.0, 128.0}, {128.0, 256.0}, {64.0, 256.0}, {256.0, 64.0}, {16.0, 64.0},
                             {16.0, 128.0}}) {
      shapes.push_back(more);
    }
  }
  std::vector<Tile> tiles;
  for (const auto& [m, n] : shapes) {
    // Smaller tiles reuse less of what they load: a start, the rows say more.
    const double efficiency = 0.75 * std::sqrt(std::sqrt(std::sqrt(std::min(1.0, m * n / 8192))));
    tiles.push_back({.m = m, .n = n, .efficiency = efficiency, .resident = 1});
  }
  return tiles;
}

Expected<void> check(std::span<const ProductRow> rows, const DeviceSpec& spec) {
  const auto bad = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
  if (!positive(spec.multiprocessors) || !positive(spec.peak.in(flops_per_second)) ||
      !positive(spec.memory.in(bytes_per_second))) {
    return bad("the datasheet of a fit needs multiprocessors, a peak of the precision and a memory bandwidth");
  }
  if (rows.size() < kFewestRows) {
    return bad(std::to_string(rows.size()) + " rows of products; a curve needs at least " +
               std::to_string(kFewestRows));
  }
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

/// The measured rows that a search sees, and the curve as a point of its parameters' logarithms.
class Search {
 public:
  Search(std::vector<ProductRow> rows, const DeviceSpec& spec, const ProductCurve& start)
      : rows_(std::move(rows)), spec_(spec), start_(start) {
    std::vector<double> times;
    for (const ProductRow& row : rows_) {
      times.push_back(row.time.in(seconds));
      log_times_.push_back(ln(row.time.in(seconds)));
    }
    least_time_ = quantile(times, 0.005);  // the very least may be a fault of the clock
  }

  /// Fits on the first `count` rows, from `tiles` and the shared parameters of x where it is not empty.
  [[nodiscard]] SearchResult fit(const std::vector<Tile>& tiles, const std::vector<double>& x, std::size_t count,
                                 int steps) const {
    const std::vector<Parameter> parameters = parameters_of(tiles);
    std::vector<double> start;
    for (const Parameter& parameter : parameters) start.push_back(parameter.home);
    std::copy_n(x.begin(), std::min(x.size(), start.size()), start.begin());
    const std::size_t rows = std::min(count, rows_.size());
    const Residuals residuals = [&](const std::vector<double>& point, std::vector<double>& out) {
      const ProductCurve curve = curve_of(tiles, point);
      out.resize(rows);
      for (std::size_t i = 0; i < rows; ++i) {
        out[i] = ln(as_measured(curve, spec_, rows_[i].size).in(seconds)) - log_times_[i];
      }
    };
    SearchOptions options;
    options.most_steps = steps;
    options.pull = kPull * std::sqrt(static_cast<double>(rows) / 1200.0);
    return search(residuals, parameters, std::move(start), options);
  }

  [[nodiscard]] ProductCurve curve_of(const std::vector<Tile>& tiles, const std::vector<double>& x) const {
    ProductCurve curve = start_;
    std::size_t i = 0;
    const auto next = [&] { return e_to(x[i++]); };
    curve.overhead = seconds(next());
    curve.floor = seconds(next());
    curve.memory = next();
    curve.exposed = next();
    curve.k_start = next();
    curve.quantised = std::min(1.0, next());
    curve.split_start = seconds(next());
    curve.split_passes = next();
    curve.slowdown = next();
    curve.settle = seconds(next());
    curve.far = next();
    curve.far_k = next();
    curve.tiles = tiles;
    for (Tile& tile : curve.tiles) {
      tile.efficiency = next();
      tile.resident = next();
    }
    return curve;
  }

  [[nodiscard]] std::size_t rows() const { return rows_.size(); }

 private:
  [[nodiscard]] std::vector<Parameter> parameters_of(const std::vector<Tile>& tiles) const {
    const auto between = [](double least, double home, double most) {
      return Parameter{ln(least), ln(std::clamp(home, least, most)), ln(most)};
    };
    const double t = least_time_;
    std::vector<Parameter> all{between(t * 1e-2, t * 0.8, t),   between(t * 0.5, t, t * 1.1),
                               between(0.2, 0.8, 1.15),         between(0.001, 0.2, 1),
                               between(0.1, 8, 2000),           between(0.01, 0.6, 1),
                               between(1e-8, 1e-6, 3e-5),       between(0.05, 2, 8),
                               between(1e-4, 0.03, 3),          between(1e-5, 1e-3, 0.1),
                               between(1e-4, 0.01, 1),          between(512, 8192, 32768)};
    for (const Tile& tile : tiles) {
      all.push_back(between(0.02, tile.efficiency, 1.3));
      all.push_back(between(0.2, tile.resident, 8));
    }
    return all;
  }

  std::vector<ProductRow> rows_;
  DeviceSpec spec_;
  ProductCurve start_;
  std::vector<double> log_times_;
  double least_time_ = 0;
};

struct Fitted {
  std::vector<Tile> tiles;
  SearchResult result;
};

/// Adds the tile that helps most until none helps by kWorthATile.
Fitted grown(const Search& search, const std::vector<Tile>& candidates) {
  Fitted best;
  std::vector<bool> used(candidates.size(), false);
  while (best.tiles.size() < kMostTiles) {
    Fitted round;
    std::size_t chosen = candidates.size();
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      if (used[c]) continue;
      std::vector<Tile> tiles = best.tiles;
      tiles.push_back(candidates[c]);
      SearchResult tried = search.fit(tiles, best.result.x, kScreenRows, best.tiles.empty() ? 16 : 8);
      if (chosen == candidates.size() || tried.cost < round.result.cost) {
        round = {std::move(tiles), std::move(tried)};
        chosen = c;
      }
    }
    if (chosen == candidates.size()) break;
    if (!best.tiles.empty() && round.result.cost > best.result.cost * (1 - kWorthATile)) break;
    used[chosen] = true;
    best = std::move(round);
  }
  best.result = search.fit(best.tiles, best.result.x, search.rows(), 40);
  return best;
}

/// Leaves out, one by one, tiles that the curve can do without.
Fitted pruned(const Search& search, Fitted fitted) {
  for (std::size_t t = fitted.tiles.size(); t-- > 0 && fitted.tiles.size() > 1;) {
    Fitted without = fitted;
    const auto place = static_cast<std::ptrdiff_t>(t);
    const auto parameter = static_cast<std::ptrdiff_t>(kShared + 2 * t);
    without.tiles.erase(without.tiles.begin() + place);
    without.result.x.erase(without.result.x.begin() + parameter, without.result.x.begin() + parameter + 2);
    without.result = search.fit(without.tiles, without.result.x, search.rows(), 0);
    if (without.result.cost < fitted.result.cost * (1 + kWorthATile / 4)) fitted = std::move(without);
  }
  fitted.result = search.fit(fitted.tiles, fitted.result.x, search.rows(), 20);
  return fitted;
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

  const Search search(std::move(seen), spec, start);
  const std::vector<Tile> tiles = options.tiles.empty() ? candidates(precision) : options.tiles;
  Fitted best = pruned(search, grown(search, tiles));
  Fitted all = pruned(search, {tiles, search.fit(tiles, {}, search.rows(), 40)});
  if (all.result.cost < best.result.cost) best = std::move(all);

  ProductCurve curve = search.curve_of(best.tiles, best.result.x);
  curve.report = judge(curve, spec, judged);
  curve.report.fitted = static_cast<std::int64_t>(fitted.size());
  curve.report.hull = hull_of(fitted);
  curve.report.measured = options.measured;
  return curve;
}

}  // namespace ddlsim::calib
