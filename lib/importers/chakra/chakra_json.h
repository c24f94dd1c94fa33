// What both writings of a Chakra trace share, and the one in JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ddlsim/importers/chakra_file.h"

namespace ddlsim::importers::chakra {

inline constexpr std::size_t kMaxNodes = 2'000'000;
inline constexpr std::size_t kMaxDependencies = 20'000'000;
inline constexpr std::int64_t kMaxMicroseconds = 1'000'000'000'000'000;  // over 30 years
inline constexpr std::size_t kPadding = 64;                              // of simdjson, behind the text

/// Takes what a prediction needs of a node's attributes; false where the value cannot be.
[[nodiscard]] bool set_attribute(ChakraNode& node, std::string_view name, std::int64_t value);
[[nodiscard]] bool set_type(ChakraNode& node, std::int64_t type);
/// comm_type of a collective.
[[nodiscard]] std::int64_t number_of(primitives::CollectiveOp op);

/// `text` has kPadding bytes reserved behind it.
[[nodiscard]] Expected<ChakraTrace> read_json(const std::string& text, const SourceLocation& where);

}  // namespace ddlsim::importers::chakra
