// A table that can be aligned text, CSV or Markdown.
#pragma once

#include <string>
#include <vector>

#include "ddlsim/report/format.h"

namespace ddlsim::report {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Columns from here on are numbers: aligned right in text.
  void numbers_from(std::size_t column) { numbers_from_ = column; }
  /// kJson is not a table's business and gives CSV; nor are pictures, and they give Markdown.
  [[nodiscard]] std::string render(Format format) const;

 private:
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string csv() const;
  [[nodiscard]] std::string markdown() const;

  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
  std::size_t numbers_from_ = 1;
};

/// Quoted where it must be.
[[nodiscard]] std::string csv_field(const std::string& text);

/// "62.0 %"
[[nodiscard]] std::string percent(double share, int decimals = 1);

}  // namespace ddlsim::report
