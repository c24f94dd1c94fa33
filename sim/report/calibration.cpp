#include "calibration.h"

#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/report/views.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "table.h"

namespace ddlsim::report {
namespace {

using hardware::CurveReport;
using hardware::GpuProfile;

/// Gathers a curve's parameters, each with the uncertainty that the report has under its name.
class Parameters {
 public:
  explicit Parameters(CurveSummary& curve) : curve_(curve) {}

  void add(const std::string& name, std::string value) {
    const auto& errors = curve_.report->standard_errors;
    const auto known =
        std::find_if(errors.begin(), errors.end(), [&](const auto& error) { return error.parameter == name; });
    curve_.parameters.push_back({name, std::move(value), known == errors.end() ? 0.0 : known->relative});
  }

  void add_gemm(const hardware::GemmCurve& gemm) {
    add("overhead", fmt::format("{}, floor {}", to_text(gemm.overhead), to_text(gemm.floor)));
    add("memory efficiency", significant(gemm.memory_efficiency));
    add("not overlapped", significant(gemm.not_overlapped));
    add("left operand cost", significant(gemm.left_operand_cost) + " of the time");
    if (gemm.left_operand_passes > 0) add("left operand passes", significant(gemm.left_operand_passes));
    if (gemm.grouped) add("routing passes", significant(gemm.routing_passes));
    add("prologue steps", significant(gemm.prologue_steps));
    add("partial wave cost", significant(gemm.partial_wave_cost));
    if (gemm.sustained_slowdown > 0) {
      add("sustained slowdown",
          fmt::format("{}, half of it at {}", percent(gemm.sustained_slowdown), to_text(gemm.slowdown_half_time)));
    }
    for (const auto& tile : gemm.tiles) add_tile("tile", tile);
    if (const auto& another = curve_.report->another_run) {
      add("another run", fmt::format("takes {}, {} rows: predictions take the middle", significant(another->time),
                                     to_text(another->rows)));
    }
  }

  void add_tile(std::string_view name, const hardware::GemmCurve::Tile& tile) {
    add(fmt::format("{} {} x {}", name, significant(tile.m), significant(tile.n)), significant(tile.efficiency));
  }

