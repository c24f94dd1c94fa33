// Embedding tables spread over all GPUs (PEARL): their rows, what is summed, what each GPU holds.
#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/plan/lower.h"
#include "lowered.h"

using namespace ddlsim;
using namespace ddlsim::plan;
using namespace ddlsim::test;

namespace {

/// Two tables, a product beside them, and what joins them.
std::shared_ptr<const workload::Model> with_tables(std::int64_t rows) {
  workload::Model model;
  model.id = "tables";
  model.optimizer = workload::Optimizer::kAdagrad;
  const auto add = [&](const workload::Op& op, const workload::Shape& in, const char* name) {
    model.layers.push_back(workload::layer_of(op, in, name).value().layer);
  };
  for (const char* name : {"first", "second"}) {
    add(workload::Embedding{.rows = rows, .width = 16, .lookups = 1, .sparse_gradient = true, .out = {16}}, {1}, name);
  }
  add(workload::Linear{.out = 16, .bias = false}, {8}, "product");
  add(workload::Concat{.out = {48}}, {16}, "join");
  add(workload::Linear{.out = 4, .bias = false}, {48}, "head");
  model.totals = workload::total(model.layers).value();
  return std::make_shared<const workload::Model>(std::move(model));
}

Job pearl_of(std::int64_t rows, std::int64_t gpus) {
  Job job = job_of(with_tables(rows), 1, gpus);
  job.strategy.kind = StrategyKind::kPearl;
  job.batch = 10;
  return job;
}

}  // namespace

TEST_CASE("lower: tables are spread over all GPUs, and their rows sent to whose samples they are", "[unit][plan]") {
  const StepPlan plan = lower(pearl_of(1'000'000, 4)).value();
  const std::vector<Row> exchanged = rows_of(plan, RowKind::kCollective, CollectiveOp::kAllToAll);
  const std::vector<Row> summed = rows_of(plan, RowKind::kCollective);
  REQUIRE(exchanged.size() == 2);
  for (const Row& row : exchanged) {
    CHECK(row.size.in(bytes) == Approx(320));
    CHECK(row.every_pass);
    CHECK_FALSE(row.in_the_way);
  }
  CHECK(exchanged[0].ready == forward(1));
  CHECK(exchanged[0].needed == forward(3));
  CHECK(exchanged[1].ready == backward(3));
  CHECK(exchanged[1].needed == backward(1));
  REQUIRE(summed.size() == 1);  // of both products: 8 x 16 + 48 x 4
  CHECK(plan.rows.size() == 3);
  CHECK(summed[0].size.in(bytes) == Approx(4 * (128 + 192)));
  const RankClass& one = plan.classes.front();
  CHECK(one.updated.in(bytes) == Approx(4 * 5 * (128 + 192 + 2 * 40 * 16 / 4.0)));
  CHECK(one.memory.weights.in(bytes) == Approx(4 * (128 + 192 + 2 * 16e6 / 4)));
  CHECK(one.memory.optimizer_state.in(bytes) == Approx(one.memory.weights.in(bytes)));
  // One lookup, with the last table.
  CHECK(one.chunk[0].forward_kernels + one.chunk[0].backward_kernels == 0);
  CHECK(one.chunk[1].forward_elements == 2 * 2 * 16);
}

TEST_CASE("lower: small tables stay on every GPU, and one GPU spreads nothing", "[unit][plan]") {
  const StepPlan small = lower(pearl_of(1000, 4)).value();
  double summed = 0;
  for (const Row& row : rows_of(small, RowKind::kCollective)) summed += row.size.in(bytes);
  CHECK(rows_of(small, RowKind::kCollective, CollectiveOp::kAllToAll).empty());
  CHECK(summed == Approx(4 * (128 + 192 + 2 * 16000)));
  CHECK(small.classes.front().memory.weights.in(bytes) == Approx(4 * (128 + 192 + 2 * 16000)));
  Job all = pearl_of(1000, 4);
  all.strategy.spread_from.set(DataSize::zero());
  CHECK(lower(all).value().classes.front().memory.weights.in(bytes) == Approx(4 * (128 + 192 + 2 * 4000)));
  CHECK(lower(pearl_of(1'000'000, 1)).value().rows.empty());
}

TEST_CASE("lower: what does not go with spread tables is refused", "[unit][plan]") {
  Job job = job_of(model_of({1000}), 1, 4);
  job.strategy.kind = StrategyKind::kPearl;
  CHECK(refused(job).notes == std::vector<std::string>{"use strategy allreduce"});
  job = pearl_of(1'000'000, 4);
  job.parallel.zero = 1;
  CHECK(refused(job).notes == std::vector<std::string>{"leave parallel.* out"});
  job = pearl_of(1'000'000, 4);
  job.straggler.set(2);
  CHECK(refused(job).message.find("two speeds") != std::string::npos);
  CHECK(refused(job).notes.front().find("state gpu.time_factor") != std::string::npos);
  job = job_of(model_of({1000}), 1, 4);
  job.parallel.zero = 1;
  job.straggler.set(2);
  CHECK(refused(job).message == "a split model on GPUs of two speeds");
  CHECK(refused(job).notes.front().find("state gpu.time_factor") != std::string::npos);
  job = pearl_of(1'000'000, 4);
  job.overlap = Overlap::kIdeal;
  CHECK(refused(job).code == ErrorCode::kUnsupported);
  job = pearl_of(1'000'000, 4);
  job.strategy.priority.set(true);
  CHECK(refused(job).code == ErrorCode::kUnsupported);
  job = pearl_of(1'000'000, 4);
  job.strategy.grouping.set(Grouping::kFusion);
  CHECK(refused(job).code == ErrorCode::kUnsupported);
}
