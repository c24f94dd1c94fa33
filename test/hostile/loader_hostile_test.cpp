// What bad input to `ddlsim loader` gets: the place, the valid choices, the right status, soon; and what its JSON
// promises.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Json = nlohmann::json;

const std::string kServer = "server: {node: dgx1-v100, cores: 24}\n";
const std::string kJob = "jobs:\n  - {name: a, samples_per_s: {1: 5}, samples: 10}\n";

}  // namespace

TEST_CASE("loader: flags that make no question", "[hostile]") {
  refused(kWrongUsage, {"loader"}, {"JOBS is missing"});
  refused(kWrongUsage, {"loader", "synergy", "--policy", "evn"}, {"--policy", "unknown policy 'evn'", "even"});
  refused(kWrongUsage, {"loader", "synergy", "--jobs", "0"}, {"--jobs", "'0'"});
  refused(kWrongUsage, {"loader", "synergy", "--jobs", "1000000000"}, {"--jobs"});
  refused(kWrongUsage, {"loader", "synergy", "--seed", "-1"}, {"--seed"});
  refused(kWrongUsage, {"loader", "synergy", "--per-hour", "0"}, {"--per-hour '0'"});
  refused(kWrongUsage, {"loader", "synergy", "--nodes", "0"}, {"--nodes"});
  refused(kWrongUsage, {"loader", "one_server", "--seed", "1"}, {"--seed: the file lists its jobs"});
  refused(kWrongUsage, {"loader", "synergy", "--trace", ""}, {"--trace has an empty value"});
  refused(kWrongUsage, {"loader", "synergy", "--polcy", "even"}, {"unknown option", "--policy"});
  refused(kNoAnswer, {"loader", "sinergy"}, {"no file of jobs 'sinergy'", "synergy"});
  refused(kNoAnswer, {"loader", "nowhere/jobs.yaml"}, {"nowhere/jobs.yaml"});
  refused(kNoAnswer, {"loader", "one_server", "--trace", "/nowhere/t.json"}, {"/nowhere/t.json"});
}

TEST_CASE("loader: files that are no jobs", "[hostile]") {
  const TempFolder folder;
  const auto with = [&](const std::string& text) { return Words{"loader", folder.file("jobs.yaml", text)}; };
  refused(kNoAnswer, with(""), {"jobs.yaml"});
  refused(kNoAnswer, with("[1, 2]"), {"jobs.yaml:1:1"});
  refused(kNoAnswer, with("server: {node: dgx1-v100, cores: 0}\n" + kJob), {"jobs.yaml:1:", "'0'"});
  refused(kNoAnswer, with(kServer + "jobs:\n  - {name: a, samples_per_s: {1: 5}, samples: 10, arrival: -5 s}\n"),
          {"jobs.yaml:3:", "before time zero"});
  refused(kNoAnswer, with(kServer + "jobs:\n  - {name: a, samples_per_s: {1: 5}}\n"),
          {"jobs.yaml:3:", "would never end", "epochs"});
  refused(kNoAnswer, with(kServer + "policies: [adloder]\n" + kJob), {"jobs.yaml:2:", "a-dloader"});
  refused(
      kNoAnswer,
      with("server: {node: dgx1-v100, storage: " +
           folder.file("small.yaml",
                       "storage: small\nname: Small\nbandwidth: 1 GB/s\nrequest: 1 MB\nlatency: 1 ms\ncapacity: 1 "
                       "GB\nshared: no\nsources: {bandwidth: x, request: x, latency: x, capacity: x, shared: x}\n") +
           "}\njobs:\n  - {name: a, model: resnet18, dataset: imagenet, epochs: 1}\n"),
      {"jobs.yaml:3:", "holds 1 GB"});
  refused(kNoAnswer,
          with(kServer + "jobs:\n  - {name: a, model: resnet18, dataset: kits19, batch: 100, most_workers: 20, epochs: "
                         "1}\n"),
          {"jobs.yaml:3:", "20 workers", "batches"});
  refused(kNoAnswer, {"loader", folder.file("many.yaml", kServer + "jobs:\n", "  - {name: a}\n", 100001)},
          {"many.yaml", "over 100,000 jobs"});
}

TEST_CASE("loader: JSON keeps its contract", "[hostile]") {
  const Outcome outcome = run_program({"loader", "synergy", "--jobs", "20", "--nodes", "2", "--json"});
  REQUIRE(outcome.status == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json["schema"] == "ddlsim/loader/1");
  CHECK(json["jobs"].size() == 20);
  CHECK(json["jobs"][0]["model"].is_null());
  CHECK(json["policies"].size() == 4);
  for (const Json& policy : json["policies"]) {
    for (const char* key : {"throughput_samples_per_s", "full_speed_share", "makespan_s", "mean_completion_s",
                            "gpu_idle_share", "restarts"}) {
      CHECK(policy[key].is_number());
    }
    CHECK(policy["gain_over_even"]["throughput"].is_number());
    CHECK(policy["jobs"].size() == 20);
    CHECK(policy["jobs"][3]["end_s"].get<double>() > policy["jobs"][3]["start_s"].get<double>());
  }
  const Outcome alone = run_program({"loader", "synergy", "--jobs", "5", "--policy", "optimal", "--json"});
  CHECK(Json::parse(alone.out)["policies"][0]["gain_over_even"].is_null());
}
