// Steps of models that are split over ranks, laid out by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/plan/lower.h"
#include "unit/step/setting.h"

using namespace ddlsim;
using ddlsim::test::alike_layers;
using ddlsim::test::by_hand;
using plan::Moment;
using plan::PipelineSchedule;
using plan::Row;
using plan::RowKind;
using primitives::CollectiveOp;

namespace {

constexpr Time kF = milliseconds(1);
constexpr Time kB = milliseconds(2);

plan::Job job_of(std::shared_ptr<const workload::Model> model, std::int64_t gpus) {
  plan::Job job;
  job.model = std::move(model);
  job.cluster.gpus_per_node = job.cluster.node.gpus = gpus;
  return job;
}

plan::StepPlan pipeline(PipelineSchedule schedule, std::int64_t stages, std::int64_t micro_batches,
                        std::int64_t replicas = 1) {
  plan::Job job = job_of(alike_layers(static_cast<std::size_t>(stages)), stages * replicas);
  job.parallel.pipeline = stages;
  job.parallel.schedule = schedule;
  job.strategy.accumulation = micro_batches;
  return plan::lower(job).value();
}

/// Sends take so long, nothing else anything.
test::Once sends(Time time) {
  return [time](const Row& row) { return row.op == CollectiveOp::kSendRecv ? time : Time::zero(); };
}

answer::Timeline laid(const cost::PricedStep& step) { return step::schedule(step).value(); }

/// The step, in ms, after checking that its parts and its path are it.
double ms(const answer::Timeline& line) {
  CHECK(line.parts.step().in(milliseconds) == Approx(line.step.in(milliseconds)));
  Time path;
  for (const answer::Segment& segment : line.critical_path) path += segment.time;
  CHECK(path.in(milliseconds) == Approx(line.step.in(milliseconds)));
  return line.step.in(milliseconds);
}

constexpr auto k1f1b = PipelineSchedule::kOneForwardOneBackward;
constexpr auto kGpipe = PipelineSchedule::kGpipe;

}  // namespace

TEST_CASE("slots: two stages, four micro-batches, sends for nothing", "[unit][step]") {
  // (m + p - 1)(F + B) = 5 * 3 ms; the first stage waits 3 of them for the other.
  for (const PipelineSchedule schedule : {k1f1b, kGpipe}) {
    const answer::Timeline line = laid(by_hand(pipeline(schedule, 2, 4), kF, kB, sends(Time::zero())));
    CHECK(ms(line) == Approx(15));
    CHECK(line.parts.bubble.in(milliseconds) == Approx(3));
    CHECK(line.parts.compute.in(milliseconds) == Approx(12));
    CHECK(line.parts.communication_exposed == Time::zero());
  }
}

TEST_CASE("slots: 1F1B waits for sends in every round, GPipe at its ends", "[unit][step]") {
  // Half a millisecond each way. Stage 0 F0 0..1, F1 1..2; stage 1 F0 1.5..2.5, B0 ..4.5, F1 ..5.5, B1 ..7.5;
  // stage 0 B0 5..7, F2 ..8, B1 8..10, F3 ..11; stage 1 F2 8.5..9.5, B2 ..11.5, F3 ..12.5, B3 ..14.5;
  // stage 0 B2 12..14, B3 15..17.
  const answer::Timeline one = laid(by_hand(pipeline(k1f1b, 2, 4), kF, kB, sends(milliseconds(0.5))));
  CHECK(ms(one) == Approx(17));
  // It waits 5 ms; without sends a step takes (4 + 1) 3 ms, of which 3 are bubble.
  CHECK(one.parts.bubble.in(milliseconds) == Approx(3));
  CHECK(one.parts.communication_exposed.in(milliseconds) == Approx(2));
  CHECK(one.parts.communication.in(milliseconds) == Approx(4 * 0.5));  // of either stage
  // Stage 1 F0..F3 1.5..5.5, B0..B3 ..13.5; stage 0 has B0 at 8 and then all in a row: ..16.
  CHECK(ms(laid(by_hand(pipeline(kGpipe, 2, 4), kF, kB, sends(milliseconds(0.5))))) == Approx(16));
  // Sends longer than passes queue on their way. GPipe, 3 ms each: F at stage 1 arrives 4, 7, 10, 13 and runs ..14;
  // B0..B3 end 16, 18, 20, 22; they are back at 19, 22, 25, 28: ..30.
  CHECK(ms(laid(by_hand(pipeline(kGpipe, 2, 4), kF, kB, sends(milliseconds(3))))) == Approx(30));
  // Where 2.9 of them are a long wire's, the next one leaves meanwhile: F arrives 4, 5, 6, 7 and runs ..8; B0..B3 end
  // 10, 12, 14, 16 and are back at 13, 15, 17, 19: ..21.
  cost::PricedStep far = by_hand(pipeline(kGpipe, 2, 4), kF, kB, sends(milliseconds(3)));
  for (cost::PricedRow& row : far.rows) {
    if (row.once > Time::zero()) row.in_flight = milliseconds(2.9);
  }
  CHECK(ms(laid(far)) == Approx(21));
}

