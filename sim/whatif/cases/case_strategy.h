// How the job of a case shares gradients: by its architecture, its framework and what else it says. Private to the
// room.
#pragma once

#include <string>
#include <string_view>

#include "ddlsim/io/case_file.h"

namespace ddlsim::whatif {

/// The framework's way, as far as a case says: a value of the setting `strategy`. `family`: its architecture in a word
/// (architecture_family).
[[nodiscard]] std::string strategy_of(const io::Case& one, std::string_view family);

}  // namespace ddlsim::whatif
