#include "ddlsim/calib/attention_fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/cost/attention_time.h"
#include "row_fit.h"
#include "tile_search.h"

namespace ddlsim::calib {
namespace {

using hardware::AttentionCurve;
using hardware::DeviceSpec;
using primitives::AttentionPass;
using primitives::AttentionShape;

constexpr std::size_t kLeastAttentionRows = 8;
constexpr std::size_t kFewAttentionRows = 100;  // fewer are pulled harder to where they start
constexpr std::size_t kTrialRows = 600;         // that choose among tiles
constexpr double kTileRows[]{64, 128, 192, 256};
// An event, a launch and what a harness's own small kernels take (s); training rows are too long to tell it.
constexpr double kMostOverhead = 15e-6;
// Few rows wait for memory; without an end the others put its share anywhere. Tensors of training are larger than an
// L2.
constexpr double kMostMemory = 1;
// Per unit of a logarithm, against residuals of about 0.05; the weaker as of GEMMs' 1200 rows.
constexpr double kPull = 0.03;

DataSize keys_and_values(const AttentionRow& row, DataSize element) {
  const AttentionShape& shape = row.shape;
  return element * (static_cast<double>(row.batch) * static_cast<double>(shape.keys) *
                    static_cast<double>(shape.kv_heads) * 2 * cost::head_width(shape));
}

std::vector<Parameter> attention_parameters(const AttentionCurve& start, const std::vector<double>& least_times) {
  std::vector<Parameter> parameters{in_logarithm({0.05, start.memory_efficiency, kMostMemory}),
                                    in_logarithm({0.001, start.not_overlapped, 1}),
                                    in_logarithm({1, start.prologue_steps, 4000}),
                                    in_logarithm({1, std::max(start.masked_steps, 16.0), 2000}),
                                    in_logarithm({0.01, start.partial_wave_cost, 1}),
                                    in_logarithm({1e-4, std::max(start.sustained_slowdown, 1e-3), 1}),
                                    in_logarithm({1e-5, 1e-3, 0.1})};
  for (std::size_t i = 0; i < least_times.size(); ++i) {
    const double t = least_times[i];
    const double most = std::min(t, kMostOverhead);
    parameters.push_back(in_logarithm({most * 1e-2, most * 0.8, most}));                         // overhead
    parameters.push_back(in_logarithm({t * 0.5, t, t * 1.1}));                                   // floor
    if (start.overheads[i].copied_passes > 0) parameters.push_back(in_logarithm({0.01, 1, 8}));  // copied_passes
  }
  for (const AttentionCurve::Width& width : start.widths) {
    parameters.push_back(in_logarithm({0.02, width.efficiency, 1.2}));
    parameters.push_back(in_logarithm({0.1, width.tiles_to_fill, 8}));
  }
  return parameters;
}

/// `start` with what the logarithms x say; its series, which of them copy, its widths and their tiles' rows stay.
AttentionCurve attention_at(const std::vector<double>& x, AttentionCurve curve) {
  std::size_t i = 0;
  const auto next = [&] { return e_to(x[i++]); };
  curve.memory_efficiency = next();
  curve.not_overlapped = next();
  curve.prologue_steps = next();
  curve.masked_steps = next();
  curve.partial_wave_cost = std::min(1.0, next());
  curve.sustained_slowdown = next();
  curve.slowdown_half_time = seconds(next());
  for (AttentionCurve::Overhead& one : curve.overheads) {
    one.adds.overhead = seconds(next());
    one.adds.floor = seconds(next());
    if (one.copied_passes > 0) one.copied_passes = next();
  }
  for (AttentionCurve::Width& width : curve.widths) {
    width.efficiency = next();
    width.tiles_to_fill = next();
  }
  return curve;
}

struct FittedAttention {
  AttentionCurve curve;
  SearchResult result;
};

/// A search from `start`, or from where another one ended.
FittedAttention searched(std::span<const AttentionRow> rows, const DeviceSpec& spec, const AttentionCurve& start,
                         const std::vector<double>* from, int steps) {
  const LogTimes times = log_times(std::vector<AttentionRow>(rows.begin(), rows.end()));
  std::vector<double> least;
  for (const AttentionCurve::Overhead& one : start.overheads) {
    std::vector<AttentionRow> of;
    for (const AttentionRow& row : rows) {
      if (row.series == one.adds.series) of.push_back(row);
    }
    least.push_back(of.empty() ? times.least : log_times(of).least);
  }
  const std::vector<Parameter> parameters = attention_parameters(start, least);
  std::vector<double> at;
  for (std::size_t j = 0; j < parameters.size(); ++j) {
    at.push_back(from == nullptr ? parameters[j].prior
                                 : std::clamp((*from)[j], parameters[j].least, parameters[j].most));
  }
  const Residuals residuals = [&](const std::vector<double>& x, std::vector<double>& out) {
    const AttentionCurve tried = attention_at(x, start);
    out.resize(rows.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = ln(as_measured(tried, spec, rows[i]).in(seconds)) - times.logs[i];
    }
  };
  SearchOptions options;
  options.most_steps = steps;
  options.prior_weight =
      rows.size() < kFewAttentionRows ? kPull : kPull * std::sqrt(static_cast<double>(rows.size()) / 1200);
  FittedAttention fitted;
  fitted.result = search(residuals, parameters, std::move(at), options);
  fitted.curve = attention_at(fitted.result.x, start);
  return fitted;
}

/// Fits to rows in an order that depends on shapes alone; tiles' rows are chosen where `from` is null.
FittedAttention fit_rows(std::vector<AttentionRow> rows, const DeviceSpec& spec, AttentionCurve start,
                         const AttentionFitOptions& options, const std::vector<double>* from) {
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(options.most_rows, 1));
  if (rows.size() > most) rows.resize(most);
  if (from != nullptr) return searched(rows, spec, start, from, 20);
  const std::span<const AttentionRow> some(rows.data(), std::min(rows.size(), kTrialRows));
  FittedAttention best = searched(some, spec, start, nullptr, 20);
  if (rows.size() < kFewAttentionRows) return searched(rows, spec, best.curve, &best.result.x, 40);
  for (int turn = 0; turn < 2; ++turn) {
    for (std::size_t w = 0; w < start.widths.size(); ++w) {
      for (const double tile : kTileRows) {
        AttentionCurve other = start;
        for (std::size_t i = 0; i < other.widths.size(); ++i) other.widths[i].rows = best.curve.widths[i].rows;
        if (other.widths[w].rows == tile) continue;
        other.widths[w].rows = tile;
        FittedAttention tried = searched(some, spec, other, &best.result.x, 10);
        if (tried.result.cost < best.result.cost) best = std::move(tried);
      }
    }
  }
  for (std::size_t i = 0; i < start.widths.size(); ++i) start.widths[i].rows = best.curve.widths[i].rows;
  return searched(rows, spec, start, &best.result.x, 40);
}

Expected<void> check_attention(std::span<const AttentionRow> rows, const DeviceSpec& spec) {
  const auto bad = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  if (auto sound = check_spec(spec); !sound) return sound;
  if (rows.size() < kLeastAttentionRows) {
    return bad(fmt::format("{} rows of attention; a fit needs {} or more", rows.size(), kLeastAttentionRows));
  }
  std::set<std::pair<AttentionShape, std::int64_t>> shapes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const AttentionShape& shape = rows[i].shape;
    if (shape.pass != rows.front().shape.pass) return bad("rows of both passes");
    if (std::min({shape.queries, shape.keys, shape.heads, shape.kv_heads, shape.width, shape.value_width,
                  rows[i].batch}) < 1) {
      return bad(fmt::format("row {}: a size is not at least 1", i + 1));
    }
    const double time = rows[i].time.in(seconds);
    if (!std::isfinite(time) || !(time > 0)) return bad(fmt::format("row {}: the time is not positive", i + 1));
    shapes.emplace(shape, rows[i].batch);
  }
  if (shapes.size() < 2) return bad("all rows have one shape: a one-point curve; a fit needs several");
  return {};
}