TEST_CASE("slots: a stage of two layers sets the pace", "[unit][step]") {
  // Three layers in two stages, the second with two: F 1 and 2, B 2 and 4. GPipe, m = 2: stage 1 F 1..5, B0 ..9, B1
  // ..13; stage 0 B0 9..11, B1 13..15. Stage 1 is the busier: it waits 1 ms for its first input, and 2 for stage 0's
  // end.
  plan::Job job = job_of(alike_layers(3), 2);
  job.parallel.pipeline = 2;
  job.parallel.schedule = kGpipe;
  job.parallel.cuts = {1};
  job.strategy.accumulation = std::int64_t{2};
  const answer::Timeline line = laid(by_hand(plan::lower(job).value(), kF, kB, sends(Time::zero())));
  CHECK(ms(line) == Approx(15));
  CHECK(line.rank_class == 1);
  CHECK(line.parts.bubble.in(milliseconds) == Approx(3));
}

TEST_CASE("slots: replicas of a pipeline sum gradients after their last backward", "[unit][step]") {
  // Without sends stage 1 ends at 13 and stage 0 at 15; 3 ms of all-reduce each, then 1 of update: 19.
  plan::StepPlan plan = pipeline(k1f1b, 2, 4, 2);
  cost::PricedStep step = by_hand(std::move(plan), kF, kB, [](const Row& row) {
    return row.op == CollectiveOp::kAllReduce ? milliseconds(3) : Time::zero();
  });
  for (cost::PricedClass& one : step.classes) one.update = milliseconds(1);
  const answer::Timeline line = laid(step);
  CHECK(ms(line) == Approx(19));
  CHECK(line.parts.communication_exposed.in(milliseconds) == Approx(3));
  CHECK(line.parts.memory.in(milliseconds) == Approx(1));
  // Stage 1 alone with 6 ms: 13 + 6 + 1 = 20, more than 15 + 3 + 1.
  for (std::size_t r = 0; r < step.rows.size(); ++r) {
    if (step.rows[r].once > Time::zero() && step.plan->rows[r].rank_class == 1) step.rows[r].once = milliseconds(6);
  }
  CHECK(ms(laid(step)) == Approx(20));
}

