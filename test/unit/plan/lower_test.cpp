#include "ddlsim/plan/lower.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/plan/messages.h"
#include "lowered.h"

using namespace ddlsim;
using namespace ddlsim::plan;
using namespace ddlsim::test;

TEST_CASE("lower: data parallel is one class, one group and a row per bucket", "[unit][plan]") {
  // The header's example: 10 MB each, and 20 MB are less than a bucket of 25 MiB. The first bucket would be 1 MiB.
  Job job = job_of(model_of({2'500'000, 2'500'000}), 1, 4);
  job.strategy.first_bucket = mebibytes(25);
  const StepPlan plan = lower(job).value();
  CHECK(plan.folds);
  REQUIRE(plan.classes.size() == 1);
  CHECK(plan.classes[0].ranks == 4);
  CHECK(plan.classes[0].chunk.count == 2);
  CHECK(plan.classes[0].updates_on_gpu);
  REQUIRE(plan.groups.size() == 1);
  CHECK(plan.groups[0].ranks == 4);
  CHECK(plan.groups[0].nodes == 1);
  REQUIRE(plan.rows.size() == 1);
  CHECK(plan.rows[0].size.in(megabytes) == Approx(20));
  CHECK(plan.rows[0].ready == backward(0));
  CHECK(plan.rows[0].needed == kUpdate);
  CHECK(plan.rows[0].lag == 0);
  // The update reads and writes weight, gradient and momentum, five times 4 bytes.
  CHECK(plan.classes[0].updated.in(megabytes) == Approx(5 * 20));
}

TEST_CASE("lower: one process of many GPUs updates the same weights once", "[unit][plan]") {
  Job job = job_of(model_of({2'500'000, 2'500'000}), 1, 4);
  job.strategy.kind = StrategyKind::kDataParallel;
  CHECK(lower(job).value().classes[0].updated.in(megabytes) == Approx(5 * 20));
}

TEST_CASE("lower: one GPU sends nothing", "[unit][plan]") {
  for (const StrategyKind kind : {StrategyKind::kAllReduce, StrategyKind::kPs}) {
    Job job = job_of(model_of({1000}), 1, 1);
    job.strategy.kind = kind;
    const StepPlan plan = lower(job).value();
    CHECK(plan.rows.empty());
    CHECK_FALSE(plan.servers);
  }
}

TEST_CASE("lower: slower GPUs are a class of their own and send the same", "[unit][plan]") {
  Job job = job_of(model_of({1000}), 2, 4);
  job.straggler = 1.5;
  job.stragglers = std::int64_t{3};
  const StepPlan plan = lower(job).value();
  REQUIRE(plan.classes.size() == 2);
  CHECK(plan.classes[0].ranks == 5);
  CHECK(plan.classes[1].ranks == 3);
  CHECK(plan.classes[1].slowness == 1.5);
  CHECK(plan.classes[1].updated == plan.classes[0].updated);
  CHECK(plan.rows.size() == 1);
  job.stragglers = std::int64_t{8};
  REQUIRE(lower(job).value().classes.size() == 1);
  CHECK(lower(job).value().classes[0].slowness == 1.5);
}

TEST_CASE("lower: servers, and how far ahead of them workers may be", "[unit][plan]") {
  Job job = job_of(model_of({1000, 2000}), 4, 2);
  job.strategy.kind = StrategyKind::kPs;
  const StepPlan sync = lower(job).value();
  REQUIRE(sync.servers);
  CHECK(sync.servers->count == 4);  // as many as nodes
  CHECK_FALSE(sync.servers->local);
  CHECK_FALSE(sync.classes[0].updates_on_gpu);
  for (const Row& row : sync.rows) {
    CHECK(row.kind == RowKind::kServer);
    CHECK(row.needed == kUpdate);
    CHECK(row.lag == 0);
  }
  job.strategy.consistency = Consistency::kAsync;
  for (const Row& row : all_rows(job)) {
    CHECK(row.needed == kNobody);
    CHECK(row.lag == kNobodyWaits);
  }
  job.strategy.consistency = Consistency::kStale;
  job.strategy.staleness = std::int64_t{2};
  for (const Row& row : all_rows(job)) CHECK(row.lag == 2);
  job.strategy.consistency = Consistency::kSync;
  job.strategy.pull_at_start = true;  // a step later, layer by layer
  for (const Row& row : all_rows(job)) {
    CHECK(row.needed == forward(row.ready.layer));
    CHECK(row.lag == 1);
  }
}

