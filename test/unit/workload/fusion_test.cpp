#include "ddlsim/workload/fusion.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace ddlsim;
using namespace ddlsim::workload;

namespace {

Model model_of(std::vector<std::pair<Op, Shape>> ops) {
  Model model;
  for (const auto& [op, in] : ops) {
    const auto made = layer_of(op, in, "layer");
    REQUIRE(made);
    model.layers.push_back(made->layer);
  }
  model.totals = *total(model.layers);
  return model;
}

}  // namespace

TEST_CASE("fusion: a relu joins its convolution", "[unit][workload]") {
  const Model plain =
      model_of({{Convolution{.out = 10}, {3, 10, 10}}, {Pointwise{.reads = Reads::kOutput}, {10, 10, 10}}});
  const auto model = fused(plain, {.pointwise = true});
  REQUIRE(model);
  // The relu alone moves 2 x 1000 elements forward and 3 x 1000 backward, of which the saved output is read still.
  CHECK(model->layers[0].forward_elements == plain.layers[0].forward_elements);
  CHECK(model->layers[0].backward_elements == plain.layers[0].backward_elements + 1000);
  CHECK(model->layers[1].forward_elements == 0);
  CHECK(model->layers[1].forward_kernels == 0);
  CHECK(model->totals.forward_work == plain.totals.forward_work);
  // Neither is what its operator says any more.
  CHECK(plain.layers[0].op);
  CHECK_FALSE(model->layers[0].op);
  CHECK_FALSE(model->layers[1].op);
}

TEST_CASE("fusion: a residual is still read", "[unit][workload]") {
  const Model plain = model_of({{Linear{.out = 100}, {10, 100}}, {Combine{}, {10, 100}}});
  const auto model = fused(plain, {.pointwise = true});
  REQUIRE(model);
  CHECK(model->layers[0].forward_elements == plain.layers[0].forward_elements + 1000);
}

TEST_CASE("fusion: norms and parameters stay", "[unit][workload]") {
  const Model plain = model_of({{Linear{.out = 100}, {10, 100}}, {LayerNorm{}, {10, 100}}});
  const auto model = fused(plain, {true, true});
  REQUIRE(model);
  CHECK(model->layers[1].forward_elements == plain.layers[1].forward_elements);
  CHECK(model->totals.dense_parameters == plain.totals.dense_parameters);
}

TEST_CASE("fusion: tables that follow each other are one lookup, with the last of them", "[unit][workload]") {
  const auto table = [](std::int64_t lookups, bool sparse) {
    const Embedding op{.rows = 100, .width = 8, .lookups = lookups, .sparse_gradient = sparse};
    return layer_of(op, {lookups}, "table").value().layer;
  };
  const auto layers = fused({table(1, true), table(2, true), table(1, false), table(5, true)}, {.tables = true});
  CHECK(layers[0].forward_kernels + layers[0].backward_kernels == 0);
  CHECK(layers[0].forward.empty());
  CHECK(layers[0].forward_elements + layers[0].backward_elements == 0);
  CHECK(layers[0].parameters == std::vector<std::int64_t>{800});
  CHECK(layers[1].forward_elements == 2 * 24);
  CHECK(layers[1].backward_elements == 3 * 24);
  const auto& lookup = std::get<primitives::MemoryBoundKernel>(layers[1].forward.front().shape);
  CHECK(lookup.kind == primitives::MemoryBoundKind::kLookup);
  CHECK(lookup.elements == 2 * 24);
  REQUIRE(layers[1].backward.size() == 1);
  CHECK(std::get<primitives::MemoryBoundKernel>(layers[1].backward.front().shape).elements == 3 * 24);
  CHECK(layers[2].forward_kernels == 1);
  CHECK(layers[3].forward_elements == 2 * 40);
}

TEST_CASE("fusion: attention keeps its scores on the chip", "[unit][workload]") {
  const Model plain = model_of({{Attention{.heads = 12}, {128, 768}}});
  const auto model = fused(plain, {.attention = true});
  REQUIRE(model);
  const Layer& layer = model->layers[0];
  CHECK(layer.forward_elements == 4 * 128 * 768);              // Q, K, V, output
  CHECK(layer.backward_elements == 8 * 128 * 768 + 128 * 12);  // and a sum per row and head
  CHECK(layer.saved_elements == 128 * 768 + 128 * 12);
  CHECK(layer.backward_work / layer.forward_work == Approx(2.5));
  CHECK(layer.forward_kernels == 1);
  REQUIRE(layer.backward.size() == 1);
  const auto& kernel = std::get<primitives::FusedAttention>(layer.backward[0].shape);
  CHECK(kernel.shape == primitives::AttentionShape{.pass = primitives::AttentionPass::kBackward,
                                                   .queries = 128,
                                                   .keys = 128,
                                                   .heads = 12,
                                                   .kv_heads = 12,
                                                   .width = 64,
                                                   .value_width = 64});
}

