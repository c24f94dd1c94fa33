#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "ddlsim/hardware/node.h"
#include "ddlsim/importers/price_file.h"
#include "ddlsim/io/epochs_file.h"
#include "ddlsim/report/views.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/recommend.h"
#include "program.h"
#include "terminal.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kRecommendExamples = R"(
Every type of server x how many of them x batch x strategy: time, cost and energy of the run, the cheapest inside the
deadline, the fastest inside the budget, and what would change the answer. --node tries one type alone, --gpu those
that have that GPU.

Examples:
  ddlsim recommend --model resnet50 --samples 1281167 --epochs 90 --deadline 24h --budget "500 $" --catalog aws
  ddlsim recommend --model bert_large --precision fp16 --steps 1e5 --catalog aws,gcp --prices vms.csv --spot
  ddlsim recommend --model llama3.1-70b --precision bf16 --global-batch 1024 --tokens 1e11 --gpu h100,h200 --max-nodes 32
  ddlsim recommend --model resnet50 --samples 1281167 --epochs-by-batch epochs.csv --catalog none \
         --price "dgx-a100=12 $/h" --price "dgx1-v100=3 $/h" --max-nodes 4

--prices reads SkyPilot's vms.csv, or a CSV file with its columns InstanceType, Price, SpotPrice, Region; the shipped
catalogue has no spot prices. --epochs-by-batch a CSV file with the columns global_batch and epochs.)";

/// What the flags of `recommend` say beside the scenario's.
struct RecommendFlags {
  ScenarioFlags scenario;
  TrainingFlags training;
  FormatFlags format;
  std::string deadline;
  std::string budget;
  std::string catalog;
  std::string max_nodes;
  std::string epochs_by_batch;
  std::string prices;
  std::string region;
  std::string data;
  bool plans = false;
  std::string limit;
  int threads = 0;

  void add_to(CLI::App& app) {
    scenario.add_to(app);
    training.add_to(app);
    format.add_to(app, true);
    app.add_option("--deadline", deadline, "the run must be done in this time")->type_name("TIME");
    app.add_option("--budget", budget, "and cost no more")->type_name("MONEY");
    app.add_option("--catalog", catalog, "clouds to choose from")
        ->type_name("aws|gcp|azure|alibaba|lambda|oracle|none|all,...")
        ->default_str("all");
    app.add_option("--max-nodes", max_nodes, "most servers of a choice")->type_name("N")->default_str("16");
    app.add_option("--epochs-by-batch", epochs_by_batch, "how many epochs a global batch needs (CSV)")
        ->type_name("FILE");
    app.add_option("--prices", prices, "prices instead of the catalogue's: SkyPilot's vms.csv")->type_name("FILE");
    app.add_option("--region", region, "of those prices")->type_name("NAME")->default_str("the cheapest");
    app.add_flag("--plans", plans, "compare plans of models that fit whole, too");
    app.add_option("--limit", limit, "of all searches for plans")->type_name("TIME")->default_str("60s");
    app.add_option("--threads", threads, "how many search")
        ->type_name("N")
        ->default_str("the machine's")
        ->check(CLI::Range(1, kMostThreads));
    app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  }
  /// Throws UsageError.
  [[nodiscard]] Expected<whatif::RecommendOptions> options(const CLI::App& app) const;
};

Expected<whatif::RecommendOptions> RecommendFlags::options(const CLI::App& app) const {
  whatif::RecommendOptions options;
  const auto bad = [](std::string_view flag, const Error& error, std::string hint) {
    return UsageError{fmt::format("{}: {}", flag, error.message), std::move(hint)};
  };
  if (app.count("--deadline") > 0) {
    const auto time = parse_time(deadline);
    if (!time) throw bad("--deadline", time.error(), "as --deadline 24h");
    options.deadline = *time;
  }
  if (app.count("--budget") > 0) {
    const auto money = parse_quantity<dimension::kMoney>(budget);
    if (!money) throw bad("--budget", money.error(), "as --budget \"500 $\"");
    options.budget = *money;
  }
  if (app.count("--max-nodes") > 0) {
    const auto most = parse_count(max_nodes, {1, hardware::kMaxNodes});
    if (!most) throw bad("--max-nodes", most.error(), "as --max-nodes 16");
    options.max_nodes = *most;
  }
  if (app.count("--limit") > 0) {
    const auto most = parse_time(limit);
    if (!most) throw bad("--limit", most.error(), "as --limit 10s");
    options.limit = *most;
  }
  options.threads = threads > 0 ? threads : machine_threads();
  if (app.count("--region") > 0 && prices.empty()) {
    throw UsageError{"--region without --prices", "the catalogue has one region of each server"};
  }
  options.plan_all = plans;
  options.providers = whatif::providers_named(catalog);
  options.region = region;
  if (!epochs_by_batch.empty()) {
    auto table = io::load_epochs_by_batch(epochs_by_batch);
    if (!table) return tl::unexpected<Error>(table.error());
    options.epochs_by_batch = std::move(*table);
  }
  if (!prices.empty()) {
    auto list = importers::load_prices(prices);
    if (!list) return tl::unexpected<Error>(list.error());
    options.prices = std::move(*list);
  }
  options.predict_all = format.get() == report::Format::kJson;
  return options;
}

}  // namespace

int run_recommend(const std::vector<std::string>& arguments) {
  CLI::App app("Which servers to rent for a training run.", "ddlsim recommend");
  app.footer(std::string(kRecommendExamples));
  RecommendFlags flags;
  flags.add_to(app);
  parse(app, arguments);
  const report::Format shape = flags.format.get();
  std::vector<whatif::Override> more = flags.training.settings();
  for (whatif::Override& setting : flags.scenario.sets()) more.push_back(std::move(setting));
  auto options = flags.options(app);
  if (!options) return print(options.error());
  const auto catalog = open_catalog(flags.data);
  if (!catalog) return print(catalog.error());
  if (const auto known = whatif::check_providers(*catalog, *options); !known) {
    throw UsageError{"--catalog: " + known.error().message, known.error().notes.front()};
  }
  auto settings = flags.scenario.base();
  if (!settings) return print(settings.error());
  settings->insert(settings->end(), more.begin(), more.end());
  const bool has_model =
      std::any_of(settings->begin(), settings->end(), [](const auto& s) { return s.path == "model"; });
  if (!has_model) throw UsageError{"--model is missing", "models: " + join(catalog->ids(io::Kind::kModels))};
  if (const auto sound = whatif::check_choice(*catalog, *settings, *options); !sound) {
    throw UsageError{sound.error().message, sound.error().notes.front()};
  }
  std::optional<ProgressLine> progress;
  options->clock = whatif::steady_time;
  options->progress = [&](std::int64_t done, std::int64_t all) {
    if (!progress) progress.emplace("clusters");
    (*progress)(done, all - done);
  };
  const auto result = whatif::recommend(*catalog, *settings, *options);
  progress.reset();
  return result ? print_answer(report::render(*result, shape), shape, &*catalog) : print(result.error());
}

}  // namespace ddlsim::cli
