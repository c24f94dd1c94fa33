#include "ddlsim/workload/op.h"

#include <catch2/catch.hpp>

using namespace ddlsim;
using namespace ddlsim::workload;

namespace {

LayerAndShape made(const Op& op, const Shape& in) {
  auto result = layer_of(op, in, "layer");
  REQUIRE(result);
  return *result;
}

double mflop(Work work) { return work.in(flops) / 1e6; }

}  // namespace

TEST_CASE("op: the stem of ResNet-50", "[unit][workload]") {
  const LayerAndShape stem =
      made(Convolution{.out = 64, .kernel = {7, 7}, .stride = {2, 2}, .pad = {3, 3}}, {3, 224, 224});
  CHECK(stem.out == Shape{64, 112, 112});
  // 2 * 64 * 3 * 49 * 112 * 112 = 236,027,904; backward makes two such products.
  CHECK(mflop(stem.layer.forward_work) == Approx(236.027904).epsilon(1e-12));
  CHECK(mflop(stem.layer.backward_work) == Approx(472.055808).epsilon(1e-12));
  CHECK(stem.layer.parameters == std::vector<std::int64_t>{9408});       // 64 * 3 * 49
  CHECK(stem.layer.forward_elements == 3 * 224 * 224 + 64 * 112 * 112);  // read, written
  CHECK(stem.layer.saved_elements == 64 * 112 * 112);
}

TEST_CASE("op: groups divide a convolution's weights and work", "[unit][workload]") {
  const LayerAndShape whole = made(Convolution{.out = 32, .kernel = {3, 3}, .pad = {1, 1}}, {32, 8, 8});
  const LayerAndShape depthwise =
      made(Convolution{.out = 32, .kernel = {3, 3}, .pad = {1, 1}, .groups = 32}, {32, 8, 8});
  CHECK(whole.layer.forward_work / depthwise.layer.forward_work == Approx(32));
  CHECK(depthwise.layer.parameters.front() == 32 * 9);
  CHECK_FALSE(layer_of(Convolution{.out = 32, .groups = 3}, {32, 8, 8}, ""));
}

TEST_CASE("op: a linear layer acts on the last size", "[unit][workload]") {
  const LayerAndShape head = made(Linear{.out = 1000}, {2048});
  CHECK(mflop(head.layer.forward_work) == Approx(4.096));  // 2 * 2048 * 1000
  CHECK(head.layer.parameters == std::vector<std::int64_t>{2'048'000, 1000});
  const LayerAndShape tokens = made(Linear{.out = 768, .bias = false}, {128, 768});
  CHECK(tokens.out == Shape{128, 768});
  CHECK(mflop(tokens.layer.forward_work) == Approx(150.994944));  // 2 * 128 * 768 * 768
  CHECK(made(Linear{.out = 10, .bias = true, .tied = true}, {4}).layer.parameters == std::vector<std::int64_t>{10});
}

TEST_CASE("op: attention counts scores and context", "[unit][workload]") {
  const LayerAndShape attention = made(Attention{.heads = 12}, {128, 768});
  CHECK(mflop(attention.layer.forward_work) == Approx(50.331648));  // 4 * 128 * 128 * 768
  CHECK(attention.layer.parameters.empty());
  // 10 * 12 * 128 * 128 of scores, Q and output 2 * 128 * 768, K and V as much again.
  CHECK(attention.layer.forward_elements == 10 * 12 * 128 * 128 + 4 * 128 * 768);
  const LayerAndShape cross = made(Attention{.heads = 12, .keys = 64}, {128, 768});
  CHECK(cross.layer.forward_work / attention.layer.forward_work == Approx(0.5));
}

TEST_CASE("op: an LSTM has four tensors per direction", "[unit][workload]") {
  const LayerAndShape lstm = made(Lstm{.hidden = 1024, .directions = 2}, {50, 512});
  CHECK(lstm.out == Shape{50, 2048});
  CHECK(lstm.layer.parameters.size() == 8);
  CHECK(lstm.layer.parameters[0] == 4 * 1024 * 512);
  CHECK(lstm.layer.parameters[1] == 4 * 1024 * 1024);
  // 2 directions * 50 steps * 2 * 4096 * (512 + 1024)
  CHECK(mflop(lstm.layer.forward_work) == Approx(1258.2912));
}

