#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "ddlsim/report/views.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "pictures.h"
#include "table.h"

namespace ddlsim::report {
namespace {

using answer::Stall;
using answer::Stalls;
using answer::StallTimes;

constexpr int kBar = 30;  // characters of 100 %

struct StallRow {
  std::string_view name;
  std::optional<Stall> Stalls::*stall;
  std::string_view what;
};

constexpr auto kStallRows = std::to_array<StallRow>({
    {"interconnect", &Stalls::interconnect, "one server's GPUs against one GPU"},
    {"network", &Stalls::network, "all servers against one"},
    {"prep", &Stalls::prep, "a data set in memory against made-up batches"},
    {"fetch", &Stalls::fetch, "a data set on storage against one in memory"},
});

/// Its five names, without the others that mean them.
constexpr auto kRunNames = std::span(answer::kStallRuns).first<answer::kStallRunCount>();

std::string bar(double percent) {
  const int filled = static_cast<int>(std::lround(std::clamp(percent, 0.0, 100.0) / 100 * kBar));
  const auto count = [](int n) { return static_cast<std::size_t>(n); };
  return std::string(count(filled), '#') + std::string(count(kBar - filled), '.') + (percent > 100 ? "+" : ".");
}

std::string percent_text(const std::optional<Stall>& stall) {
  return stall ? fmt::format("{:.1f} %", stall->percent) : std::string("-");
}

Json stall_json(const std::optional<Stall>& stall) {
  if (!stall) return nullptr;
  return {{"time_s", stall->time.in(seconds)}, {"percent", stall->percent}};
}

Json stalls_json(const Stalls& stalls) {
  Json json = Json::object();
  for (const StallRow& row : kStallRows) json[std::string(row.name)] = stall_json(stalls.*row.stall);
  return json;
}

Json report_json(const answer::StallReport& report) {
  Json json{{"schema", "ddlsim/stalls/1"}, {"title", report.title}, {"stalls", stalls_json(report.stalls)}};
  json["runs"] = Json::object();
  for (const auto& [name, run] : kRunNames) {
    const auto& step = report.times.at(run);
    const auto& rate = report.samples_per_second[static_cast<std::size_t>(run)];
    json["runs"][std::string(name)] =
        step ? Json{{"step_time_s", step->in(seconds)}, {"throughput_samples_per_s", *rate}} : Json(nullptr);
  }
  json["one_server"] = report.one_server;
  json["steps_per_epoch"] = report.steps_of_epoch ? Json(*report.steps_of_epoch) : Json(nullptr);
  if (report.measured) {
    Json runs = Json::object();
    for (const auto& [name, run] : kRunNames) {
      const auto& step = report.measured->at(run);
      runs[std::string(name)] = step ? Json{{"step_time_s", step->in(seconds)}} : Json(nullptr);
    }
    json["measured"] = {{"stalls", stalls_json(*report.measured_stalls)}, {"runs", runs}};
  }
  json["notes"] = report.notes;
  return json;
}

std::string number_or_nothing(const std::optional<Stall>& stall, bool time) {
  if (!stall) return "";
  return fmt::format("{}", time ? stall->time.in(seconds) : stall->percent);
}

Table stall_table(const answer::StallReport& report, Format format) {
  const bool csv = format == Format::kCsv;
  std::vector<std::string> header{"stall", csv ? "time_s" : "of a step", csv ? "percent" : "share"};
  if (report.steps_of_epoch) header.emplace_back(csv ? "epoch_s" : "of an epoch");
  if (report.measured) header.emplace_back(csv ? "measured_percent" : "measured");
  if (!csv) header.emplace_back("");
  Table table(std::move(header));
  for (const StallRow& row : kStallRows) {
    const auto& stall = report.stalls.*row.stall;
    std::vector<std::string> cells{std::string(row.name)};
    cells.push_back(csv ? number_or_nothing(stall, true) : stall ? to_text(stall->time) : "-");
    cells.push_back(csv ? number_or_nothing(stall, false) : percent_text(stall));
    if (report.steps_of_epoch) {
      const Time whole = stall ? stall->time * *report.steps_of_epoch : Time::zero();
      cells.push_back(!stall ? (csv ? "" : "-") : csv ? fmt::format("{}", whole.in(seconds)) : to_text(whole));
    }
    if (report.measured) {
      const auto& measured = *report.measured_stalls.*row.stall;
      cells.push_back(csv ? number_or_nothing(measured, false) : percent_text(measured));
    }
    if (!csv) cells.push_back(stall ? bar(stall->percent) : std::string());
    table.add(std::move(cells));
  }
  return table;
}

Table run_table(const answer::StallReport& report) {
  Table table(report.measured ? std::vector<std::string>{"run", "step", plural(report.sample, "/s"), "measured step"}
                              : std::vector<std::string>{"run", "step", plural(report.sample, "/s")});
  for (const auto& [name, run] : kRunNames) {
    const auto& step = report.times.at(run);
    if (!step) continue;
    std::vector<std::string> cells{std::string(name), to_text(*step),
                                   significant(*report.samples_per_second[static_cast<std::size_t>(run)])};
    if (report.measured) {
      const auto& measured = report.measured->at(run);
      cells.push_back(measured ? to_text(*measured) : "-");
    }
    table.add(std::move(cells));
  }
  return table;
}

/// The longest of them first in words.
std::string headline(const Stalls& stalls) {
  const StallRow* longest = nullptr;
  for (const StallRow& row : kStallRows) {
    const auto& stall = stalls.*row.stall;
    if (!stall || stall->time <= Time::zero()) continue;
    if (longest == nullptr || (stalls.*longest->stall)->time < stall->time) longest = &row;
  }
  if (longest == nullptr) return "no GPU waits\n\n";
  const Stall& stall = *(stalls.*longest->stall);
  return fmt::format("the longest stall: {}, {} of a step ({:.1f} %): {}\n\n", longest->name, to_text(stall.time),
                     stall.percent, longest->what);
}

}  // namespace

std::string render(const answer::StallReport& report, Format format) {
  if (is_drawn(format)) return drawn(format, pictures_of(report), render(report, Format::kMd));
  if (format == Format::kJson) return dump(report_json(report));
  if (format == Format::kCsv) return stall_table(report, format).render(format);
  std::string text = headline(report.stalls) + report.title + "\n\n";
  text += stall_table(report, format).render(format) + "\n" + run_table(report).render(format) + "\n";
  text += "one server: " + report.one_server + "\n";
  for (const std::string& note : report.notes) text += "note: " + note + "\n";
  return text;
}

std::string render(const answer::StallStudy& study, Format format) {
  if (is_drawn(format)) return drawn(format, pictures_of(study), render(study, Format::kMd));
  if (format == Format::kJson) {
    Json json{{"schema", "ddlsim/stalls-study/1"}, {"title", study.title}, {"models", Json::array()}};
    for (const answer::StudiedModel& one : study.models) {
      json["models"].push_back({{"model", one.model},
                                {"parameters", one.parameters},
                                {"gradient_tensors", one.tensors},
                                {"one_gpu_step_time_s", one.one_gpu.in(seconds)},
                                {"stalls", stalls_json(one.stalls)}});
    }
    json["notes"] = study.notes;
    return dump(json);
  }
  const bool csv = format == Format::kCsv;
  Table table(csv ? std::vector<std::string>{"model", "parameters", "gradient_tensors", "one_gpu_s", "interconnect_s",
                                             "interconnect_percent", "network_s", "network_percent"}
                  : std::vector<std::string>{"model", "parameters", "tensors", "one GPU", "interconnect", "share",
                                             "network", "share", ""});
  for (const answer::StudiedModel& one : study.models) {
    const Stalls& stalls = one.stalls;
    std::vector<std::string> cells{one.model, csv ? std::to_string(one.parameters) : to_text(one.parameters),
                                   std::to_string(one.tensors)};
    cells.push_back(csv ? fmt::format("{}", one.one_gpu.in(seconds)) : to_text(one.one_gpu));
    for (const auto& stall : {stalls.interconnect, stalls.network}) {
      cells.push_back(csv ? number_or_nothing(stall, true) : stall ? to_text(stall->time) : "-");
      cells.push_back(csv ? number_or_nothing(stall, false) : percent_text(stall));
    }
    if (!csv) cells.push_back(stalls.interconnect ? bar(stalls.interconnect->percent) : std::string());
    table.add(std::move(cells));
  }
  if (csv) return table.render(format);
  std::string text = "stalls against depth and gradients: " + study.title + "\n\n" + table.render(format) + "\n";
  for (const std::string& note : study.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace ddlsim::report
