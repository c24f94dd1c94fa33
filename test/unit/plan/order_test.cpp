#include "ddlsim/plan/order.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>

using namespace ddlsim;
using namespace ddlsim::plan;

namespace {

constexpr auto kSchedules = {
    PipelineSchedule::kNone,         PipelineSchedule::kGpipe,        PipelineSchedule::kOneForwardOneBackward,
    PipelineSchedule::kInterleaved,  PipelineSchedule::kZeroBubbleH1, PipelineSchedule::kZeroBubbleH2,
    PipelineSchedule::kZeroBubbleV,  PipelineSchedule::kDualPipe,     PipelineSchedule::kPipeDream,
    PipelineSchedule::kPipeDream2Bw,
};

/// "F0 F1 B0": the passes of one stage; "F1:0" is of part 1, "I" and "W" are backward in two, "F0+" is paired.
std::string words(const std::vector<Slot>& slots, bool parts = false) {
  std::string text;
  for (const Slot& slot : slots) {
    constexpr std::string_view kLetters = "FBIW";
    text += (text.empty() ? "" : " ") + std::string(1, kLetters[static_cast<std::size_t>(slot.kind)]) +
            (parts ? std::to_string(slot.part) + ":" : "") + std::to_string(slot.micro_batch) +
            (slot.paired ? "+" : "");
  }
  return text;
}

Pipeline pipeline(PipelineSchedule schedule, std::int64_t stages, std::int64_t micro_batches) {
  return {.schedule = schedule,
          .stages = stages,
          .virtual_stages = schedule == PipelineSchedule::kInterleaved ? 2 : 1,
          .micro_batches = micro_batches};
}

std::string stage(PipelineSchedule schedule, std::size_t stage, std::int64_t stages, std::int64_t micro_batches) {
  const Pipeline of = pipeline(schedule, stages, micro_batches);
  return words(stage_order(of, stage), parts_of(of) > 1);
}

std::vector<RankOrder> all_stages(const Pipeline& of) {
  std::vector<RankOrder> orders;
  for (std::size_t s = 0; s < static_cast<std::size_t>(of.stages); ++s) orders.emplace_back(of, s);
  return orders;
}

/// The most micro-batches of all parts that a rank keeps.
std::int64_t kept(PipelineSchedule schedule, std::size_t stage, std::int64_t stages, std::int64_t micro_batches) {
  const Pipeline of = pipeline(schedule, stages, micro_batches);
  std::int64_t sum = 0;
  for (const std::int64_t one :
       in_flight(of, stage, std::vector<double>(static_cast<std::size_t>(parts_of(of)), 1.0))) {
    sum += one;
  }
  return sum;
}

/// The same by walking through the order.
std::int64_t walked(const Pipeline& of, std::size_t stage) {
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const Slot& slot : stage_order(of, stage)) {
    if (slot.kind == SlotKind::kForward) ++now;
    if (slot.kind == SlotKind::kBackward || slot.kind == SlotKind::kBackwardWeights) --now;
    most = std::max(most, now);
  }
  CHECK(now == 0);
  return most;
}

}  // namespace

TEST_CASE("order: 1F1B keeps as many micro-batches as stages follow, and one", "[unit][plan]") {
  constexpr auto k1f1b = PipelineSchedule::kOneForwardOneBackward;
  // The header's example.
  CHECK(stage(k1f1b, 0, 2, 4) == "F0 F1 B0 F2 B1 F3 B2 B3");
  CHECK(stage(k1f1b, 1, 2, 4) == "F0 B0 F1 B1 F2 B2 F3 B3");
  // Stage 0 of 4 warms up with 3 forward passes; with two micro-batches there are no more than two.
  CHECK(stage(k1f1b, 0, 4, 5) == "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4");
  CHECK(stage(k1f1b, 0, 4, 2) == "F0 F1 B0 B1");
  CHECK(stage(k1f1b, 0, 1, 3) == "F0 B0 F1 B1 F2 B2");
}

TEST_CASE("order: GPipe runs all forward passes first, model parallelism one micro-batch after the other",
          "[unit][plan]") {
  for (const std::size_t s : {std::size_t{0}, std::size_t{1}}) {
    CHECK(stage(PipelineSchedule::kGpipe, s, 2, 4) == "F0 F1 F2 F3 B0 B1 B2 B3");
    CHECK(stage(PipelineSchedule::kNone, s, 2, 2) == "F0 B0 F1 B1");
  }
}

TEST_CASE("order: interleaved, two parts each of two ranks", "[unit][plan]") {
  // Rank 0 starts with 2 (p - 1) + (v - 1) p = 4 forward passes, rank 1 with 2.
  CHECK(stage(PipelineSchedule::kInterleaved, 0, 2, 4) ==
        "F0:0 F0:1 F1:0 F1:1 F0:2 B1:0 F0:3 B1:1 F1:2 B0:0 F1:3 B0:1 B1:2 B1:3 B0:2 B0:3");
  CHECK(stage(PipelineSchedule::kInterleaved, 1, 2, 2) == "F0:0 F0:1 F1:0 B1:0 F1:1 B1:1 B0:0 B0:1");
}

