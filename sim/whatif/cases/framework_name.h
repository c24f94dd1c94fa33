// The framework that a case names, as its readers know it. Private to the room.
//
// Sources write "PyTorch 1.7", "pytorch==1.7.1", "torch 1.7", "TF2", or the name of a library alone. What follows is by
// the framework whose operators run, and by its release. Limits: names that nobody knows stay as they are.
//
// Worked example: "TF-1.15" is "tensorflow 1.15", "torch1.7" is "pytorch 1.7", "fairseq 0.10" is "fairseq 0.10
// (pytorch)"; "Torch 7", the old one in Lua, stays.
#pragma once

#include <string>

#include "ddlsim/io/case_file.h"

namespace ddlsim::whatif {

/// In lower case.
[[nodiscard]] std::string framework_of(const io::Case& one);

}  // namespace ddlsim::whatif