TEST_CASE("lower: servers that only sum leave the update to GPUs, and one server's GPUs to themselves",
          "[unit][plan]") {
  Job job = job_of(model_of({1000, 2000}), 2, 2);
  job.strategy.kind = StrategyKind::kPs;
  CHECK(lower(job)->classes[0].memory.optimizer_state == DataSize::zero());
  job.strategy.servers_update = false;
  const StepPlan summed = lower(job).value();
  REQUIRE(summed.servers);
  CHECK_FALSE(summed.servers->update);
  CHECK(summed.classes[0].updates_on_gpu);
  Job reduced = job;
  reduced.strategy.kind = StrategyKind::kAllReduce;
  CHECK(summed.classes[0].memory.optimizer_state == lower(reduced)->classes[0].memory.optimizer_state);
  job.cluster.nodes = 1;
  const StepPlan alone = lower(job).value();
  CHECK_FALSE(alone.servers);
  CHECK(alone.classes[0].updates_on_gpu);
  for (const Row& row : alone.rows) CHECK(row.kind == RowKind::kCollective);
}

TEST_CASE("lower: servers that update send whole weights, whatever workers push", "[unit][plan]") {
  Job job = job_of(model_of({1000, 200, 3000}), 2, 2);
  job.strategy.kind = StrategyKind::kPs;
  job.strategy.compression = Compression::kSign;
  CHECK(lower(job)->servers->pulled == Approx(32));  // a bit of every gradient of 32
  job.strategy.servers_update = false;
  CHECK(lower(job)->servers->pulled == 1);
}

TEST_CASE("lower: buckets are full by the gradients that parameters have, not by what a hook sends", "[unit][plan]") {
  // 4 tensors of 4 MB: a bucket of 8 MB holds two, sent as 8 MB, or in fp16 as 4 MB.
  Job job = job_of(model_of({1'000'000, 1'000'000, 1'000'000, 1'000'000}), 2, 1);
  job.strategy.first_bucket = job.strategy.bucket = megabytes(8);
  const auto sizes = [&] {
    std::vector<double> in_megabytes;
    const StepPlan plan = lower(job).value();
    for (const Row& row : plan.rows) in_megabytes.push_back(row.size.in(bytes) / 1e6);
    return in_megabytes;
  };
  CHECK(sizes() == std::vector<double>{8, 8});
  job.strategy.gradients = Precision::kFp16;
  CHECK(sizes() == std::vector<double>{4, 4});
  // Parameters of 16 bits have gradients of 2 bytes: four of 2 MB.
  job.parallel.states = States::kPureSixteen;
  CHECK(sizes() == std::vector<double>{8});
}

TEST_CASE("lower: a tensor group stands in one server, its siblings share the ports", "[unit][plan]") {
  // 4 servers of 8, tensor 2, pipeline 2: 8 data ranks. Neighbours are the tensor pairs; 4 of them fit into a server,
  // so a data group of 8 stands on 2 servers, 4 ranks each; 2 such groups send through a server's ports.
  Grid grid{.along = {2, 1, 1, 8, 2}, .gpus_per_node = 8};
  CHECK(grid.ranks() == 32);
  const RankGroup tensor = group_along(grid, Axis::kTensor).value();
  CHECK(tensor.ranks == 2);
  CHECK(tensor.nodes == 1);
  CHECK(tensor.siblings == 4);
  const RankGroup data = group_along(grid, Axis::kData).value();
  CHECK(data.ranks == 8);
  CHECK(data.nodes == 2);
  CHECK(data.per_node() == 4);
  CHECK(data.siblings == 2);
  CHECK(tensor.between == 1);
  CHECK(data.between == 2);  // the other tensor rank's replicas stand between
  const RankGroup stages = group_along(grid, Axis::kPipeline).value();
  CHECK(stages.ranks == 2);
  CHECK(stages.nodes == 2);
  CHECK(stages.siblings == 8);
  CHECK(stages.between == 1);  // none of them in one server
  // Tensor 8 fills a server: every data group has one rank on each, and 8 groups share the ports.
  grid.along = {8, 1, 1, 4, 1};
  CHECK(group_along(grid, Axis::kTensor).value().per_node() == 8);
  CHECK(group_along(grid, Axis::kData).value().nodes == 4);
  CHECK(group_along(grid, Axis::kData).value().siblings == 8);
  // Tensor 16 spans two servers.
  grid.along = {16, 1, 1, 2, 1};
  CHECK(group_along(grid, Axis::kTensor).value().nodes == 2);
  CHECK(group_along(grid, Axis::kData).value().nodes == 2);
}

