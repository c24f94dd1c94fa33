// Rows, context and expert ranks, adapters: rows worked by hand.
#include "by_hand.h"

using namespace ddlsim;
using namespace ddlsim::plan;
using namespace ddlsim::test;
using primitives::CollectiveOp;

namespace {

/// Of the first group of a role; 0 where there is none.
std::int64_t ranks_of(const StepPlan& plan, GroupRole role) {
  for (const RankGroup& group : plan.groups) {
    if (group.role == role) return group.ranks;
  }
  return 0;
}

}  // namespace

TEST_CASE("lower: rows cut over a tensor group are gathered and scattered", "[unit][plan]") {
  // One block on two ranks: whole tensors are 2 samples x 32 x 512 elements of 4 bytes, a rank's share half of that.
  Job job = job_on(decoder(1), 1, 2);
  job.parallel.tensor = 2;
  job.parallel.sequence = true;
  job.batch = 2;
  const StepPlan plan = lower(job).value();
  const std::vector<Row> rows = rows_in(plan, GroupRole::kTensor);
  const double share = 2 * 32 * 512 * 4 / 2.0;
  constexpr auto kGather = CollectiveOp::kAllGather;
  constexpr auto kScatter = CollectiveOp::kReduceScatter;
  // Layers: 0 table, 1 norm, 2 q, 3 k, 4 v, 5 rotary, 6 attention, 7 o, 8 sum, 9 norm, 10 gate, 11 up, 12 swiglu,
  // 13 down, 14 sum, 15 norm, 16 head, 17 loss.
  std::size_t counted = 0;
  for (const std::size_t product : {2U, 10U, 16U}) {  // by columns: before forward, again before backward, and after it
    const auto before = around(rows, kGather, forward(product));
    REQUIRE(before.size() == 1);
    CHECK(before[0].ready == forward(product - 1));
    CHECK(before[0].size.in(bytes) == share);
    CHECK(before[0].beside == 0);
    const auto again = around(rows, kGather, backward(product));
    REQUIRE(again.size() == 1);
    CHECK(again[0].ready == backward(product + 1));
    const auto sum = around(rows, kScatter, backward(product));
    REQUIRE(sum.size() == 1);
    CHECK(sum[0].ready == backward(product));
    CHECK(sum[0].size.in(bytes) == share);
    counted += 3;
  }
  for (const std::size_t sums : {0U, 7U, 13U}) {  // parts of sums: the table, attention's output, the MLP's
    REQUIRE(around(rows, kScatter, forward(sums)).size() == 1);
    REQUIRE(around(rows, kGather, backward(sums)).size() == 1);
    CHECK(around(rows, kGather, backward(sums))[0].ready == backward(sums + 1));
    counted += 2;
  }
  // Beside the products of weights' gradients: q, k and v run as one, 768 outputs for q's 512; gate and up 2048.
  CHECK(around(rows, kScatter, backward(2))[0].beside == Approx(0.5 * 768 / 512));
  CHECK(around(rows, kScatter, backward(10))[0].beside == Approx(1));
  CHECK(around(rows, kScatter, backward(16))[0].beside == Approx(0.5));
  // The loss sums three numbers per row; the norms' gradients, 3 x 512, once a step.
  const auto loss = around(rows, CollectiveOp::kAllReduce, forward(17));
  REQUIRE(loss.size() == 1);
  CHECK(loss[0].count == 3);
  CHECK(loss[0].size.in(bytes) == 2 * 32 * 4);
  const auto norms = around(rows, CollectiveOp::kAllReduce, kUpdate);
  REQUIRE(norms.size() == 1);
  CHECK(norms[0].size.in(bytes) == 3 * 512 * 4);
  CHECK_FALSE(norms[0].every_pass);
  CHECK(rows.size() == counted + 2);
  CHECK(plan.layer(0, 1).in == workload::Shape{16, 512});
  CHECK(plan.layer(0, 14).in == workload::Shape{16, 512});
  CHECK(plan.layer(0, 2).in == workload::Shape{32, 512});
}

TEST_CASE("lower: a product's pieces run beside its gather", "[unit][plan]") {
  Job job = job_on(decoder(1), 1, 4);
  job.parallel = {.tensor = 4, .sequence = true, .overlap_tensor = true};
  const std::vector<Row> rows = rows_in(lower(job).value(), GroupRole::kTensor);
  // Three of four pieces; gate and up together are two of gate.
  CHECK(around(rows, CollectiveOp::kAllGather, forward(10))[0].beside == Approx(0.75 * 2));
  CHECK(around(rows, CollectiveOp::kReduceScatter, forward(13))[0].beside == Approx(0.75));
  CHECK(around(rows, CollectiveOp::kAllGather, backward(13))[0].beside == Approx(0.75 / 2));
  job.parallel.sequence = false;
  CHECK(refused(job).code == ErrorCode::kUnsupported);
}

