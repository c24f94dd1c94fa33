#include "ddlsim/calib/gemm_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ddlsim/cost/gemm_time.h"
#include "row_fit.h"
#include "tile_search.h"

namespace ddlsim::calib {
namespace {

using hardware::DeviceSpec;
using hardware::GemmCurve;
using hardware::GemmSize;

Expected<void> check(std::span<const GemmRow> rows, const DeviceSpec& spec) {
  const auto bad = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
  if (auto sound = check_spec(spec); !sound) return sound;
  if (auto enough = check_count(rows.size(), "GEMMs"); !enough) return enough;
  std::set<std::tuple<double, double, double, double>> shapes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [size, time] = rows[i];
    for (const double x : {size.batch_count, size.m, size.n, size.k}) {
      if (!positive(x) || x < 1) return bad("row " + std::to_string(i + 1) + ": a size is not at least 1");
    }
    if (!positive(time.in(seconds))) return bad("row " + std::to_string(i + 1) + ": the time is not positive");
    shapes.emplace(size.batch_count, size.m, size.n, size.k);
  }
  if (shapes.size() < 2) return bad("all rows have one shape: a one-point curve; a fit needs several");
  return {};
}

/// What some curves have beside the parameters that all share.
std::vector<Parameter> own_parameters(const GemmCurve& curve) {
  // Rows of one GEMM at a time tell it badly from the memory's share.
  if (curve.batched) return {in_logarithm({0.3, 1, 8})};  // left_operand_cost
  // Twice read for its scale and its cast, once written at half the size.
  if (curve.precision == Precision::kFp8) return {in_logarithm({0.05, 2.5, 10}), in_logarithm({1e-11, 1e-9, 1e-7})};
  if (curve.grouped) return {in_logarithm({0.05, 1, 10})};  // routing_passes
  return {};
}

GemmCurve curve_at(const std::vector<double>& x, std::size_t tiles_at, const std::vector<Tile>& tiles,
                   GemmCurve curve) {
  put_parameters(x, tiles_at, tiles, curve);
  if (curve.batched) {
    curve.left_operand_cost = e_to(x[tiles_at - 1]);
  } else if (curve.precision == Precision::kFp8) {
    curve.left_operand_passes = e_to(x[tiles_at - 2]);
    curve.overhead_per_row = seconds(e_to(x[tiles_at - 1]));
  } else if (curve.grouped) {
    curve.routing_passes = e_to(x[tiles_at - 1]);
  }
  return curve;
}

Time time_of(const GemmCurve& curve, const DeviceSpec& spec, const GemmRow& row) {
  return cost::gemm_time(curve, spec, row.size, activation_size(curve.precision));
}

Time time_of(const GemmCurve& curve, const DeviceSpec& spec, const ExpertsRow& row) {
  return cost::experts_time(curve, spec, row.experts);
}

Time added_to(const GemmCurve& curve, const GemmRow& row) { return overhead_of(curve, row.size); }

Time added_to(const GemmCurve& curve, const ExpertsRow&) { return curve.overhead; }

struct FittedGemms {
  GemmCurve curve;
  TileFit tiles;
};

/// Fits `start` to rows, which have an order by now: with tiles of `candidates`, or with those of `from` where there.
template <typename Row>
FittedGemms fit_to(std::vector<Row> rows, const DeviceSpec& spec, const GemmCurve& start, const GemmFitOptions& options,
                   const TileFit* from) {
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(options.most_rows, 1));
  if (rows.size() > most) rows.resize(most);
  const LogTimes times = log_times(rows);
  TileProblem problem;
  problem.shared = gemm_parameters(times.least);
  for (const Parameter& own : own_parameters(start)) problem.shared.push_back(own);
  problem.rows = rows.size();
  const std::size_t tiles_at = problem.shared.size();
  problem.residuals = [&](const std::vector<double>& x, const std::vector<Tile>& tiles, std::vector<double>& out) {
    const GemmCurve tried = curve_at(x, tiles_at, tiles, start);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Time measured = max(tried.floor, added_to(tried, rows[i]) + time_of(tried, spec, rows[i]));
      out[i] = ln(measured.in(seconds)) - times.logs[i];
    }
  };
  FittedGemms fitted{{}, from != nullptr ? refitted(problem, *from) : best_tiles(problem, options.tiles)};
  fitted.curve = curve_at(fitted.tiles.result.x, tiles_at, fitted.tiles.tiles, start);
  return fitted;
}

