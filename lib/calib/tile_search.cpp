#include "tile_search.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::calib {
namespace {

using hardware::GemmCurve;

constexpr std::size_t kFewestRows = 12;
constexpr std::size_t kScreenRows = 500;  // that choose among candidate tiles
constexpr double kWorthATile = 0.01;      // of the cost
constexpr std::size_t kMostTiles = 8;
constexpr double kPriorWeight = 0.03;  // per unit of a logarithm, against residuals of about 0.05
constexpr double kPriorRows = 1200;

SearchResult fit(const TileProblem& problem, const std::vector<Tile>& tiles, const std::vector<double>& from,
                 std::size_t rows, int steps) {
  std::vector<Parameter> parameters = problem.shared;
  for (const Tile& tile : tiles) {
    parameters.push_back(in_logarithm({0.02, tile.efficiency, 1.3}));
    parameters.push_back(in_logarithm({0.2, tile.tiles_to_fill, 8}));
  }
  std::vector<double> start;
  for (const Parameter& parameter : parameters) start.push_back(parameter.prior);
  std::copy_n(from.begin(), std::min(from.size(), start.size()), start.begin());
  rows = std::min(rows, problem.rows);
  const Residuals residuals = [&](const std::vector<double>& x, std::vector<double>& out) {
    out.resize(rows);
    problem.residuals(x, tiles, out);
  };
  SearchOptions options;
  options.most_steps = steps;
  options.scale = problem.scale;
  options.prior_weight = kPriorWeight * std::sqrt(static_cast<double>(rows) / kPriorRows);
  return search(residuals, parameters, std::move(start), options);
}

/// Adds the tile that helps most until none helps by kWorthATile.
TileFit grown(const TileProblem& problem, const std::vector<Tile>& candidates) {
  TileFit best;
  std::vector<bool> used(candidates.size(), false);
  while (best.tiles.size() < kMostTiles) {
    TileFit round;
    std::size_t chosen = candidates.size();
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      if (used[c]) continue;
      std::vector<Tile> tiles = best.tiles;
      tiles.push_back(candidates[c]);
      SearchResult tried = fit(problem, tiles, best.result.x, kScreenRows, best.tiles.empty() ? 16 : 8);
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
  best.result = fit(problem, best.tiles, best.result.x, problem.rows, 40);
  return best;
}

/// Leaves out, one by one, tiles that the curve can do without.
TileFit pruned(const TileProblem& problem, TileFit fitted) {
  for (std::size_t t = fitted.tiles.size(); t-- > 0 && fitted.tiles.size() > 1;) {
    TileFit without = fitted;
    const auto tile = static_cast<std::ptrdiff_t>(t);
    const auto parameter = static_cast<std::ptrdiff_t>(problem.shared.size() + 2 * t);
    without.tiles.erase(without.tiles.begin() + tile);
    auto& x = without.result.x;
    x.erase(x.begin() + parameter, x.begin() + parameter + 2);
    without.result = fit(problem, without.tiles, x, problem.rows, 0);
    if (without.result.cost < fitted.result.cost * (1 + kWorthATile / 4)) fitted = std::move(without);
  }
  fitted.result = fit(problem, fitted.tiles, fitted.result.x, problem.rows, 20);
  return fitted;
}

}  // namespace

double ln(double x) { return portable_log2(x) * std::numbers::ln2; }
double e_to(double x) { return portable_exp2(x / std::numbers::ln2); }

Parameter in_logarithm(const Parameter& p) {
  return {ln(p.least), ln(std::clamp(p.prior, p.least, p.most)), ln(p.most)};
}

std::vector<Parameter> gemm_parameters(double least_time) {
  const double t = least_time;
  return {in_logarithm({t * 1e-2, t * 0.8, t}),  // overhead
          in_logarithm({t * 0.5, t, t * 1.1}),   // floor
          in_logarithm({0.2, 0.8, 1.15}),        // memory; above 1 where the L2 helps
          in_logarithm({0.001, 0.2, 1}),         // not_overlapped
          in_logarithm({0.1, 8, 2000}),          // prologue_steps
          in_logarithm({0.01, 0.6, 1}),          // partial_wave_cost
          in_logarithm({1e-8, 1e-6, 3e-5}),      // split_k_launch
          in_logarithm({0.05, 2, 8}),            // split_k_passes
          in_logarithm({1e-4, 0.03, 3}),         // slowdown
          in_logarithm({1e-5, 1e-3, 0.1}),       // settle
          in_logarithm({1e-4, 0.01, 1}),         // long_k_slowdown
          in_logarithm({512, 8192, 32768})};     // long_k
}

void put_parameters(const std::vector<double>& x, std::size_t tiles_at, const std::vector<Tile>& tiles,
                    GemmCurve& curve) {
  std::size_t i = 0;
  const auto next = [&] { return e_to(x[i++]); };
  curve.overhead = seconds(next());
  curve.floor = seconds(next());
  curve.memory_efficiency = next();
  curve.not_overlapped = next();
  curve.prologue_steps = next();
  curve.partial_wave_cost = std::min(1.0, next());
  curve.split_k_launch = seconds(next());
  curve.split_k_passes = next();
  curve.sustained_slowdown = next();
  curve.slowdown_half_time = seconds(next());
  curve.long_k_slowdown = next();
  curve.long_k = next();
  curve.tiles = tiles;
  i = tiles_at;
  for (Tile& tile : curve.tiles) {
    tile.efficiency = next();
    tile.tiles_to_fill = next();
  }
}

/// cuBLAS' fp32 kernels are named after their tiles (maxwell, volta, ampere _sgemm_128x64); those of tensor cores are
/// CUTLASS' default configurations, and small ones for GEMMs of few rows.
std::vector<Tile> candidate_tiles(Precision precision) {
  std::vector<std::pair<double, double>> shapes{{128, 128}, {64, 128}, {128, 64}, {64, 64}, {32, 128},
                                                {128, 32},  {32, 64},  {64, 32},  {32, 32}};
  if (precision != Precision::kFp32) {
    shapes.insert(shapes.end(), {{256, 128}, {128, 256}, {64, 256}, {256, 64}, {16, 64}, {16, 128}});
  }
  std::vector<Tile> tiles;
  for (const auto& [m, n] : shapes) {
    // Smaller tiles reuse less of what they load: a start, the rows say more.
    const double efficiency = 0.75 * std::sqrt(std::sqrt(std::sqrt(std::min(1.0, m * n / 8192))));
    tiles.push_back({.m = m, .n = n, .efficiency = efficiency, .tiles_to_fill = 1});
  }
  return tiles;
}

TileFit best_tiles(const TileProblem& problem, const std::vector<Tile>& candidates) {
  TileFit best = pruned(problem, grown(problem, candidates));
  TileFit all = pruned(problem, {candidates, fit(problem, candidates, {}, problem.rows, 40)});
  return all.result.cost < best.result.cost ? all : best;
}

TileFit refitted(const TileProblem& problem, const TileFit& from) {
  return {from.tiles, fit(problem, from.tiles, from.result.x, problem.rows, 12)};
}

Expected<void> check_spec(const hardware::DeviceSpec& spec) {
  const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
  if (!positive(spec.multiprocessors) || !positive(spec.peak.in(flops_per_second)) ||
      !positive(spec.memory.in(bytes_per_second))) {
    return fail(ErrorCode::kInvalidArgument,
                "the datasheet of a fit needs multiprocessors, a peak of the precision and a memory bandwidth");
  }
  return {};
}

Expected<void> check_count(std::size_t rows, const std::string& of) {
  if (rows >= kFewestRows) return {};
  return fail(ErrorCode::kInvalidArgument,
              std::to_string(rows) + " rows of " + of + "; a curve needs at least " + std::to_string(kFewestRows));
}

}  // namespace ddlsim::calib
