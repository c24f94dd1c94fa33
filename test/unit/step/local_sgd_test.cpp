#include "ddlsim/step/local_sgd.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string_view>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"
#include "unit/step/setting.h"
#include "unit/whatif/asked.h"

using namespace ddlsim;
using Catch::Matchers::Contains;
using ddlsim::test::catalog;
using ddlsim::test::one_per_tensor;
using ddlsim::test::overrides;
using ddlsim::test::Setting;
using ddlsim::test::two_layers;

namespace {

answer::Timeline line(std::int64_t every, Setting setting = {}) {
  setting.fabric = test::two_gpus();
  if (every > 1) setting.overlap = plan::Overlap::kNone;
  cost::PricedStep step = test::priced(two_layers(), one_per_tensor(), setting);
  plan::StepPlan plan = *step.plan;
  plan.exchange.sync_every = every;
  step.plan = std::make_shared<const plan::StepPlan>(std::move(plan));
  return step::schedule(step, answer::Detail::kParts).value();
}

std::vector<whatif::Override> job(std::vector<whatif::Override> more) {
  std::vector<whatif::Override> settings = overrides("model resnet50; node dgx1-v100; nodes 4; network 25 Gb/s");
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

answer::Prediction predicted(std::vector<whatif::Override> more) {
  return whatif::predict(whatif::resolve(catalog(), job(std::move(more))).value()).value();
}

std::string refused(std::vector<whatif::Override> more) { return test::refused(job(std::move(more))); }

}  // namespace

TEST_CASE("local SGD: the mean step of a period, by hand", "[unit][step]") {
  CHECK(line(1).step.in(milliseconds) == Approx(17));  // gradients beside backward
  CHECK(line(2).step.in(milliseconds) == Approx(9 + 10.0 / 2));
  CHECK(line(5).step.in(milliseconds) == Approx(9 + 10.0 / 5));
  CHECK(line(5).parts.communication_exposed.in(milliseconds) == Approx(2));
  CHECK(line(5).parts.communication.in(milliseconds) == Approx(2));
  CHECK(line(5).parts.step().in(milliseconds) == Approx(11));
  Time path;
  for (const answer::Segment& segment : line(5).critical_path) path += segment.time;
  CHECK(path.in(milliseconds) == Approx(11));
}

TEST_CASE("local SGD: n steps by oneself vary sqrt(n) times as much as one", "[unit][step]") {
  // A wait of 10 % of the 9 ms pass in a synchronous step: 0.9 ms; 0.9 sqrt(4) / 4 of every fourth.
  CHECK(line(4, {.wait = 0.1}).waiting.in(milliseconds) == Approx(0.9 / 2));
  CHECK(line(4, {.wait = 0.1}).step.in(milliseconds) == Approx(9 + 10.0 / 4 + 0.45));
}

TEST_CASE("local SGD: rarer averages are never slower, and send less", "[unit][step]") {
  const auto second = predicted(overrides("strategy.sync_every 2"));
  const auto tenth = predicted(overrides("strategy.sync_every 10"));
  CHECK(tenth.step_time < second.step_time);
  CHECK(tenth.traffic.front().bytes.in(bytes) == Approx(second.traffic.front().bytes.in(bytes) / 5));
  CHECK(second.traffic.front().bytes.in(bytes) == Approx(2 * 31.0 / 32 * 4 * 25'557'032.0 / 2));
  // In the limit nothing is sent.
  const auto never = predicted(overrides("strategy.sync_every 1000000"));
  CHECK(never.breakdown.communication_exposed.in(milliseconds) < 1e-3);
  CHECK(predicted(overrides("strategy.sync_every 1")).step_time == predicted({}).step_time);
}

TEST_CASE("local SGD: the events say what the recurrence says", "[unit][events]") {
  const auto both = [](const char* every, const char* fidelity) {
    return predicted(overrides("strategy.sync_every {}; fidelity {}", every, fidelity)).step_time.in(seconds);
  };
  for (const char* every : {"2", "8"}) CHECK(both(every, "event") == Approx(both(every, "analytic")).epsilon(1e-8));
}

TEST_CASE("local SGD: replicas that split nothing compute again, adapt and keep as they like", "[unit][step]") {
  const auto predict_with = [](std::vector<whatif::Override> more, const char* every,
                               const char* fidelity = "analytic") {
    std::vector<whatif::Override> settings = overrides(
        "model gpt2; node dgx1-v100; nodes 2; network 25 Gb/s; batch 2; strategy.accumulation 2; fidelity {}; "
        "strategy.sync_every {}",
        fidelity, every);
    settings.insert(settings.end(), more.begin(), more.end());
    return whatif::predict(whatif::resolve(catalog(), settings).value()).value();
  };
  for (const auto& [path, value] : {std::pair("parallel.recompute", "full"),
                                    {"parallel.recompute", "selective"},
                                    {"parallel.states", "mixed-16"},
                                    {"parallel.lora_rank", "16"},
                                    {"parallel.offload_activations", "yes"}}) {
    INFO(path << " " << value);
    std::vector<whatif::Override> one{{path, value, {}}};
    if (std::string_view(value) == "mixed-16") one.push_back({"precision", "fp16", {}});
    const answer::Prediction fourth = predict_with(one, "4");
    std::vector<whatif::Override> beside_nothing = one;
    beside_nothing.push_back({"overlap", "none", {}});
    const answer::Prediction each = predict_with(beside_nothing, "1");
    // What is sent is sent once in four steps, beside nothing; what goes to the host goes in every step.
    CHECK(fourth.breakdown.communication_exposed.in(seconds) <
          each.breakdown.communication_exposed.in(seconds) * (1 + 1e-9));
    const Time sent = predict_with(one, "4").step_time - predict_with(one, "8").step_time;
    CHECK(sent > Time::zero());
    CHECK(fourth.breakdown.compute.in(seconds) == Approx(each.breakdown.compute.in(seconds)));
    CHECK(fourth.memory_per_gpu == each.memory_per_gpu);
    CHECK(predict_with(one, "4", "event").step_time.in(seconds) == Approx(fourth.step_time.in(seconds)).epsilon(1e-8));
  }
}

TEST_CASE("local SGD: what it does not go with is refused", "[unit][plan]") {
  CHECK_THAT(refused(overrides("strategy.sync_every 4; strategy ps")), Contains("use strategy allreduce"));
  CHECK_THAT(refused(overrides("strategy.sync_every 4; parallel.zero 1")), Contains("whole states"));
  CHECK_THAT(refused(overrides("strategy.sync_every 4; parallel.pipeline 2")),
             Contains("several GPUs that train by themselves are not modelled"));
  CHECK_THAT(refused(overrides("strategy.sync_every 4; parallel.offload_optimizer yes")), Contains("the host updates"));
  CHECK_THAT(refused(overrides("strategy.sync_every 4; strategy.compression sign")), Contains("compression"));
  CHECK_THAT(refused(overrides("strategy.sync_every 4; overlap backward")), Contains("leave overlap out"));
  CHECK_THAT(refused(overrides("strategy.sync_every 4; jobs 2")), Contains("local SGD beside other jobs"));
  CHECK_THAT(refused(overrides("strategy.sync_every 0")), Contains("strategy.sync_every"));
}
