#include "ddlsim/whatif/elasticity.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "catalog.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::learnt_catalog;
using namespace ddlsim::whatif;
using ddlsim::test::overrides;

namespace {

answer::Sensitivity of(const std::vector<Override>& settings) {
  return elasticities(learnt_catalog(), settings).value();
}

double elasticity_of(const answer::Sensitivity& all, std::string_view setting) {
  for (const answer::Elasticity& one : all.elasticities) {
    if (one.setting == setting) return one.elasticity;
  }
  return 0;
}

double sum_of(const answer::Sensitivity& all, std::string_view role) {
  double sum = 0;
  for (const answer::Elasticity& one : all.elasticities) sum += one.role == role ? one.elasticity : 0;
  return sum;
}

/// Whole-step totals: every part of the step is a size over a rate.
const std::vector<Override> kTotals = overrides("model pai_resnet50; node dgx1-v100; nodes 4; strategy ps");

}  // namespace

TEST_CASE("elasticity: of totals each rate has its share of the step", "[unit][elasticity]") {
  const auto all = of(kTotals);
  const auto& p = all.baseline;
  // T = input / pcie + FLOPs / peak + bytes / memory + weights / network, no two at once (cost/pai.h).
  const Time step = p.step_time;
  CHECK(elasticity_of(all, "gpu.peak.fp32") == Approx(-(p.breakdown.compute / step)).margin(1e-4));
  CHECK(elasticity_of(all, "gpu.memory_bandwidth") == Approx(-(p.breakdown.memory / step)).margin(1e-4));
  for (const answer::Elasticity& one : all.elasticities) {
    if (one.setting != "gpu.peak.fp32") continue;
    CHECK(one.doubled.in(seconds) == Approx((step - p.breakdown.compute * 0.5).in(seconds)));
    CHECK(one.halved.in(seconds) == Approx((step + p.breakdown.compute).in(seconds)));
  }
  CHECK(sum_of(all, "rate") == Approx(-1).margin(1e-4));
  CHECK(all.own_constants == Approx(0).margin(1e-4));
}

TEST_CASE("elasticity: what bounds a step is the rate that takes most of it away", "[unit][elasticity]") {
  // Factors of arithmetic and memory differ, one way in TF32, the other in fp16 on Volta. GPT-2's products along 50,257
  // words run beside fp16's units on Volta, and by curves that hang on neither rate.
  struct Job {
    const char* node;
    const char* precision;
    const char* model;
    const char* calibration;
  };
  const auto jobs = std::to_array<Job>({{"dgx-a100", "tf32", "gpt2", "none"},
                                        {"dgx-a100", "tf32", "resnet50", "none"},
                                        {"dgx-a100", "tf32", "resnet50", "auto"},
                                        {"dgx-a100", "tf32", "t5_base", "auto"},
                                        {"dgx-a100", "bf16", "gpt2", "auto"},
                                        {"dgx1-v100", "fp16", "gpt2", "none"},
                                        {"dgx1-v100", "fp16", "resnet50", "none"},
                                        {"dgx1-v100", "fp16", "resnet50", "auto"},
                                        {"dgx1-v100", "fp16", "vgg16", "auto"}});
  for (const Job& job : jobs) {
    const auto all =
        of(overrides("model {}; node {}; gpus_per_node 1; precision {}; batch 16; cuda_graphs yes; gpu.calibration {}",
                     job.model, job.node, job.precision, job.calibration));
    const auto& parts = all.baseline.breakdown;
    const double peak = elasticity_of(all, std::string("gpu.peak.") + job.precision);
    const double memory = elasticity_of(all, "gpu.memory_bandwidth");
    INFO(job.model << " in " << job.precision << ", calibration " << job.calibration << ": " << peak << ", " << memory);
    CHECK((peak < memory) == (parts.compute > parts.memory));
  }
}

TEST_CASE("elasticity: a job that the network alone bounds answers to it one to one", "[unit][elasticity]") {
  auto bound = kTotals;
  for (const char* path : {"model.memory_access", "model.input"}) bound.push_back({path, "1 B", {}});
  bound.push_back({"model.flops", "1 FLOP", {}});
  bound.push_back({"model.weight_traffic", "50 GB", {}});
  bound.push_back({"network", "1 Gb/s", {}});
  const auto all = of(bound);
  // 50 GB at 70 % of 125 MB/s are 571 s, and about 1 % of that over PCIe.
  CHECK(elasticity_of(all, "network") == Approx(-1).margin(0.02));
  CHECK(elasticity_of(all, "model.weight_traffic") == Approx(1).margin(1e-4));
  CHECK(all.elasticities.front().elasticity == Approx(1).margin(0.01));
}

