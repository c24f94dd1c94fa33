#include "ddlsim/io/population_file.h"

#include <fmt/core.h>

#include <cmath>

#include "ddlsim/support/quantity_io.h"

namespace ddlsim::io {
namespace {

constexpr std::int64_t kMaxCnodes = 1'000'000;

/// A share of jobs, 0 % included.
std::optional<double> share_of(const Entry& entry, MapReader& reader) {
  if (entry.key == "0 %") return 0.0;
  Node at;
  at.where = entry.where;
  return reader.accept(parse_fraction(entry.key), at);
}

template <typename ParseValue>
QuantileTable read_table(const Node& node, const std::string& what, std::vector<Error>& errors, ParseValue parse) {
  QuantileTable table;
  MapReader reader(node, what, errors);
  for (const Entry& entry : node.entries) {
    const auto share = share_of(entry, reader);
    const Node* value = reader.find(entry.key);
    if (!share || !reader.is_scalar(*value)) continue;
    const auto number = reader.accept(parse(value->text), *value);
    if (!number) continue;
    const bool rises = table.empty() || (table.back().first < *share && table.back().second <= *number);
    if (!rises) reader.report(*value, ErrorCode::kInvalidArgument, "shares and values must rise");
    table.emplace_back(*share, *number);
  }
  const bool whole = table.size() >= 2 && table.front().first == 0.0 && table.back().first == 1.0;
  if (!whole) reader.report(node, ErrorCode::kInvalidArgument, "a table of shares runs from '0 %' to '100 %'");
  return table;
}

template <Dimension D>
LogRange read_range(MapReader& features, std::string_view key, Unit<D> unit, std::vector<Error>& errors) {
  const Node* node = features.require(key);
  if (node == nullptr) return {};
  MapReader reader(*node, std::string(key), errors);
  const LogRange range{reader.quantity<D>("from").in(unit), reader.quantity<D>("to").in(unit)};
  reader.finish();
  if (range.from > range.to) reader.report(*node, ErrorCode::kInvalidArgument, "'from' is larger than 'to'");
  return range;
}

void read_architectures(const Node& node, PopulationFile& file, std::vector<Error>& errors) {
  MapReader reader(node, "architectures", errors);
  double sum = 0;
  for (const Entry& entry : node.entries) {
    const Node* value = reader.find(entry.key);
    Node at;
    at.where = entry.where;
    const auto architecture = reader.accept(parse_choice(workload::kArchitectures, entry.key, "architecture"), at);
    if (!architecture || !reader.is_scalar(*value)) continue;
    const double share = reader.accept(parse_fraction(value->text), *value).value_or(0);
    file.architectures.emplace_back(*architecture, share);
    sum += share;
  }
  if (std::abs(sum - 1.0) > 1e-9) {
    reader.report(node, ErrorCode::kInvalidArgument, fmt::format("the shares add up to {} %, not 100 %", sum * 100));
  }
}

void read_cnodes(const Node& node, PopulationFile& file, std::vector<Error>& errors) {
  MapReader reader(node, "cnodes", errors);
  const auto parse = [](std::string_view text) {
    return parse_count(text, {1, kMaxCnodes}).map([](std::int64_t count) { return static_cast<double>(count); });
  };
  for (const auto& [architecture, share] : file.architectures) {
    if (architecture == workload::Architecture::k1w1g) continue;
    const auto name = name_of(workload::kArchitectures, architecture);
    if (const Node* table = reader.require(name)) {
      file.cnodes.emplace_back(architecture, read_table(*table, std::string(name), errors, parse));
    }
  }
  reader.finish();
}

void read_headlines(const Node& node, PopulationFile& file, std::vector<Error>& errors) {
  for (const Node& item : node.items) {
    MapReader reader(item, "a headline", errors);
    Headline headline;
    headline.metric = reader.text("metric");
    headline.text = reader.text("text");
    if (const Node* value = reader.require("value"); value != nullptr && reader.is_scalar(*value)) {
      const bool percent = !value->text.empty() && value->text.back() == '%';
      headline.value = percent ? reader.accept(parse_fraction(value->text), *value).value_or(0)
                               : reader.accept(parse_number(value->text), *value).value_or(0);
    }
    headline.status = reader.text("status");
    headline.difference = reader.text("difference");
    reader.finish();
    file.headlines.push_back(std::move(headline));
  }
}

}  // namespace

Expected<PopulationFile> read_population(const Node& document) {
  std::vector<Error> errors;
  MapReader reader(document, "a population file", errors);
  PopulationFile file;
  file.id = reader.text("population");
  file.name = reader.text("name");
  file.setting = reader.text("setting");
  if (const Node* node = reader.require("architectures")) read_architectures(*node, file, errors);
  if (const Node* node = reader.require("cnodes")) read_cnodes(*node, file, errors);
  if (const Node* node = reader.require("features")) {
    MapReader features(*node, "features", errors);
    file.flops = read_range(features, "flops", flops, errors);
    file.memory_access = read_range(features, "memory_access", bytes, errors);
    file.input = read_range(features, "input", bytes, errors);
    file.weight_traffic = read_range(features, "weight_traffic", bytes, errors);
    features.finish();
  }
  if (const Node* node = reader.require("weights")) {
    file.weights = read_table(*node, "weights", errors, [](std::string_view text) {
      return parse_data_size(text).map([](DataSize size) { return size.in(bytes); });
    });
  }
  if (const Node* node = reader.require("headlines")) read_headlines(*node, file, errors);
  file.sources = reader.sources({"architectures", "cnodes", "features", "weights", "headlines"});
  file.notes = reader.text_or("notes", {});
  return reader.whole(std::move(file));
}

}  // namespace ddlsim::io
