#include "search/fewer_gpus.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "ddlsim/support/quantity_io.h"
#include "search/best_plan.h"

namespace ddlsim::whatif {

std::optional<answer::PlanSensitivity> faster_on_fewer(const io::Catalog& catalog, std::span<const Override> stated,
                                                       const PlanSpace& space, Time at_most, const Clock& clock,
                                                       Time deadline) {
  constexpr std::string_view kPath = "gpus_per_node";
  const auto all = static_cast<std::uint64_t>(space.base().cluster.gpus_per_node);
  const bool is_stated =
      std::any_of(stated.begin(), stated.end(), [&](const Override& setting) { return setting.path == kPath; });
  if (is_stated || std::has_single_bit(all) || clock() >= deadline) return std::nullopt;

  const std::string fewer = std::to_string(std::bit_floor(all));
  std::vector<Override> settings(stated.begin(), stated.end());
  settings.push_back({std::string(kPath), fewer, {}});
  settings.push_back({"global_batch", std::to_string(space.global_batch()), {}});  // where it follows from the GPUs
  const auto plans = fastest_plan(catalog, settings, clock, deadline, PlanOptions{}.kept_layers, at_most);
  if (!plans || !plans->fastest || plans->fastest->step >= at_most) return std::nullopt;
  const FastestPlan& found = *plans->fastest;
  answer::PlanSensitivity answer{.change = fmt::format("{} of a server's {} GPUs", fewer, all),
                                 .settings = {{std::string(kPath), fewer}},
                                 .plan = found.settings,
                                 .same = false,
                                 .step_time = found.step,
                                 .reason = plans->to_the_end ? "" : "not looked at to the end",
                                 .memory_per_gpu = found.memory,
                                 .cost = {}};
  if (const auto& price = space.base().cluster.node.price) {
    answer.cost = *price * static_cast<double>(found.nodes) * found.step;
  }
  return answer;
}

}  // namespace ddlsim::whatif
