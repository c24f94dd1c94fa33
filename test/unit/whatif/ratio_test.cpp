#include "ddlsim/whatif/ratio.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/compare.h"
#include "ddlsim/whatif/own_runs.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::joined;
using ddlsim::test::learnt_catalog;
using ddlsim::test::overrides;
using whatif::Override;

namespace {

whatif::Scenario job(const std::vector<Override>& more = {}) {
  const std::vector<Override> settings =
      joined(overrides("model resnet50; node dgx1-v100; nodes 4; network 25 Gb/s"), more);
  return whatif::resolve(learnt_catalog(), settings).value();
}

/// ln of the interval's end over the speedup, in deviations of a normal distribution.
double deviation(const whatif::RatioEstimate& ratio, double speedup) {
  CHECK(ratio.interval_90.first * ratio.interval_90.second == Approx(speedup * speedup));
  return std::log(ratio.interval_90.second / speedup) / 1.645;
}

}  // namespace

/// s_g: what GPU time may be off by.
double of_gpu_time(const whatif::Scenario& one) {
  const auto* ends = one.software->ends_of(hardware::QuestionKind::kOneGpu);
  return std::log(ends->high / ends->low) / 3.29;
}

TEST_CASE("ratio: its worked example", "[unit][whatif]") {
  const whatif::Scenario before = job();
  const whatif::Scenario after = job(overrides("network 50 Gb/s"));
  const double gpu = of_gpu_time(before);
  CHECK(gpu == Approx(0.243).epsilon(0.01));
  const auto ratio = whatif::ratio_of({&before, 0.5}, {&after, 0.4}, 1.25);
  CHECK(deviation(ratio, 1.25) == Approx(0.1 * std::hypot(0.21, gpu)));
  CHECK(ratio.interval_90.first == Approx(1.186).epsilon(0.003));
  CHECK(ratio.interval_90.second == Approx(1.318).epsilon(0.003));
  CHECK(ratio.faster > 0.99);
  CHECK(whatif::ratio_of({&before, 0.5}, {&after, 0.4}, 0.8).faster < 0.01);
}

TEST_CASE("ratio: what has no effect is known for certain", "[unit][whatif]") {
  const whatif::Scenario one = job();
  const auto ratio = whatif::ratio_of({&one, 0.3}, {&one, 0.3}, 1);
  CHECK(ratio.interval_90 == std::pair(1.0, 1.0));
  CHECK(ratio.faster == 0);
  CHECK(whatif::ratio_of({&one, 0.3}, {&one, 0.3}, 1.01).faster == 1);
}

TEST_CASE("ratio: what differs beside counts adds its spread", "[unit][whatif]") {
  const whatif::Scenario before = job();
  const auto spread = [&](hardware::ChangeKind kind) {
    for (const hardware::ChangeSpread& one : before.software->changes) {
      if (one.change == kind) return one.deviation;
    }
    return 0.0;
  };
  const auto with = [&](const whatif::Scenario& after) {
    return deviation(whatif::ratio_of({&before, 0}, {&after, 0}, 2), 2);
  };
  using hardware::ChangeKind;
  CHECK(spread(ChangeKind::kGpu) > 0.1);
  CHECK(with(job(overrides("gpu a100-sxm4-40gb"))) == Approx(spread(ChangeKind::kGpu)));
  CHECK(with(job(overrides("precision fp16"))) == Approx(spread(ChangeKind::kPrecision)));
  CHECK(with(job(overrides("strategy ps"))) == Approx(spread(ChangeKind::kStrategy)));
  // The same sum by another library or framework.
  CHECK(with(job(overrides("strategy horovod"))) == Approx(0.075));
  CHECK(with(job(overrides("strategy pytorch-ddp"))) == 0);  // what the job has, under another name
  CHECK(with(job(overrides("collective.library mpi"))) == Approx(0.075));
  CHECK(with(job(overrides("gpu a100-sxm4-40gb; precision fp16"))) ==
        Approx(std::hypot(spread(ChangeKind::kGpu), spread(ChangeKind::kPrecision))));
  CHECK(with(job(overrides("model vgg16"))) == Approx(spread(ChangeKind::kGpu)));
  // Other code of the same kernels is no better known; with another GPU it goes along.
  for (const auto& [path, value] : {std::pair("software.fused", "yes"),
                                    {"software.year", "2019"},
                                    {"software", "none"},
                                    {"software.layout", "channels-first"},
                                    {"software.operators", "composed"},
                                    {"fusion", "pointwise"}}) {
    INFO(path);
    CHECK(with(job({{path, value, {}}})) == Approx(spread(ChangeKind::kPrecision)));
  }
  CHECK(with(job(overrides("gpu a100-sxm4-40gb; fusion pointwise"))) == Approx(spread(ChangeKind::kGpu)));
  // Kernels change what they take of the step.
  const whatif::Scenario other = job(overrides("gpu a100-sxm4-40gb"));
  CHECK(deviation(whatif::ratio_of({&before, 0.75}, {&other, 0.75}, 2), 2) == Approx(spread(ChangeKind::kGpu) / 4));
  // More servers, and nothing is changed but they.
  CHECK(with(job(overrides("nodes 16"))) > 0.05);
  CHECK(with(job(overrides("nodes 16"))) > with(job(overrides("nodes 8"))));
}

