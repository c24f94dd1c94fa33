#include "ddlsim/step/schedule.h"

#include <utility>
#include <vector>

#include "ddlsim/step/local_sgd.h"
#include "ddlsim/step/phases.h"
#include "folded.h"
#include "slots.h"

namespace ddlsim::step {

void relax(const cost::PricedStep& step, answer::Timeline& line) {
  const plan::Exchange& exchange = step.plan->exchange;
  if (!step.servers || exchange.consistency == plan::Consistency::kSync) return;
  std::vector<cost::PsLoad> loads;
  loads.reserve(step.plan->rows.size());
  for (const plan::Row& row : step.plan->rows) loads.push_back({row.size, static_cast<double>(row.count), row.server});
  const Time bound = max(line.step, cost::async_bound(*step.servers, loads));
  Time wait;
  if (exchange.consistency == plan::Consistency::kStale) {
    wait = (line.forward + line.backward) * (step.jitter_of_slowest / static_cast<double>(exchange.staleness + 1));
  }
  line.waiting += wait;
  line.parts.communication_exposed += bound - line.step;
  line.step = bound + wait;
}

Expected<answer::Timeline> schedule(const cost::PricedStep& step, answer::Detail detail) {
  if (const std::int64_t every = step.plan->exchange.sync_every; every > 1) {
    const LocalSgd parts = taken_apart(step);
    auto local = schedule(parts.local, detail);
    if (!local) return local;
    return schedule(parts.averaging, detail).map([&](answer::Timeline line) {
      return amortised(*local, std::move(line), every);
    });
  }
  if (!step.plan->folds) return schedule_slots(step, detail);
  if (!wakes_in_cycles(step)) return schedule_folded(step, detail);
  std::vector<answer::Timeline> lines;
  for (const double phase : phases()) lines.push_back(schedule_at(step, phase, detail));
  return mean_of(std::move(lines));
}

Expected<Time> step_time(const cost::PricedStep& step, Time enough) {
  const bool in_slots = step.plan->exchange.sync_every <= 1 && !step.plan->folds;
  return (in_slots ? schedule_slots(step, answer::Detail::kTime, enough) : schedule(step, answer::Detail::kTime))
      .map([](const answer::Timeline& line) { return line.step; });
}

}  // namespace ddlsim::step
