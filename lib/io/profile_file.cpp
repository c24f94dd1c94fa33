#include "ddlsim/io/profile_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "convolution_table.h"

namespace ddlsim::io {
namespace {

using hardware::AttentionCurve;
using hardware::ConvolutionCurve;
using hardware::CurveReport;
using hardware::GemmCurve;
using hardware::GpuProfile;
using hardware::MemoryBoundCurve;

constexpr std::int64_t kMostOfCurve = std::int64_t{1} << 40;
constexpr double kUnbounded = std::numeric_limits<double>::max();

struct Bounds {
  double least = 0;
  double most = kUnbounded;
};

double number_of(MapReader& reader, const Node& node, Bounds bounds) {
  if (!reader.is_scalar(node)) return bounds.least;
  const auto value = reader.accept(parse_number(node.text), node);
  if (!value) return bounds.least;
  if (*value >= bounds.least && *value <= bounds.most) return *value;
  reader.report(node, ErrorCode::kInvalidArgument,
                bounds.most < kUnbounded ? fmt::format("{} is not between {} and {}", *value, bounds.least, bounds.most)
                                         : fmt::format("{} is below {}", *value, bounds.least));
  return bounds.least;
}

double number(MapReader& reader, std::string_view key, Bounds bounds = {}) {
  const Node* node = reader.require(key);
  return node == nullptr ? bounds.least : number_of(reader, *node, bounds);
}

double number_or(MapReader& reader, std::string_view key, double otherwise, Bounds bounds = {}) {
  const Node* node = reader.find(key);
  return node == nullptr ? otherwise : number_of(reader, *node, bounds);
}

Time time_or_zero(MapReader& reader, std::string_view key) {
  return reader.optional_quantity<dimension::kTime>(key, Range::kNonNegative).value_or(Time{});
}

/// The items of a list; none, and an error, where it is no list.
const std::vector<Node>& items_of(MapReader& reader, const Node& node) {
  static const std::vector<Node> none;
  if (node.kind == NodeKind::kList) return node.items;
  reader.report(node, ErrorCode::kParse, "a list is wanted here: [...]");
  return none;
}

std::pair<double, double> pair_of(MapReader& reader, const Node& node, Bounds bounds) {
  const auto& items = items_of(reader, node);
  if (items.size() != 2) {
    if (node.kind == NodeKind::kList) reader.report(node, ErrorCode::kParse, "two numbers are wanted here: [a, b]");
    return {bounds.least, bounds.least};
  }
  return {number_of(reader, items[0], bounds), number_of(reader, items[1], bounds)};
}

CurveReport read_report(const Node& node, std::vector<Error>& errors) {
  MapReader reader(node, "report", errors);
  CurveReport report;
  report.measured = reader.text("measured");
  report.fitted = reader.count("fitted", {0, kMostOfCurve});
  report.held_out = reader.count("held_out", {0, kMostOfCurve});
  report.mean = number(reader, "mean");
  report.median = number(reader, "median");
  report.p95 = number(reader, "p95");
  report.worst = number(reader, "worst");
  report.bias = number(reader, "bias", {-1, kUnbounded});
  report.above_floor = reader.count_or("above_floor", 0, {0, kMostOfCurve});
  report.above_floor_mean = number_or(reader, "above_floor_mean", 0);
  report.coverage = number(reader, "coverage", {0, 1});
  if (const Node* interval = reader.require("interval")) {
    report.interval = pair_of(reader, *interval, {});
    if (report.interval.first > report.interval.second) {
      reader.report(*interval, ErrorCode::kInvalidArgument, "the interval's ends are the wrong way round");
    }
  }
  if (const Node* fitted_ranges = reader.find("fitted_ranges")) {
    MapReader ranges(*fitted_ranges, "fitted_ranges", errors);
    for (const Entry& entry : fitted_ranges->entries) {
      ranges.find(entry.key);
      const auto [least, most] = pair_of(ranges, entry.value, {});
      report.fitted_ranges.push_back({entry.key, least, most});
    }
  }
  if (const Node* uncertain = reader.find("standard_errors")) {
    MapReader values(*uncertain, "standard_errors", errors);
    for (const Entry& entry : uncertain->entries) {
      report.standard_errors.push_back({entry.key, number(values, entry.key)});
    }
  }
  if (const Node* another = reader.find("another_run")) {
    MapReader run(*another, "another_run", errors);
    report.another_run = {number(run, "time", {0.01, 100}), run.count("rows", {1, kMostOfCurve}), run.text("measured")};
    run.finish();
  }
  reader.finish();
  return report;
}

void read_report_into(MapReader& reader, CurveReport& report, std::vector<Error>& errors) {
  if (const Node* node = reader.require("report")) report = read_report(*node, errors);
}

void read_tiles(MapReader& reader, std::vector<GemmCurve::Tile>& into, std::vector<Error>& errors) {
  const Node* tiles = reader.require("tiles");
  if (tiles == nullptr) return;
  for (const Node& item : items_of(reader, *tiles)) {
    MapReader tile(item, "a tile", errors);
    into.push_back({number(tile, "m", {1, kUnbounded}), number(tile, "n", {1, kUnbounded}),
                    number(tile, "efficiency", {1e-6, 10}), number(tile, "tiles_to_fill", {1e-6, kUnbounded})});
    tile.finish();
  }
  if (into.empty()) reader.report(*tiles, ErrorCode::kInvalidArgument, "no tile");
}

/// What GEMMs and the implicit GEMMs of convolutions share.
void read_shared(MapReader& reader, GemmCurve& curve, std::vector<Error>& errors) {
  curve.overhead = time_or_zero(reader, "overhead");
  curve.floor = time_or_zero(reader, "floor");
  curve.memory_efficiency = number(reader, "memory_efficiency", {1e-6, 10});
  curve.not_overlapped = number(reader, "not_overlapped", {0, 10});
  curve.left_operand_cost = number_or(reader, "left_operand_cost", 1, {0.01, 100});
  curve.prologue_steps = number(reader, "prologue_steps");
  curve.partial_wave_cost = number(reader, "partial_wave_cost", {0, 10});
  curve.sustained_slowdown = number(reader, "sustained_slowdown");
  curve.slowdown_half_time = time_or_zero(reader, "slowdown_half_time");
  read_tiles(reader, curve.tiles, errors);
}

GemmCurve read_gemm_curve(const Node& node, std::vector<Error>& errors) {
  MapReader reader(node, "a curve of GEMMs", errors);
  GemmCurve curve;
  curve.precision = reader.choice("precision", kPrecisions);
  curve.batched = reader.flag_or("batched", false);
  curve.grouped = reader.flag_or("grouped", false);
  curve.left_operand_passes = number_or(reader, "left_operand_passes", 0, {0, 100});
  curve.overhead_per_row = time_or_zero(reader, "overhead_per_row");
  curve.routing_passes = number_or(reader, "routing_passes", 1, {0, 100});
  curve.split_k_launch = time_or_zero(reader, "split_k_launch");
  curve.split_k_passes = number(reader, "split_k_passes");
  curve.long_k = number(reader, "long_k", {1e-6, kUnbounded});
  curve.long_k_slowdown = number(reader, "long_k_slowdown");
  read_shared(reader, curve, errors);
  read_report_into(reader, curve.report, errors);
  reader.finish();
  return curve;
}

void read_winograds(MapReader& reader, ConvolutionCurve& curve, std::vector<Error>& errors) {
  if (const Node* node = reader.find("winograd_fused")) {
    MapReader parts(*node, "a fused Winograd algorithm", errors);
    curve.winograd_fused.efficiency = number(parts, "efficiency", {1e-6, 10});
    curve.winograd_fused.prologue_steps = number(parts, "prologue_steps");
    curve.winograd_fused.weight_passes = number(parts, "weight_passes");
    parts.finish();
  }
  if (const Node* node = reader.find("winograd_nonfused")) {
    MapReader parts(*node, "a Winograd algorithm", errors);
    curve.winograd_nonfused.prologue_steps = number(parts, "prologue_steps");
    curve.winograd_nonfused.activation_passes = number(parts, "activation_passes");
    curve.winograd_nonfused.weight_passes = number(parts, "weight_passes");
    curve.winograd_nonfused.extra_launches = time_or_zero(parts, "extra_launches");
    read_tiles(parts, curve.winograd_nonfused.tiles, errors);
    parts.finish();
  }
}

void read_gradients(MapReader& reader, ConvolutionCurve& curve, std::vector<Error>& errors) {
  const Node* node = reader.require("gradients");
  if (node == nullptr) return;
  constexpr Bounds kRatio{1e-6, 1000};
  MapReader parts(*node, "the gradients", errors);
  curve.gradient_rows = parts.count("rows", {0, kMostOfCurve});
  curve.input_gradient = number(parts, "input", kRatio);
  curve.strided_gradient = number(parts, "strided", kRatio);
  curve.weight_gradient = number(parts, "weight", kRatio);
  curve.weight_reduction_steps = number(parts, "weight_reduction_steps", {0, 1e9});
  curve.weight_winograd = number(parts, "weight_winograd", kRatio);
  parts.finish();
}

ConvolutionCurve read_convolution_curve(const Node& node, std::vector<Error>& errors) {
  MapReader reader(node, "a curve of convolutions", errors);
  ConvolutionCurve curve;
  curve.precision = reader.choice("precision", kPrecisions);
  curve.implicit_gemm.precision = curve.precision;
  curve.overhead_growth = time_or_zero(reader, "overhead_growth");
  read_shared(reader, curve.implicit_gemm, errors);
  read_winograds(reader, curve, errors);
  read_gradients(reader, curve, errors);
  read_report_into(reader, curve.report, errors);
  reader.finish();
  return curve;
}

void read_slope_changes(MapReader& reader, MemoryBoundCurve& curve, std::vector<Error>& errors) {
  const Node* slope_changes = reader.require("slope_changes");
  if (slope_changes == nullptr) return;
  double total = 0;
  double total_least = 0;
  for (const Node& item : items_of(reader, *slope_changes)) {
    MapReader change(item, "a slope change", errors);
    const double at = number(change, "at_l2");
    const double by = number(change, "by", {-1000, 1000});
    total += by;
    change.finish();
    if (curve.slope_changes.empty() ? at != 0 : at <= curve.slope_changes.back().first) {
      reader.report(item, ErrorCode::kInvalidArgument, "slope changes start at 0 and rise");
    }
    total_least = std::min(total_least, total);
    curve.slope_changes.emplace_back(at, by);
  }
  if (!curve.slope_changes.empty() && total_least < 0) {
    reader.report(*slope_changes, ErrorCode::kInvalidArgument,
                  "more bytes would take less time: slopes add up to less than 0");
  }
  if (curve.slope_changes.empty()) reader.report(*slope_changes, ErrorCode::kInvalidArgument, "no slope change");
}

void read_row_length_factors(MapReader& reader, MemoryBoundCurve& curve, std::vector<Error>& errors) {
  const Node* factors = reader.find("row_length_factors");
  if (factors == nullptr) return;
  for (const Node& item : items_of(reader, *factors)) {
    MapReader length(item, "a row length", errors);
    const std::int64_t from = length.count("from", {1, kMostOfCurve});
    const double factor = number(length, "factor", {0.01, 100});
    length.finish();
    if (!curve.row_length_factors.empty() && from <= curve.row_length_factors.back().first) {
      reader.report(item, ErrorCode::kInvalidArgument, "row lengths rise");
    }
    curve.row_length_factors.emplace_back(from, factor);
  }
}

hardware::MeasuringOverhead read_overhead(MapReader& parts) {
  hardware::MeasuringOverhead overhead;
  overhead.series = parts.text_or("series", {});
  overhead.overhead = parts.quantity<dimension::kTime>("overhead", Range::kNonNegative);
  overhead.floor = parts.quantity<dimension::kTime>("floor", Range::kNonNegative);
  return overhead;
}

MemoryBoundCurve read_memory_bound_curve(const Node& node, std::vector<Error>& errors) {
  MapReader reader(node, "a curve of kernels bound by memory", errors);
  MemoryBoundCurve curve;
  curve.kind = reader.choice("kind", primitives::kMemoryBoundKinds);
  curve.row_from = reader.count_or("row_from", 0, {0, kMostOfCurve});
  read_slope_changes(reader, curve, errors);
  read_row_length_factors(reader, curve, errors);
  curve.time_per_row = time_or_zero(reader, "time_per_row");
  if (const Node* overheads = reader.find("overheads")) {
    for (const Node& item : items_of(reader, *overheads)) {
      MapReader parts(item, "an overhead", errors);
      hardware::MeasuringOverhead overhead = read_overhead(parts);
      parts.finish();
      curve.overheads.push_back(std::move(overhead));
    }
  }
  read_report_into(reader, curve.report, errors);
  reader.finish();
  return curve;
}

void read_widths(MapReader& reader, AttentionCurve& curve, std::vector<Error>& errors) {
  const Node* widths = reader.require("widths");
  if (widths == nullptr) return;
  for (const Node& item : items_of(reader, *widths)) {
    MapReader width(item, "a width", errors);
    const AttentionCurve::Width one{number(width, "width", {1, kUnbounded}), number(width, "rows", {1, kUnbounded}),
                                    number(width, "efficiency", {1e-6, 10}),
                                    number(width, "tiles_to_fill", {1e-6, kUnbounded})};
    width.finish();
    if (!curve.widths.empty() && one.width <= curve.widths.back().width) {
      reader.report(item, ErrorCode::kInvalidArgument, "widths rise");
    }
    curve.widths.push_back(one);
  }
  if (curve.widths.empty()) reader.report(*widths, ErrorCode::kInvalidArgument, "no width");
}

AttentionCurve read_attention_curve(const Node& node, std::vector<Error>& errors) {
  MapReader reader(node, "a curve of attention", errors);
  AttentionCurve curve;
  curve.precision = reader.choice("precision", kPrecisions);
  curve.pass = reader.choice("pass", primitives::kAttentionPasses);
  if (const Node* overheads = reader.find("overheads")) {
    for (const Node& item : items_of(reader, *overheads)) {
      MapReader parts(item, "an overhead", errors);
      AttentionCurve::Overhead overhead;
      overhead.adds = read_overhead(parts);
      overhead.copied_passes = number_or(parts, "copied_passes", 0, {0, 100});
      parts.finish();
      curve.overheads.push_back(std::move(overhead));
    }
  }
  curve.memory_efficiency = number(reader, "memory_efficiency", {1e-6, 10});
  curve.not_overlapped = number(reader, "not_overlapped", {0, 10});
  curve.prologue_steps = number(reader, "prologue_steps");
  curve.masked_steps = number(reader, "masked_steps");
  curve.partial_wave_cost = number(reader, "partial_wave_cost", {0, 10});
  curve.sustained_slowdown = number(reader, "sustained_slowdown");
  curve.slowdown_half_time = time_or_zero(reader, "slowdown_half_time");
  read_widths(reader, curve, errors);
  read_report_into(reader, curve.report, errors);
  reader.finish();
  return curve;
}

/// A list of curves, each of another thing, as `key` tells them apart.
template <typename Curve, typename Read, typename Key>
std::vector<Curve> read_curves(MapReader& reader, std::string_view name, std::vector<Error>& errors, Read read,
                               Key key) {
  std::vector<Curve> curves;
  const Node* list = reader.find(name);
  if (list == nullptr) return curves;
  for (const Node& item : items_of(reader, *list)) {
    curves.push_back(read(item, errors));
    for (std::size_t i = 0; i + 1 < curves.size(); ++i) {
      if (key(curves[i]) != key(curves.back())) continue;
      reader.report(item, ErrorCode::kInvalidArgument, "a second curve for the same thing");
    }
  }
  return curves;
}

}  // namespace

Expected<GpuProfile> read_profile(const Node& document) {
  std::vector<Error> errors;
  MapReader reader(document, "a calibration file", errors);
  GpuProfile profile;
  profile.id = reader.text("calibration");
  profile.gpu = reader.text("gpu");
  profile.date = reader.text_or("date", {});
  profile.launch_interval = reader.optional_quantity<dimension::kTime>("launch_interval");
  const auto precision_of = [](const auto& curve) { return curve.precision; };
  profile.gemms = read_curves<GemmCurve>(reader, "gemms", errors, read_gemm_curve, [](const GemmCurve& curve) {
    return std::tuple{curve.precision, curve.batched, curve.grouped};
  });
  profile.convolutions =
      read_curves<ConvolutionCurve>(reader, "convolutions", errors, read_convolution_curve, precision_of);
  if (const Node* table = reader.find("measured_convolutions")) {
    profile.measured_convolutions = read_convolution_table(*table, errors);
    std::stable_sort(profile.measured_convolutions.begin(), profile.measured_convolutions.end(), hardware::ByShape{});
  }
  profile.memory_bound = read_curves<MemoryBoundCurve>(reader, "memory_bound", errors, read_memory_bound_curve,
                                                       [](const MemoryBoundCurve& curve) {
                                                         return std::pair{curve.kind, curve.row_from};
                                                       });
  profile.attention =
      read_curves<AttentionCurve>(reader, "attention", errors, read_attention_curve, [](const AttentionCurve& curve) {
        return std::pair{curve.precision, curve.pass};
      });
  profile.notes = reader.text_or("notes", {});
  return reader.whole(std::move(profile));
}

}  // namespace ddlsim::io
