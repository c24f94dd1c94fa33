#include "ddlsim/plan/timed_cuts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

using namespace ddlsim;
using namespace ddlsim::plan;

namespace {

using Cuts = std::vector<std::size_t>;

/// Of so many ms, a third of each forward.
std::vector<TimedLayer> layers(const std::vector<double>& takes) {
  std::vector<TimedLayer> all;
  for (const double one : takes) all.push_back({milliseconds(one / 3), milliseconds(one * 2 / 3)});
  return all;
}

/// Of layers that may be cut everywhere.
Cuts cuts(const std::vector<double>& takes, const Pipeline& pipeline, const SentBetween& sent = {}) {
  return timed_cuts({}, layers(takes), sent, pipeline);
}

Pipeline with(PipelineSchedule schedule, std::int64_t stages, std::int64_t micro_batches = 4) {
  return {.schedule = schedule, .stages = stages, .micro_batches = micro_batches};
}

/// What the slowest rank has.
double slowest(const std::vector<double>& takes, const Cuts& cuts, const Pipeline& pipeline) {
  std::vector<double> ranks(static_cast<std::size_t>(pipeline.stages));
  for (std::size_t q = 0; q < positions_of(pipeline); ++q) {
    const std::size_t end = q < cuts.size() ? cuts[q] : takes.size();
    for (std::size_t i = q == 0 ? 0 : cuts[q - 1]; i < end; ++i) ranks[place_of(pipeline, q).stage] += takes[i];
  }
  return *std::max_element(ranks.begin(), ranks.end());
}

}  // namespace

TEST_CASE("timed cuts: the worked examples", "[timed_cuts]") {
  using enum PipelineSchedule;
  CHECK(cuts({3, 1, 1, 3}, with(kOneForwardOneBackward, 2)) == Cuts{2});
  // The slowest stage costs less where it stands early: it does forward passes until the first comes back.
  CHECK(cuts({4, 4, 4}, with(kOneForwardOneBackward, 2)) == Cuts{2});
  // 3 | 5 has as long a period as 5 | 3.
  CHECK(slowest({3, 2, 3}, cuts({3, 2, 3}, with(kZeroBubbleH1, 2)), with(kZeroBubbleH1, 2)) == Approx(5));
}

TEST_CASE("timed cuts: no period is shorter, by trying every cut in three", "[timed_cuts]") {
  const std::vector<double> takes{5, 1, 2, 7, 1, 1, 4, 3, 2, 6};
  const Pipeline pipeline = with(PipelineSchedule::kGpipe, 3);
  double least = 1e9;
  for (std::size_t a = 1; a + 1 < takes.size(); ++a) {
    for (std::size_t b = a + 1; b < takes.size(); ++b) least = std::min(least, slowest(takes, {a, b}, pipeline));
  }
  CHECK(slowest(takes, cuts(takes, pipeline), pipeline) == Approx(least));
}

TEST_CASE("timed cuts: what a stage sends is part of its time", "[timed_cuts]") {
  const std::vector<double> takes{3, 1, 1, 3};
  const Pipeline pipeline = with(PipelineSchedule::kGpipe, 2);
  // Between servers 2 ms in the middle, 0.1 ms elsewhere.
  SentBetween sent{.before = {bytes(0), megabytes(1), megabytes(20), megabytes(1)},
                   .inside = gigabytes_per_second(1000),
                   .between = gigabytes_per_second(10),
                   .stages_of_server = 2};
  CHECK(cuts(takes, pipeline, sent) == Cuts{2});
  sent.stages_of_server = 1;
  CHECK(cuts(takes, pipeline, sent) != Cuts{2});
}

TEST_CASE("timed cuts: ranks of a V have as much, not its parts", "[timed_cuts]") {
  // By parts alone the first and the last, of 6 each, fall to one rank.
  const std::vector<double> takes{6, 3, 3, 3, 3, 1, 5};
  const Pipeline pipeline = with(PipelineSchedule::kZeroBubbleV, 2);
  CHECK(slowest(takes, cuts(takes, pipeline), pipeline) == Approx(12));
}

TEST_CASE("timed cuts: between blocks, unless a cut within one is 2 % faster", "[timed_cuts]") {
  const CutPoints points{.starts = {0, 2, 4, 6}, .first_body = 0, .after_bodies = 8};
  const Pipeline pipeline = with(PipelineSchedule::kGpipe, 2);
  CHECK(timed_cuts(points, layers({10, 10, 10, 10.1, 10, 10, 10, 10}), {}, pipeline) == Cuts{4});
  CHECK(timed_cuts(points, layers({10, 10, 30, 10, 10, 10, 10, 10}), {}, pipeline) == Cuts{3});
}
