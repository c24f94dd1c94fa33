// A fingerprint of texts and files, to notice that they changed: FNV-1a, 64 bits. Not for who wants to be deceived.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "ddlsim/support/error.h"

namespace ddlsim::io {

class ContentHash {
 public:
  /// Two texts in a row are not the one that they make together.
  void add(std::string_view text);
  /// 16 hexadecimal digits.
  [[nodiscard]] std::string hex() const;

 private:
  std::uint64_t state_ = 0xcbf29ce484222325U;
};

/// Of every file of the data a program comes with: names and contents of models/ and hardware/ under `root`.
[[nodiscard]] Expected<std::string> fingerprint_of(const std::filesystem::path& root);

}  // namespace ddlsim::io
