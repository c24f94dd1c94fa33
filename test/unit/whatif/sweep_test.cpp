// A sweep answers as predict does, to the bit, whatever threads and parts it is cut into.
#include "ddlsim/whatif/sweep.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "catalog.h"
#include "ddlsim/report/sweep.h"
#include "ddlsim/whatif/grid_settings.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::whatif;
using answer::SweepDetail;
using answer::SweepRow;
using ddlsim::test::overrides;

Grid grid_of_jobs(bool events) {
  const auto axis = [](const std::string& path, const std::vector<std::string>& values) {
    Axis made{.paths = {path}, .steps = {}, .where = {}};
    for (const std::string& value : values) made.steps.push_back({value});
    return made;
  };
  GridParts parts{.base = overrides("node dgx1-v100"),
                  .axes = {axis("model", {"resnet50", "alexnet", "pai_resnet50"}), axis("nodes", {"1", "2", "3", "64"}),
                           axis("network", {"10 Gb/s", "25 Gb/s", "infiniband-100g"}),
                           axis("batch", {"16", "64", "100000000"}), axis("strategy", {"ps", "allreduce", "horovod"})},
                  .where = {{"not (nodes == 3 and strategy == ps)", {}}},
                  .sample = {}};
  if (events) parts.axes.push_back(axis("straggler", {"1.5", "2"}));
  return Grid::create(std::move(parts)).value();
}

std::vector<SweepRow> rows_of(const Grid& grid, SweepOptions options) {
  std::vector<SweepRow> all;
  const auto take = [&](std::span<const SweepRow> rows, const SweepProgress&) -> Expected<void> {
    all.insert(all.end(), rows.begin(), rows.end());
    return {};
  };
  REQUIRE(sweep(test::learnt_catalog(), grid, options, take));
  return all;
}

/// Every bit of it, as the file of results has it.
std::string bytes_of(const std::vector<SweepRow>& rows, const Grid& grid, SweepDetail detail) {
  const auto columns = report::sweep_columns(grid.paths(), detail);
  std::string text;
  for (const SweepRow& row : rows)
    text += report::sweep_line(columns, report::sweep_cells(row, detail), report::Format::kCsv);
  return text;
}

}  // namespace

TEST_CASE("sweep: a few slow points make all pieces short", "[sweep]") {
  const auto length = [](const std::vector<std::string>& fidelities) {
    Axis fidelity{.paths = {"fidelity"}, .steps = {}, .where = {}};
    for (const std::string& one : fidelities) fidelity.steps.push_back({one});
    Axis nodes{.paths = {"nodes"}, .steps = {}, .where = {}};
    for (int n = 1; n <= 300; ++n) nodes.steps.push_back({std::to_string(n)});
    const Grid grid =
        Grid::create(
            {.base = overrides("model resnet50; node dgx1-v100"), .axes = {fidelity, nodes}, .where = {}, .sample = {}})
            .value();
    return SweepPieces(test::learnt_catalog(), grid,
                       {.detail = SweepDetail::kTime, .threads = 1, .shard = {}, .after = {}})
        .positions_in(0);
  };
  CHECK(length({"analytic"}) == 64);
  CHECK(length({"event"}) < 64);
  CHECK(length({"analytic", "event"}) == length({"event"}));
}