TEST_CASE("op: a sparse embedding sends the rows it touched", "[unit][workload]") {
  const LayerAndShape dense = made(Embedding{.rows = 1000, .width = 16, .lookups = 3}, {3});
  CHECK(dense.out == Shape{3, 16});
  CHECK(dense.layer.parameters.front() == 16'000);
  CHECK(dense.layer.sparse_elements == 0);
  // Three rows summed into one: read 48, written 16; back once read, twice 48.
  const LayerAndShape pooled = made(Embedding{.rows = 1000, .width = 16, .lookups = 3, .out = {16}}, {3});
  CHECK(pooled.layer.forward_elements == 64);
  CHECK(pooled.layer.backward_elements == 112);
  CHECK(pooled.layer.saved_elements == 16);
  CHECK(pooled.out == Shape{16});
  const LayerAndShape sparse = made(Embedding{.rows = 1000, .width = 16, .lookups = 3, .sparse_gradient = true}, {3});
  CHECK(sparse.layer.sparse_elements == 48);
}

TEST_CASE("op: pooling rounds down, or up when asked", "[unit][workload]") {
  CHECK(made(Pool{.kernel = {3, 3}, .stride = {2, 2}}, {64, 112, 112}).out == Shape{64, 55, 55});
  CHECK(made(Pool{.kernel = {3, 3}, .stride = {2, 2}, .ceil = true}, {64, 112, 112}).out == Shape{64, 56, 56});
  CHECK(made(Pool{.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}}, {64, 112, 112}).out == Shape{64, 56, 56});
  CHECK(made(GlobalPool{}, {2048, 7, 7}).out == Shape{2048});
}

TEST_CASE("op: memory-bound operators have no FLOPs", "[unit][workload]") {
  const LayerAndShape norm = made(BatchNorm{}, {64, 10, 10});
  CHECK(norm.layer.forward_work == Work::zero());
  CHECK(norm.layer.forward_elements == 3 * 6400);
  CHECK(norm.layer.backward_elements == 5 * 6400);
  CHECK(norm.layer.parameters == std::vector<std::int64_t>{64, 64});
  CHECK(made(LayerNorm{}, {128, 768}).layer.parameters == std::vector<std::int64_t>{768, 768});
  CHECK(made(Flatten{}, {256, 6, 6}).layer.forward_kernels == 0);
}

TEST_CASE("op: what does not fit is refused", "[unit][workload]") {
  CHECK_FALSE(layer_of(Convolution{.out = 8, .kernel = {9, 9}}, {3, 8, 8}, ""));
  CHECK_FALSE(layer_of(Convolution{.out = 8}, {3, 8}, ""));
  CHECK_FALSE(layer_of(Attention{}, {3, 8, 8}, ""));
  CHECK_FALSE(layer_of(Lstm{.hidden = 4}, {8}, ""));
  // 2^40 by 2^40 weights exceed 2^53.
  const auto huge = layer_of(Linear{.out = std::int64_t{1} << 40}, {std::int64_t{1} << 40}, "");
  REQUIRE_FALSE(huge);
  CHECK(huge.error().message.find("2^53") != std::string::npos);
}

TEST_CASE("op: FLOPs have no limit, elements have", "[unit][workload]") {
  // A million tokens: 2^19 (2^20 + 1) pairs, backward 2 (3 + 2) 4096 FLOPs each: 2.25e16, over 2^53 = 9.0e15.
  const std::int64_t rows = std::int64_t{1} << 20;
  const GroupedAttention op{.heads = 32, .kv_heads = 8, .width = 128, .causal = true};
  const LayerAndShape attention = made(op, {rows, 4096});
  const double pairs = 0x1p19 * (0x1p20 + 1);
  CHECK(attention.layer.forward_work.in(flops) == Approx(2 * pairs * 2 * 4096).epsilon(1e-15));
  CHECK(attention.layer.backward_work.in(flops) == Approx(2 * pairs * 5 * 4096).epsilon(1e-15));
  // 2^60 pairs are no count of anything.
  CHECK_FALSE(layer_of(op, {std::int64_t{1} << 30, 4096}, ""));
  // Up to 2^53 they are exact.
  CHECK(made(Linear{.out = (1 << 20) + 1}, {(1 << 20) + 3}).layer.forward_work.in(flops) ==
        2.0 * static_cast<double>(((std::int64_t{1} << 20) + 1) * ((std::int64_t{1} << 20) + 3)));
}

TEST_CASE("op: an RMS norm has one tensor", "[unit][workload]") {
  const LayerAndShape norm = made(RmsNorm{}, {128, 768});
  CHECK(norm.layer.parameters == std::vector<std::int64_t>{768});
  CHECK(norm.layer.forward_elements == 2 * 128 * 768);
  CHECK(norm.layer.backward_elements == 3 * 128 * 768);
  CHECK(norm.layer.forward_work == Work::zero());
  CHECK_FALSE(layer_of(RmsNorm{}, {}, ""));
}

