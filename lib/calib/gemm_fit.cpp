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

GemmCurve curve_at(const std::vector<double>& x, std::size_t tiles_at, const std::vector<Tile>& tiles,
                   GemmCurve curve) {
  put_parameters(x, tiles_at, tiles, curve);
  // Rows of one GEMM at a time tell it badly from the memory's share.
  if (curve.batched) curve.left_operand_cost = e_to(x[tiles_at - 1]);
  return curve;
}

struct Fitted {
  GemmCurve curve;
  TileFit tiles;
};

/// Fits `start` to rows, which have an order by now: with tiles of `candidates`, or with those of `from` where there.
Fitted fit_to(std::vector<GemmRow> rows, const DeviceSpec& spec, const GemmCurve& start, const GemmFitOptions& options,
              const TileFit* from) {
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(options.most_rows, 1));
  if (rows.size() > most) rows.resize(most);
  const LogTimes times = log_times(rows);
  TileProblem problem;
  problem.shared = gemm_parameters(times.least);
  if (start.batched) problem.shared.push_back(in_logarithm({0.3, 1, 8}));  // left_operand_cost
  problem.rows = rows.size();
  const std::size_t tiles_at = problem.shared.size();
  problem.residuals = [&](const std::vector<double>& x, const std::vector<Tile>& tiles, std::vector<double>& out) {
    const GemmCurve tried = curve_at(x, tiles_at, tiles, start);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = ln(as_measured(tried, spec, rows[i].size).in(seconds)) - times.logs[i];
    }
  };
  Fitted fitted{{}, from != nullptr ? refitted(problem, *from) : best_tiles(problem, options.tiles)};
  fitted.curve = curve_at(fitted.tiles.result.x, tiles_at, fitted.tiles.tiles, start);
  return fitted;
}

}  // namespace

std::vector<std::int64_t> shape_of(const GemmRow& row, std::int64_t salt) {
  const auto word = [](double x) { return static_cast<std::int64_t>(std::clamp(x, 0.0, 1e18)); };
  return {salt, word(row.size.batch_count), word(row.size.m), word(row.size.n), word(row.size.k)};
}

GemmSize size_of(const GemmRow& row) { return row.size; }

bool held_out(const GemmSize& size) { return fold_of_row(GemmRow{size, {}}) == kReportFold; }

Time as_measured(const GemmCurve& curve, const DeviceSpec& spec, const GemmSize& size) {
  return max(curve.floor, curve.overhead + cost::gemm_time(curve, spec, size, activation_size(curve.precision)));
}

Expected<GemmCurve> fit_gemms(std::span<const GemmRow> rows, const DeviceSpec& spec, Precision precision,
                              const GemmFitOptions& options) {
  if (auto sound = check(rows, spec); !sound) return tl::unexpected<Error>(sound.error());
  GemmFitOptions search = options;
  if (search.tiles.empty()) search.tiles = candidate_tiles(precision);
  const auto out = [](const GemmRow& row) { return held_out(row.size); };
  std::vector<GemmRow> compared = rows_where(rows, out);
  std::vector<GemmRow> fitted = shuffled<GemmRow>(rows_where(rows, std::not_fn(out)));
  if (fitted.empty()) std::swap(fitted, compared);
  const auto many = std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.size.batch_count > 1; });
  GemmCurve start;
  start.precision = precision;
  start.batched = static_cast<std::size_t>(many) * 2 > rows.size();

  Fitted best = fit_to(fitted, spec, start, search, nullptr);
  const bool anew = fitted.size() < kFewRows;
  best.curve.report = report_of(
      best.curve, fitted, compared,
      [&](const std::vector<GemmRow>& some) {
        return fit_to(some, spec, start, search, anew ? nullptr : &best.tiles).curve;
      },
      [&](const GemmCurve& curve, const GemmRow& row) {
        const Time kernel = cost::gemm_time(curve, spec, row.size, activation_size(precision));
        return ComparedRow{kernel.in(seconds), row.time.in(seconds), curve.overhead.in(seconds),
                           curve.floor.in(seconds)};
      });
  best.curve.report.measured = options.measured;
  return best.curve;
}

}  // namespace ddlsim::calib
