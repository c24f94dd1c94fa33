// What a search over ways to split a job answers with (whatif/plan_search.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/units.h"

namespace ddlsim::answer {

enum class PlanObjective {
  kTime,    // of a step of the global batch
  kMemory,  // of the fullest GPU; of plans that hold as much, the fastest
  kCost,    // of a step: the cluster's price while it lasts
};

inline constexpr Choices<PlanObjective, 3> kPlanObjectives{{
    {"time", PlanObjective::kTime},
    {"memory", PlanObjective::kMemory},
    {"cost", PlanObjective::kCost},
}};

/// Settings of a scenario, `path = value`.
using PlanSettings = std::vector<std::pair<std::string, std::string>>;

/// One way to split the job, with its whole prediction.
struct PlannedJob {
  PlanSettings plan;
  Prediction prediction;
  std::optional<Money> cost;  // of a step; nothing without a price
};

/// A plan that no other beats in step time, memory and money at once. Of plans of one cluster, compared by time, those
/// with over twice the best one's step are left out.
struct ParetoPlan {
  PlanSettings plan;
  std::int64_t gpus = 1;
  Time step_time{};
  DataSize memory_per_gpu{};
  std::optional<Money> cost;
};

/// A change of the cluster under which another plan, or the same one, is best.
struct PlanSensitivity {
  std::string change;     // "network half as fast"
  PlanSettings settings;  // that make it so; empty: `change` says all
  PlanSettings plan;      // then the best by the same objective
  bool same = true;       // the plan that is best now
  Time step_time{};
  std::string reason;  // why it helps no more than that, and what would; empty: nothing to say
  DataSize memory_per_gpu{};
  std::optional<Money> cost;  // of a step; nothing without a price
};

struct PlanChoice {
  std::string title;
  PlanObjective objective = PlanObjective::kTime;
  std::int64_t searched = 0;   // legal plans that were compared, by a bound or by a prediction, until time was over
  std::int64_t pruned = 0;     // of those: without a prediction, for a bound says that they cannot be shown
  std::int64_t too_large = 0;  // of those: need more memory than a GPU has
  Time seconds{};              // that the search took
  bool proved = true;          // false: the limit of time came first
  PlannedJob best;
  std::vector<PlannedJob> next;    // the next best, best first, that differ (whatif/plan_search.h)
  std::vector<ParetoPlan> pareto;  // fastest first
  std::vector<std::string> why;    // the best wins against each of `next`
  std::vector<PlanSensitivity> sensitivity;
  std::vector<std::string> notes;
};

}  // namespace ddlsim::answer
