// Why a plan wins, what would change that, and what a model that fits nowhere lacks. Private to the room.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/answer/plan_choice.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "search/plan_ranking.h"
#include "search/plan_space.h"
#include "search/plan_tools.h"

namespace ddlsim::whatif {

/// A plan that needs more memory than a GPU has.
struct TooLarge {
  PlanId id;
  Time bound{};       // its step takes at least that
  DataSize memory{};  // it holds at least that
  bool exact = false;
};

/// Some of them, those with the least bounds: what larger GPUs might make the best.
class FastestTooLarge {
 public:
  void keep(const TooLarge& one);
  [[nodiscard]] const std::vector<TooLarge>& fastest() const { return fastest_; }

 private:
  std::vector<TooLarge> fastest_;  // sorted
};

/// "Llama 3.1 70B, 1,024 sequences a step, bf16, on 8 x NVIDIA DGX H100 (64 GPUs ...)"
[[nodiscard]] std::string title_of(const PlanSpace& space);

/// What the best gains and loses against each of the next.
[[nodiscard]] std::vector<std::string> why_best(const answer::PlanChoice& choice);

/// What the best would be, by the same objective, with another network, and with GPUs that hold what is too large now.
/// `plans`: those it is sought among, the best first. What is not known when it is late is left out.
/// `tools`: the search's.
[[nodiscard]] std::vector<answer::PlanSensitivity> sensitivity_of(const PlanSpace& space, PlanTools& tools,
                                                                  std::span<const Tried> plans,
                                                                  std::span<const TooLarge> too_large,
                                                                  const answer::PlanChoice& choice,
                                                                  const std::function<bool()>& is_late);

/// kInfeasible: what the plan that holds least lacks, and the fewest servers of this kind on which some plan fits.
[[nodiscard]] Error fits_nowhere(const PlanSpace& space, const Clock& clock, Time deadline);

}  // namespace ddlsim::whatif
