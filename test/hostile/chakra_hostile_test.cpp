// What `ddlsim predict --chakra` writes, read back; and what it says where it cannot.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "catalog.h"
#include "ddlsim/importers/chakra_file.h"
#include "hostile/run_program.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::test;
using Catch::Matchers::Contains;
using nlohmann::json;

const Words kJob{"predict", "--model", "resnet50", "--node", "dgx1-v100", "--nodes", "1", "--gpus-per-node", "4"};

/// The prediction beside which the files were written.
json predicted(const Words& arguments) {
  const Outcome outcome = run_program(plus(kJob, plus(arguments, {"--json"})));
  CAPTURE(arguments, outcome.err);
  REQUIRE(outcome.status == 0);
  return json::parse(outcome.out).at("prediction");
}

struct Totals {
  Time compute{};
  DataSize sent{};
  int compute_nodes = 0;
  int collectives = 0;
};

Totals totals_of(const std::string& path) {
  const auto trace = importers::read_chakra(path);
  if (!trace) FAIL(to_string(trace.error()));
  CHECK(trace->dangling == 0);
  Totals totals;
  for (const importers::ChakraNode& node : trace->nodes) {
    const bool collective = node.type == importers::ChakraType::kCollective;
    ++(collective ? totals.collectives : totals.compute_nodes);
    totals.sent += node.sent;
    if (!collective) totals.compute += node.duration.value_or(Time::zero());
  }
  return totals;
}

Time gpu_time(const json& prediction) {
  const json& parts = prediction.at("breakdown_s");
  return seconds(parts.at("compute").get<double>() + parts.at("memory").get<double>());
}

const auto kWithinMicroseconds = [](Time a, Time b, double most) {
  CAPTURE(a.in(microseconds), b.in(microseconds));
  CHECK(std::fabs((a - b).in(microseconds)) < most);
};

void refuses(int status, const Words& arguments, const Words& says) { refused(status, plus(kJob, arguments), says); }

}  // namespace

TEST_CASE("predict --chakra: a file per rank, with the prediction's totals", "[hostile]") {
  const TempFolder folder;
  const std::string prefix = (folder.path() / "job").string();
  const json prediction = predicted({"--chakra", prefix});
  CHECK(folder.names() == Words{"job.0.et", "job.1.et", "job.2.et", "job.3.et"});
  const workload::Model& model = *catalog().model("resnet50").value();
  for (int rank = 0; rank < 4; ++rank) {
    const Totals totals = totals_of(prefix + "." + std::to_string(rank) + ".et");
    kWithinMicroseconds(totals.compute, gpu_time(prediction), 2);
    CHECK(totals.sent == bytes(4.0 * static_cast<double>(model.parameters())));
    // A node per layer and pass, the update, and the copies into each bucket.
    CHECK(totals.compute_nodes == static_cast<int>(2 * model.layers.size()) + 1 + totals.collectives);
    CHECK(totals.collectives > 1);
  }
}

TEST_CASE("predict --chakra: what is written can be imported", "[hostile]") {
  const TempFolder folder;
  const std::string prefix = (folder.path() / "job").string();
  const std::string model = (folder.path() / "back.yaml").string();
  // Tensors one by one: neither side copies them into buckets.
  const Words apart{"--set", "strategy.grouping=per-tensor"};
  const json prediction = predicted(plus(apart, {"--chakra", prefix}));
  const Totals totals = totals_of(prefix + ".3.et");
  CHECK(totals.collectives == 161);
  const Outcome made =
      run_program({"import", "chakra", prefix + ".3.et", "--gpu", "v100-sxm2-16gb", "--batch", "64", "-o", model});
  CAPTURE(made.err);
  REQUIRE(made.status == 0);
  CHECK_THAT(made.err, Contains("161 all-reduces"));
  const Outcome again = run_program(plus(
      {"predict", "--model", model, "--node", "dgx1-v100", "--gpus-per-node", "4", "--batch", "64", "--json"}, apart));
  REQUIRE(again.status == 0);
  const json back = json::parse(again.out).at("prediction");
  kWithinMicroseconds(gpu_time(back), gpu_time(prediction), 2);
  CHECK(back.at("traffic").at(0).at("link") == "nvlink");
  CHECK(back.at("traffic").at(0).at("bytes").get<double>() ==
        Approx(prediction.at("traffic").at(0).at("bytes").get<double>()).epsilon(1e-9));
  CHECK(back.at("breakdown_s").at("communication").get<double>() ==
        Approx(prediction.at("breakdown_s").at("communication").get<double>()).epsilon(1e-6));
}

