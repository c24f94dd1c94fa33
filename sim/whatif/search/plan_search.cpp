#include "ddlsim/whatif/plan_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <tuple>
#include <utility>

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/step/schedule.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/predict.h"
#include "predict/notes.h"
#include "scenario/stated_runs.h"
#include "search/plan_bound.h"
#include "search/plan_correction.h"
#include "search/plan_memory.h"
#include "search/plan_reasons.h"
#include "search/plan_space.h"
#include "search/plan_tools.h"

namespace ddlsim::whatif {
namespace {

using answer::PlanObjective;

/// A plan whose step is known.
struct Tried {
  PlanId id;
  Time step{};
  DataSize memory{};
  Money cost{};
  double value = 0;   // of the objective
  double second = 0;  // among equals

  friend bool operator<(const Tried& a, const Tried& b) {
    return std::tie(a.value, a.second, a.id) < std::tie(b.value, b.second, b.id);
  }
};

/// What is worked out once for many plans. To forget it costs time, and changes no answer.
struct SharedWork {
  PlanTools tools;
  PlanBounds bounds;
  PlanMemory memories;

  explicit SharedWork(const PlanSpace& space) : tools(space.base()), bounds(space, tools), memories(space, tools) {}
};

class PlanSearch {
 public:
  PlanSearch(const PlanSpace& space, const PlanOptions& options)
      : space_(space),
        options_(options),
        shared_(std::make_unique<SharedWork>(space)),
        correction_(space),
        capacity_(space.base().cluster.node.gpu.memory_size),
        price_(space.base().cluster.node.price.value_or(PriceRate::zero())) {}

  void best_first(const Clock& clock, Time deadline);
  void every_plan();

  [[nodiscard]] const std::vector<Tried>& best() const { return best_; }
  [[nodiscard]] std::vector<Tried> front() const;
  [[nodiscard]] const std::vector<TooLarge>& too_large() const { return too_large_; }
  [[nodiscard]] PlanTools& tools() const { return shared_->tools; }
  [[nodiscard]] bool any_is_legal() const { return predicted_ + not_fitting_ > 0; }
  [[nodiscard]] bool proved() const { return proved_; }
  void fill(answer::PlanChoice& choice) const;

 private:
  /// How closely a family of plans, or one of them, was looked at.
  enum class Known : std::uint8_t { kSimple, kMean, kKernels, kExchange, kRanks };
  struct Open {
    double key = 0;
    Time bound{};
    DataSize memory{};  // at least
    PlanId id;
    Known known = Known::kSimple;
    friend bool operator>(const Open& a, const Open& b) { return std::tie(a.key, a.id) > std::tie(b.key, b.id); }
  };

  [[nodiscard]] double key_of(const Split& split, Time bound, DataSize memory) const;
  [[nodiscard]] Money cost_of(const Split& split, Time step) const {
    return price_ * static_cast<double>(split.nodes) * step;
  }
  [[nodiscard]] bool wanted(const Split& split, double key, Time bound, DataSize memory) const;
  [[nodiscard]] Time front_end() const;
  /// For all that is shown; so does what comes behind it, for where the front ends plans come by their bounds.
  [[nodiscard]] bool takes_too_long(const Open& open) const {
    return best_.size() > options_.next && open.bound > max(front_end(), best_.back().step);
  }
  [[nodiscard]] Time longest_wanted(const Split& split, DataSize memory) const;
  void open_all(const Clock& clock, Time deadline);
  void forget_when_much();
  void look_closer(const Open& open);
  void look_at_members(const Open& open);
  void try_plan(const Open& open, const Split& split);
  void push(const Split& split, Time bound, DataSize memory, PlanId id, Known known) {
    open_.push({key_of(split, bound, memory), bound, memory, id, known});
  }
  void keep_too_large(PlanId id, Time bound, DataSize memory, bool exact, std::int64_t plans = 1);
  void keep(const Tried& tried);
  [[nodiscard]] Tried tried_of(PlanId id, const Split& split, Time step, DataSize memory) const;
  [[nodiscard]] DataSize least_memory(const PlanFamily& family);
  [[nodiscard]] bool is_too_much(const Split& split, DataSize memory) const;

