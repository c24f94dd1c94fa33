#include "choose/find_start.h"

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/training.h"

namespace ddlsim::whatif {
namespace {

constexpr std::int64_t kMostTried = 1024;

Expected<SearchStart> started(const io::Catalog& catalog, std::span<const Override> settings, Predictor& predictor) {
  auto scenario = resolve(catalog, settings);
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  auto prediction = predictor.predict(*scenario);
  if (!prediction) return tl::unexpected<Error>(prediction.error());
  return SearchStart{std::move(*scenario), std::move(*prediction), {}};
}

/// Whether other counts may do: what nobody can read or find stays so with any number of servers.
bool may_be_of_count(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kUnsupported ||
         error.code == ErrorCode::kInfeasible;
}

}  // namespace

Expected<SearchStart> start_of_search(const io::Catalog& catalog, std::span<const Override> base,
                                      const NumberSetting& variable, Predictor& predictor) {
  auto as_it_is = started(catalog, base, predictor);
  const bool gpus = variable.path == "nodes" || variable.path == "gpus_per_node";
  if (as_it_is || !gpus || !may_be_of_count(as_it_is.error())) return as_it_is;
  std::vector<Override> settings(base.begin(), base.end());
  settings.push_back({std::string(variable.path), "", {}});
  for (std::int64_t count = 1; count <= kMostTried; ++count) {
    settings.back().value = std::to_string(count);
    auto found = started(catalog, settings, predictor);
    if (!found) continue;
    found->instead = settings.back();
    return found;
  }
  return as_it_is;
}

std::optional<std::string> note_of_batch(const Scenario& scenario, const answer::Inverse& result) {
  const bool asked = result.variable == "batch" || result.variable == "global_batch";
  if (asked || !asks_for_training(scenario)) return std::nullopt;
  const std::int64_t now = result.baseline->split.global_batch();
  const std::int64_t there = result.prediction.split.global_batch();
  if (there == now && result.limit.split.global_batch() == now) return std::nullopt;
  return fmt::format(
      "the batch of a step grows with {}: {} {} at {} ({} in the job as stated), and the {} it trains are taken to "
      "stay; --global-batch keeps it",
      result.variable, to_text(there), in_number(there, result.prediction.sample), result.setting, to_text(now),
      scenario.training.steps ? "steps" : "epochs");
}

}  // namespace ddlsim::whatif