TEST_CASE("ratio: of splits that keep their kernels nearly all cancels", "[unit][whatif]") {
  const auto llama = [](const std::vector<Override>& more) {
    const std::vector<Override> settings =
        joined(overrides("model llama_3_1_8b; node dgx-h100; nodes 2; batch 1; precision bf16"), more);
    return whatif::resolve(learnt_catalog(), settings).value();
  };
  const whatif::Scenario full = llama(overrides("parallel.zero 3; parallel.recompute full"));
  const whatif::Scenario none = llama(overrides("parallel.zero 3"));
  // Kernels that are left out: no slower, and off by s_g beside the rest (the header's example).
  const double gpu = of_gpu_time(full);
  const auto less = whatif::ratio_of({&full, 0}, {&none, 0}, 1.27);
  CHECK(deviation(less, 1.27) == Approx(gpu * std::log(1.27)));
  CHECK(less.interval_90.first == Approx(1.27 / std::exp(1.645 * 0.0543)).epsilon(0.01));
  CHECK(less.faster == 1);
  // However little of the step is kernels, and the other way round.
  CHECK(whatif::ratio_of({&full, 0.5}, {&none, 0.1}, 1.05).interval_90.first == 1);
  const auto more = whatif::ratio_of({&none, 0.1}, {&full, 0.5}, 1 / 1.05);
  CHECK(more.interval_90.second == 1);
  CHECK(more.faster == 0);
  // The same kernels around another exchange: by what is sent, hidden or not.
  const whatif::Scenario second = llama(overrides("parallel.zero 2"));
  CHECK(deviation(whatif::ratio_of({&none, 0, 0.15}, {&second, 0, 0.11}, 1.01), 1.01) == Approx(0.21 * 0.04));
  // Adapters change which kernels run: a third of what other code leaves open.
  const whatif::Scenario lora = llama(overrides("parallel.zero 3; parallel.lora_rank 16"));
  const auto precision =
      std::find_if(full.software->changes.begin(), full.software->changes.end(), [](const auto& one) {
        return one.change == hardware::ChangeKind::kPrecision;
      })->deviation;
  CHECK(deviation(whatif::ratio_of({&none, 0}, {&lora, 0}, 1.2), 1.2) == Approx(precision / 3));
  // Tensor ranks have other kernels.
  const whatif::Scenario tensor = llama(overrides("parallel.zero 3; parallel.tensor 2"));
  CHECK(deviation(whatif::ratio_of({&none, 0}, {&tensor, 0}, 1.1), 1.1) > 0.2);
}

