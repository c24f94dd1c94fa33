// Files the program writes. An output does no harm: a file stands whole under its name or not at all, and what stood
// there before survives every failure.
//
// - A regular file, or a name that is free: written under another name beside it, then renamed onto it. A symbolic link
//   stays one; its target is replaced. An existing file keeps its permissions, and one that may not be written stays.
// - Everything else (a FIFO, a terminal, /dev/null, /dev/stdout, /dev/fd/3): written straight through. Folders and
//   block devices are refused.
// - Every failed open, write, fsync, close and rename is an error that names the path.
// - SIGINT, SIGTERM and SIGHUP remove what is half written, then end the program as they would have.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/support/error.h"

namespace ddlsim::cli {

/// A new, empty file beside `target` that goes away, by signal too, unless it is renamed.
class PartialFile {
 public:
  [[nodiscard]] static Expected<PartialFile> beside(const std::string& target);
  ~PartialFile();
  PartialFile(PartialFile&& other) noexcept;
  PartialFile& operator=(PartialFile&&) = delete;
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Its descriptor, open for writing; the caller's from now on.
  [[nodiscard]] int take_descriptor();
  [[nodiscard]] Expected<void> rename_to(const std::string& target);

 private:
  PartialFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;  // empty: renamed, or moved from
  int descriptor_ = -1;
};

class OutputFile {
 public:
  [[nodiscard]] static Expected<OutputFile> open(const std::string& path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  [[nodiscard]] Expected<void> write(std::string_view text);
  /// All that was written is on the disk, under a name of its own; several files can so be put in place together.
  [[nodiscard]] Expected<void> close();
  /// Closes it and puts it in its place. Without this, nothing happened (to a regular file).
  [[nodiscard]] Expected<void> commit();

 private:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  Expected<void> open_partial(const std::string& target, bool exists);
  [[nodiscard]] Expected<void> send(std::string_view text) const;
  [[nodiscard]] tl::unexpected<Error> as_typed(Error error) const;

  std::string path_;    // as the user wrote it
  std::string target_;  // what it leads to
  std::optional<PartialFile> partial_;
  int descriptor_ = -1;
  std::string buffer_;
};

/// Writes `text` to `path` by an OutputFile.
[[nodiscard]] Expected<void> write_file(const std::string& path, std::string_view text);

/// Opens the standard descriptors that the caller closed so that they fail: no output file may get their numbers.
void occupy_standard_descriptors();

}  // namespace ddlsim::cli
