// What somebody may have meant by a name that nobody knows. Private to the room.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/io/catalog.h"

namespace ddlsim::io {

/// Names by which somebody may have meant a thing, and its id.
using Known = std::vector<std::pair<std::string, std::string>>;

/// Adds the ids of a kind, then their aliases.
void add_known(const Catalog& catalog, Kind kind, Known& known);

/// "did you mean 'vit_base' (vit_b_16)?": ids, each once, with the name that was near; empty: none is.
[[nodiscard]] std::string suggested(std::string_view name, const Known& known);

}  // namespace ddlsim::io