TEST_CASE("sweep: every row is what predict says", "[sweep]") {
  const Grid grid = grid_of_jobs(false);
  const auto rows = rows_of(grid, {.detail = SweepDetail::kFull, .threads = 2, .shard = {}, .after = {}});
  const auto times = rows_of(grid, {.detail = SweepDetail::kTime, .threads = 1, .shard = {}, .after = {}});
  REQUIRE(rows.size() == 3 * 3 * 3 * (4 * 3 - 1));
  REQUIRE(times.size() == rows.size());
  std::int64_t failed = 0;
  GridPoint point;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    REQUIRE(grid.settle(rows[i].point, point));
    CHECK(times[i].point == rows[i].point);
    const auto one =
        resolve(test::learnt_catalog(), point.settings).and_then([](const Scenario& s) { return predict(s); });
    REQUIRE(one.has_value() == rows[i].answer.has_value());
    REQUIRE(times[i].answer.has_value() == rows[i].answer.has_value());
    if (!one) {
      ++failed;
      CHECK(rows[i].why.find(one.error().message) == 0);
      CHECK(rows[i].why.find('\n') == std::string::npos);
      continue;
    }
    CHECK(rows[i].answer->step == one->step_time);
    CHECK(rows[i].answer->full->memory_per_gpu == one->memory_per_gpu);
    CHECK(rows[i].answer->full->bottleneck == one->bottleneck);
    CHECK(times[i].answer->step == one->step_time);
    CHECK(times[i].answer->gpus == one->gpus);
    CHECK(times[i].answer->throughput_samples_per_second == one->throughput_samples_per_second);
  }
  CHECK(failed < static_cast<std::int64_t>(rows.size()));
}

TEST_CASE("sweep: a run's CO2 is a column where its carbon is stated", "[sweep]") {
  const std::vector<Override> base =
      overrides("model resnet50; node dgx1-v100; training.steps 1000; energy.carbon 400 g/kWh");
  const Grid grid =
      Grid::create(
          {.base = base, .axes = {{.paths = {"nodes"}, .steps = {{"2"}}, .where = {}}}, .where = {}, .sample = {}})
          .value();
  const auto rows = rows_of(grid, {.detail = SweepDetail::kFull, .threads = 1, .shard = {}, .after = {}});
  const auto columns = report::sweep_columns(grid.paths(), SweepDetail::kFull);
  const auto cells = report::sweep_cells(rows.front(), SweepDetail::kFull);
  const auto co2 =
      std::find_if(columns.begin(), columns.end(), [](const auto& c) { return c.name == "training_co2_g"; });
  REQUIRE(co2 != columns.end());
  const answer::Training& run = rows.front().answer->full->training.value();
  CHECK(std::get<double>(cells[static_cast<std::size_t>(co2 - columns.begin())]) == Approx(run.carbon->in(grams)));
  const std::vector<std::vector<io::Cell>> table{cells};
  CHECK(report::sweep_table(columns, table, report::Format::kText).find("CO2") != std::string::npos);
}

TEST_CASE("sweep: what failures leave of the time is a column", "[sweep]") {
  GridParts parts{
      .base = overrides("model resnet50; node dgx1-v100; failures.mtbf_gpu 1000 h; checkpoint.bandwidth 100 MB/s"),
      .axes = {},
      .where = {},
      .sample = {}};
  REQUIRE(add_setting({"failures.restart", "10 min,2 h", {}}, parts));
  const Grid grid = Grid::create(parts).value();
  const auto rows = rows_of(grid, {.detail = SweepDetail::kFull, .threads = 1, .shard = {}, .after = {}});
  REQUIRE(rows.size() == 2);
  const auto share = [&](const SweepRow& row) { return row.answer->full->goodput.value(); };
  CHECK(share(rows[1]) < share(rows[0]));
  const auto columns = report::sweep_columns(grid.paths(), SweepDetail::kFull);
  const std::vector<std::vector<io::Cell>> table{report::sweep_cells(rows.front(), SweepDetail::kFull)};
  CHECK(report::sweep_table(columns, table, report::Format::kText).find("goodput") != std::string::npos);
}

TEST_CASE("sweep: prices are values, those of named servers one", "[sweep]") {
  GridParts parts;
  REQUIRE(add_setting({"price", "5 $/h,10 $/h", {}}, parts));
  CHECK(parts.axes.size() == 1);
  GridParts named;
  REQUIRE(add_setting({"price", "dgx1-v100=5 $/h, dgx-a100=10 $/h", {}}, named));
  CHECK(named.axes.empty());
  // One price of several kinds is none of any.
  REQUIRE(add_setting({"node", "dgx1-v100,dgx-a100", {}}, named));
  CHECK(Grid::create(named));
  named.base.front().value = "5 $/h";
  CHECK(Grid::create(named).error().message == "a price of no kind of server, and node is varied");
}

