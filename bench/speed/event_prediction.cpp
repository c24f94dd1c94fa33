// Speed of the event fidelity, by Google Benchmark: a whole prediction, bottleneck and all, and one simulation of it.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"

namespace {

using namespace ddlsim;

whatif::Scenario scenario(const std::string& strategy, const std::string& jobs) {
  const io::Catalog& catalog = test::learnt_catalog();
  const std::vector<whatif::Override> settings{
      {"model", "resnet50", {}},  {"node", "dgx1-v100", {}},  {"nodes", "128", {}},
      {"network", "25 Gb/s", {}}, {"strategy", strategy, {}}, {"fidelity", "event", {}},
      {"straggler", "1.3", {}},   {"jobs", jobs, {}},         {"jobs.offset", "10 ms", {}}};
  return whatif::resolve(catalog, settings).value();
}

void simulated(benchmark::State& state, const char* strategy, const char* jobs) {
  const whatif::Scenario what = scenario(strategy, jobs);
  for (auto _ : state) benchmark::DoNotOptimize(whatif::simulate(what).value().step);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(simulated, allreduce, "allreduce", "1")
    ->Name("event simulation, ResNet-50, all-reduce, 1,024 GPUs, one slow");
BENCHMARK_CAPTURE(simulated, shared, "allreduce", "2")
    ->Name("event simulation, ResNet-50, all-reduce, two jobs of 1,024 GPUs");
BENCHMARK_CAPTURE(simulated, ps, "ps", "1")->Name("event simulation, ResNet-50, PS/Worker, 1,024 GPUs, one slow");

void predicted(benchmark::State& state) {
  const whatif::Scenario what = scenario("allreduce", "2");
  for (auto _ : state) benchmark::DoNotOptimize(whatif::predict(what));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(predicted)->Name("event prediction, ResNet-50, all-reduce, two jobs of 1,024 GPUs");

}  // namespace
