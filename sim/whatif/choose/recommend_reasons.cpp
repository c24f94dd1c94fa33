#include "choose/recommend_reasons.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "ddlsim/plan/lower.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "predict/notes.h"

namespace ddlsim::whatif {
namespace {

using answer::ServerChoice;

std::string name_of_choice(const ServerChoice& choice) { return fmt::format("{} x {}", choice.nodes, choice.node); }

const ServerChoice& fastest_of(const std::vector<ServerChoice>& choices) {
  return *std::min_element(choices.begin(), choices.end(),
                           [](const ServerChoice& a, const ServerChoice& b) { return a.time() < b.time(); });
}

const ServerChoice& cheapest_of(const std::vector<ServerChoice>& choices) {
  return *std::min_element(choices.begin(), choices.end(),
                           [](const ServerChoice& a, const ServerChoice& b) { return a.cost() < b.cost(); });
}

/// "1 of them needs", "2 of them need".
std::string_view verb_ending(std::int64_t count) { return count == 1 ? "s" : ""; }

/// A later deadline that saves money, and an earlier one that costs some.
void add_deadlines(const answer::Recommendation& result, const std::vector<ServerChoice>& all,
                   std::vector<std::string>& would_help) {
  const ServerChoice& best = result.choices[result.cheapest];
  const Limits money{std::nullopt, result.budget};
  if (result.deadline) {
    const auto cheaper =
        std::find_if(all.begin(), all.end(), [&](const ServerChoice& one) { return money.allow(one); });
    if (cheaper != all.end() && cheaper->cost() < best.cost()) {
      would_help.push_back(fmt::format("a deadline of {}: {} for {}, {} less", to_text(cheaper->time()),
                                       name_of_choice(*cheaper), to_text(cheaper->cost()),
                                       to_text(best.cost() - cheaper->cost())));
    }
  }
  const auto next = std::find_if(result.choices.begin(), result.choices.end(),
                                 [&](const ServerChoice& one) { return one.time() < best.time(); });
  if (next != result.choices.end()) {
    would_help.push_back(fmt::format("a deadline below {}: {} for {} in {}", to_text(best.time()),
                                     name_of_choice(*next), to_text(next->cost()), to_text(next->time())));
  }
}

/// The price at which the best choice of another type would be the cheapest.
void add_price(const answer::Recommendation& result, std::vector<std::string>& would_help) {
  const ServerChoice& best = result.choices[result.cheapest];
  const auto other = std::find_if(result.choices.begin(), result.choices.end(),
                                  [&](const ServerChoice& one) { return one.node != best.node; });
  if (other == result.choices.end()) return;
  const PriceRate now = other->price / static_cast<double>(other->nodes + other->spares);
  const std::string level = to_text(now * (best.cost() / other->cost()));
  if (level == to_text(now)) {
    would_help.push_back(fmt::format("{} below the {} it costs: {} is level with the cheapest", other->node, level,
                                     name_of_choice(*other)));
    return;
  }
  would_help.push_back(fmt::format("{} below {} instead of {}: {} would be the cheapest", other->node, level,
                                   to_text(now), name_of_choice(*other)));
}

/// A larger budget that buys time.
void add_budget(const answer::Recommendation& result, const std::vector<ServerChoice>& all,
                std::vector<std::string>& would_help) {
  if (!result.budget) return;
  const ServerChoice& best = result.choices[result.fastest];
  const auto faster =
      std::find_if(all.begin(), all.end(), [&](const ServerChoice& one) { return one.time() < best.time(); });
  if (faster == all.end()) return;
  would_help.push_back(fmt::format("a budget of {}: {} in {} instead of {}", to_text(faster->cost()),
                                   name_of_choice(*faster), to_text(faster->time()), to_text(best.time())));
}

/// " --set nodes='4' --set strategy='ps'"
std::string as_settings(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::string text;
  for (const auto& [path, value] : settings) text += fmt::format(" --set {}='{}'", path, value);
  return text;
}

}  // namespace

Miss missing_memory(const plan::Needed& needed, std::int64_t batch, const Scenario& scenario) {
  const std::string samples = fmt::format("{} {}", batch, in_number(batch, scenario.model->sample));
  if (!needed.gpu_fits()) {
    return {
        Lack::kGpuMemory,
        fmt::format("memory: {} needed for a pass of {}, {} has {}: {} too much", to_text(needed.all()), samples,
                    scenario.cluster.node.gpu.name, to_text(needed.capacity), to_text(needed.all() - needed.capacity)),
        needed.all() - needed.capacity, needed.tensors};
  }
  return {Lack::kHostMemory,
          fmt::format("host memory: {} of a server needed for a pass of {}, which has {}: {} too much",
                      to_text(needed.host), samples, to_text(needed.host_capacity),
                      to_text(needed.host - needed.host_capacity)),
          needed.host - needed.host_capacity, needed.tensors};
}

bool tells_more(const Miss& miss, const Miss& told) {
  if (told.lack == Lack::kNothingSaid) return true;
  if (!miss.of_memory()) return false;
  return !told.of_memory() || std::pair(miss.lack == Lack::kHostMemory, miss.too_much) <
                                  std::pair(told.lack == Lack::kHostMemory, told.too_much);
}

Miss no_plan(const ClusterPlans& plans, const Scenario& scenario) {
  Miss miss{.lack = Lack::kGpuMemory, .words = {}, .too_much = {}, .of_plans = true};
  const DataSize capacity = scenario.cluster.node.gpu.memory_size;
  const std::int64_t nodes = scenario.cluster.nodes;
  const std::string on = fmt::format("on {} {}", nodes, in_number(nodes, "server"));
  const std::string& gpu = scenario.cluster.node.gpu.name;
  if (!plans.to_the_end) {
    miss.lack = Lack::kTime;
    miss.words = fmt::format("no plan was found in time {} (--limit)", on);
  } else if (plans.least_held <= capacity) {
    miss.words = fmt::format("memory: no plan {} leaves the allocator its part of the {} that {} has", on,
                             to_text(capacity), gpu);
  } else {
    miss.too_much = plans.least_held - capacity;
    miss.words = fmt::format("memory: at least {} needed in whatever plan {}, {} has {}: {} too much",
                             to_text(plans.least_held), on, gpu, to_text(capacity), to_text(miss.too_much));
  }
  return miss;
}

std::string title_of(const Scenario& scenario, bool one_batch) {
  const TrainingRun& run = scenario.training;
  std::string text = fmt::format("{}, {}", scenario.model->name, name_of(kPrecisions, scenario.precision));
  if (run.steps) return text + fmt::format(", {} steps", to_text(*run.steps));
  if (one_batch) {
    const double epochs = run.epochs.value_or(1);
    text += fmt::format(", {} epoch{} of ", significant(epochs), epochs == 1 ? "" : "s");
  }
  if (!one_batch) text += ", epochs as the batch needs them of ";
  return text + (run.tokens ? fmt::format("{} tokens", to_text(*run.tokens))
                            : fmt::format("{} {}", to_text(samples_of_epoch(scenario).value_or(0)),
                                          plural(scenario.model->sample)));
}

std::string outside(const std::vector<ServerChoice>& choices, const Limits& limits) {
  const ServerChoice& fastest = fastest_of(choices);
  const ServerChoice& cheapest = cheapest_of(choices);
  if (limits.deadline && fastest.time() > *limits.deadline) {
    return fmt::format("deadline: {} of them need{} {}, {} too long", fastest.nodes, verb_ending(fastest.nodes),
                       to_text(fastest.time()), to_text(fastest.time() - *limits.deadline));
  }
  if (limits.budget && cheapest.cost() > *limits.budget) {
    return fmt::format("budget: {} of them cost{} {}, {} too much", cheapest.nodes, verb_ending(cheapest.nodes),
                       to_text(cheapest.cost()), to_text(cheapest.cost() - *limits.budget));
  }
  std::vector<ServerChoice> in_time;
  for (const ServerChoice& one : choices) {
    if (one.time() <= *limits.deadline) in_time.push_back(one);
  }
  const ServerChoice& nearest = cheapest_of(in_time);
  return fmt::format("deadline and budget: {} of them {} in time for {}, {} too much", nearest.nodes,
                     nearest.nodes == 1 ? "is" : "are", to_text(nearest.cost()),
                     to_text(nearest.cost() - *limits.budget));
}

std::vector<std::string> would_help(const answer::Recommendation& result, const std::vector<ServerChoice>& all,
                                    std::int64_t max_nodes, const std::optional<ServerChoice>& more) {
  std::vector<std::string> lines;
  add_deadlines(result, all, lines);
  add_price(result, lines);
  add_budget(result, all, lines);
  if (more) {
    lines.push_back(fmt::format("more than {} {} (--max-nodes): {} in {} instead of {}, for {}", to_text(max_nodes),
                                in_number(max_nodes, "server"), name_of_choice(*more), to_text(more->time()),
                                to_text(result.choices[result.fastest].time()), to_text(more->cost())));
  }
  return lines;
}

namespace {

/// Of a date, or its middle: "2024" is July.
int month_of(const std::string& date) {
  constexpr int kMiddle = 7;
  return 12 * std::stoi(date.substr(0, 4)) + (date.size() < 7 ? kMiddle : std::stoi(date.substr(5, 2)));
}

/// Prices of long ago beside those of now.
std::optional<std::string> price_dates_note(const std::vector<ServerChoice>& choices) {
  constexpr int kYear = 12;
  const ServerChoice* oldest = nullptr;
  const ServerChoice* newest = nullptr;
  for (const ServerChoice& one : choices) {
    if (one.price_date.size() < 4) continue;
    if (oldest == nullptr || month_of(one.price_date) < month_of(oldest->price_date)) oldest = &one;
    if (newest == nullptr || month_of(one.price_date) > month_of(newest->price_date)) newest = &one;
  }
  if (oldest == nullptr || month_of(newest->price_date) - month_of(oldest->price_date) <= kYear) return std::nullopt;
  return fmt::format(
      "prices: from {} ({}) to {} ({}), more than a year apart: --prices FILE or --price \"{}=... $/h\" states those "
      "of one day",
      oldest->price_date, oldest->node, newest->price_date, newest->node, oldest->node);
}

}  // namespace

std::vector<std::string> notes_of(const Scenario& scenario, bool precision_stated,
                                  const answer::Recommendation& result) {
  const ServerChoice& best = result.choices[result.cheapest];
  const double rate = static_cast<double>(best.batch) / best.step.in(seconds);
  std::vector<std::string> notes;
  if (!scenario.input.dataset) {
    notes.push_back(fmt::format("input: the loader is taken to keep up; the cheapest choice needs {} {}",
                                significant(rate, 4), plural(scenario.model->sample, "/s")));
  }
  notes.emplace_back(
      "energy: what the GPUs draw where their work was measured (list gpus ID: power), else their TDP while kernels "
      "run; "
      "without hosts and cooling");
  notes.push_back("the cheapest as `predict` has it:" + as_settings(best.settings));
  if (result.fastest != result.cheapest) {
    notes.push_back("the fastest:" + as_settings(result.choices[result.fastest].settings));
  }
  if (plan::has_servers(scenario.strategy) && !scenario.strategy.colocated) {
    notes.emplace_back(
        "parameter servers: on machines of their own, which no price here counts (strategy.colocated=yes: on the "
        "workers')");
  }
  if (!precision_stated && scenario.precision == Precision::kFp32 && scenario.model->has_layers()) {
    notes.emplace_back("precision: nobody stated one; the runs are in fp32 (--precision bf16, fp16, tf32)");
  }
  if (auto dates = price_dates_note(result.choices)) notes.push_back(std::move(*dates));
  if (scenario.training.spot) {
    notes.emplace_back("spot: servers that are taken away, and waiting for them, cost nothing here");
  }
  hardware::Cluster largest = scenario.cluster;
  largest.nodes = std::max(best.nodes, result.choices[result.fastest].nodes);
  if (auto congestion = congestion_note(largest)) notes.push_back(std::move(*congestion));
  return notes;
}

void add_notes_of_best(answer::Recommendation& result) {
  constexpr auto kOfBoth = std::to_array<std::string_view>(
      {"fp32:", "precision:", "storage:", "network:", "input: the first epoch", "stated,"});
  constexpr auto kOfCheapest = std::to_array<std::string_view>({"kernels ", "software:"});
  const auto starts = [](const std::string& note, std::span<const std::string_view> words) {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return note.starts_with(word); });
  };
  for (const std::size_t i : {result.cheapest, result.fastest}) {
    const ServerChoice& choice = result.choices[i];
    if (!choice.prediction) continue;
    for (const std::string& note : choice.prediction->notes) {
      if (!starts(note, kOfBoth) && (i != result.cheapest || !starts(note, kOfCheapest))) continue;
      const std::string line = fmt::format("{}: {}", name_of_choice(choice), note);
      const bool known = std::any_of(result.notes.begin(), result.notes.end(),
                                     [&](const std::string& one) { return one.ends_with(note); });
      if (!known) result.notes.push_back(line);
    }
  }
}

