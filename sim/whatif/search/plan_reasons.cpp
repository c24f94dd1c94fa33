#include "search/plan_reasons.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "ddlsim/hardware/link_words.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/fitting.h"
#include "ddlsim/whatif/predict.h"
#include "search/plan_bound.h"
#include "search/plan_correction.h"
#include "search/plan_memory.h"

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

/// As its runs correct it.
Expected<Time> step_of(const Scenario& job, plan::StepPlan plan, PlanTools& tools) {
  return step_of(job, std::make_shared<const plan::StepPlan>(std::move(plan)), tools, Time::infinity())
      .map([&](Time step) { return PlanCorrection::corrected(job, step, tools); });
}

/// On another network: stages that follow from layers' times follow again.
Expected<Time> step_on(const Scenario& job, PlanTools& tools) {
  auto plan = tools.stages.lowered(job, [&](const plan::Job& cut) { return tools.lowerer.lower(cut); });
  if (!plan) return tl::unexpected<Error>(plan.error());
  return step_of(job, std::move(*plan), tools);
}

/// What the objective counts, and what decides among equals.
std::pair<double, double> by_objective(answer::PlanObjective objective, Time step, DataSize memory, Money cost) {
  const double time = step.in(seconds);
  const double held = memory.in(bytes);
  switch (objective) {
    case answer::PlanObjective::kTime: return {time, held};
    case answer::PlanObjective::kMemory: return {held, time};
    case answer::PlanObjective::kCost: return {cost.in(dollars), held};
  }
  return {time, held};
}

/// The best of the plans that are looked at, on another cluster: by the same objective. `change` says what it sets.
template <typename Change>
const Tried* add_sensitivity(const PlanSpace& space, PlanTools& tools, std::span<const Tried> plans,
                             const PlanChoice& choice, std::string name, Change change,
                             const std::function<bool()>& is_late, std::vector<answer::PlanSensitivity>& to) {
  const std::optional<PriceRate>& price = space.base().cluster.node.price;
  const Tried* best = nullptr;
  std::pair<double, double> least;
  answer::PlanSensitivity found{.change = std::move(name), .settings = {}, .plan = {}, .reason = {}, .cost = {}};
  for (const Tried& one : plans) {
    if (is_late()) {
      return nullptr;
    }
    Scenario job = space.with(one.split);
    if (space.timed_cuts_of(one.split) != nullptr) job.parallel.cuts.clear();
    found.settings = change(job);
    const auto step = step_on(job, tools);
    if (!step) {
      continue;
    }
    const Money cost = price.value_or(PriceRate::zero()) * static_cast<double>(one.split.nodes) * *step;
    const auto value = by_objective(choice.objective, *step, one.memory, cost);
    if (best != nullptr && value >= least) {
      continue;
    }
    best = &one;
    least = value;
    found.step_time = *step;
    found.memory_per_gpu = one.memory;
    found.cost = price ? std::optional(cost) : std::nullopt;
  }
  if (best == nullptr) {
    return nullptr;
  }
  found.plan = space.settings_of(best->split);
  found.same = best == plans.data();
  to.push_back(std::move(found));
  return best;
}

/// To a rate as people type it. A rate alone says neither ports nor what drives them: both stay, and are said.
answer::PlanSettings hasten_network(Scenario& job, double factor) {
  hardware::Node& node = job.cluster.node;
  const std::string rate = to_text_in_bits(node.network.bandwidth * factor);
  node.network.bandwidth = parse_bandwidth(rate).value_or(node.network.bandwidth * factor);
  answer::PlanSettings settings{{"network", fmt::format("{} x {}", node.network_ports, rate)}};
  if (const auto& by = node.network.transport.get()) {
    settings.emplace_back("network.transport", name_of(hardware::kNetworkTransports, *by));
  }
  return settings;
}

answer::PlanSettings slow_nvlink(Scenario& job) {
  hardware::Link& nvlink = *job.cluster.node.nvlink;
  const std::string rate = to_text(nvlink.bandwidth * 0.5);
  nvlink.bandwidth = parse_bandwidth(rate).value_or(nvlink.bandwidth * 0.5);
  return {{"nvlink", rate}};
}

void hasten_slots(Scenario& job, double factor) {
  hardware::Node& node = job.cluster.node;
  node.pcie.bandwidth = node.pcie.bandwidth * factor;
  node.host_link.bandwidth = node.host_link.bandwidth * factor;
}

