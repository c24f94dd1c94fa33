// Schedules of pipelines, against the closed forms of plan/order.h and by hand.
#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/order.h"
#include "unit/step/setting.h"

using namespace ddlsim;
using ddlsim::test::alike_layers;
using ddlsim::test::by_hand;
using plan::PipelineSchedule;
using plan::Row;
using primitives::CollectiveOp;
using enum plan::PipelineSchedule;

namespace {

/// One layer for every part, so many replicas.
plan::Job job_of(PipelineSchedule schedule, std::int64_t stages, std::int64_t micro_batches, std::int64_t parts = 1,
                 std::int64_t replicas = 1) {
  plan::Job job;
  job.parallel.pipeline = stages;
  job.parallel.schedule = schedule;
  if (schedule == kInterleaved) job.parallel.virtual_stages = parts;
  job.model = alike_layers(static_cast<std::size_t>(stages * parts));
  job.strategy.accumulation = micro_batches;
  job.cluster.gpus_per_node = job.cluster.node.gpus = stages * replicas;
  return job;
}

/// Milliseconds of a stage's passes; a rank's parts share them.
struct Passes {
  double forward = 1;
  double input = 1;
  double weights = 1;
  double sends = 0;
};

answer::Timeline laid(const plan::Job& job, const Passes& passes, std::int64_t parts) {
  const auto each = static_cast<double>(parts);
  const auto sends = [&](const Row& row) {
    return row.op == CollectiveOp::kSendRecv ? milliseconds(passes.sends) : Time::zero();
  };
  const auto line = step::schedule(by_hand(plan::lower(job).value(), milliseconds(passes.forward / each),
                                           milliseconds((passes.input + passes.weights) / each), sends,
                                           milliseconds(passes.weights / each)))
                        .value();
  CHECK(line.parts.step().in(milliseconds) == Approx(line.step.in(milliseconds)));
  Time path;
  for (const answer::Segment& segment : line.critical_path) path += segment.time;
  CHECK(path.in(milliseconds) == Approx(line.step.in(milliseconds)));
  return line;
}

/// What a step takes beyond a rank's own work.
double bubble(PipelineSchedule schedule, std::int64_t stages, std::int64_t micro_batches, const Passes& passes,
              std::int64_t parts = 1) {
  const answer::Timeline line = laid(job_of(schedule, stages, micro_batches, parts), passes, parts);
  const double work = static_cast<double>(micro_batches) * (passes.forward + passes.input + passes.weights);
  return line.step.in(milliseconds)-work;
}

}  // namespace

TEST_CASE("pipelines: bubbles of equal stages are the closed forms", "[unit][step]") {
  for (const Passes t : {Passes{1, 1, 1}, Passes{1, 1.2, 0.9}, Passes{1, 1.5, 0.7}}) {
    const double all = t.forward + t.input + t.weights;
    for (const std::int64_t p : {2, 4, 8}) {
      const auto before = static_cast<double>(p - 1);
      for (const std::int64_t m : {2 * p, 4 * p}) {
        CHECK(bubble(kNone, p, m, t) == Approx(before * all * static_cast<double>(m)).epsilon(1e-12));
        CHECK(bubble(kGpipe, p, m, t) == Approx(before * all).epsilon(1e-12));
        CHECK(bubble(kOneForwardOneBackward, p, m, t) == Approx(before * all).epsilon(1e-12));
        for (const std::int64_t v : {2, 3}) {
          CHECK(bubble(kInterleaved, p, m, t, v) == Approx(before * all / static_cast<double>(v)).epsilon(1e-12));
        }
        CHECK(bubble(kZeroBubbleH1, p, m, t) == Approx(before * (t.forward + t.input - t.weights)).epsilon(1e-12));
        CHECK(bubble(kZeroBubbleH2, p, m, t) ==
              Approx(before * (t.forward + t.input - 2 * t.weights)).epsilon(1e-12).margin(1e-9));
        CHECK(bubble(kPipeDream, p, m, t) == Approx(0).margin(1e-9));
        CHECK(bubble(kPipeDream2Bw, p, m, t) == Approx(0).margin(1e-9));
      }
    }
  }
}

