#include "plan_reasons.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/step/schedule.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/predict.h"
#include "plan_bound.h"
#include "plan_correction.h"
#include "plan_memory.h"

namespace ddlsim::whatif {
namespace {

using answer::PlanChoice;
using answer::Prediction;

/// Parts of a step that differ by less are not worth a word.
constexpr double kWorthSaying = 0.002;

std::string signed_time(Time difference) {
  const bool less = difference < Time::zero();
  return (less ? "-" : "+") + to_text(less ? Time::zero() - difference : difference);
}

/// "+3.1 %: bubble +1.2 s, exposed communication -0.3 s; memory 61 GB against 70 GB"
std::string against(const Prediction& best, const Prediction& other) {
  const answer::Breakdown& a = best.breakdown;
  const answer::Breakdown& b = other.breakdown;
  struct Part {
    std::string_view name;
    Time difference;
  };
  std::array<Part, 5> parts{{
      {"bubble", b.bubble - a.bubble},
      {"exposed communication", b.communication_exposed - a.communication_exposed},
      {"kernels", (b.compute + b.memory) - (a.compute + a.memory)},
      {"launches", b.launch - a.launch},
      {"the rest", (b.input_exposed + b.other) - (a.input_exposed + a.other)},
  }};
  const auto size = [](const Part& part) { return std::abs(part.difference.in(seconds)); };
  std::stable_sort(parts.begin(), parts.end(), [&](const Part& x, const Part& y) { return size(x) > size(y); });
  std::string text;
  for (const Part& part : parts) {
    if (size(part) < best.step_time.in(seconds)*kWorthSaying) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", part.name, signed_time(part.difference));
  }
  if (text.empty()) text = "the same parts";
  text += fmt::format("; memory {}", to_text(other.memory_per_gpu));
  return text;
}

Expected<Time> step_on(const Scenario& job) {
  auto plan = plan::lower(job);
  if (!plan) return tl::unexpected<Error>(plan.error());
  return step_of(job, std::make_shared<const plan::StepPlan>(std::move(*plan)));
}

/// The best of the plans that are shown, on another cluster.
template <typename Change>
void add_sensitivity(const PlanSpace& space, std::span<const Split> shown, std::string name, Change change,
                     std::vector<answer::PlanSensitivity>& to) {
  std::size_t best = shown.size();
  Time least = Time::infinity();
  for (std::size_t i = 0; i < shown.size(); ++i) {
    Scenario job = space.with(shown[i]);
    change(job);
    const auto step = step_on(job);
    if (!step || *step >= least) continue;
    least = *step;
    best = i;
  }
  if (best == shown.size()) return;
  to.push_back(
      {.change = std::move(name), .plan = space.settings_of(shown[best]), .same = best == 0, .step_time = least});
}

/// With GPUs that hold more: the fastest of the plans that may then win.
void add_larger_memory(const PlanSpace& space, std::span<const TooLarge> too_large, const PlanChoice& choice,
                       std::vector<answer::PlanSensitivity>& to) {
  constexpr std::size_t kTried = 8;
  constexpr double kMostTimes = 3;  // as much as a GPU has: no larger GPU of the next generation
  const DataSize capacity = space.base().cluster.node.gpu.memory_size;
  Time least = choice.best.prediction.step_time;
  std::optional<answer::PlanSensitivity> found;
  std::size_t tried = 0;
  for (const TooLarge& one : too_large) {
    if (one.bound >= least || tried == kTried) break;
    if (one.memory > capacity * kMostTimes) continue;
    const Split split = space.split(one.id);
    const Scenario job = space.with(split);
    auto plan = plan::lower(job);
    if (!plan) continue;
    const DataSize needs = fullest(job, *plan).all;
    if (needs > capacity * kMostTimes) continue;
    const auto step = step_of(job, std::make_shared<const plan::StepPlan>(std::move(*plan)));
    ++tried;
    if (!step || *step >= least) continue;
    least = *step;
    found = {.change = fmt::format("GPUs of {} instead of {}", to_text(needs), to_text(capacity)),
             .plan = space.settings_of(split),
             .same = false,
             .step_time = *step};
  }
  if (found) to.push_back(std::move(*found));
}

/// "it holds 604 MB of weights, ...: 1.2 GB too much"
std::string what_is_missing(const Scenario& job, const plan::StepPlan& plan, DataSize capacity) {
  const auto most = std::max_element(plan.classes.begin(), plan.classes.end(),
                                     [](const auto& a, const auto& b) { return a.memory.total() < b.memory.total(); });
  const plan::MemoryFootprint& held = most->memory;
  const DataSize all = fullest(job, plan).all;
  return fmt::format(
      "it holds {} of weights, {} of gradients, {} of optimizer states, {} of activations, {} of others: {} too much",
      to_text(held.weights), to_text(held.gradients), to_text(held.optimizer_state + held.master),
      to_text(held.activations),
      to_text(all - held.weights - held.gradients - held.optimizer_state - held.master - held.activations),
      to_text(all - capacity));
}

/// The plan that holds least, by the ledger of the lowering; nothing where none is legal, or in time. With `enough` the
/// first that is found to hold no more, or nothing.
std::optional<TooLarge> holds_least(const PlanSpace& space, DataSize enough, PlanTools& tools, const Clock& clock,
                                    Time deadline) {
  PlanMemory memories(space, tools);
  std::vector<std::pair<DataSize, PlanId>> order;
  for (std::uint32_t f = 0; f < space.families().size() && clock() < deadline; ++f) {
    const PlanFamily& family = space.families()[f];
    Split least = family.split;
    least.zero = 3;
    const DataSize any = memories.least(least, family.shape, space.most_parts(least.pipeline));
    if (any == DataSize::infinity() || (enough > DataSize::zero() && any > enough)) continue;
    const std::vector<Split> members = space.members(family);
    for (std::uint32_t m = 0; m < members.size(); ++m) {
      const DataSize bound = memories.of(members[m], family.shape);
      if (bound != DataSize::infinity()) order.push_back({bound, {f, m}});
    }
  }
  std::sort(order.begin(), order.end());
  std::optional<TooLarge> least;
  for (const auto& [bound, id] : order) {
    if (clock() >= deadline || (least && (bound >= least->memory || least->memory <= enough))) break;
    if (enough > DataSize::zero() && bound > enough) break;
    const Scenario job = space.with(space.split(id));
    const auto plan = tools.lowerer.outline(job);
    if (!plan) continue;
    const DataSize memory = fullest(job, *plan).all;
    if (!least || memory < least->memory) least = {.id = id, .bound = {}, .memory = memory, .exact = true};
  }
  return least;
}

/// Weights, gradients and states of the whole model over all GPUs: no plan holds less, whatever it shares.
std::int64_t fewest_nodes(const PlanSpace& space) {
  const Scenario& base = space.base();
  DataSize all;
  plan::Lowerer lowerer;
  if (const auto plan = lowerer.outline(space.with(Split{.nodes = base.cluster.nodes, .data = base.cluster.gpus()}))) {
    const plan::MemoryFootprint& held = plan->classes.front().memory;
    all = held.weights + held.gradients + held.master + held.optimizer_state;
  }
  const DataSize server = base.cluster.node.gpu.memory_size * static_cast<double>(base.cluster.gpus_per_node);
  return static_cast<std::int64_t>(std::ceil(all / server * (1 - 1e-9)));
}

/// The fewest servers on which some plan fits, in words. What fits need not fit on more (degrees must divide), so every
/// number below one that fits is looked at; bounds of memory dismiss most at once.
std::string smallest_cluster(const PlanSpace& space, PlanTools& tools, const Clock& clock, Time deadline) {
  constexpr std::int64_t kMost = 1 << 14;
  const hardware::Cluster& cluster = space.base().cluster;
  const DataSize capacity = cluster.node.gpu.memory_size;
  const auto fits = [&](std::int64_t nodes) {
    const PlanSpace other = space.on(nodes, tools.lowerer);
    const auto least = holds_least(other, capacity, tools, clock, deadline);
    return least && least->memory <= capacity;
  };
  const auto words = [&](std::int64_t nodes) {
    return fmt::format("{} x {} ({} GPUs)", to_text(nodes), cluster.node.name, to_text(nodes * cluster.gpus_per_node));
  };
  const std::int64_t first = std::max(cluster.nodes + 1, fewest_nodes(space));
  std::int64_t enough = first;
  bool found = false;
  while (!found && enough <= kMost && clock() < deadline) {
    found = fits(enough);
    if (!found) enough *= 2;
  }
  if (!found) {
    return fmt::format(
        "no number of these servers up to {} is enough, as far as was looked: smaller samples, other GPUs, "
        "parallel.recompute or parallel.offload_optimizer may help",
        to_text(std::min(enough, kMost)));
  }
  std::int64_t nodes = first;
  while (nodes < enough && clock() < deadline && !fits(nodes)) ++nodes;
  if (nodes < enough && clock() >= deadline) {
    return fmt::format(
        "it fits on {}; whether on fewer than that and more than {} was not looked at to the end (--limit)",
        words(enough), to_text(nodes - 1));
  }
  return "the smallest cluster that fits: " + words(nodes);
}

}  // namespace

Held fullest(const Scenario& job, const plan::StepPlan& plan) {
  const auto most = std::max_element(plan.classes.begin(), plan.classes.end(),
                                     [](const auto& a, const auto& b) { return a.memory.total() < b.memory.total(); });
  const auto overhead = plan::device_overhead(most->memory, job);
  return {most->memory.total(), most->memory.total() + overhead.total()};
}

Expected<Time> step_of(const Scenario& job, std::shared_ptr<const plan::StepPlan> plan) {
  const auto layers = cost::price_layers(job, *plan, {kInterval90Low, kInterval90High});
  if (!layers) return tl::unexpected<Error>(layers.error());
  const auto step = cost::price(job, std::move(plan), *layers);
  if (!step) return tl::unexpected<Error>(step.error());
  const auto line = step::schedule(*step, answer::Detail::kTime);
  if (!line) return tl::unexpected<Error>(line.error());
  return PlanCorrection::corrected(job, line->step);
}

std::string title_of(const PlanSpace& space) {
  const Scenario& base = space.base();
  const hardware::Cluster& cluster = base.cluster;
  std::string text =
      fmt::format("{}, {} {} a step, {}, on {} x {} ({} GPUs: {})", base.model->name, to_text(space.global_batch()),
                  plural(base.model->sample), name_of(kPrecisions, base.precision), to_text(cluster.nodes),
                  cluster.node.name, to_text(cluster.gpus()), cluster.node.gpu.name);
  if (cluster.nodes > 1) {
    text += fmt::format(", network {} per server", to_text_in_bits(cluster.node.network_bandwidth()));
  }
  return text;
}

std::vector<std::string> why_best(const PlanChoice& choice) {
  std::vector<std::string> why;
  const Prediction& best = choice.best.prediction;
  for (const answer::PlannedJob& other : choice.next) why.push_back(against(best, other.prediction));
  return why;
}

std::vector<answer::PlanSensitivity> sensitivity_of(const PlanSpace& space, std::span<const Split> shown,
                                                    std::span<const TooLarge> too_large, const PlanChoice& choice) {
  std::vector<answer::PlanSensitivity> list;
  const hardware::Node& node = space.base().cluster.node;
  if (shown.front().nodes > 1) {
    for (const auto& [factor, name] : {std::pair{0.5, "half"}, std::pair{2.0, "twice"}}) {
      add_sensitivity(
          space, shown, fmt::format("network {} as fast", name),
          [&](Scenario& job) {
            hardware::Link& network = job.cluster.node.network;
            network.bandwidth = network.bandwidth * factor;
          },
          list);
    }
  }
  if (node.nvlink) {
    add_sensitivity(
        space, shown, "NVLink half as fast",
        [](Scenario& job) {
          hardware::Link& nvlink = *job.cluster.node.nvlink;
          nvlink.bandwidth = nvlink.bandwidth * 0.5;
        },
        list);
  }
  if (choice.objective == answer::PlanObjective::kTime) add_larger_memory(space, too_large, choice, list);
  return list;
}

Error fits_nowhere(const PlanSpace& space, const Clock& clock, Time deadline) {
  const Scenario& base = space.base();
  const hardware::Cluster& cluster = base.cluster;
  const DataSize capacity = base.cluster.node.gpu.memory_size;
  Error error{ErrorCode::kInfeasible,
              fmt::format("{} fits in no plan on {} x {}", base.model->name, to_text(cluster.nodes), cluster.node.name),
              {},
              {},
              {}};
  PlanTools tools(space.base());
  const auto least = holds_least(space, DataSize::zero(), tools, clock, deadline);
  if (!least && clock() < deadline) return space.nothing_legal();  // whatever the plans hold
  if (least) {
    const Split split = space.split(least->id);
    error.message +=
        fmt::format(": the plan that holds least needs {} of {} per GPU", to_text(least->memory), to_text(capacity));
    std::string text;
    for (const auto& [path, value] : space.settings_of(split)) {
      if (path.starts_with("parallel.") || path == "batch") text += fmt::format(" {}={}", path, value);
    }
    error.notes.push_back("that plan:" + text);
    const Scenario job = space.with(split);
    if (const auto plan = plan::lower(job)) error.notes.push_back(what_is_missing(job, *plan, capacity));
  }
  error.notes.push_back(smallest_cluster(space, tools, clock, deadline));
  if (plan::has_tables(base) && base.strategy.kind != plan::StrategyKind::kPearl) {
    error.notes.emplace_back("--strategy pearl spreads its tables over the GPUs");
  }
  return error;
}

}  // namespace ddlsim::whatif