TEST_CASE("lower: a ring of context ranks passes keys and values on, beside attention", "[unit][plan]") {
  Job job = job_on(decoder(1), 1, 4);
  job.parallel.context = 4;
  job.batch = 2;
  const StepPlan plan = lower(job).value();
  const StepPlan whole = lower(job_on(decoder(1), 1, 4)).value();
  const auto rows = rows_in(plan, GroupRole::kContext);
  REQUIRE(rows.size() == 2);
  // 3 hops of 2 samples x 8 rows x 2 heads x (64 + 64) elements; twice as much in backward.
  CHECK(rows[0].op == CollectiveOp::kSendRecv);
  CHECK(rows[0].count == 3);
  CHECK(rows[0].size.in(bytes) == 2 * 8 * 2 * 128 * 4);
  CHECK(rows[0].needed == forward(6));
  CHECK(rows[0].beside == Approx(0.75));
  CHECK(rows[1].needed == backward(6));
  CHECK(rows[1].size == rows[0].size * 2.0);
  for (const Row& row : rows) CHECK((row.in_the_way && row.every_pass));
  // A quarter of everything, attention's causal pairs among it; weights are whole, and all four sum gradients.
  CHECK(work_of(plan, true) * 4.0 == work_of(whole, true));
  CHECK(plan.layer(0, 1).in == workload::Shape{8, 512});
  CHECK(plan.layer(0, 6).forward.front().times == 4);
  CHECK(plan.groups[0].ranks == 4);
  CHECK(plan.classes[0].updated == whole.classes[0].updated);
  CHECK_FALSE(rows_in(plan, GroupRole::kGradients).empty());
  job.parallel.context = 3;
  job.cluster.gpus_per_node = 3;
  CHECK(refused(job).message == "layer 'attention': context degree 3 does not divide 32 rows");
}

TEST_CASE("lower: Ulysses exchanges rows for heads", "[unit][plan]") {
  Job job = job_on(decoder(1), 1, 2);
  job.parallel.context = 2;
  job.parallel.context_by = ContextBy::kUlysses;
  const StepPlan plan = lower(job).value();
  const auto rows = rows_in(plan, GroupRole::kContext);
  // Queries of 16 x 512, twice keys or values of 16 x 128, the output; of each a half goes to each rank.
  REQUIRE(rows.size() == 6);
  const auto sent = [&](Point point) {
    DataSize all;
    std::int64_t count = 0;
    for (const Row& row : around(rows, CollectiveOp::kAllToAll, point)) {
      all += row.size * static_cast<double>(row.count);
      count += row.count;
    }
    CHECK(count == 4);
    return all.in(bytes);
  };
  CHECK(sent(forward(6)) == 4 * 16 * (512 + 2 * 128 + 512) / 2.0);
  CHECK(sent(backward(6)) == sent(forward(6)));
  const workload::Layer half = test::made_layer(
      workload::GroupedAttention{.heads = 4, .kv_heads = 1, .width = 64, .causal = true}, {32, 256}, "half");
  CHECK(plan.layer(0, 6).forward_work == half.forward_work);
  CHECK(plan.layer(0, 6).forward_elements == half.forward_elements);
  job = job_on(decoder(1), 1, 16);
  job.parallel = {.context = 16, .context_by = ContextBy::kUlysses};
  CHECK(refused(job).message == "layer 'attention': context degree 16 does not divide 8 heads of a rank");
}

