// What frameworks take on top of kernels, as a question sees it.
#include <fmt/core.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "catalog.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

using namespace ddlsim;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

std::vector<Override> resnet(std::vector<Override> more = {}) {
  return joined(overrides("model resnet50; node dgx1-v100; gpus_per_node 1"), more);
}

Scenario resolved(const std::vector<Override>& settings) { return resolve(test::learnt_catalog(), settings).value(); }

bool notes_have(const answer::Prediction& p, std::string_view part) {
  return std::any_of(p.notes.begin(), p.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

/// Gaps between small kernels are no factor that all kernels have.
Scenario without_gaps(Scenario scenario) {
  auto software = std::make_shared<hardware::SoftwareProfile>(*scenario.software);
  std::erase_if(software->effects,
                [](const auto& one) { return one.feature == hardware::SoftwareFeature::kSmallKernels; });
  scenario.software = std::move(software);
  return scenario;
}

}  // namespace

TEST_CASE("software: kernels take the factors of what they are bound by, and a note names both", "[unit][whatif]") {
  // Launches take no longer for it, so there are none to wait for.
  const Scenario learnt = without_gaps(resolved(resnet(overrides("cuda_graphs yes"))));
  const Scenario alone = resolved(resnet(overrides("software none; cuda_graphs yes")));
  REQUIRE(alone.software == nullptr);
  const auto with = predict(learnt).value();
  const auto kernels = predict(alone).value();
  const hardware::SoftwareFactor factor = plan::software_factor(learnt);
  CHECK(factor.memory < factor.compute);  // Volta
  // Arithmetic is dearer: of kernels that memory bounds it adds what it takes more (cost/layer_time.h).
  CHECK(with.breakdown.memory / kernels.breakdown.memory == Approx(factor.memory).epsilon(1e-9));
  CHECK(with.breakdown.compute > kernels.breakdown.compute * factor.compute);
  CHECK(with.breakdown.compute < kernels.breakdown.compute * (factor.compute * 1.05));
  CHECK(notes_have(with, fmt::format("x {:.2f} (kernels bound by memory {:.2f})", factor.compute, factor.memory)));
  CHECK(notes_have(with, "--set software=none"));
  CHECK(notes_have(predict(resolved(resnet({}))).value(), "small kernels up to"));
  CHECK_FALSE(notes_have(kernels, "--set software=none"));
}

TEST_CASE("software: fused convolutions of 16 bits join element-wise kernels, unless fusion is stated",
          "[unit][whatif]") {
  const Override half{"precision", "fp16", {}};
  const Override fused{"software.fused", "yes", {}};
  CHECK(resolved(resnet({half, fused})).fusion.pointwise);
  CHECK_FALSE(resolved(resnet({half})).fusion.pointwise);
  CHECK_FALSE(resolved(resnet({fused})).fusion.pointwise);  // fp32
  CHECK_FALSE(resolved(resnet({half, fused, {"fusion", "none", {}}})).fusion.pointwise);
}

TEST_CASE("software: a step that waits for launches takes no longer for it", "[unit][whatif]") {
  const Override slow{"launch_interval", "10 ms", {}};
  const auto with = predict(resolved(resnet({slow}))).value();
  const auto kernels = predict(resolved(resnet({slow, {"software", "none", {}}}))).value();
  CHECK(with.breakdown.launch > with.step_time * 0.9);
  CHECK(with.step_time / kernels.step_time == Approx(1).epsilon(1e-3));
}

TEST_CASE("software: an older release is no faster than what its year says", "[unit][whatif]") {
  const Scenario newest = without_gaps(resolved(resnet(overrides("cuda_graphs yes"))));
  const Scenario older = without_gaps(resolved(resnet(overrides("software.year 2019; cuda_graphs yes"))));
  const hardware::SoftwareFactor then = plan::software_factor(older);
  const hardware::SoftwareFactor now = plan::software_factor(newest);
  CHECK(then.compute > now.compute);
  const answer::Breakdown was = predict(older).value().breakdown;
  const answer::Breakdown is = predict(newest).value().breakdown;
  CHECK(was.compute / is.compute == Approx(then.compute / now.compute).epsilon(1e-9));
  CHECK(was.memory / is.memory == Approx(then.memory / now.memory).epsilon(1e-9));
}

TEST_CASE("software: the interval is the learnt ends of the kind of question", "[unit][whatif]") {
  const Scenario scenario = resolved(resnet());
  const auto* ends = scenario.software->ends_of(hardware::QuestionKind::kOneGpu);
  REQUIRE(ends != nullptr);
  const auto p = predict(scenario).value();
  CHECK(p.interval_90.first / p.step_time == Approx(ends->low));
  CHECK(p.interval_90.second / p.step_time == Approx(ends->high));
}

TEST_CASE("software: what it cannot be is refused", "[unit][whatif]") {
  const auto refused = [](const char* path, const char* value, const char* part) {
    const auto scenario = resolve(test::learnt_catalog(), resnet({{path, value, {}}}));
    REQUIRE_FALSE(scenario);
    CHECK(to_string(scenario.error()).find(part) != std::string::npos);
  };
  refused("software", "some", "valid: learnt, none");
  refused("software.year", "1999", "2010 to 2100");
  refused("software.year", "new", "new");
  refused("software.fused", "perhaps", "perhaps");
}

TEST_CASE("software: recurrent layers wait between steps as long as their library does", "[unit][whatif]") {
  const auto step = [](const char* path, const char* value) {
    const std::vector<Override> settings =
        overrides("model gnmt; node dgx1-v100; gpus_per_node 1; batch 256; software none; launch_interval 1 ns; {} {}",
                  path, value);
    return predict(resolved(settings))->step_time.in(microseconds);
  };
  // Four layers of 32 steps and one of two directions read, four of 32 write: forward and backward.
  constexpr double kSteps = 2 * 32 * (5 + 4);
  const double graphs = step("cuda_graphs", "yes");
  CHECK(step("software.year", "2019") - graphs == Approx(8 * kSteps).epsilon(1e-3));
  CHECK(step("software.year", "2018.9") - graphs == Approx(26 * kSteps).epsilon(1e-3));
  CHECK(step("software.year", "2026") == step("software.year", "2019"));
}

// An older kernel, asked on a GPU that came later, was refused.
TEST_CASE("software: a kernel of attention that nobody measured is as fast as the best, and a note says so",
          "[unit][whatif]") {
  const auto predicted_with = [](const std::string& kernel) {
    const std::vector<Override> job = overrides(
        "model llama_3_1_8b; node dgx-b200; batch 1; parallel.zero 3; precision bf16; software.attention {}", kernel);
    return predict(resolve(test::catalog(), job).value()).value();
  };
  const auto best = predicted_with("best");
  const auto flash = predicted_with("flash-1");
  CHECK(flash.step_time == best.step_time);
  const auto says = [](const auto& answer) {
    return std::any_of(answer.notes.begin(), answer.notes.end(),
                       [](const std::string& note) { return note.starts_with("software.attention: nobody measured"); });
  };
  CHECK(says(flash));
  CHECK_FALSE(says(best));
  // FlashAttention-2 was measured, and is slower; torchtitan takes another there.
  const auto flash_2 = predicted_with("flash-2");
  CHECK_FALSE(says(flash_2));
  CHECK(flash_2.step_time > best.step_time * 1.05);
  CHECK(predicted_with("sdpa").step_time == best.step_time);
}
