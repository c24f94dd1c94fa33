#include "ddlsim/plan/messages.h"

#include <catch2/catch.hpp>
#include <memory>

#include "ddlsim/plan/memory.h"

using namespace ddlsim;
using namespace ddlsim::plan;

namespace {

Chunk chunk(const workload::Model& model) { return chunk_of(std::make_shared<const workload::Model>(model)); }

/// One tensor per layer, given in forward order by size in MiB.
workload::Model model_of(std::initializer_list<double> mebibytes_forward) {
  workload::Model model;
  for (const double size : mebibytes_forward) {
    workload::Layer layer;
    layer.parameters = {static_cast<std::int64_t>(size * 1024 * 1024 / 4)};
    model.layers.push_back(layer);
  }
  model.totals = workload::total(model.layers).value();
  return model;
}

}  // namespace

TEST_CASE("messages: buckets fill in backward order and never split a tensor", "[unit][plan]") {
  const auto messages = plan::messages(chunk(model_of({4, 10, 20, 1})), Strategy{}, 1);
  // Backward: 1 (the first bucket is full at 1 MiB), then 20 + 10 reach 25, then 4 is left.
  REQUIRE(messages.size() == 3);
  CHECK(messages[0].size.in(mebibytes) == Approx(1));
  CHECK(messages[0].ready.layer == 3);
  CHECK(messages[1].size.in(mebibytes) == Approx(30));
  CHECK(messages[1].ready.layer == 1);
  CHECK(messages[2].size.in(mebibytes) == Approx(4));
  CHECK(messages[2].ready.layer == 0);
}

TEST_CASE("messages: a bucket smaller than a tensor makes one message per tensor", "[unit][plan]") {
  const auto messages = plan::messages(chunk(model_of({4, 10, 20})), Strategy{.bucket = bytes(1)}, 1);
  REQUIRE(messages.size() == 3);
  CHECK(messages[0].size.in(mebibytes) == Approx(20));
}

TEST_CASE("messages: pieces are equal and add up to the tensor", "[unit][plan]") {
  const auto messages =
      plan::messages(chunk(model_of({10})), Strategy{.kind = StrategyKind::kPs, .partition = mebibytes(4)}, 1);
  REQUIRE(messages.size() == 1);
  CHECK(messages[0].count == 3);
  CHECK(messages[0].size.in(mebibytes) == Approx(10.0 / 3));
}

TEST_CASE("messages: half-precision gradients are half as large", "[unit][plan]") {
  const auto messages = plan::messages(chunk(model_of({10})), Strategy{.gradients = Precision::kFp16}, 1);
  CHECK(messages.front().size.in(mebibytes) == Approx(5));
}

TEST_CASE("messages: a sparse gradient is what it touched, at most the table", "[unit][plan]") {
  workload::Model model = model_of({1});
  model.layers.front().sparse_gradient = true;
  model.layers.front().sparse_elements = 64;
  CHECK(plan::messages(chunk(model), Strategy{.kind = StrategyKind::kPs}, 10).front().size.in(bytes) ==
        Approx(10 * 64 * 4));
  const auto whole =
      plan::messages(chunk(model), Strategy{.kind = StrategyKind::kPs, .partition = mebibytes(4)}, 1'000'000).front();
  CHECK(whole.size.in(mebibytes) == Approx(1));
}

