#include "ddlsim/workload/shard.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <string>

using namespace ddlsim;
using namespace ddlsim::workload;
using primitives::CollectiveOp;

namespace {

Layer layer(const Op& op, const Shape& in, std::string name = "a layer") {
  return layer_of(op, in, std::move(name)).value().layer;
}

/// Elements of the gradient tensors.
std::int64_t parameters(const std::vector<Shard>& shards) {
  std::int64_t all = 0;
  for (const Shard& shard : shards) {
    all = std::accumulate(shard.layer.parameters.begin(), shard.layer.parameters.end(), all);
  }
  return all;
}

/// Elements that a shard's group sums after a pass of it.
std::int64_t summed(const Shard& shard, bool forward) {
  for (const Sent& sent : shard.sent) {
    if (sent.op == CollectiveOp::kAllReduce && sent.forward == forward && !sent.fp32) return sent.elements;
  }
  return 0;
}

Expected<std::vector<Shard>> shard(std::span<const Layer> layers, std::int64_t tensor) {
  return workload::shard(layers, Cut{.tensor = tensor});
}

struct Sums {
  std::vector<std::size_t> forward;
  std::vector<std::size_t> backward;
};

/// After which layers a group sums.
Sums sums(const std::vector<Shard>& shards) {
  Sums found;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (summed(shards[i], true) > 0) found.forward.push_back(i);
    if (summed(shards[i], false) > 0) found.backward.push_back(i);
  }
  return found;
}

using Places = std::vector<std::size_t>;

}  // namespace

TEST_CASE("shard: the two products of an MLP, the header's example", "[unit][workload]") {
  const std::vector<Layer> mlp{layer(Linear{.out = 4096}, {128, 1024}),
                               layer(Pointwise{.reads = Reads::kOutput}, {128, 4096}),
                               layer(Linear{.out = 1024}, {128, 4096})};
  const auto shards = shard(mlp, 2).value();
  REQUIRE(shards.size() == 3);
  // By columns: 1024 x 2048 and a bias of 2048; gelu on 2048; by rows: 2048 x 1024, whose bias stays whole.
  CHECK(shards[0].layer.parameters == std::vector<std::int64_t>{1024 * 2048, 2048});
  CHECK(shards[1].layer.forward_elements == 2 * 128 * 2048);
  CHECK(shards[2].layer.parameters == std::vector<std::int64_t>{2048 * 1024, 1024});
  for (const std::size_t i : Places{0, 2}) {
    CHECK(shards[i].layer.forward_work.in(flops) == Approx(2.0 * 128 * 1024 * 2048));
    CHECK(shards[i].layer.forward_work * 2.0 == mlp[i].forward_work);
    CHECK(shards[i].layer.backward_work * 2.0 == mlp[i].backward_work);
  }
  // One sum each way, of 128 rows of 1024.
  CHECK(sums(shards).forward == Places{2});
  CHECK(sums(shards).backward == Places{0});
  CHECK(summed(shards[2], true) == 128 * 1024);
  CHECK(summed(shards[0], false) == 128 * 1024);
}

TEST_CASE("shard: queries, keys and values sum one input's gradient; heads are shared out", "[unit][workload]") {
  const Shape rows{64, 768};
  const std::vector<Layer> block{
      layer(LayerNorm{}, rows),        layer(Linear{.out = 768}, rows),     layer(Linear{.out = 768}, rows),
      layer(Linear{.out = 768}, rows), layer(Attention{.heads = 12}, rows), layer(Linear{.out = 768}, rows),
      layer(Combine{}, rows)};
  const auto shards = shard(block, 4).value();
  CHECK(shards[0].layer.parameters == std::vector<std::int64_t>{768, 768});  // a norm is whole
  for (const std::size_t i : Places{1, 2, 3}) CHECK(shards[i].layer.parameters.front() == 768 * 192);
  // 3 of 12 heads: scores and context of 64 x 64 keys over 192 values each.
  CHECK(shards[4].layer.forward_work.in(flops) == Approx(4.0 * 64 * 64 * 192));
  CHECK(shards[4].layer.scores == 3 * 64 * 64);
  CHECK(shards[5].layer.parameters.front() == 192 * 768);
  CHECK(sums(shards).forward == Places{5});
  CHECK(sums(shards).backward == Places{1});
  CHECK(shards[6].layer.forward_elements == 3 * 64 * 768);  // the residual is whole
}

