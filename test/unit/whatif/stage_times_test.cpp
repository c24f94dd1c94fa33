// Stages of models that may be cut anywhere follow from what their layers take (predict/stage_times.h).
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "asked.h"
#include "ddlsim/whatif/plan_search.h"
#include "ddlsim/whatif/predictor.h"

using namespace ddlsim;
using test::asked;

namespace {

constexpr std::string_view kResnet =
    "model resnet152; node dgx1-v100; parallel.pipeline 8; global_batch 512; batch 16; precision fp32";
constexpr std::string_view kVgg =
    "model vgg16; node dgx1-v100; parallel.pipeline 4; global_batch 512; batch 16; precision fp32";
constexpr std::string_view kGnmt =
    "model gnmt; node dgx1-v100; nodes 2; parallel.pipeline 4; global_batch 128; batch 4; parallel.zero 1; precision "
    "fp32";

struct ByHand {
  std::string_view job;
  std::string_view stages;
};
constexpr ByHand kByHand[]{
    {kResnet, "40-61-63-72-74-73-73-59"},
    {kVgg, "5-7-8-21"},
    {kGnmt, "5-12-11-7"},
};

}  // namespace

TEST_CASE("stage times: stages of CNNs and RNNs are within 2 % of those by hand", "[stage_times]") {
  for (const ByHand& one : kByHand) {
    INFO(one.job);
    const Time by_hand = asked("{}; parallel.layers_per_stage {}", one.job, one.stages).step_time;
    CHECK(asked("{}", one.job).step_time <= by_hand * 1.02);
  }
}

TEST_CASE("stage times: plan finds them", "[stage_times]") {
  for (const ByHand& one : kByHand) {
    INFO(one.job);
    const Time by_hand = asked("{}; parallel.layers_per_stage {}", one.job, one.stages).step_time;
    const auto settings = test::overrides("{}; parallel.schedule 1f1b", one.job);
    const auto choice = whatif::search_plans(test::catalog(), settings, {}, [] { return Time::zero(); });
    REQUIRE(choice);
    CHECK(choice->best.prediction.step_time <= by_hand * 1.02);
    CHECK(choice->proved);
    const auto all = whatif::try_every_plan(test::catalog(), settings, {}, [] { return Time::zero(); });
    REQUIRE(all);
    CHECK(all->best.prediction.step_time == choice->best.prediction.step_time);
  }
}

TEST_CASE("stage times: faster memory makes no step slower", "[stage_times]") {
  Time before = Time::infinity();
  for (const int bandwidth : {900, 1000, 1200, 1400, 1800, 2500, 4000}) {
    INFO(bandwidth);
    const Time step = asked(
                          "model gnmt; node dgx1-v100; nodes 2; parallel.pipeline 4; global_batch 128; batch 4; "
                          "parallel.zero 1; parallel.schedule zbv; gpu.memory_bandwidth {} GB/s",
                          bandwidth)
                          .step_time;
    CHECK(step <= before);
    before = step;
  }
}

TEST_CASE("stage times: a predictor that keeps them answers as one that does not", "[stage_times]") {
  whatif::Predictor predictor;
  for (const std::string_view schedule : {"1f1b", "zbv", "gpipe"}) {
    for (const std::string_view network : {"100 Gb/s", "1 Gb/s"}) {
      for (const int nodes : {1, 2}) {
        INFO(schedule << ' ' << network << ' ' << nodes);
        const auto job = whatif::resolve(
            test::catalog(),
            test::overrides("{}; nodes {}; network {}; parallel.schedule {}", kVgg, nodes, network, schedule));
        REQUIRE(job);
        CHECK(predictor.predict(*job)->step_time == whatif::predict(*job)->step_time);
      }
    }
  }
}

TEST_CASE("stage times: events agree with the recurrence", "[stage_times]") {
  for (const std::string_view job : {kVgg, kGnmt}) {
    const Time analytic = asked("{}; overlap none", job).step_time;
    CHECK(asked("{}; overlap none; fidelity event", job).step_time.in(seconds) ==
          Approx(analytic.in(seconds)).epsilon(0.02));
  }
}