TEST_CASE("pipelines: ZBV and DualPipe reach the published bubbles where F = I = W", "[unit][step]") {
  const Passes t{1, 1, 1};
  for (const std::int64_t p : {2, 4, 8}) {
    for (const std::int64_t m : {2 * p, 6 * p}) {
      CHECK(bubble(kZeroBubbleV, p, m, t, 2) == Approx(0).margin(1e-9));
      // (p / 2 - 1) (F&B + B - 3 W) = 2 (p / 2 - 1). A rank has two stages and half of the micro-batches for each.
      CHECK(bubble(kDualPipe, p, m, t) == Approx(static_cast<double>(p / 2 - 1) * 2).margin(1e-9));
    }
  }
  // Elsewhere: four ranks, by a step-by-step recurrence of the same order in another program.
  CHECK(bubble(kZeroBubbleV, 4, 16, {1, 1.2, 0.9}, 2) == Approx(0.9).epsilon(1e-9));
  CHECK(bubble(kDualPipe, 4, 16, {1, 1.2, 0.9}) == Approx(2.3).epsilon(1e-9));
  CHECK(bubble(kDualPipe, 8, 24, {1, 1.5, 0.7}) == Approx(8.9).epsilon(1e-9));
}

TEST_CASE("pipelines: where weights' passes are long, H1 ends when the last rank does", "[unit][step]") {
  // I < W: rank 3 starts 3 F late and has no time to lose.
  CHECK(bubble(kZeroBubbleH1, 4, 16, {1, 0.9, 1.1}) == Approx(3));
  CHECK(bubble(kZeroBubbleH2, 4, 16, {1, 0.9, 1.1}) == Approx(0).margin(1e-9));
}

TEST_CASE("pipelines: by hand, two ranks", "[unit][step]") {
  // Without overlap of stages: 3 micro-batches, each 2 (F + B) = 6.
  const Passes t{1, 1, 1};
  CHECK(laid(job_of(kNone, 2, 3), t, 1).step.in(milliseconds) == Approx(18));
  // ZB-H1, 3 micro-batches: rank 0 F 0..1 ..2, rank 1 F0 1..2 I0 ..3; rank 0 I0 3..4 W0 ..5 F2 ..6; rank 1 F1 3..4
  // I1 ..5 W0 ..6 F2 ..7 I2 ..8 W1 ..9 W2 ..10; rank 0 I1 6..7 W1 ..8 I2 ..9 W2 ..10.
  const answer::Timeline h1 = laid(job_of(kZeroBubbleH1, 2, 3), t, 1);
  CHECK(h1.step.in(milliseconds) == Approx(10));
  CHECK(h1.parts.bubble.in(milliseconds) == Approx(1));
  // A rank that goes on by itself: rank 1 runs 1..10 in either case, 9 ms of work.
  CHECK(laid(job_of(kZeroBubbleH2, 2, 3), t, 1).step.in(milliseconds) == Approx(9));
}