TEST_CASE("slots: zero 3 gathers one layer ahead", "[unit][step]") {
  // Four layers on four GPUs; a gather takes 1.5 ms, a scatter 1. On the channel and the GPU:
  //   G0 0..1.5  G1 ..3  F0 1.5..2.5  G2 3..4.5  F1 3..4  G3 4.5..6  F2 4.5..5.5  F3 6..7
  //   G2 7..8.5  B3 7..9  G1 9..10.5  S3 ..11.5  B2 9..11  G0 11.5..13  S2 ..14  B1 11..13  S1 14..15  B0 13..15
  //   S0 15..16  update ..16.5
  // The last layer's weights are still there. The GPU waits 1.5 + 0.5 + 0.5 + 0.5 forward, 1 before the update.
  plan::Job job = job_of(alike_layers(4), 4);
  job.parallel.zero = 3;
  const auto once = [](const Row& row) {
    return row.op == CollectiveOp::kAllGather ? milliseconds(1.5) : milliseconds(1);
  };
  cost::PricedStep step = by_hand(plan::lower(job).value(), kF, kB, once);
  step.classes[0].update = milliseconds(0.5);
  const answer::Timeline line = laid(step);
  CHECK(ms(line) == Approx(16.5));
  CHECK(line.parts.communication_exposed.in(milliseconds) == Approx(4));
  CHECK(line.parts.communication.in(milliseconds) == Approx(7 * 1.5 + 4 * 1));
  // A fifth of the GPU held: of 14.5 ms on the channel the first gather and the last scatter are alone, 12 take 2.4
  // from kernels, of which 1.5 would have been waiting. A tenth takes less than that.
  step.sm_share = 0.2;
  const answer::Timeline slowed = laid(step);
  CHECK(slowed.contention.in(milliseconds) == Approx(0.9));
  CHECK(slowed.parts.other.in(milliseconds) == Approx(0.9));
  CHECK(ms(slowed) == Approx(17.4));
  step.sm_share = 0.1;
  CHECK(ms(laid(step)) == Approx(16.5));
  // All in turn: 12 of kernels, 14.5 of communication, 0.5.
  job.overlap = plan::Overlap::kNone;
  step = by_hand(plan::lower(job).value(), kF, kB, once);
  step.classes[0].update = milliseconds(0.5);
  CHECK(ms(laid(step)) == Approx(27));
  // Two passes of zero 3 gather and scatter twice.
  job.strategy.accumulation = std::int64_t{2};
  step = by_hand(plan::lower(job).value(), kF, kB, once);
  CHECK(ms(laid(step)) == Approx(53));
}

TEST_CASE("slots: zero 1 scatters once in a step, and gathers what was updated", "[unit][step]") {
  // Two layers, two passes: F 0..2, B ..6, F ..8, B1 ..10, B0 ..12; S1 10..11, S0 12..13; update ..13.5, G0 ..15, G1
  // ..16.5.
  plan::Job job = job_of(alike_layers(2), 2);
  job.parallel.zero = 1;
  job.strategy.grouping = plan::Grouping::kPerTensor;
  job.strategy.accumulation = std::int64_t{2};
  cost::PricedStep step = by_hand(plan::lower(job).value(), kF, kB, [](const Row& row) {
    return row.op == CollectiveOp::kAllGather ? milliseconds(1.5) : milliseconds(1);
  });
  step.classes[0].update = milliseconds(0.5);
  CHECK(ms(laid(step)) == Approx(16.5));
  CHECK(laid(step).parts.communication_exposed.in(milliseconds) == Approx(4));
  // Zero 2 scatters in both: S1 4..5, S0 6..7 as well, hidden.
  job.parallel.zero = 2;
  step = by_hand(plan::lower(job).value(), kF, kB, [](const Row&) { return milliseconds(1); });
  CHECK(ms(laid(step)) == Approx(15));
  CHECK(laid(step).parts.communication.in(milliseconds) == Approx(6));
}

TEST_CASE("slots: an offloaded optimizer", "[unit][step]") {
  // Two layers: F ..2, B1 ..4, its copy 4..7, B0 ..6, its copy 7..10; the host 5 ms, weights back 4: 19.
  plan::Job job = job_of(alike_layers(2), 1);
  job.parallel.offload_optimizer = true;
  const answer::Timeline line = laid(by_hand(plan::lower(job).value(), kF, kB, [](const Row& row) {
    if (row.kind == RowKind::kCopy) return milliseconds(3);
    return row.kind == RowKind::kHost ? milliseconds(5) : milliseconds(4);
  }));
  CHECK(ms(line) == Approx(19));
  CHECK(line.parts.communication_exposed.in(milliseconds) == Approx(8));  // of copies
  CHECK(line.parts.host_update.in(milliseconds) == Approx(5));
  CHECK(line.parts.other.in(milliseconds) == Approx(5));
  CHECK(line.parts.step().in(milliseconds) == Approx(19));
}

TEST_CASE("slots: the CPU issues kernels one by one, and goes on while the GPU waits", "[unit][step]") {
  // Offload of two layers with copies for nothing, issued every 4 ms: the kernels end at 5, 9, 14, 18.
  plan::Job job = job_of(alike_layers(2), 1);
  job.parallel.offload_optimizer = true;
  cost::PricedStep step = by_hand(plan::lower(job).value(), kF, kB, [](const Row&) { return Time::zero(); });
  step.launch_interval = milliseconds(4);
  const answer::Timeline line = laid(step);
  CHECK(ms(line) == Approx(18));
  CHECK(line.parts.launch.in(milliseconds) == Approx(12));
}

