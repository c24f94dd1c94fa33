// TOML as the same tree that io::parse_yaml makes, with places. At most 16 MiB, 64 levels, a million values.
#pragma once

#include <string>
#include <string_view>

#include "ddlsim/io/yaml.h"
#include "ddlsim/support/error.h"

namespace ddlsim::importers {

/// Errors: kParse with file:line:column.
[[nodiscard]] Expected<io::Node> parse_toml(std::string_view text, const std::string& file);

}  // namespace ddlsim::importers
