#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "asked.h"
#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/scenario.h"
#include "overrides.h"

using namespace ddlsim;
using Catch::Matchers::Contains;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

std::vector<Override> job(std::vector<Override> more) {
  return joined(overrides("model resnet50; node dgx1-v100; nodes 2; network 25 Gb/s; fidelity event"), more);
}

double step(std::vector<Override> more) {
  const auto scenario = resolve(catalog(), job(std::move(more)));
  if (!scenario) FAIL(to_string(scenario.error()));
  const auto p = predict(*scenario);
  if (!p) FAIL(to_string(p.error()));
  return p->step_time.in(milliseconds);
}

std::string refused(std::vector<Override> more) { return test::refused(job(std::move(more))); }

}  // namespace

TEST_CASE("other jobs: a job like this one is what `jobs` says", "[unit][whatif]") {
  const double two = step(overrides("jobs 2"));
  CHECK(step(overrides("other_jobs.0.model resnet50")) == Approx(two).epsilon(1e-9));
  CHECK(two > step({}));
}

TEST_CASE("other jobs: their servers are this job's in all that is said of them", "[unit][whatif]") {
  for (const Override& said : {Override{"gpu.memory_bandwidth", "300 GB/s", {}}, Override{"nvlink", "10 GB/s", {}},
                               Override{"pcie", "4 GB/s", {}}, Override{"network.latency", "100 us", {}}}) {
    INFO(said.path);
    CHECK(step({said, {"other_jobs.0.model", "resnet50", {}}}) ==
          Approx(step({said, {"jobs", "2", {}}})).epsilon(1e-9));
  }
}

TEST_CASE("other jobs: who sends more slows more, who sends nothing does not", "[unit][whatif]") {
  const double alone = step({});
  const double beside_small = step(overrides("other_jobs.0.model mobilenet_v2"));
  const double beside_large = step(overrides("other_jobs.0.model vgg16"));
  CHECK(alone <= beside_small * (1 + 1e-9));
  CHECK(beside_small < beside_large);
  // All of its traffic once more at the most, while it lasts.
  CHECK(beside_large < 2 * alone);
}

TEST_CASE("other jobs: on servers of their own they meet on the leaf's uplink alone", "[unit][whatif]") {
  const double alone = step({});
  const std::vector<Override> other = overrides("other_jobs.0.model vgg16; other_jobs.0.servers others");
  const auto with_uplink = [&](const char* rate) {
    std::vector<Override> all = other;
    all.push_back({"network.uplink", rate, {}});
    return step(all);
  };
  CHECK(with_uplink("10 Tb/s") == Approx(alone).epsilon(1e-6));
  CHECK(with_uplink("25 Gb/s") > alone * 1.01);
}

TEST_CASE("other jobs: a scenario file lists them", "[unit][whatif]") {
  const auto path = std::filesystem::temp_directory_path() / "ddlsim_other_jobs_test.yaml";
  std::ofstream(path) << "model: resnet50\nnode: dgx1-v100\nnodes: 2\nnetwork: 25 Gb/s\nfidelity: event\n"
                         "other_jobs:\n  - model: vgg16\n    batch: 32\n    offset: 5 ms\n  - {model: bert_base}\n";
  const auto settings = load_scenario(path);
  REQUIRE(settings);
  const Scenario scenario = resolve(catalog(), *settings).value();
  REQUIRE(scenario.other_jobs.size() == 2);
  CHECK(scenario.other_jobs.front().job->model->id == "vgg16");
  CHECK(scenario.other_jobs.front().job->batch == 32);
  CHECK(scenario.other_jobs.front().job->cluster.nodes == 2);
  CHECK(scenario.other_jobs.front().job->cluster.node.network.bandwidth.in(gigabits_per_second) == Approx(25));
  CHECK(scenario.other_jobs.front().offset.in(milliseconds) == Approx(5));
  CHECK(scenario.other_jobs.back().job->model->id == "bert_base");
}

TEST_CASE("other jobs: what cannot stand beside this one is refused", "[unit][whatif]") {
  CHECK_THAT(refused(overrides("other_jobs.0.model vgg61")), Contains("vgg61") && Contains("in other_jobs, number 0"));
  CHECK_THAT(refused(overrides("other_jobs.0.modle vgg16")), Contains("unknown setting"));
  CHECK_THAT(refused(overrides("other_jobs.0.batch 32")), Contains("no model named"));
  CHECK_THAT(refused(overrides("other_jobs.0.model vgg16; other_jobs.0.servers those")),
             Contains("unknown servers 'those'") && Contains("'these'"));
  CHECK_THAT(refused(overrides("other_jobs.0.model vgg16; other_jobs.0.servers others")),
             Contains("state network.uplink"));
  CHECK_THAT(refused(overrides("other_jobs.0.model vgg16; other_jobs.0.nodes 4")),
             Contains("4 x dgx1-v100") && Contains("servers: others"));
  CHECK_THAT(refused(overrides("other_jobs.0.model vgg16; other_jobs.0.jobs 2")), Contains("leave them out"));
  CHECK_THAT(refused(overrides("other_jobs.0.model vgg16; other_jobs.0.offset -1 s")), Contains("negative"));
  CHECK_THAT(refused(overrides("other_jobs.0.model pai_bert")), Contains("without layers"));
  CHECK_THAT(refused(overrides("other_jobs.0.model vgg16; fidelity analytic")),
             Contains("knows nothing of other_jobs"));
}

TEST_CASE("uplink: a job alone crosses its leaf's", "[unit][whatif]") {
  const auto asked = [](std::vector<Override> more) {
    more = joined(overrides("model vgg16; node dgx1-v100; network 25 Gb/s"), more);
    return predict(resolve(ddlsim::test::catalog(), more).value()).value();
  };
  const auto says = [](const answer::Prediction& p, const std::string& note) {
    return std::find(p.notes.begin(), p.notes.end(), note) != p.notes.end();
  };
  const Override four{"nodes", "4", {}};
  const auto free = asked({four, {"fidelity", "event", {}}});
  CHECK(asked({four, {"network.uplink", "1 Tb/s", {}}}).step_time.in(seconds) ==
        Approx(free.step_time.in(seconds)).epsilon(1e-6));
  // A thousandth of that: what four servers send takes as long on it, and twice as long beside a second such job.
  const auto alone = asked({four, {"network.uplink", "1 Gb/s", {}}});
  const auto two = asked({four, {"network.uplink", "1 Gb/s", {}}, {"jobs", "2", {}}});
  CHECK(alone.step_time > free.step_time * 10.0);
  CHECK(two.step_time / alone.step_time == Approx(2).epsilon(0.05));
  const auto waits = [](const answer::Prediction& p) { return p.breakdown.communication_exposed; };
  CHECK((alone.step_time - free.step_time).in(seconds) == Approx((waits(alone) - waits(free)).in(seconds)));
  const std::string unused = "stated, but without effect here: network.uplink";
  CHECK_FALSE(says(alone, unused));
  CHECK(says(asked(overrides("network.uplink 1 Gb/s")), unused));
}
