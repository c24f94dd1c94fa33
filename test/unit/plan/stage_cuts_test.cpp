#include "ddlsim/plan/stage_cuts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

using namespace ddlsim;
using namespace ddlsim::plan;

namespace {

LayerLoads loads(const std::vector<double>& work) {
  LayerLoads all;
  for (const double one : work) {
    all.work.push_back(flops(one));
    all.elements.push_back(0);
    all.weights.push_back(0);
  }
  return all;
}

/// Of layers that may be cut everywhere.
std::vector<std::size_t> starts(const std::vector<double>& work, std::size_t parts) {
  return balanced_starts({}, loads(work), 1, parts).first;
}

double heaviest(const std::vector<double>& work, const std::vector<std::size_t>& first) {
  double most = 0;
  for (std::size_t part = 0; part + 1 < first.size(); ++part) {
    double sum = 0;
    for (std::size_t i = first[part]; i < first[part + 1]; ++i) sum += work[i];
    most = std::max(most, sum);
  }
  return most;
}

/// The least weight of the heaviest of so many parts of the first layers, by trying every cut.
double least_heaviest(const std::vector<double>& work, std::size_t layers, std::size_t parts) {
  double sum = 0;
  if (parts == 1) {
    for (std::size_t i = 0; i < layers; ++i) sum += work[i];
    return sum;
  }
  double least = 1e300;
  for (std::size_t last = layers; last-- > parts - 1;) {
    sum += work[last];
    least = std::min(least, std::max(sum, least_heaviest(work, last, parts - 1)));
  }
  return least;
}

}  // namespace

TEST_CASE("stage cuts: blocks that divide leave the head to the last part; lighter cuts do not", "[unit][plan]") {
  // Eight blocks of a layer of 1 each, and a head of 2: 2 | 2 | 2 | 2 + 2, or 3 | 3 | 2 | 0 + 2, but that no part is
  // without a block: 1 | 3 | 3 | 1 + 2.
  const LayerLoads all = loads({1, 1, 1, 1, 1, 1, 1, 1, 2});
  CutPoints points{.starts = {0, 1, 2, 3, 4, 5, 6, 7}, .after_bodies = 8, .repeated = true, .even = true};
  CHECK(balanced_starts(points, all, 1, 4).first == std::vector<std::size_t>{0, 2, 4, 6, 9});
  CHECK(lighter_cuts(points, all, 4) == std::vector<std::size_t>{1, 4, 7});
  // A part each, an even deal already, or no blocks: nothing lighter.
  CHECK(lighter_cuts(points, all, 8).empty());
  CHECK(lighter_cuts(points, all, 3).empty());
  CHECK(lighter_cuts(points, all, 1).empty());
  CHECK(lighter_cuts({}, all, 2).empty());
  CHECK(lighter_cuts(points, loads({1, 1, 1, 1, 1, 1, 1, 1, 0.1}), 4).empty());
}

TEST_CASE("stage cuts: the worked example", "[unit][plan]") {
  CHECK(starts({3, 1, 2, 2}, 2) == std::vector<std::size_t>{0, 2, 4});
  CHECK(starts({3, 1, 2, 2}, 1) == std::vector<std::size_t>{0, 4});
  CHECK(starts({3, 1, 2, 2}, 4) == std::vector<std::size_t>{0, 1, 2, 3, 4});
}

TEST_CASE("stage cuts: among equals the first parts have less", "[unit][plan]") {
  CHECK(starts({1, 1, 1}, 2) == std::vector<std::size_t>{0, 1, 3});
  CHECK(starts({1, 1, 1, 1, 1}, 3) == std::vector<std::size_t>{0, 1, 3, 5});
  // One heavy layer decides; what stands before it is not spread for its own sake.
  CHECK(starts({1, 1, 1, 1, 9}, 3) == std::vector<std::size_t>{0, 1, 4, 5});
}

TEST_CASE("stage cuts: the heaviest part is as light as any cut makes it", "[unit][plan]") {
  std::mt19937 random(5);
  for (int i = 0; i < 400; ++i) {
    const std::size_t layers = 2 + random() % 9;
    const std::size_t parts = 1 + random() % layers;
    std::vector<double> work;
    for (std::size_t l = 0; l < layers; ++l)
      work.push_back(static_cast<double>(1 + random() % (i % 2 == 0 ? 4 : 1000)));
    const std::vector<std::size_t> first = starts(work, parts);
    REQUIRE(first.size() == parts + 1);
    CHECK(first.front() == 0);
    CHECK(first.back() == layers);
    CHECK(std::adjacent_find(first.begin(), first.end(), std::greater_equal<>()) == first.end());
    CHECK(heaviest(work, first) == least_heaviest(work, layers, parts));
  }
}

