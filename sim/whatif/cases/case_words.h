// Words of a case that stand for nothing here: a family of architectures, keys of `extra`. Private to the room.
#pragma once

#include <string>
#include <vector>

#include "ddlsim/io/case_file.h"

namespace ddlsim::whatif {

/// What of a case counts for nothing, and what is assumed instead: an architecture that is none of
/// bench/accuracy/README.md's, one GPU's of several GPUs, a key of `extra` that is a slip for one that is read. Any
/// other key is a note of its source's.
[[nodiscard]] std::vector<std::string> unread_words(const io::Case& one);

}  // namespace ddlsim::whatif
