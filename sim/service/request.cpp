#include "request.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "ddlsim/support/names.h"
#include "ddlsim/whatif/curve.h"
#include "ddlsim/whatif/scenario_map.h"
#include "json_text.h"

namespace ddlsim::service {
namespace {

constexpr std::string_view kFile = "request";
constexpr std::string_view kJob = "job";
constexpr std::string_view kVs = "vs";

/// A number, then a unit over another: "25 Gb/s", "12 $/h", "400 g/kWh".
bool is_rate(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos || text[first] < '0' || text[first] > '9') return false;
  const std::size_t slash = text.find('/');
  const std::string_view unit = text.substr(0, slash);
  std::string_view per = text.substr(slash + 1);
  per = per.substr(0, per.find_last_not_of(' ') + 1);
  const auto of_unit = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           byte == ' ' || byte == '$' || byte == '.' || byte == '+' || byte == '-' || byte >= 0x80;
  };
  constexpr auto kUnder = std::to_array<std::string_view>({"s", "h", "kWh", "B"});
  return unit.find("..") == std::string_view::npos && std::all_of(unit.begin(), unit.end(), of_unit) &&
         std::find(kUnder.begin(), kUnder.end(), per) != kUnder.end();
}

/// Whether a part of a text has a slash and is no rate: "dgx-a100=12 $/h, dgx1-v100=3 $/h" and "4 x 25 Gb/s" name no
/// file.
bool looks_like_file(std::string_view text) {
  if (text.ends_with(".yaml")) return true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(",="), text.size());
    std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (const std::size_t times = part.find(" x "); times != std::string_view::npos) part.remove_prefix(times + 3);
    if (part.find('/') != std::string_view::npos && !is_rate(part)) return true;
  }
  return false;
}

bool reads_files_alone(std::string_view path) {
  return path.ends_with("collective.table") || path.ends_with("measured.runs");
}

}  // namespace

bool names_file(const whatif::Override& setting, const io::Catalog& catalog) {
  if (reads_files_alone(setting.path)) return true;
  if (!io::is_path(setting.value) || !looks_like_file(setting.value)) return false;
  // Asked last, for it is slow: "google-bert/bert-base-uncased".
  return std::none_of(io::kKinds.begin(), io::kKinds.end(),
                      [&](const auto& one) { return catalog.knows(one.second, setting.value); });
}

namespace {

tl::unexpected<Error> no_map(SourceLocation where) {
  return fail(ErrorCode::kParse, "a request must be a map: a job's settings, or {\"job\": {...}, ...}",
              std::move(where));
}

/// JSON is read strictly where it is said or seen to be JSON: of two readers that refuse it, JSON's knows better why.
Expected<io::Node> document_of(std::string_view text, Syntax syntax) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    return fail(ErrorCode::kParse, "the request is empty", {}, {R"(as {"model": "resnet50", "node": "dgx-a100"})"});
  }
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  if (text.substr(first, last + 1 - first) == "null") return no_map({std::string(kFile), 1, 1});
  const auto as_yaml = [&](std::string_view yaml) { return io::parse_yaml(yaml, std::string(kFile)); };
  if (syntax == Syntax::kYaml && text[first] != '{') return as_yaml(text);
  const auto json = yaml_of_json(text, kFile);
  if (json) return as_yaml(*json);
  if (syntax == Syntax::kJson) return tl::unexpected<Error>(json.error());
  auto yaml = as_yaml(text);
  const std::size_t second = std::min(text.find_first_not_of(" \t\r\n", first + 1), text.size());
  const bool means_json = second == text.size() || text[second] == '"';
  if (!yaml && means_json) return tl::unexpected<Error>(json.error());
  return yaml;
}

}  // namespace

Expected<Request> Request::read(std::string_view text, Syntax syntax, std::span<const std::string_view> keys,
                                const Limits& limits, const io::Catalog& catalog) {
  if (text.size() > limits.request) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("a request of more than {} bytes", limits.request));
  }
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return fail(ErrorCode::kParse, fmt::format("a NUL character after {} bytes of the request", nul));
  }
  auto document = document_of(text, syntax);
  if (!document) return tl::unexpected<Error>(document.error());
  Request request;
  request.document_ = std::move(*document);
  if (auto taken = request.take(request.document_, keys); !taken) return tl::unexpected<Error>(taken.error());
  if (auto named = request.check_files(limits, catalog); !named) return tl::unexpected<Error>(named.error());
  return request;
}

