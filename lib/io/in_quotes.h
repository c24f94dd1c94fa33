// Text as the writers of YAML put it down. Private to the room.
#pragma once

#include <string>
#include <string_view>

namespace ddlsim::io {

/// Text between double quotes, so that no character of it means anything to YAML.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace ddlsim::io
