// Words of a case that stand for nothing here: a family of architectures, keys of `extra`. Private to the room.
#pragma once

#include <string>
#include <vector>

#include "ddlsim/io/case_file.h"

namespace ddlsim::whatif {

/// Whether the samples of a whole model's step, where they are said, are as many passes of its batch on every GPU.
[[nodiscard]] bool fits_global_batch(const io::Case& one);

/// What of a case counts for nothing, and what is assumed instead: an architecture that is none of
/// bench/accuracy/README.md's, one GPU's of several GPUs, a global batch that its batch does not divide, words of an
/// exchange that no setting has (case_strategy.h), a key of `extra` that is a slip for one that is read. Any other key
/// is a note of its source's.
[[nodiscard]] std::vector<std::string> unread_words(const io::Case& one);

}  // namespace ddlsim::whatif