TEST_CASE("pipelines: sends that ranks wait for", "[unit][step]") {
  // 1F1B, 2 ranks, 2 micro-batches, F = 1, B = 2, 0.5 ms a send that stops its sender: rank 0 F0 0..1 sent ..1.5, F1
  // ..2.5 sent ..3; rank 1 F0 1.5..2.5 B0 ..4.5 sent ..5 F1 ..6 B1 ..8 sent ..8.5; rank 0 B0 5..7 B1 8.5..10.5.
  plan::Job job = job_of(kOneForwardOneBackward, 2, 2);
  job.parallel.overlap_p2p = false;
  const answer::Timeline waited = laid(job, {1, 1, 1, 0.5}, 1);
  CHECK(waited.step.in(milliseconds) == Approx(10.5));
  // Rank 0 sends for 1 ms and waits for 3.5: 3 without sends, (2 + 1) 3 ms in all.
  CHECK(waited.parts.communication_exposed.in(milliseconds) == Approx(1.5));
  CHECK(waited.parts.bubble.in(milliseconds) == Approx(3));
  // Beside the work: F1 ends at 2; rank 1 B0 ..4.5 F1 ..5.5 B1 ..7.5; rank 0 B0 5..7 B1 8..10.
  job.parallel.overlap_p2p = true;
  CHECK(laid(job, {1, 1, 1, 0.5}, 1).step.in(milliseconds) == Approx(10));
  // Interleaved sends v times as much: 2 ranks, 2 parts: three boundaries instead of one, there and back.
  const auto sends = [](const plan::StepPlan& plan) {
    std::size_t count = 0;
    for (const Row& row : plan.rows) count += row.op == CollectiveOp::kSendRecv ? 1 : 0;
    return count;
  };
  CHECK(sends(plan::lower(job).value()) == 2);
  CHECK(sends(plan::lower(job_of(kInterleaved, 2, 2, 2)).value()) == 6);
  CHECK(sends(plan::lower(job_of(kZeroBubbleV, 2, 2, 2)).value()) == 4);  // the turn is on one rank
  CHECK(sends(plan::lower(job_of(kDualPipe, 2, 4)).value()) == 4);
}

TEST_CASE("pipelines: PipeDream takes what its slowest rank, circle or channel does", "[unit][step]") {
  // F + B = 3. With sends of 0.5 two neighbours and their sends there and back take 3 + 3 + 1 for two micro-batches.
  const answer::Timeline circle = laid(job_of(kPipeDream, 2, 4), {1, 1, 1, 0.5}, 1);
  CHECK(circle.step.in(milliseconds) == Approx(4 * 3.5));
  CHECK(circle.forward.in(milliseconds) == Approx(4));
  CHECK(circle.backward.in(milliseconds) == Approx(8));
  CHECK(circle.parts.launch.in(milliseconds) == Approx(0).margin(1e-9));
  CHECK(circle.parts.bubble.in(milliseconds) == Approx(4 * 0.5));  // waiting for the neighbour
  // As 1F1B has it, for ever: 30 micro-batches more take so much more (2, 3 and 5 ranks: whole turns of their circle).
  const auto steps = [](PipelineSchedule schedule, std::int64_t p, std::int64_t m) {
    return laid(job_of(schedule, p, m), {1, 1, 1, 0.5}, 1).step.in(milliseconds);
  };
  for (const std::int64_t p : {2, 3, 5}) {
    const double more = steps(kOneForwardOneBackward, p, 90) - steps(kOneForwardOneBackward, p, 60);
    CHECK(more == Approx(steps(kPipeDream, p, 30)));
  }
  // Two replicas: PipeDream sums gradients with every micro-batch, 2BW once a step; both beside their kernels.
  for (const auto& [schedule, exchange, step] :
       {std::tuple{kPipeDream, 2.0, 12.0}, std::tuple{kPipeDream, 4.0, 16.0}, std::tuple{kPipeDream2Bw, 4.0, 12.0},
        std::tuple{kPipeDream2Bw, 15.0, 15.0}}) {
    const plan::Job job = job_of(schedule, 2, 4, 1, 2);
    const double each = exchange;
    const auto line =
        step::schedule(by_hand(plan::lower(job).value(), milliseconds(1), milliseconds(2), [&](const Row& row) {
          const bool sum = row.op == CollectiveOp::kAllReduce;
          return sum ? milliseconds(each) : Time::zero();
        })).value();
    CHECK(line.step.in(milliseconds) == Approx(step));
  }
  // Weights are updated after every micro-batch, or once a step.
  for (const auto& [schedule, update] : {std::pair{kPipeDream, 4 * 0.25}, std::pair{kPipeDream2Bw, 0.25}}) {
    cost::PricedStep updated = by_hand(plan::lower(job_of(schedule, 2, 4)).value(), milliseconds(1), milliseconds(2),
                                       [](const Row&) { return Time::zero(); });
    for (cost::PricedClass& one : updated.classes) one.update = milliseconds(0.25);
    const answer::Timeline line = step::schedule(updated).value();
    CHECK(line.update.in(milliseconds) == Approx(update));
    CHECK(line.parts.memory.in(milliseconds) == Approx(update));
    CHECK(line.step.in(milliseconds) == Approx(12 + update));
    CHECK(line.parts.step().in(milliseconds) == Approx(12 + update));
  }
}