TEST_CASE("order: the weights' passes of ZB-H1 and H2 fill what would be bubbles", "[unit][plan]") {
  // H1, rank 1 of 2: W one micro-batch behind. H2, rank 0 of 2: three forward passes first; rank 1: W two behind.
  CHECK(stage(PipelineSchedule::kZeroBubbleH1, 0, 2, 3) == "F0 F1 I0 W0 F2 I1 W1 I2 W2");
  CHECK(stage(PipelineSchedule::kZeroBubbleH1, 1, 2, 3) == "F0 I0 F1 I1 W0 F2 I2 W1 W2");
  CHECK(stage(PipelineSchedule::kZeroBubbleH2, 0, 2, 4) == "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  CHECK(stage(PipelineSchedule::kZeroBubbleH2, 1, 2, 4) == "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

TEST_CASE("order: a V of two ranks goes there and back", "[unit][plan]") {
  // Rank 1 is at the turn: positions 1 and 2. Three forward passes would be planned for rank 0; there are two.
  CHECK(stage(PipelineSchedule::kZeroBubbleV, 0, 2, 2) ==
        "F0:0 F0:1 F1:0 I1:0 W1:0 F1:1 I1:1 W1:1 I0:0 W0:0 I0:1 W0:1");
  CHECK(stage(PipelineSchedule::kZeroBubbleV, 1, 2, 2) ==
        "F0:0 F1:0 F0:1 F1:1 I1:0 W1:0 I0:0 W0:0 I1:1 W1:1 I0:1 W0:1");
}

TEST_CASE("order: DualPipe of two ranks sends from both ends", "[unit][plan]") {
  // Of 4 micro-batches 0 and 1 start on rank 0, 2 and 3 on rank 1, which takes its own direction first.
  CHECK(stage(PipelineSchedule::kDualPipe, 0, 2, 4) == "F0:0 F1:2 F0:1 B1:2 F1:3+ B0:0 B1:3 I0:1 W0:1");
  CHECK(stage(PipelineSchedule::kDualPipe, 1, 2, 4) == "F1:2 F0:0 F1:3 B0:0 F0:1+ B1:2 B0:1 I1:3 W1:3");
}

TEST_CASE("order: joined, nothing stands before what it waits for", "[unit][plan]") {
  // 1F1B, 2 stages, 2 micro-batches. Stage 0 goes as far as it can, F0 F1; then stage 1, F0 B0 F1 B1; then B0 B1.
  const Pipeline two = pipeline(PipelineSchedule::kOneForwardOneBackward, 2, 2);
  const auto joined = order_of(two, all_stages(two)).value();
  CHECK(words(joined) == "F0 F1 F0 B0 F1 B1 B0 B1");
  for (const PipelineSchedule schedule : kSchedules) {
    const Pipeline of = pipeline(schedule, 4, 12);
    REQUIRE(check(of));
    const auto orders = all_stages(of);
    const std::vector<Slot> all = order_of(of, orders).value();
    const std::size_t positions = positions_of(of);
    constexpr std::size_t kNowhere = 1U << 30U;
    // By position and micro-batch: where forward, backward (of the input) and weights' pass stand.
    std::vector<std::array<std::size_t, 3>> place(positions * 12, {kNowhere, kNowhere, kNowhere});
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t q = position_of(of, {all[i].stage, all[i].part});
      auto& at = place[q * 12 + static_cast<std::size_t>(all[i].micro_batch)];
      const bool backward = all[i].kind == SlotKind::kBackward || all[i].kind == SlotKind::kBackwardInput;
      if (all[i].kind == SlotKind::kForward) at[0] = i;
      if (backward) at[1] = i;
      if (all[i].kind == SlotKind::kBackward || all[i].kind == SlotKind::kBackwardWeights) at[2] = i;
      if (all[i].paired) CHECK(all[i + 1].stage == all[i].stage);
    }
    for (std::size_t q = 0; q < positions; ++q) {
      for (std::size_t m = 0; m < 12; ++m) {
        const auto& at = place[q * 12 + m];
        CHECK(at[2] < kNowhere);
        CHECK(at[0] < at[1]);
        CHECK(at[1] <= at[2]);
        if (q > 0) CHECK(place[(q - 1) * 12 + m][0] < at[0]);
        if (q > 0) CHECK(at[1] < place[(q - 1) * 12 + m][1]);
      }
    }
    std::size_t passes = 0;
    for (const auto& one : orders) passes += one.size();
    CHECK(all.size() == passes);
  }
}

TEST_CASE("order: positions and their places are each other's inverse", "[unit][plan]") {
  for (const PipelineSchedule schedule : kSchedules) {
    const Pipeline of = pipeline(schedule, 4, 8);
    for (std::int64_t direction = 0; direction < directions_of(schedule); ++direction) {
      for (std::size_t q = 0; q < positions_of(of); ++q) CHECK(position_of(of, place_of(of, q, direction)) == q);
    }
  }
  // The turn of a V is on one rank; the second direction of DualPipe starts on the last.
  const Pipeline vee = pipeline(PipelineSchedule::kZeroBubbleV, 4, 8);
  CHECK(place_of(vee, 3) == Place{3, 0});
  CHECK(place_of(vee, 4) == Place{3, 1});
  CHECK(place_of(pipeline(PipelineSchedule::kDualPipe, 4, 8), 0, 1) == Place{3, 1});
  CHECK(place_of(pipeline(PipelineSchedule::kInterleaved, 4, 8), 5) == Place{1, 1});
}

TEST_CASE("order: micro-batches in flight", "[unit][plan]") {
  using enum PipelineSchedule;
  for (const std::size_t s : {0U, 1U, 2U, 3U}) {
    const auto left = static_cast<std::int64_t>(4 - s);
    CHECK(kept(kNone, s, 4, 12) == 1);
    CHECK(kept(kGpipe, s, 4, 12) == 12);
    CHECK(kept(kOneForwardOneBackward, s, 4, 12) == left);
    CHECK(kept(kPipeDream, s, 4, 12) == left);
    CHECK(kept(kZeroBubbleH1, s, 4, 12) == 4);
    CHECK(kept(kZeroBubbleH2, s, 4, 12) == 7);
    CHECK(kept(kZeroBubbleV, s, 4, 12) == 8);  // of half a stage each: as 1F1B
    CHECK(kept(kDualPipe, s, 4, 12) == 5);     // p + 1
    // Warm-up and one, of half a stage each: rank 0 p (1 + (p - 1) / (p v)) = 5.5 stages.
    CHECK(kept(kInterleaved, s, 4, 12) == 2 * (left - 1) + 4 + 1);
    for (const PipelineSchedule schedule : kSchedules) {
      for (const std::int64_t m : {8, 40}) CHECK(kept(schedule, s, 4, m) == walked(pipeline(schedule, 4, m), s));
    }
  }
  // Fewer micro-batches than a rank would keep.
  CHECK(kept(kOneForwardOneBackward, 0, 4, 2) == 2);
  CHECK(kept(kZeroBubbleH2, 0, 4, 5) == 5);
  CHECK(weight_versions(pipeline(kPipeDream, 4, 12), 1) == 3);
  CHECK(weight_versions(pipeline(kPipeDream2Bw, 4, 12), 1) == 2);
  CHECK(weight_versions(pipeline(kOneForwardOneBackward, 4, 12), 1) == 1);
}

TEST_CASE("order: what a schedule does not have is named", "[unit][plan]") {
  using enum PipelineSchedule;
  const auto refused = [](const Pipeline& of) {
    const auto sound = check(of);
    REQUIRE_FALSE(sound);
    CHECK(sound.error().code == ErrorCode::kInvalidArgument);
    return sound.error().message + " / " + sound.error().notes.front();
  };
  CHECK(refused({kInterleaved, 4, 2, 6}) ==
        "schedule interleaved of 4 stages does not have 6 micro-batches / valid: multiples of 4");
  CHECK(refused({kInterleaved, 4, 1, 8}) ==
        "schedule interleaved takes several parts per rank / state parallel.virtual_stages of 2 and more, or use "
        "schedule 1f1b");
  CHECK(refused({kOneForwardOneBackward, 4, 2, 8}) == "schedule 1f1b has one part per rank / use schedule interleaved");
  CHECK(refused({kZeroBubbleV, 4, 3, 8}) == "schedule zbv has two parts per rank / leave parallel.virtual_stages out");
  CHECK(refused({kDualPipe, 3, 1, 8}) == "schedule dualpipe of 3 stages / valid: even numbers");
  CHECK(refused({kDualPipe, 4, 1, 6}) ==
        "schedule dualpipe of 4 stages does not have 6 micro-batches / valid: even numbers from 8 on");
  CHECK(refused({kDualPipe, 2, 1, 5}) ==
        "schedule dualpipe of 2 stages does not have 5 micro-batches / valid: even numbers from 4 on");
  CHECK(
      refused({kPipeDream2Bw, 4, 1, 3}) ==
      "schedule pipedream-2bw of 4 stages does not have 3 micro-batches / two versions of the weights are enough from "
      "4 micro-batches on");
}

TEST_CASE("order: sequences that wait for each other are named", "[unit][plan]") {
  // Stage 0 wants micro-batch 0 back before it sends 1 on; stage 1 wants 1 before it gives 0 back.
  constexpr auto kF = SlotKind::kForward;
  constexpr auto kB = SlotKind::kBackward;
  const Pipeline two = pipeline(PipelineSchedule::kOneForwardOneBackward, 2, 2);
  using Slots = std::vector<Slot>;
  const std::vector<RankOrder> cyclic{
      {two, Slots{{0, 0, kF, false, 0}, {0, 0, kB, false, 0}, {0, 0, kF, false, 1}, {0, 0, kB, false, 1}}},
      {two, Slots{{1, 0, kF, false, 0}, {1, 0, kF, false, 1}, {1, 0, kB, false, 0}, {1, 0, kB, false, 1}}}};
  const auto joined = order_of(two, cyclic);
  REQUIRE_FALSE(joined);
  CHECK(joined.error().code == ErrorCode::kInvalidArgument);
  CHECK(joined.error().message ==
        "a cyclic order: each of these waits for another: backward 0 of stage 0, forward 1 of stage 1");
}

TEST_CASE("order: the middle of a rank's order repeats itself", "[unit][plan]") {
  // Rank 0 of 2: F0 F1 | B0 .. : of the first and the last micro-batch is no slot of it.
  const Pipeline two = pipeline(PipelineSchedule::kOneForwardOneBackward, 2, 6);
  CHECK(words(stage_order(two, 0)) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5");
  CHECK(RankOrder(two, 0).middle().first == 3);
  CHECK(RankOrder(two, 0).middle().end == 9);
  CHECK(period_of(pipeline(PipelineSchedule::kGpipe, 2, 6)).slots == 0);
  CHECK(RankOrder(pipeline(PipelineSchedule::kGpipe, 2, 6), 0).middle().end == 0);
}

TEST_CASE("order: what repeats itself is written once, and read as often as it comes", "[unit][plan]") {
  for (const PipelineSchedule schedule : kSchedules) {
    for (const std::int64_t stages : {1, 2, 4, 6, 16}) {
      for (const std::int64_t more : {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 31}) {
        for (const std::int64_t parts : {2, 5}) {
          if (parts > 2 && schedule != PipelineSchedule::kInterleaved) continue;
          Pipeline of = pipeline(schedule, stages, stages + more * stages + more % 2);
          if (schedule == PipelineSchedule::kInterleaved) of.virtual_stages = parts;
          if (!check(of)) continue;
          INFO(name_of(kPipelineSchedules, schedule) << ", " << stages << " stages, " << of.micro_batches);
          for (std::size_t s = 0; s < static_cast<std::size_t>(stages); ++s) {
            const std::vector<Slot> whole = stage_order(of, s);
            const RankOrder folded(of, s);
            REQUIRE(folded.size() == whole.size());
            for (std::size_t i = 0; i < whole.size(); ++i) REQUIRE(folded[i] == whole[i]);
            const RankOrder unfolded(of, whole);
            CHECK(folded.middle().first == unfolded.middle().first);
            CHECK(folded.middle().end == unfolded.middle().end);
          }
        }
      }
    }
  }
}

TEST_CASE("order: whole rounds of all ranks may be left out", "[unit][plan]") {
  for (const PipelineSchedule schedule : kSchedules) {
    INFO(name_of(kPipelineSchedules, schedule));
    const Pipeline of = pipeline(schedule, 4, 96);
    const auto orders = all_stages(of);
    const std::vector<Slot> all = order_of(of, orders).value();
    JoinedOrder joined(of, orders);
    std::vector<std::size_t> taken(4);  // slots of a rank, those left out with them
    std::size_t visited = 0;
    std::size_t marked = 0;  // slots visited when it first said something
    for (;;) {
      if (const auto again = joined.again()) {
        if (again->times == 0) marked = visited;
        if (again->times > 0) {
          // What comes is what came since then, later.
          const std::size_t round = visited - marked;
          for (std::size_t i = 0; i < round * static_cast<std::size_t>(again->times); ++i) {
            Slot before = all[visited + i - round];
            before.micro_batch += again->micro_batches;
            REQUIRE(before == all[visited + i]);
          }
          for (std::size_t& rank : taken) rank += round / 4 * static_cast<std::size_t>(again->times);
          joined.skip(again->times);
        }
      }
      const auto slots = joined.next().value();
      if (slots.empty()) break;
      for (const Slot& slot : slots) {
        REQUIRE(slot == orders[slot.stage][taken[slot.stage]]);
        ++taken[slot.stage];
        ++visited;
      }
    }
    for (std::size_t s = 0; s < 4; ++s) CHECK(taken[s] == orders[s].size());
    const bool repeats = period_of(of).slots > 0;
    CAPTURE(visited, all.size(), marked);
    CHECK((visited < all.size() / 2) == repeats);
  }
}
