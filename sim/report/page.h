// An answer as one HTML file: its pictures, then all that its Markdown says. Nothing is loaded from anywhere, no script
// runs; light or dark as the reader's system has it, dark on white on paper.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ddlsim/report/format.h"
#include "picture.h"

namespace ddlsim::report {

/// A chart of either kind with the line that stands above it.
struct Picture {
  std::string heading;
  std::variant<BarChart, Chart> chart;
};

/// kSvg: the first picture by itself; kHtml: a page of all of them and `markdown`: tables of Table::render, `note: `
/// lines, and other lines as paragraphs, the first of which is the answer.
[[nodiscard]] std::string drawn(Format format, const std::vector<Picture>& pictures, const std::string& markdown);

}  // namespace ddlsim::report
