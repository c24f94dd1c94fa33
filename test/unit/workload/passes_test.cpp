#include "ddlsim/workload/passes.h"

#include <array>
#include <catch2/catch.hpp>

#include "ddlsim/workload/fusion.h"
#include "ddlsim/workload/model.h"

using namespace ddlsim;
using namespace ddlsim::workload;

namespace {

Layer layer(const Op& op, const Shape& in) { return layer_of(op, in, "a layer").value().layer; }

}  // namespace

TEST_CASE("passes: a layer that is computed again", "[unit][workload]") {
  const Layer kept = layer(Linear{.out = 64}, {8, 32});
  Layer again = kept;
  recompute(again);
  CHECK(again.backward_work == kept.backward_work + kept.forward_work);
  CHECK(again.backward_elements == kept.backward_elements + kept.forward_elements);
  CHECK(again.backward_weight_elements == kept.backward_weight_elements + kept.forward_weight_elements);
  CHECK(again.backward_kernels == kept.backward_kernels + kept.forward_kernels);
  CHECK(again.backward.size() == kept.backward.size() + 1);
  CHECK(again.forward_work == kept.forward_work);
  CHECK(again.parameters == kept.parameters);
}

TEST_CASE("passes: an adapter, the header's example", "[unit][workload]") {
  const Shape rows{8, 1024};
  std::vector<Layer> layers{layer(LayerNorm{}, rows), layer(Linear{.out = 1024, .bias = false}, rows),
                            layer(Attention{.heads = 8}, rows), layer(Linear{.out = 1024, .bias = false}, rows),
                            layer(LayerNorm{}, rows)};
  const std::vector<Layer> before = layers;
  REQUIRE(adapt(layers, {.rank = 4}));
  for (const std::size_t i : {1U, 3U}) {
    CHECK(layers[i].forward_work.in(flops) == 2.0 * 8 * 1024 * 1024 + 2.0 * 8 * 4 * 2048);
    CHECK(layers[i].backward_work.in(flops) == 2.0 * 8 * 1024 * 1024 + 2 * 2.0 * 8 * 4 * 2048);
    CHECK(layers[i].parameters == std::vector<std::int64_t>{4096, 4096});
    CHECK(layers[i].frozen_elements == 1'048'576);
    CHECK(layers[i].saved_elements == before[i].saved_elements + 8 * 4);
    // Its own product and its input's gradient; two products of the adapter, four gradients; the sum and its own.
    CHECK(layers[i].forward.size() == 1 + 2 + 1);
    CHECK(layers[i].backward.size() == 1 + 4 + 1);
    CHECK(layers[i].backward_kernels == 6);
  }
  // Nothing before the first adapter is asked for a gradient; a norm after it passes its input's on.
  CHECK(layers[0].backward.empty());
  CHECK(layers[0].backward_elements == 0);
  CHECK(layers[4].backward.size() == 1);
  CHECK(layers[4].parameters.empty());
  CHECK(layers[4].frozen_elements == 2048);
  CHECK(layers[2].backward_work == before[2].backward_work);
}

TEST_CASE("passes: which products have adapters", "[unit][workload]") {
  const Shape rows{8, 1024};
  const auto product = [&] { return layer(Linear{.out = 1024, .bias = false}, rows); };
  // A table, attention between two products, a sum, an MLP, a sum; routing and experts; a sum; the head.
  std::vector<Layer> layers{product(),
                            layer(Combine{}, rows),
                            product(),
                            layer(Attention{.heads = 8}, rows),
                            product(),
                            layer(Combine{}, rows),
                            product(),
                            layer(pointwise("gelu"), rows),
                            product(),
                            layer(Combine{}, rows),
                            product(),
                            layer(pointwise("softmax"), rows),
                            layer(Experts{.experts = 4, .active = 2, .width = 64}, rows),
                            layer(Combine{}, rows),
                            product()};
  const auto adapted = [&](AdaptedProducts which) {
    std::vector<std::size_t> found;
    const std::vector<bool> has = adapted_products(layers, which);
    for (std::size_t i = 0; i < has.size(); ++i) {
      if (has[i]) found.push_back(i);
    }
    return found;
  };
  CHECK(adapted(AdaptedProducts::kQkv) == std::vector<std::size_t>{2});
  CHECK(adapted(AdaptedProducts::kAttention) == std::vector<std::size_t>{2, 4});
  CHECK(adapted(AdaptedProducts::kAll) == std::vector<std::size_t>{2, 4, 6, 8});
  REQUIRE(adapt(layers, {.rank = 4, .products = AdaptedProducts::kAll}));
  CHECK(layers[8].parameters == std::vector<std::int64_t>{4096, 4096});
  CHECK(layers[10].parameters.empty());
}