TEST_CASE("shard: one product may make queries, keys and values", "[unit][workload]") {
  // As GPT-2 lists it: c_attn of 3 x 768, attention on 768, c_proj.
  const std::vector<Layer> block{layer(Linear{.out = 2304}, {64, 768}), layer(Attention{.heads = 12}, {64, 768}),
                                 layer(Linear{.out = 768}, {64, 768})};
  const auto shards = shard(block, 2).value();
  CHECK(shards[0].layer.parameters.front() == 768 * 1152);
  CHECK(shards[2].layer.parameters.front() == 384 * 768);
  CHECK(sums(shards).forward == Places{2});
  CHECK(sums(shards).backward == Places{0});
}

TEST_CASE("shard: a gated MLP sums its input's gradient once", "[unit][workload]") {
  // gate and up read the same 512; swiglu multiplies what they made; down sums.
  const auto in = Shape{32, 512};
  const auto inside = Shape{32, 2048};
  const Linear wide{.out = 2048, .bias = false};
  const Linear down{.out = 512, .bias = false};
  const std::vector<Layer> fused{layer(wide, in), layer(wide, in), layer(Combine{.product = true}, inside),
                                 layer(down, inside)};
  const auto shards = shard(fused, 4).value();
  CHECK(parameters(shards) == 3 * 512 * 2048 / 4);
  CHECK(shards[2].layer.forward_elements == 3 * 32 * 512);
  CHECK(sums(shards).forward == Places{3});
  CHECK(sums(shards).backward == Places{0});
  // The same with the activation between the two.
  const std::vector<Layer> apart{layer(wide, in), layer(Pointwise{.reads = Reads::kOutput}, inside), layer(wide, in),
                                 layer(Combine{.product = true}, inside), layer(down, inside)};
  CHECK(sums(shard(apart, 4).value()).forward == Places{4});
  CHECK(sums(shard(apart, 4).value()).backward == Places{0});
}

TEST_CASE("shard: gate and up as one product are cut as two are", "[unit][workload]") {
  const auto in = Shape{32, 512};
  const auto inside = Shape{32, 2048};
  const Layer multiply = layer(Combine{.product = true, .gated = true}, inside);
  const Layer down = layer(Linear{.out = 512, .bias = false}, inside);
  const std::vector<Layer> one{layer(Linear{.out = 4096, .bias = false}, in), multiply, down};
  const std::vector<Layer> two{layer(Linear{.out = 2048, .bias = false}, in),
                               layer(Linear{.out = 2048, .bias = false}, in), multiply, down};
  for (const std::int64_t ranks : {2, 4, 8}) {
    const auto joined = shard(one, ranks).value();
    const auto apart = shard(two, ranks).value();
    CHECK(parameters(joined) == parameters(apart));
    CHECK(joined[1].layer.forward_elements == apart[2].layer.forward_elements);
    CHECK(joined[2].layer.parameters.front() == 2048 * 512 / ranks);
    CHECK(sums(joined).forward == Places{2});
    CHECK(sums(joined).backward == Places{0});
  }
}

TEST_CASE("shard: fewer key heads than ranks are copied", "[unit][workload]") {
  // 8 query heads of 64, 2 key heads: over 4 ranks 2 and 1; over 2 ranks 4 and 1.
  const GroupedAttention attention{.heads = 8, .kv_heads = 2, .width = 64, .causal = true};
  const Shape in{16, 512};
  const std::vector<Layer> block{layer(Linear{.out = 512}, in), layer(Linear{.out = 128}, in),
                                 layer(Linear{.out = 128}, in), layer(attention, in), layer(Linear{.out = 512}, in)};
  const auto four = shard(block, 4).value();
  const Layer expected = layer(GroupedAttention{.heads = 2, .kv_heads = 1, .width = 64, .causal = true}, {16, 128});
  CHECK(four[3].layer.forward_work == expected.forward_work);
  CHECK(four[3].layer.forward_elements == expected.forward_elements);
  CHECK(four[4].layer.parameters.front() == 128 * 512);
  CHECK(sums(four).forward == Places{4});
  const Layer half = layer(GroupedAttention{.heads = 4, .kv_heads = 1, .width = 64, .causal = true}, {16, 256});
  CHECK(shard(block, 2).value()[3].layer.forward_elements == half.forward_elements);
}

