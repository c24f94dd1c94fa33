// What the list of layers says about a product: whole, padded, copied, or another's part.
#include <catch2/catch.hpp>
#include <numeric>
#include <string>

#include "ddlsim/workload/shard.h"

using namespace ddlsim;
using namespace ddlsim::workload;
using primitives::CollectiveOp;

namespace {

Layer layer(const Op& op, const Shape& in, std::string name = "a layer") {
  return layer_of(op, in, std::move(name)).value().layer;
}

Linear product(std::int64_t out) { return {.out = out, .bias = false}; }

std::vector<Shard> cut(const std::vector<Layer>& layers, const Cut& how) { return shard(layers, how).value(); }

std::int64_t sent(const Shard& shard, CollectiveOp op, bool forward) {
  std::int64_t all = 0;
  for (const Sent& one : shard.sent) {
    if (one.op == op && one.forward == forward) all += one.elements * one.count;
  }
  return all;
}

}  // namespace

TEST_CASE("shard: the loss over a cut vocabulary sums three numbers per row", "[unit][workload]") {
  // 1001 tokens over 4 ranks: 251 each, of the table, of a head of its own, and of the loss.
  const std::vector<Layer> ends{layer(Embedding{.rows = 1001, .width = 64, .lookups = 32}, {32}),
                                layer(product(1001), {32, 64}),
                                layer(Pointwise{.reads = Reads::kOutput, .over_rows = true}, {32, 1001})};
  const auto shards = cut(ends, {.tensor = 4});
  CHECK(shards[1].layer.parameters == std::vector<std::int64_t>{251 * 64});
  CHECK(shards[2].layer.in == Shape{32, 251});
  REQUIRE(shards[2].sent.size() == 1);
  CHECK(shards[2].sent[0].count == 3);
  CHECK(shards[2].sent[0].elements == 32);
  CHECK(shards[2].sent[0].fp32);
}

TEST_CASE("shard: positions are whole on every rank", "[unit][workload]") {
  const std::vector<Layer> tables{layer(Embedding{.rows = 1000, .width = 64, .lookups = 32}, {32}),
                                  layer(Embedding{.rows = 512, .width = 64, .lookups = 32}, {32}),
                                  layer(Combine{}, {32, 64})};
  const auto whole = cut(tables, {.tensor = 2});
  CHECK(whole[0].layer.parameters == std::vector<std::int64_t>{500 * 64});
  CHECK(whole[1].layer.parameters == std::vector<std::int64_t>{512 * 64});
  CHECK(whole[1].sent.empty());
  // With rows apart, each rank looks up its own.
  const auto rows = cut(tables, {.tensor = 2, .sequence = true});
  CHECK(rows[1].layer.output_elements == 16 * 64);
  CHECK(rows[1].on_rows);
  CHECK(rows[2].layer.in == Shape{16, 64});
}

TEST_CASE("shard: fewer key heads than ranks are made on each", "[unit][workload]") {
  // 8 query heads and 2 key heads of 64 over 4 ranks: a key head is 64 wide, not 128 / 4; rotary has 2 + 1 heads.
  const Shape in{16, 512};
  const std::vector<Layer> block{layer(product(512), in), layer(product(128), in), layer(product(128), in),
                                 layer(Pointwise{}, {16, 640}),
                                 layer(GroupedAttention{.heads = 8, .kv_heads = 2, .width = 64, .causal = true}, in)};
  const auto shards = cut(block, {.tensor = 4});
  CHECK(shards[0].layer.parameters == std::vector<std::int64_t>{512 * 128});
  CHECK(shards[1].layer.parameters == std::vector<std::int64_t>{512 * 64});
  CHECK(shards[3].layer.in == Shape{16, 3 * 64});
  CHECK(cut(block, {.tensor = 2})[3].layer.in == Shape{16, 5 * 64});
  // As one product: queries over all ranks, keys and values of a head on each.
  const std::vector<Layer> fused{layer(product(768), in), layer(Pointwise{}, {16, 640}),
                                 layer(GroupedAttention{.heads = 8, .kv_heads = 2, .width = 64, .causal = true}, in)};
  CHECK(cut(fused, {.tensor = 4})[0].layer.parameters == std::vector<std::int64_t>{512 * (128 + 2 * 64)});
  CHECK(cut(fused, {.tensor = 2})[0].layer.parameters == std::vector<std::int64_t>{512 * 384});
}

TEST_CASE("shard: down projections before a norm of theirs are whole", "[unit][workload]") {
  // As DeepSeek-V3 lists them: 24 queries' and 16 + 4 keys' columns, normed; 4 heads of 12 and 8.
  const Shape in{16, 96};
  const std::vector<Layer> mla{
      layer(product(24), in),
      layer(RmsNorm{}, {16, 24}),
      layer(product(48), {16, 24}),
      layer(product(20), in),
      layer(RmsNorm{}, {16, 16}),
      layer(product(4 * 16), {16, 16}),
      layer(Pointwise{}, {16, 96}),
      layer(GroupedAttention{.heads = 4, .width = 12, .value_width = 8, .causal = true}, {16, 48}),
      layer(product(96), {16, 32})};
  const auto shards = cut(mla, {.tensor = 2});
  for (const std::size_t i : {0U, 1U, 3U, 4U}) {
    CHECK(shards[i].layer.parameters == mla[i].parameters);
    CHECK(shards[i].sent.empty());
  }
  for (const std::size_t i : {2U, 5U, 8U}) CHECK(shards[i].layer.parameters[0] * 2 == mla[i].parameters[0]);
  CHECK(shards[6].layer.in == Shape{16, 48});
  CHECK(shards[7].layer.forward_work * 2.0 == mla[7].forward_work);
  CHECK(sent(shards[2], CollectiveOp::kAllReduce, false) == 16 * 24);
  CHECK(sent(shards[5], CollectiveOp::kAllReduce, false) == 16 * 16);
  CHECK(sent(shards[8], CollectiveOp::kAllReduce, true) == 16 * 96);
  // With rows apart, what is whole works on them, and the projections up gather.
  const auto rows = cut(mla, {.tensor = 2, .sequence = true});
  CHECK(rows[0].layer.in == Shape{8, 96});
  CHECK(sent(rows[2], CollectiveOp::kAllGather, true) == 16 * 24);
}

