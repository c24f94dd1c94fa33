#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/io/content_hash.h"
#include "ddlsim/report/goodput.h"
#include "ddlsim/report/questions.h"
#include "ddlsim/report/trace.h"
#include "ddlsim/report/views.h"
#include "ddlsim/support/names.h"
#include "ddlsim/whatif/compare.h"
#include "ddlsim/whatif/curve.h"
#include "ddlsim/whatif/elasticity.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/saved_job.h"
#include "describe.h"
#include "output.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

using whatif::Change;
using whatif::Override;

constexpr std::string_view kWhatIfExamples = R"(
What stands before the first --vs is the job. Every --vs starts an alternative; its --set and flags change the job.
Without one, every upgradable part is tried, one at a time.

Examples:
  ddlsim what-if --model resnet50 --node dgx1-v100 --nodes 4 --network "25 Gb/s" --strategy ps \
         --vs --set network="100 Gb/s" --vs --set strategy=allreduce
  ddlsim what-if --model bert_large --node p3.16xlarge --nodes 2
  ddlsim what-if --model bert_large --node p3.16xlarge --nodes 2 --elasticities
  ddlsim what-if -f job.yaml --vs --node dgx-a100 --name "buy A100" --json)";

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

/// The pieces of a command line between `--vs`s.
std::vector<std::vector<std::string>> split_at_vs(const std::vector<std::string>& arguments) {
  std::vector<std::vector<std::string>> pieces(1);
  for (const std::string& argument : arguments) {
    if (argument == "--vs") {
      pieces.emplace_back();
    } else {
      pieces.back().push_back(argument);
    }
  }
  return pieces;
}

/// --json, --format, --columns, --save and --data hold for the whole command, wherever they stand.
void move_common_to_front(std::vector<std::vector<std::string>>& pieces) {
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    std::vector<std::string> kept;
    for (std::size_t k = 0; k < pieces[i].size(); ++k) {
      const std::string& argument = pieces[i][k];
      const bool named =
          argument == "--format" || argument == "--data" || argument == "--columns" || argument == "--save";
      const bool with_value = named && k + 1 < pieces[i].size();
      const bool common = argument == "--json" || with_value || argument.starts_with("--format=") ||
                          argument.starts_with("--data=") || argument.starts_with("--columns=") ||
                          argument.starts_with("--save=");
      (common ? pieces.front() : kept).push_back(argument);
      if (with_value) pieces.front().push_back(pieces[i][++k]);
    }
    pieces[i] = std::move(kept);
  }
}

Expected<Change> read_change(const std::vector<std::string>& arguments) {
  CLI::App app("an alternative", "ddlsim what-if");
  ScenarioFlags flags;
  TrainingFlags training;
  Change change;
  flags.add_to(app);
  training.add_to(app);
  app.add_option("--name", change.name, "what to call this alternative")->type_name("TEXT");
  parse(app, arguments);
  auto overrides = flags.settings(training.settings());
  if (!overrides) return tl::unexpected<Error>(overrides.error());
  change.overrides = std::move(*overrides);
  if (change.overrides.empty()) throw UsageError{"--vs without a change", "write --vs --set PATH=VALUE"};
  return change;
}

Expected<std::vector<Change>> read_changes(const std::vector<std::vector<std::string>>& pieces) {
  std::vector<Change> changes;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    auto change = read_change(pieces[i]);
    if (!change) return tl::unexpected<Error>(change.error());
    changes.push_back(std::move(*change));
  }
  return changes;
}

/// Writes the job with all that was resolved, for -f. `path` may be empty: nobody asked.
Expected<void> save_job(const whatif::Scenario& scenario, const std::vector<Override>& stated,
                        const io::Catalog& catalog, const std::string& path) {
  if (path.empty()) return {};
  const auto data = io::fingerprint_of(catalog.root());
  if (!data) return tl::unexpected<Error>(data.error());
  const auto text = whatif::saved_job(scenario, stated, "saved by ddlsim " DDLSIM_VERSION ", data " + *data);
  if (!text) return tl::unexpected<Error>(text.error());
  return write_file(path, *text);
}