TEST_CASE("fusion: attention taken apart has scores of all rows by all, and copies of keys and values",
          "[unit][workload]") {
  const GroupedAttention grouped{.heads = 8, .kv_heads = 2, .width = 16, .causal = true};
  const Model whole = model_of({{grouped, {64, 128}}});
  CHECK(comes_apart(whole.layers[0]));
  const auto apart = fused(whole, {.apart = true});
  const Model several = model_of({{Attention{.heads = 8, .causal = true}, {64, 128}}});
  const Layer& layer = apart->layers[0];
  CHECK(layer.scores == 8 * 64 * 64);
  CHECK(layer.forward_work == several.layers[0].forward_work);
  CHECK(layer.backward_work == several.layers[0].backward_work);
  // Keys, then values: 2 heads are read, 8 written; backward the other way round.
  CHECK(layer.forward_elements == several.layers[0].forward_elements + 2 * 64 * 16 * (8 + 2));
  CHECK(layer.backward_elements == several.layers[0].backward_elements + 2 * 64 * 16 * (8 + 2));
  CHECK(layer.forward_kernels == several.layers[0].forward_kernels + 2);
  CHECK_FALSE(std::get<Attention>(*layer.op).wide);
  const auto single = fused(whole, {.single = true, .apart = true});
  CHECK(std::get<Attention>(*single->layers[0].op).wide);
  // As many heads of keys need no copies; what no list of kernels here computes stays.
  const Model full = model_of({{GroupedAttention{.heads = 8, .width = 16}, {64, 128}}});
  CHECK(fused(full, {.apart = true})->layers[0].forward_kernels == several.layers[0].forward_kernels);
  const Model wide = model_of({{GroupedAttention{.heads = 8, .width = 16, .value_width = 8}, {64, 128}}});
  CHECK_FALSE(comes_apart(wide.layers[0]));
  CHECK(fused(wide, {.apart = true})->layers[0].scores == 0);
}

TEST_CASE("fusion: taken apart, attention in a window computes all scores, and sinks are a column beside them",
          "[unit][workload]") {
  const Layer several = model_of({{Attention{.heads = 8, .causal = true}, {64, 128}}}).layers[0];
  const auto apart = [](const GroupedAttention& op) {
    return fused(model_of({{op, {64, 128}}}), {.apart = true})->layers[0];
  };
  const Layer window = apart({.heads = 8, .width = 16, .window = 8, .causal = true});
  CHECK(window.scores == 8 * 64 * 64);
  CHECK(window.forward_work == several.forward_work);
  CHECK(window.forward_elements == several.forward_elements);
  const Layer sinks = apart({.heads = 8, .width = 16, .causal = true, .sinks = true});
  CHECK(sinks.parameters == std::vector<std::int64_t>{8});
  // Joined with the scores (2), the largest is found (1) and taken off (2).
  CHECK(sinks.forward_elements == several.forward_elements + 5 * several.scores);
  CHECK(sinks.forward_kernels == several.forward_kernels + 3);
  CHECK(sinks.backward_elements == several.backward_elements + 10 * several.scores);
  CHECK(sinks.backward_kernels == several.backward_kernels + 6);
}

TEST_CASE("fusion: CLIP's GELU of single operations", "[unit][workload]") {
  const Model model = model_of({{pointwise("quick_gelu"), {10, 64}}});
  CHECK(model.layers[0].forward_elements == 2 * 640);
  const Layer single = fused(model, {.single = true})->layers[0];
  CHECK(single.forward_elements == 3 * (7 * 640 / 3) + 1);  // c x, its sigmoid, the product
  CHECK(single.forward_kernels == 3);
  CHECK(single.backward_elements == 14 * 640);
  CHECK(single.backward_kernels == 5);
}

TEST_CASE("fusion: one kernel spares what a causal mask hides, and adds no bias to scores", "[unit][workload]") {
  const Model plain = model_of({{Attention{.heads = 12, .causal = true}, {128, 768}}});
  CHECK(plain.layers[0].forward_work.in(flops) == 4 * 128.0 * 128 * 768);  // separate kernels compute all scores
  const Model one = fused(plain, {.attention = true}).value();
  CHECK(one.layers[0].forward_work.in(flops) == Approx(4 * 768 * (128 * 129 / 2)));
  CHECK(std::get<primitives::FusedAttention>(one.layers[0].forward[0].shape).shape.causal);
  const Model biased = model_of({{Attention{.heads = 12, .biased = true}, {128, 768}}});
  CHECK(fused(biased, {.attention = true}).value().layers[0].forward_kernels == 6);
}

