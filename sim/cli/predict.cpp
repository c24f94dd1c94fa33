#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/report/goodput.h"
#include "ddlsim/report/questions.h"
#include "ddlsim/report/trace.h"
#include "ddlsim/report/views.h"
#include "ddlsim/support/names.h"
#include "ddlsim/whatif/curve.h"
#include "ddlsim/whatif/predict.h"
#include "describe.h"
#include "output.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

using whatif::Override;

constexpr std::string_view kPredictExamples = R"(
Examples:
  ddlsim predict --model resnet50 --node dgx-a100 --nodes 2 --precision fp16
  ddlsim predict --model bert_large --node dgx-h100 --set model.sequence=512 --set efficiency=50% --json
  ddlsim predict --model resnet50 --node p3.16xlarge --global-batch 256 --batch 32 --samples 1281167 --epochs 90
  ddlsim predict --model bert_large --node dgx-a100 --curve nodes=1..64:x2
  ddlsim predict --model bert_large --node dgx-a100 --curve "network=25 Gb/s,100 Gb/s" --nodes 4 --format html > job.html
  ddlsim predict --model resnet50 --node dgx1-v100 --nodes 4 --set straggler=1.3 --trace trace.json
  ddlsim predict --model resnet50 --node dgx1-v100 --nodes 4 --chakra traces/resnet50
  ddlsim predict --model llama_3_1_70b --node dgx-h100 --nodes 256 --precision bf16 --tp 8 --pp 4 --goodput \
         --failures llama3-405b --checkpoint-bandwidth "100 GB/s" --set failures.restart="10 min"
  ddlsim predict --model resnet50 --node dgx1-v100 --nodes 4 --save job.yaml
  ddlsim predict -f job.yaml

--chakra writes what ASTRA-sim takes as --workload-configuration: traces/resnet50.0.et, traces/resnet50.1.et, ...)";

/// A trace shows what the event fidelity simulated.
void ask_for_events(std::vector<Override>& settings) {
  const auto stated =
      std::find_if(settings.rbegin(), settings.rend(), [](const Override& s) { return s.path == "fidelity"; });
  if (stated == settings.rend()) {
    settings.push_back({"fidelity", "event", {}});
  } else if (stated->value != "event") {
    throw UsageError{fmt::format("--trace and fidelity '{}'", stated->value.substr(0, 60)),
                     "only the event fidelity simulates what a trace shows"};
  }
}

/// Streams are named "process/track".
Expected<void> write_trace(const whatif::Scenario& scenario, const std::string& path) {
  const auto simulated = whatif::simulate(scenario);
  if (!simulated) return tl::unexpected<Error>(simulated.error());
  report::Trace trace = report::trace_of(simulated->program, simulated->run);
  for (report::TraceTrack& track : trace.tracks) {
    const std::size_t slash = track.name.rfind('/');
    if (slash == std::string::npos) continue;
    track.process = track.name.substr(0, slash);
    track.name.erase(0, slash + 1);
  }
  return write_file(path, report::chrome_trace(trace));
}

int print_curve(const io::Catalog& catalog, const std::vector<Override>& job, const std::string& text,
                report::Format format) {
  const auto setting = whatif::parse_curve(text);
  if (!setting) throw UsageError{"--curve: " + setting.error().message, join(setting.error().notes)};
  const auto curve = whatif::curve(catalog, job, *setting);
  if (!curve) return print(curve.error());
  return print_answer(report::render(*curve, format), format, &catalog);
}

/// What `predict` takes.
struct PredictFlags {
  ScenarioFlags scenario;
  TrainingFlags training;
  FormatFlags format;
  ColumnsFlag columns;
  SaveFlag save;
  std::string data;
  std::string trace;
  std::string chakra;
  std::string curve;
  bool goodput = false;

  void add_to(CLI::App& app);
  /// Throws UsageError for what does not go together.
  void check(const CLI::App& app) const;
};

