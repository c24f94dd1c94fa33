// The fastest plan of a job on one cluster, for a question that compares many clusters. Private to the room.
//
// The search is that of whatif/plan_search.h without what it shows beside the best: no next ones, no front, no reasons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ddlsim/answer/plan_choice.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/plan/parallel.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "ddlsim/whatif/plan_search.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

struct FastestPlan {
  std::int64_t nodes = 1;
  plan::Parallel parallel;
  std::int64_t batch = 1;   // the micro-batch
  std::int64_t passes = 1;  // of it in a step
  Time step{};
  DataSize memory{};              // per GPU
  answer::PlanSettings settings;  // as answer::PlannedJob::plan
};

/// Of one cluster.
struct ClusterPlans {
  std::optional<FastestPlan> fastest;  // nothing: none fits, or none was found in time
  DataSize least_held{};               // by a GPU in whatever plan that does not fit: at least; infinity: there is none
  bool to_the_end = true;              // false: time was over
};

/// `stated` as search_plans has it, the cluster among it. Errors: of search_plans, but for what fits nowhere.
/// `kept_layers` as PlanOptions has it; plans that take longer than `at_most` are of no interest.
[[nodiscard]] Expected<ClusterPlans> fastest_plan(const io::Catalog& catalog, std::span<const Override> stated,
                                                  const Clock& clock, Time deadline, std::size_t kept_layers,
                                                  Time at_most = Time::infinity());

}  // namespace ddlsim::whatif