TEST_CASE("lower: a group that does not stand alike is refused", "[unit][plan]") {
  // Groups of 3 on servers of 8: the third would have two ranks on one and one on the next.
  const Grid grid{.along = {3, 1, 1, 8, 1}, .gpus_per_node = 8};
  for (const Axis axis : {Axis::kTensor, Axis::kData}) {
    const auto group = group_along(grid, axis);
    REQUIRE_FALSE(group);
    CHECK(group.error().code == ErrorCode::kInvalidArgument);
  }
  CHECK(group_along(grid, Axis::kTensor).error().message.find("3 ranks, 1 apart") != std::string::npos);
  Job job = job_of(block(), 3, 8);
  job.parallel.tensor = 4;
  job.parallel.pipeline = 3;  // 2 data ranks, 4 apart, fill a server
  CHECK(lower(job));
  job.parallel.tensor = 1;
  job.parallel.pipeline = 8;  // 3 data ranks side by side
  CHECK(refused(job).message.find("does not stand alike on servers of 8") != std::string::npos);
}

TEST_CASE("lower: degrees must divide the GPUs", "[unit][plan]") {
  Job job = job_of(block(), 1, 8);
  job.parallel.pipeline = 3;
  CHECK(refused(job).message == "8 GPUs are not a multiple of tensor 1 times pipeline 3");
  CHECK(refused(job).notes.front().find("one of 1, 2, 4, 8;") != std::string::npos);
  job.parallel.tensor = 4;
  job.parallel.pipeline = 4;
  CHECK(refused(job).message == "8 GPUs are not a multiple of tensor 4 times pipeline 4");
  job.parallel.tensor = 0;
  CHECK(refused(job).code == ErrorCode::kInvalidArgument);
  job.parallel = {.zero = 4};
  CHECK(refused(job).notes == std::vector<std::string>{"valid: 0, 1, 2, 3"});
}

TEST_CASE("lower: a block cut in two sums twice each way, in the way of kernels", "[unit][plan]") {
  Job job = job_of(block(), 1, 2);
  job.parallel.tensor = 2;
  job.batch = 4;
  const StepPlan plan = lower(job).value();
  CHECK_FALSE(plan.folds);
  REQUIRE(plan.groups.size() == 2);
  CHECK(plan.groups[1].along == Axis::kTensor);
  REQUIRE(plan.rows.size() == 4);
  const auto at = [&](Point point) {
    return std::count_if(plan.rows.begin(), plan.rows.end(), [&](const Row& row) { return row.ready == point; });
  };
  CHECK(at(forward(3)) == 1);   // attention's output
  CHECK(at(forward(7)) == 1);   // down
  CHECK(at(backward(1)) == 1);  // qkv
  CHECK(at(backward(5)) == 1);  // up
  for (const Row& row : plan.rows) {
    CHECK(row.size.in(bytes) == 4.0 * 32 * 512 * 4);  // 4 samples of 32 rows of 512 elements of 4 bytes
    CHECK(row.in_the_way);
    CHECK(row.every_pass);
    CHECK(row.group == 1);
  }
  // Half of every matrix, the whole of the norm and of the biases after a sum.
  const double whole = 2 * 512 + 512 * 1536 + 1536 + 512 * 512 + 512 + 512 * 2048 + 2048 + 2048 * 512 + 512;
  const double shared = 512 * 1536 + 1536 + 512 * 512 + 512 * 2048 + 2048 + 2048 * 512;
  CHECK(plan.classes[0].memory.weights.in(bytes) == Approx(4 * (whole - shared / 2)));
  CHECK(plan.classes[0].updated.in(bytes) == Approx(4 * 5 * (whole - shared / 2)));
}

TEST_CASE("lower: two data ranks of a cut block send their own parts", "[unit][plan]") {
  Job job = job_of(block(), 2, 2);
  job.parallel.tensor = 2;
  job.strategy.grouping = Grouping::kFlat;
  const StepPlan plan = lower(job).value();
  CHECK(plan.groups[0].ranks == 2);
  CHECK(plan.groups[0].nodes == 2);
  CHECK(plan.groups[0].siblings == 2);
  REQUIRE(plan.rows.size() == 5);
  CHECK(plan.rows[0].group == 0);
  CHECK(plan.rows[0].size == plan.classes[0].memory.gradients);
}