TEST_CASE("op: grouped attention shares keys and values, and keeps scores on the chip", "[unit][workload]") {
  // Llama-3.1-8B on 100 tokens: 32 heads of 128 share 8 keys and values; 100^2 pairs.
  const LayerAndShape full = made(GroupedAttention{.heads = 32, .kv_heads = 8, .width = 128}, {100, 4096});
  CHECK(full.out == Shape{100, 4096});
  CHECK(full.layer.parameters.empty());
  CHECK(mflop(full.layer.forward_work) == Approx(2 * 1e4 * 32 * 256 / 1e6));
  CHECK(full.layer.backward_work / full.layer.forward_work == Approx(2.5));
  // Queries and output of 4096, keys and values of 8 * 128.
  CHECK(full.layer.forward_elements == 100 * (2 * 4096 + 2 * 1024));
  CHECK(full.layer.saved_elements == 100 * (4096 + 32));
  // Half the pairs and the diagonal.
  const LayerAndShape causal =
      made(GroupedAttention{.heads = 32, .kv_heads = 8, .width = 128, .causal = true}, {100, 4096});
  CHECK(causal.layer.forward_work / full.layer.forward_work == Approx(0.505));
  // DeepSeek: keys of 192, values of 128. Forward 2 p h (192 + 128), backward 2 p h (3 * 192 + 2 * 128).
  const LayerAndShape latent = made(GroupedAttention{.heads = 128, .width = 192, .value_width = 128}, {10, 24'576});
  CHECK(latent.out == Shape{10, 16'384});
  CHECK(mflop(latent.layer.forward_work) == Approx(2 * 100 * 128 * 320 / 1e6));
  CHECK(mflop(latent.layer.backward_work) == Approx(2 * 100 * 128 * 832 / 1e6));
  // A window of 4 on 10 rows: 1 + 2 + 3 + 4 + 6 * 4 = 34 pairs; a wider one than the rows changes nothing.
  const LayerAndShape window = made(GroupedAttention{.heads = 1, .width = 8, .window = 4, .causal = true}, {10, 8});
  CHECK(window.layer.forward_work.in(flops) == 2 * 34 * 16);
  const LayerAndShape wide = made(GroupedAttention{.heads = 1, .width = 8, .window = 40, .causal = true}, {10, 8});
  CHECK(wide.layer.forward_work.in(flops) == 2 * 55 * 16);
  CHECK_FALSE(layer_of(GroupedAttention{.heads = 4, .kv_heads = 3, .width = 2}, {10, 8}, ""));
  CHECK_FALSE(layer_of(GroupedAttention{.heads = 4, .width = 2}, {10, 9}, ""));
}

TEST_CASE("op: experts cost what is active and weigh what there is", "[unit][workload]") {
  // Mixtral: 2 of 8 experts of 3 * 4096 * 14336 on 100 tokens.
  const LayerAndShape moe = made(Experts{.experts = 8, .active = 2, .width = 14'336}, {100, 4096});
  CHECK(moe.out == Shape{100, 4096});
  CHECK(moe.layer.parameters == std::vector<std::int64_t>(24, 4096 * 14'336));
  CHECK(mflop(moe.layer.forward_work) == Approx(2.0 * 100 * 2 * 3 * 4096 * 14'336 / 1e6));
  CHECK(moe.layer.backward_work / moe.layer.forward_work == Approx(2));
  CHECK(moe.layer.forward_weight_elements == 24LL * 4096 * 14'336);
  // One token touches two experts; without a gate an expert has two matrices.
  const LayerAndShape one = made(Experts{.experts = 8, .active = 2, .width = 16, .gated = false}, {1, 4});
  CHECK(one.layer.parameters == std::vector<std::int64_t>(16, 64));
  CHECK(one.layer.forward_weight_elements == 2 * 2 * 64);
  CHECK(one.layer.forward_work.in(flops) == 2 * 2 * 2 * 64);
  CHECK_FALSE(layer_of(Experts{.experts = 2, .active = 3, .width = 4}, {1, 4}, ""));
  CHECK_FALSE(layer_of(Experts{.experts = std::int64_t{1} << 40, .active = 1, .width = 4}, {1, 4}, ""));
  CHECK_FALSE(
      layer_of(Experts{.experts = 8, .active = 8, .width = std::int64_t{1} << 40}, {std::int64_t{1} << 40}, ""));
}

TEST_CASE("op: chunks, sinks and biases of experts", "[unit][workload]") {
  // 20 rows in chunks of 8: 36 + 36 + 10 pairs; heads of 2: 2 * 82 * 4 * (2 + 2).
  const LayerAndShape chunked = made(GroupedAttention{.heads = 4, .width = 2, .causal = true, .chunk = 8}, {20, 8});
  CHECK(chunked.layer.forward_work.in(flops) == 2 * 82 * 16);
  CHECK(made(GroupedAttention{.heads = 4, .width = 2, .chunk = 8}, {20, 8}).layer.forward_work.in(flops) ==
        2 * (64 + 64 + 16) * 16);
  CHECK(chunked.layer.parameters.empty());
  CHECK(made(GroupedAttention{.heads = 4, .width = 2, .sinks = true}, {20, 8}).layer.parameters ==
        std::vector<std::int64_t>{4});
  // Two experts of 3 * 8 * 5 and biases of 5, 5 and 8.
  const LayerAndShape experts = made(Experts{.experts = 2, .active = 1, .width = 5, .bias = true}, {20, 8});
  CHECK(experts.layer.parameters == std::vector<std::int64_t>{40, 40, 40, 40, 40, 40, 5, 5, 8, 5, 5, 8});
}

TEST_CASE("op: a causal convolution moves what it reads", "[unit][workload]") {
  const LayerAndShape conv = made(CausalConv{.kernel = 4, .bias = true}, {128, 96});
  CHECK(conv.out == Shape{128, 96});
  CHECK(conv.layer.parameters == std::vector<std::int64_t>{384, 96});
  CHECK(conv.layer.forward_work.in(flops) == 0);
  CHECK(conv.layer.forward_elements == 2 * 128 * 96);
  CHECK_FALSE(layer_of(CausalConv{}, {96}, ""));
}

TEST_CASE("op: linear attention by chunks", "[unit][workload]") {
  // 256 rows, 2 chunks of 128, 4 heads of 64 by a state of 32, one group of keys: per chunk 2 * 128^2 * 32 once, per
  // head 2 * 128^2 * 64 and 2 * 128 * 32 * 64 twice.
  const LinearAttention mamba{.heads = 4, .key_heads = 1, .width = 32, .value_width = 64, .chunk = 128};
  const LayerAndShape ssd = made(mamba, {256, 2 * 32 + 4 * 64});
  constexpr double kScores = 2.0 * 2 * 128 * 128 * 32;
  constexpr double kValues = 2.0 * 4 * 2 * 128 * 128 * 64;
  constexpr double kState = 2.0 * 4 * 2 * 128 * 32 * 64;
  CHECK(ssd.out == Shape{256, 256});
  CHECK(ssd.layer.forward_work.in(flops) == kScores + kValues + 2 * kState);
  // Twice, and scores and state once more.
  CHECK(ssd.layer.backward_work.in(flops) == 3 * kScores + 2 * kValues + 5 * kState);
  CHECK(ssd.layer.parameters == std::vector<std::int64_t>{4, 4, 4});
  // Linear in the rows.
  CHECK(made(mamba, {512, 320}).layer.forward_work == ssd.layer.forward_work * 2.0);
  // The delta rule, chunks of 60: c^2 n three times, c^3 / 6, c^2 v twice, c n v three times, all times 2.
  const LayerAndShape delta =
      made(LinearAttention{.heads = 2, .width = 16, .value_width = 8, .chunk = 60, .delta = true}, {120, 2 * 32 + 16});
  constexpr double kProducts = 60.0 * 60 * (3 * 16 + 10 + 2 * 8) + 3 * 60.0 * 16 * 8;
  CHECK(delta.layer.forward_work.in(flops) == 2 * 2 * 2 * kProducts);
  CHECK(delta.layer.parameters == std::vector<std::int64_t>{2, 2});
  CHECK_FALSE(layer_of(LinearAttention{.heads = 4, .key_heads = 3, .width = 2, .value_width = 2}, {8, 20}, ""));
  CHECK_FALSE(layer_of(mamba, {256, 100}, ""));
}

TEST_CASE("op: index scores are of every pair", "[unit][workload]") {
  const LayerAndShape scores = made(IndexScores{.heads = 3, .width = 5, .keep = 4}, {20, 15});
  CHECK(scores.out == Shape{20, 4});
  CHECK(scores.layer.forward_work.in(flops) == 2 * 210 * 15);  // 20 * 21 / 2 pairs
  CHECK(scores.layer.backward_work.in(flops) == 4 * 210 * 15);
  CHECK(scores.layer.parameters.empty());
}

TEST_CASE("op: keys pooled over rows, counted one by one", "[unit][workload]") {
  const auto pairs = [](std::int64_t rows, std::int64_t window, std::int64_t pooled, std::int64_t keep) {
    std::int64_t sum = 0;
    for (std::int64_t t = 1; t <= rows; ++t) {
      sum += std::min(t, window == 0 ? t : window);
      if (pooled > 0) sum += keep == 0 ? t / pooled : std::min(t / pooled, keep);
    }
    return static_cast<double>(sum);
  };
  for (const std::int64_t rows : {1, 3, 4, 8, 13, 64}) {
    for (const std::int64_t window : {0, 1, 5}) {
      for (const std::int64_t pooled : {0, 1, 2, 4, 7}) {
        for (const std::int64_t keep : {0, 1, 2, 5, 100}) {
          const GroupedAttention op{.heads = 3,
                                    .kv_heads = 1,
                                    .width = 2,
                                    .window = window,
                                    .causal = true,
                                    .pooled = pooled,
                                    .pooled_keep = keep};
          const Layer layer = made(op, {rows, 6}).layer;
          CAPTURE(rows, window, pooled, keep);
          CHECK(layer.forward_work.in(flops) == 2 * pairs(rows, window, pooled, keep) * 3 * 4);
          // Queries, the output, keys and values of rows and of pools.
          CHECK(layer.forward_elements == rows * (6 + 6 + 4) + (pooled == 0 ? 0 : rows / pooled * 4));
        }
      }
    }
    const IndexScores op{.heads = 3, .width = 5, .keep = 2, .pooled = 4};
    const LayerAndShape scores = made(op, {rows, 15});
    CHECK(scores.out == Shape{rows, std::min<std::int64_t>(2, rows / 4)});
    CHECK(scores.layer.forward_work.in(flops) == 2 * (pairs(rows, 0, 4, 0) - pairs(rows, 0, 0, 0)) * 15);
  }
  const GroupedAttention all{.heads = 2, .width = 4, .pooled = 2};
  CHECK_FALSE(layer_of(all, {8, 8}, ""));  // of queries that look ahead
  CHECK_FALSE(layer_of(IndexScores{.heads = 1, .width = 4, .keep = 1, .pooled = 0}, {8, 4}, ""));
}

TEST_CASE("op: a product by groups", "[unit][workload]") {
  const LayerAndShape whole = made(Linear{.out = 12, .bias = false}, {5, 24});
  const LayerAndShape apart = made(Linear{.out = 12, .bias = false, .groups = 4}, {5, 24});
  CHECK(apart.out == whole.out);
  CHECK(apart.layer.forward_work.in(flops) == 2 * 5 * 4 * 6 * 3);
  CHECK(apart.layer.forward_work * 4.0 == whole.layer.forward_work);
  CHECK(apart.layer.backward_work * 4.0 == whole.layer.backward_work);
  CHECK(apart.layer.parameters == std::vector<std::int64_t>{72});
  CHECK(apart.layer.forward_weight_elements == 72);
  CHECK(apart.layer.forward_elements == whole.layer.forward_elements);
  CHECK_FALSE(layer_of(Linear{.out = 12, .groups = 5}, {5, 24}, ""));
  CHECK_FALSE(layer_of(Linear{.out = 10, .groups = 4}, {5, 24}, ""));
  CHECK_FALSE(layer_of(Linear{.out = 10, .groups = 0}, {5, 24}, ""));
}

TEST_CASE("op: the host works on every sample, forward alone", "[unit][workload]") {
  const LayerAndShape sorted = made(HostWork{milliseconds(36)}, {7, 5});
  CHECK(sorted.out == Shape{7, 5});
  CHECK(sorted.layer.host == milliseconds(36));
  CHECK(sorted.layer.forward_work == Work::zero());
  CHECK(sorted.layer.forward_elements + sorted.layer.backward_elements + sorted.layer.saved_elements == 0);
  CHECK(sorted.layer.forward_kernels == 1);
  CHECK(sorted.layer.backward_kernels == 0);
}

TEST_CASE("op: a layer keeps what it was made from", "[unit][workload]") {
  const Layer head = made(Linear{.out = 1000, .bias = false}, {128, 2048}).layer;
  REQUIRE(head.op);
  CHECK(std::get<Linear>(*head.op).out == 1000);
  CHECK(head.in == Shape{128, 2048});
  const auto again = layer_of(*head.op, head.in, head.name);
  REQUIRE(again);
  CHECK(again->layer.parameters == head.parameters);
}
