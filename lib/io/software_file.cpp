#include "ddlsim/io/software_file.h"

#include <fmt/core.h>

#include <cmath>
#include <utility>
#include <vector>

#include "ddlsim/support/quantity_io.h"

namespace ddlsim::io {
namespace {

constexpr std::int64_t kMostRows = 10'000'000;

double number_of(MapReader& reader, std::string_view key, double least, double most) {
  const Node* node = reader.require(key);
  if (node == nullptr || !reader.is_scalar(*node)) return least;
  const auto number = reader.accept(parse_number(node->text), *node);
  if (!number) return least;
  if (!std::isfinite(*number) || *number < least || *number > most) {
    reader.report(*node, ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is not from {} to {}", node->text, least, most));
    return least;
  }
  return *number;
}

hardware::SoftwareEffect read_effect(const Node& node, hardware::SoftwareFeature feature, std::vector<Error>& errors) {
  constexpr double kMost = 3;  // a factor of 20
  MapReader reader(node, "an effect", errors);
  const hardware::SoftwareEffect effect{.feature = feature,
                                        .effect = number_of(reader, "effect", -kMost, kMost),
                                        .low = number_of(reader, "low", -kMost, kMost),
                                        .high = number_of(reader, "high", -kMost, kMost)};
  reader.finish();
  return effect;
}

hardware::SoftwareEnds read_ends(const Node& node, hardware::QuestionKind kind, std::vector<Error>& errors) {
  MapReader reader(node, "ends of an interval", errors);
  const hardware::SoftwareEnds ends{.kind = kind,
                                    .low = number_of(reader, "low", 0.01, 1),
                                    .high = number_of(reader, "high", 1, 100),
                                    .rows = reader.count("rows", {1, kMostRows}),
                                    .sources = reader.count("sources", {1, kMostRows})};
  reader.finish();
  return ends;
}

hardware::ChangeSpread read_change(const Node& node, hardware::ChangeKind kind, std::vector<Error>& errors) {
  constexpr double kMost = 3;
  MapReader reader(node, "a change", errors);
  const hardware::ChangeSpread change{.change = kind,
                                      .deviation = number_of(reader, "deviation", 0, kMost),
                                      .pairs = reader.count("pairs", {1, kMostRows}),
                                      .sources = reader.count("sources", {1, kMostRows})};
  reader.finish();
  return change;
}

/// The entries of a map, each under a name of a closed set.
template <typename Choices, typename Read>
auto read_named(const Node& node, const Choices& choices, std::string_view what, std::vector<Error>& errors,
                Read read) {
  using Enum = std::remove_cvref_t<decltype(choices.front().second)>;
  std::vector<decltype(read(node, Enum{}, errors))> all;
  MapReader reader(node, std::string(what), errors);
  for (const Entry& entry : node.entries) {
    reader.find(entry.key);
    Node at;
    at.where = entry.where;
    const auto choice = reader.accept(parse_choice(choices, entry.key, what), at);
    if (choice) all.push_back(read(entry.value, *choice, errors));
  }
  return all;
}

}  // namespace

Expected<hardware::SoftwareProfile> read_software(const Node& document) {
  std::vector<Error> errors;
  MapReader reader(document, "a software file", errors);
  hardware::SoftwareProfile profile;
  profile.id = reader.text("software");
  profile.made_by = reader.text("made_by");
  profile.rows = reader.count("rows", {1, kMostRows});
  profile.sources = reader.count("sources", {1, kMostRows});
  profile.newest = number_of(reader, "newest", 2010, 2100);
  if (const Node* node = reader.require("left_out")) {
    MapReader left_out(*node, "left_out", errors);
    profile.mean_error = number_of(left_out, "mean", 0, 100);
    profile.median_error = number_of(left_out, "median", 0, 100);
    left_out.finish();
  }
  if (const Node* node = reader.require("effects")) {
    profile.effects = read_named(*node, hardware::kSoftwareFeatures, "feature", errors, read_effect);
  }
  if (const Node* node = reader.require("ends")) {
    profile.ends = read_named(*node, hardware::kQuestionKinds, "kind", errors, read_ends);
  }
  if (const Node* node = reader.find("changes")) {
    profile.changes = read_named(*node, hardware::kChangeKinds, "change", errors, read_change);
  }
  return reader.whole(std::move(profile));
}

std::string software_text(const hardware::SoftwareProfile& profile) {
  std::string text = fmt::format("software: {}\nmade_by: \"{}\"\nrows: {}\nsources: {}\nnewest: {}\n", profile.id,
                                 profile.made_by, profile.rows, profile.sources, profile.newest);
  text +=
      fmt::format("left_out: {{mean: {:.4f}, median: {:.4f}}}\neffects:\n", profile.mean_error, profile.median_error);
  for (const hardware::SoftwareEffect& one : profile.effects) {
    text += fmt::format("  {}: {{effect: {:.4f}, low: {:.4f}, high: {:.4f}}}\n",
                        name_of(hardware::kSoftwareFeatures, one.feature), one.effect, one.low, one.high);
  }
  text += "ends:\n";
  for (const hardware::SoftwareEnds& one : profile.ends) {
    text += fmt::format("  {}: {{low: {:.4f}, high: {:.4f}, rows: {}, sources: {}}}\n",
                        name_of(hardware::kQuestionKinds, one.kind), one.low, one.high, one.rows, one.sources);
  }
  if (!profile.changes.empty()) text += "changes:\n";
  for (const hardware::ChangeSpread& one : profile.changes) {
    text += fmt::format("  {}: {{deviation: {:.4f}, pairs: {}, sources: {}}}\n",
                        name_of(hardware::kChangeKinds, one.change), one.deviation, one.pairs, one.sources);
  }
  return text;
}

}  // namespace ddlsim::io