TEST_CASE("lower: zero 3 gathers every layer's weights twice, the last one's once, one layer ahead", "[unit][plan]") {
  // The header's example: four layers on four GPUs.
  Job job = job_of(model_of({1000, 2000, 3000, 4000}), 1, 4);
  job.parallel.zero = 3;
  const StepPlan plan = lower(job).value();
  CHECK_FALSE(plan.folds);
  const auto gathers = rows_of(plan, RowKind::kCollective, CollectiveOp::kAllGather);
  REQUIRE(gathers.size() == 7);
  const std::vector<Point> ready{{Moment::kBegin, 0}, {Moment::kBegin, 0}, forward(0), forward(1),
                                 forward(3),          backward(3),         backward(2)};
  const std::vector<Point> needed{forward(0),  forward(1),  forward(2), forward(3),
                                  backward(2), backward(1), backward(0)};
  for (std::size_t i = 0; i < 7; ++i) {
    CAPTURE(i);
    CHECK(gathers[i].ready == ready[i]);
    CHECK(gathers[i].needed == needed[i]);
    CHECK(gathers[i].size.in(bytes) == Approx(1000.0 * static_cast<double>(needed[i].layer + 1)));  // of 4 ranks
    CHECK(gathers[i].every_pass);
    CHECK_FALSE(gathers[i].in_the_way);
  }
  const auto scatters = rows_of(plan, RowKind::kCollective, CollectiveOp::kReduceScatter);
  REQUIRE(scatters.size() == 4);
  CHECK(scatters[0].ready == backward(3));
  CHECK(scatters[0].size.in(bytes) == Approx(4000));
  CHECK(scatters[0].every_pass);
  CHECK(scatters[3].ready == backward(0));
  CHECK(scatters[3].needed == kUpdate);
  // A quarter of weights, gradients and momentum; of the update too.
  const MemoryFootprint& memory = plan.classes[0].memory;
  CHECK(memory.weights.in(bytes) == Approx(10'000));
  CHECK((memory.gradients + memory.gradients_later).in(bytes) == Approx(10'000));
  CHECK(memory.optimizer_state.in(bytes) == Approx(10'000));
  CHECK(plan.classes[0].updated.in(bytes) == Approx(5 * 10'000));
  job.parallel.prefetch = 0;
  CHECK(rows_of(lower(job).value(), RowKind::kCollective, CollectiveOp::kAllGather)[1].ready == forward(0));
}

TEST_CASE("lower: zero 1 and 2 gather what was updated, and hold less", "[unit][plan]") {
  Job job = job_of(model_of({1000, 2000}), 1, 4);
  job.strategy.grouping = Grouping::kPerTensor;
  for (const int stage : {1, 2}) {
    job.parallel.zero = stage;
    const StepPlan plan = lower(job).value();
    const auto gathers = rows_of(plan, RowKind::kCollective, CollectiveOp::kAllGather);
    REQUIRE(gathers.size() == 2);
    for (const Row& row : gathers) {
      CHECK(row.ready == kUpdate);
      CHECK(row.in_the_way);
    }
    const auto scatters = rows_of(plan, RowKind::kCollective, CollectiveOp::kReduceScatter);
    REQUIRE(scatters.size() == 2);
    for (const Row& row : scatters) CHECK(row.every_pass == (stage == 2));
    CHECK(plan.classes[0].memory.weights.in(bytes) == Approx(12'000));
    const MemoryFootprint& memory = plan.classes[0].memory;
    CHECK((memory.gradients + memory.gradients_later).in(bytes) == Approx(stage == 1 ? 12'000 : 3'000));
    CHECK(plan.classes[0].memory.optimizer_state.in(bytes) == Approx(3'000));
  }
}

TEST_CASE("lower: stages are classes, and what crosses them goes every pass", "[unit][plan]") {
  Job job = job_of(model_of({1000, 2000, 3000, 4000}), 1, 4);
  job.parallel.pipeline = 2;
  job.strategy.accumulation = std::int64_t{4};
  job.strategy.grouping = Grouping::kFlat;
  job.batch = 8;
  const StepPlan plan = lower(job).value();
  CHECK(plan.micro_batches == 4);
  REQUIRE(plan.classes.size() == 2);
  CHECK(plan.classes[0].ranks == 2);
  CHECK(plan.classes[1].stage == 1);
  CHECK(plan.classes[1].chunk.first == 2);
  CHECK(plan.classes[1].chunk.count == 2);
  const auto sends = rows_of(plan, RowKind::kCollective, CollectiveOp::kSendRecv);
  REQUIRE(sends.size() == 2);
  CHECK(sends[0].ready == forward(1));
  CHECK(sends[0].rank_class == 0);
  CHECK(sends[0].needed == forward(0));
  CHECK(sends[0].needed_by == 1);
  CHECK(sends[1].ready == backward(0));
  CHECK(sends[1].rank_class == 1);
  CHECK(sends[1].needed == backward(1));
  CHECK(sends[1].needed_by == 0);
  for (const Row& row : sends) {
    CHECK(row.size.in(bytes) == 4.0 * 1000 * 8);
    CHECK(row.every_pass);
    CHECK(plan.groups[row.group].along == Axis::kPipeline);
    CHECK(plan.groups[row.group].ranks == 2);  // in pairs
  }
  const auto gradients = rows_of(plan, RowKind::kCollective);
  REQUIRE(gradients.size() == 2);
  CHECK(gradients[0].size.in(bytes) == Approx(4.0 * 3000));
  CHECK(gradients[1].size.in(bytes) == Approx(4.0 * 7000));
  CHECK_FALSE(gradients[0].every_pass);  // with the last micro-batch
  CHECK(gradients[1].rank_class == 1);
}

TEST_CASE("lower: micro-batches in flight count in memory", "[unit][plan]") {
  // 1000 elements of 4 bytes, 8 samples, one layer a stage: 32 kB a micro-batch.
  Job job = job_of(model_of({1, 1, 1, 1}), 1, 4);
  job.parallel.pipeline = 4;
  job.strategy.accumulation = std::int64_t{6};
  job.batch = 8;
  const auto kilobytes_of = [&](std::size_t stage) {
    return lower(job).value().classes[stage].memory.activations.in(kilobytes);
  };
  CHECK(kilobytes_of(0) == Approx(4 * 32));
  CHECK(kilobytes_of(3) == Approx(32));
  job.parallel.schedule = PipelineSchedule::kGpipe;
  CHECK(kilobytes_of(0) == Approx(6 * 32));
  CHECK(kilobytes_of(3) == Approx(6 * 32));
  job.parallel.schedule = PipelineSchedule::kOneForwardOneBackward;
  job.strategy.accumulation = std::int64_t{2};
  CHECK(kilobytes_of(0) == Approx(2 * 32));
}

TEST_CASE("lower: every stage needs a layer", "[unit][plan]") {
  Job job = job_of(model_of({1, 1}), 1, 4);
  job.parallel.pipeline = 4;
  CHECK(refused(job).message == "4 stages of 2 layers");
  CHECK(refused(job).notes == std::vector<std::string>{"every stage needs a layer: at most 2"});
  job = job_of(model_of({1, 1, 1, 1}), 1, 4);
  job.parallel.pipeline = 2;
  job.parallel.cuts = {3};
  CHECK(lower(job).value().classes[1].chunk.first == 3);
  job.parallel.cuts = {4};
  CHECK(refused(job).message == "stage 1 has no layer");
  job.parallel.cuts = {0};
  CHECK(refused(job).message == "stage 0 has no layer");
  job.parallel.cuts = {1, 2};
  CHECK(refused(job).message == "2 cuts for 2 stages: one fewer than stages are needed");
}

TEST_CASE("lower: an offloaded optimizer copies gradients out and weights back", "[unit][plan]") {
  Job job = job_of(model_of({1000, 2000}), 1, 4);
  job.parallel.offload_optimizer = true;
  StepPlan plan = lower(job).value();
  CHECK_FALSE(plan.classes[0].updates_on_gpu);
  auto out = rows_of(plan, RowKind::kCopy);
  REQUIRE(out.size() == 2);
  CHECK(out[0].ready == backward(1));
  CHECK(out[0].needed == kUpdate);
  CHECK(out[0].size.in(bytes) == Approx(8000));
  CHECK(out[1].size.in(bytes) == Approx(4000));
  const auto host = rows_of(plan, RowKind::kHost);
  REQUIRE(host.size() == 1);
  CHECK(host[0].size.in(bytes) == Approx(5 * 12'000));
  CHECK(host[0].in_the_way);
  const auto back = rows_of(plan, RowKind::kCopyBack);
  REQUIRE(back.size() == 1);
  CHECK(back[0].size.in(bytes) == Approx(12'000));
  CHECK(plan.classes[0].memory.optimizer_state == DataSize::zero());
  // With shared states every rank moves its quarter.
  job.parallel.zero = 2;
  plan = lower(job).value();
  CHECK(rows_of(plan, RowKind::kCopy)[0].size.in(bytes) == Approx(2000));
  CHECK(rows_of(plan, RowKind::kHost)[0].size.in(bytes) == Approx(5 * 3'000));
  CHECK(rows_of(plan, RowKind::kCopyBack)[0].size.in(bytes) == Approx(3'000));
  // Megatron's buffer of gradients is the GPU's: the host moves its share, whoever keeps the gradients.
  job.parallel.states = States::kMixed;
  const DataSize moved = rows_of(lower(job).value(), RowKind::kHost)[0].size;
  job.parallel.zero = 1;
  CHECK(rows_of(lower(job).value(), RowKind::kHost)[0].size == moved);
}

TEST_CASE("lower: without overlap a split model sends after backward, in the way", "[unit][plan]") {
  Job job = job_of(model_of({1000, 2000}), 1, 4);
  job.parallel.zero = 3;
  job.overlap = Overlap::kNone;
  for (const Row& row : all_rows(job)) {
    CHECK(row.in_the_way);
    if (row.op == CollectiveOp::kReduceScatter) CHECK(row.ready == backward(0));
  }
}

TEST_CASE("lower: measured layers take stages, and no other split", "[unit][plan]") {
  workload::Model model;
  model.id = "traced";
  for (int i = 0; i < 2; ++i) {
    const workload::Measured timed{.time = {milliseconds(1), milliseconds(2)}, .gradients = {1000}};
    model.layers.push_back(workload::layer_of(timed, {1000}, "kernel").value().layer);
  }
  model.measured = workload::MeasuredOn{};
  model.totals = workload::total(model.layers).value();
  Job job = job_of(std::make_shared<const workload::Model>(model), 1, 2);
  job.parallel.pipeline = 2;
  CHECK(lower(job).value().classes.size() == 2);
  job.parallel.pipeline = 1;
  job.parallel.tensor = 2;
  CHECK(refused(job).code == ErrorCode::kUnsupported);
  CHECK(refused(job).notes == std::vector<std::string>{"measured and fused layers take tensor 1"});
}

TEST_CASE("lower: what contradicts a split is refused", "[unit][plan]") {
  Job job = job_of(model_of({1000, 2000}), 1, 4);
  job.parallel.zero = 1;
  CHECK(lower(job));
  Job servers = job;
  servers.strategy.kind = StrategyKind::kPs;
  CHECK(refused(servers).code == ErrorCode::kUnsupported);
  CHECK(refused(servers).notes == std::vector<std::string>{"use strategy allreduce, or zero 0"});
  servers.parallel = {.tensor = 2};
  CHECK(refused(servers).message == "parameter servers hold whole models: no part of one can be split");
  Job slow = job;
  slow.straggler = 2.0;
  CHECK(refused(slow).code == ErrorCode::kUnsupported);
  Job ideal = job;
  ideal.overlap = Overlap::kIdeal;
  CHECK(refused(ideal).code == ErrorCode::kUnsupported);
  Job priority = job;
  priority.strategy.priority = true;
  CHECK(refused(priority).code == ErrorCode::kUnsupported);
  Job compressed = job;
  compressed.strategy.compression = Compression::kTopK;
  CHECK(refused(compressed).code == ErrorCode::kUnsupported);
  Job cycles = job;
  cycles.parallel = {.pipeline = 2};
  CHECK(lower(cycles));
  cycles.strategy.grouping = Grouping::kFusion;
  CHECK(refused(cycles).code == ErrorCode::kUnsupported);
  cycles.cluster.gpus_per_node = 2;  // one data rank: nothing to fuse
  CHECK(lower(cycles));
}

TEST_CASE("lower: what has no layers has no plan", "[unit][plan]") {
  workload::Model totals;
  totals.id = "totals";
  totals.features = workload::StepFeatures{};
  Job job = job_of(std::make_shared<const workload::Model>(totals), 1, 4);
  CHECK(refused(job).code == ErrorCode::kUnsupported);
}
