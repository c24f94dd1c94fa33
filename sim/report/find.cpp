#include <fmt/core.h>

#include "ddlsim/report/questions.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "table.h"
#include "words.h"

namespace ddlsim::report {
namespace {

using answer::Inverse;

Json inverse_json(const Inverse& inverse) {
  Json json{{"schema", "ddlsim/find/1"}, {"title", inverse.title},         {"variable", inverse.variable},
            {"unit", inverse.unit},      {"condition", inverse.condition}, {"metric", inverse.metric},
            {"reached", inverse.reached}};
  json["sure"] = inverse.sure ? Json(*inverse.sure) : Json(nullptr);
  json["value"] = inverse.value ? Json(*inverse.value) : Json(nullptr);
  json["probability"] = inverse.probability ? Json(*inverse.probability) : Json(nullptr);
  json["holds"] = !inverse.reached ? Json(nullptr) : Json(inverse.up ? "from" : "to");
  json["always"] = inverse.always;
  json["range"] = inverse.range ? Json{{"from", inverse.range->from}, {"to", inverse.range->to}} : Json(nullptr);
  json["settings"] = Json::object();
  for (const auto& [path, value] : inverse.settings) json["settings"][path] = value;
  json["monotone"] = inverse.monotone;
  json["holding"] = Json::array();
  for (const answer::HoldingRange& range : inverse.holding) {
    json["holding"].push_back({{"from", range.from}, {"to", range.to}});
  }
  json["over_rdma"] = nullptr;
  if (const auto& over = inverse.over_rdma) {
    json["over_rdma"] = {
        {"transport", "roce"}, {"reached", over->reached}, {"value", over->value ? Json(*over->value) : Json(nullptr)}};
  }
  json["prediction"] = to_json(inverse.prediction);
  json["limit_setting"] = inverse.limit_setting;
  json["limit"] = to_json(inverse.limit);
  json["tried"] = Json::array();
  for (const answer::Tried& one : inverse.tried) {
    json["tried"].push_back({{"value", one.value}, {"metric", one.metric}, {"fits", one.fits}, {"holds", one.holds}});
  }
  json["predictions"] = inverse.predictions;
  json["notes"] = inverse.notes;
  return json;
}

/// "time_to_train", "time_to_train, 95 % sure"
std::string metric_column(const Inverse& inverse) {
  return inverse.metric + (inverse.sure ? fmt::format(", {} % sure", significant(100 * *inverse.sure)) : "");
}

std::string tried_csv(const Inverse& inverse) {
  Table table({inverse.variable, inverse.unit.empty() ? "value" : "value_" + inverse.unit, metric_column(inverse),
               "fits", "holds"});
  for (const answer::Tried& one : inverse.tried) {
    table.add({one.setting, fmt::format("{}", one.value), fmt::format("{}", one.metric), one.fits ? "yes" : "no",
               one.holds ? "yes" : "no"});
  }
  return table.render(Format::kCsv);
}

bool is_equal(const Inverse& inverse) { return inverse.condition.find(" = ") != std::string::npos; }

/// Where it holds: "network from 31.24 Gb/s on"
std::string where_found(const Inverse& inverse) {
  if (is_equal(inverse)) return fmt::format("{} = {}", inverse.variable, inverse.setting);
  if (inverse.range) {
    return fmt::format("{} from {} to {}", inverse.variable, inverse.range->from_setting, inverse.range->to_setting);
  }
  return inverse.up ? fmt::format("{} from {} on", inverse.variable, inverse.setting)
                    : fmt::format("{} up to {}", inverse.variable, inverse.setting);
}

/// ", over TCP; over RoCE from 31.24 Gb/s on"
std::string over_rdma_text(const Inverse& inverse) {
  return inverse.over_rdma ? "; this is over TCP, over RoCE " + inverse.over_rdma->text : "";
}

/// "network from 31.24 Gb/s on: scaling efficiency 90.01 % (asked: >= 90 %)"; of a range at the end nearest to now
std::string found_line(const Inverse& inverse) {
  const std::string fits = inverse.prediction.fits == false ? "; does not fit in GPU memory" : "";
  const std::string sure = inverse.probability ? fmt::format(", {:.0f} % sure", 100 * *inverse.probability) : "";
  const std::string at = inverse.range ? fmt::format("at {} ", inverse.setting) : "";
  return fmt::format("{}: {}{} (asked: {}{}); step {}, bound by {}{}{}\n", where_found(inverse), at,
                     inverse.metric_text, inverse.condition, sure, to_text(inverse.prediction.step_time),
                     bottleneck_text(inverse.prediction), fits, over_rdma_text(inverse));
}

std::string not_found_line(const Inverse& inverse) {
  const std::string which = is_equal(inverse) ? "the nearest, with" : "even with";
  return fmt::format("not reachable: {} {} = {} it is {}, then bound by {} (asked: {}){}\n", which, inverse.variable,
                     inverse.limit_setting, inverse.limit_text, bottleneck_text(inverse.limit), inverse.condition,
                     over_rdma_text(inverse));
}

}  // namespace

std::string render(const Inverse& inverse, Format format) {
  if (format == Format::kJson) return dump(inverse_json(inverse));
  if (format == Format::kCsv) return tried_csv(inverse);
  std::string text = inverse.reached ? found_line(inverse) : not_found_line(inverse);
  text += "\n" + inverse.title + "\n\n";
  Table table({"", inverse.variable, metric_column(inverse), "step", "exposed comm.", "memory per GPU", "bound by"});
  const auto add = [&](const char* what, const std::string& value, const std::string& metric,
                       const answer::Prediction& p) {
    table.add({what, value, metric, to_text(p.step_time), to_text(p.breakdown.communication_exposed),
               to_text(p.memory_per_gpu), bottleneck_text(p)});
  };
  if (inverse.now && inverse.baseline) add("now", *inverse.now, inverse.now_text, *inverse.baseline);
  if (inverse.reached) add("answer", inverse.setting, inverse.metric_text, inverse.prediction);
  if (!inverse.reached || !is_equal(inverse)) {
    add(is_equal(inverse) ? "nearest" : "limit", inverse.limit_setting, inverse.limit_text, inverse.limit);
  }
  text += table.render(format) + "\n";
  if (inverse.holding.size() > 1) {
    text += "holds for " + inverse.variable;
    for (std::size_t i = 0; i < inverse.holding.size(); ++i) {
      const auto& [from, to] = inverse.holding[i];
      text += i == 0 ? " " : ", ";
      text += from == to ? from : fmt::format("{} to {}", from, to);
    }
    text += "\n";
  }
  if (inverse.reached) {
    text += "as settings:";
    for (const auto& [path, value] : inverse.settings) text += fmt::format(" --set {}='{}'", path, value);
    text += "\n";
  }
  text += fmt::format("{} predictions\n", inverse.predictions);
  for (const std::string& note : inverse.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace ddlsim::report
