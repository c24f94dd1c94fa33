#include "search/plan_likely.h"

#include <algorithm>
#include <memory>

#include "ddlsim/plan/lower.h"
#include "search/plan_correction.h"

namespace ddlsim::whatif {

void PromisingFamilies::keep(std::uint32_t family, double key) {
  constexpr std::size_t kKept = 512;
  const std::pair one{key, family};
  least_.insert(std::upper_bound(least_.begin(), least_.end(), one), one);
  if (least_.size() > kKept) {
    least_.pop_back();
  }
}

std::uint32_t PromisingFamilies::take() {
  const std::uint32_t family = least_.front().second;
  least_.erase(least_.begin());
  return family;
}

std::optional<LikelyBest> likely_best(const PlanSpace& space, std::uint32_t family, const LikelyTools& by) {
  constexpr std::size_t kTried = 4;
  const std::size_t shape = space.families()[family].shape;
  const std::vector<Split> members = space.members(space.families()[family]);
  std::vector<std::pair<double, std::uint32_t>> order;
  for (std::uint32_t m = 0; m < members.size() && by.clock() < by.deadline; ++m) {
    const DataSize memory = by.shared.memories.of(members[m], shape);
    if (!by.key(members[m], Time::zero(), memory)) {
      continue;
    }
    order.emplace_back(*by.key(members[m], by.shared.bounds.by_kernels(members[m], shape), memory), m);
  }
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < std::min(order.size(), kTried) && by.clock() < by.deadline; ++i) {
    const std::uint32_t m = order[i].second;
    const Scenario job = space.with(members[m]);
    by.shared.tools.keep_layers_of(job);
    auto plan = by.shared.tools.lowerer.lower(job);
    if (!plan) {
      continue;
    }
    const plan::Needed needed = plan::needed_by(job, *plan);
    if (!needed.fits()) {
      continue;
    }
    const DataSize memory = needed.tensors.total();
    const auto step =
        step_of(job, std::make_shared<const plan::StepPlan>(std::move(*plan)), by.shared.tools, Time::infinity());
    if (step) {
      return LikelyBest{m, members[m], PlanCorrection::corrected(job, *step, by.shared.tools), memory};
    }
  }
  return std::nullopt;
}

}  // namespace ddlsim::whatif
