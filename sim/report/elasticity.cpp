#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ddlsim/report/questions.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "table.h"

namespace ddlsim::report {
namespace {

using answer::Sensitivity;

constexpr int kTornado = 40;  // characters of the widest bar

Json sensitivity_json(const Sensitivity& all) {
  Json json{{"schema", "ddlsim/elasticities/1"}, {"title", all.title}, {"baseline", to_json(all.baseline)}};
  json["elasticities"] = Json::array();
  for (const answer::Elasticity& one : all.elasticities) {
    json["elasticities"].push_back({{"setting", one.setting},
                                    {"role", one.role},
                                    {"value", one.value},
                                    {"unit", one.unit},
                                    {"elasticity", one.elasticity},
                                    {"step_halved_s", one.halved.in(seconds)},
                                    {"step_doubled_s", one.doubled.in(seconds)}});
  }
  json["own_constants"] = all.own_constants;
  json["without_effect"] = all.without_effect;
  json["tornado"] = Json::array();
  for (const answer::Swing& one : all.swings) {
    json["tornado"].push_back({{"name", one.name},
                               {"low", one.low},
                               {"high", one.high},
                               {"step_low_s", one.step_low.in(seconds)},
                               {"step_high_s", one.step_high.in(seconds)},
                               {"measured", one.measured},
                               {"spread", one.spread}});
  }
  return json;
}

std::string sensitivity_csv(const Sensitivity& all) {
  Table table({"kind", "name", "value", "unit", "elasticity", "low", "high", "step_low_s", "step_high_s", "spread"});
  for (const answer::Elasticity& one : all.elasticities) {
    table.add({one.role, one.setting, fmt::format("{}", one.value), one.unit, fmt::format("{}", one.elasticity),
               fmt::format("{}", one.value / 2), fmt::format("{}", one.value * 2),
               fmt::format("{}", one.halved.in(seconds)), fmt::format("{}", one.doubled.in(seconds)),
               "half and twice"});
  }
  for (const answer::Swing& one : all.swings) {
    const auto end = [](const std::optional<double>& value, const std::string& words) {
      return value ? fmt::format("{}", *value) : words;
    };
    table.add({"constant", one.name, "", one.unit, "", end(one.low_value, one.low), end(one.high_value, one.high),
               fmt::format("{}", one.step_low.in(seconds)), fmt::format("{}", one.step_high.in(seconds)), one.spread});
  }
  return table.render(Format::kCsv);
}

/// What it is wide, around where the step is: "....####|##.."
std::string tornado_bar(const answer::Swing& one, Time step, Time widest) {
  const Time low = min(one.step_low, one.step_high);
  const Time high = max(one.step_low, one.step_high);
  const auto marks = [&](Time time) {
    return static_cast<std::size_t>(std::lround(std::max(time / widest, 0.0) * kTornado / 2));
  };
  const std::size_t left = std::min<std::size_t>(marks(step - low), kTornado / 2);
  const std::size_t right = std::min<std::size_t>(marks(high - step), kTornado / 2);
  return std::string(kTornado / 2 - left, '.') + std::string(left, '#') + "|" + std::string(right, '#') +
         std::string(kTornado / 2 - right, '.');
}

std::string headline_of(const Sensitivity& all) {
  std::string text = "step " + to_text(all.baseline.step_time);
  if (!all.elasticities.empty()) {
    const answer::Elasticity& first = all.elasticities.front();
    text += fmt::format("; 1 % more of {} changes it by {} %", first.setting, significant(first.elasticity, 3));
  }
  if (!all.swings.empty()) {
    const answer::Swing& first = all.swings.front();
    text += fmt::format("; most depends on: {} ({} to {})", first.name, to_text(min(first.step_low, first.step_high)),
                        to_text(max(first.step_low, first.step_high)));
  }
  return text + "\n\n";
}

Table swing_table(const Sensitivity& all, bool bars) {
  std::vector<std::string> header{"constant", "rests on", "from", "to", "step", "step"};
  if (bars) header.emplace_back("");
  Table table(std::move(header));
  table.numbers_from(2);
  const Time step = all.baseline.step_time;
  Time widest = Time::zero();
  for (const answer::Swing& one : all.swings) {
    widest = max(widest, max(step - min(one.step_low, one.step_high), max(one.step_low, one.step_high) - step));
  }
  for (const answer::Swing& one : all.swings) {
    std::vector<std::string> cells{
        one.name, one.spread, one.low, one.high, to_text(one.step_low), to_text(one.step_high)};
    if (bars) cells.push_back(tornado_bar(one, step, widest));
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace

std::string render(const Sensitivity& all, Format format) {
  if (format == Format::kJson) return dump(sensitivity_json(all));
  if (format == Format::kCsv) return sensitivity_csv(all);
  std::string text = headline_of(all) + all.title + "\n\n";
  Table table({"setting", "", "now", "elasticity", "step with half", "step with twice"});
  table.numbers_from(2);
  for (const answer::Elasticity& one : all.elasticities) {
    table.add({one.setting, one.role, one.now, fmt::format("{:.4f}", one.elasticity), to_text(one.halved),
               to_text(one.doubled)});
  }
  table.add({"constants of the model", "", "", fmt::format("{:.4f}", all.own_constants), "", ""});
  text += table.render(format) + "\n";
  text += "rates less fixed times, and the model's own constants: -1 (whatif/elasticity.h)\n";
  if (!all.without_effect.empty()) text += "without effect: " + join(all.without_effect) + "\n";
  text += "\n" + swing_table(all, format == Format::kText).render(format) + "\n";
  for (const std::string& note : all.baseline.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace ddlsim::report