TEST_CASE("pipelines: PipeDream takes what its sums and its sends need of a port together", "[unit][step]") {
  // Two stages of two replicas on a server each: F + B = 3, a circle of 3 + 3 + 2 for two micro-batches, sums of 3.5
  // ms; on the port 1 + 3.5 for every micro-batch.
  plan::Job job = job_of(kPipeDream, 2, 4);
  job.cluster.nodes = 2;
  job.cluster.gpus_per_node = job.cluster.node.gpus = 2;
  cost::PricedStep step = by_hand(plan::lower(job).value(), milliseconds(1), milliseconds(2), [](const Row& row) {
    return milliseconds(row.op == CollectiveOp::kAllReduce ? 3.5 : 1);
  });
  CHECK(step::schedule(step).value().step.in(milliseconds) == Approx(16));
  for (cost::PricedRow& row : step.rows) row.network = row.once;
  const answer::Timeline line = step::schedule(step).value();
  CHECK(line.step.in(milliseconds) == Approx(18));
  CHECK(line.parts.step().in(milliseconds) == Approx(18));
}

TEST_CASE("pipelines: sums leave with the last micro-batch of a part, after its weights' pass", "[unit][step]") {
  // ZB-H1 by hand above: W2 of either rank ends at 10; 2 ms of all-reduce: 12. H2: rank 1 1..10 and 2 more.
  const auto summed = [](PipelineSchedule schedule, std::int64_t m, std::int64_t parts) {
    const plan::Job job = job_of(schedule, 2, m, parts, 2);
    const auto line = step::schedule(by_hand(
                                         plan::lower(job).value(), milliseconds(1), milliseconds(2),
                                         [](const Row& row) {
                                           const bool sum = row.op == CollectiveOp::kAllReduce;
                                           return sum ? milliseconds(2) : Time::zero();
                                         },
                                         milliseconds(1)))
                          .value();
    return line;
  };
  CHECK(summed(kZeroBubbleH1, 3, 1).step.in(milliseconds) == Approx(12));
  CHECK(summed(kZeroBubbleH2, 3, 1).step.in(milliseconds) == Approx(11));
  // Interleaved, two parts of two ranks, two micro-batches: ..., B of part 0 last: its sum is exposed, that of part 1
  // is beside it. Rank 0 alone works 2 * 2 * 3 = 12 and (p - 1) (F + B) = 3 of a part's passes is bubble.
  const answer::Timeline line = summed(kInterleaved, 2, 2);
  CHECK(line.step.in(milliseconds) == Approx(17));
  CHECK(line.parts.communication.in(milliseconds) == Approx(4));
  CHECK(line.parts.communication_exposed.in(milliseconds) == Approx(2));
  // DualPipe's ranks have two stages each, and a copy of each stands on another rank: 4 ranks share a sum.
  const plan::StepPlan dual = plan::lower(job_of(kDualPipe, 2, 4, 1, 2)).value();
  CHECK(dual.groups.front().ranks == 4);
  CHECK(dual.classes[0].chunk.count == 2);
  // Ranks that mirror each other are on one server, or where the pipeline crosses servers on two.
  plan::Job inside = job_of(kDualPipe, 4, 8);
  CHECK(plan::lower(inside).value().groups.front().nodes == 1);
  inside.cluster.nodes = 2;
  inside.cluster.gpus_per_node = inside.cluster.node.gpus = 2;
  CHECK(plan::lower(inside).value().groups.front().ranks == 2);
  CHECK(plan::lower(inside).value().groups.front().nodes == 2);
}