 private:
  CurveSummary& curve_;
};

CurveSummary summary_of(const hardware::MemoryBoundCurve& curve) {
  CurveSummary summary{calib::name_of_curve(curve), &curve.report, {}};
  Parameters parameters(summary);
  for (const auto& [at, slope] : curve.slope_changes) {
    parameters.add(fmt::format("slope at {} L2", significant(at)), significant(slope) + " / bandwidth");
  }
  for (const auto& [from, factor] : curve.row_length_factors) {
    parameters.add(fmt::format("rows from {}", from), fmt::format("{:.4g} of the time", factor));
  }
  if (curve.time_per_row > Time::zero()) parameters.add("time per row", to_text(curve.time_per_row));
  for (const hardware::MeasuringOverhead& one : curve.overheads) {
    const std::string name = one.series.empty() ? "overhead" : "overhead of " + one.series;
    parameters.add(name, fmt::format("{}, floor {}", to_text(one.overhead), to_text(one.floor)));
  }
  return summary;
}

CurveSummary summary_of(const hardware::AttentionCurve& curve) {
  CurveSummary summary{calib::name_of_curve(curve), &curve.report, {}};
  Parameters parameters(summary);
  for (const hardware::AttentionCurve::Overhead& one : curve.overheads) {
    const std::string name = one.adds.series.empty() ? "overhead" : "overhead of " + one.adds.series;
    parameters.add(name, fmt::format("{}, floor {}, {} passes over keys and values", to_text(one.adds.overhead),
                                     to_text(one.adds.floor), significant(one.copied_passes)));
  }
  parameters.add("memory efficiency", significant(curve.memory_efficiency));
  parameters.add("prologue steps", significant(curve.prologue_steps));
  parameters.add("masked steps", significant(curve.masked_steps));
  parameters.add("partial wave cost", significant(curve.partial_wave_cost));
  if (curve.sustained_slowdown > 0) {
    parameters.add("sustained slowdown", fmt::format("{}, half of it at {}", percent(curve.sustained_slowdown),
                                                     to_text(curve.slowdown_half_time)));
  }
  for (const hardware::AttentionCurve::Width& width : curve.widths) {
    parameters.add(fmt::format("width {}, tiles of {}", significant(width.width), significant(width.rows)),
                   significant(width.efficiency));
  }
  return summary;
}

std::string ranges_text(const CurveReport& report) {
  std::string text;
  for (const CurveReport::Range& range : report.fitted_ranges) {
    const bool data = range.feature == "bytes";
    text += fmt::format("{}{} {} to {}", text.empty() ? "" : ", ", range.feature,
                        data ? to_text(bytes(range.least)) : significant(range.least),
                        data ? to_text(bytes(range.most)) : significant(range.most));
  }
  return text;
}

std::string interval_text(std::pair<double, double> interval) {
  return fmt::format("{:.3f} to {:.3f}", interval.first, interval.second);
}

std::vector<std::string> errors_row(const CurveReport& report) {
  return {percent(report.mean), percent(report.median), percent(report.p95), percent(report.worst),
          percent(report.bias)};
}

Table curve_table(const GpuProfile& profile) {
  Table table({"curve", "fitted", "held out", "mean error", "median", "p95", "worst", "bias", "above floor",
               "mean error", "90 % interval", "coverage", "range"});
  for (const CurveSummary& curve : curves_of(profile)) {
    const CurveReport& report = *curve.report;
    std::vector<std::string> row{curve.name, to_text(report.fitted), to_text(report.held_out)};
    const auto errors = errors_row(report);
    row.insert(row.end(), errors.begin(), errors.end());
    row.insert(row.end(), {report.above_floor > 0 ? to_text(report.above_floor) : "-",
                           report.above_floor > 0 ? percent(report.above_floor_mean) : "-",
                           interval_text(report.interval), percent(report.coverage, 0), ranges_text(report)});
    table.add(std::move(row));
  }
  return table;
}

Table parameter_table(const GpuProfile& profile) {
  Table table({"curve", "parameter", "value", "+/-"});
  table.numbers_from(3);
  for (const CurveSummary& curve : curves_of(profile)) {
    for (const CurveSummary::Parameter& one : curve.parameters) {
      table.add({curve.name, one.name, one.value, one.relative_error > 0 ? percent(one.relative_error, 2) : "-"});
    }
  }
  return table;
}

Json report_json(const CurveReport& report) {
  Json fitted_ranges = Json::object();
  for (const CurveReport::Range& range : report.fitted_ranges) fitted_ranges[range.feature] = {range.least, range.most};
  return {{"fitted", report.fitted},
          {"held_out", report.held_out},
          {"mean", report.mean},
          {"median", report.median},
          {"p95", report.p95},
          {"worst", report.worst},
          {"bias", report.bias},
          {"above_floor", report.above_floor},
          {"above_floor_mean", report.above_floor_mean},
          {"interval_90", {report.interval.first, report.interval.second}},
          {"coverage_90", report.coverage},
          {"fitted_ranges", std::move(fitted_ranges)},
          {"measured", report.measured}};
}

Json curve_json(const CurveSummary& curve) {
  Json json{{"curve", curve.name}, {"report", report_json(*curve.report)}, {"parameters", Json::array()}};
  for (const CurveSummary::Parameter& one : curve.parameters) {
    json["parameters"].push_back({{"name", one.name},
                                  {"value", one.value},
                                  {"relative_error", one.relative_error > 0 ? Json(one.relative_error) : Json()}});
  }
  return json;
}

Table check_table(const calib::ProfileCheck& check) {
  Table table({"curve", "rows", "mean error", "median", "p95", "worst", "bias", "show a kernel", "outside 90 %",
               "scale", "then: mean error", "median", "p95"});
  for (const calib::CheckedCurve& curve : check.curves) {
    std::vector<std::string> row{curve.curve, to_text(curve.errors.held_out)};
    const auto errors = errors_row(curve.errors);
    row.insert(row.end(), errors.begin(), errors.end());
    row.insert(row.end(), {to_text(curve.asked), to_text(curve.outside)});
    if (curve.anchored) {
      row.insert(row.end(), {fmt::format("{:.3f}", curve.scale), percent(curve.anchored->mean),
                             percent(curve.anchored->median), percent(curve.anchored->p95)});
    } else {
      row.insert(row.end(), {"-", "-", "-", "-"});
    }
    table.add(std::move(row));
  }
  return table;
}

Json check_json(const calib::ProfileCheck& check, const std::string& title) {
  Json json{{"schema", "ddlsim/calibrate-check/1"},
            {"title", title},
            {"profile", check.profile},
            {"without_curve", check.without_curve},
            {"left_out", check.left_out},
            {"curves", Json::array()}};
  for (const calib::CheckedCurve& curve : check.curves) {
    const auto errors = [](const CurveReport& report) {
      return Json{{"rows", report.held_out}, {"mean", report.mean},   {"median", report.median},
                  {"p95", report.p95},       {"worst", report.worst}, {"bias", report.bias}};
    };
    json["curves"].push_back({{"curve", curve.curve},
                              {"errors", errors(curve.errors)},
                              {"interval_90", {curve.interval.first, curve.interval.second}},
                              {"asked", curve.asked},
                              {"outside", curve.outside},
                              {"too_often_outside", calib::too_often_outside(curve)},
                              {"scale", curve.anchored ? Json(curve.scale) : Json()},
                              {"anchored", curve.anchored ? errors(*curve.anchored) : Json()}});
  }
  return json;
}

}  // namespace

std::vector<CurveSummary> curves_of(const GpuProfile& profile) {
  std::vector<CurveSummary> curves;
  for (const hardware::GemmCurve& curve : profile.gemms) {
    curves.push_back({calib::name_of_curve(curve), &curve.report, {}});
    Parameters(curves.back()).add_gemm(curve);
  }
  for (const hardware::ConvolutionCurve& curve : profile.convolutions) {
    curves.push_back({calib::name_of_curve(curve), &curve.report, {}});
    Parameters parameters(curves.back());
    parameters.add_gemm(curve.implicit_gemm);
    if (curve.winograd_fused.efficiency > 0) {
      parameters.add("fused Winograd", significant(curve.winograd_fused.efficiency) + " of the peak");
    }
    for (const auto& tile : curve.winograd_nonfused.tiles) parameters.add_tile("non-fused Winograd, tile", tile);
  }
  for (const hardware::MemoryBoundCurve& curve : profile.memory_bound) curves.push_back(summary_of(curve));
  for (const hardware::AttentionCurve& curve : profile.attention) curves.push_back(summary_of(curve));
  return curves;
}

std::string render(const GpuProfile& profile, const std::string& title, Format format) {
  if (format == Format::kJson) {
    Json json{{"schema", "ddlsim/calibrate-fit/1"},
              {"title", title},
              {"profile", profile.id},
              {"gpu", profile.gpu},
              {"launch_interval_s", profile.launch_interval ? Json(profile.launch_interval->in(seconds)) : Json()},
              {"curves", Json::array()}};
    for (const CurveSummary& curve : curves_of(profile)) json["curves"].push_back(curve_json(curve));
    return dump(json);
  }
  std::string curves = curve_table(profile).render(format);
  if (format == Format::kCsv) return curves;
  std::string text = fmt::format("{}\n\n{}\n{}", title, curves, parameter_table(profile).render(format));
  if (profile.launch_interval) text += fmt::format("\nlaunch interval: {}\n", to_text(*profile.launch_interval));
  return text;
}

std::string render(const calib::ProfileCheck& check, const std::string& title, Format format) {
  if (format == Format::kJson) return dump(check_json(check, title));
  std::string table = check_table(check).render(format);
  if (format == Format::kCsv) return table;
  std::string text = fmt::format("{}\n\n{}", title, table);
  if (check.without_curve > 0) text += fmt::format("\n{} rows have no curve\n", to_text(check.without_curve));
  if (check.left_out > 0) {
    text += fmt::format("\n{} rows left out: throttled, or a cold cache\n", to_text(check.left_out));
  }
  return text;
}

}  // namespace ddlsim::report
