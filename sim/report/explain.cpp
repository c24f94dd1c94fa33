#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/report/questions.h"
#include "ddlsim/support/formula.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "table.h"
#include "words.h"

namespace ddlsim::report {
namespace {

using answer::ExplainedPart;
using answer::ExplainedValue;

std::string explained_text(double value, const std::string& unit) {
  if (value == 0) return unit.empty() ? "0" : "0 " + unit;
  if (unit == "s") return to_text(seconds(value));
  if (unit == "B") return to_text(bytes(value));
  if (unit == "B/s") return to_text(bytes_per_second(value));
  if (unit == "FLOP") return to_text(flops(value));
  if (unit == "FLOP/s") return to_text(flops_per_second(value));
  if (unit == "s/B") return significant(value * 1e12) + " ps/B";
  return significant(value) + (unit.empty() ? "" : " " + unit);
}

/// The equation with values in the place of symbols.
std::string substituted(const ExplainedPart& part) {
  std::string text;
  for (const FormulaPiece& piece : pieces_of(part.equation)) {
    const auto value = std::find_if(part.values.begin(), part.values.end(),
                                    [&](const ExplainedValue& v) { return piece.name && v.symbol == piece.text; });
    text += value == part.values.end() ? piece.text : explained_text(value->value, value->unit);
  }
  return text;
}

std::string from_text(const ExplainedValue& value) {
  if (value.source.empty()) return value.provenance;
  return fmt::format("{}: {}", value.provenance, value.source);
}

Json explanation_json(const answer::Explanation& explanation) {
  Json json{{"schema", "ddlsim/explain/1"},
            {"title", explanation.title},
            {"step_time_s", explanation.prediction.step_time.in(seconds)},
            {"parts", Json::array()}};
  for (const ExplainedPart& part : explanation.parts) {
    Json one{{"part", part.name},
             {"title", part.title},
             {"symbol", part.symbol},
             {"equation", part.equation},
             {"values", Json::array()}};
    for (const ExplainedValue& value : part.values) {
      one["values"].push_back({{"symbol", value.symbol},
                               {"meaning", value.meaning},
                               {"value", value.value},
                               {"unit", value.unit},
                               {"provenance", value.provenance},
                               {"source", value.source}});
    }
    one["substituted"] = substituted(part);
    one["result"] = part.result;
    one["unit"] = part.unit;
    json["parts"].push_back(std::move(one));
  }
  json["notes"] = explanation.prediction.notes;
  return json;
}

std::string explanation_csv(const answer::Explanation& explanation) {
  Table table({"part", "result_symbol", "result", "result_unit", "equation", "symbol", "value", "unit", "meaning",
               "provenance", "source"});
  for (const ExplainedPart& part : explanation.parts) {
    for (const ExplainedValue& value : part.values) {
      table.add({part.name, part.symbol, fmt::format("{}", part.result), part.unit, part.equation, value.symbol,
                 fmt::format("{}", value.value), value.unit, value.meaning, value.provenance, value.source});
    }
  }
  return table.render(Format::kCsv);
}

/// Spaces before every line of a table.
std::string indented(const std::string& text) {
  std::string all;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    all += "    " + text.substr(start, end - start) + "\n";
    start = end + 1;
  }
  return all;
}

Table value_table(const ExplainedPart& part) {
  Table table({"symbol", "value", "what", "from"});
  for (const ExplainedValue& value : part.values) {
    table.add({value.symbol, explained_text(value.value, value.unit), value.meaning, from_text(value)});
  }
  table.numbers_from(4);  // none: all read from the left
  return table;
}

std::string part_text(const ExplainedPart& part, Format format) {
  const std::string blank(part.symbol.size(), ' ');
  const std::string lines = fmt::format("{} = {}\n{} = {}\n{} = {}\n", part.symbol, part.equation, blank,
                                        substituted(part), blank, explained_text(part.result, part.unit));
  const std::string table = value_table(part).render(format);
  if (format == Format::kMd) {
    return fmt::format("\n### {}: {}\n\n```\n{}```\n\n{}", part.name, part.title, lines, table);
  }
  return fmt::format("\n{}: {}\n{}{}", part.name, part.title, indented(lines), indented(table));
}

}  // namespace

std::string render(const answer::Explanation& explanation, Format format) {
  if (format == Format::kJson) return dump(explanation_json(explanation));
  if (format == Format::kCsv) return explanation_csv(explanation);
  std::string text = fmt::format("step {}; bound by {}\n\n{}\n", to_text(explanation.prediction.step_time),
                                 bottleneck_text(explanation.prediction), explanation.title);
  for (const ExplainedPart& part : explanation.parts) text += part_text(part, format);
  text += "\n";
  for (const std::string& note : explanation.prediction.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace ddlsim::report
