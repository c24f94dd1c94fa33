// What a search says of its best plan, and of a model that fits in none.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "chosen_plan.h"
#include "ddlsim/whatif/plan_search.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::chosen;
using ddlsim::test::no_time;
using ddlsim::test::overrides;
using ddlsim::test::refused_plan;
using namespace ddlsim::whatif;
using Catch::Matchers::Contains;

TEST_CASE("plan reasons: what fails on the host's memory is not explained by the GPU's", "[unit][whatif]") {
  const auto why = refused_plan({{"model", "llama_3_1_70b", {}},
                                 {"node", "dgx-a100", {}},
                                 {"gpu", "a100-80gb", {}},
                                 {"gpu.memory_size", "90 GB", {}},
                                 {"global_batch", "8", {}},
                                 {"parallel.context", "1", {}},
                                 {"parallel.tensor", "8", {}},
                                 {"parallel.recompute", "full", {}},
                                 {"parallel.offload_optimizer", "yes", {}}});
  CHECK_THAT(why, Contains("of 1.024 TB in a server's host memory") && Contains("too much") && !Contains("per GPU"));
  CHECK_THAT(why, Contains("the smallest cluster that fits: 2 x "));
}

TEST_CASE("plan reasons: GPUs that servers have and the job does not use are named", "[unit][whatif]") {
  const auto why = refused_plan(
      {{"model", "llama_3_1_8b", {}}, {"node", "dgx-h100", {}}, {"gpus_per_node", "1", {}}, {"global_batch", "8", {}}});
  CHECK_THAT(why, Contains("2 x NVIDIA DGX H100 (2 GPUs, 7 more of each server idle: gpus_per_node=8 may need fewer"));
}

TEST_CASE("plan reasons: numbers of servers are tried that degrees divide", "[unit][whatif]") {
  // One GPU of 24 GB a server: at least 271 of them hold the states, a prime. 256 samples and blocks divide powers
  // of 2.
  const std::vector<Override> large{{"model", "llama_3_1_405b", {}},    {"node", "g5.xlarge", {}},
                                    {"global_batch", "256", {}},        {"parallel.context", "1", {}},
                                    {"parallel.recompute", "full", {}}, {"parallel.schedule", "1f1b", {}}};
  const auto none = search_plans(catalog(), large, {.limit = seconds(1)}, no_time);
  REQUIRE_FALSE(none);
  CHECK_THAT(to_string(none.error()), Contains("the smallest cluster that fits: ") || Contains("it fits on "));
  // What no time was left for is not said to be too few.
  double now = 0;
  const auto clock = [&] { return seconds(now += 1); };
  const auto late = search_plans(catalog(), large, {.limit = seconds(12)}, clock);
  REQUIRE_FALSE(late);
  CHECK_THAT(to_string(late.error()), !Contains("was tried is enough"));
}

TEST_CASE("plan reasons: why the best wins, and what would change it", "[unit][whatif]") {
  const auto choice =
      chosen(overrides("model gpt2; node dgx-a100; nodes 2; gpus_per_node 4; network 10 Gb/s; gpu.memory_size 9 GB; "
                       "global_batch 8; parallel.context 1; parallel.recompute none; parallel.sequence no; "
                       "parallel.schedule 1f1b"),
             {.explain = true});
  CHECK(choice.why.size() == choice.next.size());
  REQUIRE_FALSE(choice.sensitivity.empty());
  const auto faster = std::find_if(choice.sensitivity.begin(), choice.sensitivity.end(),
                                   [](const auto& one) { return one.change == "network twice as fast"; });
  REQUIRE(faster != choice.sensitivity.end());
  CHECK(faster->step_time <= choice.best.prediction.step_time);
}
