// What the fuzz targets share: the input as text, and a fault the fuzzer sees.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ddlsim/support/error.h"

namespace ddlsim::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A law that no input may break; ends the program, which libFuzzer reports with the input.
inline void require(bool holds) {
  if (!holds) std::abort();
}

/// A reader answers with a value, or with an error that says something.
template <typename T>
void require_answer(const Expected<T>& result) {
  require(result.has_value() || !to_string(result.error()).empty());
}

}  // namespace ddlsim::fuzz
