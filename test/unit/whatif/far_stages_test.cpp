// Stages that are a long way apart, or share a slow port; what a pipeline's step is made of.
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "catalog.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/whatif/predict.h"
#include "unit/whatif/asked.h"

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

TEST_CASE("predict: where stages' messages queue the closed form is near the events", "[unit][whatif]") {
  const auto ratio = [](const std::string& job) {
    const Time closed = test::asked("{}; fidelity analytic", job).step_time;
    return closed / test::asked("{}; fidelity event", job).step_time;
  };
  const std::string gpt = "model gpt3_13b; node dgx-a100; nodes 4; parallel.pipeline 4; batch 1; ";
  CHECK(ratio(gpt + "global_batch 64; parallel.schedule zbv; network 10 Gb/s") == Approx(1).epsilon(0.05));
  CHECK(ratio(gpt + "global_batch 64; parallel.schedule interleaved; parallel.virtual_stages 5; network 25 Gb/s") ==
        Approx(1).epsilon(0.05));
}

TEST_CASE("predict: pipelines that never empty take no less than their network", "[unit][whatif]") {
  const auto check = [](const std::string& job) {
    for (const char* fidelity : {"analytic", "event"}) {
      const answer::Prediction p = test::asked("{}; fidelity {}", job, fidelity);
      INFO(job << " " << fidelity);
      for (const answer::LinkTraffic& one : p.traffic) {
        if (one.link == "network") CHECK(p.step_time >= one.time * (1 - 1e-9));
      }
      bool told = false;
      for (const std::string& note : p.notes) told = told || note.starts_with("queueing: ");
      CHECK(told == (p.fidelity == answer::Fidelity::kAnalytic));
    }
  };
  const std::string vgg = "model vgg16; node dgx1-v100; nodes 4; batch 16; network 10 Gb/s; ";
  check(vgg + "parallel.pipeline 2; global_batch 1024; parallel.schedule pipedream");
  check(vgg + "parallel.pipeline 2; global_batch 1024; parallel.schedule pipedream-2bw");
  // One micro-batch a step: steps of two lengths by turns, of which the mean counts.
  check(vgg + "parallel.pipeline 4; global_batch 128; parallel.schedule pipedream");
}

TEST_CASE("predict: parts of a recurrent model's step add up whatever the schedule", "[unit][whatif]") {
  for (const char* model : {"gnmt", "deepspeech2"}) {
    for (const auto& [name, schedule] : plan::kPipelineSchedules) {
      const bool interleaved = schedule == plan::PipelineSchedule::kInterleaved;
      const answer::Prediction p =
          test::asked("model {}; node dgx-h100; parallel.pipeline 2; batch 1; global_batch 32; parallel.schedule {}{}",
                      model, name, interleaved ? "; parallel.virtual_stages 2" : "");
      INFO(model << " " << name);
      CHECK(p.breakdown.step() / p.step_time == Approx(1).epsilon(1e-9));
    }
  }
}

TEST_CASE("predict: a longer wire makes no step shorter, whatever collectives take from kernels", "[unit][whatif]") {
  Time before;
  for (const char* latency : {"20 us", "100 us", "200 us", "300 us", "1 ms", "1.5 ms", "3 ms"}) {
    const Time step = test::asked(
                          "model gpt2_xl; node pcie-8x3090; nodes 2; parallel.context 2; batch 2; global_batch 256; "
                          "parallel.zero 3; parallel.recompute stage; network.latency {}",
                          latency)
                          .step_time;
    INFO(latency);
    CHECK(step >= before);
    before = step;
  }
}
