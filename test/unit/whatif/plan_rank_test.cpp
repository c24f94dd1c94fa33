// A rank whose neighbours never keep it waiting, worked by hand.
#include "search/plan_rank.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace ddlsim;
using namespace ddlsim::whatif;
using plan::Moment;

namespace {

/// 2 ms a layer, forward and backward; of the latter 1 ms for the weights.
Time work(plan::SlotKind kind, const LayerRange& layers) {
  const bool apart = kind == plan::SlotKind::kBackwardInput || kind == plan::SlotKind::kBackwardWeights;
  return milliseconds(apart ? 1 : 2) * static_cast<double>(layers.end - layers.first);
}

RankEnd run(const plan::Pipeline& pipeline, const PartChannel& part, Time arrival) {
  return RankAlone(pipeline, std::vector{part}, work).run(0, arrival);
}

}  // namespace

TEST_CASE("plan rank: a gather waits for the sum before it on the channel", "[unit][whatif]") {
  // Two layers; their weights are gathered in 5 ms for the first, their gradients summed in 3 ms behind it.
  PartChannel part{{0, 2}, {}};
  part.rows.push_back({{Moment::kBegin, 0}, {Moment::kForward, 0}, milliseconds(5), true});
  part.rows.push_back({{Moment::kBackward, 0}, {Moment::kUpdate, 0}, milliseconds(3), true});
  const plan::Pipeline pipeline{.schedule = plan::PipelineSchedule::kOneForwardOneBackward, .micro_batches = 2};
  // F0: layer 0 until 2, its gather until 5, layer 1 until 7. B0: layer 1 until 9, the sum from then to 12, layer 0
  // until 11. F1: the gather from 12 to 17, layer 0 until 13, 4 ms of waiting, layer 1 until 19. B1: until 21 and 23,
  // the sum until 24.
  const RankEnd end = run(pipeline, part, Time::zero());
  CHECK(end.done.in(milliseconds) == Approx(23));
  CHECK(end.passes.in(milliseconds) == Approx(23));
  CHECK(end.sent.in(milliseconds) == Approx(24));
  CHECK(end.waited.in(milliseconds) == Approx(3 + 4));
  // What comes after 4 ms is computed until 6: the gather has come.
  const RankEnd later = run(pipeline, part, milliseconds(4));
  CHECK(later.done.in(milliseconds) == Approx(24));
  CHECK(later.waited.in(milliseconds) == Approx(4));
}

TEST_CASE("plan rank: what experts gather goes beside what all replicas do", "[unit][whatif]") {
  // Both layers' weights are gathered in 5 ms and 6 ms: one after the other layer 1 waits until 11, beside each other
  // until 6, and layer 0 until 5.
  PartChannel part{{0, 2}, {}};
  part.rows.push_back({{Moment::kBegin, 0}, {Moment::kForward, 0}, milliseconds(5), true});
  part.rows.push_back({{Moment::kBegin, 0}, {Moment::kForward, 1}, milliseconds(6), true});
  const plan::Pipeline pipeline{.schedule = plan::PipelineSchedule::kOneForwardOneBackward, .micro_batches = 1};
  const auto forward = [](plan::SlotKind kind, const LayerRange& layers) {
    return kind == plan::SlotKind::kForward ? work(kind, layers) : Time::zero();
  };
  const auto done = [&] { return RankAlone(pipeline, std::vector{part}, forward).run(0, Time::zero()).done; };
  // A layer's kernels go on beside what it waits for.
  CHECK(done().in(milliseconds) == Approx(11));
  part.rows.back().channel = 1;
  CHECK(done().in(milliseconds) == Approx(7));
}

TEST_CASE("plan rank: of a long step each channel repeats itself", "[unit][whatif]") {
  // 8 ms of kernels a pass; experts' sums of 10 ms queue, those of all replicas do not.
  PartChannel part{{0, 2}, {}};
  part.rows.push_back({{Moment::kBackward, 0}, {Moment::kUpdate, 0}, milliseconds(3), true});
  part.rows.push_back({{Moment::kBackward, 0}, {Moment::kUpdate, 0}, milliseconds(10), true, 1});
  for (const std::int64_t m : {2, 5, 20, 1000}) {
    const RankEnd end =
        run({.schedule = plan::PipelineSchedule::kOneForwardOneBackward, .micro_batches = m}, part, Time::zero());
    CHECK(end.done.in(milliseconds) == Approx(8 * static_cast<double>(m)));
    CHECK(end.sent.in(milliseconds) == Approx(6 + 10 * static_cast<double>(m)));
  }
}

