// The data the program comes with, to read and to break.
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "ddlsim/io/catalog.h"
#include "files.h"

namespace ddlsim::test {

namespace fs = std::filesystem;
using io::Catalog;

template <typename T>
std::string said(const Expected<T>& result) {
  return result ? std::string() : to_string(result.error());
}

/// A copy of the real data that a test may break, and that goes away with it.
class DataCopy {
 public:
  DataCopy() : root_(fs::temp_directory_path() / ("ddlsim-catalog-test-" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
    for (const char* folder : {"models", "hardware"}) {
      fs::copy(fs::path(DDLSIM_SOURCE_DATA) / folder, root_ / folder, fs::copy_options::recursive);
    }
  }
  ~DataCopy() { fs::remove_all(root_); }
  DataCopy(const DataCopy&) = delete;
  DataCopy& operator=(const DataCopy&) = delete;

  [[nodiscard]] fs::path path(const std::string& file) const { return root_ / file; }
  /// Replaces the first `from` after `after` in a file; the test is void if it is not there.
  void edit(const std::string& file, const std::string& after, const std::string& from, const std::string& to) const {
    std::string text = contents(path(file));
    const std::size_t start = text.find(after);
    REQUIRE(start != std::string::npos);
    const std::size_t place = text.find(from, start);
    REQUIRE(place != std::string::npos);
    text.replace(place, from.size(), to);
    std::ofstream(path(file)) << text;
  }
  [[nodiscard]] Expected<Catalog> open() const { return Catalog::open(root_); }

 private:
  fs::path root_;
};

}  // namespace ddlsim::test