TEST_CASE("pipelines: a bound that no schedule is below", "[unit][step]") {
  const auto bound = [](PipelineSchedule schedule, std::int64_t p, std::int64_t m, const Passes& t,
                        std::int64_t parts) {
    const plan::Pipeline of{schedule, p, parts > 1 && schedule == kInterleaved ? parts : 1, m};
    const auto each = static_cast<double>(parts);
    const std::vector<plan::PartTime> times(
        plan::positions_of(of),
        {milliseconds(t.forward / each), milliseconds((t.input + t.weights) / each), milliseconds(t.weights / each)});
    return plan::least_step(of, times).in(milliseconds);
  };
  for (const Passes t : {Passes{1, 1, 1}, Passes{1, 1.2, 0.9}, Passes{1, 1.5, 0.7}, Passes{1, 0.6, 1.4}}) {
    for (const std::int64_t p : {2, 4, 8}) {
      for (const PipelineSchedule schedule : {kNone, kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubbleH1,
                                              kZeroBubbleH2, kZeroBubbleV, kDualPipe, kPipeDream, kPipeDream2Bw}) {
        const std::int64_t parts = schedule == kInterleaved || schedule == kZeroBubbleV ? 2 : 1;
        const double least = bound(schedule, p, 3 * p - p % 2, t, parts);
        const double taken = laid(job_of(schedule, p, 3 * p - p % 2, parts), t, parts).step.in(milliseconds);
        INFO(name_of(plan::kPipelineSchedules, schedule) << " " << p);
        CHECK(least <= taken * (1 + 1e-12));
        const bool exact = schedule != kZeroBubbleV && schedule != kDualPipe;
        if (exact) CHECK(least == Approx(taken));
      }
      // A V of few micro-batches waits for them to come back: one is alone on its way.
      for (const std::int64_t m : {1, 2, 3}) {
        const double least = bound(kZeroBubbleV, p, m, t, 2);
        const double taken = laid(job_of(kZeroBubbleV, p, m, 2), t, 2).step.in(milliseconds);
        CHECK(least <= taken * (1 + 1e-12));
        const double way = (t.forward + t.input) * static_cast<double>(p);
        CHECK(least >= way);
      }
    }
  }
}

TEST_CASE("pipelines: rows in the way and the CPU's issue make no difference to how slots are folded", "[unit][step]") {
  // Two layers a rank. A reduction of 0.25 ms after every layer, both ways, beside a wait for nothing: F = 2.5, B
  // = 4.5.
  plan::Job job = job_of(kOneForwardOneBackward, 2, 4, 2);
  plan::StepPlan plan = plan::lower(job).value();
  plan.groups.push_back({.along = plan::Axis::kTensor, .ranks = 2});
  for (std::size_t c = 0; c < 2; ++c) {
    for (std::size_t i = 0; i < 2; ++i) {
      for (const plan::Moment at : {plan::Moment::kForward, plan::Moment::kBackward}) {
        // Before what crosses stages: that is sent when it is summed.
        plan.rows.insert(plan.rows.begin(), {.ready = {at, i},
                                             .needed = {at, i},
                                             .in_the_way = true,
                                             .rank_class = c,
                                             .needed_by = c,
                                             .group = plan.groups.size() - 1,
                                             .every_pass = true});
      }
    }
  }
  const auto once = [](const Row& row) { return row.in_the_way ? milliseconds(0.25) : Time::zero(); };
  cost::PricedStep step = by_hand(plan, milliseconds(1), milliseconds(2), once);
  const answer::Timeline line = step::schedule(step).value();
  CHECK(line.step.in(milliseconds) == Approx(5 * 7));
  CHECK(line.parts.communication_exposed.in(milliseconds) == Approx(4 * 4 * 0.25));
  CHECK(line.parts.bubble.in(milliseconds) == Approx(7));
  // The same channel carries something beside kernels as well: layer by layer, to the same end.
  for (std::size_t c = 0; c < 2; ++c) {
    plan.rows.push_back({.size = bytes(1),
                         .ready = {plan::Moment::kForward, 0},
                         .rank_class = c,
                         .needed_by = c,
                         .group = plan.groups.size() - 1,
                         .every_pass = true});
  }
  const cost::PricedStep walked = by_hand(plan, milliseconds(1), milliseconds(2), once);
  CHECK(step::schedule(walked).value().step.in(milliseconds) == Approx(5 * 7));
  // A CPU that issues a kernel every 4 ms is the slower: 4 kernels a micro-batch on either rank, rank 1 ends last.
  step.launch_interval = milliseconds(4);
  const answer::Timeline issued = step::schedule(step).value();
  CHECK(issued.parts.launch > Time::zero());
  CHECK(issued.step.in(milliseconds) >= 4 * 4 * 4);
}

