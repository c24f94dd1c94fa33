// The points of a grid, numbered, left out, sampled and shared out; worked by hand.
#include "ddlsim/whatif/grid.h"
#include "ddlsim/whatif/grid_settings.h"
#include "overrides.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace {

using namespace ddlsim;
using namespace ddlsim::whatif;
using Catch::Matchers::Contains;
using ddlsim::test::overrides;
using Texts = std::vector<std::string>;

Axis axis(const std::string& path, const Texts& values) {
  Axis made{.paths = {path}, .steps = {}, .where = {}};
  for (const std::string& value : values) made.steps.push_back({value});
  return made;
}

/// nodes is stated first, and is the fastest all the same.
GridParts two_by_four() {
  return {.base = overrides("node dgx1-v100"),
          .axes = {axis("nodes", {"1", "2", "4", "8"}), axis("model", {"resnet50", "bert_large"})},
          .where = {},
          .sample = {}};
}

std::string said(const GridPoint& point) {
  std::string text;
  for (const Override& one : point.settings) text += (text.empty() ? "" : " ") + one.value;
  return text;
}

Texts points_of(const Grid& grid) {
  Texts all;
  GridPoint point;
  for (std::int64_t i = 0; i < grid.size(); ++i) {
    if (grid.settle(grid.number_at(i), point)) all.push_back(said(point));
  }
  return all;
}

Texts points_where(const Texts& conditions) {
  GridParts parts = two_by_four();
  for (const std::string& text : conditions) parts.where.push_back({text, {}});
  return points_of(Grid::create(std::move(parts)).value());
}

std::string fault(GridParts parts) {
  const auto grid = Grid::create(std::move(parts));
  REQUIRE_FALSE(grid);
  return to_string(grid.error());
}

std::string where_fault(const std::string& text) {
  GridParts parts = two_by_four();
  parts.base.push_back({"network", "25 Gb/s", {}});
  parts.where.push_back({text, {}});
  return fault(std::move(parts));
}

}  // namespace

TEST_CASE("grid: values as people write them", "[grid]") {
  CHECK(values_of("resnet50, bert_large").value() == Texts{"resnet50", "bert_large"});
  CHECK(values_of("25 Gb/s,100 Gb/s").value() == Texts{"25 Gb/s", "100 Gb/s"});
  CHECK(range_of("1..64:x2").value() == Texts{"1", "2", "4", "8", "16", "32", "64"});
  CHECK(range_of("32..128:+32").value() == Texts{"32", "64", "96", "128"});
  CHECK(range_of("1..9:x3").value() == Texts{"1", "3", "9"});
  CHECK(range_of("1..8:x3").value() == Texts{"1", "3"});  // 9 is past the end
  CHECK(range_of("25..100:x2 Gb/s").value() == Texts{"25 Gb/s", "50 Gb/s", "100 Gb/s"});
  CHECK(range_of("25 Gb/s..100 Gb/s:x2").value() == Texts{"25 Gb/s", "50 Gb/s", "100 Gb/s"});
  CHECK(range_of("25..100 Gb/s:x2").value() == Texts{"25 Gb/s", "50 Gb/s", "100 Gb/s"});
  CHECK(range_of("10 Gb/s..20 Gb/s:+5 Gb/s").value() == Texts{"10 Gb/s", "15 Gb/s", "20 Gb/s"});
  CHECK_THAT(range_of("10 Gb/s..20 Gb/s:+500 Mb/s").error().message, Contains("different units"));
  CHECK(range_of("7b..instruct").value() == Texts{"7b..instruct"});
  CHECK(range_of("0.1..0.4:+0.1").value() == Texts{"0.1", "0.2", "0.3", "0.4"});
  CHECK(range_of("4..4:x2").value() == Texts{"4"});
  CHECK(values_of("1..4:x2, 7").value() == Texts{"1", "2", "4", "7"});
  CHECK(range_of("../my_model.yaml").value() == Texts{"../my_model.yaml"});
}