TEST_CASE("predict --chakra: slow ranks, several passes, one GPU, fused messages", "[hostile]") {
  const TempFolder folder;
  const std::string prefix = (folder.path() / "job").string();
  const auto written = [&](const Words& arguments, int rank = 0) {
    static_cast<void>(predicted(plus(arguments, {"--chakra", prefix})));
    return totals_of(prefix + "." + std::to_string(rank) + ".et");
  };
  const Totals plain = written({});
  const Words slow{"--set", "straggler=1.5", "--set", "straggler.gpus=1"};
  kWithinMicroseconds(written(slow, 2).compute, plain.compute, 2);
  kWithinMicroseconds(written(slow, 3).compute, plain.compute * 1.5, 3);
  const Totals twice = written({"--set", "strategy.accumulation=2"});
  CHECK(twice.sent == plain.sent);
  CHECK(twice.compute > plain.compute * 1.9);
  const Totals alone = written({"--set", "gpus_per_node=1"});
  CHECK(alone.collectives == 0);
  CHECK(alone.sent == DataSize::zero());
  const Totals fused = written({"--strategy", "horovod"});
  CHECK(fused.sent == plain.sent);
  CHECK(fused.collectives < 161);
  CHECK(written({"--set", "strategy.priority=yes", "--set", "strategy.partition=4 MB"}).sent == plain.sent);
  CHECK(written({"--set", "overlap=none"}).sent == plain.sent);
}

TEST_CASE("predict --chakra: what cannot be written", "[hostile]") {
  const TempFolder folder;
  const std::string prefix = (folder.path() / "job").string();
  refuses(1, {"--chakra", (folder.path() / "none" / "job").string()}, {"could not be written", "job.0.et"});
  refuses(1, {"--chakra", "/proc/job"}, {"could not be written", "/proc/job.0.et"});
  refuses(2, {"--chakra", ""}, {"--chakra has an empty value"});
  refuses(2, {"--chakra", folder.path().string() + "/"}, {"names no file"});
  refuses(1, {"--chakra", prefix, "--strategy", "ps"}, {"parameter servers", "use strategy allreduce"});
  refuses(1, {"--chakra", prefix, "--fidelity", "aggregate"}, {"aggregate", "use fidelity analytic"});
  refuses(1, {"--chakra", prefix, "--set", "overlap=ideal"}, {"ideal overlap"});
  refuses(1, {"--chakra", prefix, "--set", "jobs=2"}, {"2 jobs"});
  refuses(1, {"--chakra", prefix, "--set", "nodes=1025"}, {"4,100 ranks", "at most 4096"});
  refuses(1, {"--chakra", prefix, "--set", "nodes=1000000000"}, {"4,000,000,000 ranks"});
  refuses(1, {"--chakra", prefix, "--set", "strategy.accumulation=1000000"}, {"nodes a rank"});
  refuses(1, {"--chakra", prefix, "--set", "nodes=1024", "--set", "strategy.accumulation=100"}, {"of files", "4 GB"});
  CHECK(folder.names().empty());
}

TEST_CASE("predict --chakra: ranks written before one that cannot be are taken back", "[hostile]") {
  const TempFolder folder;
  std::filesystem::create_directories(folder.path() / "job.2.et" / "x");
  refuses(1, {"--chakra", (folder.path() / "job").string()}, {"could not be written", "job.2.et"});
  CHECK(folder.names() == Words{"job.2.et"});
}
