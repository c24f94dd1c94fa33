// Where a job's own runs put what the model does not say, and how well they say a step is known.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/predictor.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::joined;
using ddlsim::test::overrides;
using whatif::Override;

namespace {

answer::Prediction predicted(const std::string& runs, std::vector<Override> more = {}) {
  std::vector<Override> settings =
      overrides("model resnet50; node dgx1-v100; nodes 4; network infiniband-100g; batch 128; strategy horovod");
  if (!runs.empty()) settings.push_back({"measured.steps", runs, {}});
  settings = joined(settings, more);
  return whatif::predict(whatif::resolve(catalog(), settings).value()).value();
}

Time sum_of(const std::vector<answer::Segment>& path) {
  Time sum;
  for (const answer::Segment& one : path) sum += one.time;
  return sum;
}

std::string note_of(const answer::Prediction& p, const std::string& start) {
  for (const std::string& note : p.notes) {
    if (note.find(start) == 0) return note;
  }
  return "";
}

}  // namespace

TEST_CASE("own runs: what no link explains is no kernel's", "[unit][whatif]") {
  const auto one = predicted("1x1 = 353.2 ms");
  const auto slow = predicted("1x1 = 353.2 ms; 1x8 = 376.2 ms; 2x8 = 900 ms");
  CHECK_THAT(note_of(slow, "your steps on 2 servers"), Catch::Contains("hardly explains"));
  // Kernels are as slow as one GPU's step says.
  CHECK(slow.breakdown.compute / one.breakdown.compute == Approx(1).epsilon(1e-6));
  CHECK(slow.breakdown.memory / one.breakdown.memory == Approx(1).epsilon(1e-6));
  CHECK(slow.step_time > 2 * one.step_time);
  CHECK(slow.breakdown.unexplained / slow.step_time > 0.5);
  CHECK(slow.breakdown.other >= slow.breakdown.unexplained);
  CHECK(slow.breakdown.step() / slow.step_time == Approx(1).epsilon(1e-9));
  CHECK(sum_of(slow.critical_path) / slow.step_time == Approx(1).epsilon(1e-9));
  CHECK(slow.bottleneck == "unexplained");
  CHECK(one.breakdown.unexplained == Time::zero());
  CHECK(one.bottleneck == "gpu compute");
}

TEST_CASE("own runs: what links explain is communication", "[unit][whatif]") {
  const std::vector<Override> slow_network = overrides("network 10 Gb/s");
  const auto one = predicted("1x1 = 353.2 ms", slow_network);
  const auto sent = predicted("1x1 = 353.2 ms; 2x8 = 500 ms", slow_network);
  CHECK_THAT(note_of(sent, "your steps on 2 servers"), Catch::Contains("as if the network gave"));
  CHECK(sent.breakdown.compute / one.breakdown.compute == Approx(1).epsilon(1e-6));
  CHECK(sent.breakdown.unexplained == Time::zero());
  CHECK(sent.breakdown.communication_exposed > one.breakdown.communication_exposed);
  CHECK(sent.breakdown.communication >= sent.breakdown.communication_exposed);
  CHECK(sent.breakdown.step() / sent.step_time == Approx(1).epsilon(1e-9));
  CHECK(sum_of(sent.critical_path) / sent.step_time == Approx(1).epsilon(1e-9));
  // Runs that took less leave no part below zero.
  const auto fast = predicted("1x1 = 353.2 ms; 2x8 = 356 ms", slow_network);
  CHECK(fast.step_time < one.step_time);
  CHECK(fast.breakdown.unexplained == Time::zero());
  CHECK(fast.breakdown.communication_exposed >= Time::zero());
  CHECK(fast.breakdown.step() / fast.step_time == Approx(1).epsilon(1e-9));
}

TEST_CASE("own runs: one run of several servers is of the whole step", "[unit][whatif]") {
  const auto none = predicted("");
  const auto whole = predicted("4x8 = 430 ms");
  CHECK(whole.breakdown.unexplained.in(seconds) == Approx(0).margin(1e-9));
  CHECK(whole.breakdown.compute / none.breakdown.compute == Approx(whole.step_time / none.step_time).epsilon(1e-6));
}

TEST_CASE("own runs: how well a step is known is its interval", "[unit][whatif]") {
  const auto ends = [](const answer::Prediction& p) {
    return std::pair{p.interval_90.first / p.step_time, p.interval_90.second / p.step_time};
  };
  // By hand: a run of 2 % and one more of the job, 0.02 * sqrt(2) * 1.645 = 4.65 % on either side.
  const auto ran = predicted("4x8 = 430 ms");
  CHECK(ran.step_time.in(milliseconds) == Approx(430));
  CHECK(std::log(ends(ran).first) == Approx(-0.0465).epsilon(0.02));
  CHECK(std::log(ends(ran).second) == Approx(0.0465).epsilon(0.02));
  CHECK_THAT(note_of(ran, "so this step"), Catch::Contains("known to -4.5 % and +4.7 % (90 %)"));
  // Another batch, or another network, is extrapolated: late more often than early.
  for (const Override& other : {Override{"nodes", "8", {}}, Override{"batch", "64", {}}}) {
    const auto p = predicted("4x8@128 = 430 ms", {other});
    INFO(other.path);
    CHECK(std::log(ends(p).second) > -1.5 * std::log(ends(p).first));
    CHECK(ends(p).second > ends(ran).second);
  }
}

TEST_CASE("own runs: a step inside one server says nothing of the network", "[unit][whatif]") {
  const auto over = [](std::vector<Override> job, const std::string& nodes) {
    job.push_back({"nodes", nodes, {}});
    return job;
  };
  // What four servers take beside the model's step, where one takes so many times the model's.
  const auto kept = [&](const std::vector<Override>& job, double times) {
    const auto one = whatif::resolve(catalog(), over(job, "1")).value();
    const auto four = whatif::resolve(catalog(), over(job, "4")).value();
    const Time inside = whatif::predict(one).value().step_time;
    const auto runs = whatif::OwnRuns::learn(std::vector<whatif::OwnRun>{{one, inside * times}}).value();
    CHECK(whatif::predict(whatif::corrected(one, runs)).value().step_time / inside == Approx(times).epsilon(1e-6));
    return whatif::predict(whatif::corrected(four, runs)).value().step_time / whatif::predict(four).value().step_time;
  };
  // Four servers of VGG-16 wait for 1 Gb/s: the wire is most of their step, whatever one server's GPUs take.
  const std::vector<Override> vgg = overrides("model vgg16; node dgx1-v100; network 1 Gb/s; batch 64");
  CHECK(kept(vgg, 0.8) > 0.98);
  CHECK(kept(vgg, 1.3) < 1.05);
  // Twice the model's is no GPU's fault, and no network's either that the server did not use.
  CHECK(kept(vgg, 2) > 1.01);
  CHECK(kept(vgg, 2) < 1.15);
  // Nor of ranks that share states: four servers wait for what they gather.
  const std::vector<Override> sharded = overrides("model gpt2_xl; node dgx-a100; network 25 Gb/s; parallel.zero 3");
  CHECK(kept(sharded, 0.8) > 0.97);
}