TEST_CASE("memory: what a GPU holds under each strategy", "[unit][plan]") {
  workload::Model model = model_of({100});
  model.optimizer = workload::Optimizer::kAdam;
  model.layers.front().saved_elements = 1000;
  model.totals = workload::total(model.layers).value();
  const auto of = [&](StrategyKind kind, std::int64_t gpus) {
    return memory_footprint(model, Strategy{.kind = kind}, gpus, 8, Precision::kFp32);
  };
  // weights 100, gradients 100, two Adam states 200 MiB; 8 * 1000 activations of 4 bytes
  CHECK(of(StrategyKind::kAllReduce, 8).total().in(bytes) == Approx(400 * 1024.0 * 1024.0 + 32'000));
  CHECK(of(StrategyKind::kPs, 8).optimizer_state == DataSize::zero());  // on the servers
  CHECK(of(StrategyKind::kPs, 1).optimizer_state.in(mebibytes) == Approx(200));
  CHECK(memory_footprint(model, {}, 1, 8, Precision::kFp16).activations.in(bytes) == Approx(16'000));
}

TEST_CASE("memory: features alone give a lower bound", "[unit][plan]") {
  workload::Model model;
  model.features = workload::StepFeatures{};
  model.features->dense_weights = gigabytes(1);
  model.features->embedding_weights = gigabytes(16);
  const auto pearl = memory_footprint(model, Strategy{.kind = StrategyKind::kPearl}, 8, 1, Precision::kFp32);
  CHECK_FALSE(pearl.complete);
  CHECK(pearl.total().in(gigabytes) == Approx(1 + 16.0 / 8));
}

TEST_CASE("messages: sparse gradients are gathered, one by one, between the buckets", "[unit][plan]") {
  workload::Model model = model_of({2, 30, 3});
  model.layers[1].sparse_gradient = true;
  model.layers[1].sparse_elements = 256;
  const auto messages = plan::messages(chunk(model), Strategy{}, 1);
  // Backward: 3 MiB fill the first bucket; the table's 256 rows go by themselves; 2 MiB are left.
  REQUIRE(messages.size() == 3);
  CHECK_FALSE(messages[0].gathered());
  CHECK(messages[1].gathered());
  CHECK(messages[1].size.in(bytes) == Approx(1024));
  CHECK(messages[2].ready.layer == 0);
  // A bucket that was filling when the gather came is still sent no later than it is ready.
  workload::Model late = model_of({30, 0.5});
  late.layers[0].sparse_gradient = true;
  late.layers[0].sparse_elements = 1;
  const auto order = plan::messages(chunk(late), Strategy{}, 1);
  REQUIRE(order.size() == 2);
  CHECK(order[0].ready.layer == 1);
  CHECK(order[1].gathered());
}

TEST_CASE("messages: one per tensor, or one in all", "[unit][plan]") {
  const auto each = plan::messages(chunk(model_of({4, 10, 20})), Strategy{.grouping = Grouping::kPerTensor}, 1);
  REQUIRE(each.size() == 3);
  CHECK(each.front().size.in(mebibytes) == Approx(20));
  CHECK(each.front().encoded == DataSize::zero());
  const auto flat = plan::messages(chunk(model_of({4, 10, 20})), Strategy{.grouping = Grouping::kFlat}, 1);
  REQUIRE(flat.size() == 1);
  CHECK(flat.front().size.in(mebibytes) == Approx(34));
  CHECK(flat.front().ready.layer == 0);
  CHECK(flat.front().encoded.in(mebibytes) == Approx(4 * 34));  // in and out, read and written
}

TEST_CASE("messages: servers by turns and by load", "[unit][plan]") {
  Strategy strategy{.kind = StrategyKind::kPs, .grouping = Grouping::kPerTensor, .servers = 2};
  strategy.placement = Placement::kRoundRobin;
  // Model order 30, 1, 20, 2 takes servers 0, 1, 0, 1; backward makes them in reverse.
  const auto turns = plan::messages(chunk(model_of({30, 1, 20, 2})), strategy, 1);
  REQUIRE(turns.size() == 4);
  CHECK(turns[0].server == 1);
  CHECK(turns[1].server == 0);
  CHECK(turns[3].server == 0);
  // A batch norm's moving mean and variance take turns as well: 0; 1, 2, 0, 1; 2 of three servers.
  workload::Model norms = model_of({30, 1, 20});
  norms.layers[1].op = workload::BatchNorm{};
  norms.layers[1].parameters = {1 << 18, 1 << 18};
  strategy.servers = 3;
  const auto with_norm = plan::messages(chunk(norms), strategy, 1);
  REQUIRE(with_norm.size() == 4);
  CHECK(with_norm[3].server == 0);
  CHECK(with_norm[2].server == 1);
  CHECK(with_norm[1].server == 2);
  CHECK(with_norm[0].server == 2);
  strategy.servers = 2;
  strategy.placement = Placement::kGreedy;
  // Largest first: 30 -> 0, 20 -> 1, 2 -> 1, 1 -> 1: loads 30 and 23.
  const auto greedy = plan::messages(chunk(model_of({30, 1, 20, 2})), strategy, 1);
  CHECK(greedy[3].server == 0);
  CHECK(greedy[1].server == 1);
  CHECK(greedy[0].server == 1);
  CHECK(greedy[2].server == 1);
  strategy.placement = Placement::kEven;
  CHECK(plan::messages(chunk(model_of({30})), strategy, 1).front().server == -1);
}

TEST_CASE("messages: what compression sends", "[unit][plan]") {
  Strategy strategy{.grouping = Grouping::kPerTensor};
  const workload::Model model = model_of({4});  // 1,048,576 elements, a square of 1024
  strategy.compression = Compression::kTopK;
  const auto top = plan::messages(chunk(model), strategy, 1).front();
  CHECK(top.size.in(bytes) == Approx(0.01 * 1'048'576 * 8));  // value and index
  CHECK(top.gathered());
  // A histogram, the threshold and the compaction pass over all of it; what each rank sent is read and added.
  CHECK(top.encoded.in(mebibytes) == Approx(3 * 4));
  CHECK(top.encoded_per_rank.in(bytes) == Approx(2 * 0.01 * 1'048'576 * 8));
  strategy.compression = Compression::kSign;
  const auto sign = plan::messages(chunk(model), strategy, 1).front();
  CHECK(sign.size.in(bytes) == Approx(1'048'576 / 8));
  CHECK(sign.encoded.in(mebibytes) == Approx(4));
  CHECK(sign.encoded_per_rank.in(bytes) == Approx(2 * 1'048'576 / 8));
  strategy.compression = Compression::kPowerSgd;
  const auto factors = plan::messages(chunk(model), strategy, 1).front();
  CHECK(factors.count == 2);  // P, then Q
  CHECK(factors.size.in(bytes) == Approx(1024 * 4 * 4));
  CHECK(factors.encoding.in(flops) == Approx(6.0 * 1'048'576 * 4));
  CHECK(factors.encoded.in(mebibytes) == Approx(3 * 4));
  CHECK_FALSE(factors.gathered());
  // 16 elements are no matrix worth factoring.
  workload::Model bias = model_of({1});
  bias.layers.front().parameters = {16};
  bias.totals = workload::total(bias.layers).value();
  CHECK(plan::messages(chunk(bias), strategy, 1).front().size.in(bytes) == Approx(64));
  // Factors are half as large as the matrix at most: 2 x (16 + 16) x 4 are 16 x 16, 2 x (18 + 18) x 4 less than 18
  // x 18.
  bias.layers.front().parameters = {16 * 16};
  CHECK(plan::messages(chunk(bias), strategy, 1).front().count == 1);
  bias.layers.front().parameters = {18 * 18};
  CHECK(plan::messages(chunk(bias), strategy, 1).front().count == 2);
}

TEST_CASE("messages: PowerSGD by the matrices that tensors are, a bucket's together", "[unit][plan]") {
  // Two linear layers of 64 x 1024 with bias: P has 64, Q 1,024 rows of 4 columns, twice; biases stay whole.
  workload::Model model;
  for (int i = 0; i < 2; ++i) {
    model.layers.push_back(workload::layer_of(workload::Linear{.out = 64}, {1024}, "fc").value().layer);
  }
  model.totals = workload::total(model.layers).value();
  Strategy strategy{.grouping = Grouping::kBuckets};
  strategy.compression = Compression::kPowerSgd;
  const auto rows = plan::messages(chunk(model), strategy, 1);
  REQUIRE(rows.size() == 1);
  CHECK(rows.front().count == 3);  // P, Q, and what is whole
  CHECK(rows.front().size.in(bytes) == Approx(2.0 * ((64 + 1024) * 4 + 64) * 4 / 3));
  CHECK(rows.front().encoding.in(flops) == Approx(2.0 * 6 * 64 * 1024 * 4));
  CHECK(rows.front().orthogonalized == 2);  // each P
  CHECK(rows.front().ready.layer == 0);
}

TEST_CASE("messages: a norm's weights are vectors, which PowerSGD leaves whole", "[unit][plan]") {
  workload::Model model;
  model.layers.push_back(workload::layer_of(workload::LayerNorm{}, {1024}, "norm").value().layer);
  model.totals = workload::total(model.layers).value();
  Strategy strategy{.grouping = Grouping::kBuckets};
  strategy.compression = Compression::kPowerSgd;
  const auto rows = plan::messages(chunk(model), strategy, 1);
  REQUIRE(rows.size() == 1);
  CHECK(rows.front().size.in(bytes) == Approx(2 * 1024 * 4));
  CHECK(rows.front().orthogonalized == 0);
}

TEST_CASE("messages: what is kept is what would be made", "[unit][plan]") {
  KeptMessages kept;
  const auto same = [&](const Chunk& layers, const Strategy& strategy, std::int64_t batch) {
    const auto made = plan::messages(layers, strategy, batch);
    const auto& found = kept.of(layers, strategy, batch);
    REQUIRE(found.size() == made.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      CHECK(found[i].size == made[i].size);
      CHECK(found[i].count == made[i].count);
      CHECK(found[i].server == made[i].server);
      CHECK(found[i].ready.layer == made[i].ready.layer);
    }
  };
  workload::Model model = model_of({4, 10, 20, 1});
  model.layers[0].sparse_gradient = true;
  model.layers[0].sparse_elements = 1000;
  const Chunk all = chunk(model);
  Strategy servers{.kind = StrategyKind::kPs, .grouping = std::optional(Grouping::kPerTensor), .servers = 2};
  servers.placement = Placement::kGreedy;
  Strategy more = servers;
  more.servers = 3;
  const std::vector<Strategy> strategies{Strategy{}, Strategy{.bucket = bytes(1)},
                                         Strategy{.gradients = Precision::kFp16}, servers, more};
  // Ten questions, of which eight are kept, twice over; then parts of the layers, and other layers at another address.
  for (int round = 0; round < 2; ++round) {
    for (const Strategy& strategy : strategies) {
      for (const std::int64_t batch : {1, 7}) same(all, strategy, batch);
    }
  }
  same({all.layers, 1, 2}, strategies[0], 7);
  same({all.layers, 1, 3}, strategies[0], 7);
  same({all.layers, 2, 2}, strategies[0], 7);
  same(chunk(model_of({3, 3, 3, 3})), strategies[0], 7);
}

TEST_CASE("fusion: all of a message's tensors are in the buffer, the first one's too", "[unit][plan]") {
  FusionQueue queue({.cycle = milliseconds(1), .buffer = megabytes(64)}, 1);
  queue.push(microseconds(100), {.size = megabytes(5), .count = 3}, 0);
  queue.push(microseconds(200), {.size = megabytes(7), .count = 2}, 1);
  std::vector<FusionQueue::Fused> sent;
  queue.finish([&](Time wake, const FusionQueue::Fused& fused) {
    sent.push_back(fused);
    return wake;
  });
  REQUIRE(sent.size() == 1);
  CHECK(sent.front().row.size.in(megabytes) == Approx(3 * 5 + 2 * 7));
  CHECK(sent.front().row.count == 1);
  CHECK(sent.front().last == 1);
  CHECK_FALSE(sent.front().alone);
}