TEST_CASE("passes: eager code scales what an adapter makes by a kernel of its own", "[unit][workload]") {
  const Shape rows{8, 1024};
  const auto adapted = [&](bool apart) {
    std::vector<Layer> layers{layer(Linear{.out = 1024, .bias = false}, rows), layer(Attention{.heads = 8}, rows),
                              layer(Linear{.out = 1024, .bias = false}, rows)};
    REQUIRE(adapt(layers, {.rank = 4, .apart = apart}));
    return layers.back();
  };
  const Layer scaled = layer(pointwise("scale"), rows);
  CHECK(adapted(true).forward_elements - adapted(false).forward_elements == scaled.forward_elements);
  CHECK(adapted(true).backward_kernels - adapted(false).backward_kernels == scaled.backward_kernels);
}

TEST_CASE("passes: what an adapter moves comes on top", "[unit][workload]") {
  const Shape rows{8, 1024};
  const std::vector<Layer> plain{layer(Linear{.out = 1024, .bias = false}, rows), layer(Attention{.heads = 8}, rows),
                                 layer(Linear{.out = 1024, .bias = false}, rows)};
  const auto adapted = [&](std::int64_t rank) {
    std::vector<Layer> layers = plain;
    REQUIRE(adapt(layers, {.rank = rank}));
    return layers.back();
  };
  const auto moves = [](const Layer& one) {
    return std::array{one.forward_elements, one.backward_elements, one.forward_weight_elements,
                      one.backward_weight_elements};
  };
  const Layer down = layer(Linear{.out = 4, .bias = false}, rows);
  const Layer up = layer(Linear{.out = 1024, .bias = false}, {8, 4});
  const Layer sum = layer(Combine{}, rows);
  const Layer whole = adapted(4);
  CHECK(whole.forward_elements ==
        plain[2].forward_elements + down.forward_elements + up.forward_elements + sum.forward_elements);
  CHECK(whole.forward_weight_elements ==
        plain[2].forward_weight_elements + down.forward_weight_elements + up.forward_weight_elements);
  // Of four columns more, what they move more.
  const Layer wider_down = layer(Linear{.out = 8, .bias = false}, rows);
  const Layer wider_up = layer(Linear{.out = 1024, .bias = false}, {8, 8});
  for (std::size_t i = 0; i < 4; ++i) {
    const auto more = moves(wider_down)[i] + moves(wider_up)[i] - moves(down)[i] - moves(up)[i];
    CHECK(more > 0);
    CHECK(moves(adapted(8))[i] - moves(whole)[i] == more);
  }
}

TEST_CASE("passes: without attention nothing is adapted", "[unit][workload]") {
  std::vector<Layer> layers{layer(Linear{.out = 8}, {8, 32})};
  CHECK(adapt(layers, {.rank = 4}).error().code == ErrorCode::kUnsupported);
}

TEST_CASE("passes: QLoRA writes frozen weights in 16 bits before every use", "[unit][workload]") {
  const Shape rows{8, 1024};
  const std::vector<Layer> plain{layer(Linear{.out = 1024, .bias = false}, rows), layer(Attention{.heads = 8}, rows),
                                 layer(Linear{.out = 1024, .bias = false}, rows)};
  std::vector<Layer> whole = plain;
  std::vector<Layer> four = plain;
  REQUIRE(adapt(whole, {.rank = 4}));
  REQUIRE(adapt(four, {.rank = 4, .frozen_bits = 4}));
  CHECK(quantised_weight(4).in(bytes) == 0.5625);
  CHECK(quantised_weight(8).in(bytes) == 1);  // a scale a row (LLM.int8)
  CHECK(four[0].quantised_elements == 1024 * 1024);
  for (const std::size_t i : {0U, 2U}) {
    CHECK(four[i].forward_kernels == whole[i].forward_kernels + 1);
    CHECK(four[i].backward_kernels == whole[i].backward_kernels + 1);
    const auto& kernel = std::get<primitives::MemoryBoundKernel>(four[i].forward.front().shape);
    // Of 16-bit accesses: one written, 0.5625 bytes read.
    CHECK(kernel.weights == static_cast<std::int64_t>(1024 * 1024 * (1 + 0.28125)));
    CHECK(kernel.elements == 0);
    // Which a kernel of its own moves, in every pass.
    CHECK(four[i].forward_weight_elements == whole[i].forward_weight_elements + kernel.weights);
    CHECK(four[i].backward_weight_elements == whole[i].backward_weight_elements + kernel.weights);
    CHECK(four[i].forward_rewritten == kernel.weights);
    CHECK(four[i].backward_rewritten == kernel.weights);
    recompute(four[i]);
    CHECK(four[i].backward_rewritten == 2 * kernel.weights);
    CHECK(whole[i].forward_rewritten == 0);
  }
  CHECK(four[1].forward_kernels == whole[1].forward_kernels);
  // What follows the last residual sum is the head, whatever it is called.
  std::vector<Layer> summed = plain;
  summed.push_back(layer(Combine{}, rows));
  summed.push_back(layer(Linear{.out = 8}, rows));
  REQUIRE(adapt(summed, {.rank = 4, .frozen_bits = 4}));
  CHECK(summed[2].quantised_elements == 1024 * 1024);
  CHECK(summed[4].frozen_elements > 0);
  CHECK(summed[4].quantised_elements == 0);
}

