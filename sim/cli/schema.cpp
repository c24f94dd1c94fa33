#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ddlsim/report/schemas.h"
#include "ddlsim/support/names.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

using SchemaJson = nlohmann::ordered_json;

constexpr std::string_view kSchemaExamples = R"(
The answers of `--format json` name their schema in "schema": ddlsim/predict/1 is `ddlsim schema predict`. A command may
have several answers: predict --curve is ddlsim/curve/1, what-if --elasticities is ddlsim/elasticities/1. JSON Schema,
2020-12; the files are also in share/ddlsim/schemas. Without a name, the names.

Examples:
  ddlsim schema
  ddlsim schema predict > predict.schema.json)";
constexpr std::string_view kSuffix = ".json";

const report::Schema* find_schema(std::string_view name) {
  const auto all = report::schemas();
  const auto found = std::find_if(all.begin(), all.end(), [&](const report::Schema& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

/// "prediction.json" becomes "#/$defs/prediction", and what it names is collected.
void take_references(SchemaJson& at, SchemaJson& parts) {
  if (at.is_array()) {
    for (SchemaJson& one : at) take_references(one, parts);
  }
  if (!at.is_object()) return;
  for (auto& [key, value] : at.items()) {
    if (key != "$ref" || !value.is_string()) {
      take_references(value, parts);
      continue;
    }
    std::string name = value.get<std::string>();
    if (!name.ends_with(kSuffix)) continue;
    name.resize(name.size() - kSuffix.size());
    value = "#/$defs/" + name;
    const report::Schema* part = find_schema(name);
    if (part == nullptr || parts.contains(name)) continue;
    parts[name] = nullptr;  // it may name itself
    SchemaJson text = SchemaJson::parse(part->text);
    text.erase("$schema");
    text.erase("$id");
    take_references(text, parts);
    parts[name] = std::move(text);
  }
}

std::vector<std::string> schema_names() {
  std::vector<std::string> names;
  for (const report::Schema& one : report::schemas()) names.emplace_back(one.name);
  return names;
}

}  // namespace

int run_schema(const std::vector<std::string>& arguments) {
  CLI::App app("The JSON Schema of an answer.", "ddlsim schema");
  app.footer(std::string(kSchemaExamples));
  std::string name;
  std::string type;
  for (const std::string& one : schema_names()) type += (type.empty() ? "" : "|") + one;
  app.add_option("answer", name, "whose")->type_name(type);
  parse(app, arguments);
  if (name.empty()) {
    std::string text;
    for (const std::string& one : schema_names()) text += one + "\n";
    return print(text);
  }
  const report::Schema* schema = find_schema(name);
  if (schema == nullptr) {
    throw UsageError{fmt::format("no schema '{}'", name.substr(0, 60)), suggestion(name, schema_names())};
  }
  SchemaJson json = SchemaJson::parse(schema->text);
  SchemaJson parts = SchemaJson::object();
  take_references(json, parts);
  for (auto& [part, text] : parts.items()) json["$defs"][part] = text;
  return print(json.dump(2) + "\n");
}

}  // namespace ddlsim::cli
