// Best first, branch and bound over the plans of a space (whatif/plan_search.h says how). Private to the room.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

#include "ddlsim/answer/plan_choice.h"
#include "ddlsim/support/units.h"
#include "ddlsim/whatif/plan_search.h"
#include "search/plan_answer.h"
#include "search/plan_correction.h"
#include "search/plan_likely.h"
#include "search/plan_ranking.h"
#include "search/plan_reasons.h"
#include "search/plan_space.h"
#include "search/plan_tools.h"

namespace ddlsim::whatif {

/// What is looked for beside the best and the next.
struct SearchScope {
  bool front = true;                // the front of step time, memory and money
  Time at_most = Time::infinity();  // plans that take longer are of no interest; by step time alone
};

class PlanSearch {
 public:
  PlanSearch(const PlanSpace& space, const PlanOptions& options, const SearchScope& scope = {})
      : space_(space),
        options_(options),
        scope_(scope),
        shared_(std::make_unique<SharedWork>(space)),
        correction_(space),
        capacity_(space.base().cluster.node.gpu.memory_size),
        price_(space.base().cluster.node.price.value_or(PriceRate::zero())),
        ranking_(options.next),
        notes_megatron_(options.explain && compares_megatron_with_others(space)) {}

  void search(const Clock& clock, Time deadline);
  void every_plan();

  [[nodiscard]] const PlanRanking& ranking() const { return ranking_; }
  [[nodiscard]] std::vector<Tried> front() const { return ranking_.front_until(front_end()); }
  [[nodiscard]] const std::vector<TooLarge>& too_large() const { return too_large_.fastest(); }
  [[nodiscard]] PlanTools& tools() const { return shared_->tools; }
  [[nodiscard]] bool any_is_legal() const { return predicted_ + not_fitting_ > 0; }
  [[nodiscard]] bool proved() const { return proved_; }
  [[nodiscard]] bool megatron_proved() const { return megatron_proved_; }
  void fill(answer::PlanChoice& choice, Time taken) const;
  /// By a GPU, in whatever plan of those that were found too large: at least. Infinity: none was.
  [[nodiscard]] DataSize least_held() const { return least_held_; }

 private:
  /// How closely a family of plans, or one of them, was looked at.
  /// The last two: not at all, for as many as are shown were better; a plan that covers several of these makes room.
  enum class Known : std::uint8_t { kSimple, kMean, kKernels, kExchange, kRanks, kMembersPassed, kPassed };
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
  [[nodiscard]] double most_key() const {
    return options_.objective == answer::PlanObjective::kTime ? scope_.at_most.in(seconds)
                                                              : std::numeric_limits<double>::infinity();
  }
  [[nodiscard]] bool may_be_shown(double key) const {
    const Tried* last = ranking_.last();
    return (last == nullptr || key <= last->value) && key <= most_key();
  }
  [[nodiscard]] bool may_be_megatrons(double key) const {
    return !ranking_.megatron() || key <= ranking_.megatron()->value;
  }
  [[nodiscard]] bool wanted(const Split& split, double key, Time bound, DataSize memory) const;
  [[nodiscard]] Time front_end() const;
  [[nodiscard]] Time longest_wanted(const Split& split, DataSize memory) const;
  void open_all(const Clock& clock, Time deadline);
  void forget_when_much();
  bool best_first(const Clock& clock, Time deadline);
  void look_closer(const Open& open);
  [[nodiscard]] double least_factor(const Split& split, std::size_t shape);
  [[nodiscard]] double least_factor_of(const PlanFamily& family, std::size_t shape);
  void look_at_members(const Open& open);
  void look_at_some(const Clock& clock, Time deadline);
  void find_one_soon(std::size_t most, const Clock& clock, Time deadline);
  void try_best_of(std::uint32_t family, const Clock& clock, Time deadline);
  void try_plan(const Open& open, const Split& split);
  void push(const Split& split, Time bound, DataSize memory, PlanId id, Known known) {
    open_.push({key_of(split, bound, memory), bound, memory, id, known});
    waiting_ += for_megatron_ ? 0 : plans_of(known, id);
  }
  /// That an entry of the queue stands for.
  [[nodiscard]] std::int64_t plans_of(Known known, PlanId id) const {
    if (known == Known::kMembersPassed || known == Known::kPassed) return 0;
    return known == Known::kSimple || known == Known::kMean ? space_.families()[id.family].members : 1;
  }
  void keep_too_large(PlanId id, Time bound, DataSize memory, bool exact, std::int64_t plans = 1);
  [[nodiscard]] Tried tried_of(PlanId id, const Split& split, Time step, DataSize memory) const;
  [[nodiscard]] DataSize least_memory(const PlanFamily& family);
  [[nodiscard]] bool is_too_much(const Split& split, DataSize memory) const;

  const PlanSpace& space_;
  const PlanOptions& options_;
  SearchScope scope_;
  std::unique_ptr<SharedWork> shared_;
  PlanCorrection correction_;
  DataSize capacity_;
  PriceRate price_;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  PlanRanking ranking_;
  std::vector<Open> left_;     // of those, that only Megatron-LM's schedules are worth a look for
  bool for_megatron_ = false;  // which is when they are looked at
  bool megatron_proved_ = false;
  bool notes_megatron_;  // what the best takes of those that Megatron-LM has
  PromisingFamilies promising_;
  std::set<PlanId> tried_soon_;                           // before their turn
  std::map<std::uint32_t, std::vector<bool>> looked_at_;  // members of families of which some were passed over
  FastestTooLarge too_large_;
  DataSize least_held_ = DataSize::infinity();
  std::int64_t opened_ = 0;   // plans of the families that have a bound
  std::int64_t waiting_ = 0;  // of these, in the queue
  std::int64_t illegal_ = 0;
  std::int64_t predicted_ = 0;
  std::int64_t not_fitting_ = 0;
  bool proved_ = true;
};

}  // namespace ddlsim::whatif
