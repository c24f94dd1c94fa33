// What bad input to `ddlsim recommend` gets, and what its JSON promises.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

const Words kRun{"recommend", "--model", "resnet50", "--samples",       "1281167",     "--epochs", "90",
                 "--catalog", "none",    "--price",  "dgx1-v100=3 $/h", "--max-nodes", "2"};

std::string written(const std::string& name, const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / name;
  std::ofstream(path) << text;
  return path.string();
}

}  // namespace

TEST_CASE("recommend: flags that make no question", "[hostile]") {
  refused(kWrongUsage, {"recommend"}, {"--model is missing"});
  refused(kWrongUsage, plus(kRun, {"--budget", "-5 $"}), {"--budget", "negative"});
  refused(kWrongUsage, plus(kRun, {"--budget", "500"}), {"--budget", "as --budget \"500 $\""});
  refused(kWrongUsage, plus(kRun, {"--budget", "0 $"}), {"greater than zero"});
  refused(kWrongUsage, plus(kRun, {"--deadline", "-1h"}), {"--deadline", "negative"});
  refused(kWrongUsage, plus(kRun, {"--deadline", "tomorrow"}), {"--deadline", "as --deadline 24h"});
  refused(kWrongUsage, {"recommend", "--model", "resnet50", "--max-nodes", "0"}, {"--max-nodes"});
  refused(kWrongUsage, plus(kRun, {"--region", "us-east-1"}), {"--region without --prices"});
  refused(kWrongUsage, {"recommend", "--model", "resnet50", "--samples", ""}, {"--samples has an empty value"});
}

TEST_CASE("recommend: flags that contradict each other", "[hostile]") {
  const Words run{"recommend", "--model", "resnet50", "--steps", "10"};
  refused(kWrongUsage, plus(run, {"--catalog", "gcp", "--node", "p3.16xlarge"}),
          {"p3.16xlarge is a server of AWS", "none of the clouds asked for (gcp)"});
  refused(kWrongUsage, plus(run, {"--catalog", "none", "--node", "p3.16xlarge"}),
          {"p3.16xlarge is a server of AWS", "no cloud is asked for"});
  refused(kWrongUsage, plus(run, {"--node", "p3.2xlarge", "--nodes", "2", "--max-nodes", "1"}),
          {"2 nodes", "at most 1 server of"});
  for (const Words& more : {Words{"--catalog", "gcp,aws"},
                            {"--catalog", "none", "--price", "p3.2xlarge=3 $/h"},
                            {"--nodes", "17"},
                            {"--nodes", "2", "--max-nodes", "2"}}) {
    CHECK(
        run_program(plus(plus(run, {"--node", "p3.2xlarge", "--batch", "1", "--global-batch", "544"}), more)).status ==
        0);
  }
}

TEST_CASE("recommend: data that answer nothing", "[hostile]") {
  refused(kNoAnswer, {"recommend", "--model", "resnet50"}, {"how long is the run?", "--samples"});
  refused(kNoAnswer, {"recommend", "--model", "resnet50", "--epochs", "90"}, {"90 epochs of how many samples?"});
  refused(kNoAnswer, plus(kRun, {"--deadline", "1 s"}), {"no choice is done in 1 s", "too long"});
  refused(kNoAnswer, plus(kRun, {"--price", "dgx1-v100=12"}), {"unit"});
  refused(kNoAnswer, plus(kRun, {"--price", "dgx1-v1000=12 $/h"}), {"dgx1-v1000"});
  refused(kNoAnswer, plus(kRun, {"--prices", "/no/such/vms.csv"}), {"/no/such/vms.csv"});
  refused(kNoAnswer, plus(kRun, {"--epochs-by-batch", "/no/such.csv"}), {"/no/such.csv"});
  const std::string columns =
      written("ddlsim_hostile_vms.csv", "InstanceType,Price,Region\np3.2xlarge,3.06,us-east-1\n");
  refused(kNoAnswer, plus(kRun, {"--prices", columns}), {"the column 'SpotPrice' is missing", ":1:"});
  const std::string twice = written("ddlsim_hostile_epochs.csv", "global_batch,epochs\n256,90\n256,80\n");
  refused(kNoAnswer, plus(kRun, {"--epochs-by-batch", twice}), {"stands twice", ":3:1"});
  refused(kWrongUsage, {"recommend", "--model", "resnet50", "--steps", "10", "--catalog", "awz"},
          {"unknown catalog 'awz'", "AWS"});
  refused(kWrongUsage, {"recommend", "--model", "resnet50", "--steps", "10", "--catalog", "quux"},
          {"unknown catalog 'quux'", "valid: ", ", none, all"});
  for (const char* word : {"none", "all"}) {
    refused(kWrongUsage, {"recommend", "--model", "resnet50", "--steps", "10", "--catalog", std::string("aws,") + word},
            {"'" + std::string(word) + "' stands alone", "aws,gcp"});
  }
  refused(kNoAnswer, {"recommend", "--model", "resnet50", "--steps", "10", "--catalog", "aws", "--spot"},
          {"no server can run this job", "as a spot server"});
}

TEST_CASE("recommend: JSON keeps its contract", "[hostile]") {
  const Outcome run = run_program(plus(kRun, {"--json", "--budget", "10000 $"}));
  REQUIRE(run.status == 0);
  const Json json = Json::parse(run.out);
  CHECK(json["schema"] == "ddlsim/recommend/1");
  for (const char* key : {"cheapest", "fastest", "pareto", "choices", "infeasible"}) CHECK(json.contains(key));
  REQUIRE(json["choices"].size() == 2);
  for (const Json& choice : json["choices"]) {
    for (const char* key : {"node", "nodes", "batch", "time_s", "cost_usd", "energy_j"}) CHECK(choice.contains(key));
    CHECK(choice["prediction"]["step_time_s"] == choice["step_time_s"]);
    CHECK(choice["prediction"]["training"]["cost_usd"] == choice["cost_usd"]);
  }
  CHECK(json["cheapest"] == json["choices"][0]);
}
