// How many slips of a finger lie between two words.
#pragma once

#include <cstddef>
#include <string_view>

namespace ddlsim {

/// Edit distance with transpositions of neighbours (optimal string alignment). Quadratic in time.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace ddlsim
