#include "ddlsim/whatif/shared_loaders.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "catalog.h"
#include "ddlsim/report/shared_loaders.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

using namespace ddlsim;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using ddlsim::test::catalog;
using ddlsim::test::overrides;

namespace {

Expected<answer::SharedLoaders> shared(const std::string& text) {
  const auto document = io::parse_yaml(text, "jobs.yaml");
  REQUIRE(document);
  const auto file = io::read_jobs(*document, "jobs.yaml");
  if (!file) return tl::unexpected<Error>(file.error());
  return whatif::share_loaders(catalog(), *file);
}

std::string fault(const std::string& text) {
  const auto answer = shared(text);
  return answer ? std::string("no fault") : to_string(answer.error());
}

const answer::LoaderPolicy& of(const answer::SharedLoaders& answer, const std::string& policy) {
  return *std::find_if(answer.policies.begin(), answer.policies.end(),
                       [&](const answer::LoaderPolicy& one) { return one.name == policy; });
}

constexpr const char* kMeasured = R"(
server: {node: c4140-4xv100, cores: 12, memory: 250 GB}
restart: 0 s
jobs:
  - {name: alexnet, samples_per_s: {1: 30, 2: 66, 3: 100, 4: 125, 5: 153, 6: 175}, samples: 175000}
  - {name: resnet50, samples_per_s: {1: 40, 2: 74, 3: 100, 4: 115}, samples: 115000}
  - {name: gnmt, samples_per_s: {1: 100}, samples: 100000}
  - {name: lstm, samples_per_s: {1: 100}, samples: 100000}
)";

}  // namespace

// The header's worked example of shares, run to its end: 6 + 4 + 1 + 1 cores end all jobs after 1,000 s. With 3 each
// AlexNet takes 1,000 s at 100/s until the language jobs end and 1,150 for ResNet-50; then it goes on with more.
TEST_CASE("shared loaders: measured jobs on one server", "[unit][shared_loaders]") {
  const auto answer = shared(kMeasured);
  REQUIRE(answer);
  for (const std::string policy : {"a-dloader", "optimal"}) {
    const answer::LoaderPolicy& best = of(*answer, policy);
    CHECK(best.makespan.in(seconds) == Approx(1000));
    CHECK(best.mean_completion.in(seconds) == Approx(1000));
    CHECK(best.gpu_idle == Approx(0).margin(1e-12));
    CHECK(best.full_speed == Approx(1));
    CHECK(best.throughput.in(per_second) == Approx((175 + 115 + 100 + 100) / 4.0));
    CHECK(best.restarts == 0);
  }
  // Even: 3 cores each until 1,000 s, then 6 each: 75,000 / 175 and 15,000 / 115 s.
  const answer::LoaderPolicy& even = of(*answer, "even");
  CHECK(even.times.jobs[0].end.in(seconds) == Approx(1000 + 75000.0 / 175));
  CHECK(even.times.jobs[1].end.in(seconds) == Approx(1000 + 15000.0 / 115));
  CHECK(of(*answer, "optimal").makespan_gain.value() == Approx(1 - 1000 / (1000 + 75000.0 / 175)));
  const double alexnet = (1000 + 75000.0 / 175) / 1000;
  const double resnet = (1000 + 15000.0 / 115) / 1000;
  CHECK(of(*answer, "optimal").throughput_gain.value() == Approx((alexnet + resnet + 1 + 1) / 4 - 1));
  CHECK(even.throughput_gain.value() == 0);
  // The same 490,000 samples, in the time in which any job runs.
  CHECK(of(*answer, "optimal").aggregate.in(per_second) == Approx(490));
  CHECK(of(*answer, "optimal").aggregate_gain.value() == Approx(75000.0 / 175 / 1000));
  CHECK(of(*answer, "optimal").completion_gain.value() == Approx(1 - 1 / ((alexnet + resnet + 1 + 1) / 4)));
  CHECK_THAT(report::render(*answer, report::Format::kText),
             Contains("42.9 % more throughput of all jobs than even shares, mean completion 12.3 % shorter"));
  CHECK(of(*answer, "gpu-proportional").makespan.in(seconds) == Approx(1750));
  CHECK_THAT(answer->notes.back(), Contains("23.5 %") && Contains("not public"));
}