TEST_CASE("slots: input that takes longer than the step is exposed; all wait for the slowest", "[unit][step]") {
  cost::PricedStep step = by_hand(pipeline(k1f1b, 2, 4), kF, kB, sends(Time::zero()));
  step.input = milliseconds(5);  // of one pass
  CHECK(ms(laid(step)) == Approx(20));
  CHECK(laid(step).parts.input_exposed.in(milliseconds) == Approx(5));
  step.input = Time::zero();
  step.wait_for_slowest = 0.1;  // of the 12 ms that a stage computes in four passes: 1.2 ms / sqrt(4)
  CHECK(ms(laid(step)) == Approx(15.6));
}

TEST_CASE("slots: what runs beside its own layer's kernels holds up by the rest alone", "[unit][step]") {
  // Two layers, F 1 ms and B 2 ms each: 6 ms, and a row of 1 ms after the first's forward.
  plan::StepPlan plan = plan::lower(job_of(alike_layers(2), 1)).value();
  plan.folds = false;
  const plan::Point at{Moment::kForward, 0};
  plan.rows = {{.ready = at, .needed = at, .in_the_way = true, .every_pass = true}};
  const auto step_with = [&](Time hidden) {
    cost::PricedStep step = by_hand(plan, kF, kB, [](const Row&) { return milliseconds(1); });
    step.rows[0].hidden = hidden;
    return laid(step);
  };
  CHECK(ms(step_with(Time::zero())) == Approx(7));
  CHECK(ms(step_with(milliseconds(0.75))) == Approx(6.25));
  CHECK(step_with(milliseconds(0.75)).parts.communication_exposed.in(milliseconds) == Approx(0.25));
  CHECK(step_with(milliseconds(0.75)).parts.communication.in(milliseconds) == Approx(1));
  CHECK(ms(step_with(milliseconds(5))) == Approx(6));
}

TEST_CASE("slots: a row that comes after another", "[unit][step]") {
  // B1 ends at 4: a scatter 4..5, the copies' sum of 2 ms on a channel of its own 5..7; alone it would be 4..6.
  plan::StepPlan plan = plan::lower(job_of(alike_layers(2), 1)).value();
  plan.folds = false;
  plan.groups.push_back({.role = plan::GroupRole::kCopies});
  const plan::Point ready{Moment::kBackward, 1};
  const plan::Point needed{Moment::kUpdate, 0};
  plan.rows = {{.op = CollectiveOp::kReduceScatter, .ready = ready, .needed = needed, .every_pass = true},
               {.ready = ready, .needed = needed, .after = 0, .group = 1, .every_pass = true}};
  const auto once = [](const Row& row) { return milliseconds(row.op == CollectiveOp::kAllReduce ? 2 : 1); };
  CHECK(ms(laid(by_hand(plan, kF, kB, once))) == Approx(7));
  plan.rows[1].after = plan::kNoRow;
  CHECK(ms(laid(by_hand(plan, kF, kB, once))) == Approx(6));
}

TEST_CASE("slots: weights that were updated are gathered beside the first forward pass", "[unit][step]") {
  // Two layers, two passes; 3 ms from the start on: F0 0..1, F1 3..4, B 4..8, F 8..10, B 10..14.
  plan::Job job = job_of(alike_layers(2), 1);
  job.strategy.accumulation = std::int64_t{2};
  plan::StepPlan plan = plan::lower(job).value();
  plan.folds = false;
  plan.rows = {{.op = CollectiveOp::kAllGather, .ready = {Moment::kBegin, 0}, .needed = {Moment::kForward, 1}}};
  const answer::Timeline line = laid(by_hand(plan, kF, kB, [](const Row&) { return milliseconds(3); }));
  CHECK(ms(line) == Approx(14));
  CHECK(line.parts.communication_exposed.in(milliseconds) == Approx(2));
  CHECK(line.parts.communication.in(milliseconds) == Approx(3));
}