/// The widths with shapes enough, as the forward curve has them.
std::vector<AttentionCurve::Width> widths_of(std::span<const AttentionRow> rows, const AttentionCurve* forward) {
  std::map<double, std::set<std::pair<AttentionShape, std::int64_t>>> seen;
  for (const AttentionRow& row : rows) seen[cost::head_width(row.shape)].emplace(row.shape, row.batch);
  std::vector<AttentionCurve::Width> widths;
  for (const auto& [width, shapes] : seen) {
    if (shapes.size() < kLeastOfAWidth && seen.size() > 1) continue;
    AttentionCurve::Width one{.width = width};
    if (forward != nullptr) {
      const auto near = std::min_element(
          forward->widths.begin(), forward->widths.end(),
          [&](const auto& a, const auto& b) { return std::abs(ln(a.width / width)) < std::abs(ln(b.width / width)); });
      if (near != forward->widths.end()) {
        one.efficiency = near->efficiency / cost::kBackwardSlowdown;
        one.tiles_to_fill = near->tiles_to_fill;
      }
    }
    widths.push_back(one);
  }
  if (widths.empty()) widths.push_back({.width = seen.begin()->first});
  return widths;
}

}  // namespace

std::vector<std::int64_t> shape_of(const AttentionRow& row, std::int64_t salt) {
  const AttentionShape& s = row.shape;
  return {salt,       row.batch, s.queries,     s.keys,   s.heads,
          s.kv_heads, s.width,   s.value_width, s.window, static_cast<std::int64_t>(s.causal)};
}

