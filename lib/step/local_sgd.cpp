#include "ddlsim/step/local_sgd.h"

#include <cmath>
#include <memory>
#include <utility>

#include "mean.h"

namespace ddlsim::step {

LocalSgd taken_apart(const cost::PricedStep& step) {
  const auto every = static_cast<double>(step.plan->exchange.sync_every);
  plan::StepPlan averaging = *step.plan;
  averaging.exchange.sync_every = 1;
  plan::StepPlan local = averaging;
  local.rows.clear();
  LocalSgd parts{.local = step, .averaging = step};
  parts.averaging.plan = std::make_shared<const plan::StepPlan>(std::move(averaging));
  parts.averaging.wait_for_slowest *= std::sqrt(every);
  parts.local.plan = std::make_shared<const plan::StepPlan>(std::move(local));
  parts.local.rows.clear();
  parts.local.groups.front().reset();
  parts.local.wait_for_slowest = 0;
  return parts;
}

answer::Timeline amortised(const answer::Timeline& local, answer::Timeline averaging, std::int64_t every) {
  mix(averaging, local, 1.0 - 1.0 / static_cast<double>(every));
  return averaging;
}

}  // namespace ddlsim::step