TEST_CASE("lower: experts are spread over ranks cut out of the replicas", "[unit][plan]") {
  Job job = job_on(mixture(), 1, 8);
  job.parallel.expert = 4;
  job.batch = 2;
  job.strategy.grouping = Grouping::kFlat;
  const StepPlan plan = lower(job).value();
  // All eight have the norm and the router; two have the same two experts.
  CHECK(plan.groups[0].ranks == 8);
  const auto experts = rows_in(plan, GroupRole::kExperts);
  const auto sums = rows_in(plan, GroupRole::kExpertGradients);
  REQUIRE(experts.size() == 4);
  // 2 samples x 32 rows x 2 experts each x 512 elements of 4 bytes, a quarter for each rank.
  for (const Row& row : experts) {
    CHECK(row.op == CollectiveOp::kAllToAll);
    CHECK(row.size.in(bytes) == 2 * 32 * 2 * 512 * 4 / 4.0);
    CHECK(row.in_the_way);
  }
  CHECK(experts[0].needed == forward(3));
  REQUIRE(sums.size() == 1);
  CHECK(plan.groups[sums[0].group].ranks == 2);
  CHECK(sums[0].size.in(bytes) == 4 * 2 * 3 * 512 * 256);
  CHECK(rows_in(plan, GroupRole::kGradients).at(0).size.in(bytes) == 4 * (512 + 8 * 512));
  CHECK(plan.layer(0, 3).parameters.size() == 6);
  // As many rows as go out come in: the FLOPs of the whole.
  CHECK(plan.layer(0, 3).forward_work == mixture()->layers[3].forward_work);
  // The busiest rank has half as many again, if they may come.
  job.parallel.expert_imbalance = 1.5;
  CHECK(rows_in(lower(job).value(), GroupRole::kExperts)[0].size == experts[0].size * 1.5);
  CHECK(lower(job).value().layer(0, 3).forward_work == mixture()->layers[3].forward_work * 1.5);
  job.parallel.expert_capacity = 1.25;
  CHECK(rows_in(lower(job).value(), GroupRole::kExperts)[0].size == experts[0].size * 1.25);
  // Sent once to a rank that has any of its 2 of 8 experts: 4 (1 - C(6, 2) / C(8, 2)) = 13/7 of 4 ranks, not 2 copies;
  // on two servers of four GPUs the group of four is on one.
  CHECK(expert_load(job.parallel) == 1.25);
  CHECK(expert_share(job.parallel) == 1);
  job.parallel.expert_capacity = 0.5;
  CHECK(expert_load(job.parallel) == 0.5);
  CHECK(expert_share(job.parallel) == 0.5);
  // All rows on one of four ranks, which has both of a row's two experts.
  job.parallel.expert_capacity = 0;
  job.parallel.expert_imbalance = 4;
  CHECK(lower(job));
  job.parallel.expert_imbalance = 4.1;
  CHECK_FALSE(lower(job));
  job.parallel.expert_imbalance = 1;
  job.parallel.expert_dispatch = ExpertDispatch::kOnce;
  CHECK(rows_in(lower(job).value(), GroupRole::kExperts)[0].size.in(bytes) ==
        Approx(experts[0].size.in(bytes)*13 / 14));
  // Eight ranks on two servers: 2 (1 - C(4, 2) / C(8, 2)) = 11/7 of the two.
  job.cluster.nodes = 2;
  job.cluster.gpus_per_node = job.cluster.node.gpus = 4;
  job.parallel.expert = 8;
  CHECK(rows_in(lower(job).value(), GroupRole::kExperts)[0].size.in(bytes) ==
        Approx(2 * 32 * 2 * 512 * 4 / 8.0 * 11 / 14));
  // Both experts on one of the two servers: once each.
  job.parallel.expert_servers = 1;
  CHECK(rows_in(lower(job).value(), GroupRole::kExperts)[0].size.in(bytes) == Approx(2 * 32 * 2 * 512 * 4 / 8.0 / 2));
  job.parallel.expert_servers = 2;
  CHECK(rows_in(lower(job).value(), GroupRole::kExperts)[0].size.in(bytes) ==
        Approx(2 * 32 * 2 * 512 * 4 / 8.0 * 11 / 14));
  job.parallel.expert_servers = -1;
  CHECK_FALSE(lower(job));
  job = job_on(mixture(), 1, 8);
  job.parallel = {.expert = 3};
  CHECK(refused(job).notes == std::vector<std::string>{"valid: 1, 2, 4, 8"});
  job.cluster.gpus_per_node = job.cluster.node.gpus = 3;
  CHECK(refused(job).message == "layer 'experts': expert degree 3 does not divide 8 experts");
}

