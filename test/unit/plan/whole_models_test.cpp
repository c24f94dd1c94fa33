// What goes with whole models at servers, one process or a coordinator, and which degrees a model and its servers take.
#include <catch2/catch.hpp>
#include <string>

#include "lowered.h"

using namespace ddlsim;
using namespace ddlsim::plan;
using namespace ddlsim::test;

TEST_CASE("lower: degrees that heads or servers do not take are named with those that they do", "[unit][plan]") {
  // Eight heads: 3 and 6 divide none of them, whatever the servers.
  Job job = job_of(block(), 3, 8);
  for (const std::int64_t degree : {3, 6}) {
    job.parallel.tensor = degree;
    CHECK(refused(job).message ==
          "layer 'attention': tensor degree " + std::to_string(degree) + " does not divide 8 heads");
    CHECK(refused(job).notes == std::vector<std::string>{"valid: 1, 2, 4, 8"});
  }
  // No more GPUs than there are.
  job.cluster.nodes = 1;
  job.cluster.gpus_per_node = 6;
  CHECK(refused(job).notes == std::vector<std::string>{"valid: 1, 2"});
  // 4 divide the heads and 12 GPUs, but the second group of 4 has two servers.
  job.cluster.nodes = 2;
  job.parallel.tensor = 4;
  CHECK(refused(job).message == "tensor 4: a group of 3 ranks, 4 apart, does not stand alike on servers of 6 GPUs");
  CHECK(refused(job).notes == std::vector<std::string>{"valid for tensor, all else as it is: 1, 2"});
  // 3 ranks of context divide 24 GPUs, but not 32 rows.
  job = job_of(block(), 3, 8);
  job.parallel.context = 3;
  CHECK(refused(job).message == "layer 'attention': context degree 3 does not divide 32 rows");
  job.parallel = {.zero = 1, .shard_ranks = 5};
  CHECK(refused(job).message == "5 shard ranks do not divide 24 replicas");
}

TEST_CASE("lower: who has whole models takes them computed again, adapted and in other formats", "[unit][plan]") {
  Job job = job_of(block(), 2, 4);
  const auto all_fold = [&] {
    for (const Parallel& parallel :
         {Parallel{.recompute = Recompute::kSelective}, Parallel{.states = States::kMixed}, Parallel{.lora_rank = 8}}) {
      job.parallel = parallel;
      const auto plan = lower(job);
      REQUIRE(plan);
      CHECK(plan->folds);
      CHECK(plan->servers.has_value() == (job.strategy.kind == StrategyKind::kPs));
      CHECK(plan->exchange.fusion.has_value() == (job.strategy.kind == StrategyKind::kAllReduce));
    }
  };
  job.strategy.kind = StrategyKind::kPs;
  all_fold();
  // Servers have the states, and get the adapters' gradients alone: 8 (512 + 1536) and 8 (512 + 512).
  const StepPlan plan = lower(job).value();
  DataSize pushed;
  for (const Row& row : plan.rows) pushed += row.size * static_cast<double>(row.count);
  CHECK(pushed.in(bytes) == 4 * 8 * (2048 + 1024));
  job.parallel = {.states = States::kMixed};
  const MemoryFootprint held = lower(job).value().classes[0].memory;
  CHECK(held.master + held.optimizer_state == DataSize::zero());
  job.strategy.servers_update = false;
  all_fold();
  job.parallel = {.states = States::kMixed};
  CHECK(lower(job).value().classes[0].memory.master > DataSize::zero());
  job.strategy = {};
  job.strategy.grouping = Grouping::kFusion;
  all_fold();
  // What two speeds, a bound and priority ask is no matter of what is computed again.
  job.parallel = {.recompute = Recompute::kSelective};
  job.strategy = {};
  job.straggler = 1.5;
  CHECK(lower(job).value().classes.size() == 2);
  job.straggler = 1.0;
  job.overlap = Overlap::kIdeal;
  CHECK(lower(job));
}

TEST_CASE("lower: one process sends weights and gradients in the formats that they are kept in", "[unit][plan]") {
  Job job = job_of(model_of({2'500'000, 2'500'000}), 1, 4);
  job.strategy.kind = StrategyKind::kDataParallel;
  const auto sent = [&](CollectiveOp op) {
    DataSize size;
    for (const Row& row : lower(job).value().rows) {
      if (row.op == op && row.kind == RowKind::kCollective) size += row.size * static_cast<double>(row.count);
    }
    return size.in(megabytes);
  };
  CHECK(sent(CollectiveOp::kBroadcast) == Approx(20));
  CHECK(sent(CollectiveOp::kReduce) == Approx(20));
  job.parallel.states = States::kMixed;
  CHECK(sent(CollectiveOp::kBroadcast) == Approx(10));
  CHECK(sent(CollectiveOp::kReduce) == Approx(20));
  job.parallel.states = States::kMixedSixteen;
  CHECK(sent(CollectiveOp::kReduce) == Approx(10));
  job.parallel = {.offload_optimizer = true};
  CHECK(refused(job).message.find("on the host") != std::string::npos);
}

TEST_CASE("lower: a coordinator has no ZeRO, nor copies to the host", "[unit][plan]") {
  Job job = job_of(model_of({1000, 2000}), 1, 4);
  job.strategy.grouping = Grouping::kFusion;
  job.parallel.zero = 3;
  CHECK(refused(job).code == ErrorCode::kUnsupported);
  CHECK(refused(job).message.find("it has no ZeRO") != std::string::npos);
  job.parallel = {.offload_activations = true};
  CHECK(refused(job).message == "gradients beside copies to the host fused by a coordinator's cycles");
}
