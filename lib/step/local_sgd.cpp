#include "ddlsim/step/local_sgd.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "mean.h"

namespace ddlsim::step {
namespace {

/// Without what replicas send each other: all of their collectives, for each has the whole model.
void send_nothing(plan::StepPlan& plan, std::vector<cost::PricedRow>& prices) {
  std::vector<plan::Row> rows;
  std::vector<cost::PricedRow> priced;
  std::vector<std::size_t> places(plan.rows.size(), plan::kNoRow);
  for (std::size_t r = 0; r < plan.rows.size(); ++r) {
    if (plan.rows[r].kind == plan::RowKind::kCollective) continue;
    places[r] = rows.size();
    rows.push_back(plan.rows[r]);
    priced.push_back(prices[r]);
  }
  for (plan::Row& row : rows) {
    if (row.after != plan::kNoRow) row.after = places[row.after];
  }
  plan.rows = std::move(rows);
  prices = std::move(priced);
}

}  // namespace

LocalSgd taken_apart(const cost::PricedStep& step) {
  const auto every = static_cast<double>(step.plan->exchange.sync_every);
  plan::StepPlan averaging = *step.plan;
  averaging.exchange.sync_every = 1;
  plan::StepPlan local = averaging;
  LocalSgd parts{.local = step, .averaging = step};
  parts.averaging.plan = std::make_shared<const plan::StepPlan>(std::move(averaging));
  parts.averaging.wait_for_slowest *= std::sqrt(every);
  send_nothing(local, parts.local.rows);
  parts.local.plan = std::make_shared<const plan::StepPlan>(std::move(local));
  parts.local.groups.front().reset();
  parts.local.wait_for_slowest = 0;
  return parts;
}

answer::Timeline amortised(const answer::Timeline& local, answer::Timeline averaging, std::int64_t every) {
  mix(averaging, local, 1.0 - 1.0 / static_cast<double>(every));
  return averaging;
}

}  // namespace ddlsim::step
