// A request that is JSON, in the words of the YAML that it nearly is. Private to the room.
#pragma once

#include <string>
#include <string_view>

#include "ddlsim/support/error.h"

namespace ddlsim::service {

/// The text, on the lines where it stood, with surrogate pairs as one character and whole numbers as digits (4 of 4.0).
/// Errors: kParse with its place in `file` for what is no JSON.
[[nodiscard]] Expected<std::string> yaml_of_json(std::string_view text, std::string_view file);

}  // namespace ddlsim::service
