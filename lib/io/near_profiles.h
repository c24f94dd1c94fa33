// Which profiles may answer for a GPU, from as few files as possible.
#pragma once

#include <filesystem>
#include <string>

namespace ddlsim::io {

/// The GPU that a profile's file names in its head, the lines before the curves; empty: all of the file must be read.
[[nodiscard]] std::string gpu_in_head(const std::filesystem::path& path);

}  // namespace ddlsim::io
