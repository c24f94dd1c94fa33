#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/report/views.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "pictures.h"
#include "table.h"
#include "words.h"

namespace ddlsim::report {
namespace {

using answer::Recommendation;
using answer::ServerChoice;

constexpr std::size_t kShownMisses = 12;

Json json_of(const std::optional<answer::Stall>& stall) {
  if (!stall) return nullptr;
  return {{"time_s", stall->time.in(seconds)}, {"percent", stall->percent}};
}

Json json_of(const answer::Stalls& stalls) {
  return {{"interconnect", json_of(stalls.interconnect)},
          {"network", json_of(stalls.network)},
          {"prep", json_of(stalls.prep)},
          {"fetch", json_of(stalls.fetch)}};
}

/// "links 4 %, network 12 %": those above half a percent.
std::string words_of(const answer::Stalls& stalls) {
  std::string text;
  for (const auto& [name, stall] : {std::pair{"links", &stalls.interconnect},
                                    {"network", &stalls.network},
                                    {"prep", &stalls.prep},
                                    {"fetch", &stalls.fetch}}) {
    if (!*stall || (*stall)->percent < 0.5) continue;
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", name, (*stall)->percent);
  }
  return text.empty() ? "none" : text;
}

Json json_of(const ServerChoice& choice) {
  Json json{{"node", choice.node},
            {"nodes", choice.nodes},
            {"batch", choice.batch},
            {"time_s", choice.time().in(seconds)},
            {"cost_usd", choice.cost().in(dollars)},
            {"energy_j", choice.training.energy.in(joules)}};
  if (choice.training.carbon) json["co2_g"] = choice.training.carbon->in(grams);
  json["gpus"] = choice.gpus;
  json["micro_batch"] = choice.micro_batch;
  json["passes"] = choice.passes;
  json["strategy"] = choice.strategy;
  json["settings"] = Json::object();
  for (const auto& [path, value] : choice.settings) json["settings"][path] = value;
  json["price_usd_per_h"] = choice.price.in(dollars_per_hour);
  json["price_region"] = choice.price_region.empty() ? Json(nullptr) : Json(choice.price_region);
  json["price_date"] = choice.price_date.empty() ? Json(nullptr) : Json(choice.price_date);
  json["step_time_s"] = choice.step.in(seconds);
  json["steps"] = choice.training.steps;
  json["stalls"] = choice.stalls ? json_of(*choice.stalls) : Json(nullptr);
  json["probability_in_deadline"] = choice.in_deadline ? Json(*choice.in_deadline) : Json(nullptr);
  json["prediction"] = choice.prediction ? report::to_json(*choice.prediction) : Json(nullptr);
  return json;
}

Json json_of(const Recommendation& result) {
  Json json{{"schema", "ddlsim/recommend/1"}, {"title", result.title}};
  json["deadline_s"] = result.deadline ? Json(result.deadline->in(seconds)) : Json(nullptr);
  json["budget_usd"] = result.budget ? Json(result.budget->in(dollars)) : Json(nullptr);
  json["compared"] = result.compared;
  json["cheapest"] = json_of(result.choices[result.cheapest]);
  json["fastest"] = json_of(result.choices[result.fastest]);
  json["pareto"] = Json::array();
  for (const std::size_t i : result.pareto) json["pareto"].push_back(json_of(result.choices[i]));
  json["choices"] = Json::array();
  for (const ServerChoice& choice : result.choices) json["choices"].push_back(json_of(choice));
  json["infeasible"] = Json::array();
  for (const answer::NoChoice& none : result.infeasible) {
    json["infeasible"].push_back({{"node", none.node}, {"why", none.why}});
  }
  json["would_help"] = result.would_help;
  json["notes"] = result.notes;
  return json;
}

/// "nodes=4; strategy=ps"
std::string settings_of(const ServerChoice& choice) {
  std::string text;
  for (const auto& [path, value] : choice.settings) {
    text += fmt::format("{}{}={}", text.empty() ? "" : "; ", path, value);
  }
  return text;
}

/// SI units, every choice.
std::string csv_of(const Recommendation& result) {
  Table table({"node", "nodes", "gpus", "batch", "micro_batch", "strategy", "price_usd_per_h", "price_region",
               "price_date", "step_time_s", "steps", "time_s", "cost_usd", "energy_j", "co2_g", "pareto", "settings"});
  const auto number = [](double value) { return fmt::format("{}", value); };
  for (std::size_t i = 0; i < result.choices.size(); ++i) {
    const ServerChoice& one = result.choices[i];
    const bool front = std::find(result.pareto.begin(), result.pareto.end(), i) != result.pareto.end();
    table.add({one.node, std::to_string(one.nodes), std::to_string(one.gpus), std::to_string(one.batch),
               std::to_string(one.micro_batch), one.strategy, number(one.price.in(dollars_per_hour)), one.price_region,
               one.price_date, number(one.step.in(seconds)), std::to_string(one.training.steps),
               number(one.time().in(seconds)), number(one.cost().in(dollars)), number(one.training.energy.in(joules)),
               one.training.carbon ? number(one.training.carbon->in(grams)) : "", front ? "true" : "false",
               settings_of(one)});
  }
  return table.render(Format::kCsv);
}

/// "us-east-1, 2026-01-21"; of a list's "us-east-1, as listed"; "stated".
std::string origin_of_price(const ServerChoice& one) {
  if (one.price_region.empty() && one.price_date.empty()) return "stated";
  return fmt::format("{}, {}", one.price_region, one.price_date.empty() ? "as listed" : one.price_date);
}

std::string line_of(const ServerChoice& one) {
  const std::string sure = one.in_deadline ? fmt::format(", in time with {:.0f} %", 100 * *one.in_deadline) : "";
  return fmt::format("{} x {} for {} in {}{}", one.nodes, one.node, to_text(one.cost()), to_text(one.time()), sure);
}

Table front_of(const Recommendation& result) {
  const bool carbon = result.choices.front().training.carbon.has_value();
  std::vector<std::string> header{"Pareto front", "GPUs",  "batch",    "micro-batch", "strategy", "step",
                                  "time",         "price", "price of", "cost",        "energy"};
  if (carbon) header.emplace_back("CO2");
  if (result.deadline) header.emplace_back("in time");
  header.emplace_back("stalls");
  header.emplace_back("bound by");
  Table table(header);
  for (const std::size_t i : result.pareto) {
    const ServerChoice& one = result.choices[i];
    std::vector<std::string> row{fmt::format("{} x {}", one.nodes, one.node),
                                 to_text(one.gpus),
                                 to_text(one.batch),
                                 to_text(one.micro_batch) + (one.passes > 1 ? fmt::format(" x {}", one.passes) : ""),
                                 one.strategy,
                                 to_text(one.step),
                                 to_text(one.time()),
                                 to_text(one.price),
                                 origin_of_price(one),
                                 to_text(one.cost()),
                                 to_text(one.training.energy)};
    if (carbon) row.push_back(to_text(*one.training.carbon));
    if (result.deadline) row.push_back(one.in_deadline ? fmt::format("{:.0f} %", 100 * *one.in_deadline) : "");
    row.push_back(one.stalls ? words_of(*one.stalls) : "");
    row.push_back(one.prediction ? bottleneck_text(*one.prediction) : "");
    table.add(row);
  }
  return table;
}

}  // namespace

std::string render(const Recommendation& result, Format format) {
  if (is_drawn(format)) return drawn(format, pictures_of(result), render(result, Format::kMd));
  if (format == Format::kJson) return dump(json_of(result));
  if (format == Format::kCsv) return csv_of(result);
  const std::string in = result.deadline ? fmt::format(" in {}", to_text(*result.deadline)) : "";
  const std::string with = result.budget ? fmt::format(" for {}", to_text(*result.budget)) : "";
  std::string text = fmt::format("cheapest{}: {}\n", in, line_of(result.choices[result.cheapest]));
  text += fmt::format("fastest{}: {}\n", with, line_of(result.choices[result.fastest]));
  text += fmt::format("\n{}; {} choice{} inside the limits of {} that run\n\n", result.title,
                      to_text(static_cast<std::int64_t>(result.choices.size())), result.choices.size() == 1 ? "" : "s",
                      to_text(result.compared));
  text += front_of(result).render(format) + "\n";
  if (!result.would_help.empty()) text += "what would change the answer:\n";
  for (const std::string& line : result.would_help) text += "  " + line + "\n";
  if (!result.infeasible.empty()) {
    Table table({"no choice", "why"});
    table.numbers_from(2);
    const std::size_t shown = std::min(result.infeasible.size(), kShownMisses);
    for (std::size_t i = 0; i < shown; ++i) table.add({result.infeasible[i].node, result.infeasible[i].why});
    text += "\n" + table.render(format);
    if (shown < result.infeasible.size()) {
      text += fmt::format("and {} more (--json)\n", result.infeasible.size() - shown);
    }
  }
  if (!result.notes.empty()) text += "\n";
  for (const std::string& note : result.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace ddlsim::report
