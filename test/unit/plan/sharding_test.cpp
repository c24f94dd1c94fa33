// FSDP's units, copies of shards, what travels beside what; groups by their place; one process of a server.
#include "by_hand.h"

using namespace ddlsim;
using namespace ddlsim::plan;
using namespace ddlsim::test;
using primitives::CollectiveOp;

namespace {

std::vector<Row> of(const StepPlan& plan, CollectiveOp op) {
  std::vector<Row> found;
  for (const Row& row : plan.rows) {
    if (row.kind == RowKind::kCollective && row.op == op) found.push_back(row);
  }
  return found;
}

}  // namespace

TEST_CASE("lower: FSDP gathers and scatters block by block", "[unit][plan]") {
  // Units: the table, two blocks (layers 1-14 and 15-28), the last norm with the head (29-31).
  Job job = job_on(decoder(2), 1, 4);
  job.parallel.zero = 3;
  const StepPlan plan = lower(job).value();
  const auto gathers = of(plan, CollectiveOp::kAllGather);
  REQUIRE(gathers.size() == 4 + 3);
  CHECK(gathers[1].ready == kBegin);
  CHECK(gathers[1].needed == forward(1));
  CHECK(gathers[1].size.in(bytes) == Approx(kBlockWeights * 4 / 4));
  CHECK(gathers[2].ready == forward(0));
  CHECK(gathers[2].needed == forward(15));
  CHECK(gathers[3].ready == forward(14));
  CHECK(gathers[3].needed == forward(29));
  CHECK(gathers[4].ready == forward(31));
  CHECK(gathers[4].needed == backward(28));
  CHECK(gathers[5].ready == backward(29));
  CHECK(gathers[5].needed == backward(14));
  const auto scatters = of(plan, CollectiveOp::kReduceScatter);
  REQUIRE(scatters.size() == 4);
  CHECK(scatters[0].ready == backward(29));
  CHECK(scatters[1].ready == backward(15));
  CHECK(scatters[1].size == gathers[1].size);
  for (const Row& row : scatters) CHECK(row.every_pass);
  // Kept between the passes, nothing is gathered again.
  job.parallel.reshard = false;
  CHECK(of(lower(job).value(), CollectiveOp::kAllGather).size() == 4);
  // Several passes: gradients that add up whole leave after the last, weights that are kept come before the first.
  job.strategy.accumulation = 4;
  const StepPlan passes = lower(job).value();
  for (const Row& row : passes.rows) CHECK(row.every_pass);
  job.parallel.no_sync = true;
  const StepPlan once = lower(job).value();
  CHECK(of(once, CollectiveOp::kReduceScatter).size() == 4);
  for (const Row& row : once.rows) CHECK(!row.every_pass);
  job.parallel.reshard = true;
  for (const Row& row : of(lower(job).value(), CollectiveOp::kAllGather)) CHECK(row.every_pass);
  job.parallel.reshard = job.parallel.no_sync = false;
  job.strategy.accumulation = 1;
  // Frozen weights are gathered too; adapters alone are scattered: 4 (1024 + 2 x 640 + 1024) of them in a block.
  job.parallel.lora_rank = 4;
  const auto adapters = of(lower(job).value(), CollectiveOp::kReduceScatter);
  REQUIRE(adapters.size() == 2);
  CHECK(adapters[0].size.in(bytes) == Approx(4 * 3328 * 4 / 4));
  CHECK(of(lower(job).value(), CollectiveOp::kAllGather)[1].size.in(bytes) ==
        Approx((kBlockWeights + 4 * 3328) * 4 / 4));
}

