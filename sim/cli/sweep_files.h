// Files of a sweep: lines as they come, and what `--report` and `--merge` do with files of results.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/report/format.h"
#include "ddlsim/support/error.h"
#include "output.h"
#include "program.h"

namespace ddlsim::cli {

/// Where lines go: standard output, or a file that stands whole or not at all.
class LineSink {
 public:
  [[nodiscard]] static Expected<LineSink> open(const std::string& path) {
    LineSink sink;
    if (path.empty()) return sink;
    auto file = OutputFile::open(path);
    if (!file) return tl::unexpected<Error>(file.error());
    sink.file_.emplace(std::move(*file));
    return sink;
  }
  [[nodiscard]] Expected<void> write(const std::string& text) {
    if (file_) return file_->write(text);
    if (print(text) == kDone) return {};
    failed_ = true;  // said already
    return fail(ErrorCode::kIo, "");
  }
  [[nodiscard]] Expected<void> close() { return file_ ? file_->commit() : Expected<void>(); }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  std::optional<OutputFile> file_;
  bool failed_ = false;
};

/// Whether a name says that the file is SQLite's.
[[nodiscard]] bool is_database(const std::string& path);

/// A line of JSON says which program it is of, and which data; other lines stay as they are.
[[nodiscard]] std::string with_program(const std::string& line, std::string_view version, std::string_view data);

/// What a file of results comes to, or its rows; to `out`, else standard output. Returns the exit status.
int report_results(const std::string& database, const std::string& out, report::Format format);

/// Parts of one grid become `out`, which is not there yet. Returns the exit status.
int merge_results(const std::vector<std::string>& parts, const std::string& out);

}  // namespace ddlsim::cli
