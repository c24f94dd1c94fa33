#include "table.h"

#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/support/names.h"

namespace ddlsim::report {
namespace {

/// Characters on the screen: bytes that do not continue a UTF-8 sequence.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6) != 0x2; }));
}

}  // namespace

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string percent(double share, int decimals) { return fmt::format("{:.{}f} %", share * 100.0, decimals); }

std::string Table::render(Format format) const {
  switch (format) {
    case Format::kText: return text();
    case Format::kMd:
    case Format::kHtml:
    case Format::kSvg: return markdown();
    case Format::kCsv:
    case Format::kJson: return csv();
  }
  return text();
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  widths.reserve(header_.size());
  for (const std::string& cell : header_) widths.push_back(width_of(cell));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string out;
  const auto line = [&](const std::vector<std::string>& row) {
    std::string cells;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - width_of(row[i]), ' ');
      cells += (i > 0 ? "  " : "") + (i >= numbers_from_ ? gap + row[i] : row[i] + gap);
    }
    cells.erase(cells.find_last_not_of(' ') + 1);
    out += cells + "\n";
  };
  line(header_);
  for (const auto& row : rows_) line(row);
  return out;
}

std::string Table::csv() const {
  std::string out;
  const auto line = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) out += (i > 0 ? "," : "") + csv_field(row[i]);
    out += "\n";
  };
  line(header_);
  for (const auto& row : rows_) line(row);
  return out;
}

std::string Table::markdown() const {
  const auto cells = [](std::vector<std::string> row) {
    for (std::string& cell : row) {
      for (std::size_t i = 0; (i = cell.find('|', i)) != std::string::npos; i += 2) cell.insert(i, "\\");
    }
    return "| " + join(row, " | ") + " |\n";
  };
  std::string out = cells(header_) + "|";
  for (std::size_t i = 0; i < header_.size(); ++i) out += i >= numbers_from_ ? "---:|" : "---|";
  out += "\n";
  for (const auto& row : rows_) out += cells(row);
  return out;
}

}  // namespace ddlsim::report
