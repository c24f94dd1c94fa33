// What a prediction's shares are of: scaling efficiency, MFU and HFU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "overrides.h"
#include "unit/whatif/asked.h"

using namespace ddlsim;
using ddlsim::test::asked;
using namespace ddlsim::whatif;
using ddlsim::test::overrides;

TEST_CASE("predict: HFU below MFU has its reason", "[unit][whatif]") {
  const auto said = [](const char* model, const char* node) {
    const auto p = asked(overrides("model {}; node {}", model, node));
    std::string note;
    for (const std::string& one : p.notes) note += one.find("HFU is below") == 0 ? one : "";
    CHECK(note.empty() == (p.hfu >= 0.995 * p.mfu));
    return note;
  };
  CHECK_THAT(said("resnet50", "dgx1-v100"), Catch::Contains("no kernel executes") && Catch::Contains("Winograd"));
  // No Winograd on tensor cores; the first of AlexNet's layers has a tenth of its FLOPs.
  const std::string input_alone = said("alexnet", "dgx-h100");
  CHECK_THAT(input_alone, Catch::Contains("gradient of the model's input") && !Catch::Contains("Winograd"));
  CHECK(said("bert_large", "dgx-h100").empty());
}

TEST_CASE("predict: one GPU that experts' ranks are compared with has a replica's part of them", "[unit][whatif]") {
  const auto with = [](const std::string& batch, const std::string& imbalance) {
    return asked(
        overrides("model deepseek-v3; node dgx-h100; nodes 32; precision fp8; parallel.expert 64; parallel.pipeline 4; "
                  "parallel.zero 1; parallel.expert_imbalance {}; global_batch {}",
                  imbalance, batch));
  };
  double before = 0;
  for (const char* batch : {"64", "256", "2048", "8192"}) {
    const auto p = with(batch, "1");
    INFO(batch);
    // No more than the share of a step in which a GPU does not wait, whatever the passes; a pass has little of its own.
    const answer::Breakdown& parts = p.breakdown;
    const double works = (parts.compute + parts.memory + parts.launch) / p.step_time;
    CHECK(p.scaling_efficiency < works * 1.1);
    CHECK(p.scaling_efficiency > works * 0.7);
    CHECK(p.scaling_efficiency > before);
    before = p.scaling_efficiency;
  }
  // Experts that wait for the busiest are a loss.
  CHECK(with("2048", "1.5").scaling_efficiency < with("2048", "1").scaling_efficiency);
}

TEST_CASE("predict: experts of a model with adapters count what is trained of them, and no row that is dropped",
          "[unit][whatif]") {
  const auto mixtral = [](const char* setting, const char* value) {
    return asked(overrides(
        "model mixtral_8x7b; node dgx-h100; batch 1; parallel.expert 8; parallel.lora_rank 16; {} {}", setting, value));
  };
  const auto all = mixtral("parallel.expert_imbalance", "1");
  const auto half = mixtral("parallel.expert_capacity", "0.5");
  CHECK(half.model_work < all.model_work * 0.7);
  CHECK(half.hfu == Approx(half.mfu).epsilon(0.05));
  // One rank has half as many rows again; all of them have as many as before.
  const auto uneven = mixtral("parallel.expert_imbalance", "1.5");
  CHECK(uneven.model_work == all.model_work);
  CHECK(uneven.hfu / uneven.mfu == Approx(all.hfu / all.mfu).epsilon(0.01));
  // Adapters on all products leave experts out, and say so.
  const auto says = [](const answer::Prediction& prediction) {
    return std::any_of(prediction.notes.begin(), prediction.notes.end(),
                       [](const std::string& note) { return note.find("leaves routed experts") != std::string::npos; });
  };
  CHECK(says(mixtral("parallel.lora_products", "all")));
  CHECK_FALSE(says(all));
}
