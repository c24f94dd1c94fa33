// One row of a CSV file, its faults collected. Private to the room.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/io/csv.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::io {

class RowReader {
 public:
  /// `names` of the columns, in the order in which the reader was asked for them. Both must outlive it.
  RowReader(const CsvReader& csv, const std::vector<std::string>& names) : csv_(csv), names_(names) {}

  [[nodiscard]] std::string text(std::size_t column) const { return std::string(csv_.field(column)); }

  std::string needed(std::size_t column) {
    if (csv_.field(column).empty()) {
      report(fail(ErrorCode::kParse, fmt::format("'{}' is empty", names_[column])), column);
    }
    return text(column);
  }

  std::int64_t count(std::size_t column) {
    return keep(parse_count(csv_.field(column), {1, std::int64_t{1} << 40}), column).value_or(1);
  }

  template <typename T>
  Expected<T> keep(Expected<T> parsed, std::size_t column) {
    if (!parsed) report(tl::unexpected<Error>(parsed.error()), column);
    return parsed;
  }

  void report(tl::unexpected<Error> problem, std::size_t column) {
    if (errors_.size() == kMaxErrors) return;
    problem.value().where = csv_.where(column);
    errors_.push_back(std::move(problem.value()));
  }

  [[nodiscard]] std::vector<Error>& errors() { return errors_; }

 private:
  const CsvReader& csv_;
  const std::vector<std::string>& names_;
  std::vector<Error> errors_;
};

/// `read(row)` for every row; what is wrong with any of them together, up to kMaxErrors.
template <typename Read>
Expected<void> for_each_row(CsvReader& csv, const std::vector<std::string>& names, Read&& read) {
  std::vector<Error> errors;
  while (errors.size() < kMaxErrors) {
    const auto more = csv.next();
    if (!more) {
      errors.push_back(more.error());
      break;
    }
    if (!*more) break;
    RowReader row(csv, names);
    read(row);
    std::move(row.errors().begin(), row.errors().end(), std::back_inserter(errors));
  }
  if (!errors.empty()) return fail_with_all(std::move(errors));
  return {};
}

}  // namespace ddlsim::io