/// The curve and its report.
template <typename Row>
GemmCurve fit_curve(std::span<const Row> rows, const DeviceSpec& spec, const GemmCurve& start,
                    const GemmFitOptions& options) {
  GemmFitOptions search = options;
  if (search.tiles.empty()) search.tiles = candidate_tiles(start.precision);
  const auto out = [](const Row& row) { return fold_of_row(row) == kReportFold; };
  std::vector<Row> compared = rows_where(rows, out);
  std::vector<Row> fitted = shuffled<Row>(rows_where(rows, std::not_fn(out)));
  if (fitted.empty()) std::swap(fitted, compared);
  FittedGemms best = fit_to(fitted, spec, start, search, nullptr);
  const bool anew = fitted.size() < kFewRows;
  best.curve.report = report_of(
      best.curve, fitted, compared,
      [&](const std::vector<Row>& some) {
        return fit_to(some, spec, start, search, anew ? nullptr : &best.tiles).curve;
      },
      [&](const GemmCurve& curve, const Row& row) {
        return ComparedRow{time_of(curve, spec, row).in(seconds), row.time.in(seconds),
                           added_to(curve, row).in(seconds), curve.floor.in(seconds)};
      });
  best.curve.report.measured = options.measured;
  return best.curve;
}

}  // namespace

std::vector<std::int64_t> shape_of(const GemmRow& row, std::int64_t salt) {
  const auto word = [](double x) { return static_cast<std::int64_t>(std::clamp(x, 0.0, 1e18)); };
  return {salt, word(row.size.batch_count), word(row.size.m), word(row.size.n), word(row.size.k)};
}

GemmSize size_of(const GemmRow& row) { return row.size; }

std::vector<std::int64_t> shape_of(const ExpertsRow& row, std::int64_t salt) {
  const primitives::TimedExperts& of = row.experts;
  return {salt, of.tokens, of.routed, of.experts, of.width, of.inner, static_cast<std::int64_t>(of.gated)};
}

/// As its first GEMM.
GemmSize size_of(const ExpertsRow& row) {
  const primitives::TimedExperts& of = row.experts;
  const std::int64_t groups = std::min(of.experts, of.routed);
  return {static_cast<double>(groups), static_cast<double>(of.routed) / static_cast<double>(groups),
          static_cast<double>(of.gated ? 2 * of.inner : of.inner), static_cast<double>(of.width)};
}

bool held_out(const GemmSize& size) { return fold_of_row(GemmRow{size, {}}) == kReportFold; }

Time as_measured(const GemmCurve& curve, const DeviceSpec& spec, const GemmSize& size) {
  return max(curve.floor,
             overhead_of(curve, size) + cost::gemm_time(curve, spec, size, activation_size(curve.precision)));
}

Time overhead_of(const GemmCurve& curve, const GemmSize& size) {
  return curve.overhead + curve.overhead_per_row * (size.batch_count * size.m);
}

Expected<GemmCurve> fit_gemms(std::span<const GemmRow> rows, const DeviceSpec& spec, Precision precision,
                              const GemmFitOptions& options) {
  if (auto sound = check(rows, spec); !sound) return tl::unexpected<Error>(sound.error());
  const auto many = std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.size.batch_count > 1; });
  GemmCurve start;
  start.precision = precision;
  start.batched = static_cast<std::size_t>(many) * 2 > rows.size();
  return fit_curve(rows, spec, start, options);
}

Expected<GemmCurve> fit_experts(std::span<const ExpertsRow> rows, const DeviceSpec& spec, Precision precision,
                                const GemmFitOptions& options) {
  std::vector<GemmRow> sizes;
  sizes.reserve(rows.size());
  for (const ExpertsRow& row : rows) sizes.push_back({size_of(row), row.time});
  if (auto sound = check(sizes, spec); !sound) return tl::unexpected<Error>(sound.error());
  GemmCurve start;
  start.precision = precision;
  start.grouped = true;
  return fit_curve(rows, spec, start, options);
}

}  // namespace ddlsim::calib
