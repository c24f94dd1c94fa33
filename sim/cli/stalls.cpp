#include <algorithm>

#include "ddlsim/report/views.h"
#include "ddlsim/whatif/stalls.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kStallExamples = R"(
Steps of jobs that lack one thing are compared, as Stash and DS-Analyzer do: one GPU, all GPUs, a data set in memory, a
data set on storage; servers against one server with as many GPUs. Without --dataset there is no prep and no fetch.
--measured-stalls takes your own runs: run,train_s,batches, with run one of one_gpu, synthetic, warm, cold, one_server.

Examples:
  ddlsim stalls --model resnet18 --node p3.8xlarge --nodes 2 --dataset imagenet
  ddlsim stalls --model resnet50 --node p3.16xlarge --dataset imagenet --set input.storage=ebs-gp3-max --json
  ddlsim stalls --model vgg11 --node p3.16xlarge --dataset imagenet --measured-stalls runs.csv
  ddlsim stalls --study layers --node p3.16xlarge)";

void require_node(const std::vector<whatif::Override>& settings) {
  const bool named =
      std::any_of(settings.begin(), settings.end(), [](const whatif::Override& s) { return s.path == "node"; });
  if (!named) throw UsageError{"--node is missing", "as --node p3.16xlarge (`ddlsim list nodes`, `list instances`)"};
}

}  // namespace

int run_stalls(const std::vector<std::string>& arguments) {
  CLI::App app("Where the GPUs of a job wait: interconnect, network, prep, fetch.", "ddlsim stalls");
  app.footer(std::string(kStallExamples));
  ScenarioFlags flags;
  TrainingFlags training;
  FormatFlags format;
  std::string data;
  std::string study;
  std::string measured;
  whatif::StallOptions options;
  bool as_repository = false;
  flags.add_to(app);
  training.add_to(app);
  format.add_to(app, true);
  app.add_option("--study", study, "many models instead of one")->type_name("STUDY");
  app.add_option("--measured-stalls", measured, "your own runs beside the predicted ones")->type_name("ROWS.csv");
  app.add_option("--one-server", options.one_server, "the server with as many GPUs that several are compared with")
      ->type_name("NODE");
  app.add_flag("--fetch-as-repository", as_repository, "fetch by the formula of Stash's repository, not its paper's");
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  const report::Format shape = format.get();
  if (as_repository) options.fetch = whatif::FetchRule::kRepository;
  if (app.count("--study") > 0 && study != "layers") throw UsageError{"unknown study '" + study + "'", "valid: layers"};
  if (!study.empty() && !measured.empty()) {
    throw UsageError{"--measured-stalls and --study", "measured runs are of one model"};
  }
  const auto settings = flags.settings(training.settings());
  const auto catalog = open_catalog(data);
  if (!catalog) return print(catalog.error());
  if (!settings) return print(settings.error());
  if (!study.empty()) {
    require_node(*settings);
    const auto answer = whatif::study_layers(*catalog, *settings, options);
    return answer ? print_answer(report::render(*answer, shape), shape, &*catalog) : print(answer.error());
  }
  require_model_and_node(*settings, *catalog);
  auto answer = whatif::stalls(*catalog, *settings, options);
  if (!answer) return print(answer.error());
  if (!measured.empty()) {
    const auto runs = whatif::load_stall_runs(measured);
    if (!runs) return print(runs.error());
    answer->measured = *runs;
    answer->measured_stalls = whatif::stalls_of(*runs, options.fetch);
  }
  return print_answer(report::render(*answer, shape), shape, &*catalog);
}

}  // namespace ddlsim::cli
