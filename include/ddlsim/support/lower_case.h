// Letters of ASCII, whatever the locale.
#pragma once

#include <string>
#include <string_view>

namespace ddlsim {

[[nodiscard]] constexpr char lower_letter(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

[[nodiscard]] inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = lower_letter(c);
  return lower;
}

}  // namespace ddlsim