TEST_CASE("pipelines: DualPipe's all-to-alls run beside the other direction's kernels", "[unit][step]") {
  // Two ranks, four micro-batches, a stage's F = 1 and B = 2, 0.5 ms of all-to-all with either pass of either part.
  // Rank 0: F0 F2 F1 B2 | F3 B0 | B3 I1 W1. Its 8 all-to-alls take 4 ms; of the pair's two 0.5 each is hidden.
  plan::StepPlan plan = plan::lower(job_of(kDualPipe, 2, 4)).value();
  plan.groups.push_back({.along = plan::Axis::kExpert, .role = plan::GroupRole::kExperts, .ranks = 2});
  for (std::size_t c = 0; c < 2; ++c) {
    for (std::size_t i = 0; i < 2; ++i) {
      for (const plan::Moment at : {plan::Moment::kForward, plan::Moment::kBackward}) {
        plan.rows.insert(plan.rows.begin(), {.op = CollectiveOp::kAllToAll,
                                             .ready = {at, i},
                                             .needed = {at, i},
                                             .in_the_way = true,
                                             .rank_class = c,
                                             .needed_by = c,
                                             .group = plan.groups.size() - 1,
                                             .every_pass = true});
      }
    }
  }
  const auto once = [](const Row& row) { return row.op == CollectiveOp::kAllToAll ? milliseconds(0.5) : Time::zero(); };
  const answer::Timeline line =
      step::schedule(by_hand(plan, milliseconds(1), milliseconds(2), once, milliseconds(1))).value();
  CHECK(line.parts.communication_exposed.in(milliseconds) == Approx(8 * 0.5 - 2 * 0.5));
  CHECK(line.parts.communication.in(milliseconds) == Approx(4));
  CHECK(line.step.in(milliseconds) == Approx(12 + 3));
}

TEST_CASE("pipelines: a rank that goes on by itself does not outrun its CPU", "[unit][step]") {
  // Two stages of a layer, three micro-batches, a kernel of 1 ms for either half of backward. Forward the first stage
  // has one of 10 ms, the second six, for which it waits 10 ms: its CPU issues 3 (6 + 1 + 1) kernels a step, one every
  // 4 ms. That it had begun to in those 10 ms shortens no step but the first.
  auto step = by_hand(
      plan::lower(job_of(kZeroBubbleH2, 2, 3)).value(), milliseconds(1), milliseconds(2),
      [](const Row&) { return Time::zero(); }, milliseconds(1));
  step.launch_interval = milliseconds(4);
  for (std::size_t c = 0; c < 2; ++c) {
    step.classes[c].forward = {{cost::PricedLayer::of(c == 0 ? milliseconds(10) : milliseconds(1), c == 0 ? 1 : 6)}};
    step.classes[c].backward_input = {{cost::PricedLayer::of(milliseconds(1), 1)}};
    step.classes[c].backward_weights = {{cost::PricedLayer::of(milliseconds(1), 1)}};
  }
  const answer::Timeline line = step::schedule(step).value();
  CHECK(line.step.in(milliseconds) == Approx(4 * 3 * 8));
  CHECK(line.parts.launch.in(milliseconds) == Approx(4 * 3 * 8 - 3 * 3));
  CHECK(line.parts.bubble == Time::zero());
}
