#include "ddlsim/whatif/plan_search.h"

#include <fmt/core.h>

#include <utility>

#include "search/plan_answer.h"
#include "search/plan_searcher.h"
#include "search/plan_space.h"

namespace ddlsim::whatif {
namespace {

Expected<answer::PlanChoice> answered(const io::Catalog& catalog, std::span<const Override> stated,
                                      const PlanSpace& space, const PlanSearch& search, const PlanOptions& options,
                                      const Clock& clock, Time start) {
  if (search.ranking().best().empty()) {
    return tl::unexpected<Error>(!search.proved()        ? out_of_time(options)
                                 : search.any_is_legal() ? fits_nowhere(space, clock, start + options.limit)
                                                         : space.nothing_legal());
  }
  answer::PlanChoice choice;
  search.fill(choice, clock() - start);
  return answer_of(
      catalog, stated, space,
      {.best = search.ranking().best(),
       .front = search.front(),
       .too_large = search.too_large(),
       .megatron = search.ranking().megatron(),
       .megatron_proved = search.megatron_proved(),
       .tools = search.tools()},
      options, [&] { return clock() - start >= options.limit; }, std::move(choice));
}

}  // namespace

Expected<answer::PlanChoice> search_plans(const io::Catalog& catalog, std::span<const Override> stated,
                                          const PlanOptions& options, const Clock& clock) {
  const Time start = clock();
  // Of the time half, at most, is for the list of plans.
  const auto space = PlanSpace::create(catalog, stated, options,
                                       [&](double share) { return clock() - start >= options.limit * (share / 2); });
  if (!space) return tl::unexpected<Error>(space.error());
  if (options.objective == answer::PlanObjective::kCost && !space->base().cluster.node.price) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("nobody knows the price of {}", space->base().cluster.node.name), {},
                {"state it: --price \"NODE=12 $/h\""});
  }
  PlanSearch search(*space, options);
  search.search(clock, start + options.limit * (options.explain ? 0.9 : 1));  // the rest: what would change the choice
  return answered(catalog, stated, *space, search, options, clock, start);
}

Expected<answer::PlanChoice> try_every_plan(const io::Catalog& catalog, std::span<const Override> stated,
                                            const PlanOptions& options, const Clock& clock) {
  const Time start = clock();
  const auto space = PlanSpace::create(catalog, stated, options, {});
  if (!space) return tl::unexpected<Error>(space.error());
  PlanSearch search(*space, options);
  search.every_plan();
  return answered(catalog, stated, *space, search, options, clock, start);
}

}  // namespace ddlsim::whatif
