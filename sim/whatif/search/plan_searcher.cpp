#include "search/plan_searcher.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "ddlsim/plan/lower.h"
#include "ddlsim/whatif/predict.h"

namespace ddlsim::whatif {

using answer::PlanObjective;

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
  if (!scope_.front) return Time::zero();
  constexpr double kSlower = 2;
  const bool of_all =
      options_.objective != PlanObjective::kTime || space_.compares_clusters() || ranking_.best().empty();
  return of_all ? Time::infinity() : ranking_.best().front().step * kSlower;
}

/// Whether a plan that takes at least `bound` and holds at least `memory` may be shown.
bool PlanSearch::wanted(const Split& split, double key, Time bound, DataSize memory) const {
  if (may_be_shown(key)) return true;
  if (for_megatron_) return megatron_has(split.schedule) && may_be_megatrons(key);
  if (bound > front_end()) return false;
  const Money cost = cost_of(split, bound);
  const DataSize least = memory / (kMemoryRounding * kMemoryRounding);  // a bound is that much lower than the ledger
  const std::vector<Tried>& front = ranking_.front();
  return std::none_of(front.begin(), front.end(), [&](const Tried& other) {
    return other.step <= bound && other.memory <= least && other.cost <= cost;
  });
}

/// The longest step with which a plan that holds so much may be shown.
Time PlanSearch::longest_wanted(const Split& split, DataSize memory) const {
  const Tried* last = ranking_.last();
  if (options_.objective == PlanObjective::kMemory) return Time::infinity();
  if (!scope_.front) return last == nullptr ? scope_.at_most : min(scope_.at_most, last->step);
  if (last == nullptr) return Time::infinity();
  if (for_megatron_ && !ranking_.megatron()) return Time::infinity();
  if (for_megatron_ && ranking_.megatron()->value > last->value) last = &*ranking_.megatron();
  const auto as_dear_as = [&](Money cost) { return cost / (price_ * static_cast<double>(split.nodes)); };
  Time longest = front_end();
  for (const Tried& other : ranking_.front()) {
    const bool priced = other.cost > Money::zero();
    if (other.memory <= memory) longest = min(longest, priced ? max(other.step, as_dear_as(other.cost)) : other.step);
  }
  return max(longest, options_.objective == PlanObjective::kCost ? as_dear_as(last->cost) : last->step);
}

void PlanSearch::keep_too_large(PlanId id, Time bound, DataSize memory, bool exact, std::int64_t plans) {
  not_fitting_ += plans;
  least_held_ = min(least_held_, memory);
  too_large_.keep({.id = id, .bound = bound, .memory = memory, .exact = exact});
}

/// The plan itself: its memory by the ledger, its step by the schedule.
void PlanSearch::try_plan(const Open& open, const Split& split) {
  if (tried_soon_.erase(open.id) > 0) return;
  // Passed over, unless others make room.
  const auto pass = [&](double key) {
    if (!for_megatron_) open_.push({key, open.bound, open.memory, open.id, Known::kPassed});
  };
  const auto not_wanted = [&](DataSize memory) {
    const double key = key_of(split, open.bound, memory);
    if (wanted(split, key, open.bound, memory)) return false;
    pass(key);
    return true;
  };
  if (not_wanted(shared_->memories.of_every_rank(split, space_.families()[open.id.family].shape))) return;
  const Scenario job = space_.with(split);
  shared_->tools.keep_layers_of(job);
  auto plan = shared_->tools.lowerer.lower(job);
  if (!plan) return void(++illegal_);
  const plan::Needed needed = plan::needed_by(job, *plan);
  if (!needed.gpu_fits()) {
    keep_too_large(open.id, open.bound, needed.all(), true);
    return;
  }
  if (!needed.fits()) return void(++not_fitting_);  // larger GPUs are no help
  const DataSize memory = needed.tensors.total();
  if (not_wanted(memory)) return;
  // What own runs make of a step is known once its plan is priced.
  const std::size_t shape = space_.families()[open.id.family].shape;
  const Time longest = longest_wanted(split, memory) / least_factor(split, shape);
  const auto step = step_of(job, std::make_shared<const plan::StepPlan>(std::move(*plan)), shared_->tools, longest);
  if (!step) return void(++illegal_);
  if (*step * least_factor(split, shape) > scope_.at_most) return;
  if (*step > longest) {
    return pass(std::nextafter(ranking_.last()->value, std::numeric_limits<double>::infinity()));
  }
  ++predicted_;
  ranking_.keep(tried_of(open.id, split, PlanCorrection::corrected(job, *step, shared_->tools), memory));
}

Tried PlanSearch::tried_of(PlanId id, const Split& split, Time step, DataSize memory) const {
  Tried tried{.id = id, .split = split, .step = step, .memory = memory, .cost = cost_of(split, step)};
  tried.value = key_of(split, step, memory);
  tried.second = options_.objective == PlanObjective::kMemory ? step.in(seconds) : memory.in(bytes);
  return tried;
}

