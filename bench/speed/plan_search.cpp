// Speed of the search over plans, by Google Benchmark: a whole search, files read before; an item is a plan.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/plan_search.h"

namespace {

using namespace ddlsim;

void searched(benchmark::State& state, const char* model, const char* node, const char* nodes, const char* batch) {
  const io::Catalog& catalog = test::learnt_catalog();
  const std::vector<whatif::Override> settings{
      {"model", model, {}}, {"node", node, {}}, {"nodes", nodes, {}}, {"global_batch", batch, {}}};
  std::int64_t plans = 0;
  for (auto _ : state) {
    const auto choice =
        whatif::search_plans(catalog, settings, {.next = 0, .explain = false}, [] { return Time::zero(); });
    if (!choice) {
      state.SkipWithError("no plan");
      return;
    }
    plans += choice->searched;
  }
  state.SetItemsProcessed(plans);
}
BENCHMARK_CAPTURE(searched, gpt3, "gpt3_175b", "dgx-a100-80gb", "128", "1536")
    ->Name("plans searched, GPT-3 175B on 1,024 GPUs")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(searched, llama, "llama_3_1_70b", "dgx-h100", "8", "1024")
    ->Name("plans searched, Llama 3.1 70B on 64 GPUs, the whole space")
    ->Unit(benchmark::kMillisecond);

}  // namespace
