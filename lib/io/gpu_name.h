// What words of a GPU's name tell it from others. Private to the room.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace ddlsim::io {

/// "NVIDIA A100 80GB SXM4" and "8x A100-SXM-80G" are {80gb, a100, sxm}: in no order, without makers, families, kinds of
/// memory, generations of a form and how many there are.
[[nodiscard]] std::set<std::string> gpu_words(std::string_view name);

}  // namespace ddlsim::io
