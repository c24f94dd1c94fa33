// Settings as a map has them.
#include "ddlsim/whatif/scenario_map.h"

#include <fmt/core.h>

#include <map>

#include "ddlsim/whatif/setting_words.h"
#include "scenario/beside.h"

namespace ddlsim::whatif {
namespace {

constexpr std::string_view kJobsBeside = "other_jobs";

/// Whether settings of a job stand at a path: "", "other_jobs.0".
bool is_job(std::string_view path) {
  return path.empty() || (path.starts_with(kJobsBeside) && path.rfind('.') == kJobsBeside.size());
}

void flatten(const io::Node& node, const std::string& path, std::vector<Override>& overrides,
             std::vector<Error>& errors) {
  switch (node.kind) {
    case io::NodeKind::kScalar:
      if (node.text.empty()) {
        errors.push_back(Error{ErrorCode::kParse,
                               fmt::format("'{}' has no value", path.substr(0, 60)),
                               node.where,
                               {"leave the key out for its default, or give it a value"},
                               {}});
        return;
      }
      overrides.push_back({path, node.text, node.where});
      return;
    case io::NodeKind::kList:
      if (path == kJobsBeside) {
        for (std::size_t i = 0; i < node.items.size(); ++i) {
          flatten(node.items[i], fmt::format("{}.{}", kJobsBeside, i), overrides, errors);
        }
        return;
      }
      errors.push_back(
          Error{ErrorCode::kParse, fmt::format("'{}' takes one value, not a list", path), node.where, {}, {}});
      return;
    case io::NodeKind::kMap:
      for (const io::Entry& entry : node.entries) {
        flatten(entry.value, path_within(path, entry.key, entry.value.kind == io::NodeKind::kMap), overrides, errors);
      }
      return;
  }
}

}  // namespace

std::string path_within(const std::string& path, const std::string& key, bool is_map) {
  if (key == "name" && !path.empty()) return path;
  // A map is its settings' common beginning, whatever flag is called alike: `measured: {steps: ...}`.
  const auto flag = !is_map && is_job(path) ? setting_of_flag(key) : std::nullopt;
  const std::string name(flag.value_or(key));
  return setting_at(path.empty() ? name : path + "." + name);
}

Expected<std::vector<Override>> settings_in(const io::Node& map, std::string_view what) {
  std::vector<Override> overrides;
  std::vector<Error> errors;
  if (map.kind == io::NodeKind::kMap) {
    flatten(map, "", overrides, errors);
  } else {
    errors.push_back(Error{ErrorCode::kParse, fmt::format("{} must be a map of settings", what), map.where, {}, {}});
  }
  if (!errors.empty()) return fail_with_all(std::move(errors));
  if (auto known = check_paths(overrides); !known) return tl::unexpected<Error>(known.error());
  std::map<std::string_view, const Override*> known;
  for (const Override& one : overrides) {
    const auto [first, added] = known.try_emplace(one.path, &one);
    if (added) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} is set twice", one.path), one.where,
                {fmt::format("first on line {}", first->second->where.line)});
  }
  return overrides;
}

Expected<std::vector<Override>> load_scenario(const std::filesystem::path& path) {
  const auto document = io::load_yaml(path);
  if (!document) return tl::unexpected<Error>(document.error());
  auto overrides = settings_in(*document, "a scenario file");
  if (!overrides) return overrides;
  for (Override& one : *overrides) one.value = found_beside(path, one.path, one.value);
  return overrides;
}

}  // namespace ddlsim::whatif