TEST_CASE("shared loaders: alike jobs gain nothing over even shares", "[unit][shared_loaders]") {
  const auto answer = shared(R"(
server: {node: c4140-4xv100, cores: 8}
restart: 0 s
fair: no
jobs:
  - {name: a, samples_per_s: {1: 10, 2: 20, 3: 30, 4: 40, 5: 50, 6: 60, 7: 70}, samples: 4000}
  - {name: b, samples_per_s: {1: 10, 2: 20, 3: 30, 4: 40, 5: 50, 6: 60, 7: 70}, samples: 4000}
)");
  REQUIRE(answer);
  for (const answer::LoaderPolicy& policy : answer->policies) {
    if (policy.name == "gpu-proportional") continue;
    CAPTURE(policy.name);
    CHECK(policy.aggregate.in(per_second) == Approx(80));
    CHECK(policy.aggregate_gain.value() == Approx(0).margin(1e-12));
    CHECK(policy.throughput_gain.value() == Approx(0).margin(1e-12));
  }
  CHECK_THAT(report::render(*answer, report::Format::kText),
             StartsWith("even, ") && Contains(" tie: throughputs of all jobs within 1 %, and none is done 1 % sooner"));
}

TEST_CASE("shared loaders: even shares win by mean completion where throughputs tie", "[unit][shared_loaders]") {
  const auto answer = shared(R"(
server: {node: p3.16xlarge, cores: 16}
jobs:
  - {name: a, model: alexnet, dataset: imagenet, batch: 512, gpus: 2, steps: 5000, set: {precision: fp16}}
  - {name: b, model: alexnet, dataset: imagenet, batch: 512, gpus: 2, steps: 5000, set: {precision: fp16}}
  - {name: c, model: resnet50, dataset: imagenet, batch: 128, gpus: 4, steps: 20000, set: {precision: fp16}}
)");
  REQUIRE(answer);
  REQUIRE(std::abs(*of(*answer, "optimal").aggregate_gain) < 0.01);
  REQUIRE(*of(*answer, "optimal").completion_gain < -0.05);
  CHECK_THAT(report::render(*answer, report::Format::kText),
             Contains("none is done 1 % sooner than even shares; even shares win by mean completion: ") &&
                 Contains(" % longer with optimal"));
}

TEST_CASE("shared loaders: predicted jobs are what predict says", "[unit][shared_loaders]") {
  const auto answer = shared(R"(
server: {node: dgx1-v100, cores: 24, storage: sata-ssd}
policies: [gpu-proportional]
jobs:
  - {name: a, model: resnet18, dataset: imagenet, batch: 256, gpus: 8, epochs: 1, set: {precision: fp16, input.cache: none}}
)");
  REQUIRE(answer);
  const std::vector<whatif::Override> settings = overrides(
      "model resnet18; node dgx1-v100; batch 256; precision fp16; input.dataset imagenet; input.workers 3; input.cache "
      "none; input.storage sata-ssd");
  const auto prediction = whatif::predict(*whatif::resolve(catalog(), settings));
  REQUIRE(prediction);
  CHECK(answer->jobs[0].full.in(per_second) == Approx(prediction->input.needed_samples_per_second));
  // All of the server: as many samples/s as its loader makes, 24 workers of 8 GPUs, each with a core to itself.
  CHECK(answer->policies[0].throughput.in(per_second) == Approx(*prediction->input.samples_per_second).epsilon(0.01));
  CHECK(answer->jobs[0].samples == 1281167);
}

// Five cores; a second one doubles a's 10 samples/s, each further one gives b half of its first 1,000. By fair shares
// (one core each) a core is worth 1 to a and 0.5 to b, by full speed 0.5 and 0.2, by samples 10 and 500.
TEST_CASE("shared loaders: a note says what the first epoch would read", "[unit][shared_loaders]") {
  const auto note = [](const std::string& server, const std::string& more) {
    const auto answer = shared("server: {" + server + "}\njobs:\n  - {name: a, model: resnet18, dataset: imagenet, " +
                               "gpus: 8, epochs: 3, set: {precision: fp16" + more + "}}\n");
    REQUIRE(answer);
    const auto found = std::find_if(answer->notes.begin(), answer->notes.end(),
                                    [](const std::string& one) { return one.starts_with("no first epoch"); });
    return found == answer->notes.end() ? std::string() : *found;
  };
  const auto imagenet = catalog().dataset("imagenet").value();
  CHECK_THAT(
      note("node: p3.16xlarge, storage_bandwidth: 262.3 MB/s", ""),
      Contains("ResNet-18 " + to_text(imagenet->size() / gigabytes_per_second(0.2623))) && Contains("at full speed"));
  CHECK(note("node: p3.16xlarge, storage: lustre, storage_bandwidth: 100 GB/s", "").empty());
  CHECK(note("node: p3.16xlarge, storage_bandwidth: 262.3 MB/s", ", input.epoch: first").empty());
  CHECK(note("node: p3.16xlarge, storage_bandwidth: 262.3 MB/s", ", input.cache: none").empty());
}

