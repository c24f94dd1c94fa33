// Opens a text file that is read line by line: a table, a log.
#pragma once

#include <filesystem>
#include <fstream>

#include "ddlsim/support/error.h"

namespace ddlsim::io {

/// Errors: kIo, saying what stands there instead: nothing, a folder, what may not be read.
[[nodiscard]] Expected<std::ifstream> open_table(const std::filesystem::path& path);

}  // namespace ddlsim::io
