#include "ddlsim/whatif/folding.h"

#include <catch2/catch.hpp>

#include "catalog.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

using namespace ddlsim;
using namespace ddlsim::whatif;
using Catch::Matchers::Contains;
using ddlsim::test::catalog;
using ddlsim::test::overrides;

namespace {

std::vector<Override> three_d(const char* nodes) {
  return overrides(
      "model llama_3_1_70b; node dgx-h100; nodes {}; precision bf16; batch 1; parallel.tensor 8; parallel.pipeline 4; "
      "strategy.accumulation 8",
      nodes);
}

}  // namespace

TEST_CASE("folding: the worked example of the header", "[unit][whatif]") {
  const auto scenario = resolve(catalog(), three_d("125000"));
  REQUIRE(scenario);
  const auto plan = plan::lower(*scenario);
  REQUIRE(plan);
  CHECK(plan->classes.size() == 4);
  const std::string text = folding_text(*plan, 2);
  CHECK_THAT(text, Contains("1,000,000 GPUs as 4 classes of alike ranks"));
  CHECK_THAT(text, Contains("gradients: 32 groups of 31,250 ranks on 31,250 servers, 8 through the same ports"));
  CHECK_THAT(text, Contains("tensor: 125,000 groups of 8 ranks in a server"));
  CHECK_THAT(text, Contains("at 1/2 of their ports"));
}

TEST_CASE("folding: a plan of a million GPUs has as many parts as one of a thousand", "[unit][whatif]") {
  for (const char* strategy : {"allreduce", "ps"}) {
    const auto plan_of = [&](const char* nodes) {
      const auto scenario =
          resolve(catalog(), overrides("model resnet50; node dgx-h100; nodes {}; strategy {}", nodes, strategy));
      return plan::lower(scenario.value()).value();
    };
    const auto small = plan_of("128");
    const auto large = plan_of("125000");
    CHECK(large.classes.size() == small.classes.size());
    CHECK(large.groups.size() == small.groups.size());
    CHECK(large.rows.size() == small.rows.size());
  }
}

TEST_CASE("folding: the prediction says it, and an oversubscribed fabric slows what crosses servers",
          "[unit][whatif]") {
  const auto predicted = [](const char* ratio) {
    auto settings = three_d("125000");
    settings.push_back({"network.oversubscription", ratio, {}});
    return resolve(catalog(), settings).and_then([](const Scenario& s) { return predict(s); }).value();
  };
  const auto full = predicted("1");
  const auto half = predicted("4");
  CHECK(half.step_time > full.step_time);
  std::string notes;
  for (const std::string& note : half.notes) notes += note + "\n";
  CHECK_THAT(notes, Contains("folded: 1,000,000 GPUs as 4 classes"));
}
