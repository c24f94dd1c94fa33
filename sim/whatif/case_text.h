// Words in what a case says. Private to the room.
#pragma once

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>
#include <string_view>

namespace ddlsim::whatif {

[[nodiscard]] inline std::string lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

[[nodiscard]] inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

[[nodiscard]] inline bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return has(text, part); });
}

/// Whether all of the words, which spaces part, stand in the text.
[[nodiscard]] inline bool has_all_words(std::string_view text, std::string_view words) {
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    if (!has(text, words.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace ddlsim::whatif
