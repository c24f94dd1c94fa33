// Clocks that fall, of whole jobs: what a pass draws is summed over all of its model, however that is asked.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <string>

#include "catalog.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/predictor.h"
#include "overrides.h"
#include "search/short_model.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

Scenario job(const char* model, std::vector<Override> more = {}) {
  const std::vector<Override> settings = joined(overrides("model {}; node dgx-h100; gpus_per_node 1", model), more);
  return resolve(catalog(), settings).value();
}

cost::SustainedClocks clocks_of(const Scenario& one) {
  return cost::price_layers(one, plan::lower(one).value(), {1, 1}).value().clocks;
}

}  // namespace

TEST_CASE("clocks: a short model stands for the whole", "[unit][whatif]") {
  const Scenario whole = job("llama_3_2_1b", overrides("batch 8"));
  const auto shorter = short_model_of(whole);
  REQUIRE(shorter);
  const auto& stands_for = *shorter->stands_for;
  CHECK(std::accumulate(stands_for.begin(), stands_for.end(), 0.0) == static_cast<double>(whole.model->layers.size()));
  Scenario part = whole;
  part.software_of_whole = plan::software_factor(whole);
  part.model = shorter->model;
  part.stands_for = shorter->stands_for;
  const cost::SustainedClocks of_whole = clocks_of(whole);
  const cost::SustainedClocks of_part = clocks_of(part);
  CHECK(of_whole.slowdown > 1);
  CHECK(of_part.slowdown == Approx(of_whole.slowdown).epsilon(1e-9));
  CHECK(of_part.pass.arithmetic.in(joules) == Approx(of_whole.pass.arithmetic.in(joules)).epsilon(1e-9));
  CHECK(of_part.pass.memory.in(joules) == Approx(of_whole.pass.memory.in(joules)).epsilon(1e-9));
  CHECK(of_part.pass.compute.in(seconds) == Approx(of_whole.pass.compute.in(seconds)).epsilon(1e-9));
  CHECK(of_part.pass.rest.in(seconds) == Approx(of_whole.pass.rest.in(seconds)).epsilon(1e-9));
}

TEST_CASE("clocks: what the GPU waits for the CPU's work on samples is time in which it draws nothing",
          "[unit][whatif]") {
  const Scenario waits = job("maskrcnn_resnet50_fpn");
  Scenario graphs = waits;
  graphs.cuda_graphs = true;  // which has none of that work in it
  Time host;
  for (const workload::Layer& layer : waits.model->layers) host += layer.host * static_cast<double>(waits.batch);
  REQUIRE(host > Time::zero());
  const Time rest = clocks_of(waits).pass.rest - clocks_of(graphs).pass.rest;
  CHECK(rest.in(seconds) == Approx(host.in(seconds)));
  CHECK(clocks_of(waits).drawn < clocks_of(graphs).drawn);
}

TEST_CASE("clocks: a predictor that kept prices hears of another limit", "[unit][whatif]") {
  Predictor predictor;
  for (const char* limit : {"700 W", "400 W", "700 W"}) {
    const Scenario one = job("llama_3_2_1b", overrides("batch 8; gpu.power_limit {}", limit));
    CHECK(predictor.step_time(one).value() == predict(one).value().step_time);
  }
}

TEST_CASE("clocks: how many passes a step has says nothing of them", "[unit][whatif]") {
  const auto slowdown = [](const char* passes) {
    return clocks_of(job("llama_3_2_1b", overrides("batch 8; strategy.accumulation {}", passes))).slowdown;
  };
  CHECK(slowdown("1") == slowdown("4"));
}

TEST_CASE("clocks: a B200's products under lasting load, of short calls the share that was measured",
          "[unit][whatif]") {
  const auto b200 = [](const char* precision) {
    return resolve(catalog(),
                   overrides("model llama_3_2_1b; node dgx-b200; gpus_per_node 1; batch 8; precision {}", precision))
        .value();
  };
  const hardware::Gpu gpu = b200("bf16").cluster.node.gpu;
  const ComputeRate short_calls = teraflops_per_second(1516);
  const cost::DrawnByPass products{.arithmetic = *gpu.draw->at(Precision::kBf16) * (short_calls * seconds(1)),
                                   .compute = seconds(1)};
  CHECK(cost::sustained_clocks(products, *gpu.draw, gpu.tdp).slowdown == Approx(1516.0 / 1103).epsilon(0.002));
  CHECK(clocks_of(b200("bf16")).slowdown > 1.1);
  CHECK(clocks_of(b200("fp8")).drawn == Power::zero());  // nobody measured
  const auto says_unused = [](const char* precision) {
    const auto limited = resolve(catalog(), overrides("model llama_3_2_1b; node dgx-b200; gpus_per_node 1; batch 8; "
                                                      "precision {}; gpu.power_limit 500 W",
                                                      precision))
                             .value();
    const auto notes = predict(limited).value().notes;
    return std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
      return note.find("without effect") != std::string::npos && note.find("gpu.power_limit") != std::string::npos;
    });
  };
  CHECK_FALSE(says_unused("bf16"));
  CHECK(says_unused("fp8"));
}