TEST_CASE("ratio: measured runs of both sides narrow it", "[unit][whatif]") {
  const std::vector<Override> base = overrides("model resnet50; node dgx1-v100; network 25 Gb/s; nodes 1");
  const std::vector<whatif::Change> changes{{{}, overrides("nodes 8")}};
  const auto alone = whatif::compare(learnt_catalog(), base, changes).value().alternatives.front();
  CHECK(alone.speedup_interval_90.first < alone.speedup);
  CHECK(alone.speedup < alone.speedup_interval_90.second);
  CHECK(alone.probability_faster > 0.99);
  const whatif::Scenario before = whatif::resolve(learnt_catalog(), base).value();
  std::vector<Override> eight = base;
  eight.back().value = "8";
  const whatif::Scenario after = whatif::resolve(learnt_catalog(), eight).value();
  const std::vector<whatif::OwnRun> ran{{before, milliseconds(250)}, {after, milliseconds(330)}};
  const auto runs = whatif::OwnRuns::learn(ran).value();
  const whatif::Scenario first = whatif::corrected(before, runs);
  const whatif::Scenario second = whatif::corrected(after, runs);
  const double narrow = deviation(whatif::ratio_of({&first, 0}, {&second, 0.3}, 6), 6);
  // What corrects one side alone makes it less sure.
  CHECK(deviation(whatif::ratio_of({&before, 0}, {&first, 0}, 2), 2) == Approx(of_gpu_time(before)).epsilon(0.01));
  CHECK(narrow < deviation(whatif::ratio_of({&before, 0}, {&after, 0.3}, 6), 6));
}

TEST_CASE("ratio: the probability of staying below a limit follows each half of the interval", "[unit][whatif]") {
  const std::pair<double, double> interval{80, 150};
  CHECK(whatif::probability_below(100, 100, interval) == Approx(0.5));
  CHECK(whatif::probability_below(150, 100, interval) == Approx(0.95).epsilon(1e-3));
  CHECK(whatif::probability_below(80, 100, interval) == Approx(0.05).epsilon(1e-2));
  CHECK(whatif::bound_with(0.95, 100, interval) == Approx(150).epsilon(1e-3));
  CHECK(whatif::bound_with(0.05, 100, interval) == Approx(80).epsilon(1e-3));
  CHECK(whatif::bound_with(0.5, 100, interval) == Approx(100));
  CHECK(whatif::probability_below(90, 100, {100, 100}) == 0);
  CHECK(whatif::probability_below(110, 100, {100, 100}) == 1);
}

TEST_CASE("ratio: more of the same network makes nothing slower", "[unit][whatif]") {
  const auto on = [](const char* network, const char* precision) {
    return whatif::resolve(
               learnt_catalog(),
               overrides("model resnet50; node p3.16xlarge; nodes 4; precision {}; network {}", precision, network))
        .value();
  };
  const whatif::Scenario before = on("25 Gb/s", "fp16");
  const whatif::Scenario wider = on("50 Gb/s", "fp16");
  const whatif::RatioEstimate more = whatif::ratio_of({&before, 0.3}, {&wider, 0.05}, 1.1);
  CHECK(more.interval_90.first == 1);
  CHECK(more.faster == 1);
  // A file of one's own is read for each of both.
  whatif::Scenario again = wider;
  again.model = std::make_shared<const workload::Model>(*wider.model);
  CHECK(whatif::ratio_of({&before, 0.3}, {&again, 0.05}, 1.1).faster == 1);
  workload::Model larger = *wider.model;
  larger.totals.dense_parameters += 1'000'000;
  again.model = std::make_shared<const workload::Model>(std::move(larger));
  CHECK(whatif::ratio_of({&before, 0.3}, {&again, 0.05}, 1.1).faster < 1);
  const whatif::Scenario other = on("50 Gb/s", "fp32");
  CHECK(whatif::ratio_of({&before, 0.3}, {&other, 0.05}, 1.1).interval_90.first < 1);
}

TEST_CASE("ratio: states on the host leave kernels as they are", "[unit][whatif]") {
  const auto with = [](const std::string& offload) {
    return whatif::resolve(
               learnt_catalog(),
               overrides(
                   "model llama_2_13b; node dgx-a100-80gb; nodes 2; parallel.zero 3; parallel.offload_optimizer {}",
                   offload))
        .value();
  };
  const whatif::Scenario before = with("yes");
  const whatif::Scenario after = with("no");
  // What the host takes may be half or twice of that.
  const double host = std::log(2.0) / 1.645 * std::log(1.1);
  const auto ratio = whatif::ratio_of({&before, 0.09}, {&after, 0.01}, 1.1);
  CHECK(deviation(ratio, 1.1) >= host);
  CHECK(ratio.interval_90.first > 1);
  CHECK(ratio.interval_90.second < 1.25);
}