TEST_CASE("lower: whole experts are shared by tensor ranks as well", "[unit][plan]") {
  Job job = job_on(mixture(), 1, 8);
  job.parallel = {.tensor = 2, .expert = 8, .expert_tensor = 1, .sequence = true};
  StepPlan plan = lower(job).value();
  // Each of the eight has one expert of eight, which nobody else has.
  CHECK(ranks_of(plan, GroupRole::kExperts) == 8);
  CHECK(ranks_of(plan, GroupRole::kGradients) == 4);
  CHECK(ranks_of(plan, GroupRole::kExpertGradients) == 0);
  CHECK(plan.layer(0, 3).parameters == std::vector<std::int64_t>(3, 512 * 256));
  // A rank sends its 16 of 32 rows, two copies of each; as many come: an eighth of what four replicas of 64 have.
  const auto sent = rows_in(plan, GroupRole::kExperts);
  REQUIRE(sent.size() == 4);
  CHECK(sent[0].size.in(bytes) == 16 * 2 * 512 * 4 / 8.0);
  CHECK(plan.layer(0, 3).forward_work == mixture()->layers[3].forward_work * 0.5);
  // So it keeps half of the group's rows for backward, where a rank that has half of every expert keeps all of them:
  // of two copies (512 + 3 x 256) / 2 a row instead of 512 + 3 x 256 / 2.
  Job halves = job;
  halves.parallel.expert = 4;
  halves.parallel.expert_tensor = 2;
  const DataSize kept = plan.classes.front().memory.activations;
  CHECK((lower(halves).value().classes.front().memory.activations - kept).in(bytes) == 32 * 2 * 4 * 512 / 2.0);
  // Nothing is gathered or summed in the tensor group for them.
  CHECK(around(rows_in(plan, GroupRole::kTensor), CollectiveOp::kAllGather, forward(3)).empty());
  CHECK(around(rows_in(plan, GroupRole::kTensor), CollectiveOp::kReduceScatter, forward(3)).empty());

  // On the two tensor ranks of two replicas: the other two have the same.
  job.parallel.expert = 4;
  plan = lower(job).value();
  CHECK(ranks_of(plan, GroupRole::kExperts) == 4);
  CHECK(ranks_of(plan, GroupRole::kExpertGradients) == 2);
  CHECK(plan.layer(0, 3).parameters == std::vector<std::int64_t>(6, 512 * 256));
  const auto sums = rows_in(plan, GroupRole::kExpertGradients);
  REQUIRE(sums.size() == 1);
  CHECK(sums[0].size.in(bytes) == 4 * 2 * 3 * 512 * 256);

  job.parallel.expert = 3;
  CHECK(refused(job).message == "layer 'experts': expert degree 3 does not divide 8 experts");
  CHECK(refused(job).notes == std::vector<std::string>{"valid: 1, 2, 4, 8"});
  // Every rank has all of them, and sums their gradients with all others; none are sent rows.
  job.parallel.expert = 1;
  plan = lower(job).value();
  CHECK(ranks_of(plan, GroupRole::kExperts) == 0);
  CHECK(ranks_of(plan, GroupRole::kExpertGradients) == 8);
  CHECK(rows_in(plan, GroupRole::kExperts).empty());
  CHECK(plan.layer(0, 3).parameters == std::vector<std::int64_t>(24, 512 * 256));
  CHECK(plan.layer(0, 3).forward_work == mixture()->layers[3].forward_work * 0.5);
  job.parallel.sequence = false;
  CHECK(refused(job).notes == std::vector<std::string>{"set parallel.sequence yes"});
  job.parallel.sequence = true;
  // A single replica's tensor ranks have copies too, shared or not.
  Job one = job;
  one.parallel.tensor = 8;
  CHECK(ranks_of(lower(one).value(), GroupRole::kGradients) == 1);
  CHECK(ranks_of(lower(one).value(), GroupRole::kExpertGradients) == 8);
  const auto bytes_summed = [&] {
    double all = 0;
    for (const Row& row : rows_in(lower(one).value(), GroupRole::kExpertGradients)) {
      if (row.op == CollectiveOp::kAllReduce) all += row.size.in(bytes) * static_cast<double>(row.count);
      if (row.op == CollectiveOp::kReduceScatter) all += row.size.in(bytes)*8 * static_cast<double>(row.count);
    }
    return all;
  };
  CHECK(bytes_summed() == 4 * 8 * 3 * 512 * 256);
  one.parallel.zero = 1;
  CHECK(bytes_summed() == 4 * 8 * 3 * 512 * 256);
  job.parallel.expert = 4;
  job.parallel.expert_tensor = 4;
  CHECK(refused(job).notes == std::vector<std::string>{"valid: parallel.expert_tensor 1 (whole experts), 2"});
  // As the other layers are cut: what nobody's word means.
  job.parallel.expert_tensor = 2;
  const StepPlan cut = lower(job).value();
  job.parallel.expert_tensor = 0;
  CHECK(cut.layer(0, 3).parameters == lower(job).value().layer(0, 3).parameters);
  CHECK(cut.layer(0, 3).parameters == std::vector<std::int64_t>(6, 512 * 128));
}

