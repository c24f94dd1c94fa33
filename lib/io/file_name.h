// What a file of the catalogue is called, and what it says it is.
#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <string>

#include "ddlsim/io/hardware_files.h"
#include "ddlsim/support/error.h"

namespace ddlsim::io {

inline const std::string& id_of(const NodeFile& file) { return file.node.id; }
template <typename T>
const std::string& id_of(const T& thing) {
  return thing.id;
}

/// A file must be named after what it holds, or look-up by name would lie.
template <typename T>
Expected<T> check_id(Expected<T> value, const std::filesystem::path& path) {
  const bool nameless = path.parent_path() == "/proc/self/fd";  // standard input, as the program passes it on
  if (!value || nameless || id_of(*value) == path.stem().string()) return value;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("the file is named '{}' but describes '{}'", path.stem().string(), id_of(*value)),
              {path.string(), 1, 1});
}

}  // namespace ddlsim::io
