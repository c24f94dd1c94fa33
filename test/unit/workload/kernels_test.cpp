// The kernels that an operator asks for.
#include <catch2/catch.hpp>

#include "ddlsim/workload/op.h"

using namespace ddlsim;
using namespace ddlsim::workload;

namespace {

Layer made_layer(const Op& op, const Shape& in) {
  const auto made = layer_of(op, in, "layer");
  REQUIRE(made);
  return made->layer;
}

const primitives::Gemm& gemm(const primitives::Kernel& kernel) { return std::get<primitives::Gemm>(kernel.shape); }
const primitives::MemoryBoundKernel& memory_bound(const primitives::Kernel& kernel) {
  return std::get<primitives::MemoryBoundKernel>(kernel.shape);
}

/// Per sample.
double flops_of(const std::vector<primitives::Kernel>& kernels) {
  double sum = 0;
  for (const primitives::Kernel& kernel : kernels) {
    double one = 0;
    if (const auto* p = std::get_if<primitives::Gemm>(&kernel.shape)) {
      one = 2.0 * static_cast<double>(p->batch_count * p->m * p->n * p->k);
    } else if (const auto* c = std::get_if<primitives::ConvolutionShape>(&kernel.shape)) {
      one = 2.0 *
            static_cast<double>(c->in / c->groups * c->out * c->kernel[0] * c->kernel[1] * c->output[0] * c->output[1]);
    }
    sum += one * static_cast<double>(kernel.times);
  }
  return sum;
}

}  // namespace

TEST_CASE("kernels: a linear layer is three GEMMs", "[unit][workload]") {
  const Layer layer = made_layer(Linear{.out = 3072, .bias = false}, {128, 768});
  REQUIRE(layer.forward.size() == 1);
  const primitives::Gemm& forward = gemm(layer.forward[0]);
  CHECK(forward.m == 128);  // and the batch
  CHECK(forward.n == 3072);
  CHECK(forward.k == 768);
  CHECK(forward.batch_scales == primitives::BatchScales::kM);
  REQUIRE(layer.backward.size() == 2);
  const primitives::Gemm& input = gemm(layer.backward[0]);
  CHECK(input.n == 768);
  CHECK(input.k == 3072);
  const primitives::Gemm& weights = gemm(layer.backward[1]);
  CHECK(weights.m == 3072);
  CHECK(weights.n == 768);
  CHECK(weights.k == 128);  // and the batch
  CHECK(weights.batch_scales == primitives::BatchScales::kK);
}

TEST_CASE("kernels: a bias has its gradient summed over rows", "[unit][workload]") {
  const Layer layer = made_layer(Linear{.out = 3072}, {128, 768});
  REQUIRE(layer.backward.size() == 3);
  CHECK(memory_bound(layer.backward[2]).elements == 128 * 3072);
  CHECK(layer.backward_kernels == 3);
}

TEST_CASE("kernels: attention is two batched GEMMs, and four passes over scores", "[unit][workload]") {
  const Layer layer = made_layer(Attention{.heads = 12}, {128, 768});
  REQUIRE(layer.forward.size() == 6);
  const primitives::Gemm& scores = gemm(layer.forward[0]);
  CHECK(scores.batch_count == 12);
  CHECK(scores.k == 64);
  CHECK(scores.batch_scales == primitives::BatchScales::kBatchCount);
  CHECK(memory_bound(layer.forward[1]).kind == primitives::MemoryBoundKind::kElementwise);  // scale, then mask
  CHECK(memory_bound(layer.forward[3]).kind == primitives::MemoryBoundKind::kSoftmax);
  CHECK(memory_bound(layer.forward[3]).row == 128);
  CHECK(memory_bound(layer.forward[3]).elements == 2 * 12 * 128 * 128);
  CHECK(layer.backward.size() == 7);
}

