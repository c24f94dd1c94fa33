// The files of a measurement: rows for the fit, and FILE.extra.jsonl for what it does not read. Host only.
//
// The first line of each is the context; rows are only ever appended, and flushed one by one. To go on with a file, its
// last line is dropped if it was cut, and every row's keys (all before "time_s") tell which points it has.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "json_line.h"

namespace ddlsim::measure {

/// The keys of a row up to "time_s"; empty if it has none.
inline std::string keys_of_row(const std::string& row) {
  const std::size_t end = row.find(",\"time_s\":");
  return end == std::string::npos || row.empty() || row.front() != '{' ? "" : row.substr(1, end - 1);
}

/// The text of `"key":"..."` in a line; empty if it is not there.
inline std::string text_of(const std::string& line, const std::string& key) {
  const std::string start = quoted(key) + ":\"";
  const std::size_t from = line.find(start);
  if (from == std::string::npos) return {};
  const std::size_t at = from + start.size();
  return line.substr(at, std::min(line.find('"', at), line.size()) - at);
}

class Record {
 public:
  ~Record() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Record() = default;
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  /// Empty, or what is wrong. `context` is the first line of a new file; one to go on with must be of the same `gpu`
  /// and `driver`.
  std::string open(const std::string& path, const std::string& context, bool resume, bool force) {
    struct stat found {};
    const bool exists = ::stat(path.c_str(), &found) == 0;
    if (exists && !resume && !force)
      return path + " is there already: --resume it, --force to overwrite, or another --out";
    if (resume && exists) {
      std::string problem = read(path, context);
      if (!problem.empty()) return problem;
    }
    const bool goes_on = resume && exists && lines_ > 0;
    file_ = std::fopen(path.c_str(), goes_on ? "a" : "w");
    if (file_ == nullptr) return path + " cannot be written";
    return goes_on || write(context) ? "" : path + " cannot be written";
  }

  [[nodiscard]] bool has(const std::string& keys) const { return rows_.count(keys) != 0; }
  bool write(const std::string& line) {
    return std::fputs((line + "\n").c_str(), file_) >= 0 && std::fflush(file_) == 0;
  }

 private:
  std::string read(const std::string& path, const std::string& context) {
    std::ifstream stream(path, std::ios::binary);
    std::stringstream all;
    all << stream.rdbuf();
    const std::string text = all.str();
    const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
    if (whole != text.size() && ::truncate(path.c_str(), static_cast<off_t>(whole)) != 0)
      return path + " cannot be written";
    std::istringstream lines(text.substr(0, whole));
    for (std::string line; std::getline(lines, line); ++lines_) {
      if (lines_ == 0) {
        for (const char* key : {"schema", "gpu", "driver"}) {
          const std::string before = text_of(line, key);
          const std::string now = text_of(context, key);
          if (before != now) return path + ": its " + key + " is '" + before + "', this is '" + now + "'";
        }
      }
      const std::string keys = keys_of_row(line);
      if (!keys.empty()) rows_.insert(keys);
    }
    return {};
  }

  std::FILE* file_ = nullptr;
  std::set<std::string> rows_;
  std::size_t lines_ = 0;
};

}  // namespace ddlsim::measure
