#include "ddlsim/whatif/stalls.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/events/input.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/workload/variant.h"
#include "overrides.h"

using namespace ddlsim;
using answer::StallRun;
using answer::StallTimes;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

StallTimes steps(double one, double all, double warm, double cold) {
  StallTimes times;
  times.at(StallRun::kOneGpu) = milliseconds(one);
  times.at(StallRun::kSynthetic) = milliseconds(all);
  times.at(StallRun::kWarm) = milliseconds(warm);
  times.at(StallRun::kCold) = milliseconds(cold);
  return times;
}

std::vector<Override> job(const std::string& model, const std::string& node, std::vector<Override> more = {}) {
  more = joined(overrides("model {}; node {}", model, node), more);
  return more;
}

}  // namespace

TEST_CASE("stalls: differences and what they are shares of", "[unit][stalls]") {
  const auto stalls = stalls_of(steps(100, 150, 200, 260));
  CHECK(stalls.interconnect->time.in(milliseconds) == Approx(50));
  CHECK(stalls.interconnect->percent == Approx(100.0 / 3));
  CHECK_FALSE(stalls.network);
  CHECK(stalls.prep->time.in(milliseconds) == Approx(50));
  CHECK(stalls.prep->percent == Approx(25));
  CHECK(stalls.fetch->time.in(milliseconds) == Approx(60));
  CHECK(stalls.fetch->percent == Approx(100 * 60.0 / 260));
  CHECK(stalls_of(steps(100, 150, 200, 260), FetchRule::kRepository).fetch->time.in(milliseconds) == Approx(210));
  StallTimes two = steps(100, 450, 450, 450);
  two.at(StallRun::kOneServer) = milliseconds(150);
  CHECK(stalls_of(two).network->percent == Approx(200));
  CHECK(stalls_of(two).interconnect->percent == Approx(100.0 / 3));
  CHECK(stalls_of(steps(100, 90, 90, 90)).interconnect->percent == 0);
  CHECK(stalls_of(steps(100, 90, 90, 90)).interconnect->time == Time::zero());
  // One server that is slower than all of them is not the job without its network.
  two.at(StallRun::kOneServer) = milliseconds(600);
  CHECK(stalls_of(two).interconnect->time.in(milliseconds) == Approx(350));
  CHECK(stalls_of(two).network->time == Time::zero());
}

TEST_CASE("stalls: a server that is slower than the whole job gives way to one of the job's own", "[unit][stalls]") {
  // One parameter server for sixteen GPUs, where the job has one on each of its two machines, all as fast.
  const auto asked = job("inception_v3", "p4d.24xlarge",
                         overrides("nodes 2; strategy ps; precision fp16; ps.memory_bandwidth 60 GB/s"));
  const auto told = [](const answer::StallReport& report, const std::string& words) {
    return std::any_of(report.notes.begin(), report.notes.end(),
                       [&](const std::string& note) { return note.find(words) != std::string::npos; });
  };
  const auto sound = [](const answer::StallReport& report) {
    const Time step = *report.times.at(StallRun::kSynthetic);
    const Time all = report.stalls.interconnect->time + report.stalls.network->time;
    CHECK(report.stalls.network->time >= Time::zero());
    CHECK(all.in(seconds) == Approx((step - *report.times.at(StallRun::kOneGpu)).in(seconds)));
  };
  const auto report = stalls(catalog(), asked).value();
  CHECK(report.one_server == "1 x AWS EC2 p4d.24xlarge (8 GPUs)");
  CHECK(told(report, "Google Cloud a2-megagpu-16g takes"));
  sound(report);
  const auto stated = stalls(catalog(), asked, {.one_server = "a2-megagpu-16g"}).value();
  CHECK(stated.one_server == "Google Cloud a2-megagpu-16g");
  CHECK(told(stated, "longer than the job: no network stall is told from it"));
  CHECK(stated.stalls.network->time == Time::zero());
  sound(stated);
}

TEST_CASE("stalls: a measured step of several servers is no measurement of one of another kind", "[unit][stalls]") {
  const auto asked = [](std::vector<Override> more) {
    more.insert(more.begin(),
                {{"model", "resnet50", {}}, {"node", "p3.8xlarge", {}}, {"nodes", "2", {}}, {"batch", "64", {}}});
    return stalls(catalog(), more).value();
  };
  const auto none = asked({});
  for (const char* step : {"300 ms", "230 ms"}) {
    INFO(step);
    const auto stated = asked({{"measured.step", step, {}}});
    const auto table = asked({{"measured.steps", std::string("2x4@64 = ") + step, {}}});
    CHECK(stated.one_server == none.one_server);
    CHECK(to_exact_text(*stated.times.at(StallRun::kSynthetic)) == step);
    const Time one = *stated.times.at(StallRun::kOneServer);
    CHECK(one < *stated.times.at(StallRun::kSynthetic) * 0.99);
    CHECK(one / *table.times.at(StallRun::kOneServer) == Approx(1).epsilon(1e-9));
    CHECK(stated.stalls.network->time > Time::zero());
  }
}

