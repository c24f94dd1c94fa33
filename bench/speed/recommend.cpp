// Speed of `recommend`, by Google Benchmark: all instances of the catalogue on 1 to 64 servers, files read before; an
// item is a whole recommendation of over 500 choices.
#include <benchmark/benchmark.h>
#include <string>

#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/recommend.h"

namespace {

using namespace ddlsim;

void recommended(benchmark::State& state, bool predict_all) {
  const io::Catalog& catalog = test::learnt_catalog();
  const std::vector<whatif::Override> settings{{"model", "resnet50", {}},
                                               {"precision", "fp16", {}},
                                               {"global_batch", "1024", {}},
                                               {"training.samples", "1281167", {}},
                                               {"training.epochs", "90", {}}};
  const whatif::RecommendOptions options{.max_nodes = 64, .predict_all = predict_all};
  double choices = 0;
  for (auto _ : state) {
    const auto result = whatif::recommend(catalog, settings, options);
    if (!result || result->compared < 500) {
      state.SkipWithError("fewer than 500 choices");
      return;
    }
    choices = static_cast<double>(result->compared);
  }
  state.SetItemsProcessed(state.iterations());
  // A label: as CSV a counter must be in every benchmark.
  state.SetLabel(std::to_string(static_cast<int>(choices)) + " choices");
}
BENCHMARK_CAPTURE(recommended, best, false)
    ->Name("recommend, ResNet-50, over 500 choices of servers, the best of them predicted")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(recommended, all, true)
    ->Name("recommend, ResNet-50, over 500 choices of servers, all of them predicted")
    ->Unit(benchmark::kMillisecond);

}  // namespace
