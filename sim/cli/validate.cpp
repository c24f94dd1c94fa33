#include <filesystem>

#include "ddlsim/report/views.h"
#include "ddlsim/whatif/validate.h"
#include "program.h"
#include "standard_input.h"
#include "terminal.h"
#include "value_types.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kValidateExamples = R"(
CASES.csv has the columns of bench/accuracy/README.md; several files make one table with a row each. --format csv lists
every case that is asked about, with the reason where it has no prediction.

Examples:
  ddlsim validate bench/accuracy/cases/*.csv
  ddlsim validate --anchor first cases.csv --json
  ddlsim validate cases.csv --set software=none
  ddlsim validate cases.csv --row run-17)";

Expected<answer::Validation> validate_with_progress(const io::Catalog& catalog,
                                                    const std::vector<whatif::CaseSet>& sets,
                                                    const whatif::ValidateOptions& options) {
  std::int64_t rows = 0;
  for (const whatif::CaseSet& set : sets) rows += static_cast<std::int64_t>(set.cases.size());
  ProgressLine progress("cases");
  return whatif::validate(catalog, sets, options, [&](std::int64_t done) { progress(done, rows - done); });
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
  std::vector<std::string> stated;
  format.add_to(app, true);
  app.add_option("cases", files, "published measurements")->type_name("CASES.csv");
  app.add_option(
         "--anchor", anchor,
         "what is given of each group: nothing, its smallest row (first), rows of one server (node), all but its "
         "largest (rest)")
      ->type_name(one_of(whatif::kAnchors))
      ->default_str("none");
  app.add_option("--set", stated, "a setting of every row, whatever it says itself")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
  app.add_option("--row", row, "one row in full: what it is taken to mean, and its prediction")->type_name("ID");
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  const report::Format shape = format.get();
  const auto way = parse_choice(whatif::kAnchors, anchor, "anchor");
  if (!way) throw UsageError{way.error().message, way.error().notes.front()};
  if (!row.empty() && report::is_drawn(shape)) {
    throw UsageError{"--format: this answer has no picture", "valid: text, json, csv, md"};
  }
  const whatif::ValidateOptions options{*way, parse_settings("--set", stated)};
  if (files.empty()) throw UsageError{"no CASES.csv named", "write ddlsim validate CASES.csv"};
  const auto catalog = open_catalog(data);
  if (!catalog) return print(catalog.error());
  std::vector<whatif::CaseSet> sets;
  for (const std::string& file : files) {
    auto cases = io::load_cases(file);
    if (!cases) return print(cases.error());
    const std::string name = is_standard_input(file) ? file : std::filesystem::path(file).stem().string();
    sets.push_back({with_standard_input_named(name), std::move(*cases)});
  }
  if (!row.empty()) {
    const auto reading = whatif::read_case(*catalog, sets, row, options);
    return reading ? print_answer(report::render(*reading, shape), shape, &*catalog) : print(reading.error());
  }
  const auto validation = validate_with_progress(*catalog, sets, options);
  return validation ? print_answer(report::render(*validation, shape), shape, &*catalog) : print(validation.error());
}

}  // namespace ddlsim::cli
