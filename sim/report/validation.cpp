#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>

#include "ddlsim/report/views.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "pictures.h"
#include "table.h"

namespace ddlsim::report {
namespace {

constexpr std::size_t kShownReasons = 12;
constexpr std::size_t kShownRows = 3;

std::vector<std::string> row_of(const answer::ValidationSet& set, bool anchored) {
  const answer::ErrorSummary& errors = set.errors;
  std::vector<std::string> row{set.name, to_text(set.rows), to_text(errors.cases),
                               to_text(static_cast<std::int64_t>(set.unsupported.size()))};
  if (errors.cases == 0) {
    row.insert(row.end(), {"-", "-", "-", "-", "-", "-", "-", "-", "-"});
  } else {
    row.insert(row.end(), {percent(errors.mean), percent(errors.median), percent(set.median_time_bias),
                           percent(errors.p90), percent(errors.worst), percent(set.coverage_90, 0), to_text(set.slower),
                           to_text(set.faster), fmt::format("{:.2f}", set.interval_ratio)});
  }
  const auto mean = [](const std::optional<answer::ErrorSummary>& law) { return law ? percent(law->mean) : "-"; };
  row.push_back(mean(set.perfect));
  if (anchored) row.insert(row.end(), {mean(set.amdahl), mean(set.power_law)});
  return row;
}

Table summary_table(const answer::Validation& validation) {
  std::vector<std::string> columns{"set",    "rows",   "predicted", "unsupported",    "mean error",
                                   "median", "bias",   "p90",       "worst",          "in 90 %",
                                   "slower", "faster", "high/low",  "perfect scaling"};
  const bool anchored = validation.anchor != "none";
  if (anchored) columns.insert(columns.end(), {"Amdahl", "power law"});
  Table table(columns);
  for (const answer::ValidationSet& set : validation.sets) table.add(row_of(set, anchored));
  if (validation.sets.size() > 1) table.add(row_of(validation.all, anchored));
  for (const answer::ValidationSet& kind : validation.kinds) table.add(row_of(kind, anchored));
  return table;
}

/// In the order of the rows; what has no prediction has its reason in the last column.
Table case_table(std::span<const answer::CaseResult> cases, std::span<const answer::UnsupportedCase> unsupported) {
  Table table({"id", "group", "metric", "measured", "predicted", "error", "interval_90_low", "interval_90_high",
               "provenance", "memory_error", "unsupported"});
  table.numbers_from(3);
  auto next = unsupported.begin();
  for (std::size_t i = 0; i <= cases.size(); ++i) {
    for (; next != unsupported.end() && next->after == i; ++next) {
      table.add(
          {next->id, next->group, next->metric, significant(next->measured, 6), "", "", "", "", "", "", next->why});
    }
    if (i == cases.size()) break;
    const answer::CaseResult& one = cases[i];
    table.add({one.id, one.group, one.metric, significant(one.measured, 6), significant(one.predicted, 6),
               fmt::format("{:.4f}", one.error), significant(one.interval_90.first, 6),
               significant(one.interval_90.second, 6), std::string(to_string(one.provenance)),
               one.memory_error ? fmt::format("{:.4f}", *one.memory_error) : "", ""});
  }
  return table;
}

/// The reasons for unsupported rows, most frequent first.
std::string reasons(const answer::ValidationSet& all) {
  std::map<std::string, std::pair<std::int64_t, std::string>> counted;
  for (const answer::UnsupportedCase& one : all.unsupported) {
    auto& [count, example] = counted[one.why];
    if (count++ == 0) example = one.id;
  }
  std::vector<std::pair<std::int64_t, std::string>> lines;
  for (const auto& [why, seen] : counted) {
    lines.emplace_back(seen.first, fmt::format("{} rows (first: {}): {}\n", seen.first, seen.second, why));
  }
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), kShownReasons); ++i) text += "  unsupported: " + lines[i].second;
  if (lines.size() > kShownReasons) text += fmt::format("  and {} more reasons\n", lines.size() - kShownReasons);
  return text;
}

std::vector<std::string> without_memory(const answer::ValidationSet& set) {
  std::vector<std::string> ids;
  for (const answer::CaseResult& one : set.cases) {
    if (!one.fits) ids.push_back(one.id);
  }
  return ids;
}

/// Rows that ran, and do not fit by the model: one of both is wrong. Empty without any.
std::string does_not_fit(const answer::ValidationSet& all) {
  const std::vector<std::string> ids = without_memory(all);
  if (ids.empty()) return {};
  const std::span<const std::string> some(ids.data(), std::min(ids.size(), kShownRows));
  return fmt::format("\n{} in memory by prediction {} all the same: {}{}\n",
                     ids.size() == 1 ? "1 row that does not fit" : fmt::format("{} rows that do not fit", ids.size()),
                     ids.size() == 1 ? "counts" : "count", join(some), ids.size() > some.size() ? ", ..." : "");
}

