// No plan is faster, or smaller, than the search's bounds of it say: what would make it dismiss the best.
#include "plan_bound.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/predict.h"
#include "plan_memory.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;

namespace {

/// Every so many-th plan of a job's whole space.
void check_bounds(const std::vector<Override>& settings, std::size_t every) {
  const auto space = PlanSpace::create(catalog(), settings, {});
  if (!space) FAIL(to_string(space.error()));
  PlanTools tools(space->base());
  PlanBounds bounds(*space, tools);
  PlanMemory memories(*space, tools);
  std::size_t number = 0;
  std::size_t compared = 0;
  for (const PlanFamily& family : space->families()) {
    for (const Split& split : space->members(family)) {
      if (number++ % every != 0) continue;
      const auto prediction = predict(space->with(split));
      if (!prediction) continue;
      ++compared;
      const Time step = prediction->step_time;
      const Time bound = max(bounds.by_kernels(split, family.shape), bounds.with_exchange(split, family.shape));
      const DataSize memory = memories.of(split, family.shape);
      std::string plan;
      for (const auto& [path, value] : space->settings_of(split)) plan += path + " " + value + "  ";
      INFO(memory.in(bytes)-prediction->memory_per_gpu.in(bytes)
           << " bytes: " << plan << to_text(bound) << " of " << to_text(step) << ", " << to_text(memory) << " of "
           << to_text(prediction->memory_per_gpu));
      CHECK(bound <= step);
      CHECK(bounds.by_mean(split, family.shape) <= bound * (1 + 1e-9));
      CHECK(memory <= prediction->memory_per_gpu);
    }
  }
  CHECK(compared > 100);
}

}  // namespace

TEST_CASE("plan bounds: no plan is faster or smaller", "[unit][whatif]") {
  const std::vector<Override> gpt2{{"model", "gpt2", {}}, {"node", "dgx-a100", {}}, {"global_batch", "32", {}}};
  const auto with = [&](std::vector<Override> more) {
    std::vector<Override> all = gpt2;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  check_bounds(gpt2, 7);
  check_bounds(with({{"gpus_per_node", "2", {}}, {"nodes", "4", {}}, {"network", "25 Gb/s", {}}}), 11);
  check_bounds(with({{"gpus_per_node", "4", {}}, {"overlap", "none", {}}}), 5);
  check_bounds(with({{"gpus_per_node", "4", {}}, {"parallel.overlap_gather", "yes", {}}}), 5);
  check_bounds(with({{"gpus_per_node", "6", {}}, {"global_batch", "36", {}}}), 5);
}

TEST_CASE("plan bounds: of models with experts, and of such without attention", "[unit][whatif]") {
  check_bounds(
      {{"model", "mixtral_8x7b", {}}, {"node", "dgx-h100", {}}, {"gpus_per_node", "4", {}}, {"global_batch", "16", {}}},
      29);
  check_bounds({{"model", "resnet50", {}}, {"node", "dgx-a100", {}}, {"global_batch", "64", {}}}, 1);
}
