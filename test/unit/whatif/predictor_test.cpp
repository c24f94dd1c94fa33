// What a Predictor kept, of plans and of prices, answers for its own question and for no other.
#include "ddlsim/whatif/predictor.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

using namespace ddlsim;
using namespace ddlsim::whatif;
using ddlsim::test::catalog;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

Scenario scenario(const std::vector<Override>& changes) {
  const std::vector<Override> settings = joined(overrides("model bert_base; node dgx1-v100; nodes 2"), changes);
  return resolve(catalog(), settings).value();
}

/// Each changes what one GPU's kernels take, one thing at a time.
const std::vector<std::vector<Override>> kChanges{
    {},
    overrides("model bert_large"),
    overrides("batch 7"),
    overrides("precision fp16"),
    overrides("gpu v100-pcie-16gb"),
    overrides("gpu.peak.fp32 14 TFLOP/s"),
    overrides("gpu.memory_bandwidth 800 GB/s"),
    overrides("gpu.calibration t4"),
    overrides("gpu.calibration none"),
    overrides("gpu.calibration none; efficiency.compute 50 %"),
    overrides("gpu.calibration none; efficiency.memory 50 %"),
    overrides("efficiency.compute 70 %"),
    overrides("fusion pointwise"),
    overrides("fusion attention"),
    overrides("strategy.accumulation 4"),
    overrides("parallel.tensor 2"),
    overrides("parallel.pipeline 2"),
    overrides("parallel.zero 1"),
    overrides("parallel.zero 1; nodes 4"),
};

void check_all(Predictor& predictor) {
  for (const std::vector<Override>& changes : kChanges) {
    CAPTURE(changes.empty() ? std::string("nothing") : changes.back().path + " " + changes.back().value);
    const Scenario asked = scenario(changes);
    const answer::Prediction alone = predict(asked).value();
    CHECK(predictor.step_time(asked).value() == alone.step_time);
    const answer::Prediction kept = predictor.predict(asked).value();
    CHECK(kept.step_time == alone.step_time);
    CHECK(kept.interval_90 == alone.interval_90);
    CHECK(kept.hfu == alone.hfu);
    CHECK(kept.memory_per_gpu == alone.memory_per_gpu);
  }
}

}  // namespace

TEST_CASE("predictor: what was kept never answers for another question", "[unit][whatif]") {
  Predictor predictor;
  check_all(predictor);  // each beside all that were asked before
  check_all(predictor);  // all of them kept
}

TEST_CASE("predictor: nor does what was kept for any setting, of any kind of network", "[unit][whatif]") {
  // Beside the settings' own examples: values that differ from a default here, and what an effect needs.
  const std::vector<std::vector<Override>> more{
      overrides("software.year 2018"),
      overrides("software.layout channels-last; precision fp16"),
      overrides("software.layout channels-first; precision fp16"),
      overrides("cuda_graphs yes; gpu.time_factor 2"),
  };
  for (const char* model : {"resnet50", "maskrcnn_resnet50_fpn", "gnmt", "gpt2"}) {
    const std::vector<Override> base = overrides("model {}; node dgx1-v100", model);
    Predictor predictor;
    REQUIRE(predictor.step_time(resolve(catalog(), base).value()));
    std::size_t asked = 0;
    const auto check = [&](const std::vector<Override>& changes) {
      std::vector<Override> settings = base;
      settings = joined(settings, changes);
      const auto changed = resolve(catalog(), settings);
      if (!changed) return;  // what another setting must allow
      const auto alone = predict(*changed);
      const auto kept = predictor.step_time(*changed);
      CAPTURE(model, changes.front().path, changes.front().value);
      REQUIRE(alone.has_value() == kept.has_value());
      if (!alone) return;
      ++asked;
      CHECK(*kept == alone->step_time);
      const auto whole = predictor.predict(*changed);
      CHECK(whole->memory_per_gpu == alone->memory_per_gpu);
      CHECK(whole->interval_90 == alone->interval_90);
    };
    for (const SettingInfo& setting : settings()) {
      if (setting.path == "model" || setting.path == "node") continue;
      check({{setting.path, setting.example, {}}});
    }
    for (const std::vector<Override>& changes : more) check(changes);
    CHECK(asked > 60);
  }
}

TEST_CASE("predictor: more questions than are kept", "[unit][whatif]") {
  Predictor predictor;
  const auto at = [](std::size_t batch) { return scenario(overrides("batch {}", batch)); };
  for (std::size_t batch = 1; batch <= Predictor::kKept + 4; ++batch) REQUIRE(predictor.step_time(at(batch)));
  for (const std::size_t batch : {std::size_t{1}, Predictor::kKept, Predictor::kKept + 4}) {
    CHECK(predictor.step_time(at(batch)).value() == predict(at(batch)).value().step_time);
  }
}

TEST_CASE("predictor: errors are those of predict", "[unit][whatif]") {
  Predictor predictor;
  const Scenario pearl = scenario(overrides("strategy pearl; fidelity analytic"));
  REQUIRE_FALSE(predictor.step_time(pearl));
  CHECK(predictor.step_time(pearl).error().message == predict(pearl).error().message);
  CHECK(predictor.predict(pearl).error().message == predict(pearl).error().message);
  const std::vector<std::vector<Override>> refused{
      overrides("efficiency.network 1e-14"),
      overrides("failures.mtbf_gpu 50000 h"),
      overrides("failures.mtbf_gpu 50000 h; training.steps 1000"),
      overrides("training.steps 1e13"),
      overrides("batch 4294967296; efficiency.compute 1e-6"),
  };
  for (const std::vector<Override>& changes : refused) {
    const Scenario asked = scenario(changes);
    CAPTURE(changes.front().path);
    REQUIRE_FALSE(predict(asked));
    REQUIRE_FALSE(predictor.step_time(asked));
    REQUIRE_FALSE(predictor.outline(asked));
    CHECK(predictor.step_time(asked).error().message == predict(asked).error().message);
    CHECK(predictor.outline(asked).error().message == predict(asked).error().message);
  }
  const Scenario run =
      scenario(overrides("failures.mtbf_gpu 50000 h; checkpoint.bandwidth 10 GB/s; training.steps 1000"));
  CHECK(predictor.step_time(run).value() == predict(run).value().step_time);
}
