// What a job's own runs say of a step that waits for its input.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/step/input_wait.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/find.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/predictor.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using whatif::Override;
using whatif::Scenario;

namespace {

/// Two servers, each of whose volumes gives its 512 images of a step, of 114,660 bytes, in 224 ms.
std::vector<Override> reading(std::vector<Override> more = {}) {
  std::vector<Override> settings{{"model", "resnet50", {}},
                                 {"node", "p3.16xlarge", {}},
                                 {"nodes", "2", {}},
                                 {"batch", "64", {}},
                                 {"input.dataset", "imagenet", {}}};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

Scenario resolved(const std::vector<Override>& settings) { return whatif::resolve(catalog(), settings).value(); }

/// The job as it ran, from memory or storage; its runs speak for the one that reads from storage.
answer::Prediction from_storage(const Scenario& measured) {
  Scenario cold = measured;
  cold.input.epoch.set(plan::Epoch::kFirst);
  return whatif::predict(cold).value();
}

void check_sums(const answer::Prediction& p) {
  CHECK(p.breakdown.step() / p.step_time == Approx(1).epsilon(1e-9));
  Time path;
  for (const answer::Segment& one : p.critical_path) path += one.time;
  CHECK(path / p.step_time == Approx(1).epsilon(1e-9));
}

}  // namespace

TEST_CASE("input wait: the worked example of the header", "[unit][step]") {
  cost::PricedStep step;
  step.pinned = true;
  step.loader = cost::BatchPipeline{.storage = milliseconds(224), .workers = 4};
  CHECK(step::input_wait(step, {}, milliseconds(300), 1).exposed == Time::zero());
  CHECK(step::input_wait(step, {}, milliseconds(200), 1).exposed.in(milliseconds) == Approx(24));
}

TEST_CASE("own runs: a measured step that is longer does not slow down the loader", "[unit][whatif]") {
  const Time none = whatif::predict(resolved(reading())).value().step_time;
  const Time loading = from_storage(resolved(reading())).step_time;
  REQUIRE(loading > none);  // it waits for storage
  const auto asked = [&](Time step) {
    const Scenario job = resolved(reading({{"measured.step", to_exact_text(step), {}}}));
    const auto warm = whatif::predict(job).value();
    CHECK(warm.step_time / step == Approx(1).epsilon(1e-9));
    check_sums(warm);
    const auto cold = from_storage(job);
    check_sums(cold);
    whatif::Predictor predictor;
    Scenario first = job;
    first.input.epoch.set(plan::Epoch::kFirst);
    CHECK(predictor.step_time(first).value() / cold.step_time == Approx(1).epsilon(1e-9));
    CHECK(predictor.outline(first).value().step / cold.step_time == Approx(1).epsilon(1e-9));
    return cold;
  };
  // Of a step that takes longer than storage nothing is a wait for it.
  const auto slow = asked(loading * 1.3);
  CHECK(slow.step_time / (loading * 1.3) == Approx(1).epsilon(1e-3));
  CHECK(slow.breakdown.input_exposed / slow.step_time < 1e-3);
  CHECK(slow.bottleneck != "storage");
  // Of one that takes less storage is the bound, as it is without runs.
  const auto quick = asked(none * 1.02);
  CHECK(quick.step_time / loading == Approx(1).epsilon(1e-3));
  CHECK(quick.bottleneck == "storage");
}

TEST_CASE("own runs: a run that waited for its input is met, and nothing of it counted twice", "[unit][whatif]") {
  const Time loading = from_storage(resolved(reading())).step_time;
  const Time none = whatif::predict(resolved(reading())).value().step_time;
  const auto asked = [](Time step) {
    const Scenario job = resolved(reading({{"input.epoch", "first", {}}, {"measured.step", to_exact_text(step), {}}}));
    const auto cold = whatif::predict(job).value();
    CHECK(cold.step_time / step == Approx(1).epsilon(1e-9));
    check_sums(cold);
    Scenario memory = job;
    memory.input.epoch.set(plan::Epoch::kLater);
    return whatif::predict(memory).value();
  };
  // It took what its storage takes, or less: that says of the rest no more than of storage.
  for (const double share : {0.95, 1.0, 1.01}) CHECK(asked(loading * share).step_time / (none * share) == Approx(1));
  // Longer than storage takes: no storage is waited for, and faster storage gives nothing.
  CHECK(asked(loading * 1.2).step_time / (loading * 1.2) == Approx(1));
}

TEST_CASE("own runs: the storage that a measured step needs is what its samples take", "[unit][whatif]") {
  const auto answer =
      whatif::find(catalog(), reading({{"measured.steps", "2x8@64 = 400 ms", {}}, {"input.epoch", "first", {}}}),
                   "input.storage.bandwidth", whatif::parse_condition("step_time <= 410 ms").value())
          .value();
  REQUIRE(answer.value);
  // 512 images of 114,660 bytes in 410 ms, on each server.
  CHECK(*answer.value == Approx(512 * 114'660 / 0.41).epsilon(0.01));
}

TEST_CASE("own runs: how fast the loader is stays as open as without them", "[unit][whatif]") {
  const Scenario stated = resolved(reading());
  const answer::Prediction none = from_storage(stated);
  const Time warm = whatif::predict(stated).value().step_time;
  const answer::Prediction cold = from_storage(resolved(reading({{"measured.step", to_exact_text(warm), {}}})));
  REQUIRE(cold.breakdown.input_exposed > Time::zero());
  CHECK(cold.interval_90.second / cold.step_time >= none.interval_90.second / none.step_time * (1 - 1e-6));
  // A faster loader leaves the rest of the step.
  CHECK(cold.interval_90.first < warm);
}
