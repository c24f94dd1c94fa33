#include <fmt/core.h>

#include <cmath>
#include <string_view>

#include "ddlsim/io/profile_file.h"

namespace ddlsim::io {
namespace {

using hardware::CurveReport;

/// Six significant digits: what a fit can tell, and the same text after reading and writing again.
std::string number(double value) { return fmt::format("{:.6g}", value); }
std::string time(Time value) { return number(value.in(microseconds)) + " us"; }
std::string pair(const std::array<std::int64_t, 2>& sizes) { return fmt::format("[{}, {}]", sizes[0], sizes[1]); }

/// Text between double quotes, so that no character of it means anything to YAML.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n' || c == '\r' || c == '\t') {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out + '"';
}

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
  if (!report.hull.empty()) line("hull", "");
  for (const CurveReport::Range& range : report.hull) {
    text += fmt::format("        {}: [{}, {}]\n", in_quotes(range.feature), number(range.least), number(range.most));
  }
  if (!report.standard_errors.empty()) line("standard_errors", "");
  for (const CurveReport::StandardError& error : report.standard_errors) {
    text += fmt::format("        {}: {}\n", in_quotes(error.parameter), number(error.relative));
  }
  return text;
}

std::string tiles_text(const hardware::ProductCurve& curve) {
  std::string text;
  const auto line = [&](std::string_view key, const std::string& value) {
    text += fmt::format("    {}: {}\n", key, value);
  };
  if (curve.batched) line("batched", "true");
  line("overhead", time(curve.overhead));
  line("floor", time(curve.floor));
  line("memory", number(curve.memory));
  if (curve.left != 1) line("left", number(curve.left));
  line("exposed", number(curve.exposed));
  line("k_start", number(curve.k_start));
  line("quantised", number(curve.quantised));
  line("split_start", time(curve.split_start));
  line("split_passes", number(curve.split_passes));
  line("slowdown", number(curve.slowdown));
  line("settle", time(curve.settle));
  line("far_k", number(curve.far_k));
  line("far", number(curve.far));
  line("tiles", "");
  for (const auto& tile : curve.tiles) {
    text += fmt::format("      - {{m: {}, n: {}, efficiency: {}, resident: {}}}\n", number(tile.m), number(tile.n),
                        number(tile.efficiency), number(tile.resident));
  }
  return text;
}

std::string product_text(const hardware::ProductCurve& curve) {
  return fmt::format("  - precision: {}\n{}{}", name_of(kPrecisions, curve.precision), tiles_text(curve),
                     report_text(curve.report));
}

std::string winograd_text(std::string_view key, const hardware::ConvolutionCurve::Winograd& winograd) {
  if (!(winograd.rate > 0)) return {};
  return fmt::format("    {}: {{rate: {}, moved: {}, start: {}}}\n", key, number(winograd.rate), number(winograd.moved),
                     time(winograd.start));
}

std::string convolution_text(const hardware::ConvolutionCurve& curve) {
  return fmt::format("  - precision: {}\n{}{}{}    input_gradient: {}\n    weight_gradient: {}\n{}",
                     name_of(kPrecisions, curve.precision), tiles_text(curve.product),
                     winograd_text("winograd2", curve.winograd2), winograd_text("winograd4", curve.winograd4),
                     number(curve.input_gradient), number(curve.weight_gradient), report_text(curve.report));
}

std::string measured_text(const hardware::MeasuredConvolution& measured) {
  const ConvolutionShape& shape = measured.shape;
  return fmt::format(
      "  - {{precision: {}, pass: {}, batch: {}, in: {}, out: {}, groups: {}, input: {}, output: {}, kernel: {}, "
      "stride: {}, dilation: {}, time: {}}}\n",
      name_of(kPrecisions, measured.precision), name_of(kConvolutionPasses, shape.pass), measured.batch, shape.in,
      shape.out, shape.groups, pair(shape.input), pair(shape.output), pair(shape.kernel), pair(shape.stride),
      pair(shape.dilation), time(measured.time));
}

std::string sweep_text(const hardware::SweepCurve& curve) {
  std::string text = fmt::format("  - kind: {}\n", name_of(kSweepKinds, curve.kind));
  if (curve.row_from > 0) text += fmt::format("    row_from: {}\n", curve.row_from);
  text += "    hinges:\n";
  for (const auto& [at, slope] : curve.hinges) {
    text += fmt::format("      - {{at_l2: {}, slope: {}}}\n", number(at), number(slope));
  }
  if (!curve.lengths.empty()) text += "    lengths:\n";
  for (const auto& [from, factor] : curve.lengths) {
    text += fmt::format("      - {{from: {}, factor: {}}}\n", from, number(factor));
  }
  if (curve.per_row > Time::zero()) text += fmt::format("    per_row: {}\n", time(curve.per_row));
  if (!curve.overheads.empty()) text += "    overheads:\n";
  for (const hardware::MeasuringOverhead& one : curve.overheads) {
    const std::string series = one.series.empty() ? "" : fmt::format("series: {}, ", in_quotes(one.series));
    text += fmt::format("      - {{{}overhead: {}, floor: {}}}\n", series, time(one.overhead), time(one.floor));
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
  text += section("products", profile.products, product_text);
  text += section("convolutions", profile.convolutions, convolution_text);
  text += section("measured_convolutions", profile.measured_convolutions, measured_text);
  text += section("sweeps", profile.sweeps, sweep_text);
  if (!profile.notes.empty()) text += fmt::format("notes: {}\n", in_quotes(profile.notes));
  return text;
}

}  // namespace ddlsim::io
