// Our own speed, by Google Benchmark. `bench/speed/run` prints it as the table of the README.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <vector>

#include "catalog.h"
#include "ddlsim/cost/pai.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/whatif/compare.h"
#include "ddlsim/whatif/fleet.h"
#include "ddlsim/whatif/population.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/predictor.h"

extern char** environ;

namespace {

using namespace ddlsim;

std::vector<whatif::Override> job() {
  return {{"model", "resnet50", {}}, {"node", "dgx1-v100", {}}, {"nodes", "4", {}}, {"network", "25 Gb/s", {}}};
}

void aggregate_batch(benchmark::State& state) {
  const auto population = test::learnt_catalog().population("pai_2019").value();
  std::vector<cost::PaiJob> jobs;
  for (std::uint64_t i = 0; i < 4096; ++i) jobs.push_back(whatif::draw_job(population, 1, i));
  std::vector<cost::PaiStep> steps(jobs.size());
  const cost::PaiSetting setting{.peak = teraflops_per_second(11),
                                 .memory = terabytes_per_second(1),
                                 .pcie = gigabytes_per_second(10),
                                 .nvlink = gigabytes_per_second(50),
                                 .network = gigabits_per_second(25),
                                 .efficiency = {}};
  for (auto _ : state) {
    cost::pai_steps(jobs, setting, steps);
    benchmark::DoNotOptimize(steps.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(jobs.size()));
}
BENCHMARK(aggregate_batch)->Name("aggregate predictions in a batch call");

void analytic(benchmark::State& state, const char* model, const char* strategy, const char* nodes) {
  std::vector<whatif::Override> settings = job();
  settings.push_back({"model", model, {}});
  settings.push_back({"strategy", strategy, {}});
  settings.push_back({"nodes", nodes, {}});
  const whatif::Scenario scenario = whatif::resolve(test::learnt_catalog(), settings).value();
  for (auto _ : state) benchmark::DoNotOptimize(whatif::predict(scenario));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(analytic, allreduce, "resnet50", "allreduce", "128")
    ->Name("analytic prediction, ResNet-50, all-reduce, 1,024 GPUs");
BENCHMARK_CAPTURE(analytic, ps, "resnet50", "ps", "128")->Name("analytic prediction, ResNet-50, PS/Worker, 1,024 GPUs");

/// The step time alone, prices kept.
void time_alone(benchmark::State& state, const char* strategy) {
  std::vector<whatif::Override> settings = job();
  settings.push_back({"strategy", strategy, {}});
  settings.push_back({"nodes", "128", {}});
  const whatif::Scenario scenario = whatif::resolve(test::learnt_catalog(), settings).value();
  whatif::Predictor predictor;
  for (auto _ : state) benchmark::DoNotOptimize(predictor.step_time(scenario));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(time_alone, allreduce, "allreduce")
    ->Name("step time alone, prices known, ResNet-50, all-reduce, 1,024 GPUs");
BENCHMARK_CAPTURE(time_alone, ps, "ps")->Name("step time alone, prices known, ResNet-50, PS/Worker, 1,024 GPUs");

void kept(benchmark::State& state, const char* strategy) {
  std::vector<whatif::Override> settings = job();
  settings.push_back({"strategy", strategy, {}});
  settings.push_back({"nodes", "128", {}});
  const whatif::Scenario scenario = whatif::resolve(test::learnt_catalog(), settings).value();
  whatif::Predictor predictor;
  for (auto _ : state) benchmark::DoNotOptimize(predictor.predict(scenario));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(kept, allreduce, "allreduce")
    ->Name("analytic prediction, prices known, ResNet-50, all-reduce, 1,024 GPUs");
BENCHMARK_CAPTURE(kept, ps, "ps")->Name("analytic prediction, prices known, ResNet-50, PS/Worker, 1,024 GPUs");

/// What a Predictor keeps.
void layers_priced(benchmark::State& state) {
  const whatif::Scenario scenario = whatif::resolve(test::learnt_catalog(), job()).value();
  const plan::StepPlan plan = plan::lower(scenario).value();
  for (auto _ : state) benchmark::DoNotOptimize(cost::price_layers(scenario, plan, {0.5, 2}));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(layers_priced)->Name("pricing the layers of ResNet-50, by profile");

void what_would_help(benchmark::State& state) {
  const auto settings = job();
  for (auto _ : state) benchmark::DoNotOptimize(whatif::what_would_help(test::learnt_catalog(), settings));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(what_would_help)->Name("what-if without a change, files read before");

BENCHMARK_CAPTURE(analytic, bert, "bert_large", "allreduce", "4")
    ->Name("analytic prediction, BERT-Large, all-reduce, 32 GPUs");

void collective(benchmark::State& state) {
  const auto cluster = whatif::resolve(test::learnt_catalog(), job()).value();
  const auto model = cost::CollectiveModel::create(cost::communicator_of(cluster)).value();
  double size = 8;
  for (auto _ : state) {
    benchmark::DoNotOptimize(model.cost(primitives::CollectiveOp::kAllReduce, bytes(size)));
    size = size < 1e9 ? size * 2 : 8;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(collective)->Name("cost of one all-reduce, NCCL");

void resolve_scenario(benchmark::State& state) {
  const auto settings = job();
  for (auto _ : state) benchmark::DoNotOptimize(whatif::resolve(test::learnt_catalog(), settings));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(resolve_scenario)->Name("resolving a scenario, files read before");

/// A million jobs, so that what a fleet begins with does not count.
void fleet_study(benchmark::State& state, bool draw, bool what_if) {
  constexpr std::int64_t kJobs = 1'000'000;
  std::vector<cost::PaiJob> jobs(1000);
  const auto population = test::learnt_catalog().population("pai_2019").value();
  const auto setting = test::learnt_catalog().setting(population.setting).value();
  const whatif::JobDrawer drawer(population, 1);
  drawer.draw(0, jobs);
  for (auto _ : state) {
    whatif::Fleet fleet(setting, what_if);
    for (std::int64_t i = 0; i < kJobs; i += std::ssize(jobs)) {
      if (draw) drawer.draw(static_cast<std::uint64_t>(i), jobs);
      fleet.add(jobs);
    }
    benchmark::DoNotOptimize(fleet.report(&population));
  }
  state.SetItemsProcessed(state.iterations() * kJobs);
}
BENCHMARK_CAPTURE(fleet_study, base, false, false)
    ->Name("fleet jobs, aggregate model without changes, exact sums")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fleet_study, drawn, true, false)
    ->Name("fleet jobs drawn, and the same")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fleet_study, changes, true, true)
    ->Name("fleet jobs drawn and put through every change")
    ->Unit(benchmark::kMillisecond);

#ifdef DDLSIM_LAUNCHER
void whole_process(benchmark::State& state) {
  std::array<const char*, 8> arguments{DDLSIM_LAUNCHER, "predict",   "--model", "resnet50",
                                       "--node",        "dgx1-v100", "--json",  nullptr};
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
  for (auto _ : state) {
    pid_t child = 0;
    int status = 0;
    const int started =
        posix_spawn(&child, DDLSIM_LAUNCHER, &quiet, nullptr, const_cast<char* const*>(arguments.data()), environ);
    if (started != 0 || waitpid(child, &status, 0) != child || status != 0) {
      state.SkipWithError("the launcher failed");
      break;
    }
  }
  posix_spawn_file_actions_destroy(&quiet);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(whole_process)->Name("./ddlsim predict, whole process")->UseRealTime()->Unit(benchmark::kMillisecond);
#endif

}  // namespace

BENCHMARK_MAIN();
