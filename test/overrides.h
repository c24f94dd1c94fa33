// A job in words, as its flags say it: overrides("model resnet50; node dgx1-v100; network 25 Gb/s; batch {}", batch).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/whatif/scenario.h"

namespace ddlsim::test {

template <typename... T>
std::vector<whatif::Override> overrides(fmt::format_string<T...> words, T&&... values) {
  const std::string text = fmt::format(words, std::forward<T>(values)...);
  std::vector<whatif::Override> list;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find("; "));
    rest.remove_prefix(std::min(one.size() + 2, rest.size()));
    if (one.front() >= '0' && one.front() <= '9' && !list.empty()) {  // of measured.steps the next run
      list.back().value.append("; ").append(one);
      continue;
    }
    const std::size_t space = one.find(' ');
    list.push_back({std::string(one.substr(0, space)), std::string(one.substr(space + 1)), {}});
  }
  return list;
}

/// `first`, then `more`, of which the last that states a setting wins.
inline std::vector<whatif::Override> joined(std::vector<whatif::Override> first,
                                            const std::vector<whatif::Override>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

}  // namespace ddlsim::test