  const PlanSpace& space_;
  const PlanOptions& options_;
  std::unique_ptr<SharedWork> shared_;
  PlanCorrection correction_;
  DataSize capacity_;
  PriceRate price_;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  std::vector<Tried> best_;   // sorted, as many as are shown
  std::vector<Tried> front_;  // dominated by none
  std::vector<TooLarge> too_large_;
  std::int64_t illegal_ = 0;
  std::int64_t predicted_ = 0;
  std::int64_t not_fitting_ = 0;
  bool proved_ = true;
};

double PlanSearch::key_of(const Split& split, Time bound, DataSize memory) const {
  switch (options_.objective) {
    case PlanObjective::kTime: return bound.in(seconds);
    case PlanObjective::kMemory: return memory.in(bytes);
    case PlanObjective::kCost: return cost_of(split, bound).in(dollars);
  }
  return 0;
}

/// The longest step that the front shows.
Time PlanSearch::front_end() const {
  constexpr double kSlower = 2;
  const bool of_all = options_.objective != PlanObjective::kTime || space_.compares_clusters() || best_.empty();
  return of_all ? Time::infinity() : best_.front().step * kSlower;
}

/// Whether a plan that takes at least `bound` and holds at least `memory` may be shown.
bool PlanSearch::wanted(const Split& split, double key, Time bound, DataSize memory) const {
  if (best_.size() <= options_.next || key <= best_.back().value) return true;
  if (bound > front_end()) return false;
  const Money cost = cost_of(split, bound);
  return std::none_of(front_.begin(), front_.end(), [&](const Tried& other) {
    return other.step <= bound && other.memory <= memory && other.cost <= cost;
  });
}

/// The longest step with which a plan that holds so much may be shown.
Time PlanSearch::longest_wanted(const Split& split, DataSize memory) const {
  if (best_.size() <= options_.next || options_.objective == PlanObjective::kMemory) return Time::infinity();
  const auto as_dear_as = [&](Money cost) { return cost / (price_ * static_cast<double>(split.nodes)); };
  Time longest = front_end();
  for (const Tried& other : front_) {
    const bool priced = other.cost > Money::zero();
    if (other.memory <= memory) longest = min(longest, priced ? max(other.step, as_dear_as(other.cost)) : other.step);
  }
  const Tried& last = best_.back();
  return max(longest, options_.objective == PlanObjective::kCost ? as_dear_as(last.cost) : last.step);
}

void PlanSearch::keep_too_large(PlanId id, Time bound, DataSize memory, bool exact, std::int64_t plans) {
  not_fitting_ += plans;
  const TooLarge one{.id = id, .bound = bound, .memory = memory, .exact = exact};
  constexpr std::size_t kKept = 24;
  if (too_large_.size() == kKept && bound >= too_large_.back().bound) return;
  const auto at = std::upper_bound(too_large_.begin(), too_large_.end(), one,
                                   [](const TooLarge& a, const TooLarge& b) { return a.bound < b.bound; });
  too_large_.insert(at, one);
  if (too_large_.size() > kKept) too_large_.pop_back();
}

void PlanSearch::keep(const Tried& tried) {
  best_.insert(std::upper_bound(best_.begin(), best_.end(), tried), tried);
  if (best_.size() > options_.next + 1) best_.pop_back();
  const auto covers = [](const Tried& a, const Tried& b) {
    return a.step <= b.step && a.memory <= b.memory && a.cost <= b.cost;
  };
  if (std::any_of(front_.begin(), front_.end(), [&](const Tried& other) { return covers(other, tried); })) return;
  std::erase_if(front_, [&](const Tried& other) { return covers(tried, other); });
  front_.push_back(tried);
}

/// The plan itself: its memory by the ledger, its step by the schedule.
void PlanSearch::try_plan(const Open& open, const Split& split) {
  const Scenario job = space_.with(split);
  shared_->tools.keep_layers_of(job);
  auto plan = shared_->tools.lowerer.lower(job);
  if (!plan) {
    ++illegal_;
    return;
  }
  const plan::Needed needed = plan::needed_by(job, *plan);
  if (!needed.gpu_fits()) {
    keep_too_large(open.id, open.bound, needed.all(), true);
    return;
  }
  if (!needed.fits()) {  // larger GPUs are no help
    ++not_fitting_;
    return;
  }
  const DataSize memory = needed.tensors.total();
  if (!wanted(split, key_of(split, open.bound, memory), open.bound, memory)) return;
  // What own runs make of a step is known once its plan is priced.
  const Time longest = job.own_runs ? Time::infinity() : longest_wanted(split, memory);
  const auto step = step_of(job, std::make_shared<const plan::StepPlan>(std::move(*plan)), shared_->tools, longest);
  if (!step) {
    ++illegal_;
    return;
  }
  if (*step > longest) return;
  ++predicted_;
  keep(tried_of(open.id, split, PlanCorrection::corrected(job, *step), memory));
}

Tried PlanSearch::tried_of(PlanId id, const Split& split, Time step, DataSize memory) const {
  Tried tried{.id = id, .step = step, .memory = memory, .cost = cost_of(split, step)};
  tried.value = key_of(split, step, memory);
  tried.second = options_.objective == PlanObjective::kMemory ? step.in(seconds) : memory.in(bytes);
  return tried;
}

/// A family's plans one by one.
void PlanSearch::look_at_members(const Open& open) {
  const PlanFamily& family = space_.families()[open.id.family];
  const std::vector<Split> members = space_.members(family);
  for (std::uint32_t m = 0; m < members.size(); ++m) {
    const PlanId id{open.id.family, m};
    const Split& split = members[m];
    const auto is_wanted = [&](Time bound, DataSize memory) {
      return wanted(split, key_of(split, bound, memory), bound, memory);
    };
    // What is known at little expense first: it dismisses many.
    const DataSize least = shared_->memories.least(split, family.shape, plan::parts_of(pipeline_of(split)));
    if (is_too_much(split, least)) {
      keep_too_large(id, open.bound, least, false);
      continue;
    }
    if (!is_wanted(open.bound, least)) continue;
    const DataSize memory = shared_->memories.of(split, family.shape, capacity_);
    if (is_too_much(split, memory)) {
      keep_too_large(id, open.bound, memory, false);
      continue;
    }
    if (!is_wanted(open.bound, memory)) continue;
    const Time bound = max(open.bound, shared_->bounds.by_kernels(split, family.shape) * correction_.least(split));
    if (is_wanted(bound, memory)) push(split, bound, memory, id, Known::kKernels);
  }
}

void PlanSearch::look_closer(const Open& open) {
  const PlanFamily& family = space_.families()[open.id.family];
  const bool of_family = open.known == Known::kSimple || open.known == Known::kMean;
  const Split split = of_family ? family.split : space_.split(open.id);
  if (!wanted(split, open.key, open.bound, open.memory)) return;
  switch (open.known) {
    case Known::kSimple: {
      const Time bound =
          max(open.bound, shared_->bounds.by_mean(split, family.shape) * correction_.least_of_family(split));
      if (bound == Time::infinity()) {
        illegal_ += family.members;
      } else {
        push(split, bound, least_memory(family), open.id, Known::kMean);
      }
      return;
    }
    case Known::kMean: return look_at_members(open);
    case Known::kKernels:
      return push(split, max(open.bound, shared_->bounds.with_exchange(split, family.shape) * correction_.least(split)),
                  open.memory, open.id, Known::kExchange);
    case Known::kExchange:
      return push(split, max(open.bound, shared_->bounds.by_ranks(split, family.shape) * correction_.least(split)),
                  open.memory, open.id, Known::kRanks);
    case Known::kRanks: return try_plan(open, split);
  }
}

/// No member of a family holds less.
DataSize PlanSearch::least_memory(const PlanFamily& family) {
  Split split = family.split;
  split.zero = 3;
  return shared_->memories.least(split, family.shape, space_.most_parts(split.pipeline));
}

/// Of a GPU, with what else of its memory is taken at least.
bool PlanSearch::is_too_much(const Split& split, DataSize memory) const {
  if (memory == DataSize::infinity()) return true;
  const std::int64_t gpus = split.nodes * space_.base().cluster.gpus_per_node;
  return memory + plan::device_overhead({.weights = memory}, gpus, false).total() * (1 - 1e-9) > capacity_;
}

/// Every family, with its first bound. What needs too much memory is priced only where larger GPUs may be worth a word.
void PlanSearch::open_all(const Clock& clock, Time deadline) {
  constexpr double kWorthPricing = 3;
  for (std::uint32_t f = 0; f < space_.families().size(); ++f) {
    const PlanFamily& family = space_.families()[f];
    if (family.members == 0) continue;
    if (clock() >= deadline) {
      proved_ = false;
      return;
    }
    forget_when_much();
    const DataSize memory = least_memory(family);
    if (memory == DataSize::infinity()) {
      illegal_ += family.members;
      continue;
    }
    const bool fits = !is_too_much(family.split, memory);
    const bool priced = fits || (options_.explain && memory <= capacity_ * kWorthPricing);
    const Time bound =
        priced ? shared_->bounds.by_mean(family.split, family.simple) * correction_.least_of_family(family.split)
               : Time::infinity();
    if (fits) {
      push(family.split, bound, memory, {f, 0}, Known::kSimple);
    } else {
      keep_too_large({f, static_cast<std::uint32_t>(family.members) - 1}, bound, memory, false, family.members);
    }
  }
}

void PlanSearch::forget_when_much() {
  if (shared_->tools.kept_layers > options_.kept_layers) shared_ = std::make_unique<SharedWork>(space_);
}

void PlanSearch::best_first(const Clock& clock, Time deadline) {
  open_all(clock, deadline);
  while (!open_.empty()) {
    const Open next = open_.top();
    if (takes_too_long(next)) break;
    open_.pop();
    forget_when_much();
    look_closer(next);
    if (clock() < deadline) continue;
    proved_ = proved_ && open_.empty();
    break;
  }
}

void PlanSearch::every_plan() {
  for (std::uint32_t f = 0; f < space_.families().size(); ++f) {
    const std::vector<Split> members = space_.members(space_.families()[f]);
    for (std::uint32_t m = 0; m < members.size(); ++m) {
      const auto prediction = predict(space_.with(members[m]));
      if (!prediction) {
        ++illegal_;
      } else if (prediction->fits == false) {
        keep_too_large({f, m}, prediction->step_time, prediction->memory_per_gpu, true);
      } else {
        ++predicted_;
        keep(tried_of({f, m}, members[m], prediction->step_time, prediction->memory_per_gpu));
      }
    }
  }
}

std::vector<Tried> PlanSearch::front() const {
  std::vector<Tried> sorted = front_;
  std::erase_if(sorted, [&](const Tried& one) { return one.step > front_end(); });
  std::sort(sorted.begin(), sorted.end(), [](const Tried& a, const Tried& b) {
    return std::tie(a.step, a.memory, a.id) < std::tie(b.step, b.memory, b.id);
  });
  return sorted;
}

void PlanSearch::fill(answer::PlanChoice& choice) const {
  choice.searched = space_.plans() - illegal_;
  choice.pruned = choice.searched - predicted_;
  choice.too_large = not_fitting_;
  choice.proved = proved_;
}

/// Why nothing is shown.
Error none_found(const PlanSpace& space, const PlanSearch& search, const PlanOptions& options, const Clock& clock,
                 Time start) {
  if (!search.proved()) {
    return Error{ErrorCode::kOutOfTime,
                 fmt::format("no plan was found in {}", to_text(options.limit)),
                 {},
                 {"give it more time (--limit), or state some of the plan (--tp, --pp, --zero, ...)"},
                 {}};
  }
  if (!search.any_is_legal()) return space.nothing_legal();
  return fits_nowhere(space, clock, start + options.limit);
}

/// A plan's whole prediction: that of a scenario which is told its settings.
Expected<answer::PlannedJob> planned(const io::Catalog& catalog, std::span<const Override> stated,
                                     const PlanSpace& space, const Split& split) {
  answer::PlannedJob job{.plan = space.settings_of(split), .prediction = {}, .cost = {}};
  std::vector<Override> settings = without_runs(stated);
  for (const auto& [path, value] : job.plan) settings.push_back({path, value, {}});
  auto scenario = resolve(catalog, settings);
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  if (space.base().own_runs) scenario = corrected(std::move(*scenario), space.base().own_runs);
  scenario->cluster.node.price = space.base().cluster.node.price;
  auto prediction = predict(*scenario);
  if (!prediction) return tl::unexpected<Error>(prediction.error());
  job.prediction = std::move(*prediction);
  if (job.prediction.price) job.cost = *job.prediction.price * job.prediction.step_time;
  return job;
}

Expected<answer::PlanChoice> answer_of(const io::Catalog& catalog, std::span<const Override> stated,
                                       const PlanSpace& space, const PlanSearch& search, const PlanOptions& options) {
  answer::PlanChoice choice;
  choice.objective = options.objective;
  choice.notes = space.notes();
  search.fill(choice);
  std::vector<Split> shown;
  for (const Tried& tried : search.best()) {
    shown.push_back(space.split(tried.id));
    auto job = planned(catalog, stated, space, shown.back());
    if (!job) return tl::unexpected<Error>(job.error());
    if (shown.size() == 1) {
      choice.best = std::move(*job);
    } else {
      choice.next.push_back(std::move(*job));
    }
  }
  if (shown.front().pipeline > 1 && shown.front().zero > 1) {
    choice.notes.push_back(fmt::format(
        "zero {} with stages: FSDP has it (torchtitan); Megatron-LM's distributed optimizer is zero 1, and DeepSpeed "
        "refuses 2 and 3 with a pipeline: --zero 1",
        shown.front().zero));
  }
  hardware::Cluster largest = space.base().cluster;
  largest.nodes = shown.front().nodes;
  if (auto congestion = congestion_note(largest)) choice.notes.push_back(std::move(*congestion));
  const bool priced = space.base().cluster.node.price.has_value();
  for (const Tried& tried : search.front()) {
    const Split split = space.split(tried.id);
    choice.pareto.push_back({.plan = space.settings_of(split),
                             .gpus = split.nodes * space.base().cluster.gpus_per_node,
                             .step_time = tried.step,
                             .memory_per_gpu = tried.memory,
                             .cost = priced ? std::optional(tried.cost) : std::nullopt});
  }
  choice.title = title_of(space);
  if (!options.explain) return choice;
  choice.why = why_best(choice);
  choice.sensitivity = sensitivity_of(space, search.tools(), shown, search.too_large(), choice);
  return choice;
}

}  // namespace

Expected<answer::PlanChoice> search_plans(const io::Catalog& catalog, std::span<const Override> stated,
                                          const PlanOptions& options, const Clock& clock) {
  const Time start = clock();
  const auto space = PlanSpace::create(catalog, stated, options);
  if (!space) return tl::unexpected<Error>(space.error());
  if (options.objective == PlanObjective::kCost && !space->base().cluster.node.price) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("nobody knows the price of {}", space->base().cluster.node.name), {},
                {"state it: --price \"NODE=12 $/h\""});
  }
  PlanSearch search(*space, options);
  search.best_first(clock, start + options.limit);
  if (search.best().empty()) {
    return tl::unexpected<Error>(none_found(*space, search, options, clock, start));
  }
  const Time searched = clock();
  auto choice = answer_of(catalog, stated, *space, search, options);
  if (choice) choice->seconds = searched - start;
  return choice;
}

Expected<answer::PlanChoice> try_every_plan(const io::Catalog& catalog, std::span<const Override> stated,
                                            const PlanOptions& options, const Clock& clock) {
  const Time start = clock();
  const auto space = PlanSpace::create(catalog, stated, options);
  if (!space) return tl::unexpected<Error>(space.error());
  PlanSearch search(*space, options);
  search.every_plan();
  if (search.best().empty()) {
    return tl::unexpected<Error>(none_found(*space, search, options, clock, start));
  }
  const Time searched = clock();
  auto choice = answer_of(catalog, stated, *space, search, options);
  if (choice) choice->seconds = searched - start;
  return choice;
}

}  // namespace ddlsim::whatif
