// Files that a scenario or a grid names: found beside it. Private to the room.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace ddlsim::whatif {

/// The value of a setting as its file means it. Where the setting may name a file (`model`, `node`, `gpu`, `network`,
/// the data set, the storage, tables and runs, of other jobs too) and the value does so by a relative path, the file
/// beside `file` if there is one; else the value as it stands, which a command line would look for from where it is
/// typed.
[[nodiscard]] std::string found_beside(const std::filesystem::path& file, std::string_view setting,
                                       const std::string& value);

}  // namespace ddlsim::whatif