TEST_CASE("grid: ranges that make no sense", "[grid]") {
  const auto says = [](const std::string& text) { return to_string(values_of(text).error()); };
  CHECK_THAT(says("1..64:x1"), Contains("never arrives"));
  CHECK_THAT(says("1..64:+0"), Contains("never arrives"));
  CHECK_THAT(says("1..64:x0.5"), Contains("never arrives"));
  CHECK_THAT(says("0..64:x2"), Contains("never arrives"));
  CHECK_THAT(says("1..64:+-1"), Contains("never arrives"));
  CHECK_THAT(says("64..1:x2"), Contains("ends before it begins"));
  CHECK_THAT(says("1..64"), Contains("no step"));
  CHECK_THAT(says("1..:x2"), Contains("no end"));
  CHECK_THAT(says("1..64:2"), Contains("neither xFACTOR nor +STEP"));
  CHECK_THAT(says("1..64:x"), Contains("no number"));
  CHECK_THAT(says("1..1000000000:+1"), Contains("over a million"));
  CHECK_THAT(says("1..2:+1e-9"), Contains("over a million"));
  CHECK_THAT(says("1..2:x1.0000000000001"), Contains("tell values apart"));
  CHECK_THAT(says("1,,2"), Contains("empty value"));
  CHECK_THAT(says(""), Contains("empty value"));
}

TEST_CASE("grid: points are numbered with the cheap axes last", "[grid]") {
  const Grid grid = Grid::create(two_by_four()).value();
  CHECK(grid.size() == 8);
  CHECK(grid.paths() == Texts{"model", "nodes"});
  GridPoint point;
  REQUIRE(grid.settle(5, point));
  CHECK(said(point) == "dgx1-v100 bert_large 2");
  CHECK(point.digits == std::vector<std::size_t>{1, 1});
  REQUIRE(grid.settle(0, point));  // from a point that was settled before
  CHECK(said(point) == "dgx1-v100 resnet50 1");
  CHECK(points_of(grid).size() == 8);
}

TEST_CASE("grid: zipped settings change together", "[grid]") {
  GridParts parts = two_by_four();
  parts.base.clear();
  parts.axes.push_back({.paths = {"node", "batch"}, .steps = {{"dgx1-v100", "64"}, {"dgx-a100", "256"}}, .where = {}});
  const Grid grid = Grid::create(std::move(parts)).value();
  CHECK(grid.size() == 16);
  GridPoint point;
  REQUIRE(grid.settle(4, point));  // models, then servers, then nodes
  CHECK(said(point) == "resnet50 dgx-a100 256 1");
}

TEST_CASE("grid: conditions leave points out", "[grid]") {
  CHECK(points_where({"nodes > 1"}).size() == 6);
  CHECK(points_where({"nodes > 1", "nodes < 8"}).size() == 4);
  CHECK(points_where({"nodes > 1e0 and nodes < 8"}).size() == 4);  // a number ends where its exponent does
  CHECK(points_where({"model == resnet50 and nodes * 8 <= 32"}).size() == 3);
  CHECK(points_where({"not (model == resnet50 or nodes >= 4)"}) ==
        Texts{"dgx1-v100 bert_large 1", "dgx1-v100 bert_large 2"});
  CHECK(points_where({"model in [BERT-Large, vgg16]"}).size() == 4);
  CHECK(points_where({"nodes in [1, 8]"}).size() == 4);
  CHECK(points_where({"node == 'dgx1-v100'"}).size() == 8);
  CHECK(points_where({"node != dgx1-v100"}).empty());
  CHECK(points_where({"nodes - 1 == 3 or nodes / 2 == 4"}).size() == 4);
  CHECK(points_where({"2 + 2 * nodes == 10"}).size() == 2);  // nodes 4: * before +
}

TEST_CASE("grid: conditions know units", "[grid]") {
  GridParts parts = two_by_four();
  parts.axes.push_back(axis("network", {"25 Gb/s", "100 Gb/s", "12.5 GB/s"}));
  parts.where.push_back({"network >= 50 Gb/s and nodes == 1 and model == resnet50", {}});
  const Grid grid = Grid::create(std::move(parts)).value();
  CHECK(points_of(grid) == Texts{"dgx1-v100 resnet50 1 100 Gb/s", "dgx1-v100 resnet50 1 12.5 GB/s"});
}

TEST_CASE("grid: conditions that make no sense", "[grid]") {
  CHECK_THAT(where_fault("noes > 1"), Contains("states no 'noes'") && Contains("nodes"));
  CHECK_THAT(where_fault("nodes"), Contains("nothing is compared"));
  CHECK_THAT(where_fault("model > 1"), Contains("'model' is not a number"));
  CHECK_THAT(where_fault("network > 5"), Contains("same unit"));
  CHECK_THAT(where_fault("network > 5 GB"), Contains("same unit"));
  CHECK_THAT(where_fault("network + nodes > 5"), Contains("do not go together"));
  CHECK_THAT(where_fault("nodes > 5 parsec"), Contains("no unit"));
  CHECK_THAT(where_fault("nodes > "), Contains("missing at its end"));
  CHECK_THAT(where_fault("(nodes > 1"), Contains("')' is missing"));
  CHECK_THAT(where_fault("nodes in [1"), Contains("']' is missing"));
  CHECK_THAT(where_fault("nodes > 1 or"), Contains("missing at its end"));
  CHECK_THAT(where_fault("nodes > 1 && nodes < 4"), Contains("left over"));
  CHECK_THAT(where_fault("nodes and model == resnet50"), Contains("join conditions"));
  CHECK_THAT(where_fault("model == 'resnet50"), Contains("quote is open"));
  CHECK_THAT(where_fault(std::string(1000, '(') + "nodes > 1"), Contains("too deep"));
  std::string not_often;
  for (int i = 0; i < 1000; ++i) not_often += "not ";
  CHECK_THAT(where_fault(not_often + "nodes > 1"), Contains("too deep"));
}