TEST_CASE("kernels: an LSTM multiplies its input at once and its state step by step", "[unit][workload]") {
  const Layer layer = made_layer(Lstm{.hidden = 1024, .directions = 2}, {50, 512});
  CHECK(layer.forward[0].times == 2);
  CHECK(gemm(layer.forward[0]).m == 50);
  CHECK(gemm(layer.forward[0]).n == 4096);
  CHECK(layer.forward[1].times == 100);
  CHECK(gemm(layer.forward[1]).m == 1);
  CHECK(memory_bound(layer.forward[2]).kind == primitives::MemoryBoundKind::kRecurrent);
  CHECK(layer.forward[2].times == 100);
}

TEST_CASE("kernels: their FLOPs are the layer's, forward and backward", "[unit][workload]") {
  const std::vector<std::pair<Op, Shape>> cases{
      {Convolution{.out = 64, .kernel = {7, 7}, .stride = {2, 2}, .pad = {3, 3}}, {3, 224, 224}},
      {Convolution{.out = 32, .kernel = {3, 3}, .pad = {1, 1}, .groups = 32}, {32, 8, 8}},
      {Linear{.out = 1000}, {2048}},
      {Linear{.out = 768}, {128, 3072}},
      {Linear{.out = 96, .groups = 8}, {128, 64}},
      {Attention{.heads = 16}, {512, 1024}},
      {Attention{.heads = 12, .keys = 64}, {128, 768}},
      {Lstm{.hidden = 1024, .directions = 2}, {50, 512}},
      {LinearAttention{.heads = 4, .key_heads = 2, .width = 8, .value_width = 6, .chunk = 16}, {40, 2 * 16 + 24}},
      {LinearAttention{.heads = 4, .width = 8, .value_width = 6, .chunk = 12, .delta = true}, {40, 2 * 32 + 24}},
      {IndexScores{.heads = 3, .width = 5, .keep = 4}, {21, 15}},
      {IndexScores{.heads = 3, .width = 5, .keep = 4}, {20, 15}},
      {MatMul{.rows = 7, .inner = 11, .columns = 13, .products = 3, .out = {3, 7, 13}}, {3, 7, 11}},
  };
  for (const auto& [op, in] : cases) {
    const Layer layer = made_layer(op, in);
    CHECK(flops_of(layer.forward) == Approx(layer.forward_work.in(flops)).epsilon(1e-12));
    CHECK(flops_of(layer.backward) == Approx(layer.backward_work.in(flops)).epsilon(1e-12));
  }
}

TEST_CASE("kernels: a kernel bound by memory touches the layer's elements", "[unit][workload]") {
  const std::vector<std::tuple<Op, Shape, primitives::MemoryBoundKind>> cases{
      {BatchNorm{}, {64, 56, 56}, primitives::MemoryBoundKind::kBatchNorm},
      {LayerNorm{}, {128, 768}, primitives::MemoryBoundKind::kNorm},
      {Pointwise{.reads = Reads::kOutput}, {64, 56, 56}, primitives::MemoryBoundKind::kElementwise},
      {Pointwise{.reads = Reads::kOutput, .over_rows = true}, {128, 30522}, primitives::MemoryBoundKind::kSoftmax},
      {Combine{.product = true}, {64}, primitives::MemoryBoundKind::kElementwise},
      {Pool{.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}}, {64, 112, 112}, primitives::MemoryBoundKind::kPool},
      {GlobalPool{}, {2048, 7, 7}, primitives::MemoryBoundKind::kPool},
      {Concat{{512}}, {128}, primitives::MemoryBoundKind::kCopy},
      {Embedding{.rows = 30522, .width = 768, .lookups = 128}, {128}, primitives::MemoryBoundKind::kLookup},
  };
  for (const auto& [op, in, kind] : cases) {
    const Layer layer = made_layer(op, in);
    REQUIRE(layer.forward.size() == 1);
    CHECK(memory_bound(layer.forward[0]).kind == kind);
    CHECK(memory_bound(layer.forward[0]).elements == layer.forward_elements);
    CHECK(memory_bound(layer.backward[0]).elements == layer.backward_elements);
    CHECK(memory_bound(layer.backward[0]).weights == layer.backward_weight_elements);
  }
  CHECK(made_layer(Flatten{}, {64, 7, 7}).forward.empty());  // a view
}