TEST_CASE("fusion: convolutions turn images that lie channel by channel", "[unit][workload]") {
  // 3 x 100 elements in, 10 x 100 out: 2 x 1300 a product, forward and for the gradients of weights and input.
  const Model plain = model_of({{Convolution{.out = 10}, {3, 10, 10}}, {Linear{.out = 5}, {10}}});
  const auto model = fused(plain, {.transposes = true});
  REQUIRE(model);
  const Layer& before = plain.layers[0];
  const Layer& after = model->layers[0];
  CHECK(after.forward_elements == before.forward_elements + 2600);
  CHECK(after.backward_elements == before.backward_elements + 2600 * static_cast<std::int64_t>(before.backward.size()));
  CHECK(after.forward.size() == before.forward.size() + 1);
  CHECK(after.forward_kernels == before.forward_kernels + 2);
  CHECK(after.backward_kernels == before.backward_kernels + 2 * static_cast<int>(before.backward.size()));
  CHECK(model->layers[1].forward_elements == plain.layers[1].forward_elements);
  // A depthwise one has kernels of its own for either layout.
  const Model depthwise =
      model_of({{Convolution{.out = 8, .kernel = {3, 3}, .pad = {1, 1}, .groups = 8}, {8, 10, 10}}});
  CHECK(fused(depthwise, {.transposes = true})->layers[0].forward_elements == depthwise.layers[0].forward_elements);
}

namespace {

struct Counted {
  std::int64_t elements = 0;
  int kernels = 0;
};

void check_counts(const Layer& layer, Counted forward, Counted backward) {
  CHECK(layer.forward_elements == forward.elements);
  CHECK(layer.forward_kernels == forward.kernels);
  CHECK(layer.forward.size() == static_cast<std::size_t>(forward.kernels));
  CHECK(layer.backward_elements == backward.elements);
  CHECK(layer.backward_kernels == backward.kernels);
  CHECK(layer.backward.size() == static_cast<std::size_t>(backward.kernels));
}

}  // namespace

