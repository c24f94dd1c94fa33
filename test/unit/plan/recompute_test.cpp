// What is computed again in backward, and sent again: rows worked by hand.
#include "by_hand.h"

using namespace ddlsim;
using namespace ddlsim::plan;
using namespace ddlsim::test;
using primitives::CollectiveOp;

TEST_CASE("lower: what is computed again runs, and is summed, again", "[unit][plan]") {
  Job job = job_on(decoder(4), 1, 2);
  job.parallel.tensor = 2;
  const StepPlan none = lower(job).value();
  const auto sums = [&](const StepPlan& plan, bool forward) {
    const auto rows = rows_in(plan, GroupRole::kTensor);
    return std::count_if(rows.begin(), rows.end(), [&](const Row& row) {
      return row.count == 1 && row.ready.at == (forward ? Moment::kForward : Moment::kBackward);
    });
  };
  CHECK(sums(none, true) == 1 + 4 * 2);
  CHECK(sums(none, false) == 4 * 2 + 1);
  const Work block = [&] {
    Work all;
    for (std::size_t i = 1; i < 15; ++i) all += none.layer(0, i).forward_work;
    return all;
  }();
  job.parallel.recompute = Recompute::kFull;
  CHECK(work_of(lower(job).value(), true) == work_of(none, true));
  CHECK(work_of(lower(job).value(), false) == work_of(none, false) + block * 4.0);
  CHECK(sums(lower(job).value(), false) == 4 * 2 + 1 + 4 * 2);
  // No gradient needs what the last product of a block makes.
  job.parallel.recompute_stops = true;
  const Work spared = none.layer(0, 13).forward_work;
  CHECK(spared > Work::zero());
  CHECK(work_of(lower(job).value(), false) == work_of(none, false) + (block - spared) * 4.0);
  CHECK(sums(lower(job).value(), false) == 4 * 2 + 1 + 4);
  job.parallel.recompute_stops = false;
  job.parallel.recompute_every = 2;
  CHECK(work_of(lower(job).value(), false) == work_of(none, false) + block * 2.0);
  CHECK(sums(lower(job).value(), false) == 4 * 2 + 1 + 2 * 2);
  // The first three of every four blocks.
  job.parallel.recompute_every = 4;
  job.parallel.recompute_first = 3;
  CHECK(work_of(lower(job).value(), false) == work_of(none, false) + block * 3.0);
  CHECK(sums(lower(job).value(), false) == 4 * 2 + 1 + 3 * 2);
  job.parallel.recompute_first = 5;
  CHECK_FALSE(lower(job).has_value());
  job.parallel.recompute_every = job.parallel.recompute_first = 1;
  // A stage has what is beside its blocks as well.
  job.parallel.recompute = Recompute::kStage;
  CHECK(work_of(lower(job).value(), false) == work_of(none, false) + work_of(none, true));
  CHECK(sums(lower(job).value(), false) == sums(none, false) + sums(none, true));
  job.parallel.recompute = Recompute::kSelective;
  const StepPlan selective = lower(job).value();
  CHECK(work_of(selective, false) == work_of(none, false) + none.layer(0, 6).forward_work * 4.0);
  CHECK(sums(selective, false) == sums(none, false));
  // What ran beside a whole backward pass runs beside the same kernels of a longer one.
  const auto kernels = [](const StepPlan& plan) { return plan.layer(0, 2).backward.size(); };
  CHECK(kernels(selective) == 2);
  job.parallel.recompute = Recompute::kFull;
  CHECK(kernels(lower(job).value()) == 3);
  const auto beside = around(rows_in(lower(job).value(), GroupRole::kTensor), CollectiveOp::kAllReduce, backward(2));
  REQUIRE(beside.size() == 1);
  CHECK(beside[0].beside == Approx(0.5 * 768 / 512 * 2 / 3));
}

TEST_CASE("lower: per operator all but attention and every other product is computed again", "[unit][plan]") {
  Job job = job_on(decoder(4), 1, 2);
  job.parallel.tensor = 2;
  job.precision = Precision::kBf16;
  const StepPlan none = lower(job).value();
  job.parallel.recompute = Recompute::kPerOp;
  const auto runs_again = [&](std::size_t layer) {
    return lower(job).value().layer(0, layer).backward.size() > none.layer(0, layer).backward.size();
  };
  // q, v, gate and down are kept of a block's products (layers 2, 4, 10, 13), attention (6) as well.
  for (const std::size_t kept : {2U, 4U, 6U, 10U, 13U}) CHECK_FALSE(runs_again(kept));
  for (const std::size_t again : {1U, 3U, 5U, 7U, 9U, 11U, 12U}) CHECK(runs_again(again));
  // The output of o is summed again, that of down is not.
  const auto sums = [&](const StepPlan& plan) {
    const auto rows = rows_in(plan, GroupRole::kTensor);
    return std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.ready.at == Moment::kBackward; });
  };
  CHECK(sums(lower(job).value()) == sums(none) + 4);
  // What sequence parallelism scatters is kept; what it gathers before k and up, again.
  job.parallel.sequence = true;
  const auto rows = rows_in(lower(job).value(), GroupRole::kTensor);
  CHECK(around(rows, CollectiveOp::kReduceScatter, backward(7)).empty());
  // Scaled products of 8 bits are not among what is kept.
  job.parallel.sequence = false;
  job.precision = Precision::kFp8;
  for (const std::size_t again : {2U, 4U, 10U, 13U}) CHECK(runs_again(again));
  CHECK_FALSE(runs_again(6));
  job.parallel.recompute_stops = true;
  CHECK_FALSE(runs_again(13));
}

TEST_CASE("lower: per operator a product that routes to experts does not count", "[unit][plan]") {
  std::vector<workload::Layer> layers;
  const auto dense = decoder(1);
  const auto experts = mixture();
  for (int block = 0; block < 2; ++block) {
    layers.insert(layers.end(), dense->layers.begin() + 1, dense->layers.begin() + 9);  // up to the first sum
    layers.insert(layers.end(), experts->layers.begin(), experts->layers.end());
  }
  Job job = job_on(test::model_of(std::move(layers), "experts"), 1, 1);
  job.precision = Precision::kBf16;
  const StepPlan none = lower(job).value();
  job.parallel.recompute = Recompute::kPerOp;
  const StepPlan plan = lower(job).value();
  const auto runs_again = [&](std::size_t layer) {
    return plan.layer(0, layer).backward.size() > none.layer(0, layer).backward.size();
  };
  CHECK(runs_again(9));  // the router, the fifth product
  CHECK(runs_again(6));  // o, the fourth
  CHECK_FALSE(runs_again(3));
}
