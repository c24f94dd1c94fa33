#include "json_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "ddlsim/support/quantity_io.h"

namespace ddlsim::service {
namespace {

SourceLocation place_of(std::string_view text, std::size_t byte, std::string_view file) {
  const std::string_view before = text.substr(0, byte == 0 ? 0 : byte - 1);
  const std::size_t line = before.rfind('\n');
  const std::size_t column = line == std::string_view::npos ? before.size() : before.size() - line - 1;
  return {std::string(file), static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(column) + 1};
}

/// "[json.exception.parse_error.101] parse error at ...: syntax error while parsing object - unexpected ..."
std::string reason_in(std::string_view what) {
  const std::size_t dash = what.find(" - ");
  const std::size_t colon = what.find(": ");
  if (dash != std::string_view::npos) return std::string(what.substr(dash + 3));
  return std::string(colon == std::string_view::npos ? what : what.substr(colon + 2));
}

/// "... number overflow parsing '1e400'"
std::string quoted_in(std::string_view what) {
  const std::size_t first = what.find('\'');
  const std::size_t last = what.rfind('\'');
  return first == last ? std::string() : std::string(what.substr(first + 1, last - first - 1));
}

Expected<void> check_json(std::string_view text, std::string_view file) {
  const auto refused = [&](const std::exception& problem, std::size_t byte) {
    return fail(ErrorCode::kParse, "the request is no JSON: " + reason_in(problem.what()), place_of(text, byte, file));
  };
  try {
    [[maybe_unused]] const auto whole = nlohmann::json::parse(text);
    return {};
  } catch (const nlohmann::json::parse_error& problem) {
    return refused(problem, problem.byte);
  } catch (const nlohmann::json::out_of_range& problem) {
    const std::string number = quoted_in(problem.what());
    return fail(ErrorCode::kParse, fmt::format("the request is no JSON: '{}' is beyond all numbers", number),
                place_of(text, text.find(number) + 1, file));
  } catch (const nlohmann::json::exception& problem) {
    return refused(problem, 0);
  }
}

std::uint32_t code_unit(std::string_view four) {
  return static_cast<std::uint32_t>(std::stoul(std::string(four), nullptr, 16));
}

/// What an escape of a string becomes, and how long it was.
std::pair<std::string, std::size_t> escape_at(std::string_view text) {
  if (!text.starts_with("\\u")) return {std::string(text.substr(0, 2)), 2};
  const std::uint32_t high = code_unit(text.substr(2, 4));
  if (high < 0xd800 || high > 0xdbff) return {std::string(text.substr(0, 6)), 6};
  const std::uint32_t low = code_unit(text.substr(8, 4));
  return {fmt::format("\\U{:08x}", 0x10000 + ((high - 0xd800) << 10U) + (low - 0xdc00)), 12};
}

/// 4 of 4.0 and 4e0, with blanks behind that keep places.
std::string number_text(std::string_view digits) {
  constexpr double kExact = 9e15;
  const auto number = parse_number(digits);
  if (!number || *number != std::trunc(*number) || std::abs(*number) > kExact) return std::string(digits);
  std::string text = fmt::format("{:.0f}", *number == 0 ? 0.0 : *number);
  if (text.size() < digits.size()) text.resize(digits.size(), ' ');
  return text;
}

}  // namespace

Expected<std::string> yaml_of_json(std::string_view text, std::string_view file) {
  if (auto sound = check_json(text, file); !sound) return tl::unexpected<Error>(sound.error());
  std::string yaml;
  yaml.reserve(text.size());
  bool quoted = false;
  for (std::size_t i = 0; i < text.size();) {
    if (quoted && text[i] == '\\') {
      const auto [escape, length] = escape_at(text.substr(i));
      yaml += escape;
      i += length;
      continue;
    }
    if (!quoted && (text[i] == '-' || (text[i] >= '0' && text[i] <= '9'))) {
      const std::size_t end = std::min(text.find_first_not_of("+-.0123456789eE", i), text.size());
      yaml += number_text(text.substr(i, end - i));
      i = end;
      continue;
    }
    quoted = quoted != (text[i] == '"');
    yaml += text[i++];
  }
  return yaml;
}

}  // namespace ddlsim::service
