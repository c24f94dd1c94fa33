// For readers that take a file by its name: the input as a file, written anew each time.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "input.h"

namespace ddlsim::fuzz {

/// One per process, since several targets run at a time.
inline std::filesystem::path file_of(const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("ddlsim-fuzz-" + std::to_string(getpid()));
  std::FILE* file = std::fopen(path.c_str(), "wb");
  require(file != nullptr);
  require(std::fwrite(data, 1, size, file) == size);
  require(std::fclose(file) == 0);
  return path;
}

}  // namespace ddlsim::fuzz
