#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "ddlsim/report/views.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/plan_search.h"
#include "ddlsim/whatif/stage_partition.h"
#include "program.h"
#include "terminal.h"
#include "value_types.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kPlanExamples = R"(
Every legal plan is compared: tensor, pipeline, context and expert ranks, replicas, micro-batch, schedule, ZeRO,
recomputation, sequence parallelism. What a flag or --set states stays as it is; --schedule, --recompute and --zero
take several values, "1f1b,interleaved", and plans choose among them. Plans are lists of settings: paste them into a
scenario file, or give them by --set. The next best differ from those above them: in servers or ranks, or by at least 2 %
less memory, 0.5 % less time or cost.

Examples:
  ddlsim plan --model llama3.1-70b --node dgx-h100 --nodes 8 --global-batch 1024
  ddlsim plan --model gpt3-175b --node dgx-a100-80gb --nodes 128 --global-batch 1536 --tp 8 --json
  ddlsim plan --model llama3.1-70b --node dgx-h100 --nodes 8 --global-batch 1024 --schedule 1f1b,interleaved --zero 0,1
  ddlsim plan -f job.yaml --replan
  ddlsim plan --model llama3.1-8b --node dgx-h100 --nodes-up-to 4 --global-batch 256 --objective cost \
         --price "dgx-h100=98 $/h"
  ddlsim plan --partition --model vgg16 --node dgx1-v100 --gpus-per-node 4 --batch 64
  ddlsim plan --partition --model resnet50 --node dgx1-v100 --on "2 x v100, 2 x p100")";

/// "dgx-h100=12 $/h", or the rate alone.
Expected<PriceRate> read_price(const std::string& text, const io::Catalog& catalog, const std::string& node) {
  const std::size_t equals = text.find('=');
  std::string rate = text;
  if (equals != std::string::npos) {
    rate = text.substr(equals + 1);
    const std::string name = text.substr(0, equals);
    const auto priced = catalog.node(name);
    if (!priced) return tl::unexpected<Error>(priced.error());
    const auto used = catalog.node(node);
    if (used && used->id != priced->id) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("--price is of {}, but the plan is for {}", priced->id, used->id));
    }
  }
  auto price = parse_quantity<dimension::kMoney - dimension::kTime>(rate);
  if (!price) {
    price.error().message = "--price: " + price.error().message;
    price.error().notes.emplace_back("as --price \"dgx-h100=98 $/h\"");
  }
  return price;
}

/// "4 x a100-80gb, 4 x v100": GPUs of several kinds.
std::vector<whatif::GpuShare> read_shares(const std::string& text) {
  std::vector<whatif::GpuShare> shares;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    std::string part = text.substr(start, comma - start);
    start = comma + 1;
    part.erase(0, part.find_first_not_of(' '));
    const std::size_t times = part.find(" x ");
    const auto count = parse_count(times == std::string::npos ? "" : part.substr(0, times), {1, 4096});
    if (!count || times + 3 >= part.size()) {
      throw UsageError{fmt::format("--on '{}' is not COUNT x GPU", part.substr(0, 60)),
                       "as --on \"4 x a100-80gb, 4 x v100\""};
    }
    shares.push_back({part.substr(times + 3), *count});
  }
  return shares;
}

/// The search looks at the clock all along, which is when it can be shown that it lasts.
Expected<answer::PlanChoice> search(const io::Catalog& catalog, const std::vector<whatif::Override>& settings,
                                    const whatif::PlanOptions& options) {
  ProgressLine progress("plans");
  const auto clock = [&, end = whatif::steady_time() + options.limit] {
    const Time time = whatif::steady_time();
    progress.at_most(end - time);
    return time;
  };
  return whatif::search_plans(catalog, settings, options, clock);
}

/// What the flags of `plan` say.
struct PlanFlags {
  ScenarioFlags scenario;
  FormatFlags format;
  ColumnsFlag columns;
  std::string objective = "time";
  std::string price;
  std::string limit;
  std::string nodes_up_to;
  std::string on;
  std::string data;
  bool partition = false;
  bool replan = false;

