// A regular file mapped read-only: pages come from disk only where they are read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "ddlsim/support/error.h"

namespace ddlsim::importers::onnx {

class MappedFile {
 public:
  /// Errors: kIo for what cannot be opened or is no regular file, kParse for an empty one.
  /// Whoever cuts the file short while it is mapped ends the program, as with any mapping.
  [[nodiscard]] static Expected<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::string_view bytes() const { return {data_, size_}; }

 private:
  MappedFile(const char* data, std::size_t size) : data_(data), size_(size) {}

  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ddlsim::importers::onnx