Expected<void> Request::take(const io::Node& document, std::span<const std::string_view> keys) {
  if (document.kind != io::NodeKind::kMap) {
    return no_map(document.where);
  }
  const io::Node* job = find(kJob);
  auto settings = whatif::settings_in(job == nullptr ? document : *job, "a job");
  if (!settings && job == nullptr) {
    // A flag beside settings: the job must stand in a map of its own.
    for (const io::Entry& entry : document.entries) {
      if (std::find(keys.begin(), keys.end(), entry.key) == keys.end()) continue;
      return fail(ErrorCode::kParse, fmt::format("'{}' beside the job's settings", entry.key), entry.where,
                  {fmt::format("put the settings into \"job\": {{...}}, beside \"{}\"", entry.key)});
    }
  }
  if (!settings) return tl::unexpected<Error>(settings.error());
  job_ = std::move(*settings);
  if (job == nullptr) return {};
  std::vector<std::string> valid(keys.begin(), keys.end());
  valid.emplace_back(kJob);
  for (const io::Entry& entry : document.entries) {
    if (std::find(valid.begin(), valid.end(), entry.key) == valid.end()) {
      return fail(ErrorCode::kNotFound, fmt::format("unknown key '{}'", entry.key.substr(0, 60)), entry.where,
                  {suggestion(entry.key, valid)});
    }
    if (entry.key == kJob || entry.key == kVs) continue;
    if (entry.value.kind != io::NodeKind::kScalar || entry.value.text.empty()) {
      return fail(ErrorCode::kParse, fmt::format("'{}' takes one value", entry.key), entry.value.where);
    }
  }
  const io::Node* list = find(kVs);
  return list == nullptr ? Expected<void>{} : take_changes(*list);
}

Expected<void> Request::take_changes(const io::Node& list) {
  if (list.kind != io::NodeKind::kList || list.items.empty()) {
    return fail(ErrorCode::kParse, "'vs' takes a list of changes, each a map of settings", list.where);
  }
  for (const io::Node& item : list.items) {
    io::Node settings = item;
    whatif::Change change;
    const auto name = std::find_if(settings.entries.begin(), settings.entries.end(),
                                   [](const io::Entry& entry) { return entry.key == "name"; });
    if (name != settings.entries.end()) {
      if (name->value.kind != io::NodeKind::kScalar) {
        return fail(ErrorCode::kParse, "'name' takes one value", name->value.where);
      }
      change.name = name->value.text;
      settings.entries.erase(name);
    }
    auto overrides = whatif::settings_in(settings, "a change");
    if (!overrides) return tl::unexpected<Error>(overrides.error());
    if (overrides->empty()) return fail(ErrorCode::kParse, "a change without a setting", item.where);
    change.overrides = std::move(*overrides);
    changes_.push_back(std::move(change));
  }
  return {};
}

Expected<void> Request::check_files(const Limits& limits, const io::Catalog& catalog) const {
  if (limits.files) return {};
  const auto check = [&](const whatif::Override& setting) -> Expected<void> {
    if (!names_file(setting, catalog)) return {};
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: files cannot be named from afar", setting.path),
                setting.where, {"the names that `ddlsim list` shows are valid; the command takes files"});
  };
  for (const whatif::Override& setting : job_) {
    if (auto fine = check(setting); !fine) return fine;
  }
  for (const whatif::Change& change : changes_) {
    for (const whatif::Override& setting : change.overrides) {
      if (auto fine = check(setting); !fine) return fine;
    }
  }
  for (const std::string_view key : {"one_server", "from", "to"}) {
    const io::Node* value = find(key);
    if (value == nullptr) continue;
    if (auto fine = check({std::string(key), value->text, value->where}); !fine) return fine;
  }
  // A curve's values are values of a setting as well.
  const io::Node* curve = find("curve");
  const auto setting = curve == nullptr ? std::nullopt : std::optional(whatif::parse_curve(curve->text));
  if (!setting || !*setting) return {};  // what is wrong with it is said where it is asked
  for (const std::string& value : (*setting)->values) {
    if (auto fine = check({(*setting)->path, value, curve->where}); !fine) return fine;
  }
  return {};
}

const io::Node* Request::find(std::string_view key) const {
  for (const io::Entry& entry : document_.entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

std::optional<std::string> Request::text(std::string_view key) const {
  // Without a "job", every key is a setting.
  const io::Node* node = find(kJob) == nullptr ? nullptr : find(key);
  if (node == nullptr) return std::nullopt;
  return node->text;
}

Expected<bool> Request::flag(std::string_view key) const {
  const auto word = text(key);
  if (!word || *word == "false" || *word == "no") return false;
  if (*word == "true" || *word == "yes") return true;
  return at(
      key,
      Error{
          ErrorCode::kInvalidArgument, fmt::format("'{}' is neither true nor false", word->substr(0, 60)), {}, {}, {}});
}

tl::unexpected<Error> Request::at(std::string_view key, Error error) const {
  const io::Node* node = find(key);
  if (error.where.file.empty()) {
    error.message = fmt::format("{}: {}", key, error.message);
    if (node != nullptr) error.where = node->where;
  }
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace ddlsim::service