TEST_CASE("elasticity: the doubling law, layer by layer", "[unit][elasticity]") {
  // Servers, no profile: no constant of a library or a curve is in the step.
  const auto all =
      of(overrides("model vgg16; node dgx1-v100; nodes 2; strategy ps; gpu.calibration none; network 10 Gb/s"));
  CHECK(sum_of(all, "rate") - sum_of(all, "fixed time") == Approx(-1).margin(2e-3));
  CHECK(all.own_constants == Approx(0).margin(2e-3));
  CHECK(sum_of(all, "fixed time") > 0);
}

TEST_CASE("elasticity: what constants of NCCL and of gaps between small kernels take is left over",
          "[unit][elasticity]") {
  const auto all = of(overrides("model resnet50; node dgx1-v100; nodes 4"));
  CHECK(all.own_constants == Approx(-1 - sum_of(all, "rate") + sum_of(all, "fixed time")).margin(1e-12));
  CHECK(std::abs(all.own_constants) > 1e-6);
  CHECK(std::abs(all.own_constants) < 0.05);
}

TEST_CASE("elasticity: the tornado's ends are predictions", "[unit][elasticity]") {
  // Launches take no longer for what software takes of the GPU.
  const std::vector<Override> base = overrides("model resnet50; node dgx1-v100; gpus_per_node 1; cuda_graphs yes");
  const auto all = of(base);
  REQUIRE(all.swings.size() > 2);
  for (std::size_t i = 1; i < all.swings.size(); ++i) CHECK(all.swings[i - 1].width() >= all.swings[i].width());
  // One GPU, all GPU time: the step goes with exp of the effect that all have.
  const auto scenario = resolve(learnt_catalog(), base).value();
  for (const answer::Swing& one : all.swings) {
    if (one.name != "software, always") continue;
    for (const hardware::SoftwareEffect& effect : scenario.software->effects) {
      if (effect.feature != hardware::SoftwareFeature::kAlways) continue;
      CHECK(one.step_low / all.baseline.step_time == Approx(std::exp(effect.low - effect.effect)).epsilon(1e-6));
      CHECK(one.step_high / all.baseline.step_time == Approx(std::exp(effect.high - effect.effect)).epsilon(1e-6));
      CHECK(one.measured);
    }
    return;
  }
  FAIL("not in the tornado");
}

TEST_CASE("elasticity: of what moves the step in jumps it is the slope over them", "[unit][elasticity]") {
  // One piece more or less of VGG16's largest tensor moves the step by 0.02 %: over 0.01 % of the piece that was 1.9.
  std::vector<Override> servers = overrides("model vgg16; node dgx1-v100; nodes 4; strategy ps");
  CHECK(std::abs(elasticity_of(of(servers), "strategy.partition")) < 0.1);
  // A faster network lets other gradients just miss the coordinator's wake.
  std::vector<Override> cycles =
      overrides("model mobilenet_v2; node dgx1-v100; nodes 7; network 25 Gb/s; batch 32; strategy horovod-mpi");
  const auto all = of(cycles);
  for (const answer::Elasticity& one : all.elasticities) {
    INFO(one.setting);
    CHECK(std::abs(one.elasticity) <= 1);
    if (one.role == "rate") CHECK(one.elasticity < 0.1);
  }
}

TEST_CASE("elasticity: no part of a step is less sure than all of it", "[unit][elasticity]") {
  // Products of an H100 that were held out err from 0.72 to 4.7 times, small ones with large ones.
  for (const auto& model : {"llama_3_1_8b", "resnet50"}) {
    const auto all = of(overrides("model {}; node dgx-h100; nodes 2", model));
    const auto curves = std::find_if(all.swings.begin(), all.swings.end(),
                                     [](const auto& one) { return one.name == "curves of the GPU's profile"; });
    REQUIRE(curves != all.swings.end());
    CHECK(curves->step_low >= all.baseline.interval_90.first * 0.999);
    CHECK(curves->step_high <= all.baseline.interval_90.second * 1.001);
    CHECK(curves->step_high > all.baseline.step_time);
  }
}
