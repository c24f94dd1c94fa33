// JSON from outside, read strictly: at most 16 MiB, 64 levels and a million values, no key twice in an object. Nothing
// throws.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ddlsim/support/error.h"

namespace ddlsim::importers {

inline constexpr std::size_t kMaxJson = std::size_t{16} << 20;
inline constexpr int kMaxJsonDepth = 64;
inline constexpr std::size_t kMaxJsonValues = 1'000'000;

/// How Infinity, -Infinity and NaN, which Python writes and JSON does not have, stand in a document that may have them:
/// as texts, which no reader takes for a number.
inline constexpr std::string_view kInfinity = "\xE2\x88\x9E";
inline constexpr std::string_view kNan = "?";
enum class JsonDialect { kStrict, kPython };

/// The document, which must be an object. Errors: kIo for the size; kParse with file:line:column.
[[nodiscard]] Expected<nlohmann::json> parse_json_object(std::string_view text, const std::string& file,
                                                         JsonDialect dialect = JsonDialect::kStrict);

/// Line and column of a byte.
[[nodiscard]] SourceLocation place_in(std::string_view text, const std::string& file, std::size_t offset);

}  // namespace ddlsim::importers