TEST_CASE("grid: what is typed takes the place of what a file states", "[grid]") {
  const auto typed = [](const char* path, const char* value) {
    GridParts file = two_by_four();
    file.base.push_back({"batch", "32", {}});
    GridParts some;
    REQUIRE(add_setting({path, value, {}}, some));
    take_over(std::move(some), file);
    return points_of(Grid::create(std::move(file)).value());
  };
  CHECK(typed("batch", "16,64").size() == 16);
  CHECK(typed("nodes", "3,5").size() == 4);  // axis by axis
  CHECK(typed("nodes", "16").size() == 2);
  CHECK(typed("precision", "fp16").size() == 8);
}

TEST_CASE("grid: axes that overlap, or repeat themselves", "[grid]") {
  GridParts twice = two_by_four();
  twice.axes.push_back(axis("nodes", {"3", "5"}));
  CHECK_THAT(fault(twice), Contains("two axes vary nodes"));
  GridParts both = two_by_four();
  both.base.push_back({"nodes", "16", {}});
  CHECK_THAT(fault(both), Contains("both varied and stated"));
  GridParts again = two_by_four();
  again.axes.push_back(axis("batch", {"32", "64", "32"}));
  CHECK_THAT(fault(again), Contains("'32' stands twice"));
  GridParts unknown = two_by_four();
  unknown.axes.push_back(axis("bach", {"32", "64"}));
  CHECK_THAT(fault(unknown), Contains("unknown setting 'bach'") && Contains("batch"));
  GridParts huge{.base = {}, .axes = {}, .where = {}, .sample = {}};
  Texts many;
  for (int i = 1; i <= 100'000; ++i) many.push_back(std::to_string(i));
  for (const char* path : {"nodes", "batch", "parallel.tensor", "parallel.pipeline"})
    huge.axes.push_back(axis(path, many));
  CHECK_THAT(fault(huge), Contains("2^62"));
}

TEST_CASE("grid: a random sample", "[grid]") {
  const auto drawn = [](std::int64_t points, std::uint64_t seed) {
    GridParts parts = two_by_four();
    Texts batches;
    for (int i = 1; i <= 1000; ++i) batches.push_back(std::to_string(i));
    parts.axes.push_back(axis("batch", batches));
    parts.where.push_back({"nodes > 1", {}});
    parts.sample = Sample{.points = points, .by = SampleBy::kRandom, .seed = seed};
    return Grid::create(std::move(parts));
  };
  for (const std::int64_t points : {100, 6000}) {  // by rejection, and by going through them: all that there are
    const Grid grid = drawn(points, 1).value();
    CHECK(grid.size() == points);
    const Texts all = points_of(grid);  // the conditions hold for every one
    CHECK(static_cast<std::int64_t>(all.size()) == points);
    CHECK(std::set<std::string>(all.begin(), all.end()).size() == all.size());
    CHECK(points_of(drawn(points, 1).value()) == all);
  }
  CHECK(points_of(drawn(100, 1).value()) != points_of(drawn(100, 2).value()));
  CHECK_THAT(to_string(drawn(6001, 1).error()), Contains("the grid has 6,000"));
}

TEST_CASE("grid: a Latin hypercube has every value of an axis as often", "[grid]") {
  GridParts parts{.base = {}, .axes = {}, .where = {}, .sample = {}};
  parts.axes = {axis("batch", {"1", "2", "3", "4"}), axis("nodes", {"1", "2", "4", "8"}),
                axis("precision", {"fp32", "fp16"}), axis("parallel.zero", {"0", "1", "2", "3"})};
  parts.sample = Sample{.points = 8, .by = SampleBy::kLatinHypercube, .seed = 3};
  const Grid grid = Grid::create(std::move(parts)).value();
  REQUIRE(grid.size() == 8);
  GridPoint point;
  std::vector<std::vector<int>> seen(4, std::vector<int>(4, 0));
  for (std::int64_t i = 0; i < 8; ++i) {
    REQUIRE(grid.settle(grid.number_at(i), point));
    for (std::size_t a = 0; a < 4; ++a) ++seen[a][point.digits[a]];
  }
  for (std::size_t a = 0; a < 4; ++a) {
    const auto steps = grid.axes()[a].steps.size();
    for (std::size_t k = 0; k < steps; ++k) CHECK(seen[a][k] == static_cast<int>(8 / steps));
  }
}

TEST_CASE("grid: every point is in one part", "[grid]") {
  GridParts parts = two_by_four();
  Texts batches;
  for (int i = 1; i <= 37; ++i) batches.push_back(std::to_string(i));
  parts.axes.push_back(axis("batch", batches));
  parts.axes.push_back(axis("fidelity", {"analytic", "event"}));
  const Grid grid = Grid::create(std::move(parts)).value();
  for (const std::int64_t of : {1, 2, 3, 16, 1000}) {
    std::vector<int> seen(static_cast<std::size_t>(grid.size()), 0);
    std::vector<double> loads;
    for (std::int64_t k = 1; k <= of; ++k) {
      double load = 0;
      GridPoint point;
      for (const Stretch& stretch : stretches_of(grid, {k, of})) {
        for (std::int64_t at = stretch.first; at < stretch.last; ++at) {
          ++seen[static_cast<std::size_t>(at)];
          grid.settle(grid.number_at(at), point);
          load += estimated_cost(point);
        }
      }
      loads.push_back(load);
    }
    CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
    if (of > 16) continue;
    const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
    CHECK(*most <= 1.2 * *least);  // half of the points take 80 times as long as the others
  }
}

TEST_CASE("grid: parts are named K/N", "[grid]") {
  CHECK(parse_shard("3/16")->number == 3);
  CHECK(parse_shard("3/16")->of == 16);
  for (const char* text : {"5/4", "0/4", "1", "/", "1/0", "-1/4", "1/4/2", "a/b", "1/1000000"})
    CHECK_FALSE(parse_shard(text));
}

TEST_CASE("grid: a file", "[grid]") {
  const auto path = std::filesystem::temp_directory_path() / "ddlsim_grid_test.yaml";
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return load_grid(path);
  };
  const auto parts = read(
      "model: [resnet50, bert_large]\n"
      "nodes: 1..4:x2\n"
      "precision: fp16\n"
      "parallel: {zero: [0, 1]}\n"
      "zip:\n  - {node: [dgx1-v100, dgx-a100], batch: [64, 256]}\n"
      "where:\n  - nodes * batch <= 256\n"
      "sample: {points: 5, by: lhs, seed: 9}\n");
  REQUIRE(parts);
  REQUIRE(parts->axes.size() == 4);
  CHECK(parts->axes[1].steps.size() == 3);
  CHECK(parts->axes[2].paths == Texts{"parallel.zero"});
  CHECK(parts->axes[3].paths == Texts{"node", "batch"});
  REQUIRE(parts->base.size() == 1);
  CHECK(parts->base.front().path == "precision");
  CHECK(parts->where.front().text == "nodes * batch <= 256");
  CHECK(parts->sample->by == SampleBy::kLatinHypercube);
  CHECK(parts->sample->seed == 9);
  const auto says = [&](const std::string& text) { return to_string(read(text).error()); };
  CHECK_THAT(says("nodes: []\n"), Contains(":1:8") && Contains("the list is empty"));
  CHECK_THAT(says("nodes: 1..4:x1\n"), Contains(":1:8") && Contains("never arrives"));
  CHECK_THAT(says("zip: [{node: [a, b], batch: [1, 2, 3]}]\n"), Contains("batch has 3 values, node has 2"));
  CHECK_THAT(says("zip: [{node: [a, b]}]\n"), Contains("fewer than two"));
  CHECK_THAT(says("sample: {points: 0}\n"), Contains(":1:18") && Contains("out of range"));
  CHECK_THAT(says("where: {a: 1}\n"), Contains("a condition, or a list of them"));
  CHECK_THAT(says("- a\n"), Contains("must be a map"));
  std::filesystem::remove(path);
}

TEST_CASE("grid: its text tells grids apart", "[grid]") {
  const Grid grid = Grid::create(two_by_four()).value();
  GridParts other = two_by_four();
  std::swap(other.axes[0].steps[0], other.axes[0].steps[1]);
  CHECK(Grid::create(two_by_four())->text() == grid.text());
  CHECK(Grid::create(other)->text() != grid.text());
}
