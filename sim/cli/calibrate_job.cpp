#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "ddlsim/io/run_file.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/saved_job.h"
#include "describe.h"
#include "output.h"
#include "program.h"
#include "standard_input.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kJobExamples = R"(
The job's settings and its runs go into one scenario, which predict, what-if and plan take with -f; what was learnt goes
to stderr. The flags are those of predict.

Examples:
  ddlsim calibrate job RUNS.csv --model resnet50 --node dgx1-v100 --network "25 Gb/s" -o job.yaml
  ddlsim predict -f job.yaml --nodes 8)";

/// How to ask for steps of as many samples as the runs', where those are several passes and the job's are one.
std::string other_samples(const std::vector<io::RunRow>& runs, const whatif::Scenario& job,
                          const std::vector<whatif::Override>& settings) {
  const bool stated = std::any_of(settings.begin(), settings.end(), [](const whatif::Override& s) {
    return s.path == "global_batch" || s.path == "strategy.accumulation";
  });
  const auto run = std::find_if(runs.begin(), runs.end(), [&](const io::RunRow& r) {
    return r.global_batch && *r.global_batch > r.batch.value_or(job.batch) * r.gpus;
  });
  if (stated || run == runs.end()) return "";
  return fmt::format("the runs' steps are of {} samples, the job's of one pass: --global-batch {} asks for theirs\n",
                     to_text(*run->global_batch), *run->global_batch);
}

}  // namespace

int calibrate_job(const std::vector<std::string>& arguments) {
  CLI::App app("Keep a job with its own measured runs.", "ddlsim calibrate job");
  app.footer(std::string(kJobExamples));
  ScenarioFlags flags;
  std::string runs_file;
  std::string out;
  std::string data;
  app.add_option("runs", runs_file, "measured runs (CSV: gpus, nodes, step, ...)")->required()->type_name("RUNS.csv");
  app.add_option("-o,--out", out, "write the scenario here")
      ->type_name("JOB.yaml")
      ->group(kOutputGroup)
      ->default_str("standard output");
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  flags.add_to(app);
  parse(app, arguments);
  auto settings = flags.settings();
  const auto catalog = open_catalog(data);
  if (!catalog) return print(catalog.error());
  if (!settings) return print(settings.error());
  std::erase_if(*settings, [](const whatif::Override& s) { return s.path.starts_with("measured."); });
  require_model_and_node(*settings, *catalog);
  const auto runs = io::load_runs(runs_file);
  if (!runs) return print(runs.error());
  // As predict would read them: of another model, faster than the wire, ...
  std::vector<whatif::Override> checked = *settings;
  checked.push_back({"measured.runs", runs_file, {}});
  const auto scenario = whatif::resolve(*catalog, checked);
  if (!scenario) return print(scenario.error());
  const auto kept = whatif::in_words(*catalog, *runs, *settings);
  if (!kept) return print(kept.error());
  settings->push_back({"measured.steps", *kept, {}});
  settings->push_back({"measured.gpu", scenario->cluster.node.gpu.id, {}});
  settings->push_back({"measured.precision", std::string(name_of(kPrecisions, scenario->precision)), {}});
  std::string name = with_standard_input_named(runs_file);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  std::string text = fmt::format("# {} run{} of {}\n", runs->size(), runs->size() == 1 ? "" : "s", name);
  for (auto setting = settings->begin(); setting != settings->end(); ++setting) {
    const bool later =
        std::any_of(setting + 1, settings->end(), [&](const auto& s) { return s.path == setting->path; });
    if (!later) text += whatif::saved_setting(*setting) + "\n";
  }
  if (out.empty()) {
    if (const int status = print(text); status != kDone) return status;
  } else if (auto written = write_file(out, text); !written) {
    return print(written.error());
  }
  for (const std::string& learnt : scenario->own_runs->learnt()) std::fputs((learnt + "\n").c_str(), stderr);
  std::fputs(other_samples(*runs, *scenario, *settings).c_str(), stderr);
  return kDone;
}

}  // namespace ddlsim::cli
