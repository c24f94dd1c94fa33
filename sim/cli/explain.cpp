#include "ddlsim/whatif/explain.h"

#include "ddlsim/report/questions.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kExplainExamples = R"(
Every number of a prediction as an equation: its symbols, the values put in with their provenance and source, and the
result. Parts: step, software, compute, memory-bound, launch, other, all-reduce, exposed, input, memory. What the model
computed is held against every equation before it is shown.

Examples:
  ddlsim explain --model resnet50 --node dgx1-v100 --nodes 4
  ddlsim explain --model resnet50 --node dgx1-v100 --nodes 4 --part all-reduce
  ddlsim explain --model bert_large --node dgx-a100 --format md > where_it_comes_from.md)";

}  // namespace

int run_explain(const std::vector<std::string>& arguments) {
  CLI::App app("Where every number of a prediction comes from.", "ddlsim explain");
  app.footer(std::string(kExplainExamples));
  ScenarioFlags flags;
  FormatFlags format;
  std::string part;
  std::string data;
  flags.add_to(app);
  format.add_to(app);
  app.add_option("--part", part, "one part alone")->type_name("PART")->default_str("all");
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  const report::Format shape = format.get();
  const auto settings = flags.settings();
  const auto catalog = open_catalog(data);
  if (!catalog) return print(catalog.error());
  if (!settings) return print(settings.error());
  require_model_and_node(*settings, *catalog);
  const auto scenario = whatif::resolve(*catalog, *settings);
  if (!scenario) return print(scenario.error());
  const auto answer = whatif::explain(*scenario, part);
  return answer ? print_answer(report::render(*answer, shape), shape, &*catalog) : print(answer.error());
}

}  // namespace ddlsim::cli