TEST_CASE("lower: copies of shards sum what their shard group has scattered", "[unit][plan]") {
  // 4 servers of 8: shards over a server, 4 copies of each on as many servers, 8 of them through its ports.
  Job job = job_on(decoder(2), 4, 8);
  job.parallel.zero = 3;
  job.parallel.shard_ranks = 8;
  const StepPlan plan = lower(job).value();
  const auto shards = group_of_role(plan, GroupRole::kShards);
  CHECK(shards.ranks == 8);
  CHECK(shards.nodes == 1);
  const auto copies = group_of_role(plan, GroupRole::kCopies);
  CHECK(copies.ranks == 4);
  CHECK(copies.nodes == 4);
  CHECK(copies.siblings == 8);
  CHECK(rows_in(plan, GroupRole::kGradients).empty());
  const auto sums = rows_in(plan, GroupRole::kCopies);
  REQUIRE(sums.size() == 4);
  for (const Row& row : sums) {
    REQUIRE(row.after < plan.rows.size());
    const Row& scattered = plan.rows[row.after];
    CHECK(scattered.op == CollectiveOp::kReduceScatter);
    CHECK(scattered.ready == row.ready);
    CHECK(row.size == scattered.size);  // the whole buffer of a sum is what a rank has scattered
    CHECK(row.every_pass);
  }
  CHECK(sums[1].size.in(bytes) == Approx(kBlockWeights * 4 / 8));
  CHECK(plan.classes[0].updated.in(bytes) == Approx(5 * 4 * (2 * kBlockWeights + 2 * 512'000 + 512) / 8));
  job.parallel.shard_ranks = 5;
  CHECK(refused(job).notes == std::vector<std::string>{"valid: 1, 2, 4, 8, 16, 32"});
}

TEST_CASE("lower: buckets of gradients are scattered, and weights gathered before or beside forward", "[unit][plan]") {
  // One bucket of 25 MiB; everything is 2 blocks, table and head and a norm.
  Job job = job_on(decoder(2), 1, 4);
  const double all = 2 * kBlockWeights + 2 * 512'000 + 512;
  job.parallel.zero = 1;
  job.strategy.first_bucket = job.strategy.bucket = mebibytes(100);
  StepPlan plan = lower(job).value();
  REQUIRE(plan.rows.size() == 2);
  CHECK(plan.rows[0].op == CollectiveOp::kReduceScatter);
  CHECK(plan.rows[0].ready == backward(0));
  CHECK(plan.rows[0].size.in(bytes) == Approx(all));  // of 4 ranks, 4 bytes each
  CHECK_FALSE(plan.rows[0].every_pass);
  CHECK(plan.rows[0].encoded == DataSize::zero());
  CHECK(plan.rows[1].in_the_way);
  CHECK(plan.rows[1].ready == kUpdate);
  job.parallel.overlap_gather = true;
  plan = lower(job).value();
  CHECK_FALSE(plan.rows[1].in_the_way);
  CHECK(plan.rows[1].ready == kBegin);
  CHECK(plan.rows[1].needed == forward(0));
  CHECK(plan.rows[1].with_first());
  CHECK_FALSE(plan.rows[1].every_pass);
}

TEST_CASE("lower: who shards or splits sends buckets of 40 million elements, and of a million per rank",
          "[unit][plan]") {
  const auto scattered = [](const Job& job) {
    std::vector<double> elements;
    const StepPlan plan = lower(job).value();
    for (const Row& row : plan.rows) {
      const double ranks = static_cast<double>(job.cluster.gpus());
      if (row.op != CollectiveOp::kReduceScatter) continue;
      elements.insert(elements.end(), static_cast<std::size_t>(row.count), row.size.in(bytes)*ranks / 4);
    }
    return elements;
  };
  // 40 blocks of 2,229,248 weights, table and head of 512,000, a norm: 90,194,432, head first. No tensor has more
  // than 524,288, so a bucket overshoots by less.
  Job job = job_on(decoder(40), 1, 4);
  job.parallel.zero = 1;
  const std::vector<double> sent = scattered(job);
  REQUIRE(sent.size() == 3);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    CHECK(sent[i] >= 40e6);
    CHECK(sent[i] < 40e6 + 524'288);
  }
  CHECK(sent[0] + sent[1] + sent[2] == Approx(40 * kBlockWeights + 2 * 512'000 + 512));
  CHECK(scattered([] {
          Job of64 = job_on(decoder(40), 8, 8);  // 64 million each
          of64.parallel.zero = 1;
          return of64;
        }())
            .size() == 2);
  Job after = job;
  after.overlap = Overlap::kNone;
  CHECK(scattered(after).size() == 1);
  job.strategy.bucket = mebibytes(25);  // stated: 6,553,600 elements
  CHECK(scattered(job).size() > 10);
}

TEST_CASE("lower: what is kept for backward goes to the host and back, block by block", "[unit][plan]") {
  Job job = job_on(decoder(2), 1, 1);
  job.parallel.offload_activations = true;
  StepPlan plan = lower(job).value();
  const auto out = rows_of_kind(plan, RowKind::kCopy);
  const auto back = rows_of_kind(plan, RowKind::kCopyBack);
  REQUIRE(out.size() == 2);  // two blocks; a table keeps nothing, and the head's is needed at once
  REQUIRE(back.size() == 2);
  // What memory counts: what two layers read is kept once.
  const auto model = decoder(2);
  const auto counted = kept_activations(model->layers, {});
  DataSize kept;
  for (std::size_t i = 1; i < 15; ++i) kept += counted[i].always + counted[i].core;
  CHECK(out[0].size.in(bytes) == Approx(kept.in(bytes)));
  double saved = 0;
  for (std::size_t i = 1; i < 15; ++i) saved += static_cast<double>(model->layers[i].saved_elements);
  CHECK(kept.in(bytes) < 4 * saved);
  // So the host has all that is sent to it.
  CHECK(plan.classes[0].memory.host.in(bytes) == Approx((out[0].size + out[1].size).in(bytes)));
  CHECK(out[0].ready == forward(14));
  CHECK(back[0].needed == backward(14));
  CHECK(back[0].ready == backward(29));
  CHECK(back[1].ready == forward(31));
  CHECK(plan.rows[back[0].after].size == out[0].size);
  CHECK(plan.rows[back[0].after].kind == RowKind::kCopy);
  // Computed again, a block keeps its input alone.
  job.parallel.recompute = Recompute::kFull;
  CHECK(rows_of_kind(lower(job).value(), RowKind::kCopy)[0].size.in(bytes) == 4 * 32 * 512);
  // Per operator its input, q 512, v 128, attention 512 and a sum for each of 8 heads, gate 1024 and down 512.
  job.parallel.recompute = Recompute::kPerOp;
  CHECK(rows_of_kind(lower(job).value(), RowKind::kCopy)[0].size.in(bytes) ==
        4 * 32 * (512 + 512 + 128 + 512 + 8 + 1024 + 512));
}

TEST_CASE("lower: the order of axes says which ranks are neighbours", "[unit][plan]") {
  // 2 servers of 8: tensor 2, context 2, pipeline 2, so 2 replicas.
  Grid grid{.along = {2, 2, 1, 2, 2}, .gpus_per_node = 8};
  const auto nodes = [&](Axis axis) { return group_along(grid, axis).value().nodes; };
  CHECK(nodes(Axis::kTensor) == 1);
  CHECK(nodes(Axis::kData) == 1);
  CHECK(nodes(Axis::kPipeline) == 2);
  grid.order = {Axis::kTensor, Axis::kPipeline, Axis::kContext, Axis::kExpert, Axis::kData};
  CHECK(nodes(Axis::kPipeline) == 1);
  CHECK(nodes(Axis::kData) == 2);
  CHECK(group_along(grid, Axis::kData).value().siblings == 8);
  // Replicas and context ranks together: four, two in each server.
  const RankGroup both = group_along(grid, std::array{Axis::kData, Axis::kContext}).value();
  CHECK(both.ranks == 4);
  CHECK(both.nodes == 2);
  CHECK(both.siblings == 4);
  grid.order = {Axis::kData, Axis::kPipeline, Axis::kContext, Axis::kExpert, Axis::kTensor};
  CHECK(nodes(Axis::kTensor) == 2);
}

TEST_CASE("lower: a boundary inside a server is priced as one", "[unit][plan]") {
  // 4 stages on 2 servers of 2: 0-1 and 2-3 are neighbours in a server, 1-2 is not.
  Job job = job_on(decoder(4), 2, 2);
  job.parallel.pipeline = 4;
  const StepPlan plan = lower(job).value();
  std::vector<std::int64_t> nodes;
  for (const Row& row : plan.rows) {
    if (row.op == CollectiveOp::kSendRecv && row.needed_by > row.rank_class) {
      nodes.push_back(plan.groups[row.group].nodes);
      CHECK(plan.groups[row.group].ranks == 2);
    }
  }
  CHECK(nodes == std::vector<std::int64_t>{1, 2, 1});
  // One GPU of each server sends.
  CHECK(group_of_role(plan, GroupRole::kStagesAcross).siblings == 1);
}

TEST_CASE("lower: what tensor ranks send between stages", "[unit][plan]") {
  // Rows of 1,000 bytes x 32 x 4: the whole from each rank, a part of it, or the rows that are its own.
  Job job = job_on(decoder(4), 2, 4);
  job.parallel.pipeline = 2;
  const auto sent = [&] {
    const StepPlan plan = lower(job).value();
    std::vector<double> sizes;
    for (const Row& row : plan.rows) {
      if (row.op == CollectiveOp::kSendRecv) sizes.push_back(row.size.in(bytes));
    }
    return sizes;
  };
  const std::vector<double> alone = sent();
  REQUIRE(alone.size() == 2);
  job.parallel.tensor = 4;
  CHECK(sent() == alone);
  job.parallel.scatter_gather = true;
  const std::vector<double> parts{alone[0] / 4, alone[1] / 4};
  CHECK(sent() == parts);
  job.parallel.sequence = true;
  CHECK(sent() == parts);
  job.parallel.scatter_gather = false;
  CHECK(sent() == parts);
}

TEST_CASE("lower: one process shares out its batch and weights", "[unit][plan]") {
  Job job = job_on(decoder(1), 1, 4);
  auto model = *job.model;
  model.input_per_sample = bytes(1000);
  job.model = std::make_shared<const workload::Model>(model);
  job.batch = 3;
  job.strategy.kind = StrategyKind::kDataParallel;
  const double weights = 4 * (kBlockWeights + 2 * 512'000 + 512);  // 13 MB: two buffers of 10 MiB
  StepPlan plan = lower(job).value();
  REQUIRE(plan.rows.size() == 6);
  CHECK(plan.rows[0].kind == RowKind::kCopyBack);
  CHECK(plan.rows[0].size.in(bytes) == 4 * 3 * 1000);
  CHECK(plan.rows[0].alone);
  CHECK(plan.rows[1].op == CollectiveOp::kSendRecv);
  CHECK(plan.rows[1].count == 3);
  CHECK(plan.rows[1].size.in(bytes) == 3 * 1000);
  CHECK(plan.rows[2].op == CollectiveOp::kBroadcast);
  CHECK(plan.rows[2].count == 2);
  CHECK(plan.rows[2].size.in(bytes) == Approx(weights / 2));
  CHECK(plan.rows[2].ready == kBegin);
  CHECK(plan.rows[3].ready == forward(17));
  CHECK(plan.rows[3].size.in(bytes) == 3 * 32 * 1000 * 4);
  CHECK(plan.rows[4].size == plan.rows[3].size);
  CHECK(plan.rows[5].op == CollectiveOp::kReduce);
  CHECK(plan.rows[5].ready == backward(0));
  for (const Row& row : plan.rows) CHECK((row.in_the_way && row.every_pass));
  CHECK(plan.input == DataSize::zero());
  // The three remedies.
  job.strategy.split_on_host = true;
  plan = lower(job).value();
  REQUIRE(plan.rows.size() == 5);
  CHECK(plan.rows[0].size.in(bytes) == 3 * 1000);
  CHECK_FALSE(plan.rows[0].alone);
  job.strategy.preload = true;
  plan = lower(job).value();
  REQUIRE(plan.rows.size() == 4);
  CHECK(plan.input.in(bytes) == 3 * 1000);
  job.strategy.parameter_compression = 2.0;
  plan = lower(job).value();
  CHECK(plan.rows[0].size.in(bytes) == Approx(weights / 2));
  CHECK(plan.rows[0].count == 1);
  // Copied into the buffer, 2 x half; read whole and written small, and back: 2 x (1 + half).
  CHECK(plan.rows[0].encoded.in(bytes) == Approx(weights + 3 * weights));
  job.cluster.nodes = 2;
  CHECK(refused(job).notes == std::vector<std::string>{"use strategy allreduce"});
  job.cluster.nodes = 1;
  job.parallel.tensor = 2;
  CHECK(refused(job).code == ErrorCode::kUnsupported);
}

TEST_CASE("lower: ranks of a group have its number in common", "[unit][plan]") {
  // 16 ranks: tensor 2, context 2, expert 2, data 2. A rank is t + 2 (c + 2 (e + 2 d)).
  const Grid grid{.along = {2, 2, 2, 2, 1}, .gpus_per_node = 8};
  const auto members = [&](GroupRole role, std::int64_t ranks) {
    std::vector<std::int64_t> found;
    for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
      if (group_number(grid, {.role = role, .ranks = ranks}, rank) ==
          group_number(grid, {.role = role, .ranks = ranks}, 5)) {
        found.push_back(rank);
      }
    }
    return found;
  };
  using Ranks = std::vector<std::int64_t>;
  CHECK(members(GroupRole::kTensor, 2) == Ranks{4, 5});  // 5 is t 1, c 0, e 1, d 0
  CHECK(members(GroupRole::kContext, 2) == Ranks{5, 7});
  CHECK(members(GroupRole::kExperts, 2) == Ranks{1, 5});
  CHECK(members(GroupRole::kExpertGradients, 4) == Ranks{5, 7, 13, 15});
  CHECK(members(GroupRole::kGradients, 8) == Ranks{1, 3, 5, 7, 9, 11, 13, 15});
  // Experts over tensor ranks, then over context ranks as well: 5 is one of 4 + t, then of 4 + t + 2 c.
  Grid wide = grid;
  wide.whole_experts = true;
  wide.experts_tensor = 2;
  const auto of = [&](GroupRole role) {
    Ranks found;
    for (std::int64_t rank = 0; rank < wide.ranks(); ++rank) {
      if (group_number(wide, {.role = role}, rank) == group_number(wide, {.role = role}, 5)) found.push_back(rank);
    }
    return found;
  };
  CHECK(of(GroupRole::kExperts) == Ranks{0, 1, 4, 5});
  CHECK(of(GroupRole::kExpertGradients) == Ranks{5, 7, 13, 15});
  wide.experts_context = 2;
  CHECK(of(GroupRole::kExperts) == Ranks{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(of(GroupRole::kExpertGradients) == Ranks{5, 13});
  // Two neighbours of four context ranks: 5 is t 1, c 2, d 0 of t + 2 (c + 4 d).
  wide = {.along = {2, 4, 1, 2, 1}, .gpus_per_node = 8};
  wide.experts_context = 2;
  CHECK(of(GroupRole::kExperts) == Ranks{5, 7});
  CHECK(of(GroupRole::kExpertGradients) == Ranks{1, 5, 9, 13});
  CHECK(of(GroupRole::kContext) == Ranks{1, 3, 5, 7});
  CHECK(of(GroupRole::kGradients) == Ranks{1, 3, 5, 7, 9, 11, 13, 15});
  // Whole ones that no ranks share: all have the same.
  wide = {.along = {2, 4, 1, 2, 1}, .gpus_per_node = 8};
  wide.whole_experts = true;
  CHECK(of(GroupRole::kExperts) == Ranks{5});
  CHECK(of(GroupRole::kExpertGradients).size() == 16);
  // Shards over the innermost four replicas (context and expert), copies over data.
  CHECK(members(GroupRole::kShards, 4) == Ranks{1, 3, 5, 7});
  CHECK(members(GroupRole::kCopies, 2) == Ranks{5, 13});
}

TEST_CASE("lower: the copies of DualPipe's other direction share states", "[unit][plan]") {
  Job job = job_on(decoder(4), 1, 4);
  job.strategy.accumulation = by_default<std::int64_t>(4);
  job.parallel = {.pipeline = 2, .schedule = PipelineSchedule::kDualPipe, .zero = 3};
  const auto weights = [&] { return lower(job).value().classes.front().memory.weights; };
  const DataSize all = weights();
  job.parallel.shard_ranks = 4;  // two replicas, twice: all of them, said aloud
  CHECK(weights() == all);
  job.parallel.shard_ranks = 0;
  job.parallel.zero = 0;
  CHECK(weights() == all * 4.0);
}

TEST_CASE("lower: a head that is tied to the first stage's table has a copy on the last", "[unit][plan]") {
  using namespace workload;
  auto model = *decoder(2);
  model.layers[model.layers.size() - 2] =
      made_layer(Linear{.out = 1000, .bias = false, .tied = true}, {32, 512}, "head");
  Job job = job_on(test::model_of(model.layers, "tied"), 1, 2);
  CHECK(lower(job).value().layer(0, 30).parameters.empty());
  job.parallel.pipeline = 2;
  const StepPlan plan = lower(job).value();
  std::vector<Row> sums;
  std::copy_if(plan.rows.begin(), plan.rows.end(), std::back_inserter(sums),
               [](const Row& row) { return row.op == CollectiveOp::kAllReduce; });
  REQUIRE(sums.size() == 2);
  for (const Row& row : sums) {
    CHECK(row.size.in(bytes) == 4 * 512'000);
    CHECK(row.ready == backward(0));
    CHECK(row.needed == kUpdate);
    CHECK_FALSE(row.every_pass);
    CHECK(plan.groups[row.group].ranks == 2);
  }
  CHECK(sums[0].rank_class == 0);
  CHECK(sums[1].rank_class == 1);
  CHECK(plan.layer(1, plan.classes[1].chunk.count - 2).parameters == std::vector<std::int64_t>{512'000});
}

TEST_CASE("lower: shards of one rank are copies, which sum whole gradients and gather nothing", "[unit][plan]") {
  for (const int zero : {1, 2, 3}) {
    CAPTURE(zero);
    Job job = job_on(decoder(2), 4, 8);
    job.parallel.zero = zero;
    job.parallel.shard_ranks = 1;
    const StepPlan plan = lower(job).value();
    CHECK(of(plan, CollectiveOp::kAllGather).empty());
    CHECK(of(plan, CollectiveOp::kReduceScatter).empty());
    double summed = 0;
    for (const Row& row : rows_in(plan, GroupRole::kCopies)) {
      CHECK(row.op == CollectiveOp::kAllReduce);
      CHECK(row.after == kNoRow);
      summed += row.size.in(bytes) * static_cast<double>(row.count);
    }
    CHECK(summed == Approx(4 * (2 * kBlockWeights + 2 * 512'000 + 512)));
  }
}

TEST_CASE("lower: weights are gathered in the format of computation, or in 8 bits", "[unit][plan]") {
  // FSDP keeps fp32 and casts a rank's share before it sends it; ZeRO 1 sends what it has updated.
  Job job = job_on(decoder(2), 1, 4);
  const auto gathered = [&] { return of(lower(job).value(), CollectiveOp::kAllGather)[1].size.in(bytes); };
  job.parallel.zero = 3;
  const double whole = gathered();
  job.precision = Precision::kBf16;
  CHECK(gathered() == Approx(whole / 2));
  const DataSize unit = lower(job).value().classes[0].memory.buffers;
  job.precision = Precision::kFp8;
  CHECK(gathered() == Approx(whole / 2));
  job.parallel.gather_fp8 = true;
  CHECK(gathered() == Approx(whole / 4));
  CHECK(lower(job).value().classes[0].memory.buffers == unit / 2.0);
  job.precision = Precision::kBf16;
  CHECK(refused(job).notes.front() == "--precision fp8, or parallel.gather_fp8 no");
  // Nor are weights kept in 8 bits for products of 16.
  job.parallel.gather_fp8 = false;
  for (const States states : {States::kFp8, States::kFp8Primary}) {
    job.parallel.states = states;
    CHECK(refused(job).notes.front() == "--precision fp8, or parallel.states mixed");
  }
  job.precision = Precision::kFp8;
  CHECK(lower(job));
}