TEST_CASE("shard: norms of every head's queries are shared out with the heads", "[unit][workload]") {
  // As Qwen3 lists it: 4 query heads and 2 key heads of 64.
  const Shape in{16, 256};
  const std::vector<Layer> block{
      layer(Linear{.out = 256}, in),
      layer(Linear{.out = 128}, in),
      layer(Linear{.out = 128}, in),
      layer(RmsNorm{}, {16, 4, 64}),
      layer(RmsNorm{}, {16, 2, 64}),
      layer(Pointwise{}, {16, 384}),  // rotary, on queries and keys
      layer(GroupedAttention{.heads = 4, .kv_heads = 2, .width = 64, .causal = true}, in),
      layer(Linear{.out = 256}, in),
  };
  const auto shards = shard(block, 2).value();
  CHECK(shards[3].layer.forward_elements == 2 * 16 * 2 * 64);
  CHECK(shards[4].layer.forward_elements == 2 * 16 * 1 * 64);
  CHECK(shards[5].layer.forward_elements == 2 * 16 * 192);
  CHECK(shards[6].layer.forward_work * 2.0 == block[6].forward_work);
  CHECK(sums(shards).forward == Places{7});
  CHECK(sums(shards).backward == Places{0});
}

TEST_CASE("shard: a Mamba-2 block is cut by heads", "[unit][workload]") {
  // 4 heads of 16 and 2 groups of 8: z and x of 64, B and C of 16 each, steps of 4; gated, projected back.
  const std::vector<Layer> block{
      layer(Linear{.out = 64 + 96 + 4, .bias = false}, {32, 24}),
      layer(CausalConv{}, {32, 96}),
      layer(LinearAttention{.heads = 4, .key_heads = 2, .width = 8, .value_width = 16}, {32, 96}),
      layer(Combine{.product = true}, {32, 64}),
      layer(RmsNorm{}, {32, 64}),
      layer(Linear{.out = 24, .bias = false}, {32, 64})};
  const auto shards = shard(block, 2);
  REQUIRE(shards);
  CHECK((*shards)[2].layer.forward_work == block[2].forward_work * 0.5);
  CHECK((*shards)[2].layer.parameters == std::vector<std::int64_t>{2, 2, 2});
  CHECK((*shards)[1].layer.parameters == std::vector<std::int64_t>{48 * 4});
  CHECK((*shards)[4].layer.parameters == std::vector<std::int64_t>{32});
  CHECK((*shards)[5].layer.forward_work == block[5].forward_work * 0.5);
  CHECK(sums(*shards).forward == Places{5});
  CHECK_FALSE(shard(block, 4));  // 2 groups
}

TEST_CASE("shard: embeddings, experts and tied heads", "[unit][workload]") {
  // 1001 rows are padded to 1004 over 4 ranks, as Megatron pads vocabularies; the tied head alike.
  const std::vector<Layer> ends{layer(Embedding{.rows = 1001, .width = 64, .lookups = 32}, {32}),
                                layer(Linear{.out = 1001, .bias = false, .tied = true}, {32, 64})};
  const auto shards = shard(ends, 4).value();
  CHECK(parameters(shards) == 251 * 64);
  CHECK(summed(shards[0], true) == 32 * 64);
  CHECK(shards[1].layer.forward_work.in(flops) == Approx(2.0 * 32 * 64 * 251));
  CHECK(summed(shards[1], false) == 32 * 64);
  const std::vector<Layer> mixture{layer(Experts{.experts = 8, .active = 2, .width = 256}, {32, 64})};
  const auto part = shard(mixture, 2).value();
  CHECK(part[0].layer.forward_work * 2.0 == mixture[0].forward_work);
  CHECK(summed(part[0], true) == 32 * 64);
  CHECK(summed(part[0], false) == 32 * 64);
}

