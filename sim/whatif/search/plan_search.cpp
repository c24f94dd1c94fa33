#include "ddlsim/whatif/plan_search.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "ddlsim/answer/plan_words.h"
#include "ddlsim/support/quantity_io.h"
#include "search/fewer_gpus.h"
#include "search/plan_answer.h"
#include "search/plan_searcher.h"
#include "search/plan_space.h"

namespace ddlsim::whatif {
namespace {

/// "64 of a server's 72 GPUs would do: pp 4, ep 64, dp 64, step 9.474 s: gpus_per_node=64"
std::string on_fewer_note(const answer::PlanSensitivity& fewer) {
  const auto& [path, value] = fewer.settings.front();
  return fmt::format("{} would do: {}, step {}: {}={}", fewer.change, answer::words_for(fewer.plan),
                     to_text(fewer.step_time), path, value);
}

Expected<answer::PlanChoice> answered(const io::Catalog& catalog, std::span<const Override> stated,
                                      const PlanSpace& space, const PlanSearch& search, const PlanOptions& options,
                                      const Clock& clock, Time start) {
  const Time end = start + options.limit;
  const auto on_fewer = [&](Time at_most) {
    const Time now = clock();
    return faster_on_fewer(catalog, stated, space, at_most, clock, now + (end - now) / 2.0);
  };
  if (search.ranking().best().empty()) {
    if (!search.proved()) return tl::unexpected<Error>(out_of_time(options));
    const auto fewer = on_fewer(Time::infinity());
    Error error = search.any_is_legal() ? fits_nowhere(space, clock, end) : space.nothing_legal();
    if (fewer) error.notes.push_back(on_fewer_note(*fewer));
    return tl::unexpected<Error>(std::move(error));
  }
  answer::PlanChoice choice;
  search.fill(choice, clock() - start);
  if (options.explain && options.objective == answer::PlanObjective::kTime) {
    constexpr double kWorthFewer = 0.995;  // less is no reason to leave GPUs idle
    auto fewer = on_fewer(search.ranking().best().front().step * kWorthFewer);
    if (fewer) choice.sensitivity.push_back(std::move(*fewer));
  }
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