/// Rows with words that counted for nothing, some of them with what. Empty without any.
std::string unread_words(const answer::ValidationSet& all) {
  std::string text;
  std::size_t rows = 0;
  for (const answer::CaseResult& one : all.cases) {
    if (one.unread.empty()) continue;
    if (++rows > kShownRows) continue;
    for (const std::string& what : one.unread) text += fmt::format("  {}: {}\n", one.id, what);
  }
  if (rows == 0) return {};
  return fmt::format("\nwords that counted for nothing, in {} row{}:\n{}{}", rows, rows == 1 ? "" : "s", text,
                     rows > kShownRows ? "  ...\n" : "");
}

/// Rows that leave conditions open, some of them with which. Empty without any.
std::string open_conditions(const answer::ValidationSet& all) {
  std::string text;
  std::size_t rows = 0;
  for (const answer::CaseResult& one : all.cases) {
    if (one.open.empty()) continue;
    if (++rows > kShownRows) continue;
    for (const std::string& what : one.open) text += fmt::format("  {}: {}\n", one.id, what);
  }
  if (rows == 0) return {};
  return fmt::format("\nconditions that nobody states, in {} row{}:\n{}{}", rows, rows == 1 ? "" : "s", text,
                     rows > kShownRows ? "  ...\n" : "");
}

/// Sets whose sources printed memory, or several plans of a job.
std::string memory_and_regret(const answer::Validation& validation) {
  std::string text;
  for (const answer::ValidationSet& set : validation.sets) {
    if (set.memory) {
      text += fmt::format("memory per GPU, {}: {} rows, mean error {}, worst {}\n", set.name, set.memory->cases,
                          percent(set.memory->mean), percent(set.memory->worst));
    }
    if (set.regret) {
      text += fmt::format("choosing by prediction, {}: {} jobs, {} slower than their best plan, at most {}\n", set.name,
                          set.regret->jobs, percent(set.regret->mean), percent(set.regret->worst));
    }
  }
  return text.empty() ? text : "\n" + text;
}

Json errors_json(const answer::ErrorSummary& errors) {
  return {{"cases", errors.cases},
          {"mape", errors.mean},
          {"median_ape", errors.median},
          {"p90_ape", errors.p90},
          {"max_ape", errors.worst}};
}

Json set_json(const answer::ValidationSet& set) {
  Json json{
      {"rows", set.rows}, {"anchors", set.anchors}, {"not_asked", set.not_asked}, {"predicted", set.errors.cases}};
  Json unsupported = Json::array();
  for (const answer::UnsupportedCase& one : set.unsupported) unsupported.push_back({{"id", one.id}, {"why", one.why}});
  json["unsupported"] = std::move(unsupported);
  json["does_not_fit"] = without_memory(set).size();
  json["unread"] = Json::array();
  for (const answer::CaseResult& one : set.cases) {
    for (const std::string& what : one.unread) json["unread"].push_back({{"id", one.id}, {"what", what}});
  }
  const bool any = set.errors.cases > 0;
  const auto number = [&](double value) { return any ? Json(value) : Json(nullptr); };
  json["mape"] = number(set.errors.mean);
  json["median_ape"] = number(set.errors.median);
  json["p90_ape"] = number(set.errors.p90);
  json["max_ape"] = number(set.errors.worst);
  json["coverage_90"] = number(set.coverage_90);
  json["misses"] = {{"slower", set.slower}, {"faster", set.faster}};
  json["interval_ratio"] = number(set.interval_ratio);
  json["time_ratio_p5"] = number(set.time_ratio_90.first);
  json["time_ratio_p95"] = number(set.time_ratio_90.second);
  json["time_bias"] = number(set.time_bias);
  json["median_time_bias"] = number(set.median_time_bias);
  if (set.memory) {
    json["memory"] = {{"rows", set.memory->cases}, {"mape", set.memory->mean}, {"max_ape", set.memory->worst}};
  }
  if (set.regret) {
    json["regret"] = {{"jobs", set.regret->jobs}, {"mean", set.regret->mean}, {"max", set.regret->worst}};
  }
  const auto law = [](const std::optional<answer::ErrorSummary>& errors) {
    return errors ? errors_json(*errors) : Json(nullptr);
  };
  json["perfect_scaling"] = law(set.perfect);
  json["amdahl"] = law(set.amdahl);
  json["power_law"] = law(set.power_law);
  return json;
}

