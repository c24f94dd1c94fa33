#include "known_names.h"

#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/support/names.h"

namespace ddlsim::io {

void add_known(const Catalog& catalog, Kind kind, Known& known) {
  for (const std::string& id : catalog.ids(kind)) known.emplace_back(id, id);
  for (const std::string& id : catalog.ids(kind)) {
    for (std::string& alias : catalog.aliases_of(kind, id)) known.emplace_back(std::move(alias), id);
  }
}

std::string suggested(std::string_view name, const Known& known) {
  constexpr std::size_t kMost = 3;
  constexpr std::size_t kNear = 24;  // several may be names of one thing
  std::vector<std::string> names;
  for (const auto& [said, id] : known) names.push_back(said);
  std::vector<std::string> seen;
  std::vector<std::string> shown;
  for (const std::string& near : nearest_names(name, names, kNear)) {
    const std::string& id =
        std::find_if(known.begin(), known.end(), [&](const auto& k) { return k.first == near; })->second;
    if (shown.size() == kMost || std::find(seen.begin(), seen.end(), id) != seen.end()) continue;
    seen.push_back(id);
    shown.push_back(near == id ? fmt::format("'{}'", id) : fmt::format("'{}' ({})", id, near));
  }
  if (shown.empty()) return {};
  std::string text = "did you mean ";
  for (std::size_t i = 0; i < shown.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == shown.size() ? " or " : ", ") + shown[i];
  }
  return text + "?";
}

}  // namespace ddlsim::io