TEST_CASE("stalls: the rule finds what simulated pipelines were given", "[unit][stalls]") {
  // A GPU of 10 ms, 15 with its gradients; workers that make a batch every 20 ms; storage that gives one every 26.
  const cost::BatchPipeline warm{.worker = milliseconds(80), .workers = 4};
  cost::BatchPipeline cold = warm;
  cold.storage = milliseconds(26);
  cold.worker = milliseconds(90);
  const Time all = milliseconds(15);
  StallTimes times = steps(10, 15, 0, 0);
  times.at(StallRun::kWarm) = all + events::simulate_input(warm, all, 200, 1).value();
  times.at(StallRun::kCold) = all + events::simulate_input(cold, all, 200, 1).value();
  const auto stalls = stalls_of(times);
  CHECK(stalls.interconnect->time.in(milliseconds) == Approx(5).epsilon(1e-9));
  CHECK(stalls.prep->time.in(milliseconds) == Approx(5).epsilon(1e-9));
  CHECK(stalls.fetch->time.in(milliseconds) == Approx(6).epsilon(1e-9));
}

TEST_CASE("stalls: they add up, and two servers are compared with one", "[unit][stalls]") {
  const auto report =
      stalls(catalog(), job("resnet18", "p3.8xlarge", overrides("nodes 2; input.dataset imagenet"))).value();
  CHECK(report.one_server == "AWS EC2 p3.16xlarge");
  const auto& s = report.stalls;
  REQUIRE((s.interconnect && s.network && s.prep && s.fetch));
  const Time sum = s.interconnect->time + s.network->time + s.prep->time + s.fetch->time;
  const Time all = *report.times.at(StallRun::kCold) - *report.times.at(StallRun::kOneGpu);
  CHECK(sum.in(seconds) == Approx(all.in(seconds)).epsilon(1e-12));
  CHECK(s.network->time > Time::zero());
  const auto one = stalls(catalog(), job("resnet18", "p3.16xlarge")).value();
  CHECK(one.stalls.network->time == Time::zero());
  CHECK_FALSE(one.stalls.prep);
  const auto odd = stalls(catalog(), job("resnet18", "p3.16xlarge", overrides("nodes 3"))).value();
  CHECK(odd.one_server.find("8 GPUs") != std::string::npos);
}

TEST_CASE("stalls: what the study chooses itself is said to have no effect, where it is stated", "[unit][stalls]") {
  const auto noted = [](std::vector<Override> more) {
    more = joined(more, overrides("input.dataset imagenet; precision fp16"));
    std::string all;
    const auto report = stalls(catalog(), job("resnet50", "p3.16xlarge", more)).value();
    for (const std::string& note : report.notes) {
      if (note.starts_with("stated, but without effect")) all += note;
    }
    return all;
  };
  CHECK(noted({}).empty());
  const std::string own = ": the warm run reads from memory alone, the cold one from storage";
  CHECK(noted(overrides("input.epoch first")) == "stated, but without effect here: input.epoch" + own);
  CHECK(noted(overrides("input.cache none; input.cache_size 10 GB")) ==
        "stated, but without effect here: input.cache, input.cache_size" + own);
}

TEST_CASE("stalls: epochs of a data set have the rate of the network that lasts", "[unit][stalls]") {
  std::vector<Override> more = overrides("nodes 4; input.dataset imagenet; input.storage ebs-gp3; precision fp16");
  const auto epoch = stalls(catalog(), job("resnet50", "g4dn.xlarge", more)).value();
  const auto step = stalls(catalog(), job("resnet50", "g4dn.xlarge", overrides("nodes 4; precision fp16")));
  more = joined(more, overrides("training.samples 1281167; training.epochs 1"));
  const auto run = stalls(catalog(), job("resnet50", "g4dn.xlarge", more)).value();
  CHECK(epoch.stalls.network->percent == Approx(run.stalls.network->percent));
  CHECK(epoch.stalls.network->percent > 2 * step.value().stalls.network->percent);
  CHECK(epoch.steps_of_epoch == run.steps_of_epoch);
  CHECK(std::any_of(epoch.notes.begin(), epoch.notes.end(), [](const std::string& note) {
    return note == "network: the 5 Gb/s that a server sustains; it reaches 25 Gb/s for minutes";
  }));
  CHECK(epoch.title.find("network 5 Gb/s") != std::string::npos);
  // As predict has it: one job, one step.
  const std::vector<Override> read = job(
      "resnet50", "g4dn.xlarge", overrides("nodes 4; input.dataset imagenet; input.storage ebs-gp3; precision fp16"));
  Scenario alone = resolve(catalog(), read).value();
  alone.input.dataset = nullptr;
  CHECK(*epoch.times.at(answer::StallRun::kSynthetic) == predict(alone).value().step_time);
}

