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

  void add_product(const hardware::ProductCurve& product) {
    add("overhead", fmt::format("{}, floor {}", to_text(product.overhead), to_text(product.floor)));
    add("memory", significant(product.memory));
    add("exposed", significant(product.exposed));
    add("left operand", significant(product.left) + " of the time");
    add("k_start", significant(product.k_start));
    add("quantised", significant(product.quantised));
    if (product.slowdown > 0) {
      add("slowdown", fmt::format("{}, half of it at {}", percent(product.slowdown), to_text(product.settle)));
    }
    for (const auto& tile : product.tiles) add_tile("tile", tile);
  }

  void add_tile(std::string_view name, const hardware::ProductCurve::Tile& tile) {
    add(fmt::format("{} {} x {}", name, significant(tile.m), significant(tile.n)), significant(tile.efficiency));
  }

 private:
  CurveSummary& curve_;
};

CurveSummary summary_of(const hardware::SweepCurve& curve) {
  CurveSummary summary{calib::name_of_curve(curve), &curve.report, {}};
  Parameters parameters(summary);
  for (const auto& [at, slope] : curve.hinges) {
    parameters.add(fmt::format("slope at {} L2", significant(at)), significant(slope) + " / bandwidth");
  }
  for (const auto& [from, factor] : curve.lengths) {
    parameters.add(fmt::format("rows from {}", from), fmt::format("{:.4g} of the time", factor));
  }
  if (curve.per_row > Time::zero()) parameters.add("per row", to_text(curve.per_row));
  for (const hardware::MeasuringOverhead& one : curve.overheads) {
    const std::string name = one.series.empty() ? "overhead" : "overhead of " + one.series;
    parameters.add(name, fmt::format("{}, floor {}", to_text(one.overhead), to_text(one.floor)));
  }
  return summary;
}

std::string hull_text(const CurveReport& report) {
  std::string text;
  for (const CurveReport::Range& range : report.hull) {
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
                           interval_text(report.interval), percent(report.coverage, 0), hull_text(report)});
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
  Json hull = Json::object();
  for (const CurveReport::Range& range : report.hull) hull[range.feature] = {range.least, range.most};
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
          {"hull", std::move(hull)},
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
  for (const hardware::ProductCurve& curve : profile.products) {
    curves.push_back({calib::name_of_curve(curve), &curve.report, {}});
    Parameters(curves.back()).add_product(curve);
  }
  for (const hardware::ConvolutionCurve& curve : profile.convolutions) {
    curves.push_back({calib::name_of_curve(curve), &curve.report, {}});
    Parameters parameters(curves.back());
    parameters.add_product(curve.product);
    if (curve.winograd2.efficiency > 0) {
      parameters.add("Winograd 2", significant(curve.winograd2.efficiency) + " of the peak");
    }
    for (const auto& tile : curve.winograd4.tiles) parameters.add_tile("Winograd 4, tile", tile);
  }
  for (const hardware::SweepCurve& curve : profile.sweeps) curves.push_back(summary_of(curve));
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
