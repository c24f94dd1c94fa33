// Words and numbers in the lines of training logs. Private to the room.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ddlsim/support/error.h"

namespace ddlsim::importers {

/// What follows a key, without spaces, dots (of Megatron's list of arguments), colon and equals sign.
inline std::optional<std::string_view> after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + key.size());
  const std::size_t first = rest.find_first_not_of(" .:=");
  if (first == std::string_view::npos) return std::string_view{};
  return rest.substr(first);
}

/// A number with thousands separators, as far as it goes.
inline std::optional<double> number(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c == ',') continue;
    if (std::string_view("0123456789.eE+-").find(c) == std::string_view::npos) break;
    digits += c;
  }
  double value = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (status != std::errc{} || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// A count: a whole number of at least one, and no more than the largest of other files (1e15).
inline std::optional<std::int64_t> whole(double value) {
  if (!(value >= 1) || value > 1e15 || std::floor(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

inline std::optional<std::int64_t> whole(std::string_view text) {
  const auto value = number(text);
  return value ? whole(*value) : std::nullopt;
}

/// One log, one job: it is of several programs, or "jobs: its steps begin again".
inline tl::unexpected<Error> of_several(const std::string& what, const SourceLocation& here) {
  return fail(ErrorCode::kInvalidArgument, "the log is of several " + what, here,
              {"one log, one job: cut it where the next begins"});
}

}  // namespace ddlsim::importers
