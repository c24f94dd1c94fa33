// Settings as people type them, made into the parts of a grid; whoever takes them as text shares it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/grid.h"

namespace ddlsim::whatif {

/// Adds a setting as a flag states it: "1, 2..8:x2" is an axis of several values, one value is the same for every
/// point. Of a price commas part servers. Errors: those of values_of, naming the setting.
[[nodiscard]] Expected<void> add_setting(const Override& setting, GridParts& parts);

/// What is typed takes the place of what a file states of the same path, one value or an axis of its own.
void take_over(GridParts typed, GridParts& parts);

/// Of several settings with one path the last one counts.
void keep_last(std::vector<Override>& base);

/// Every value that a grid states of a path.
[[nodiscard]] std::vector<std::string> all_values(const Grid& grid, std::string_view path);

/// A slip in the name of a model, a server or a GPU is one error, not a million rows without an answer.
[[nodiscard]] Expected<void> check_names(const Grid& grid, const io::Catalog& catalog);

}  // namespace ddlsim::whatif