/// Of own runs, on the step of a plan, or of any of a family.
double PlanSearch::least_factor(const Split& split, std::size_t shape) {
  if (!space_.base().own_runs) return 1;
  return correction_.least(split, shared_->bounds.most_issued(split, shape));
}

double PlanSearch::least_factor_of(const PlanFamily& family, std::size_t shape) {
  if (!space_.base().own_runs) return 1;
  Split split = family.split;
  const bool both = split.pipeline > 1 && space_.compares(plan::PipelineSchedule::kDualPipe);
  if (both) split.schedule = plan::PipelineSchedule::kDualPipe;
  return correction_.least_of_family(split, shared_->bounds.most_issued(split, shape));
}

/// A family's plans one by one.
void PlanSearch::look_at_members(const Open& open) {
  const PlanFamily& family = space_.families()[open.id.family];
  const std::vector<Split> members = space_.members(family);
  std::vector<bool> looked_at(members.size());
  if (const auto again = looked_at_.find(open.id.family); again != looked_at_.end()) looked_at = again->second;
  double passed = std::numeric_limits<double>::infinity();  // the least key of those that are passed over
  for (std::uint32_t m = 0; m < members.size(); ++m) {
    if (looked_at[m]) continue;
    const PlanId id{open.id.family, m};
    const Split& split = members[m];
    const auto is_wanted = [&](Time bound, DataSize memory) {
      const double key = key_of(split, bound, memory);
      const bool is = wanted(split, key, bound, memory);
      if (!is) passed = std::min(passed, key);
      looked_at[m] = is;
      return is;
    };
    const auto may_fit = [&](DataSize memory) {
      if (!is_too_much(split, memory)) return is_wanted(open.bound, memory);
      keep_too_large(id, open.bound, memory, false);
      looked_at[m] = true;
      return false;
    };
    // What is known at little expense first: it dismisses many.
    if (!may_fit(shared_->memories.least(split, family.shape, plan::parts_of(pipeline_of(split))))) continue;
    const DataSize memory = shared_->memories.of(split, family.shape, capacity_);
    if (!may_fit(memory)) continue;
    const Time bound =
        max(open.bound, shared_->bounds.by_kernels(split, family.shape) * least_factor(split, family.shape));
    if (is_wanted(bound, memory)) push(split, bound, memory, id, Known::kKernels);
  }
  if (passed == std::numeric_limits<double>::infinity() || for_megatron_) return;
  looked_at_.insert_or_assign(open.id.family, std::move(looked_at));
  open_.push({passed, open.bound, open.memory, open.id, Known::kMembersPassed});
}

