// Speed of sweeps, by Google Benchmark, files read before; an item is a point, or a row of a file. Threads are compared
// in one run: the ratio of two rows is what two of them gain.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/io/result_store.h"
#include "ddlsim/report/sweep.h"
#include "ddlsim/whatif/sweep.h"

namespace {

using namespace ddlsim;
using answer::SweepDetail;

/// 1,000 node counts x 100 networks of ResNet-50.
whatif::Grid points() {
  whatif::GridParts parts{
      .base = {{"model", "resnet50", {}}, {"node", "dgx1-v100", {}}}, .axes = {}, .where = {}, .sample = {}};
  for (const auto& [path, range] : {std::pair("nodes", "1..1000:+1"), std::pair("network", "1..100:+1 Gb/s")}) {
    whatif::Axis axis{.paths = {path}, .steps = {}, .where = {}};
    const auto values = whatif::range_of(range);
    for (const std::string& value : values.value()) axis.steps.push_back({value});
    parts.axes.push_back(std::move(axis));
  }
  return whatif::Grid::create(std::move(parts)).value();
}

void swept(benchmark::State& state, SweepDetail detail, int threads) {
  const io::Catalog& catalog = test::learnt_catalog();
  const whatif::Grid grid = points();
  std::int64_t rows = 0;
  const auto take = [&](std::span<const answer::SweepRow> some, const whatif::SweepProgress&) -> Expected<void> {
    rows += static_cast<std::int64_t>(some.size());
    return {};
  };
  for (auto _ : state) {
    const auto done =
        whatif::sweep(catalog, grid, {.detail = detail, .threads = threads, .shard = {}, .after = {}}, take);
    if (!done) state.SkipWithError("the sweep failed");
  }
  state.SetItemsProcessed(rows);
}
BENCHMARK_CAPTURE(swept, time_1, SweepDetail::kTime, 1)
    ->Name("sweep of nodes and networks, time alone, points, 1 thread")
    ->UseRealTime();
BENCHMARK_CAPTURE(swept, time_2, SweepDetail::kTime, 2)
    ->Name("sweep of nodes and networks, time alone, points, 2 threads")
    ->UseRealTime();
BENCHMARK_CAPTURE(swept, full_1, SweepDetail::kFull, 1)
    ->Name("sweep of nodes and networks, whole predictions, points, 1 thread")
    ->UseRealTime();
BENCHMARK_CAPTURE(swept, full_2, SweepDetail::kFull, 2)
    ->Name("sweep of nodes and networks, whole predictions, points, 2 threads")
    ->UseRealTime();

/// 100,000 rows of step times into a new file.
void stored(benchmark::State& state) {
  const auto path = std::filesystem::temp_directory_path() / ("ddlsim_bench_" + std::to_string(::getpid()) + ".db");
  const std::vector<std::string> paths{"nodes", "network"};
  const io::ResultRun run{.program = "bench",
                          .grid = {},
                          .grid_hash = {},
                          .data_hash = {},
                          .detail = "time",
                          .settings = {},
                          .columns = report::sweep_columns(paths, SweepDetail::kTime),
                          .extras = {}};
  constexpr std::int64_t kRows = 100'000;
  answer::SweepRow row{.point = 0, .values = {"128", "100 Gb/s"}, .answer = answer::SweepAnswer{}, .why = {}};
  for (auto _ : state) {
    std::filesystem::remove(path);
    auto store = io::ResultStore::open(path.string(), run);
    for (row.point = 0; store && row.point < kRows; ++row.point) {
      row.answer->step = milliseconds(static_cast<double>(row.point) + 0.1);
      if (!store->add(report::sweep_cells(row, SweepDetail::kTime))) state.SkipWithError("not written");
      if (!store->commit_when_due()) state.SkipWithError("not written");
    }
    if (!store || !store->finish()) state.SkipWithError("not written");
  }
  std::filesystem::remove(path);
  state.SetItemsProcessed(state.iterations() * kRows);
}
BENCHMARK(stored)->Name("rows of a sweep into SQLite")->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
