#include "ddlsim/io/csv.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "ddlsim/support/names.h"

namespace ddlsim::io {
namespace {

constexpr std::size_t kMaxFields = 1000;
constexpr std::size_t kMaxLine = std::size_t{1} << 20;

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Spreadsheets of some languages write other separators; 0: none that stands alone.
char other_separator(std::string_view header) {
  if (header.find(',') != std::string_view::npos) return 0;
  for (const char mark : {';', '\t'}) {
    if (header.find(mark) != std::string_view::npos) return mark;
  }
  return 0;
}

}  // namespace

Expected<CsvReader> CsvReader::open(std::istream& stream, std::string file, std::vector<std::string> columns,
                                    const std::vector<std::string>& optional, OtherColumns others) {
  const std::size_t needed = columns.size();
  columns.insert(columns.end(), optional.begin(), optional.end());
  CsvReader reader(stream, std::move(file));
  const auto first = reader.read_line();
  if (!first) return tl::unexpected<Error>(first.error());
  if (!*first) return fail(ErrorCode::kParse, "the file is empty", {reader.file_, 1, 1}, {"columns: " + join(columns)});
  if (auto fields = reader.split(); !fields) return tl::unexpected<Error>(fields.error());
  if (const char mark = other_separator(reader.line_); mark != 0 && columns.size() > 1) {
    return fail(ErrorCode::kParse,
                fmt::format("columns are separated by {}, not by commas", mark == ';' ? "';'" : "tabs"), reader.at(0),
                {"save it as CSV with commas (decimals with a point)"});
  }
  std::vector<Error> errors;
  reader.place_.assign(columns.size(), kAbsent);
  for (std::size_t i = 0; i < reader.used_; ++i) {
    const Field& field = reader.fields_[i];
    const auto column = std::find(columns.begin(), columns.end(), field.text);
    const auto index = static_cast<std::size_t>(column - columns.begin());
    const std::string name(field.text.substr(0, 60));
    if (column == columns.end() && others == OtherColumns::kPassedOver) continue;
    if (column == columns.end()) {
      errors.push_back(Error{ErrorCode::kParse,
                             fmt::format("unknown column '{}'", name),
                             reader.at(field.offset),
                             {suggestion(field.text, columns)},
                             {}});
    } else if (reader.place_[index] != kAbsent) {
      errors.push_back(
          Error{ErrorCode::kParse, fmt::format("duplicate column '{}'", name), reader.at(field.offset), {}, {}});
    } else {
      reader.place_[index] = i;
    }
  }
  for (std::size_t i = 0; i < needed; ++i) {
    if (reader.place_[i] != kAbsent) continue;
    errors.push_back(Error{ErrorCode::kParse,
                           fmt::format("the column '{}' is missing", columns[i]),
                           {reader.file_, reader.line_number_, static_cast<int>(reader.line_.size()) + 1},
                           {"columns: " + join(columns)},
                           {}});
  }
  if (!errors.empty()) return fail_with_all(std::move(errors));
  return reader;
}

Expected<bool> CsvReader::next() {
  const std::size_t columns = used_;
  auto more = read_line();
  if (!more || !*more) return more;
  if (auto fields = split(); !fields) return tl::unexpected<Error>(fields.error());
  if (used_ != columns) {
    const std::size_t found = used_;
    used_ = columns;
    return fail(ErrorCode::kParse, fmt::format("{} fields, but the header names {} columns", found, columns),
                {file_, line_number_, 1});
  }
  return true;
}

SourceLocation CsvReader::where(std::size_t column) const {
  return at(has(column) ? fields_[place_[column]].offset : 0);
}

Expected<bool> CsvReader::read_line() {
  for (;;) {
    line_.clear();
    // Piece by piece, so that a file without line ends is refused before it fills the memory.
    std::array<char, 4096> piece{};
    bool more = false;
    do {
      stream_->getline(piece.data(), piece.size());
      const auto taken = static_cast<std::size_t>(stream_->gcount());
      const bool ended = !stream_->fail() && !stream_->eof();  // the line's end was taken, but not stored
      line_.append(piece.data(), ended ? taken - 1 : taken);
      more = stream_->fail() && !stream_->eof() && taken == piece.size() - 1;
      if (more) stream_->clear();
    } while (more && line_.size() <= kMaxLine);
    if (stream_->bad()) return fail(ErrorCode::kIo, "could not be read", {file_, line_number_, 0});
    if (stream_->fail() && line_.empty()) return false;
    ++line_number_;
    if (line_.size() > kMaxLine) {
      return fail(ErrorCode::kParse, fmt::format("a line of over {} characters", kMaxLine), {file_, line_number_, 1});
    }
    if (line_.find('\0') != std::string::npos) {
      return fail(ErrorCode::kParse, "is no text: it has a zero byte", {file_, line_number_, 0});
    }
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    if (line_number_ == 1 && line_.starts_with("\xEF\xBB\xBF")) line_.erase(0, 3);  // a byte-order mark
    if (!line_.empty() && line_.front() != '#') return true;
  }
}

Expected<void> CsvReader::split() {
  used_ = 0;
  const std::string_view line = line_;
  for (std::size_t i = 0;;) {
    if (used_ == kMaxFields) return fail(ErrorCode::kParse, fmt::format("more than {} fields", kMaxFields), at(i));
    if (used_ == fields_.size()) fields_.emplace_back();
    Field& field = fields_[used_++];
    field.offset = i;
    if (i < line.size() && line[i] == '"') {
      field.unquoted.clear();
      std::size_t k = i + 1;
      for (; k < line.size(); ++k) {
        if (line[k] != '"') {
          field.unquoted += line[k];
        } else if (k + 1 < line.size() && line[k + 1] == '"') {
          field.unquoted += line[k++];
        } else {
          break;
        }
      }
      if (k >= line.size()) return fail(ErrorCode::kParse, "a quote is not closed", at(i));
      field.text = field.unquoted;
      i = k + 1;
      if (i < line.size() && line[i] != ',') return fail(ErrorCode::kParse, "text after a closing quote", at(i));
    } else {
      const std::size_t end = std::min(line.find(',', i), line.size());
      field.text = trim(line.substr(i, end - i));
      i = end;
    }
    if (i >= line.size()) return {};
    ++i;  // the comma
  }
}

}  // namespace ddlsim::io