/// Why a network of twice the rate is of less use than it might be: the slots that its cards are in. Empty where slots
/// of twice the rate make of it no more than each does alone.
std::string slots_reason(const PlanSpace& space, PlanTools& tools, const Split& split, Time with_network) {
  constexpr double kMore = 0.99;
  const auto step_with = [&](double network) {
    Scenario job = space.with(split);
    if (space.timed_cuts_of(split) != nullptr) job.parallel.cuts.clear();
    hasten_network(job, network);
    hasten_slots(job, 2);
    return step_on(job, tools);
  };
  const auto both = step_with(2);
  if (!both || *both > with_network * kMore) {
    return {};
  }
  const auto slots_alone = step_with(1);
  if (!slots_alone || *both > *slots_alone * kMore) {
    return {};
  }
  return fmt::format("the cards' slots (pcie, {} each) are what bounds it then; both twice as fast: step {}",
                     to_text(space.base().cluster.node.pcie.bandwidth), to_text(*both));
}

/// With GPUs that hold more: the fastest of the plans that may then win.
void add_larger_memory(const PlanSpace& space, PlanTools& tools, std::span<const TooLarge> too_large,
                       const PlanChoice& choice, std::vector<answer::PlanSensitivity>& to) {
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
    auto plan = tools.lowerer.lower(job);
    if (!plan) continue;
    const plan::Needed needed = plan::needed_by(job, *plan);
    const DataSize needs = needed.all();
    if (needs > capacity * kMostTimes || !needed.host_fits()) continue;
    const auto step = step_of(job, std::move(*plan), tools);
    ++tried;
    if (!step || *step >= least) continue;
    least = *step;
    const std::optional<PriceRate>& price = space.base().cluster.node.price;
    found = {.change = fmt::format("GPUs of {} instead of {}", to_text(needs), to_text(capacity)),
             .settings = {},
             .plan = space.settings_of(split),
             .same = false,
             .step_time = *step,
             .reason = {},
             .memory_per_gpu = needed.tensors.total(),
             .cost = price ? std::optional(*price * static_cast<double>(split.nodes) * *step) : std::nullopt};
  }
  if (found) to.push_back(std::move(*found));
}

/// "it holds 604 MB of weights, ...: 1.2 GB too much"
std::vector<std::string> what_is_missing(const plan::Needed& needed) {
  std::vector<std::string> missing;
  if (!needed.gpu_fits()) {
    const plan::MemoryFootprint& held = needed.tensors;
    const DataSize states = held.optimizer_state + held.master;
    missing.push_back(fmt::format(
        "it holds {} of weights, {} of gradients, {} of optimizer states, {} of activations, {} of others: {} too much",
        to_text(held.weights), to_text(held.gradients), to_text(states), to_text(held.activations),
        to_text(needed.all() - held.weights - held.gradients - states - held.activations),
        to_text(needed.all() - needed.capacity)));
  }
  if (!needed.host_fits()) {
    missing.push_back(fmt::format("{} wait in the memory of a server, which has {}: {} too much", to_text(needed.host),
                                  to_text(needed.host_capacity), to_text(needed.host - needed.host_capacity)));
  }
  return missing;
}

struct LeastHeld {
  PlanId id;
  plan::Needed needed;
};

/// What was found among the plans of a space.
struct LookedAt {
  std::optional<LeastHeld> least;
  bool to_the_end = true;  // false: no time was left

  [[nodiscard]] bool fits() const { return least && least->needed.fits(); }
};