TEST_CASE("shard: routers are whole, and experts' inner width is cut", "[unit][workload]") {
  const std::vector<Layer> mixture{layer(product(8), {32, 64}),
                                   layer(Pointwise{.reads = Reads::kOutput, .over_rows = true}, {32, 8}),
                                   layer(Experts{.experts = 8, .active = 2, .width = 256}, {32, 64})};
  const auto shards = cut(mixture, {.tensor = 4});
  CHECK(shards[0].layer.parameters == std::vector<std::int64_t>{8 * 64});
  CHECK(shards[0].sent.empty());
  CHECK(shards[1].layer.in == Shape{32, 8});
  CHECK(shards[2].layer.parameters.front() == 64 * 64);
}

TEST_CASE("shard: a gated MLP as wide as the model is no row product", "[unit][workload]") {
  // Gate, its activation, up, their product, down, all of 64: up reads the whole, for its output is multiplied.
  const Shape in{16, 64};
  const std::vector<Layer> mlp{layer(product(64), in), layer(Pointwise{.reads = Reads::kOutput}, in),
                               layer(product(64), in), layer(Combine{.product = true}, in), layer(product(64), in)};
  const auto shards = cut(mlp, {.tensor = 2});
  CHECK(shards[2].layer.in == in);
  CHECK(shards[2].layer.parameters == std::vector<std::int64_t>{64 * 32});
  CHECK(shards[3].layer.in == Shape{16, 32});
  CHECK(shards[4].layer.in == Shape{16, 32});
  CHECK(sent(shards[4], CollectiveOp::kAllReduce, true) == 16 * 64);
  CHECK(sent(shards[0], CollectiveOp::kAllReduce, false) == 16 * 64);
  for (const std::size_t i : {1U, 2U, 3U}) CHECK(shards[i].sent.empty());
}

TEST_CASE("shard: rows that the tensor degree does not divide", "[unit][workload]") {
  const std::vector<Layer> norm{layer(RmsNorm{}, {15, 64}, "norm")};
  const auto wrong = shard(norm, {.tensor = 2, .sequence = true});
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message == "layer 'norm': tensor degree 2 does not divide 15 rows");
  CHECK(wrong.error().notes == std::vector<std::string>{"valid: 1, 3, 5, 15"});
}

TEST_CASE("shard: on how many places a row has experts", "[unit][workload]") {
  CHECK(places_of_a_row({8, 2}, 4) == Approx(13 / 7.0));  // 4 (1 - (6 x 5) / (8 x 7))
  CHECK(places_of_a_row({8, 2}, 8) == Approx(2));
  CHECK(places_of_a_row({8, 2}, 1) == 1);
  CHECK(places_of_a_row({4, 4}, 2) == 2);
  CHECK(places_of_a_row({256, 8}, 4) == Approx(3.614214).epsilon(1e-6));
  CHECK(places_of_a_row({256, 8}, 32) == Approx(7.266800).epsilon(1e-6));
}

TEST_CASE("shard: experts that rows came to are sorted and summed", "[unit][workload]") {
  // 32 rows of 64 to 2 of 8 experts each, over 4 ranks: 2 experts and 64 rows; half as many again with a load of 1.5.
  const std::vector<Layer> mixture{layer(Experts{.experts = 8, .active = 2, .width = 256}, {32, 64})};
  const Shard even = cut(mixture, {.expert = 4})[0];
  CHECK(even.experts);
  CHECK(even.layer.forward_work == mixture[0].forward_work);
  CHECK(even.layer.output_elements == 32 * 64);
  CHECK(even.layer.parameters.size() == 2 * 3);
  // Sorted once more and back, 4 x 64 rows; less what the sum of two experts' rows counted as outputs, 32 rows.
  const Layer one = layer(Experts{.experts = 2, .active = 1, .width = 256}, {64, 64});
  CHECK(even.layer.forward_elements == one.forward_elements + (4 * 64 - 32) * 64);
  CHECK(even.layer.backward_elements == one.backward_elements + (4 * 64 - 32) * 64);
  CHECK(sent(even, CollectiveOp::kAllToAll, true) == 2 * 64 * 64);
  CHECK(sent(even, CollectiveOp::kAllToAll, false) == 2 * 64 * 64);
  const Shard busy = cut(mixture, {.expert = 4, .expert_load = 1.5})[0];
  CHECK(busy.layer.forward_work == mixture[0].forward_work * 1.5);
  CHECK(sent(busy, CollectiveOp::kAllToAll, true) == 3 * 64 * 64);
}
