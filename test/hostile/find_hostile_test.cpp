// What bad input to `ddlsim find`, `explain` and `what-if --elasticities` gets: what is wrong, what would be right, the
// right status, soon.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "ddlsim/whatif/find.h"
#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Json = nlohmann::json;

const Words kJob{"--model", "resnet50", "--node", "dgx1-v100", "--nodes", "4"};

Words find(const std::string& variable, const std::string& condition, const Words& more = {}) {
  return plus(plus({"find", variable, "--such-that", condition}, kJob), more);
}

}  // namespace

TEST_CASE("find: flags that make no question", "[hostile][find]") {
  refused(kWrongUsage, {"find"}, {"the variable is missing"});
  refused(kWrongUsage, plus({"find", "network"}, kJob), {"--such-that is missing"});
  refused(kWrongUsage, {"find", "network", "--such-that", "mfu >= 50 %"}, {"--model is missing"});
  refused(kWrongUsage, find("network", "mfu >= 50 %", {"batch"}), {"unknown argument 'batch'"});
  for (const char* share : {"100%", "0", "very", "-5%"}) {
    refused(kWrongUsage, find("network", "mfu >= 50 %", {"--sure", share}), {"--sure"});
  }
  refused(kWrongUsage, find("network", "mfu >= 50 %", {"--form", "1 Gb/s"}), {"unknown option '--form'", "--from"});
}

TEST_CASE("find: help names every metric, and the variable as the usage line does", "[hostile][find]") {
  const Outcome help = run_program({"find", "--help"});
  for (const auto& [name, metric] : ddlsim::whatif::kMetrics) {
    if (name == "communication_exposed") continue;  // another word for exposed_communication
    CHECK_THAT(help.out, Catch::Contains(std::string(name)));
  }
  CHECK_THAT(help.out, Catch::Contains("[VARIABLE]") && !Catch::Contains("SETTING"));
}

TEST_CASE("find: conditions that are none", "[hostile][find]") {
  for (const char* text : {"", " ", "faster", "step_time", "step_time ! 3 s", "step_time > 3 s"}) {
    const Outcome outcome = run_program(find("network", text));
    INFO(text << outcome.err);
    CHECK(outcome.status == kWrongUsage);
    CHECK(outcome.out.empty());
  }
  refused(kWrongUsage, find("network", "step_time <= 200 GB"), {"step_time", "is not a time but a data size", "ms"});
  refused(kWrongUsage, find("network", "step_time <= nan s"), {"is not a time"});
  refused(kWrongUsage, find("network", "step_time <= -3 s"), {"must not be negative"});
  refused(kWrongUsage, find("network", "scaling_efficiency >= 120 %"), {"out of range"});
  refused(kWrongUsage, find("network", "speed >= 120 %"), {"unknown metric 'speed'", "throughput"});
  refused(kWrongUsage, find("network", std::string(5000, '>')), {"is not a condition"});
}

TEST_CASE("find: conditions that are always true or never, and variables that are no number", "[hostile][find]") {
  const Outcome always = run_program(find("network", "step_time <= 10000 h"));
  CHECK(always.status == 0);
  CHECK(always.out.find("it holds at every value that was tried") != std::string::npos);
  refused(kNoAnswer, find("ps.memory_bandwidth", "step_time <= 100 ms"), {"makes no difference"});
  refused(kWrongUsage, find("strategy", "step_time <= 1 s"), {"'strategy' is no number", "network"});
  refused(kWrongUsage, find("netwrok", "step_time <= 1 s"), {"unknown setting 'netwrok'", "did you mean 'network'"});
  refused(kWrongUsage, find("cost", "step_time <= 1 s"), {"unknown setting 'cost'"});
  refused(kNoAnswer, find("nodes", "cost <= 1 $"), {"nobody says how long the run is", "--samples"});
  refused(kWrongUsage, find("network", "step_time <= 1 s", {"--from", "3 s"}),
          {"--from", "is not a bandwidth but a time"});
  refused(kWrongUsage, find("network", "step_time <= 1 s", {"--from", "3 Gb/s", "--to", "1 Gb/s"}),
          {"nothing between"});
}

TEST_CASE("find: what cannot be reached has no answer, but says how far it goes", "[hostile][find]") {
  const Outcome outcome = run_program(find("network", "scaling_efficiency >= 99.9 %", {"--json"}));
  REQUIRE(outcome.status == kNoAnswer);
  const Json json = Json::parse(outcome.out);
  CHECK(json["schema"] == "ddlsim/find/1");
  CHECK(json["variable"] == "network");
  CHECK(json["reached"] == false);
  CHECK(json["value"].is_null());
  CHECK(json["prediction"]["step_time_s"].get<double>() > 0);
  CHECK(json["limit"]["scaling_efficiency"].get<double>() < 0.999);
  CHECK(json["predictions"].get<int>() <= 40);
}

TEST_CASE("find: soon", "[hostile][find]") {
  const Outcome one = run_program(plus({"predict", "--json"}, kJob));
  const Outcome outcome = run_program(find("network", "scaling_efficiency >= 90 %", {"--json"}));
  REQUIRE(outcome.status == 0);
  CHECK(Json::parse(outcome.out)["predictions"].get<int>() <= 40);
  CHECK(outcome.cpu_seconds < 4 * one.cpu_seconds + 0.1);  // reading the files is nearly all of both
}

TEST_CASE("elasticities: of one job, without columns", "[hostile][elasticity]") {
  const Words job = plus({"what-if"}, kJob);
  refused(kWrongUsage, plus(job, {"--elasticities", "--vs", "--set", "nodes=2"}), {"--elasticities and --vs"});
  refused(kWrongUsage, plus(job, {"--elasticities", "--columns", "nemo", "--format", "csv"}),
          {"--elasticities and --columns"});
  refused(kWrongUsage, plus(job, {"--elasticities", "--format", "svg"}), {"no picture"});
  const Outcome outcome = run_program(plus(job, {"--elasticities", "--set", "nodes=2", "--json"}));
  REQUIRE(outcome.status == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json["schema"] == "ddlsim/elasticities/1");
  CHECK(json["baseline"]["gpus"] == 16);
  CHECK(json["elasticities"].size() > 3);
  CHECK(json["tornado"].size() > 3);
}

TEST_CASE("explain: parts that are none, and soon", "[hostile][explain]") {
  const Words job = plus({"explain"}, kJob);
  refused(kWrongUsage, {"explain"}, {"--model is missing"});
  refused(kWrongUsage, plus(job, {"--part", ""}), {"--part has an empty value"});
  refused(kNoAnswer, plus(job, {"--part", "all-redcue"}), {"no part 'all-redcue'", "all-reduce"});
  refused(kNoAnswer, plus(job, {"--measured-step", "180 ms"}), {"measured runs"});
  const Outcome outcome = run_program(plus(job, {"--json"}));
  REQUIRE(outcome.status == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json["schema"] == "ddlsim/explain/1");
  CHECK(json["parts"].size() > 10);
  const Outcome predicted = run_program(plus({"predict", "--json"}, kJob));
  CHECK(outcome.cpu_seconds < 4 * predicted.cpu_seconds + 0.1);  // reading the files is nearly all of both
}
