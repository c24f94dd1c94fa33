// What a prediction says of the CPU that launches its kernels.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;

namespace {

bool has_note(const answer::Prediction& prediction, const std::string& start) {
  return std::any_of(prediction.notes.begin(), prediction.notes.end(),
                     [&](const std::string& note) { return note.starts_with(start); });
}

}  // namespace

TEST_CASE("predict: nobody knows the host: the interval reaches from a fast one to a slow one", "[unit][whatif]") {
  const auto asked = [](const char* batch, std::vector<Override> more = {}) {
    std::vector<Override> all{
        {"model", "vit_base", {}}, {"node", "p5.4xlarge", {}}, {"precision", "fp16", {}}, {"batch", batch, {}}};
    all.insert(all.end(), more.begin(), more.end());
    return predict(resolve(catalog(), all).value()).value();
  };
  const answer::Prediction open = asked("1");
  const answer::Prediction fast = asked("1", {{"launch_interval", "10 us", {}}});
  const answer::Prediction slow = asked("1", {{"launch_interval", "60 us", {}}});
  CHECK(open.interval_90.first <= fast.step_time);
  CHECK(open.interval_90.second == slow.step_time);
  CHECK(has_note(open, "launches: the CPU is taken to leave"));
  // Stated, or without a CPU between kernels, it is no question; nor where the GPU is busy whatever the host.
  const answer::Prediction stated = asked("1", {{"launch_interval", "20 us", {}}});
  CHECK(stated.step_time == open.step_time);
  CHECK(stated.interval_90.second < open.interval_90.second);
  CHECK_FALSE(has_note(stated, "launches:"));
  CHECK_FALSE(has_note(asked("1", {{"cuda_graphs", "yes", {}}}), "launches:"));
  CHECK_FALSE(has_note(asked("256"), "launches:"));
}