std::vector<hardware::CurveReport::Range> hull_of(const std::vector<AttentionRow>& rows) {
  std::vector<hardware::CurveReport::Range> hull{
      {"queries", 0, 0}, {"keys", 0, 0}, {"width", 0, 0}, {"heads", 0, 0}, {"flop", 0, 0}};
  for (const AttentionRow& row : rows) {
    const auto batch = static_cast<double>(row.batch);
    const double features[]{static_cast<double>(row.shape.queries), static_cast<double>(row.shape.keys),
                            cost::head_width(row.shape), static_cast<double>(row.shape.heads) * batch,
                            cost::attention_work(row.shape, batch).in(flops)};
    for (std::size_t f = 0; f < hull.size(); ++f) {
      hull[f].least = hull[f].least > 0 ? std::min(hull[f].least, features[f]) : features[f];
      hull[f].most = std::max(hull[f].most, features[f]);
    }
  }
  return hull;
}

hardware::MeasuringOverhead overhead_of(const AttentionCurve& curve, const DeviceSpec& spec, const AttentionRow& row) {
  const auto known = std::find_if(curve.overheads.begin(), curve.overheads.end(),
                                  [&](const auto& one) { return one.adds.series == row.series; });
  if (known == curve.overheads.end()) return {};
  hardware::MeasuringOverhead adds = known->adds;
  adds.overhead += keys_and_values(row, activation_size(curve.precision)) * known->copied_passes / spec.memory;
  return adds;
}

Time as_measured(const AttentionCurve& curve, const DeviceSpec& spec, const AttentionRow& row) {
  const hardware::MeasuringOverhead adds = overhead_of(curve, spec, row);
  return max(adds.floor, adds.overhead + cost::attention_time(curve, spec, row.shape, static_cast<double>(row.batch),
                                                              activation_size(curve.precision)));
}

Expected<AttentionCurve> fit_attention(std::span<const AttentionRow> rows, const DeviceSpec& spec, Precision precision,
                                       const AttentionFitOptions& options) {
  if (auto sound = check_attention(rows, spec); !sound) return tl::unexpected<Error>(sound.error());
  const auto out = [](const AttentionRow& row) { return fold_of_row(row) == kReportFold; };
  std::vector<AttentionRow> compared = rows_where(rows, out);
  std::vector<AttentionRow> fitted = shuffled<AttentionRow>(rows_where(rows, std::not_fn(out)));
  if (fitted.size() < kLeastAttentionRows / 2) std::swap(fitted, compared);
  AttentionCurve start;
  if (options.forward != nullptr) {
    start = *options.forward;
    start.report = {};
  }
  start.precision = precision;
  start.pass = rows.front().shape.pass;
  start.widths = widths_of(rows, options.forward);
  start.overheads.clear();
  std::set<std::string> series;
  for (const AttentionRow& row : rows) series.insert(row.series);
  for (const std::string& one : series) {
    const bool copies = start.pass == AttentionPass::kForward && !options.training.contains(one);
    start.overheads.push_back({{one, {}, {}}, copies ? 1.0 : 0.0});
  }

  FittedAttention best = fit_rows(fitted, spec, start, options, nullptr);
  AttentionCurve as_best = start;
  for (std::size_t i = 0; i < start.widths.size(); ++i) as_best.widths[i].rows = best.curve.widths[i].rows;
  best.curve.report = report_of(
      best.curve, fitted, compared,
      [&](const std::vector<AttentionRow>& some) {
        return fit_rows(some, spec, as_best, options, &best.result.x).curve;
      },
      [&](const AttentionCurve& curve, const AttentionRow& row) {
        const Time kernel =
            cost::attention_time(curve, spec, row.shape, static_cast<double>(row.batch), activation_size(precision));
        const hardware::MeasuringOverhead adds = overhead_of(curve, spec, row);
        return ComparedRow{kernel.in(seconds), row.time.in(seconds), adds.overhead.in(seconds), adds.floor.in(seconds)};
      });
  best.curve.report.measured = options.measured;
  return best.curve;
}

}  // namespace ddlsim::calib
