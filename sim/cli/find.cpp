#include <span>

#include "ddlsim/report/questions.h"
#include "ddlsim/support/names.h"
#include "ddlsim/whatif/find.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kFindHelp = R"(
VARIABLE is a setting that is a number (`ddlsim list settings`), as nodes, batch or network, or a dimension of the
model, model.NAME. What is measured (measured.step), energy.carbon and what follows from others (parallel.data) is none.
A condition is METRIC >= VALUE, <= or =; = asks which value explains a measurement. METRIC is one of
  {}
memory is of tensors, device_memory with the context and what the allocator holds: what a GPU must have;
exposed_communication is a time, or a share of the step in %; goodput a share in %. scaling_efficiency is against as
many GPUs that wait for nobody: each does what those of a replica do, of experts that replicas share a replica's part.

Examples:
  ddlsim find network --model gpt2 --node pcie-8x3090 --nodes 4 --such-that "scaling_efficiency >= 90 %"
  ddlsim find batch --model resnet50 --node dgx1-v100 --such-that "memory <= 12 GB"
  ddlsim find nodes --model resnet50 --node p3.16xlarge --epochs 90 --samples 1281167 --such-that "time_to_train <= 6 h"
  ddlsim find efficiency.compute --model vgg16 --node pcie-8xp100 --such-that "step_time = 250 ms")";

/// With the metrics of the table; the last is another word for exposed communication.
std::string find_help() {
  constexpr std::size_t kWidth = 110;
  std::string metrics;
  std::size_t line = 0;
  for (const auto& [name, metric] : std::span(whatif::kMetrics).first(whatif::kMetrics.size() - 1)) {
    if (!metrics.empty()) metrics += metrics.size() - line + name.size() > kWidth ? ",\n  " : ", ";
    if (metrics.ends_with("\n  ")) line = metrics.size();
    metrics += name;
  }
  std::string text(kFindHelp);
  return text.replace(text.find("{}"), 2, metrics);
}

/// The variable stands first, or anywhere among the flags.
std::string variable_of(const CLI::App& app, const std::string& word) {
  if (app.count("variable") == 0 || word.empty()) {
    throw UsageError{"the variable is missing",
                     "as `ddlsim find network --such-that \"scaling_efficiency >= 90 %\" ...`"};
  }
  return word;
}

}  // namespace

int run_find(const std::vector<std::string>& arguments) {
  CLI::App app("Which value of a setting makes a condition hold.", "ddlsim find");
  app.footer(find_help());
  ScenarioFlags flags;
  TrainingFlags training;
  FormatFlags format;
  std::string variable;
  std::string condition;
  std::string from;
  std::string to;
  std::string sure;
  std::string data;
  app.add_option("variable", variable, "what is looked for")->type_name("VARIABLE");
  app.add_option("--such-that", condition, "what must hold")->type_name("CONDITION");
  app.add_option("--from", from, "the least value to try")->type_name("QUANTITY");
  app.add_option("--sure", sure, "it holds with this probability, as 90%, by the prediction's interval")
      ->type_name("SHARE");
  app.add_option("--to", to, "the largest value to try")->type_name("QUANTITY");
  flags.add_to(app);
  training.add_to(app);
  format.add_to(app);
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  const report::Format shape = format.get();
  const std::string word = variable_of(app, variable);
  if (condition.empty()) {
    throw UsageError{"--such-that is missing", "as --such-that \"scaling_efficiency >= 90 %\""};
  }
  whatif::FindOptions options;
  if (app.count("--from") > 0) options.from = from;
  if (app.count("--to") > 0) options.to = to;
  if (app.count("--sure") > 0) {
    const auto share = whatif::parse_sure(sure);
    if (!share) throw UsageError{"--sure: " + share.error().message, join(share.error().notes, "\n  ")};
    options.sure = *share;
  }
  const auto settings = flags.settings(training.settings());
  const auto asked = whatif::parse_condition(condition);
  if (!asked) throw UsageError{asked.error().message, join(asked.error().notes, "\n  ")};
  if (const auto sound = whatif::check_variable(word, options); !sound) {
    throw UsageError{sound.error().message, join(sound.error().notes, "\n  ")};
  }
  const auto catalog = open_catalog(data);
  if (!catalog) return print(catalog.error());
  if (!settings) return print(settings.error());
  require_model_and_node(*settings, *catalog);
  const auto answer = whatif::find(*catalog, *settings, word, *asked, options);
  if (!answer) return print(answer.error());
  const int status = print_answer(report::render(*answer, shape), shape, &*catalog);
  return answer->reached ? status : kNoAnswer;
}

}  // namespace ddlsim::cli
