// Words for links.
#pragma once

#include <string>

#include "ddlsim/hardware/node.h"

namespace ddlsim::hardware {

/// What people call links between GPUs, which are of kind nvlink whoever makes them, by the name in their file:
/// "NVLink", "Infinity Fabric", else "links between GPUs".
[[nodiscard]] inline std::string gpu_link_word(const Link& link) {
  for (const char* word : {"NVLink", "Infinity Fabric"}) {
    if (link.name.find(word) != std::string::npos) return word;
  }
  return "links between GPUs";
}

}  // namespace ddlsim::hardware