std::string unknown_host(const Scenario& scenario) {
  const hardware::Host& host = scenario.cluster.node.host;
  if (!scenario.input.dataset || (host.cpu && host.storage && host.threads > 0)) return {};
  return fmt::format("input: nobody says what {} it has, which reads {}",
                     !host.cpu || host.threads < 1 ? "processors" : "storage", scenario.input.dataset->name);
}

tl::unexpected<Error> no_batch(const workload::Model& model) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("how many {} has a step of {}?", plural(model.sample), model.name), {},
              {fmt::format("state --global-batch: no source says it, and the {} of the model's file are one GPU's",
                           to_text(model.batch))});
}

tl::unexpected<Error> no_spot(bool listed) {
  return fail(
      ErrorCode::kInfeasible,
      fmt::format("no server can run this job as a spot server: the {} has no spot price of them",
                  listed ? "price list" : "catalogue"),
      {},
      {"say them by --prices FILE: SkyPilot's vms.csv, or a CSV file of your own with the columns InstanceType, "
       "Price, SpotPrice (dollars an hour of the whole server) and Region",
       "or leave --spot out; a price of your own (--price \"g5.xlarge=0.5 $/h\") counts as it is"});
}

tl::unexpected<Error> no_choice(const std::vector<ServerChoice>& all, const std::vector<answer::NoChoice>& infeasible,
                                const Limits& limits, bool planned) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> notes;
  std::string what = planned ? "no server can run this job in any plan" : "no server can run this job";
  if (!all.empty()) {
    const ServerChoice& fastest = fastest_of(all);
    const ServerChoice& cheapest = cheapest_of(all);
    const bool too_slow = limits.deadline && fastest.time() > *limits.deadline;
    const bool too_dear = limits.budget && cheapest.cost() > *limits.budget;
    if (too_slow) {
      what = fmt::format("no choice is done in {}", to_text(*limits.deadline));
    } else if (too_dear) {
      what = fmt::format("no choice costs {} or less", to_text(*limits.budget));
    } else {
      what = fmt::format("no choice is done in {} for {}", to_text(*limits.deadline), to_text(*limits.budget));
    }
    notes.push_back(
        fmt::format("the fastest: {}, {}{}, {}", name_of_choice(fastest), to_text(fastest.time()),
                    too_slow ? fmt::format(" ({} too long)", to_text(fastest.time() - *limits.deadline)) : "",
                    to_text(fastest.cost())));
    notes.push_back(
        fmt::format("the cheapest: {}, {}{}, {}", name_of_choice(cheapest), to_text(cheapest.cost()),
                    too_dear ? fmt::format(" ({} too much)", to_text(cheapest.cost() - *limits.budget)) : "",
                    to_text(cheapest.time())));
  }
  for (std::size_t i = 0; i < infeasible.size() && i < kShown; ++i) {
    notes.push_back(fmt::format("{}: {}", infeasible[i].node, infeasible[i].why));
  }
  if (infeasible.size() > kShown) notes.push_back(fmt::format("and {} more", infeasible.size() - kShown));
  return fail(ErrorCode::kInfeasible, std::move(what), {}, std::move(notes));
}

}  // namespace ddlsim::whatif