Json case_json(const answer::CaseResult& one) {
  Json json{{"id", one.id},
            {"metric", one.metric},
            {"measured", one.measured},
            {"predicted", one.predicted},
            {"error", one.error},
            {"interval_90", Json::array({one.interval_90.first, one.interval_90.second})},
            {"provenance", to_string(one.provenance)}};
  if (one.memory_error) json["memory_error"] = *one.memory_error;
  if (!one.fits) json["memory_times"] = one.memory_times;
  if (!one.open.empty()) json["open"] = one.open;
  return json;
}

Json validation_json(const answer::Validation& validation) {
  Json json{{"schema", "ddlsim/validate/1"}, {"anchor", validation.anchor}};
  json.update(set_json(validation.all));
  const auto named = [](const std::vector<answer::ValidationSet>& sets) {
    Json all = Json::array();
    for (const answer::ValidationSet& set : sets) {
      Json one{{"name", set.name}};
      one.update(set_json(set));
      all.push_back(std::move(one));
    }
    return all;
  };
  json["sets"] = named(validation.sets);
  if (!validation.kinds.empty()) json["kinds"] = named(validation.kinds);
  Json cases = Json::array();
  for (const answer::CaseResult& one : validation.all.cases) cases.push_back(case_json(one));
  json["cases"] = std::move(cases);
  return json;
}

/// What a prediction had to go by.
std::string_view given_by(std::string_view anchor) {
  if (anchor == "first") return "each group's smallest row, which stands for measured GPU speed";
  if (anchor == "node") return "each group's rows within one server";
  if (anchor == "rest") return "all of each group's rows but those with the most GPUs";
  return "specifications and calibration alone";
}

/// The answer first.
std::string headline(const answer::Validation& validation) {
  const answer::ValidationSet& all = validation.all;
  if (all.errors.cases == 0) return "nothing was predicted\n\n";
  return fmt::format("{} cases, anchor {}: mean error {}, median {}; {} of them inside their 90 % interval\n\n",
                     all.errors.cases, validation.anchor, percent(all.errors.mean), percent(all.errors.median),
                     percent(all.coverage_90));
}

}  // namespace

std::string render(const answer::Validation& validation, Format format) {
  if (is_drawn(format)) {
    return drawn(format, pictures_of(validation), headline(validation) + render(validation, Format::kMd));
  }
  switch (format) {
    case Format::kJson: return dump(validation_json(validation));
    case Format::kCsv: return case_table(validation.all.cases, validation.all.unsupported).render(format);
    case Format::kMd:
      return summary_table(validation).render(format) + does_not_fit(validation.all) + unread_words(validation.all);
    case Format::kText:
    case Format::kHtml:
    case Format::kSvg: break;
  }
  std::string text = fmt::format("Predicted from {}.\n\n", given_by(validation.anchor));
  text += summary_table(validation).render(format);
  if (validation.all.errors.cases > 0) {
    text += fmt::format(
        "\nmeasured / predicted time: 5 % of the cases below {:.2f}, 5 % above {:.2f}\n"
        "bias: of the median predicted time; slower, faster: cases beyond their 90 % interval; high/low: its ends, "
        "median\n",
        validation.all.time_ratio_90.first, validation.all.time_ratio_90.second);
  }
  text += does_not_fit(validation.all) + unread_words(validation.all) + open_conditions(validation.all) +
          memory_and_regret(validation);
  if (!validation.all.unsupported.empty()) text += "\n" + reasons(validation.all);
  return text;
}

std::string render(const answer::CaseReading& reading, Format format) {
  const answer::CaseResult& result = reading.result;
  if (format == Format::kCsv) return case_table({&result, 1}, {}).render(format);
  if (format == Format::kJson) {
    Json json{{"schema", "ddlsim/validate-row/1"}, {"case", case_json(result)}, {"title", reading.title}};
    json["settings"] = Json::object();
    for (const auto& [path, value] : reading.settings) json["settings"][path] = value;
    json["prediction"] = reading.prediction ? to_json(*reading.prediction) : Json(nullptr);
    return dump(json);
  }
  const auto [low, high] = result.interval_90;
  const bool inside = low <= result.measured && result.measured <= high;
  std::string text = fmt::format("{}: {} {} predicted, {} measured: {}{} off, {} the 90 % interval of {} to {}\n\n",
                                 result.id, significant(result.predicted, 4), result.metric,
                                 significant(result.measured, 4), result.error < 0 ? "" : "+", percent(result.error),
                                 inside ? "inside" : "outside", significant(low, 4), significant(high, 4));
  Table settings({"taken to mean", "value"});
  settings.numbers_from(2);
  for (const auto& [path, value] : reading.settings) settings.add({path, value});
  text += settings.render(format);
  for (const std::string& what : result.unread) text += "note: " + what + "\n";
  for (const std::string& what : result.open) text += "note: " + what + "\n";
  if (reading.prediction) text += "\n" + render(*reading.prediction, reading.title, format);
  return text;
}

}  // namespace ddlsim::report
