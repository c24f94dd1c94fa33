#include <fmt/core.h>

#include <cmath>
#include <string_view>

#include "convolution_table.h"
#include "ddlsim/io/profile_file.h"
#include "in_quotes.h"

namespace ddlsim::io {
namespace {

using hardware::CurveReport;

/// Six significant digits: what a fit can tell, and the same text after reading and writing again.
std::string number(double value) { return fmt::format("{:.6g}", value); }
std::string time(Time value) { return number(value.in(microseconds)) + " us"; }

std::string report_text(const CurveReport& report) {
  std::string text = "    report:\n";
  const auto line = [&](std::string_view key, const std::string& value) {
    text += fmt::format("      {}:{}{}\n", key, value.empty() ? "" : " ", value);
  };
  line("measured", in_quotes(report.measured.empty() ? "not said" : report.measured));
  line("fitted", std::to_string(report.fitted));
  line("held_out", std::to_string(report.held_out));
  line("mean", number(report.mean));
  line("median", number(report.median));
  line("p95", number(report.p95));
  line("worst", number(report.worst));
  line("bias", number(report.bias));
  if (report.above_floor > 0) {
    line("above_floor", std::to_string(report.above_floor));
    line("above_floor_mean", number(report.above_floor_mean));
  }
  line("interval", fmt::format("[{}, {}]", number(report.interval.first), number(report.interval.second)));
  line("coverage", number(report.coverage));
  if (!report.fitted_ranges.empty()) line("fitted_ranges", "");
  for (const CurveReport::Range& range : report.fitted_ranges) {
    text += fmt::format("        {}: [{}, {}]\n", in_quotes(range.feature), number(range.least), number(range.most));
  }
  if (!report.standard_errors.empty()) line("standard_errors", "");
  for (const CurveReport::StandardError& error : report.standard_errors) {
    text += fmt::format("        {}: {}\n", in_quotes(error.parameter), number(error.relative));
  }
  if (const auto& another = report.another_run) {
    line("another_run", fmt::format("{{time: {}, rows: {}, measured: {}}}", number(another->time), another->rows,
                                    in_quotes(another->measured)));
  }
  return text;
}

std::string line(std::string_view key, const std::string& value) { return fmt::format("    {}: {}\n", key, value); }

std::string tile_text(const hardware::GemmCurve::Tile& tile) {
  return fmt::format("{{m: {}, n: {}, efficiency: {}, tiles_to_fill: {}}}", number(tile.m), number(tile.n),
                     number(tile.efficiency), number(tile.tiles_to_fill));
}

std::string tiles_text(const hardware::GemmCurve& curve) {
  std::string text = line("tiles", "");
  for (const auto& tile : curve.tiles) text += fmt::format("      - {}\n", tile_text(tile));
  return text;
}

/// What GEMMs and the implicit GEMMs of convolutions share, tiles apart; those do not split.
std::string shared_text(const hardware::GemmCurve& curve, bool splits) {
  std::string text = line("overhead", time(curve.overhead)) + line("floor", time(curve.floor)) +
                     line("memory_efficiency", number(curve.memory_efficiency)) +
                     line("not_overlapped", number(curve.not_overlapped)) +
                     line("prologue_steps", number(curve.prologue_steps)) +
                     line("partial_wave_cost", number(curve.partial_wave_cost));
  if (splits) {
    text += line("split_k_launch", time(curve.split_k_launch)) + line("split_k_passes", number(curve.split_k_passes));
  }
  return text + line("sustained_slowdown", number(curve.sustained_slowdown)) +
         line("slowdown_half_time", time(curve.slowdown_half_time));
}

std::string gemm_text(const hardware::GemmCurve& curve) {
  return fmt::format("  - precision: {}\n", name_of(kPrecisions, curve.precision)) +
         (curve.batched ? line("batched", "true") : std::string()) +
         (curve.grouped ? line("grouped", "true") : std::string()) + shared_text(curve, true) +
         (curve.left_operand_passes != 0 ? line("left_operand_passes", number(curve.left_operand_passes))
                                         : std::string()) +
         (curve.overhead_per_row > Time::zero() ? line("overhead_per_row", time(curve.overhead_per_row))
                                                : std::string()) +
         (curve.grouped ? line("routing_passes", number(curve.routing_passes)) : std::string()) +
         (curve.left_operand_cost != 1 ? line("left_operand_cost", number(curve.left_operand_cost)) : std::string()) +
         line("long_k", number(curve.long_k)) + line("long_k_slowdown", number(curve.long_k_slowdown)) +
         tiles_text(curve) + report_text(curve.report);
}

std::string winograd_text(const hardware::ConvolutionCurve& curve) {
  std::string text;
  const auto& [efficiency, prologue_steps, weight_passes] = curve.winograd_fused;
  if (efficiency > 0) {
    text += line("winograd_fused", fmt::format("{{efficiency: {}, prologue_steps: {}, weight_passes: {}}}",
                                               number(efficiency), number(prologue_steps), number(weight_passes)));
  }
  const hardware::ConvolutionCurve::NonfusedWinograd& nonfused = curve.winograd_nonfused;
  if (nonfused.tiles.empty()) return text;
  std::string tiles;
  for (const auto& tile : nonfused.tiles) tiles += (tiles.empty() ? "" : ", ") + tile_text(tile);
  return text +
         line("winograd_nonfused",
              fmt::format(
                  "{{prologue_steps: {}, activation_passes: {}, weight_passes: {}, extra_launches: {}, tiles: [{}]}}",
                  number(nonfused.prologue_steps), number(nonfused.activation_passes), number(nonfused.weight_passes),
                  time(nonfused.extra_launches), tiles));
}

std::string convolution_text(const hardware::ConvolutionCurve& curve) {
  return fmt::format("  - precision: {}\n", name_of(kPrecisions, curve.precision)) +
         shared_text(curve.implicit_gemm, false) +
         (curve.overhead_growth > Time::zero() ? line("overhead_growth", time(curve.overhead_growth)) : std::string()) +
         tiles_text(curve.implicit_gemm) + winograd_text(curve) +
         line("gradients",
              fmt::format(
                  "{{rows: {}, input: {}, strided: {}, weight: {}, weight_reduction_steps: {}, weight_winograd: {}}}",
                  curve.gradient_rows, number(curve.input_gradient), number(curve.strided_gradient),
                  number(curve.weight_gradient), number(curve.weight_reduction_steps), number(curve.weight_winograd))) +
         report_text(curve.report);
}

std::string overhead_text(const hardware::MeasuringOverhead& one) {
  const std::string series = one.series.empty() ? "" : fmt::format("series: {}, ", in_quotes(one.series));
  return fmt::format("{}overhead: {}, floor: {}", series, time(one.overhead), time(one.floor));
}

std::string memory_bound_text(const hardware::MemoryBoundCurve& curve) {
  std::string text = fmt::format("  - kind: {}\n", name_of(primitives::kMemoryBoundKinds, curve.kind));
  if (curve.row_from > 0) text += fmt::format("    row_from: {}\n", curve.row_from);
  text += "    slope_changes:\n";
  for (const auto& [at, by] : curve.slope_changes) {
    text += fmt::format("      - {{at_l2: {}, by: {}}}\n", number(at), number(by));
  }
  if (!curve.row_length_factors.empty()) text += "    row_length_factors:\n";
  for (const auto& [from, factor] : curve.row_length_factors) {
    text += fmt::format("      - {{from: {}, factor: {}}}\n", from, number(factor));
  }
  if (curve.time_per_row > Time::zero()) text += fmt::format("    time_per_row: {}\n", time(curve.time_per_row));
  if (!curve.overheads.empty()) text += "    overheads:\n";
  for (const hardware::MeasuringOverhead& one : curve.overheads) {
    text += fmt::format("      - {{{}}}\n", overhead_text(one));
  }
  return text + report_text(curve.report);
}

std::string attention_text(const hardware::AttentionCurve& curve) {
  std::string text = fmt::format("  - precision: {}\n", name_of(kPrecisions, curve.precision)) +
                     line("pass", std::string(name_of(primitives::kAttentionPasses, curve.pass)));
  if (!curve.overheads.empty()) text += line("overheads", "");
  for (const hardware::AttentionCurve::Overhead& one : curve.overheads) {
    text += fmt::format("      - {{{}{}}}\n", overhead_text(one.adds),
                        one.copied_passes == 0 ? "" : ", copied_passes: " + number(one.copied_passes));
  }
  text += line("memory_efficiency", number(curve.memory_efficiency)) +
          line("not_overlapped", number(curve.not_overlapped)) + line("prologue_steps", number(curve.prologue_steps)) +
          line("masked_steps", number(curve.masked_steps)) +
          line("partial_wave_cost", number(curve.partial_wave_cost)) +
          line("sustained_slowdown", number(curve.sustained_slowdown)) +
          line("slowdown_half_time", time(curve.slowdown_half_time)) + line("widths", "");
  for (const hardware::AttentionCurve::Width& width : curve.widths) {
    text += fmt::format("      - {{width: {}, rows: {}, efficiency: {}, tiles_to_fill: {}}}\n", number(width.width),
                        number(width.rows), number(width.efficiency), number(width.tiles_to_fill));
  }
  return text + report_text(curve.report);
}

template <typename Items, typename Text>
std::string section(std::string_view name, const Items& items, Text text_of) {
  if (items.empty()) return {};
  std::string text = fmt::format("{}:\n", name);
  for (const auto& item : items) text += text_of(item);
  return text;
}

}  // namespace

std::string write_profile(const hardware::GpuProfile& profile) {
  std::string text = fmt::format("calibration: {}\ngpu: {}\n", in_quotes(profile.id), in_quotes(profile.gpu));
  if (!profile.date.empty()) text += fmt::format("date: {}\n", in_quotes(profile.date));
  if (profile.launch_interval) text += fmt::format("launch_interval: {}\n", time(*profile.launch_interval));
  text += section("gemms", profile.gemms, gemm_text);
  text += section("convolutions", profile.convolutions, convolution_text);
  if (!profile.measured_convolutions.empty()) {
    text += "measured_convolutions: |\n" + convolution_table_text(profile.measured_convolutions);
  }
  text += section("memory_bound", profile.memory_bound, memory_bound_text);
  text += section("attention", profile.attention, attention_text);
  if (!profile.notes.empty()) text += fmt::format("notes: {}\n", in_quotes(profile.notes));
  return text;
}

}  // namespace ddlsim::io
