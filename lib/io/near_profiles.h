// Which profiles may answer for a GPU, from as few files as possible.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace ddlsim::io {

/// What a file says for `key` in its head, the lines before the first value of several lines; empty: all of the file
/// must be read.
[[nodiscard]] std::string said_in_head(const std::filesystem::path& path, std::string_view key);

}  // namespace ddlsim::io