TEST_CASE("lower: expert groups take context ranks before replicas", "[unit][plan]") {
  const auto ranks = [](Parallel parallel, std::int64_t replicas) { return expert_ranks(parallel, replicas); };
  // Two context ranks of two replicas; one context rank of three replicas, where two divide nothing.
  const auto both = ranks({.context = 2, .expert = 4}, 4);
  REQUIRE(both);
  CHECK(both->tensor == 1);
  CHECK(both->context == 2);
  CHECK(both->data == 2);
  // Neighbours in a context group of eight.
  const auto some = ranks({.context = 8, .expert = 4}, 1);
  REQUIRE(some);
  CHECK(some->context == 4);
  CHECK(some->data == 1);
  const auto replicas = ranks({.context = 2, .expert = 3}, 6);
  REQUIRE(replicas);
  CHECK(replicas->context == 1);
  CHECK(replicas->data == 3);
  const auto more = ranks({.context = 2, .expert = 8}, 4);
  REQUIRE(more);  // all eight
  CHECK(more->data == 4);
  CHECK_FALSE(ranks({.context = 2, .expert = 16}, 4));
  const auto all = ranks({.tensor = 2, .context = 2, .expert = 16, .expert_tensor = 1}, 4);
  REQUIRE(all);
  CHECK(all->tensor == 2);
  CHECK(all->context == 2);
  CHECK(all->data == 4);
  // Two of a tensor group of four.
  const auto few = ranks({.tensor = 4, .context = 2, .expert = 2, .expert_tensor = 1}, 4);
  REQUIRE(few);
  CHECK(few->tensor == 2);
  CHECK(few->context == 1);
  CHECK_FALSE(ranks({.tensor = 4, .expert = 6, .expert_tensor = 1}, 6));
  CHECK(expert_degrees({.tensor = 2, .context = 3, .expert_tensor = 1}, 2) ==
        std::vector<std::int64_t>{1, 2, 4, 6, 12});
  CHECK(expert_degrees({.tensor = 2, .context = 3}, 2) == std::vector<std::int64_t>{1, 2, 3, 6});
}

TEST_CASE("lower: neighbours share experts, on one server where it has as many", "[unit][plan]") {
  Job job = job_on(mixture(), 2, 8);
  const auto nodes = [&](GroupRole role) {
    const StepPlan plan = lower(job).value();
    for (const RankGroup& group : plan.groups) {
      if (group.role == role) return group.nodes;
    }
    return std::int64_t{0};
  };
  job.parallel = {.context = 8, .expert = 4};  // half of a context group, which has a server
  CHECK(nodes(GroupRole::kContext) == 1);
  CHECK(nodes(GroupRole::kExperts) == 1);
  CHECK(nodes(GroupRole::kExpertGradients) == 2);
  job.parallel = {.tensor = 8, .expert = 4, .expert_tensor = 1, .sequence = true};
  CHECK(nodes(GroupRole::kExperts) == 1);
  CHECK(nodes(GroupRole::kExpertGradients) == 2);
  job.parallel = {.context = 4, .expert = 16};
  job.cluster.nodes = 4;
  CHECK(refused(job).message == "layer 'experts': expert degree 16 does not divide 8 experts");
}

TEST_CASE("lower: experts of a tensor group gather the rows that were sent", "[unit][plan]") {
  Job job = job_on(mixture(), 1, 8);
  job.parallel = {.tensor = 2, .expert = 2};
  CHECK(refused(job).notes == std::vector<std::string>{"set parallel.sequence yes"});
  job.parallel.sequence = true;
  // Expert groups go over tensor ranks where experts are whole; the refusal says so.
  job.parallel.expert = 8;
  CHECK(refused(job).notes.front() == "valid: 1, 2, 4");
  CHECK(refused(job).notes.back().find("with parallel.expert_tensor 1 experts are whole") != std::string::npos);
  job.parallel.expert = 2;
  const StepPlan plan = lower(job).value();
  const auto sent = rows_in(plan, GroupRole::kExperts);
  REQUIRE(sent.size() == 4);
  CHECK(sent[0].size.in(bytes) == 16 * 2 * 512 * 4 / 2.0);  // a rank's 16 of 32 rows, two experts each
  const auto gathers = around(rows_in(plan, GroupRole::kTensor), CollectiveOp::kAllGather, forward(3));
  REQUIRE(gathers.size() == 1);
  CHECK(gathers[0].size.in(bytes) == 32 * 2 * 512 * 4 / 2.0);
  CHECK(plan.layer(0, 3).parameters == std::vector<std::int64_t>(4 * 3, 512 * 128));
  // A router is whole, on its rank's rows.
  CHECK(plan.layer(0, 1).in == workload::Shape{16, 512});
  CHECK(plan.layer(0, 1).parameters == std::vector<std::int64_t>{8 * 512});
}