/// The plan that lacks least, by the ledger of the lowering; nothing where none is legal. With `to_fit` the first that
/// is found to fit, and of the others those alone whose bounds do.
LookedAt holds_least(const PlanSpace& space, bool to_fit, PlanTools& tools, const Clock& clock, Time deadline) {
  const DataSize capacity = space.base().cluster.node.gpu.memory_size;
  PlanMemory memories(space, tools);
  LookedAt looked;
  std::vector<std::pair<DataSize, PlanId>> order;
  for (std::uint32_t f = 0; f < space.families().size(); ++f) {
    if (clock() >= deadline) {
      looked.to_the_end = false;
      break;
    }
    const PlanFamily& family = space.families()[f];
    Split least = family.split;
    least.zero = 3;
    const DataSize any = memories.least(least, family.shape, space.most_parts(least.pipeline));
    if (any == DataSize::infinity() || (to_fit && any > capacity)) continue;
    const std::vector<Split> members = space.members(family);
    for (std::uint32_t m = 0; m < members.size(); ++m) {
      const DataSize bound = memories.of(members[m], family.shape);
      if (bound != DataSize::infinity() && !(to_fit && bound > capacity)) order.push_back({bound, {f, m}});
    }
  }
  std::sort(order.begin(), order.end());
  for (const auto& [bound, id] : order) {
    if (looked.fits() || (looked.least && bound / capacity >= looked.least->needed.times())) break;
    // One at least, for there is something to say of it.
    if (clock() >= deadline && (to_fit || looked.least)) {
      looked.to_the_end = false;
      break;
    }
    const Scenario job = space.with(space.split(id));
    const auto plan = tools.lowerer.outline(job);
    if (!plan) continue;
    plan::Needed needed = plan::needed_by(job, *plan);
    if (!looked.least || needed.times() < looked.least->needed.times()) looked.least = {id, std::move(needed)};
  }
  return looked;
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

/// The largest number of servers that is looked at.
constexpr std::int64_t kMostServersNamed = 1 << 14;

/// How often 2 divides it: degrees are powers of two, more often than not.
int twos_in(std::int64_t number) { return std::countr_zero(static_cast<std::uint64_t>(number)); }

/// Numbers of servers from `first` on that ranks and replicas are likely to divide, doubling by doubling: multiples of
/// what the stated degrees need by powers of two, by 3 and by odd numbers that divide the step's samples.
std::vector<std::int64_t> likely_numbers(const PlanSpace& space, std::int64_t first) {
  constexpr std::int64_t kMostOdd = 16;
  const plan::Parallel& stated = space.base().parallel;  // 1 where nobody says
  const std::int64_t ranks = stated.tensor * stated.context * stated.pipeline;
  const std::int64_t unit = ranks / std::gcd(ranks, space.base().cluster.gpus_per_node);
  std::vector<std::int64_t> numbers;
  for (std::int64_t odd = 1; odd < kMostOdd; odd += 2) {
    if (odd != 3 && space.global_batch() % odd != 0) continue;
    for (std::int64_t n = unit * odd; n <= kMostServersNamed; n *= 2) {
      if (n >= first) numbers.push_back(n);
    }
  }
  const auto doublings = [&](std::int64_t n) { return std::bit_width(static_cast<std::uint64_t>(n / first)); };
  std::sort(numbers.begin(), numbers.end(), [&](std::int64_t a, std::int64_t b) {
    return std::tuple(doublings(a), -twos_in(a), a) < std::tuple(doublings(b), -twos_in(b), b);
  });
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

/// The fewest servers on which some plan fits. What fits need not fit on more, for degrees must divide.
class SmallestCluster {
 public:
  SmallestCluster(const PlanSpace& space, PlanTools& tools, const Clock& clock, Time deadline)
      : space_(space), tools_(tools), clock_(clock), begin_(clock()), deadline_(deadline) {}

  std::string words();

 private:
  /// Whether any plan fits on so many; where no time is left, `in_time_` is false.
  bool fits(std::int64_t nodes) {
    const auto [known, added] = known_.try_emplace(nodes, false);
    if (!added || !in_time_) return known->second;
    const PlanSpace other = space_.on(nodes, tools_.lowerer, [&](double) { return clock_() >= deadline_; });
    const LookedAt looked = holds_least(other, true, tools_, clock_, deadline_);
    in_time_ = in_time_ && (looked.fits() || (looked.to_the_end && other.is_whole()));
    return known->second = looked.fits();
  }
  [[nodiscard]] std::string not_found() const;
  [[nodiscard]] std::string named(std::int64_t nodes) const {
    const hardware::Cluster& cluster = space_.base().cluster;
    return fmt::format("{} x {} ({} GPUs{})", to_text(nodes), cluster.node.name, to_text(nodes * cluster.gpus_per_node),
                       idle_gpus(cluster, nodes));
  }

  const PlanSpace& space_;
  PlanTools& tools_;
  const Clock& clock_;
  Time begin_;
  Time deadline_;
  bool in_time_ = true;
  std::map<std::int64_t, bool> known_;  // whether it fits
};

std::string SmallestCluster::not_found() const {
  constexpr std::string_view kHelp =
      "smaller samples, other GPUs, parallel.recompute or parallel.offload_optimizer may help";
  if (in_time_) {
    return fmt::format(
        "no number of these servers up to {} that was tried is enough (powers of two, and a few times "
        "them): {}",
        to_text(kMostServersNamed), kHelp);
  }
  return fmt::format("how many of these servers are enough was not found in {} (--limit): {}",
                     to_text(clock_() - begin_), kHelp);
}

std::string SmallestCluster::words() {
  const std::int64_t first = std::max(space_.base().cluster.nodes + 1, fewest_nodes(space_));
  const std::vector<std::int64_t> likely = likely_numbers(space_, first);
  std::int64_t enough = 0;
  for (std::size_t i = 0; i < likely.size() && enough == 0 && in_time_; ++i) {
    if (fits(likely[i])) enough = likely[i];
  }
  if (enough == 0) return not_found();
  // Of those below, the likely ones first: they leave fewer to look at, one by one.
  for (const std::int64_t nodes : likely) {
    if (nodes < enough && in_time_ && fits(nodes)) enough = nodes;
  }
  std::int64_t nodes = first;
  while (nodes < enough && !fits(nodes) && in_time_) ++nodes;
  if (nodes < enough && !in_time_) {
    const std::string fewer =
        nodes > first ? fmt::format("fewer than that and more than {}", to_text(nodes - 1)) : "fewer";
    return fmt::format("it fits on {}; whether on {} was not looked at to the end (--limit)", named(enough), fewer);
  }
  return "the smallest cluster that fits: " + named(nodes);
}

}  // namespace

void FastestTooLarge::keep(const TooLarge& one) {
  constexpr std::size_t kKept = 24;
  if (fastest_.size() == kKept && one.bound >= fastest_.back().bound) {
    return;
  }
  const auto at = std::upper_bound(fastest_.begin(), fastest_.end(), one,
                                   [](const TooLarge& a, const TooLarge& b) { return a.bound < b.bound; });
  fastest_.insert(at, one);
  if (fastest_.size() > kKept) {
    fastest_.pop_back();
  }
}

std::string title_of(const PlanSpace& space) {
  const Scenario& base = space.base();
  const hardware::Cluster& cluster = base.cluster;
  std::string text = fmt::format(
      "{}, {} {} a step, {}, on {}{} x {} ({} GPUs: {})", base.model->name, to_text(space.global_batch()),
      plural(base.model->sample), name_of(kPrecisions, base.precision), space.compares_clusters() ? "up to " : "",
      to_text(cluster.nodes), cluster.node.name, to_text(cluster.gpus()), cluster.node.gpu.name);
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

std::vector<answer::PlanSensitivity> sensitivity_of(const PlanSpace& space, PlanTools& tools,
                                                    std::span<const Tried> plans, std::span<const TooLarge> too_large,
                                                    const PlanChoice& choice, const std::function<bool()>& is_late) {
  std::vector<answer::PlanSensitivity> list;
  const hardware::Node& node = space.base().cluster.node;
  if (plans.front().split.nodes > 1) {
    for (const auto& [factor, name] : {std::pair{0.5, "half"}, std::pair{2.0, "twice"}}) {
      const Tried* best = add_sensitivity(
          space, tools, plans, choice, fmt::format("network {} as fast", name),
          [factor = factor](Scenario& job) { return hasten_network(job, factor); }, is_late, list);
      if (best != nullptr && factor > 1 && best->split.nodes > 1) {
        list.back().reason = slots_reason(space, tools, best->split, list.back().step_time);
      }
    }
  }
  if (node.nvlink) {
    add_sensitivity(space, tools, plans, choice, hardware::gpu_link_word(*node.nvlink) + " half as fast", slow_nvlink,
                    is_late, list);
  }
  if (choice.objective == answer::PlanObjective::kTime && !is_late()) {
    add_larger_memory(space, tools, too_large, choice, list);
  }
  return list;
}

Error fits_nowhere(const PlanSpace& space, const Clock& clock, Time deadline) {
  const Scenario& base = space.base();
  const hardware::Cluster& cluster = base.cluster;
  Error error{ErrorCode::kInfeasible,
              fmt::format("{} fits in no plan on {} x {}", base.model->name, to_text(cluster.nodes), cluster.node.name),
              {},
              {},
              {}};
  PlanTools tools(space.base());
  // Half of the time is for other numbers of servers.
  const Time begin = clock();
  const LookedAt looked = holds_least(space, false, tools, clock, begin + (deadline - begin) / 2.0);
  if (!looked.least && looked.to_the_end) return space.nothing_legal();  // whatever the plans hold
  if (looked.least) {
    const plan::Needed& needed = looked.least->needed;
    error.message += looked.to_the_end ? ": the plan that holds least needs" : ": of those looked at one needs";
    if (!needed.gpu_fits()) {
      error.message += fmt::format(" {} of {} per GPU", to_text(needed.all()), to_text(needed.capacity));
    }
    if (!needed.host_fits()) {
      error.message += fmt::format("{} {} of {} in a server's host memory", needed.gpu_fits() ? "" : " and",
                                   to_text(needed.host), to_text(needed.host_capacity));
    }
    std::string text;
    for (const auto& [path, value] : space.settings_of(space.split(looked.least->id))) {
      if (path.starts_with("parallel.") || path == "batch") text += fmt::format(" {}={}", path, value);
    }
    error.notes.push_back("that plan:" + text);
    for (std::string& missing : what_is_missing(needed)) error.notes.push_back(std::move(missing));
  }
  error.notes.push_back(SmallestCluster(space, tools, clock, deadline).words());
  if (plan::has_tables(base) && base.strategy.kind != plan::StrategyKind::kPearl) {
    error.notes.emplace_back("--strategy pearl spreads its tables over the GPUs");
  }
  return error;
}

}  // namespace ddlsim::whatif
