// Speed of what-ifs of a million GPUs beside the same of a thousand, by Google Benchmark, files read before: what is
// folded costs the same at any size, so the ratio of two rows is about one. A what-if is two settings resolved and
// predicted, analytic, and compared.
#include <benchmark/benchmark.h>

#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/compare.h"

namespace {

using namespace ddlsim;
using whatif::Override;

void asked(benchmark::State& state, std::vector<Override> job, const char* nodes) {
  job.push_back({"node", "dgx-h100", {}});
  job.push_back({"nodes", nodes, {}});
  job.push_back({"network.oversubscription", "2", {}});
  const std::vector<whatif::Change> changes{{.name = {}, .overrides = {{"network.oversubscription", "7", {}}}}};
  for (auto _ : state) {
    const auto answer = whatif::compare(test::learnt_catalog(), job, changes);
    if (!answer) {
      state.SkipWithError("no answer");
      return;
    }
    benchmark::DoNotOptimize(answer->alternatives.front().speedup);
  }
  state.SetItemsProcessed(state.iterations());
}

const std::vector<Override> kAllReduce{{"model", "resnet50", {}}, {"strategy", "allreduce", {}}};
const std::vector<Override> kServers{{"model", "resnet50", {}}, {"strategy", "ps", {}}};
const std::vector<Override> kThreeD{
    {"model", "llama_3_1_70b", {}},     {"precision", "bf16", {}},      {"batch", "1", {}},
    {"parallel.tensor", "8", {}},       {"parallel.pipeline", "4", {}}, {"parallel.zero", "1", {}},
    {"strategy.accumulation", "32", {}}};

BENCHMARK_CAPTURE(asked, all_reduce_small, kAllReduce, "128")->Name("what-if of 1,024 GPUs, ResNet-50, all-reduce");
BENCHMARK_CAPTURE(asked, all_reduce, kAllReduce, "125000")->Name("what-if of 1,000,000 GPUs, ResNet-50, all-reduce");
BENCHMARK_CAPTURE(asked, servers_small, kServers, "128")->Name("what-if of 1,024 GPUs, ResNet-50, PS/Worker");
BENCHMARK_CAPTURE(asked, servers, kServers, "125000")->Name("what-if of 1,000,000 GPUs, ResNet-50, PS/Worker");
BENCHMARK_CAPTURE(asked, three_d_small, kThreeD, "128")
    ->Name("what-if of 1,024 GPUs, Llama 3.1 70B, tensor 8 x pipeline 4 x data");
BENCHMARK_CAPTURE(asked, three_d, kThreeD, "125000")
    ->Name("what-if of 1,000,000 GPUs, Llama 3.1 70B, tensor 8 x pipeline 4 x data");

}  // namespace