TEST_CASE("plan rank: where backward is in two, gradients are summed behind the weights' pass", "[unit][whatif]") {
  PartChannel part{{0, 2}, {}};
  part.rows.push_back({{Moment::kForward, 1}, {Moment::kBackward, 0}, milliseconds(4), true});
  part.rows.push_back({{Moment::kBackward, 0}, {Moment::kUpdate, 0}, milliseconds(3), false});
  const plan::Pipeline pipeline{.schedule = plan::PipelineSchedule::kZeroBubbleH1, .stages = 2, .micro_batches = 1};
  // F: until 2, the gather from then to 6, until 4. I: until 5 and 6. W: until 7, the sum until 10, until 8.
  const RankEnd end = run(pipeline, part, Time::zero());
  CHECK(end.passes.in(milliseconds) == Approx(6));
  CHECK(end.done.in(milliseconds) == Approx(8));
  CHECK(end.sent.in(milliseconds) == Approx(10));
  CHECK(end.waited == Time::zero());
}

TEST_CASE("plan rank: of a long step what repeats itself counts as often as it does", "[unit][whatif]") {
  const auto run_for = [](const PartChannel& part, std::int64_t micro_batches) {
    return run({.schedule = plan::PipelineSchedule::kOneForwardOneBackward, .micro_batches = micro_batches}, part,
               Time::zero());
  };
  // The first case of this file: from the second micro-batch on 12 ms each, of which 4 are waited for.
  PartChannel gathered{{0, 2}, {}};
  gathered.rows.push_back({{Moment::kBegin, 0}, {Moment::kForward, 0}, milliseconds(5), true});
  gathered.rows.push_back({{Moment::kBackward, 0}, {Moment::kUpdate, 0}, milliseconds(3), true});
  // Sums of 10 ms beside 8 ms of kernels queue: the first starts at 6 ms, all follow one another.
  PartChannel queued{{0, 2}, {}};
  queued.rows.push_back({{Moment::kBackward, 0}, {Moment::kUpdate, 0}, milliseconds(10), true});
  // 8 ms of kernels, whose last layer needs what 9 ms bring from their begin on; what is sent once comes after that.
  PartChannel once{{0, 2}, {}};
  once.rows.push_back({{Moment::kForward, 0}, {Moment::kBackward, 0}, milliseconds(9), true});
  once.rows.push_back({{Moment::kBackward, 0}, {Moment::kUpdate, 0}, milliseconds(20), false});
  // A gather of 4 ms and a sum of 5 fall behind 8 ms of kernels by 1 a pass, which nobody feels at first: sums end at
  // 11, 20, 29, 38, gathers at 4, 15, 24, 33, 42 and are needed at 8, 16, 24, 32, 41; then 9 ms each.
  PartChannel behind{{0, 2}, {}};
  behind.rows.push_back({{Moment::kForward, 0}, {Moment::kBackward, 0}, milliseconds(4), true});
  behind.rows.push_back({{Moment::kBackward, 0}, {Moment::kUpdate, 0}, milliseconds(5), true});
  for (const std::int64_t m : {5, 20, 1000}) {
    CHECK(run_for(behind, m).done.in(milliseconds) == Approx(33 + 9 * static_cast<double>(m - 4)));
    CHECK(run_for(behind, m).sent.in(milliseconds) == Approx(38 + 9 * static_cast<double>(m - 4)));
  }
  for (const std::int64_t m : {2, 3, 5, 20, 1000}) {
    const auto passes = static_cast<double>(m);
    CHECK(run_for(gathered, m).done.in(milliseconds) == Approx(11 + 12 * (passes - 1)));
    CHECK(run_for(gathered, m).waited.in(milliseconds) == Approx(3 + 4 * (passes - 1)));
    CHECK(run_for(gathered, m).sent.in(milliseconds) == Approx(12 * passes));
    CHECK(run_for(queued, m).done.in(milliseconds) == Approx(8 * passes));
    CHECK(run_for(queued, m).sent.in(milliseconds) == Approx(6 + 10 * passes));
    CHECK(run_for(once, m).done.in(milliseconds) == Approx(9 * passes));
    CHECK(run_for(once, m).sent.in(milliseconds) == Approx(9 * passes + 20));
  }
}