CLI::Option* add_save_flag(CLI::App& app, std::string& path) {
  return app.add_option("--save", path, "write the job, every value with its provenance, as a scenario for -f")
      ->type_name("JOB.yaml")
      ->group(kOutputGroup);
}

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

}  // namespace

namespace {

/// The first ids that are asked for by somebody new, and where all are.
std::string some_of(const io::Catalog& catalog, io::Kind kind, std::vector<std::string> shown) {
  std::erase_if(shown, [&](const std::string& id) { return !catalog.knows(kind, id); });
  const std::string_view word = name_of(io::kKinds, kind);
  return fmt::format("{0}: {1}, ...; `ddlsim list {0}` shows all {2}", word, join(shown), catalog.ids(kind).size());
}

}  // namespace

void require_model_and_node(const std::vector<Override>& settings, const io::Catalog& catalog) {
  const auto names = [&](std::string_view path) {
    return std::any_of(settings.begin(), settings.end(), [&](const Override& s) { return s.path == path; });
  };
  if (!names("model")) {
    throw UsageError{"--model is missing", some_of(catalog, io::Kind::kModels,
                                                   {"resnet50", "bert_large", "llama_3_1_8b", "llama_3_1_70b",
                                                    "mixtral_8x7b", "sd15_unet", "dlrm"})};
  }
  if (!names("node")) {
    throw UsageError{
        "--node is missing",
        some_of(catalog, io::Kind::kNodes, {"dgx1-v100", "dgx-a100", "dgx-h100", "pcie-8x4090"}) + "\n  " +
            some_of(catalog, io::Kind::kInstances, {"p3.16xlarge", "p4d.24xlarge", "p5.48xlarge", "g5.12xlarge"})};
  }
}

int run_predict(const std::vector<std::string>& arguments) {
  CLI::App app("Predict the step time of a job and say where it goes.", "ddlsim predict");
  app.footer(std::string(kPredictExamples));
  ScenarioFlags flags;
  FormatFlags format;
  ColumnsFlag columns;
  TrainingFlags training;
  std::string data;
  std::string trace;
  std::string chakra;
  std::string curve;
  bool lasting = false;
  std::string saved;
  flags.add_to(app);
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
  app.add_flag("--goodput", lasting, "the goodput by itself: needs how often something fails (--failures, --mtbf-gpu)");
  add_save_flag(app, saved);
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  if (saved.empty() && app.count("--save") > 0) throw UsageError{"--save has an empty value", "name a file"};
  if (trace.empty() && app.count("--trace") > 0) throw UsageError{"--trace has an empty value", "name a file"};
  if (app.count("--chakra") > 0 && (chakra.empty() || chakra.ends_with('/'))) {
    throw UsageError{"--chakra '" + chakra + "' names no file", "as --chakra traces/job, for traces/job.0.et and on"};
  }
  const report::Format shape = format.get();
  const auto own_columns = columns.get(shape);
  if (lasting && (app.count("--curve") > 0 || own_columns)) {
    throw UsageError{"--goodput beside --curve or --columns", "ask for one of them"};
  }
  if (lasting && report::is_drawn(shape)) {
    throw UsageError{"--format: this answer has no picture", "valid: text, json, csv, md"};
  }
  auto overrides = flags.settings(training.settings());
  const auto catalog = open_catalog(data);
  if (!catalog) return print(catalog.error());
  if (!overrides) return print(overrides.error());
  require_model_and_node(*overrides, *catalog);
  if (app.count("--curve") > 0) {
    if (!trace.empty() || !chakra.empty() || own_columns || !saved.empty()) {
      throw UsageError{"--curve beside --trace, --chakra, --save or --columns", "ask for one of them"};
    }
    return print_curve(*catalog, *overrides, curve, shape);
  }
  if (!trace.empty()) ask_for_events(*overrides);
  const auto scenario = whatif::resolve(*catalog, *overrides);
  if (!scenario) return print(scenario.error());
  if (lasting && !scenario->failures.stated()) {
    throw UsageError{"--goodput: nobody says how often something fails",
                     "--failures NAME (" + join(catalog->ids(io::Kind::kFailures)) + "), or --mtbf-gpu '80000 h'"};
  }
  const auto prediction = whatif::predict(*scenario);
  if (!prediction) return print(prediction.error());
  if (!trace.empty()) {
    if (auto written = write_trace(*scenario, trace); !written) return print(written.error());
  }
  if (auto written = save_job(*scenario, *overrides, *catalog, saved); !written) return print(written.error());
  if (!chakra.empty()) {
    if (auto written = write_chakra(*scenario, chakra); !written) return print(written.error());
  }
  if (own_columns) {
    const report::NamedPrediction row{{}, &*prediction};
    return print_answer(report::render_columns({&row, 1}, *own_columns, shape), shape, &*catalog);
  }
  const std::string title = whatif::describe(*scenario);
  const std::string shown =
      lasting ? report::render_goodput(*prediction, title, shape) : report::render(*prediction, title, shape);
  return print_answer(shown, shape, &*catalog);
}

