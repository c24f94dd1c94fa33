// Streaming CSV: one row in memory, whatever the file's length.
//
// The first line names the columns, in any order; every wanted column must be there and no other but the optional ones,
// whose fields are empty where the file does not have them. Of somebody else's files further columns are passed over.
// Fields may be quoted ("a, b"; "" is a quote); a field does not span lines. Blank lines and lines that start with '#'
// are passed over.
// Refused, with file:line:column: missing, unknown and duplicate columns, a row with too few or too many fields, an
// open quote, a line over 1 MiB.
#pragma once

#include <deque>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/support/error.h"

namespace ddlsim::io {

/// What becomes of columns that nobody wants.
enum class OtherColumns { kRefused, kPassedOver };

class CsvReader {
 public:
  /// Reads the header. `file` is the name used in errors; the stream must outlive the reader.
  /// Optional columns are numbered on from the wanted ones.
  [[nodiscard]] static Expected<CsvReader> open(std::istream& stream, std::string file,
                                                std::vector<std::string> columns,
                                                const std::vector<std::string>& optional = {},
                                                OtherColumns others = OtherColumns::kRefused);

  /// Moves to the next row; false at the end.
  [[nodiscard]] Expected<bool> next();
  /// A field of the current row, by its index in the wanted columns. Valid until the next call of `next`.
  [[nodiscard]] std::string_view field(std::size_t column) const {
    return has(column) ? fields_[place_[column]].text : std::string_view{};
  }
  /// The place of a field; of the line where the file does not have the column.
  [[nodiscard]] SourceLocation where(std::size_t column) const;
  [[nodiscard]] bool has(std::size_t column) const { return place_[column] != kAbsent; }

 private:
  struct Field {
    std::string_view text;
    std::size_t offset = 0;
    std::string unquoted;
  };

  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);

  CsvReader(std::istream& stream, std::string file) : stream_(&stream), file_(std::move(file)) {}
  Expected<bool> read_line();
  Expected<void> split();
  [[nodiscard]] SourceLocation at(std::size_t offset) const {
    return {file_, line_number_, static_cast<int>(offset) + 1};
  }

  std::istream* stream_;
  std::string file_;
  std::string line_;
  int line_number_ = 0;
  std::deque<Field> fields_;        // grows without moving what `text` may point into
  std::size_t used_ = 0;            // of fields_, in the current row
  std::vector<std::size_t> place_;  // wanted column -> field
};

}  // namespace ddlsim::io
