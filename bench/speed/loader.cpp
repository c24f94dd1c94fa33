// Speed of `loader`, by Google Benchmark: 10,000 jobs of Synergy's mix on 1,000 servers of 8 GPUs, busy most of the
// time; an item is a whole run of one policy, from the draw to its summary.
#include <benchmark/benchmark.h>
#include <string>

#include "catalog.h"
#include "ddlsim/whatif/shared_loaders.h"

namespace {

using namespace ddlsim;

void shared(benchmark::State& state, const char* policy) {
  const io::Catalog& catalog = test::learnt_catalog();
  io::JobsFile file = whatif::load_jobs(catalog, "synergy").value();
  file.server.nodes = 1000;
  file.draw->jobs = 10'000;
  file.draw->per_hour = 1500;
  file.policies = {{policy, {}}};
  double idle = 0;
  for (auto _ : state) {
    const auto answer = whatif::share_loaders(catalog, file);
    if (!answer) {
      state.SkipWithError(answer.error().message.c_str());
      return;
    }
    idle = answer->policies.front().gpu_idle;
  }
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("GPUs idle: " + std::to_string(idle));
}
BENCHMARK_CAPTURE(shared, even, "even")
    ->Name("loader, 10,000 jobs on 1,000 servers, even")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(shared, marginal, "a-dloader")
    ->Name("loader, 10,000 jobs on 1,000 servers, a-dloader")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(shared, exact, "optimal")
    ->Name("loader, 10,000 jobs on 1,000 servers, optimal")
    ->Unit(benchmark::kMillisecond);

}  // namespace
