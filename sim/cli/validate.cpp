#include <filesystem>

#include "ddlsim/report/views.h"
#include "ddlsim/whatif/validate.h"
#include "program.h"
#include "terminal.h"
#include "value_types.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kValidateExamples = R"(
CASES.csv has the columns of bench/accuracy/README.md; several files make one table with a row each. --format csv lists
every case.

Examples:
  ddlsim validate bench/accuracy/cases/*.csv
  ddlsim validate --anchor first cases.csv --json
  ddlsim validate cases.csv --row run-17)";

answer::Validation validate_with_progress(const io::Catalog& catalog, const std::vector<whatif::CaseSet>& sets,
                                          whatif::Anchor anchor) {
  std::int64_t rows = 0;
  for (const whatif::CaseSet& set : sets) rows += static_cast<std::int64_t>(set.cases.size());
  ProgressLine progress("cases");
  return whatif::validate(catalog, sets, anchor, [&](std::int64_t done) { progress(done, rows - done); });
}

}  // namespace

int run_validate(const std::vector<std::string>& arguments) {
  CLI::App app("Compare predictions with published measurements.", "ddlsim validate");
  app.footer(std::string(kValidateExamples));
  FormatFlags format;
  std::string data;
  std::string row;
  std::string anchor = "none";
  std::vector<std::string> files;
  format.add_to(app, true);
  app.add_option("cases", files, "published measurements")->type_name("CASES.csv");
  app.add_option(
         "--anchor", anchor,
         "what is given of each group: nothing, its smallest row (first), rows of one server (node), all but its "
         "largest (rest)")
      ->type_name(one_of(whatif::kAnchors))
      ->default_str("none");
  app.add_option("--row", row, "one row in full: what it is taken to mean, and its prediction")->type_name("ID");
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  const report::Format shape = format.get();
  const auto way = parse_choice(whatif::kAnchors, anchor, "anchor");
  if (!way) throw UsageError{way.error().message, way.error().notes.front()};
  if (row.empty() && app.count("--row") > 0) throw UsageError{"--row has an empty value", "name the id of a row"};
  if (!row.empty() && report::is_drawn(shape)) {
    throw UsageError{"--format: this answer has no picture", "valid: text, json, csv, md"};
  }
  if (files.empty()) throw UsageError{"no CASES.csv named", "write ddlsim validate CASES.csv"};
  const auto catalog = open_catalog(data);
  if (!catalog) return print(catalog.error());
  std::vector<whatif::CaseSet> sets;
  for (const std::string& file : files) {
    auto cases = io::load_cases(file);
    if (!cases) return print(cases.error());
    sets.push_back({std::filesystem::path(file).stem().string(), std::move(*cases)});
  }
  if (!row.empty()) {
    const auto reading = whatif::read_case(*catalog, sets, row, *way);
    return reading ? print_answer(report::render(*reading, shape), shape, &*catalog) : print(reading.error());
  }
  return print_answer(report::render(validate_with_progress(*catalog, sets, *way), shape), shape, &*catalog);
}

}  // namespace ddlsim::cli