TEST_CASE("fusion: norms, positions and gates of PyTorch's models are single operations", "[unit][workload]") {
  const Model plain = model_of({{RmsNorm{}, {10, 100}},
                                {pointwise("rotary"), {10, 100}},
                                {Combine{.product = true, .gated = true}, {10, 100}},
                                {Combine{.product = true}, {10, 100}},
                                {LayerNorm{}, {10, 100}},
                                {pointwise("gelu_new"), {10, 100}},
                                {pointwise("gelu"), {10, 100}}});
  const auto model = fused(plain, {.single = true});
  REQUIRE(model);
  const auto is = [&](std::size_t i, Counted forward, Counted backward) {
    check_counts(model->layers[i], forward, backward);
  };
  is(0, {7'000, 8}, {23'000, 17});
  is(1, {10'000, 10}, {15'000, 18});
  is(2, {5'000, 2}, {9'000, 3});
  is(3, {3'000, 1}, {5'000, 1});
  is(4, {2'000, 1}, {5'000, 2});
  is(5, {18'000, 8}, {28'000, 11});
  is(6, {2'000, 1}, {3'000, 1});
  const auto widening = [&](std::size_t i) {
    return std::get<primitives::MemoryBoundKernel>(model->layers[i].forward.front().shape).widening;
  };
  CHECK(widening(0) == Approx(18.0 / 7));
  CHECK(widening(1) == 1);
  CHECK(widening(5) == 1);
  // TensorFlow's is composed as its other GELU.
  CHECK(fused(plain, {.composed = true})->layers[5].forward_elements == 18'000);
  CHECK(fused(plain, {.pointwise = true, .single = true})->layers[0].forward_kernels == 1);
  // A norm that is not trained has no kernel for its weights.
  Model frozen = model_of({{LayerNorm{}, {10, 100}}});
  frozen.layers.front().parameters.clear();
  CHECK(fused(frozen, {.single = true})->layers[0].backward_kernels == 1);
}

TEST_CASE("fusion: composed operators are single operations, in fp32", "[unit][workload]") {
  const Model plain = model_of({{Pointwise{.reads = Reads::kOutput, .composite = Composite::kGelu}, {10, 100}},
                                {Pointwise{.composite = Composite::kDropout}, {10, 100}},
                                {LayerNorm{}, {10, 100}},
                                {Pointwise{.reads = Reads::kOutput}, {10, 100}},
                                {Attention{.heads = 2}, {10, 100}}});
  const auto model = fused(plain, {.composed = true});
  REQUIRE(model);
  const auto is = [&](std::size_t i, Counted forward, Counted backward) {
    const Layer& layer = model->layers[i];
    check_counts(layer, forward, backward);
    std::int64_t moved = 0;
    for (const auto& kernel : layer.backward) {
      const auto& single = std::get<primitives::MemoryBoundKernel>(kernel.shape);
      CHECK(single.widening == 2);
      moved += single.elements;
    }
    CHECK(moved == backward.elements);
  };
  is(0, {18'000, 8}, {26'000, 10});
  is(1, {8'500, 5}, {5'000, 2});
  is(2, {15'000, 8}, {41'000, 20});
  CHECK(model->layers[3].forward_elements == plain.layers[3].forward_elements);  // a relu is one everywhere
  // Attention: its dropout, on 2 x 10 x 10 scores, of which two accesses each way are counted.
  CHECK(model->layers[4].forward_elements == plain.layers[4].forward_elements + 1300);
  CHECK(model->layers[4].backward_elements == plain.layers[4].backward_elements + 600);
  CHECK(model->layers[4].forward.size() == plain.layers[4].forward.size() + 4);
  CHECK(model->layers[4].backward_kernels == plain.layers[4].backward_kernels + 1);
  CHECK(model->totals.dense_parameters == plain.totals.dense_parameters);
  // A compiler takes them apart and joins them: nothing is composed.
  CHECK(fused(plain, {.pointwise = true, .composed = true})->layers[2].forward_kernels == 1);
}

TEST_CASE("fusion: under autocast a GELU of single operations is in fp32, as its power is", "[unit][workload]") {
  const Model plain =
      model_of({{Linear{.out = 100}, {10, 100}}, {pointwise("gelu_new"), {10, 100}}, {Linear{.out = 100}, {10, 100}}});
  const auto whole = fused(plain, {.autocast = true});
  const auto single = fused(plain, {.autocast = true, .single = true});
  const auto widening = [](const Layer& layer) {
    return std::get<primitives::MemoryBoundKernel>(layer.forward.front().shape).widening;
  };
  CHECK(widening(whole->layers[1]) == 1);
  CHECK(widening(single->layers[1]) == 2);
  // The product after it casts what it reads.
  CHECK(single->layers[2].forward_elements == whole->layers[2].forward_elements + 2 * 1000);
}

TEST_CASE("fusion: under autocast norms and sums are in fp32, and products cast what they read", "[unit][workload]") {
  const Model plain = model_of({{LayerNorm{}, {10, 100}},
                                {Linear{.out = 50}, {10, 100}},
                                {Linear{.out = 50}, {10, 100}},
                                {Pointwise{.reads = Reads::kOutput}, {10, 50}},
                                {Linear{.out = 100}, {10, 50}},
                                {Combine{}, {10, 100}},
                                {Attention{.heads = 2}, {10, 100}}});
  const auto model = fused(plain, {.autocast = true});
  REQUIRE(model);
  const auto widening = [&](std::size_t i) {
    return std::get<primitives::MemoryBoundKernel>(model->layers[i].forward.front().shape).widening;
  };
  CHECK(widening(0) == 2);
  CHECK(widening(3) == 1);  // what products make is in 16 bits
  CHECK(widening(5) == Approx(5.0 / 3));
  // Both products read the norm's output: each casts it, its weights and its bias.
  const auto casts = [&](std::size_t i) {
    CHECK(model->layers[i].backward_kernels - plain.layers[i].backward_kernels ==
          model->layers[i].forward_kernels - plain.layers[i].forward_kernels);
    return model->layers[i].forward_kernels - plain.layers[i].forward_kernels;
  };
  CHECK(casts(1) == 3);
  CHECK(casts(2) == 3);
  CHECK(casts(4) == 2);
  CHECK(model->layers[2].forward_elements == plain.layers[2].forward_elements + 2000);
  CHECK(model->layers[4].forward_elements == plain.layers[4].forward_elements);
  const auto& weights = std::get<primitives::MemoryBoundKernel>(model->layers[4].backward[3].shape);
  CHECK(weights.weights == 2 * 5000);
  CHECK(weights.widening == 1.5);
  // Scores of 2 x 10 x 10 go to fp32 before their softmax and come back after their dropout.
  CHECK(casts(6) == 2);
  CHECK(model->layers[6].forward_elements == plain.layers[6].forward_elements + 2 * 400);
  const auto wide = [](const std::vector<primitives::Kernel>& kernels) {
    return std::count_if(kernels.begin(), kernels.end(), [](const primitives::Kernel& kernel) {
      const auto* bound = std::get_if<primitives::MemoryBoundKernel>(&kernel.shape);
      return bound != nullptr && bound->widening == 2;
    });
  };
  CHECK(wide(model->layers[6].forward) == 2);
  CHECK(wide(model->layers[6].backward) == 2);
  // A compiler puts casts into the kernels beside them.
  CHECK(fused(plain, {.pointwise = true, .autocast = true})->layers[1].forward_kernels ==
        plain.layers[1].forward_kernels);
}