void PlanSearch::look_closer(const Open& open) {
  const PlanFamily& family = space_.families()[open.id.family];
  const bool members_passed = open.known == Known::kMembersPassed;
  const bool of_family = open.known == Known::kSimple || open.known == Known::kMean || members_passed;
  const Split split = of_family ? family.split : space_.split(open.id);
  const bool passed = (open.known == Known::kPassed || members_passed) && !for_megatron_;
  if (passed ? !may_be_shown(open.key) : !wanted(split, open.key, open.bound, open.memory)) {
    if (notes_megatron_ && !for_megatron_ && megatron_has(split.schedule)) left_.push_back(open);
    return;
  }
  const auto closer = [&](Time bound, Known next) {
    push(split, max(open.bound, bound * least_factor(split, family.shape)), open.memory, open.id, next);
  };
  switch (open.known) {
    case Known::kSimple: {
      const Time bound =
          max(open.bound, shared_->bounds.by_mean(split, family.shape) * least_factor_of(family, family.shape));
      if (bound == Time::infinity()) {
        illegal_ += family.members;
      } else {
        push(split, bound, least_memory(family), open.id, Known::kMean);
      }
      return;
    }
    case Known::kMean:
    case Known::kMembersPassed: return look_at_members(open);
    case Known::kKernels: return closer(shared_->bounds.with_exchange(split, family.shape), Known::kExchange);
    case Known::kExchange: return closer(shared_->bounds.by_ranks(split, family.shape), Known::kRanks);
    case Known::kRanks:
    case Known::kPassed: return try_plan(open, split);
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
  const plan::DeviceOverhead least =
      plan::device_overhead({.weights = memory}, gpus, false, plan::kCudaContext, capacity_);
  return memory + least.total() * (1 - 1e-9) > capacity_;
}

/// Every family, with its first bound. What needs too much memory is priced only where larger GPUs may be worth a word.
void PlanSearch::open_all(const Clock& clock, Time deadline) {
  constexpr double kWorthPricing = 3;
  constexpr std::uint32_t kFew = 64;
  const Time begin = clock();
  bool half = false;  // of the time is over
  look_at_some(clock, begin + (deadline - begin) / 4.0);
  for (std::uint32_t f = 0; f < space_.families().size(); ++f) {
    const PlanFamily& family = space_.families()[f];
    if (family.members == 0) continue;
    const Time time = clock();
    if (time >= deadline) {
      proved_ = false;
      return;
    }
    // Of a space that takes long some plan is known soon, and the most promising so far when half of the time is over.
    if (ranking_.best().empty() && f >= kFew && std::has_single_bit(f)) find_one_soon(1, clock, deadline);
    if (!half && (time - begin) * 2.0 >= deadline - begin) {
      half = true;
      find_one_soon(promising_.size(), clock, time + (deadline - time) / 2.0);
    }
    opened_ += family.members;
    forget_when_much();
    const DataSize memory = least_memory(family);
    if (memory == DataSize::infinity()) {
      illegal_ += family.members;
      continue;
    }
    const bool fits = !is_too_much(family.split, memory);
    const bool priced = fits || (options_.explain && memory <= capacity_ * kWorthPricing);
    const Time bound =
        priced ? shared_->bounds.by_mean(family.split, family.simple) * least_factor_of(family, family.simple)
               : Time::infinity();
    if (fits) {
      push(family.split, bound, memory, {f, 0}, Known::kSimple);
      promising_.keep(f, key_of(family.split, bound, memory));
    } else {
      keep_too_large({f, static_cast<std::uint32_t>(family.members) - 1}, bound, memory, false, family.members);
    }
  }
}

/// Of a large space a few families from all over it: the best of them are a first answer.
void PlanSearch::look_at_some(const Clock& clock, Time deadline) {
  constexpr std::size_t kLooked = 512;
  constexpr std::size_t kTried = 16;
  const std::size_t step = space_.families().size() / kLooked;
  if (step < 4) return;
  for (std::size_t f = step / 2; f < space_.families().size() && clock() < deadline; f += step) {
    const PlanFamily& family = space_.families()[f];
    const DataSize memory = least_memory(family);
    if (family.members == 0 || is_too_much(family.split, memory)) continue;
    const Time bound = shared_->bounds.by_mean(family.split, family.shape);
    promising_.keep(static_cast<std::uint32_t>(f), key_of(family.split, bound, memory));
  }
  find_one_soon(kTried, clock, deadline);
  promising_ = {};
}

/// The most promising families' likely best plans, where any fits: `most` of them, while they may be better.
void PlanSearch::find_one_soon(std::size_t most, const Clock& clock, Time deadline) {
  const std::vector<Tried>& best = ranking_.best();
  const auto may_be_best = [&] { return best.empty() || promising_.least() < best.front().value; };
  while (most > 0 && !promising_.empty() && may_be_best() && clock() < deadline) {
    const std::size_t known = tried_soon_.size();
    try_best_of(promising_.take(), clock, deadline);
    most -= tried_soon_.size() - known;
  }
}

/// The plan of a family with the least bound that fits, before its turn.
void PlanSearch::try_best_of(std::uint32_t family, const Clock& clock, Time deadline) {
  const auto key = [&](const Split& split, Time bound, DataSize memory) {
    return is_too_much(split, memory) ? std::nullopt : std::optional(key_of(split, bound, memory));
  };
  const auto found = likely_best(space_, family, {*shared_, key, clock, deadline});
  if (!found || !tried_soon_.insert({family, found->member}).second) return;
  ++predicted_;
  ranking_.keep(tried_of({family, found->member}, found->split, found->step, found->memory));
}

void PlanSearch::forget_when_much() {
  if (shared_->tools.kept_layers > options_.kept_layers) shared_ = std::make_unique<SharedWork>(space_);
}

void PlanSearch::search(const Clock& clock, Time deadline) {
  const Time begin = clock();
  open_all(clock, deadline);
  proved_ = best_first(clock, deadline) && proved_ && space_.is_whole();
  notes_megatron_ = notes_megatron_ && proved_ && !ranking_.best().empty();
  if (!notes_megatron_ || megatron_has(ranking_.best().front().split.schedule)) return;
  for_megatron_ = true;
  for (const Open& one : left_) {
    if (may_be_megatrons(one.key)) open_.push(one);
  }
  const Time now = clock();
  megatron_proved_ = best_first(clock, min(deadline, now + (now - begin) / 2.0 + seconds(1)));
}

/// Whether it came to the end.
bool PlanSearch::best_first(const Clock& clock, Time deadline) {
  while (!open_.empty()) {
    const Open next = open_.top();
    open_.pop();
    waiting_ -= for_megatron_ ? 0 : plans_of(next.known, next.id);
    forget_when_much();
    if (ranking_.best().empty() && next.known == Known::kMean) try_best_of(next.id.family, clock, deadline);
    look_closer(next);
    if (clock() >= deadline) return open_.empty();
  }
  return true;
}

void PlanSearch::every_plan() {
  opened_ = space_.plans();
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
        ranking_.keep(tried_of({f, m}, members[m], prediction->step_time, prediction->memory_per_gpu));
      }
    }
  }
}

void PlanSearch::fill(answer::PlanChoice& choice, Time taken) const {
  choice.seconds = taken;
  choice.searched = opened_ - illegal_ - std::max<std::int64_t>(waiting_ - std::ssize(tried_soon_), 0);
  choice.pruned = choice.searched - predicted_;
  choice.too_large = not_fitting_;
  choice.proved = proved_;
}

}  // namespace ddlsim::whatif
