// Stages that are a long way apart.
#include <catch2/catch.hpp>
#include <memory>

#include "catalog.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/whatif/predict.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;

namespace {

Scenario stages(const char* schedule, const char* latency, const char* fidelity) {
  const std::vector<Override> settings{{"model", "gpt2_xl", {}},
                                       {"node", "dgx1-v100", {}},
                                       {"gpus_per_node", "1", {}},
                                       {"nodes", "8", {}},
                                       {"network", "1 Gb/s", {}},
                                       {"network.latency", latency, {}},
                                       {"parallel.pipeline", "8", {}},
                                       {"parallel.schedule", schedule, {}},
                                       {"batch", "1", {}},
                                       {"global_batch", "32", {}},
                                       {"fidelity", fidelity, {}}};
  return resolve(catalog(), settings).value();
}

answer::Prediction eight_stages(const char* schedule, const char* latency, const char* fidelity) {
  return predict(stages(schedule, latency, fidelity)).value();
}

/// Of a send to the next stage.
Time in_flight(const char* latency) {
  const Scenario job = stages("gpipe", latency, "analytic");
  const auto plan = std::make_shared<const plan::StepPlan>(plan::lower(job).value());
  const cost::PricedStep step = cost::price(job, plan, cost::price_layers(job, *plan, {1, 1}).value()).value();
  Time most;
  for (const cost::PricedRow& row : step.rows) most = max(most, row.in_flight);
  return most;
}

}  // namespace

TEST_CASE("price: of a send what its wire takes beyond a usual hop is in flight", "[unit][whatif]") {
  CHECK(in_flight("14 us") == Time::zero());
  CHECK(in_flight("5 us") == Time::zero());
  CHECK(in_flight("1 ms").in(microseconds) == Approx(1000 - 14));
}

TEST_CASE("predict: a long wire does not keep a stage from sending the next micro-batch", "[unit][whatif]") {
  // GPipe waits for it on the way there and on the way back, whatever the micro-batches: 14 times 40 ms, and twice more
  // for the tied table's sum.
  for (const char* fidelity : {"analytic", "event"}) {
    const Time near = eight_stages("gpipe", "10 ms", fidelity).step_time;
    const Time far = eight_stages("gpipe", "50 ms", fidelity).step_time;
    CHECK((far - near).in(milliseconds) == Approx(16 * 40).epsilon(0.02));
  }
  // 1F1B in every round: a stage has no more micro-batches under way than stages follow it.
  const Time near = eight_stages("1f1b", "10 ms", "analytic").step_time;
  const answer::Prediction far = eight_stages("1f1b", "50 ms", "analytic");
  CHECK((far.step_time - near).in(milliseconds) > 30 * 40);
  CHECK(far.breakdown.communication < far.step_time);
}
