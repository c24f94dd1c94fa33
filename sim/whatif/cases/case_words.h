// Words of a case that stand for nothing here: a family of architectures, keys of `extra`. Private to the room.
#pragma once

#include "ddlsim/io/case_file.h"
#include "ddlsim/support/error.h"

namespace ddlsim::whatif {

/// Errors: kUnsupported for an architecture that is none of bench/accuracy/README.md's, for one GPU's of several GPUs,
/// and for a key of `extra` that is a slip for one that is read. Any other key is a note of its source's.
[[nodiscard]] Expected<void> check_words(const io::Case& one);

}  // namespace ddlsim::whatif