TEST_CASE("shared loaders: what a sample is worth", "[unit][shared_loaders]") {
  const auto cores_of_a = [](const std::string& objective) {
    const auto answer =
        shared("server: {node: c4140-4xv100, cores: 5}\npolicies: [optimal]\nobjective: " + objective + R"(
jobs:
  - {name: a, samples_per_s: {1: 10, 2: 20}, time: 10 s}
  - {name: b, samples_per_s: {1: 1000, 2: 1500, 3: 2000, 4: 2500}, time: 1000 s}
)");
    REQUIRE(answer);
    CHECK_FALSE(answer->policies[0].throughput_gain);
    return answer->policies[0].times.stretches.front().cores;
  };
  CHECK(cores_of_a("fair-share") == 2);
  CHECK(cores_of_a("full-speed") == 2);
  CHECK(cores_of_a("samples") == 1);
}

TEST_CASE("shared loaders: draws", "[unit][shared_loaders]") {
  io::JobsDraw draw;
  draw.jobs = 20000;
  draw.seed = 5;
  draw.per_hour = 9;
  draw.gpus = {{1, 70}, {8, 30}};
  draw.shortest = seconds(600);
  draw.longest = hours(10);
  draw.kinds.resize(2);
  draw.kinds[0].name = "a";
  draw.kinds[1].name = "b";
  draw.kinds[1].weight = 3;
  const auto jobs = whatif::drawn_jobs(draw);
  double b = 0;
  double single = 0;
  double logs = 0;
  for (const io::JobEntry& job : jobs) {
    b += job.name.starts_with("b") ? 1 : 0;
    single += job.gpus == 1 ? 1 : 0;
    logs += std::log(job.time->in(seconds));
    REQUIRE(*job.time >= draw.shortest * 0.999);
    REQUIRE(*job.time <= draw.longest * 1.001);
  }
  // Means of 20,000 draws, within five of their standard deviations.
  CHECK(jobs.back().arrival.in(hours) == Approx(20000.0 / 9).epsilon(5 / std::sqrt(20000)));
  CHECK(b / 20000 == Approx(0.75).margin(5 * 0.433 / std::sqrt(20000)));
  CHECK(single / 20000 == Approx(0.70).margin(5 * 0.458 / std::sqrt(20000)));
  CHECK(logs / 20000 == Approx((std::log(600) + std::log(36000)) / 2).margin(5 * 1.18 / std::sqrt(20000)));
  draw.jobs = 10;
  const auto fewer = whatif::drawn_jobs(draw);
  CHECK(fewer.back().arrival == jobs[9].arrival);
  CHECK(fewer.back().name == jobs[9].name);
  draw.seed = 6;
  CHECK(whatif::drawn_jobs(draw).back().arrival != fewer.back().arrival);
}

TEST_CASE("shared loaders: a job gets no more workers than it may have", "[unit][shared_loaders]") {
  // Alone on twelve cores AlexNet would load 175/s; two workers load 66/s.
  const auto answer = shared(R"(
server: {node: c4140-4xv100, cores: 12, memory: 250 GB}
jobs:
  - {name: alexnet, samples_per_s: {1: 30, 2: 66, 3: 100, 4: 125, 5: 153, 6: 175}, samples: 66000, most_workers: 2}
)");
  REQUIRE(answer);
  for (const answer::LoaderPolicy& policy : answer->policies) CHECK(policy.makespan.in(seconds) == Approx(1000));
}

TEST_CASE("shared loaders: the shipped files answer", "[unit][shared_loaders]") {
  for (const std::string name : {"synergy", "one_server", "One-Server"}) {
    const auto file = whatif::load_jobs(catalog(), name);
    REQUIRE(file);
    const auto answer = whatif::share_loaders(catalog(), *file);
    REQUIRE(answer);
    CHECK(of(*answer, "optimal").throughput_gain.value() > 0);
    for (const answer::LoaderPolicy& policy : answer->policies) {
      CHECK(policy.full_speed <= 1 + 1e-9);
      CHECK(policy.gpu_idle >= 0);
    }
  }
  const auto unknown = whatif::load_jobs(catalog(), "sinergy");
  REQUIRE_FALSE(unknown);
  CHECK_THAT(to_string(unknown.error()), Contains("did you mean 'synergy'"));
}