TEST_CASE("slots: a stage gathers its weights before its first input is there", "[unit][step]") {
  // Two stages of two data ranks, one pass; a gather takes 1.5 ms, a scatter 1. Both stages gather 0..1.5; stage 0
  // F 1.5..2.5, stage 1 F 2.5..3.5, B ..5.5, stage 0 B 5.5..7.5, scatter ..8.5. Zero 1 gathers what was updated.
  const auto once = [](const Row& row) {
    if (row.op == CollectiveOp::kSendRecv) return Time::zero();
    return row.op == CollectiveOp::kAllGather ? milliseconds(1.5) : milliseconds(1);
  };
  plan::Job job = job_of(alike_layers(2), 4);
  job.parallel.pipeline = 2;
  job.parallel.overlap_gather = true;
  for (const int zero : {1, 3}) {
    job.parallel.zero = zero;
    const answer::Timeline line = laid(by_hand(plan::lower(job).value(), kF, kB, once));
    CHECK(ms(line) == Approx(8.5));
    CHECK(line.parts.bubble.in(milliseconds) == Approx(3));
    CHECK(line.parts.communication_exposed.in(milliseconds) == Approx(2.5));
  }
  // In the way: stage 1 sends before it stands still for its scatter, 5.5..6.5, and stage 0 runs meanwhile.
  job.overlap = plan::Overlap::kNone;
  CHECK(ms(laid(by_hand(plan::lower(job).value(), kF, kB, once))) == Approx(8.5));
}

TEST_CASE("slots: who loses most to collectives may have waited for others", "[unit][step]") {
  // Two stages of two data ranks, four passes: stage 0 works until 15 ms, stage 1 from 1 to 13, and scatters 1 ms after
  // every pass, the last one alone: until 14. The other three hold half of the GPU, 1.5 ms: 15.5.
  plan::Job job = job_of(alike_layers(2), 4);
  job.parallel.pipeline = 2;
  job.parallel.zero = 2;
  job.strategy.accumulation.set(4);
  const auto once = [](const Row& row) {
    return row.op == CollectiveOp::kReduceScatter && row.rank_class == 1 ? milliseconds(1) : Time::zero();
  };
  cost::PricedStep step = by_hand(plan::lower(job).value(), kF, kB, once);
  CHECK(ms(laid(step)) == Approx(15));
  step.sm_share = 0.5;
  const answer::Timeline line = laid(step);
  CHECK(line.rank_class == 1);
  CHECK(ms(line) == Approx(15.5));
  CHECK(line.contention.in(milliseconds) == Approx(0.5));
  CHECK(line.parts.bubble.in(milliseconds) == Approx(2));
}

TEST_CASE("slots: messages of neighbours queue at the port of the server between them", "[unit][step]") {
  // Three stages on a server each, three micro-batches, sends of 2 ms that fill a port. Stage 1: F0 3..4, F1 5..6, B0
  // 11..13, whose gradient leaves 13..15, F2 13..14, sent 14..16 alone: stage 2 F2 ..17, B2 ..19, sent ..21; stage 1 B2
  // ..23, sent ..25; stage 0 B2 ..27. On one port the second waits for the first, 15..17, and all that comes after it 1
  // ms as well: 28.
  plan::Job job = job_of(alike_layers(3), 1);
  job.cluster.nodes = 3;
  job.parallel.pipeline = 3;
  job.strategy.accumulation = std::int64_t{3};
  cost::PricedStep step = by_hand(plan::lower(job).value(), kF, kB, sends(milliseconds(2)));
  CHECK(ms(laid(step)) == Approx(27));
  const auto fill_ports = [&] {
    for (std::size_t r = 0; r < step.rows.size(); ++r) {
      if (step.plan->rows[r].op == CollectiveOp::kSendRecv) step.rows[r].network = step.rows[r].once;
    }
  };
  fill_ports();
  const answer::Timeline line = laid(step);
  CHECK(ms(line) == Approx(28));
  // What it waits for messages is none of the pipeline's bubble, (p - 1)(F + B).
  CHECK(line.parts.bubble.in(milliseconds) == Approx(6));
  CHECK(line.parts.communication_exposed.in(milliseconds) == Approx(13));
  // Sends of half a millisecond never meet: nothing moves.
  job.strategy.accumulation = std::int64_t{60};
  step = by_hand(plan::lower(job).value(), kF, kB, sends(milliseconds(0.5)));
  const Time apart = laid(step).step;
  fill_ports();
  CHECK(laid(step).step == apart);
}