TEST_CASE("stage cuts: where FLOPs are alike elements decide, the batch with them", "[unit][plan]") {
  LayerLoads all = loads({1, 1, 1});
  all.elements = {0, 0, 8};
  CHECK(balanced_starts({}, all, 1, 2).first == std::vector<std::size_t>{0, 2, 3});
  all.weights = {20, 0, 0};
  CHECK(balanced_starts({}, all, 1, 2).first == std::vector<std::size_t>{0, 1, 3});
  CHECK(balanced_starts({}, all, 4, 2).first == std::vector<std::size_t>{0, 2, 3});
  // What pieces weigh is kept for other numbers of parts.
  PieceWeights kept;
  CHECK(balanced_starts({}, all, 4, 2, kept).first == std::vector<std::size_t>{0, 2, 3});
  CHECK(balanced_starts({}, all, 4, 3, kept).first == balanced_starts({}, all, 4, 3).first);
}

TEST_CASE("stage cuts: blocks that are alike are dealt out evenly, else they stay whole", "[unit][plan]") {
  const std::vector<workload::Block> blocks{{0, 1, false}, {1, 2}, {3, 2}, {5, 2}, {7, 2}, {9, 1, false}};
  const LayerLoads alike = loads({5, 1, 2, 1, 2, 1, 2, 1, 2, 9});
  const CutPoints points = cut_points_of(blocks, alike);
  CHECK(points.even);
  CHECK(points.starts == std::vector<std::size_t>{0, 3, 5, 7});
  const StageStarts two = balanced_starts(points, alike, 1, 2);
  CHECK(two.anyhow);
  CHECK(two.first == std::vector<std::size_t>{0, 5, 10});
  // Three do not divide four blocks, but six: embedding and head as one each.
  CHECK(counts_ends(points, 10, 3));
  const StageStarts three = balanced_starts(points, alike, 1, 3);
  CHECK(three.anyhow);
  CHECK(three.first == std::vector<std::size_t>{0, 3, 7, 10});
  CHECK(counts_ends(points, 10, 6));
  CHECK(balanced_starts(points, alike, 1, 6).first == std::vector<std::size_t>{0, 1, 3, 5, 7, 9, 10});
  CHECK_FALSE(counts_ends(points, 10, 2));  // nor where blocks are alike by themselves
  CHECK_FALSE(counts_ends(points, 10, 5));
  CHECK_FALSE(counts_ends(points, 9, 3));  // nothing behind the blocks
  // Three blocks in two parts: 8 + 3 + 12 shares.
  const std::vector<workload::Block> few{{0, 1, false}, {1, 2}, {3, 2}, {5, 2}, {7, 1, false}};
  const LayerLoads fewer = loads({5, 1, 2, 1, 2, 1, 2, 9});
  const StageStarts two_of_three = balanced_starts(cut_points_of(few, fewer), fewer, 1, 2);
  CHECK_FALSE(two_of_three.anyhow);
  CHECK(two_of_three.first == std::vector<std::size_t>{0, 5, 8});
  const LayerLoads unlike = loads({5, 1, 2, 1, 2, 1, 2, 1, 3, 9});
  CHECK_FALSE(cut_points_of(blocks, unlike).even);
}

TEST_CASE("stage cuts: layers that wait for memory weigh what they take, where no blocks of attention are counted",
          "[unit][plan]") {
  // In FLOPs 1, 1, 4, 4, 4, 2: 1 + 1 + 4 | 4 + 4 + 2 in two parts is no better than ... | 4 + 2. An element is worth 2
  // FLOPs on this GPU, and the first two move 4 each: 8 + 8 | 4 + 4 + 4 + 2 = 16 | 14, where 20 | 10 would be.
  LayerLoads all = loads({1, 1, 4, 4, 4, 2});
  all.elements = {4, 4, 0, 0, 1, 0};
  CHECK(balanced_starts({}, all, 1, 2).first == std::vector<std::size_t>{0, 3, 6});
  all.per_element = flops(2);
  CHECK(balanced_starts({}, all, 1, 2).first == std::vector<std::size_t>{0, 2, 6});
  // Weights are moved once a pass, whatever its samples: 12 elements in 1 sample are 24 FLOPs, in 12 samples 2.
  all.elements.assign(6, 0);
  all.weights = {0, 0, 0, 0, 0, 12};
  CHECK(balanced_starts({}, all, 1, 2).first == std::vector<std::size_t>{0, 5, 6});
  CHECK(balanced_starts({}, all, 12, 2).first == std::vector<std::size_t>{0, 4, 6});
  // Blocks of attention are counted by FLOPs, as frameworks count them.
  all.elements = {4, 4, 0, 0, 1, 0};
  all.weights.assign(6, 0);
  const CutPoints blocks{.starts = {0, 1, 2, 3, 4, 5}, .after_bodies = 6, .repeated = true};
  CHECK(balanced_starts(blocks, all, 1, 2).first == std::vector<std::size_t>{0, 3, 6});
}
