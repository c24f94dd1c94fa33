#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "ddlsim/report/questions.h"
#include "ddlsim/report/views.h"
#include "ddlsim/whatif/compare.h"
#include "ddlsim/whatif/elasticity.h"
#include "describe.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

using whatif::Change;

constexpr std::string_view kWhatIfExamples = R"(
What stands before the first --vs is the job. Every --vs starts an alternative; its --set and flags change the job.
Without one, every upgradable part is tried, one at a time.

Examples:
  ddlsim what-if --model resnet50 --node dgx1-v100 --nodes 4 --network "25 Gb/s" --strategy ps \
         --vs --set network="100 Gb/s" --vs --set strategy=allreduce
  ddlsim what-if --model bert_large --node p3.16xlarge --nodes 2
  ddlsim what-if --model bert_large --node p3.16xlarge --nodes 2 --elasticities
  ddlsim what-if -f job.yaml --vs --node dgx-a100 --name "buy A100" --json)";

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

/// What `what-if` takes before the first --vs.
struct WhatIfFlags {
  ScenarioFlags scenario;
  TrainingFlags training;
  FormatFlags format;
  ColumnsFlag columns;
  SaveFlag save;
  std::string data;
  bool elasticities = false;
  // The pieces of the command line are parsed one by one; these two are here to be explained.
  bool alternative = false;
  std::string named;

  void add_to(CLI::App& app);
  /// Throws UsageError for what does not go together.
  void check(const CLI::App& app, std::size_t alternatives) const;
};

void WhatIfFlags::add_to(CLI::App& app) {
  scenario.add_to(app);
  training.add_to(app);
  format.add_to(app, true);
  columns.add_to(app);
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  save.add_to(app);
  app.add_flag("--vs", alternative, "an alternative starts; its flags and --set change the job")
      ->group("Alternatives, after the job");
  app.add_option("--name", named, "what to call it")
      ->type_name("TEXT")
      ->default_str("what it changes")
      ->group("Alternatives, after the job");
  app.add_flag("--elasticities", elasticities, "what the step answers to: every rate, latency and size, and a tornado");
}

void WhatIfFlags::check(const CLI::App& app, std::size_t alternatives) const {
  if (app.count("--name") > 0) throw UsageError{"--name before --vs", "it names an alternative: --vs --set ... --name"};
  if (!elasticities) return;
  if (alternatives > 0) throw UsageError{"--elasticities and --vs", "elasticities are of one job"};
  if (app.count("--columns") > 0) throw UsageError{"--elasticities and --columns", "give one of them"};
  if (report::is_drawn(format.get())) {
    throw UsageError{"--format: this answer has no picture", "valid: text, json, csv, md"};
  }
}

}  // namespace

int run_what_if(const std::vector<std::string>& arguments) {
  std::vector<std::vector<std::string>> pieces = split_at_vs(arguments);
  move_common_to_front(pieces);
  CLI::App app("Compare a job with what it could be.", "ddlsim what-if");
  app.footer(std::string(kWhatIfExamples));
  WhatIfFlags flags;
  flags.add_to(app);
  parse(app, pieces.front());
  flags.check(app, pieces.size() - 1);
  const report::Format shape = flags.format.get();
  const auto own_columns = flags.columns.get(shape);
  const auto base = flags.scenario.settings(flags.training.settings());
  const auto changes = read_changes(pieces);
  if (!changes) return print(changes.error());
  const auto catalog = open_catalog(flags.data);
  if (!catalog) return print(catalog.error());
  if (!base) return print(base.error());
  require_model_and_node(*base, *catalog);
  if (flags.save.asked()) {
    const auto job = whatif::resolve(*catalog, *base);
    if (!job) return print(job.error());
    if (auto written = flags.save.write(*job, *base, *catalog); !written) return print(written.error());
  }
  if (flags.elasticities) {
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
    std::vector<const answer::Prediction*> rows{&comparison->baseline};
    std::fputs("row 1: baseline\n", stderr);
    for (const answer::Alternative& a : comparison->alternatives) {
      rows.push_back(&a.prediction);
      std::fputs(fmt::format("row {}: {}\n", rows.size(), a.name).c_str(), stderr);
    }
    return print_answer(report::render_columns(rows, *own_columns, shape), shape, &*catalog);
  }
  return print_answer(report::render(*comparison, shape), shape, &*catalog);
}

}  // namespace ddlsim::cli
