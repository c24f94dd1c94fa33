// What frameworks do under their defaults: a name for a list of settings.
//
// `strategy = horovod` is `strategy = allreduce` with Horovod's fusion buffer, cycle and library; any of these can
// still be set by itself and then wins. Every profile names where its figures come from.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddlsim::whatif {

struct Framework {
  std::string_view name;
  std::string_view what;
  std::string_view settings;  // "path=value; path=value"
  std::string_view source;
};

[[nodiscard]] std::span<const Framework> frameworks();

/// The framework of that name (folded), or nothing.
[[nodiscard]] const Framework* find_framework(std::string_view name);

/// Its settings, path and value.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> settings_of(const Framework& framework);

}  // namespace ddlsim::whatif