TEST_CASE("shared loaders: servers and jobs that do not go together", "[unit][shared_loaders]") {
  const auto with = [](const std::string& server, const std::string& job) {
    return "server: {" + server + "}\njobs:\n  - {name: a, " + job + "}\n";
  };
  const std::string rates = "samples_per_s: {1: 5}, samples: 10";
  const std::string model = "model: resnet18, dataset: imagenet, epochs: 1";
  CHECK_THAT(fault(with("node: dgx1", rates)), Contains("jobs.yaml:1:") && Contains("dgx1-v100"));
  CHECK_THAT(fault(with("node: dgx-b200", rates)), Contains("how many cores") && Contains("cores: 24"));
  CHECK_THAT(fault(with("node: dgx1-v100, cores: 7", rates)), Contains("7 cores for 8 GPUs"));
  CHECK_THAT(fault(with("node: dgx1-v100, cores: 41", rates)), Contains("jobs.yaml:1:") && Contains("which has 40"));
  CHECK_THAT(fault(with("node: dgx-b200, cores: 64, storage_bandwidth: 1 GB/s", rates)), Contains("what storage"));
  CHECK_THAT(fault(with("node: dgx-b200, cores: 64", model)), Contains("nobody says what processors"));
  CHECK_THAT(fault(with("node: dgx1-v100", rates + ", gpus: 9")),
             Contains("jobs.yaml:3:") && Contains("would never start"));
  CHECK_THAT(fault(with("node: dgx1-v100", rates + ", gpus: 16")), Contains("16 GPUs of 8"));
  CHECK_THAT(fault(with("node: dgx1-v100", "samples_per_s: {1: 5}, samples: 1e15")), Contains("over 100 years"));
  CHECK_THAT(fault(with("node: dgx1-v100", rates + ", arrival: 1e300 s")), Contains("arrives in over 100 years"));
  CHECK_THAT(fault(with("node: dgx1-v100", "samples_per_s: {1: 1e15}, samples: 1, arrival: 1e9 s")),
             Contains("no fault"));
  CHECK_THAT(fault(with("node: dgx1-v100", "samples_per_s: {1: 5}, epochs: 1")), Contains("how many samples an epoch"));
  CHECK_THAT(fault(with("node: dgx1-v100", "samples_per_s: {1: 5}, steps: 1")), Contains("what a step's batch is"));
  CHECK_THAT(fault(with("node: dgx1-v100", rates + ", batch: 1, most_workers: 11")),
             Contains("11 workers for 10 batches"));
  CHECK_THAT(fault(with("node: dgx1-v100", "model: resnet18, dataset: kits19, batch: 64, most_workers: 8, epochs: 1")),
             Contains("8 workers for a GPU, which has 2 batches"));
  CHECK_THAT(fault(with("node: dgx1-v100", "model: resnet18, dataset: imagenet-22k, epochs: 1")), Contains("no fault"));
  CHECK_THAT(fault(with("node: dgx1-v100, storage: tiny.yaml", model)), Contains("tiny.yaml"));
  CHECK_THAT(fault(with("node: dgx1-v100", "model: resnet81, dataset: imagenet, epochs: 1")),
             Contains("jobs.yaml:3:") && Contains("resnet18"));
  CHECK_THAT(fault(with("node: dgx1-v100", model + ", set: {precison: fp16}")),
             Contains("jobs.yaml:3:") && Contains("precision"));
  CHECK_THAT(
      fault(with("node: dgx1-v100, memory: 80 GB", "samples: 5, samples_per_s: [{memory: 62.5 GB, workers: {1: 5}}]")),
      Contains("its share of a server is 10 GB"));
  CHECK_THAT(fault("server: {node: dgx1-v100}\npolicies: [evn]\njobs: [{name: a, " + rates + "}]\n"),
             Contains("jobs.yaml:2:") && Contains("unknown policy 'evn'") && Contains("even"));
}

TEST_CASE("shared loaders: the trace has every stretch on its job's track", "[unit][shared_loaders]") {
  const auto answer = shared(kMeasured);
  REQUIRE(answer);
  const auto trace = report::trace_of(*answer);
  REQUIRE(trace);
  CHECK(trace->tracks.size() == 16);
  CHECK(trace->tracks[0].process == "even, server 1");
  CHECK(trace->tracks[0].name == "alexnet");
  CHECK(trace->slices.front().name == "3 cores, 100 samples/s");
  CHECK_THAT(report::chrome_trace(*trace), Contains("\"dur\":1000000000.000000"));
  auto late = *answer;
  late.policies[0].times.jobs[0].end = hours(3000);
  const auto refused = report::trace_of(late);
  REQUIRE_FALSE(refused);
  CHECK_THAT(to_string(refused.error()), Contains("106 days"));
}
