#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/report/views.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "pictures.h"
#include "table.h"
#include "words.h"

namespace ddlsim::report {
namespace {

using answer::Curve;
using answer::CurvePoint;

/// Whether points differ in their GPUs: only those scale.
bool scales(const Curve& curve) {
  if (curve.setting == "nodes" || curve.setting == "gpus_per_node") return true;
  const std::int64_t first = curve.points.front().prediction.gpus;
  return std::any_of(curve.points.begin(), curve.points.end(),
                     [&](const CurvePoint& point) { return point.prediction.gpus != first; });
}

/// What so many GPUs would do if each did what each of the first point's does.
double perfect(const Curve& curve, const CurvePoint& point) {
  const answer::Prediction& first = curve.points.front().prediction;
  return first.throughput_samples_per_second / static_cast<double>(first.gpus) *
         static_cast<double>(point.prediction.gpus);
}

Json json_of(const Curve& curve) {
  Json json{{"schema", "ddlsim/curve/1"}, {"title", curve.title}, {"setting", curve.setting}};
  json["points"] = Json::array();
  for (const CurvePoint& point : curve.points) {
    json["points"].push_back({{"value", point.value},
                              {"perfect_throughput_samples_per_s", perfect(curve, point)},
                              {"prediction", to_json(point.prediction)}});
  }
  json["gaps"] = Json::array();
  for (const answer::CurveGap& gap : curve.gaps) json["gaps"].push_back({{"value", gap.value}, {"why", gap.why}});
  return json;
}

std::string value_of(const CurvePoint& point) {
  return point.prediction.fits == false ? point.value + " (does not fit)" : point.value;
}

std::string csv_of(const Curve& curve) {
  constexpr auto kColumns = std::to_array<std::string_view>(
      {"", "gpus", "step_time_s", "step_time_low_s", "step_time_high_s", "throughput_samples_per_s",
       "perfect_throughput_samples_per_s", "scaling_efficiency", "bottleneck", "memory_bytes_per_gpu", "fits", "why"});
  std::vector<std::string> head(kColumns.begin(), kColumns.end());
  head.front() = curve.setting;
  Table table(head);
  const auto number = [](double value) { return fmt::format("{}", value); };
  for (const CurvePoint& point : curve.points) {
    const answer::Prediction& p = point.prediction;
    table.add({point.value, std::to_string(p.gpus), number(p.step_time.in(seconds)),
               number(p.interval_90.first.in(seconds)), number(p.interval_90.second.in(seconds)),
               number(p.throughput_samples_per_second), number(perfect(curve, point)), number(p.scaling_efficiency),
               p.bottleneck, number(p.memory_per_gpu.in(bytes)), p.fits ? (*p.fits ? "true" : "false") : "", ""});
  }
  for (const answer::CurveGap& gap : curve.gaps) {
    std::vector<std::string> row(kColumns.size());
    row.front() = gap.value;
    row.back() = gap.why;
    table.add(std::move(row));
  }
  return table.render(Format::kCsv);
}

Table table_of(const Curve& curve) {
  const bool scaling = scales(curve);
  const bool tokens = curve.points.front().prediction.tokens_per_sample.has_value();
  std::vector<std::string> head{curve.setting, "GPUs", "step time", "90 % interval", "samples/s"};
  if (tokens) head.emplace_back("tokens/s");
  if (scaling) head.emplace_back("of perfect");
  head.emplace_back("bound by");
  Table table(head);
  for (const CurvePoint& point : curve.points) {
    const answer::Prediction& p = point.prediction;
    std::vector<std::string> row{value_of(point), to_text(p.gpus), to_text(p.step_time),
                                 to_text(p.interval_90.first) + " to " + to_text(p.interval_90.second),
                                 significant(p.throughput_samples_per_second, 4)};
    if (tokens) row.push_back(significant(p.tokens_per_second().value_or(0), 4));
    if (scaling) row.push_back(percent(p.throughput_samples_per_second / perfect(curve, point)));
    row.push_back(bottleneck_text(p));
    table.add(std::move(row));
  }
  return table;
}

/// The answer first: the last point, and what it has of perfect scaling.
std::string headline(const Curve& curve) {
  const CurvePoint& last = curve.points.back();
  const answer::Prediction& p = last.prediction;
  const auto tokens = p.tokens_per_second();
  std::string text =
      fmt::format("{} = {}: {} {}{}", curve.setting, value_of(last), significant(p.throughput_samples_per_second, 4),
                  plural(p.sample, "/s"), tokens ? fmt::format(" ({} tokens/s)", significant(*tokens, 4)) : "");
  if (scales(curve)) {
    text += fmt::format(", {} of perfect scaling from {} = {}",
                        percent(p.throughput_samples_per_second / perfect(curve, last)), curve.setting,
                        curve.points.front().value);
  } else {
    text += fmt::format(", a step in {}", to_text(p.step_time));
  }
  return text + fmt::format("; bound by {}\n", bottleneck_text(p));
}

}  // namespace

Chart chart_of(const Curve& curve) {
  const auto rate = [](double value) { return significant(value, 3); };
  Chart chart{.title = "Throughput over " + curve.setting,
              .x = {.name = curve.setting, .text = {}},
              .y = {.name = plural(curve.points.front().prediction.sample, "/s"), .text = rate}};
  std::vector<std::pair<double, std::string>> names;
  Series model{.name = "predicted, with its 90 % interval", .band = true};
  Series ideal{.name = "perfect scaling", .ink = Ink::kGrey, .mark = Mark::kDashes};
  for (const CurvePoint& point : curve.points) {
    const answer::Prediction& p = point.prediction;
    const double throughput = p.throughput_samples_per_second;
    model.points.push_back(
        {.x = point.x,
         .y = throughput,
         .low = throughput * (p.step_time / p.interval_90.second),
         .high = throughput * (p.step_time / p.interval_90.first),
         .text = fmt::format("{} = {}: step {}, {} {}", curve.setting, point.value, to_text(p.step_time),
                             significant(throughput, 4), plural(p.sample, "/s"))});
    ideal.points.push_back({.x = point.x, .y = perfect(curve, point)});
    chart.x.ticks.push_back(point.x);
    names.emplace_back(point.x, point.value);
  }
  chart.x.logarithmic = curve.numbers && curve.points.back().x > curve.points.front().x * 7.9;
  chart.x.text = [names](double value) {
    for (const auto& [x, name] : names) {
      if (x == value) return name;
    }
    return significant(value, 3);
  };
  chart.series = {std::move(model)};
  if (scales(curve)) chart.series.push_back(std::move(ideal));
  return chart;
}

std::string render(const Curve& curve, Format format) {
  if (is_drawn(format)) return drawn(format, pictures_of(curve), render(curve, Format::kMd));
  if (format == Format::kJson) return dump(json_of(curve));
  if (format == Format::kCsv) return csv_of(curve);
  std::string text = headline(curve) + "\n" + curve.title + "\n\n" + table_of(curve).render(format);
  for (const answer::CurveGap& gap : curve.gaps) {
    text += fmt::format("no answer for {} = {}: {}\n", curve.setting, gap.value, gap.why);
  }
  if (format == Format::kText) text += "\n" + text_of(chart_of(curve), 76, 16);
  // Notes of all points, each once.
  std::vector<std::string> notes;
  for (const CurvePoint& point : curve.points) {
    for (const std::string& note : point.prediction.notes) {
      if (note == point.prediction.input.note) continue;  // its rate is of one point alone
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
    }
  }
  if (!notes.empty()) text += "\n";
  for (const std::string& note : notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace ddlsim::report
