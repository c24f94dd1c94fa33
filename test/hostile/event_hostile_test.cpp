// What `ddlsim predict` says to simulations that cannot be, and what its traces hold.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "files.h"
#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;
using nlohmann::json;

const Words kJob{"predict", "--model", "resnet50", "--node", "dgx1-v100", "--nodes", "2"};

void refuses(int status, const Words& arguments, const Words& says) { refused(status, plus(kJob, arguments), says); }

/// Slices of one track follow each other, and every track has a name.
void check_trace(const json& trace, const Words& names) {
  std::map<int, std::int64_t> ends;
  std::map<int, std::string> tracks;
  std::size_t slices = 0;
  bool overlap = false;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") {
      if (event.at("name") == "thread_name") tracks[event.at("tid").get<int>()] = event.at("args").at("name");
      continue;
    }
    ++slices;
    const std::int64_t start = std::llround(event.at("ts").get<double>() * 1e6);
    std::int64_t& end = ends[event.at("tid").get<int>()];
    overlap = overlap || start < end || !(event.at("dur").get<double>() > 0);
    end = start + std::llround(event.at("dur").get<double>() * 1e6);
  }
  CHECK_FALSE(overlap);
  CHECK(slices > 1000);
  for (const auto& [track, end] : ends) CHECK(tracks.count(track) == 1);
  for (const std::string& name : names) {
    CHECK(std::any_of(tracks.begin(), tracks.end(), [&](const auto& track) { return track.second == name; }));
  }
}

}  // namespace

TEST_CASE("event: traces parse and no slice is on another", "[hostile]") {
  const TempFolder folder;
  const std::string path = (folder.path() / "trace.json").string();
  const auto traced = [&](const Words& arguments, const Words& tracks) {
    CAPTURE(arguments);
    const Outcome outcome = run_program(plus(kJob, plus(arguments, {"--json", "--trace", path})));
    REQUIRE(outcome.status == 0);
    CHECK(json::parse(outcome.out).at("prediction").at("fidelity") == "event");
    CHECK(folder.names() == Words{"trace.json"});
    check_trace(json::parse(contents(path)), tracks);
  };
  traced({}, {"cpu", "gpu", "communication"});
  traced({"--set", "jobs=3", "--set", "jobs.offset=7 ms", "--set", "straggler=1.3"}, {"gpu", "communication"});
  traced({"--strategy", "ps", "--set", "jobs=2"}, {"gpu", "send", "receive", "sum and update", "copy in"});
  traced({"--strategy", "ps", "--set", "strategy.placement=round-robin", "--set", "strategy.grouping=per-tensor",
          "--set", "strategy.servers=3", "--set", "strategy.priority=yes"},
         {"0 receive", "2 serve"});
  traced({"--strategy", "ps", "--set", "strategy.consistency=async", "--set", "straggler=2"}, {"gpu", "send"});
  traced({"--strategy", "horovod"}, {"gpu", "communication"});
}

TEST_CASE("event: traces that cannot be", "[hostile]") {
  const TempFolder folder;
  const std::string path = (folder.path() / "trace.json").string();
  refuses(1, {"--trace", (folder.path() / "none" / "trace.json").string()}, {"could not be written", "none"});
  refuses(1, {"--trace", folder.path().string()}, {"could not be written"});
  refuses(2, {"--trace", ""}, {"--trace"});
  refuses(2, {"--trace", path, "--fidelity", "analytic"}, {"--trace", "analytic", "event"});
  refuses(2, {"--trace", path, "--set", "fidelity=aggregate"}, {"--trace", "aggregate"});
  refuses(1, {"--trace", path, "--set", "overlap=ideal"}, {"ideal overlap"});
  CHECK(folder.names().empty());
}

TEST_CASE("event: questions for another fidelity, and none for this one", "[hostile]") {
  refuses(1, {"--fidelity", "analytic", "--set", "straggler=1.3"}, {"analytic", "straggler", "use fidelity event"});
  refuses(1, {"--fidelity", "aggregate", "--set", "jobs=2"}, {"aggregate", "jobs", "use fidelity event"});
  refuses(1, {"--fidelity", "event", "--strategy", "pearl"}, {"no table", "use strategy allreduce"});
  refuses(1, {"--strategy", "ps", "--set", "strategy.consistency=async", "--set", "jobs=2"}, {"asynchronous jobs"});
  refuses(1,
          {"--strategy", "ps", "--set", "strategy.priority=yes", "--set", "strategy.pull_at_start=yes", "--fidelity",
           "event"},
          {"priority"});
  refuses(1, {"--set", "straggler=0.9"}, {"straggler", "between 1 and 1000000"});
  refuses(1, {"--set", "straggler=nan"}, {"straggler"});
  refuses(1, {"--set", "straggler=1.3", "--set", "straggler.gpus=17"}, {"17", "16"});
  refuses(1, {"--set", "straggler.gpus=0"}, {"straggler.gpus"});
  refuses(1, {"--set", "jobs=0"}, {"jobs"});
  refuses(1, {"--set", "jobs=1001"}, {"jobs"});
  refuses(1, {"--set", "jobs=2", "--set", "jobs.offset=-1 ms"}, {"jobs.offset"});
  refuses(1, {"--set", "jobs=2", "--set", "jobs.offset=3"}, {"jobs.offset"});
}

TEST_CASE("event: too much to simulate is said at once", "[hostile]") {
  refuses(1, {"--strategy", "ps", "--set", "jobs=1000"}, {"tasks to simulate"});
  refuses(
      1, {"--strategy", "ps", "--set", "strategy.priority=yes", "--set", "strategy.partition=1 kB", "--set", "jobs=30"},
      {"tasks to simulate"});
  refuses(1, {"--network", "0.01 kb/s", "--fidelity", "event", "--batch", "1"}, {"106 days"});
}