  void add_to(CLI::App& app) {
    scenario.add_to(app);
    format.add_to(app, true);
    columns.add_to(app);
    app.add_option("--objective", objective, "what is least")
        ->type_name(one_of(answer::kPlanObjectives))
        ->default_str("time");
    app.add_option("--price", price, "of a server")->type_name("PRICE")->default_str("the catalogue's");
    app.add_option("--limit", limit,
                   "answer after this long with the best so far; what was compared by then is counted")
        ->type_name("TIME")
        ->default_str("60 s");
    app.add_flag("--replan", replan,
                 "choose anew what scenario files state of the plan, as imported launch scripts do");
    app.add_option("--nodes-up-to", nodes_up_to, "compare clusters of 1, 2, 4, ... servers too")->type_name("N");
    app.add_flag("--partition", partition, "stages with replicas of their own instead (PipeDream's partition)");
    app.add_option("--on", on, "with --partition: what its stages run on")->type_name("GPUS");
    app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  }
  /// Throws UsageError.
  [[nodiscard]] whatif::PlanOptions options(const CLI::App& app) const;
};

whatif::PlanOptions PlanFlags::options(const CLI::App& app) const {
  whatif::PlanOptions options;
  const auto wanted = parse_choice(answer::kPlanObjectives, objective, "objective");
  if (!wanted) throw UsageError{"--objective: " + wanted.error().message, wanted.error().notes.front()};
  options.objective = *wanted;
  if (app.count("--limit") > 0) {
    const auto most = parse_time(limit);
    if (!most) throw UsageError{"--limit: " + most.error().message, "as --limit 10s"};
    options.limit = *most;
  }
  if (app.count("--nodes-up-to") > 0) {
    const auto most = parse_count(nodes_up_to, {1, hardware::kMaxNodes});
    if (!most) throw UsageError{"--nodes-up-to: " + most.error().message, "as --nodes-up-to 8"};
    if (app.count("--nodes") > 0) throw UsageError{"--nodes and --nodes-up-to", "state one of them"};
    options.nodes_up_to = *most;
  }
  for (const char* other : {"--objective", "--price", "--limit", "--nodes-up-to", "--columns"}) {
    if (partition && app.count(other) > 0) {
      throw UsageError{std::string(other) + " with --partition", "one partition is the fastest: nothing is searched"};
    }
  }
  if (app.count("--on") > 0 && !partition) {
    throw UsageError{"--on without --partition", "plans are of one kind of GPU"};
  }
  return options;
}

}  // namespace

int run_plan(const std::vector<std::string>& arguments) {
  CLI::App app("Find the best way to split a job over GPUs.", "ddlsim plan");
  app.footer(std::string(kPlanExamples));
  PlanFlags flags;
  flags.add_to(app);
  parse(app, arguments);
  const report::Format shape = flags.format.get();
  const auto own_columns = flags.columns.get(shape);
  whatif::PlanOptions options = flags.options(app);
  const auto shares = app.count("--on") > 0 ? read_shares(flags.on) : std::vector<whatif::GpuShare>{};
  const std::vector<whatif::Override> sets = flags.scenario.sets();
  const auto catalog = open_catalog(flags.data);
  if (!catalog) return print(catalog.error());
  auto settings = flags.scenario.base();
  if (!settings) return print(settings.error());
  settings->insert(settings->end(), sets.begin(), sets.end());
  require_model_and_node(*settings, *catalog);
  if (flags.replan) whatif::choose_anew(*settings);
  if (flags.partition) {
    const auto stages = whatif::partition_stages(*catalog, *settings, shares);
    return stages ? print_answer(report::render(*stages, shape), shape, &*catalog) : print(stages.error());
  }
  if (options.nodes_up_to) settings->push_back({"nodes", flags.nodes_up_to, {}});
  if (app.count("--price") > 0) {
    const auto node =
        std::find_if(settings->rbegin(), settings->rend(), [](const auto& s) { return s.path == "node"; });
    const auto rate = read_price(flags.price, *catalog, node->value);
    if (!rate) return print(rate.error());
    options.price = *rate;
  }
  const auto choice = search(*catalog, *settings, options);
  if (!choice) return print(choice.error());
  std::fputs(fmt::format("{} plans compared in {}, {} of them without a prediction\n", to_text(choice->searched),
                         to_text(choice->seconds), to_text(choice->pruned))
                 .c_str(),
             stderr);
  if (own_columns) {
    std::vector<const answer::Prediction*> rows{&choice->best.prediction};
    for (const answer::PlannedJob& one : choice->next) rows.push_back(&one.prediction);
    return print_answer(report::render_columns(rows, *own_columns, shape), shape, &*catalog);
  }
  return print_answer(report::render(*choice, shape), shape, &*catalog);
}

}  // namespace ddlsim::cli
