#include "ddlsim/plan/order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

using namespace ddlsim;
using namespace ddlsim::plan;

namespace {

/// "F0 F1 B0": the passes of one stage.
std::string words(const std::vector<Slot>& slots) {
  std::string text;
  for (const Slot& slot : slots) {
    text += (text.empty() ? "" : " ") + std::string(slot.forward ? "F" : "B") + std::to_string(slot.micro_batch);
  }
  return text;
}

std::string stage(PipelineSchedule schedule, std::size_t stage, std::size_t stages, std::int64_t micro_batches) {
  return words(stage_order(schedule, stage, stages, micro_batches));
}

std::vector<std::vector<Slot>> all_stages(PipelineSchedule schedule, std::size_t stages, std::int64_t micro_batches) {
  std::vector<std::vector<Slot>> orders;
  for (std::size_t s = 0; s < stages; ++s) orders.push_back(stage_order(schedule, s, stages, micro_batches));
  return orders;
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

TEST_CASE("order: GPipe runs all forward passes first, on every stage", "[unit][plan]") {
  for (const std::size_t s : {std::size_t{0}, std::size_t{1}}) {
    CHECK(stage(PipelineSchedule::kGpipe, s, 2, 4) == "F0 F1 F2 F3 B0 B1 B2 B3");
  }
}

TEST_CASE("order: joined, nothing stands before what it waits for", "[unit][plan]") {
  // 1F1B, 2 stages, 2 micro-batches. Stage 0 goes as far as it can, F0 F1; then stage 1, F0 B0 F1 B1; then B0 B1.
  const auto joined = order_of(all_stages(PipelineSchedule::kOneForwardOneBackward, 2, 2)).value();
  CHECK(joined == std::vector<Slot>{{0, true, 0},
                                    {0, true, 1},
                                    {1, true, 0},
                                    {1, false, 0},
                                    {1, true, 1},
                                    {1, false, 1},
                                    {0, false, 0},
                                    {0, false, 1}});
  for (const PipelineSchedule schedule : {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward}) {
    const auto orders = all_stages(schedule, 4, 7);
    const std::vector<Slot> all = order_of(orders).value();
    REQUIRE(all.size() == 4 * 14);
    const auto place = [&](const Slot& slot) { return std::find(all.begin(), all.end(), slot) - all.begin(); };
    for (std::size_t s = 0; s < 4; ++s) {
      for (std::int64_t m = 0; m < 7; ++m) {
        CHECK(place({s, true, m}) < place({s, false, m}));
        if (s > 0) CHECK(place({s - 1, true, m}) < place({s, true, m}));
        if (s > 0) CHECK(place({s, false, m}) < place({s - 1, false, m}));
      }
      // And every stage keeps its own order.
      CHECK(std::is_sorted(orders[s].begin(), orders[s].end(),
                           [&](const Slot& a, const Slot& b) { return place(a) < place(b); }));
    }
  }
}

TEST_CASE("order: sequences that wait for each other are named", "[unit][plan]") {
  // Stage 0 wants micro-batch 0 back before it sends 1 on; stage 1 wants 1 before it gives 0 back.
  const std::vector<std::vector<Slot>> cyclic{{{0, true, 0}, {0, false, 0}, {0, true, 1}, {0, false, 1}},
                                              {{1, true, 0}, {1, true, 1}, {1, false, 0}, {1, false, 1}}};
  const auto joined = order_of(cyclic);
  REQUIRE_FALSE(joined);
  CHECK(joined.error().code == ErrorCode::kInvalidArgument);
  CHECK(joined.error().message ==
        "a cyclic order: each of these waits for another: backward 0 of stage 0, forward 1 of stage 1");
}
