// What bad input to `ddlsim plan` gets: the place, the valid choices, the right status, soon.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

const Words kJob{"plan", "--model", "gpt2", "--node", "dgx-a100", "--gpus-per-node", "4", "--global-batch", "8"};
const Words kUnbatched(kJob.begin(), kJob.end() - 2);

}  // namespace

TEST_CASE("plan: flags that make no question", "[hostile]") {
  refused(kWrongUsage, {"plan"}, {"--model is missing"});
  refused(kWrongUsage, {"plan", "--model", "gpt2"}, {"--node is missing"});
  refused(kWrongUsage, plus(kJob, {"--objective", "tme"}), {"--objective", "did you mean 'time'"});
  refused(kWrongUsage, plus(kJob, {"--limit", "10"}), {"--limit", "as --limit 10s"});
  refused(kWrongUsage, plus(kJob, {"--limit", "-1s"}), {"--limit"});
  refused(kWrongUsage, plus(kJob, {"--limit", ""}), {"--limit"});
  refused(kWrongUsage, plus(kJob, {"--nodes-up-to", "0"}), {"--nodes-up-to"});
  refused(kWrongUsage, plus(kJob, {"--nodes-up-to", "2", "--nodes", "2"}), {"state one of them"});
  refused(kWrongUsage, plus(kJob, {"--on", "4 x v100"}), {"--on without --partition"});
  refused(kWrongUsage, plus(kJob, {"--partition", "--on", "v100"}), {"COUNT x GPU"});
  refused(kWrongUsage, plus(kJob, {"--partition", "--on", "0 x v100"}), {"COUNT x GPU"});
  refused(kWrongUsage, plus(kJob, {"--partition", "--on", "4 x v100,"}), {"COUNT x GPU"});
  refused(kWrongUsage, plus(kJob, {"--pln"}), {"unknown option"});
}

TEST_CASE("plan: values that no plan has", "[hostile]") {
  refused(kNoAnswer, plus(kJob, {"--tp", "3"}), {"parallel.tensor = 3: legal here: 1, 2, 4"});
  refused(kNoAnswer, plus(kJob, {"--tp", "0"}), {"parallel.tensor"});
  refused(kNoAnswer, plus(kJob, {"--tp", "-2"}), {"parallel.tensor"});
  refused(kNoAnswer, plus(kJob, {"--pp", "1048576"}), {"parallel.pipeline", "legal here: 1, 2, 4"});
  refused(kNoAnswer, plus(kJob, {"--dp", "3"}), {"parallel.data = 3: legal here: 1, 2, 4"});
  refused(kNoAnswer, plus(kJob, {"--micro-batch", "3"}), {"batch = 3: legal here: 1, 2, 4, 8"});
  refused(kNoAnswer, plus(kJob, {"--micro-batch", "-1"}), {"batch"});
  refused(kNoAnswer, plus(kUnbatched, {"--global-batch", "0"}), {"global_batch"});
  refused(kNoAnswer, plus(kUnbatched, {"--global-batch", "-8"}), {"global_batch"});
  refused(kNoAnswer, plus(kUnbatched, {"--global-batch", "8.5"}), {"global_batch"});
  refused(kNoAnswer, plus(kJob, {"--zero", "4"}), {"parallel.zero"});
  refused(kNoAnswer, plus(kJob, {"--schedule", "1b1f"}), {"parallel.schedule", "1f1b"});
  refused(kNoAnswer, plus(kJob, {"--strategy", "ps"}), {"strategy"});
  refused(kNoAnswer, plus(kJob, {"--price", "12"}), {"--price", "unit"});
  refused(kNoAnswer, plus(kJob, {"--price", "dgx-h100=12 $/h"}), {"--price is of dgx-h100"});
  refused(kNoAnswer, plus(kJob, {"--price", "nowhere=12 $/h"}), {"nowhere"});
  refused(kNoAnswer, plus(kJob, {"--objective", "cost"}), {"--price"});
  refused(kNoAnswer, {"plan", "--model", "resnet50", "--node", "dgx-a100", "--tp", "4", "--global-batch", "512"},
          {"parallel.tensor = 4: legal here: 1"});
  refused(kNoAnswer, {"plan", "--model", "pai_bert", "--node", "dgx-a100"}, {"no layers to split"});
  refused(kNoAnswer, plus(kUnbatched, {"--partition", "--on", "2 x nothing"}), {"nothing"});
}

TEST_CASE("plan: runs that nobody can have measured", "[hostile]") {
  const auto runs = [](const std::string& words) { return plus(kJob, {"--set", "measured.steps=" + words}); };
  refused(kNoAnswer, plus(kJob, {"--measured-step", "100 ms"}), {"measured.step is of one plan", "parallel.tensor"});
  refused(kNoAnswer, runs("1x4 (parallel.tensor 3) = 100 ms"), {"in a measured run"});
  refused(kNoAnswer, runs("1x4 (tensor 2) = 100 ms"), {"'tensor 2' says nothing of a split"});
  refused(kNoAnswer, runs("1x4@2 (parallel.tensor 2) = 1 us"), {"faster than the wire allows"});
  refused(kNoAnswer, runs("1x4@2 (parallel.zero 1) = 100 ms; 1x4@2 (parallel.zero 1) = 300 ms"), {"contradict"});
  refused(kNoAnswer, runs("1x4 (parallel.zero 1 = 100 ms"), {"is no run"});
  refused(kNoAnswer, plus(kJob, {"--measured", "/no/such.csv"}), {"no/such.csv"});
  refused(kNoAnswer, plus(runs("1x4@2 = 100 ms"), {"--partition"}), {"of whole steps"});
}

TEST_CASE("plan: a model that fits nowhere says which cluster would hold it", "[hostile]") {
  refused(kNoAnswer, plus(kJob, {"--set", "gpu.memory_size=0.4 GB", "--limit", "1s"}),
          {"fits in no plan", "of weights"});
}

TEST_CASE("plan: JSON keeps its contract", "[hostile]") {
  const Outcome outcome = run_program(plus(kJob, {"--json", "--price", "12 $/h"}), 60);
  REQUIRE(outcome.status == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json.at("schema") == "ddlsim/plan/1");
  CHECK(json.at("searched").is_number_integer());
  CHECK(json.at("pruned").get<std::int64_t>() < json.at("searched").get<std::int64_t>());
  CHECK(json.at("seconds").is_number());
  const Json& best = json.at("best");
  CHECK(best.at("plan").at("parallel.tensor").is_string());
  const double step = best.at("prediction").at("step_time_s");
  CHECK(step > 0);
  REQUIRE(json.at("next").size() == 5);
  for (const Json& one : json.at("next")) CHECK(one.at("prediction").at("step_time_s") >= step);
  REQUIRE_FALSE(json.at("pareto").empty());
  for (const Json& one : json.at("pareto")) {
    CHECK(one.at("step_time_s") >= step);
    CHECK(one.at("memory_bytes_per_gpu").is_number());
    CHECK(one.at("cost_usd").is_number());
    CHECK(one.at("plan").is_object());
  }
  // A plan pasted is the same prediction.
  Words pasted{"predict"};
  pasted.insert(pasted.end(), kJob.begin() + 1, kJob.end());
  for (const auto& [path, value] : best.at("plan").items()) {
    pasted.push_back("--set");
    pasted.push_back(path + "=" + value.get<std::string>());
  }
  const Outcome again = run_program(plus(pasted, {"--json"}), 60);
  REQUIRE(again.status == 0);
  CHECK(Json::parse(again.out).at("prediction").at("step_time_s") == step);
}
