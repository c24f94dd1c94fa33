#include <filesystem>

#include "ddlsim/report/views.h"
#include "ddlsim/whatif/validate.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kExamples = R"(
CASES.csv has the columns of bench/accuracy/README.md; several files make one table with a row each. --format csv lists
every case.

Examples:
  ddlsim validate bench/accuracy/cases/*.csv
  ddlsim validate --anchor first cases.csv --json)";

}  // namespace

int run_validate(const std::vector<std::string>& arguments) {
  CLI::App app("Compare predictions with published measurements.", "ddlsim validate");
  app.footer(std::string(kExamples));
  FormatFlags format;
  std::string data;
  std::string anchor = "none";
  std::vector<std::string> files;
  format.add_to(app, true);
  app.add_option("cases", files, "CASES.csv, one or more")->type_name("CASES.csv");
  app.add_option("--anchor", anchor,
                 "what is given of each group: none, first (its smallest row), node (rows of one "
                 "server), rest (all but its largest)")
      ->type_name("none|first|node|rest");
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  const report::Format shape = format.get();
  const auto way = parse_choice(whatif::kAnchors, anchor, "anchor");
  if (!way) throw UsageError{way.error().message, way.error().notes.front()};
  if (files.empty()) throw UsageError{"no CASES.csv named", "write ddlsim validate CASES.csv"};
  const auto catalog = open_catalog(data);
  if (!catalog) return print(catalog.error());
  std::vector<whatif::CaseSet> sets;
  for (const std::string& file : files) {
    auto cases = io::load_cases(file);
    if (!cases) return print(cases.error());
    sets.push_back({std::filesystem::path(file).stem().string(), std::move(*cases)});
  }
  return print(report::render(whatif::validate(*catalog, sets, *way), shape));
}

}  // namespace ddlsim::cli
