// What a search over plans found, as it is told. Private to the room.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ddlsim/answer/plan_choice.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/plan_search.h"
#include "search/plan_ranking.h"
#include "search/plan_reasons.h"
#include "search/plan_space.h"
#include "search/plan_tools.h"

namespace ddlsim::whatif {

struct PlansFound {
  std::span<const Tried> best;  // one at least
  std::vector<Tried> front;     // fastest first
  std::span<const TooLarge> too_large;
  std::optional<Tried> megatron;  // the best of those whose schedule Megatron-LM has
  bool megatron_proved = false;   // false: of those that were looked at
  PlanTools& tools;               // the search's
};

/// Whether plans are compared whose schedule Megatron-LM has, and such as it has not.
[[nodiscard]] bool compares_megatron_with_others(const PlanSpace& space);

/// No plan was found in time.
[[nodiscard]] Error out_of_time(const PlanOptions& options);

/// What would change the choice is looked for until it is late. `counted` has the numbers of plans.
[[nodiscard]] Expected<answer::PlanChoice> answer_of(const io::Catalog& catalog, std::span<const Override> stated,
                                                     const PlanSpace& space, const PlansFound& found,
                                                     const PlanOptions& options, const std::function<bool()>& is_late,
                                                     answer::PlanChoice counted);

}  // namespace ddlsim::whatif