TEST_CASE("passes: layers before the first that is trained only run forward", "[unit][workload]") {
  std::vector<Layer> layers{layer(Convolution{.out = 8, .kernel = {3, 3}}, {3, 16, 16}),
                            layer(Pointwise{.reads = Reads::kOutput}, {8, 14, 14}),
                            layer(Convolution{.out = 4, .kernel = {1, 1}}, {8, 14, 14}),
                            layer(Convolution{.out = 4, .kernel = {1, 1}}, {4, 14, 14})};
  const std::vector<Layer> before = layers;
  freeze_before(layers, 2);
  for (const std::size_t i : {0U, 1U}) {
    CHECK(layers[i].backward.empty());
    CHECK(layers[i].backward_work == Work::zero());
    CHECK(layers[i].saved_elements == 0);
    CHECK(layers[i].parameters.empty());
    CHECK(layers[i].forward_work == before[i].forward_work);
  }
  CHECK(layers[0].frozen_elements == 8 * 3 * 9);
  // The first that is trained has nobody to pass a gradient to; the next one has.
  CHECK(layers[2].backward.size() == 1);
  CHECK(layers[2].backward_work == before[2].forward_work);
  CHECK(layers[2].backward_kernels == 1);
  CHECK(layers[2].parameters == before[2].parameters);
  CHECK(layers[3].backward.size() == 2);
  const Totals totals = total(layers).value();
  CHECK(totals.frozen_parameters == 8 * 3 * 9);
  CHECK(totals.dense_parameters == 8 * 4 + 4 * 4);
}

TEST_CASE("passes: what constants scale is not kept", "[unit][workload]") {
  std::vector<Layer> layers{layer(Convolution{.out = 8}, {3, 16, 16}), layer(Pointwise{.constant = true}, {8, 16, 16}),
                            layer(Pointwise{.reads = Reads::kOutput}, {8, 16, 16}),
                            layer(Convolution{.out = 8}, {8, 16, 16}), layer(BatchNorm{}, {8, 16, 16})};
  drop_unread_outputs(layers);
  CHECK(layers[0].saved_elements == 0);
  CHECK(layers[1].saved_elements == 0);
  CHECK(layers[2].saved_elements == 8 * 256);
  CHECK(layers[3].saved_elements == 8 * 256);
}

TEST_CASE("passes: a probe makes no gradient of its input, and nothing is frozen before the first",
          "[unit][workload]") {
  std::vector<Layer> layers{layer(Linear{.out = 64}, {8, 32}), layer(Linear{.out = 16, .bias = false}, {8, 64})};
  const std::vector<Layer> before = layers;
  freeze_before(layers, 0);
  CHECK(layers[0].backward_work == before[0].backward_work);
  freeze_before(layers, 1);
  CHECK(runs_forward_alone(layers[0]));
  CHECK_FALSE(runs_forward_alone(layers[1]));
  CHECK(layers[1].backward.size() == 1);
  CHECK(layers[1].backward_work == before[1].forward_work);
}

TEST_CASE("passes: what is frozen stays so when it is cut or fused", "[unit][workload]") {
  std::vector<Layer> layers{layer(LayerNorm{}, {8, 64}), layer(Linear{.out = 192}, {8, 64}),
                            layer(Attention{.heads = 4}, {8, 64}), layer(Linear{.out = 64}, {8, 64}),
                            layer(Linear{.out = 64}, {8, 64})};
  freeze_before(layers, 4);
  for (const Fusion& fusion : {Fusion{.attention = true}, Fusion{.composed = true}}) {
    const std::vector<Layer> run = fused(layers, fusion);
    for (const std::size_t i : {0U, 1U, 2U, 3U}) {
      CHECK(run[i].backward.empty());
      CHECK(run[i].backward_kernels == 0);
      CHECK(run[i].saved_elements == 0);
    }
    CHECK_FALSE(run[4].backward.empty());
  }
  Layer again = layer(Linear{.out = 32}, {8, 64});
  freeze_as(again, layers[3]);
  CHECK(again.frozen_elements == 64 * 32 + 32);
  CHECK(runs_forward_alone(again));
  Layer trained = layer(Linear{.out = 32}, {8, 64});
  freeze_as(trained, layers[4]);
  CHECK(trained.frozen_elements == 0);
}
