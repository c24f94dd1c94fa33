#include "search/best_plan.h"

#include "search/plan_searcher.h"
#include "search/plan_space.h"

namespace ddlsim::whatif {

Expected<ClusterPlans> fastest_plan(const io::Catalog& catalog, std::span<const Override> stated, const Clock& clock,
                                    Time deadline, std::size_t kept_layers, Time at_most) {
  const PlanOptions options{.next = 0, .explain = false, .kept_layers = kept_layers};
  const Time start = clock();
  const auto is_over = [&](double share) { return clock() - start >= (deadline - start) * (share / 2); };
  const auto space = PlanSpace::create(catalog, stated, options, is_over);
  if (!space) return tl::unexpected<Error>(space.error());
  PlanSearch search(*space, options, {.front = false, .at_most = at_most});
  search.search(clock, deadline);
  ClusterPlans plans{.fastest = {}, .least_held = search.least_held(), .to_the_end = search.proved()};
  if (search.ranking().best().empty()) {
    if (search.proved() && !search.any_is_legal()) return tl::unexpected<Error>(space->nothing_legal());
    return plans;
  }
  const Tried& best = search.ranking().best().front();
  Scenario job = space->with(best.split);
  // They follow again.
  if (space->timed_cuts_of(best.split) != nullptr) job.parallel.cuts.clear();
  plans.fastest = FastestPlan{.nodes = best.split.nodes,
                              .parallel = job.parallel,
                              .batch = best.split.batch,
                              .passes = best.split.passes,
                              .step = best.step,
                              .memory = best.memory,
                              .settings = space->settings_of(best.split)};
  return plans;
}

}  // namespace ddlsim::whatif