TEST_CASE("stalls: of a run the first epoch counts by its share of the steps", "[unit][stalls]") {
  Predictor predictor;
  const auto read = resolve(catalog(), job("resnet18", "p3.16xlarge", overrides("input.dataset imagenet"))).value();
  const auto first = stalls_of(read, predictor)->fetch->percent / 100;
  const auto run = stalls_of(read, predictor, 1.0 / 90)->fetch->percent / 100;
  // t(warm) = 1: cold steps of 1 / (1 - first), which 1 of 90 are.
  CHECK(run == Approx(1 - 1 / (1 + (1 / (1 - first) - 1) / 90)));
  CHECK(stalls_of(read, predictor, 1.0)->fetch->percent == Approx(100 * first));
}

TEST_CASE("stalls: of a job that is resolved, by steps alone", "[unit][stalls]") {
  Predictor predictor;
  const auto read = job("resnet18", "p3.16xlarge", overrides("nodes 3; input.dataset imagenet"));
  const auto command = stalls(catalog(), read).value().stalls;
  const auto alone = stalls_of(resolve(catalog(), read).value(), predictor).value();
  CHECK(alone.interconnect->percent == Approx(command.interconnect->percent));
  CHECK(alone.network->percent == Approx(command.network->percent));
  CHECK(alone.prep->percent == Approx(command.prep->percent));
  CHECK(alone.fetch->percent == Approx(command.fetch->percent));
  CHECK(alone.network->percent > 0);
  const auto made_up = stalls_of(resolve(catalog(), job("resnet18", "p3.16xlarge")).value(), predictor).value();
  CHECK_FALSE(made_up.network);
  CHECK_FALSE(made_up.prep);
  const auto split = job("gpt2", "p3.16xlarge", overrides("parallel.tensor 2"));
  CHECK_FALSE(stalls_of(resolve(catalog(), split).value(), predictor));
}

TEST_CASE("stalls: what has no answer", "[unit][stalls]") {
  CHECK_FALSE(stalls(catalog(), job("bert_large", "p3.16xlarge", overrides("parallel.tensor 2"))));
  const auto other =
      stalls(catalog(), job("resnet18", "p3.8xlarge", overrides("nodes 2")), {.one_server = "p2.8xlarge"});
  REQUIRE_FALSE(other);
  CHECK(other.error().message.find("8 x") != std::string::npos);
  CHECK_FALSE(study_layers(catalog(), job("resnet18", "p3.16xlarge")));
}

TEST_CASE("stalls: depth and gradients", "[unit][stalls]") {
  const std::vector<Override> stated = overrides("node p3.16xlarge");
  const auto study = study_layers(catalog(), stated).value();
  REQUIRE(study.models.size() == 22);
  CHECK(study.models.front().tensors == 38);
  CHECK(study.models.front().parameters == 5418792);
  const auto without = workload::without(*catalog().model("resnet18").value(), {.norms = true}).value();
  CHECK(without.parameters() == 11679912);
  CHECK(without.totals.gradient_tensors == 22);
  const auto sums = workload::without(*catalog().model("resnet18").value(), {.residuals = true}).value();
  CHECK(sums.parameters() == 11689512);
  CHECK(sums.layers.size() + 8 == catalog().model("resnet18").value()->layers.size());
}

TEST_CASE("stalls: somebody's own runs", "[unit][stalls]") {
  const auto read = [](const std::string& text) {
    std::istringstream stream(text);
    return read_stall_runs(stream, "runs.csv");
  };
  const auto runs = read("run,train_s,batches\nrun0,10,100\nsynthetic,15,100\nwarm,40,200\n").value();
  CHECK(runs.at(StallRun::kOneGpu)->in(milliseconds) == Approx(100));
  CHECK(stalls_of(runs).prep->time.in(milliseconds) == Approx(50));
  CHECK_FALSE(stalls_of(runs).fetch);
  for (const char* bad : {"run,train_s,batches\n", "run,train_s\nrun0,1\n", "run,train_s,batches\nrun9,1,1\n",
                          "run,train_s,batches\nrun0,0,1\n", "run,train_s,batches\nrun0,1,0\n",
                          "run,train_s,batches\nrun0,1,1\nrun0,1,1\n", "run,train_s,batches\nrun0,x,1\n"}) {
    CHECK_FALSE(read(bad));
  }
}

TEST_CASE("stalls: the study of layers says that it reads no data set", "[unit][stalls]") {
  const std::vector<Override> server{{"node", "p3.16xlarge", {}}};
  std::vector<Override> reads = server;
  reads.push_back({"input.dataset", "imagenet", {}});
  const auto told = [](const answer::StallStudy& study) {
    return std::any_of(study.notes.begin(), study.notes.end(), [](const std::string& note) {
      return note.starts_with("stated, but without effect here: input.dataset");
    });
  };
  CHECK_FALSE(told(study_layers(catalog(), server, {}).value()));
  CHECK(told(study_layers(catalog(), reads, {}).value()));
}