TEST_CASE("sweep: the same bits whatever the threads and the parts", "[sweep]") {
  for (const bool events : {false, true}) {
    const Grid grid = grid_of_jobs(events);
    const auto detail = events ? SweepDetail::kTime : SweepDetail::kFull;
    const auto one = rows_of(grid, {.detail = detail, .threads = 1, .shard = {}, .after = {}});
    const std::string serial = bytes_of(one, grid, detail);
    for (const int threads : {2, 16}) {
      CHECK(bytes_of(rows_of(grid, {.detail = detail, .threads = threads, .shard = {}, .after = {}}), grid, detail) ==
            serial);
    }
    std::vector<SweepRow> merged;
    for (std::int64_t k = 1; k <= 3; ++k) {
      const auto part = rows_of(grid, {.detail = detail, .threads = 2, .shard = {k, 3}, .after = {}});
      CHECK(std::is_sorted(part.begin(), part.end(), [](const auto& a, const auto& b) { return a.point < b.point; }));
      merged.insert(merged.end(), part.begin(), part.end());
    }
    std::sort(merged.begin(), merged.end(), [](const auto& a, const auto& b) { return a.point < b.point; });
    CHECK(bytes_of(merged, grid, detail) == serial);
    const std::int64_t half = one[one.size() / 2].point;
    auto rest = rows_of(grid, {.detail = detail, .threads = 2, .shard = {}, .after = half});
    rest.insert(rest.begin(), one.begin(), one.begin() + static_cast<std::ptrdiff_t>(one.size() / 2) + 1);
    CHECK(bytes_of(rest, grid, detail) == serial);
  }
}

TEST_CASE("sweep: who takes rows may end it", "[sweep]") {
  const Grid grid = grid_of_jobs(false);
  for (const int threads : {1, 4}) {
    int calls = 0;
    const auto take = [&](std::span<const SweepRow> rows, const SweepProgress&) -> Expected<void> {
      if (rows.empty()) return {};
      ++calls;
      return fail(ErrorCode::kIo, "the disk is full");
    };
    const auto done = sweep(test::learnt_catalog(), grid,
                            {.detail = SweepDetail::kTime, .threads = threads, .shard = {}, .after = {}}, take);
    REQUIRE_FALSE(done);
    CHECK(done.error().message == "the disk is full");
    CHECK(calls == 1);
  }
}

TEST_CASE("sweep: threads that read for themselves answer as one that does not", "[sweep]") {
  Axis nodes{.paths = {"nodes"}, .steps = {}, .where = {}};
  for (int n = 1; n <= 210; ++n) nodes.steps.push_back({std::to_string(n)});
  Axis networks{.paths = {"network"}, .steps = {}, .where = {}};
  for (int rate = 1; rate <= 100; ++rate) networks.steps.push_back({std::to_string(rate) + " Gb/s"});
  const Grid grid =
      Grid::create(
          {.base = overrides("model alexnet; node dgx1-v100"), .axes = {nodes, networks}, .where = {}, .sample = {}})
          .value();
  const auto alone = rows_of(grid, {.detail = SweepDetail::kTime, .threads = 1, .shard = {}, .after = {}});
  REQUIRE(alone.size() == 21'000);
  const std::string expected = bytes_of(alone, grid, SweepDetail::kTime);
  for (int round = 0; round < 2; ++round) {  // the second finds what the first has read
    const auto rows = rows_of(grid, {.detail = SweepDetail::kTime, .threads = 2, .shard = {}, .after = {}});
    CHECK(bytes_of(rows, grid, SweepDetail::kTime) == expected);
  }
}