int run_what_if(const std::vector<std::string>& arguments) {
  std::vector<std::vector<std::string>> pieces = split_at_vs(arguments);
  move_common_to_front(pieces);
  CLI::App app("Compare a job with what it could be.", "ddlsim what-if");
  app.footer(std::string(kWhatIfExamples));
  ScenarioFlags flags;
  FormatFlags format;
  ColumnsFlag columns;
  std::string data;
  bool sensitive = false;
  std::string saved;
  TrainingFlags training;
  flags.add_to(app);
  training.add_to(app);
  format.add_to(app, true);
  columns.add_to(app);
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  add_save_flag(app, saved);
  // The pieces of the command line are parsed one by one; these two are here to be explained.
  bool alternative = false;
  std::string named;
  app.add_flag("--vs", alternative, "an alternative starts; its flags and --set change the job")
      ->group("Alternatives, after the job");
  app.add_option("--name", named, "what to call it")
      ->type_name("TEXT")
      ->default_str("what it changes")
      ->group("Alternatives, after the job");
  app.add_flag("--elasticities", sensitive, "what the step answers to: every rate, latency and size, and a tornado");
  parse(app, pieces.front());
  if (saved.empty() && app.count("--save") > 0) throw UsageError{"--save has an empty value", "name a file"};
  if (app.count("--name") > 0) throw UsageError{"--name before --vs", "it names an alternative: --vs --set ... --name"};
  if (sensitive && pieces.size() > 1) throw UsageError{"--elasticities and --vs", "elasticities are of one job"};
  if (sensitive && app.count("--columns") > 0) throw UsageError{"--elasticities and --columns", "give one of them"};
  const report::Format shape = format.get();
  if (sensitive && report::is_drawn(shape)) {
    throw UsageError{"--format: this answer has no picture", "valid: text, json, csv, md"};
  }
  const auto own_columns = columns.get(shape);
  const auto base = flags.settings(training.settings());
  const auto changes = read_changes(pieces);
  if (!changes) return print(changes.error());
  const auto catalog = open_catalog(data);
  if (!catalog) return print(catalog.error());
  if (!base) return print(base.error());
  require_model_and_node(*base, *catalog);
  if (!saved.empty()) {
    const auto job = whatif::resolve(*catalog, *base);
    if (!job) return print(job.error());
    if (auto written = save_job(*job, *base, *catalog, saved); !written) return print(written.error());
  }
  if (sensitive) {
    const auto answer = whatif::elasticities(*catalog, *base);
    return answer ? print_answer(report::render(*answer, shape), shape, &*catalog) : print(answer.error());
  }
  const auto comparison =
      changes->empty() ? whatif::what_would_help(*catalog, *base) : whatif::compare(*catalog, *base, *changes);
  if (!comparison) return print(comparison.error());
  // Tables of numbers have no room for what somebody asked and was not tried.
  if (!changes->empty() && (shape == report::Format::kCsv || own_columns)) {
    for (const std::string& reason : comparison->skipped) std::fputs(("not tried: " + reason + "\n").c_str(), stderr);
  }
  if (own_columns) {
    std::vector<report::NamedPrediction> rows{{"baseline", &comparison->baseline}};
    for (const answer::Alternative& a : comparison->alternatives) rows.push_back({a.name, &a.prediction});
    return print_answer(report::render_columns(rows, *own_columns, shape), shape, &*catalog);
  }
  return print_answer(report::render(*comparison, shape), shape, &*catalog);
}

}  // namespace ddlsim::cli
