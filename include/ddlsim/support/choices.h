// Closed sets of names: one table per enum serves parsing, printing and the list of valid choices.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/support/error.h"
#include "ddlsim/support/names.h"

namespace ddlsim {

/// The names of an enum's values, in the order people should read them. Aliases follow the name they mean.
template <typename Enum, std::size_t N>
using Choices = std::array<std::pair<std::string_view, Enum>, N>;

template <typename Enum, std::size_t N>
[[nodiscard]] constexpr std::string_view name_of(const Choices<Enum, N>& choices, Enum value) {
  for (const auto& [name, candidate] : choices) {
    if (candidate == value) return name;
  }
  return {};
}

template <typename Enum, std::size_t N>
[[nodiscard]] Expected<Enum> parse_choice(const Choices<Enum, N>& choices, std::string_view text,
                                          std::string_view what) {
  const std::string folded = fold_name(text);
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (fold_name(name) == folded) return value;
    names.emplace_back(name);
  }
  return fail(ErrorCode::kNotFound, "unknown " + std::string(what) + " '" + std::string(text.substr(0, 60)) + "'", {},
              {suggestion(text, names)});
}

}  // namespace ddlsim
