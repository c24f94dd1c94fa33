#include "page.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace ddlsim::report {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #ffffff; --faint: #d8d8d8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616; --faint: #3a3a3a; } }
@media print { :root { --ink: #000000; --paper: #ffffff; --faint: #bbbbbb; } figure, table { break-inside: avoid; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.35rem; line-height: 1.35; margin: 0 0 0.5rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 0.5rem; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; margin-bottom: 0.5rem; }
svg { width: 100%; height: auto; color: var(--ink); } rect:focus { outline: 2px solid var(--ink); }
div.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.875rem; margin: 1rem 0; }
th, td { padding: 0.25rem 0.75rem 0.25rem 0; border-bottom: 1px solid var(--faint); text-align: left; }
th { vertical-align: bottom; } td:first-child { white-space: nowrap; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
p { margin: 0.5rem 0; } ul { padding-left: 1.2rem; font-size: 0.875rem; }
@media print { div.wide { overflow-x: visible; } table { font-size: 0.7rem; } }
)";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

/// "| a | b\|c |" are a and b|c.
std::vector<std::string> cells_of(std::string_view row) {
  std::vector<std::string> cells;
  std::string cell;
  for (std::size_t i = 1; i < row.size(); ++i) {
    if (row[i] == '\\' && i + 1 < row.size() && row[i + 1] == '|') {
      cell += row[++i];
    } else if (row[i] == '|') {
      cells.push_back(cell.size() >= 2 ? cell.substr(1, cell.size() - 2) : std::string());
      cell.clear();
    } else {
      cell += row[i];
    }
  }
  return cells;
}

/// A table's rows, the second of which says how columns are aligned.
std::string table_of(const std::vector<std::string_view>& rows) {
  constexpr std::size_t kLongestNumber = 36;
  // The last column without a name has bars of letters, which pictures say better.
  const std::vector<std::string> names = cells_of(rows[0]);
  const std::size_t columns = names.size() > 1 && names.back().empty() ? names.size() - 1 : names.size();
  std::vector<bool> numbers;
  for (std::size_t at = 1; at < rows[1].size();) {
    const std::size_t end = rows[1].find('|', at);
    if (end == std::string_view::npos) break;
    numbers.push_back(rows[1].substr(at, end - at).ends_with(':'));
    at = end + 1;
  }
  std::string html = "<div class=\"wide\"><table>\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (r == 1) continue;
    const std::string_view tag = r == 0 ? "th" : "td";
    html += "<tr>";
    const std::vector<std::string> cells = cells_of(rows[r]);
    for (std::size_t c = 0; c < std::min(cells.size(), columns); ++c) {
      const bool number = c < numbers.size() && numbers[c] && cells[c].size() <= kLongestNumber;
      // Two spaces before a name: a part of what stands above.
      const std::string_view indent = cells[c].starts_with("  ") ? "&emsp;" : "";
      html += fmt::format("<{}{}{}>{}{}</{}>", tag, r == 0 ? " scope=\"col\"" : "", number ? " class=\"n\"" : "",
                          indent, escaped(cells[c]), tag);
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

/// Everything after the first line.
std::string body_of(const std::vector<std::string_view>& lines) {
  constexpr std::string_view kNote = "note: ";
  std::string html;
  std::string notes;
  std::vector<std::string_view> table;
  const auto end_table = [&] {
    if (table.size() >= 2) html += table_of(table);
    table.clear();
  };
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if (line.starts_with('|')) {
      table.push_back(line);
      continue;
    }
    end_table();
    if (line.starts_with(kNote)) {
      notes += "<li>" + escaped(line.substr(kNote.size())) + "</li>\n";
    } else if (!line.empty()) {
      html += "<p>" + escaped(line) + "</p>\n";
    }
  }
  end_table();
  if (!notes.empty()) html += "<h2>Notes</h2>\n<ul>\n" + notes + "</ul>\n";
  return html;
}

std::string svg_of(const Picture& picture, bool alone) {
  return std::visit([&](const auto& chart) { return report::svg_of(chart, alone); }, picture.chart);
}

}  // namespace

std::string drawn(Format format, const std::vector<Picture>& pictures, const std::string& markdown) {
  if (format == Format::kSvg) return pictures.empty() ? std::string() : svg_of(pictures.front(), true);
  const std::vector<std::string_view> lines = lines_of(markdown);
  const std::string answer = lines.empty() ? std::string() : escaped(lines.front());
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n",
      answer, kStyle, answer);
  for (const Picture& picture : pictures) {
    html += "<figure>\n<figcaption>" + escaped(picture.heading) + "</figcaption>\n" + svg_of(picture, false) +
            "</figure>\n";
  }
  return html + body_of(lines) + "</main>\n</body>\n</html>\n";
}

}  // namespace ddlsim::report
