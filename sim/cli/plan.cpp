#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "ddlsim/report/views.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/plan_search.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kPlanExamples = R"(
Every legal plan is compared: tensor, pipeline, context and expert ranks, replicas, micro-batch, schedule, ZeRO,
recomputation, sequence parallelism. What a flag or --set states stays as it is. Plans are lists of settings: paste
them into a scenario file, or give them by --set.

Examples:
  ddlsim plan --model llama3.1-70b --node dgx-h100 --nodes 8 --global-batch 1024
  ddlsim plan --model gpt3-175b --node dgx-a100-80gb --nodes 128 --global-batch 1536 --tp 8 --json
  ddlsim plan --model llama3.1-8b --node dgx-h100 --nodes-up-to 4 --global-batch 256 --objective cost \
         --price "dgx-h100=98 $/h")";

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

Time now() {
  return seconds(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace

int run_plan(const std::vector<std::string>& arguments) {
  CLI::App app("Find the best way to split a job over GPUs.", "ddlsim plan");
  app.footer(std::string(kPlanExamples));
  ScenarioFlags flags;
  FormatFlags format;
  std::string data;
  std::string objective = "time";
  std::string price;
  std::string limit;
  std::string nodes_up_to;
  flags.add_to(app);
  format.add_to(app);
  app.add_option("--objective", objective, "what is least: time, memory, cost (time)")->type_name("X");
  app.add_option("--price", price, "NODE=RATE: of a server, as \"dgx-h100=98 $/h\" (the catalogue's)")->type_name("X");
  app.add_option("--limit", limit, "answer after this long with the best so far (60 s)")->type_name("TIME");
  app.add_option("--nodes-up-to", nodes_up_to, "compare clusters of 1, 2, 4, ... servers too")->type_name("N");
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  const report::Format shape = format.get();
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
  const std::vector<whatif::Override> sets = flags.sets();
  const auto catalog = open_catalog(data);
  if (!catalog) return print(catalog.error());
  auto settings = flags.base();
  if (!settings) return print(settings.error());
  settings->insert(settings->end(), sets.begin(), sets.end());
  require_model_and_node(*settings, *catalog);
  if (options.nodes_up_to) settings->push_back({"nodes", nodes_up_to, {}});
  if (app.count("--price") > 0) {
    const auto node =
        std::find_if(settings->rbegin(), settings->rend(), [](const auto& s) { return s.path == "node"; });
    const auto rate = read_price(price, *catalog, node->value);
    if (!rate) return print(rate.error());
    options.price = *rate;
  }
  const auto choice = whatif::search_plans(*catalog, *settings, options, now);
  if (!choice) return print(choice.error());
  std::fputs(fmt::format("{} plans compared in {}, {} of them without a prediction\n", to_text(choice->searched),
                         to_text(choice->seconds), to_text(choice->pruned))
                 .c_str(),
             stderr);
  return print(report::render(*choice, shape));
}

}  // namespace ddlsim::cli