TEST_CASE("shard: one rank has everything, and sums are its own", "[unit][workload]") {
  const std::vector<Layer> mlp{layer(Linear{.out = 4096}, {128, 1024}),
                               layer(Pointwise{.reads = Reads::kOutput}, {128, 4096}),
                               layer(Linear{.out = 1024}, {128, 4096})};
  const auto shards = shard(mlp, 1).value();
  for (std::size_t i = 0; i < mlp.size(); ++i) {
    CHECK(shards[i].layer.forward_work == mlp[i].forward_work);
    CHECK(shards[i].layer.parameters == mlp[i].parameters);
  }
}

TEST_CASE("shard: a degree that does not divide is told those that do", "[unit][workload]") {
  const std::vector<Layer> mlp{layer(Linear{.out = 12}, {8, 16}, "narrow")};
  const auto wrong = shard(mlp, 5);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == ErrorCode::kInvalidArgument);
  CHECK(wrong.error().message == "layer 'narrow': tensor degree 5 does not divide 12 outputs");
  CHECK(wrong.error().notes == std::vector<std::string>{"valid: 1, 2, 3, 4, 6, 12"});
  const std::vector<Layer> heads{layer(Linear{.out = 96}, {8, 96}), layer(Attention{.heads = 6}, {8, 96}, "heads")};
  CHECK(shard(heads, 4).error().message == "layer 'heads': tensor degree 4 does not divide 6 heads");
}

TEST_CASE("shard: a head of fewer outputs than ranks is whole", "[unit][workload]") {
  const std::vector<Layer> head{layer(Linear{.out = 2}, {768})};
  const auto shards = shard(head, 4).value();
  CHECK(shards[0].layer.parameters == head[0].parameters);
  CHECK(sums(shards).backward.empty());
}

TEST_CASE("shard: what keeps no operator is not cut", "[unit][workload]") {
  Layer measured;
  measured.name = "traced";
  const auto wrong = shard(std::vector<Layer>{measured}, 2);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == ErrorCode::kUnsupported);
  CHECK(wrong.error().message.find("'traced'") != std::string::npos);
  const Layer timed = layer(Measured{.time = {milliseconds(1), milliseconds(2)}}, {8, 16});
  CHECK(shard(std::vector<Layer>{timed}, 2).error().code == ErrorCode::kUnsupported);
}

TEST_CASE("shard: groups of a product after attention are shared, a whole product is made by every rank",
          "[unit][workload]") {
  const std::vector<Layer> block{
      layer(Linear{.out = 4, .bias = false, .whole = true}, {8, 6}),
      layer(RmsNorm{}, {8, 4}),
      layer(Linear{.out = 16, .bias = false}, {8, 6}),
      layer(Pointwise{}, {8, 20}),
      layer(GroupedAttention{.heads = 4, .kv_heads = 1, .width = 4, .window = 3, .causal = true, .pooled = 2}, {8, 16}),
      layer(Linear{.out = 12, .bias = false, .groups = 2}, {8, 16}),
      layer(Linear{.out = 6, .bias = false}, {8, 12})};
  const auto shards = shard(block, 2).value();
  CHECK(shards[0].layer.parameters == block[0].parameters);
  CHECK(shards[0].sent.empty());
  CHECK(shards[4].layer.in == Shape{8, 8});
  CHECK(shards[4].layer.forward_work * 2.0 == block[4].forward_work);
  CHECK(shards[5].layer.in == Shape{8, 8});
  CHECK(shards[5].layer.parameters == std::vector<std::int64_t>{8 * 6});  // one group of two
  CHECK(shards[5].layer.forward_work * 2.0 == block[5].forward_work);
  CHECK(shards[5].sent.empty());
  CHECK(shards[6].layer.in == Shape{8, 6});
  CHECK(sums(shards).forward == Places{6});
  const auto four = shard(block, 4);
  REQUIRE_FALSE(four);
  CHECK(four.error().message.find("does not divide 2 groups") != std::string::npos);
}