TEST_CASE("lower: adapters alone are trained", "[unit][plan]") {
  Job job = job_on(decoder(2), 1, 2);
  const StepPlan whole = lower(job).value();
  job.parallel.lora_rank = 4;
  job.strategy.grouping = Grouping::kFlat;
  const StepPlan plan = lower(job).value();
  // Beside q, k, v and o of both blocks: 4 (512 + 512), twice 4 (512 + 128), 4 (512 + 512).
  const double adapters = 2 * 4 * (1024 + 2 * 640 + 1024);
  CHECK(rows_in(plan, GroupRole::kGradients).at(0).size.in(bytes) == 4 * adapters);
  CHECK(plan.classes[0].updated.in(bytes) == 5 * 4 * adapters);
  const auto products = [](double out, double in) { return 2 * 32 * out * in; };
  const auto& q = plan.layer(0, 2);
  CHECK(q.forward_work.in(flops) == products(512, 512) + products(4, 1024));
  CHECK(q.backward_work.in(flops) == products(512, 512) + 2 * products(4, 1024));
  CHECK(q.frozen_elements == 512 * 512);
  // Gradients flow through the MLP, and stop before the first adapter.
  CHECK(plan.layer(0, 10).backward_work == whole.layer(0, 10).forward_work);
  for (const std::size_t i : {0U, 1U}) CHECK(plan.layer(0, i).backward.empty());
  CHECK(plan.layer(0, 1).backward_kernels == 0);
  job.parallel.lora_rank = 512;  // of q and o; of k and v no more than 128 count
  CHECK(lower(job));
  job.parallel.lora_rank = 513;
  CHECK(refused(job).message == "parallel.lora_rank 513");
  job.parallel.lora_rank = 4;
  workload::Layer conv = test::made_layer(workload::Convolution{.out = 8}, {3, 8, 8}, "conv");
  job.model = test::model_of({conv}, "cnn");
  CHECK(refused(job).message == "no product of attention to adapt by LoRA");
}

TEST_CASE("lower: only what a model has can be split", "[unit][plan]") {
  const workload::Layer conv = test::made_layer(workload::Convolution{.out = 8}, {3, 8, 8}, "conv");
  const workload::Layer head = test::made_layer(workload::Linear{.out = 8}, {512}, "head");
  Job job = job_on(test::model_of({conv, head}, "cnn"), 1, 2);
  job.parallel.tensor = 2;
  CHECK(refused(job).message ==
        "layer 'conv' of cnn cannot be cut over a tensor group: only products of transformers and MLPs are");
  job.parallel = {.context = 2};
  CHECK(refused(job).message == "layer 'conv' cannot be cut over a context group: it does not work row by row");
  job.parallel = {.expert = 2};
  CHECK(refused(job).message == "cnn has no experts to spread over 2 ranks");
  job.parallel = {.recompute = Recompute::kSelective};
  CHECK(refused(job).message == "cnn has no attention to compute again");
  job.parallel = {.recompute = Recompute::kFull, .recompute_every = 0};
  CHECK(refused(job).message == "parallel.recompute_every 0");
  job.parallel = {.context = -1};
  CHECK(refused(job).notes == std::vector<std::string>{"valid: 1 and more"});
  job.parallel = {.shard_ranks = 2};
  CHECK(lower(job));  // shares nothing, and so says nothing
  job.parallel = {.zero = 0, .shard_ranks = 2, .recompute = Recompute::kFull};
  CHECK(refused(job).message == "shard ranks without anything to share");
}

TEST_CASE("lower: an order that leaves a dimension out, and a job without a model, are refused", "[unit][plan]") {
  Job job = job_on(decoder(1), 4, 2);
  CHECK(lower(job));
  job.parallel.order.fill(Axis::kTensor);  // gradients would go nowhere
  CHECK(lower(job).error().code == ErrorCode::kInvalidArgument);
  CHECK(lower(job).error().message.find("parallel.order") != std::string::npos);
  CHECK(lower(Job{}).error().message == "model: there is none");
}