void PredictFlags::add_to(CLI::App& app) {
  scenario.add_to(app);
  training.add_to(app);
  format.add_to(app, true);
  columns.add_to(app);
  app.add_option("--trace", trace, "write what is simulated as a Chrome trace (fidelity event)")
      ->type_name("FILE")
      ->group(kOutputGroup);
  app.add_option("--chakra", chakra, "write the step as Chakra traces, PREFIX.RANK.et of every GPU")
      ->type_name("PREFIX")
      ->group(kOutputGroup);
  app.add_option("--curve", curve, "the job over the values of a setting")->type_name("PATH=VALUES");
  app.add_flag("--goodput", goodput, "the goodput by itself: needs how often something fails (--failures, --mtbf-gpu)");
  save.add_to(app);
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
}

void PredictFlags::check(const CLI::App& app) const {
  if (chakra.ends_with('/')) {
    throw UsageError{"--chakra '" + chakra + "' names no file", "as --chakra traces/job, for traces/job.0.et and on"};
  }
  const bool own_columns = app.count("--columns") > 0;
  if (goodput && (app.count("--curve") > 0 || own_columns)) {
    throw UsageError{"--goodput beside --curve or --columns", "ask for one of them"};
  }
  if (goodput && report::is_drawn(format.get())) {
    throw UsageError{"--format: this answer has no picture", "valid: text, json, csv, md"};
  }
  if (app.count("--curve") > 0 && (!trace.empty() || !chakra.empty() || own_columns || save.asked())) {
    throw UsageError{"--curve beside --trace, --chakra, --save or --columns", "ask for one of them"};
  }
}

/// The files that were asked for beside the answer.
Expected<void> write_files(const PredictFlags& flags, const whatif::Scenario& scenario,
                           const std::vector<Override>& stated, const io::Catalog& catalog) {
  if (!flags.trace.empty()) {
    if (auto written = write_trace(scenario, flags.trace); !written) return written;
  }
  if (auto written = flags.save.write(scenario, stated, catalog); !written) return written;
  return flags.chakra.empty() ? Expected<void>{} : write_chakra(scenario, flags.chakra);
}

}  // namespace

int run_predict(const std::vector<std::string>& arguments) {
  CLI::App app("Predict the step time of a job and say where it goes.", "ddlsim predict");
  app.footer(std::string(kPredictExamples));
  PredictFlags flags;
  flags.add_to(app);
  parse(app, arguments);
  const report::Format shape = flags.format.get();
  const auto own_columns = flags.columns.get(shape);
  flags.check(app);
  auto overrides = flags.scenario.settings(flags.training.settings());
  const auto catalog = open_catalog(flags.data);
  if (!catalog) return print(catalog.error());
  if (!overrides) return print(overrides.error());
  require_model_and_node(*overrides, *catalog);
  if (app.count("--curve") > 0) return print_curve(*catalog, *overrides, flags.curve, shape);
  if (!flags.trace.empty()) ask_for_events(*overrides);
  const auto scenario = whatif::resolve(*catalog, *overrides);
  if (!scenario) return print(scenario.error());
  if (flags.goodput && !scenario->failures.stated()) {
    throw UsageError{"--goodput: nobody says how often something fails",
                     "--failures NAME (" + join(catalog->ids(io::Kind::kFailures)) + "), or --mtbf-gpu '80000 h'"};
  }
  const auto prediction = whatif::predict(*scenario);
  if (!prediction) return print(prediction.error());
  if (auto written = write_files(flags, *scenario, *overrides, *catalog); !written) return print(written.error());
  if (own_columns) {
    const answer::Prediction* row = &*prediction;
    return print_answer(report::render_columns({&row, 1}, *own_columns, shape), shape, &*catalog);
  }
  const std::string title = whatif::describe(*scenario);
  const std::string shown =
      flags.goodput ? report::render_goodput(*prediction, title, shape) : report::render(*prediction, title, shape);
  return print_answer(shown, shape, &*catalog);
}

}  // namespace ddlsim::cli
