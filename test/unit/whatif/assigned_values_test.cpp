// Scenarios whose values are assigned in C++, where no setting was read that would have refused them.
#include <algorithm>
#include <catch2/catch.hpp>

#include "catalog.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/whatif/predict.h"
#include "dgx1_job.h"
#include "overrides.h"

using namespace ddlsim;
using Catch::Matchers::Contains;
using ddlsim::test::catalog;
using ddlsim::test::dgx1_job;
using namespace ddlsim::whatif;
using ddlsim::test::overrides;

TEST_CASE("predict: values of C++ that no setting takes are refused at the door", "[unit][whatif]") {
  const Scenario sound = resolve(catalog(), dgx1_job({})).value();
  const auto refused = [&](const auto& change) {
    Scenario scenario = sound;
    change(scenario);
    const auto answer = predict(scenario);
    return answer ? std::string() : to_string(answer.error());
  };
  CHECK_THAT(refused([](Scenario& s) { s.jobs = 1'000'000'000; }), Contains("jobs") && Contains("up to 1000"));
  CHECK_THAT(refused([](Scenario& s) { s.parallel.order.fill(plan::Axis::kTensor); }), Contains("parallel.order"));
  CHECK_THAT(refused([](Scenario& s) { s.model = std::make_shared<workload::Model>(); }), Contains("neither layers"));
  CHECK_THAT(refused([](Scenario& s) { s.model = nullptr; }), Contains("model: there is none"));
  const Scenario features = resolve(catalog(), overrides("model pai_resnet50; node dgx1-v100")).value();
  CHECK(predict(features));  // without layers
  CHECK(describe(Scenario{}) == "no model");
}

TEST_CASE("predict: a precision that is assigned is nobody's default", "[unit][whatif]") {
  const std::vector<Override> job = overrides("model llama_2_7b; node dgx-h100; batch 1");
  const auto says = [](const Scenario& scenario) {
    const auto notes = predict(scenario).value().notes;
    return std::any_of(notes.begin(), notes.end(), [](const auto& note) { return note.starts_with("precision:"); });
  };
  Scenario scenario = resolve(catalog(), job).value();
  CHECK(scenario.precision == Precision::kBf16);
  CHECK(says(scenario));
  scenario.precision = Precision::kFp16;
  CHECK_FALSE(says(scenario));
}

TEST_CASE("predict: a precision that is assigned with its kernels is the setting's", "[unit][whatif]") {
  std::vector<Override> job = overrides("model bert_large; node dgx-a100; nodes 2");
  Scenario scenario = resolve(catalog(), job).value();
  scenario.precision = Precision::kFp16;
  scenario.fusion = plan::fusion_of(scenario, false);
  job.push_back({"precision", "fp16", {}});
  CHECK(predict(scenario).value().step_time == predict(resolve(catalog(), job).value()).value().step_time);
}
