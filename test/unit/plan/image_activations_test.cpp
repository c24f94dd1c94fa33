#include <catch2/catch.hpp>
#include <vector>

#include "ddlsim/plan/memory.h"

using namespace ddlsim;
using namespace ddlsim::plan;
using namespace ddlsim::workload;

namespace {

struct Step {
  Op op;
  Shape in;
};

/// Bytes that layers keep for backward, one by one.
std::vector<double> kept_by(const std::vector<Step>& steps, ActivationCut cut = {}) {
  std::vector<Layer> layers;
  for (const Step& step : steps) layers.push_back(layer_of(step.op, step.in, "layer").value().layer);
  std::vector<double> kept;
  for (const KeptActivations& one : kept_activations(layers, cut)) kept.push_back(one.always.in(bytes));
  return kept;
}

const Convolution kEight{.out = 8, .kernel = {3, 3}, .pad = {1, 1}};
const Convolution kFour{.out = 4, .kernel = {3, 3}, .pad = {1, 1}};
constexpr double kMap = 4 * 8 * 6 * 6;  // bytes of a map of 8 channels in fp32

}  // namespace

TEST_CASE("images: relu in place leaves nothing of the norm before it", "[unit][plan]") {
  const auto kept = kept_by({{kEight, {8, 6, 6}},
                             {BatchNorm{}, {8, 6, 6}},
                             {pointwise("relu"), {8, 6, 6}},
                             {kEight, {8, 6, 6}},
                             {pointwise("relu"), {8, 6, 6}}});
  CHECK(kept == std::vector<double>{kMap, kMap, kMap, 0, kMap});  // what each reads first, and the relus make
}

TEST_CASE("images: silu, hardswish and relu6 keep what they read beside what they make", "[unit][plan]") {
  for (const char* word : {"silu", "hardswish", "relu6", "gelu"}) {
    const auto kept = kept_by({{kEight, {4, 6, 6}},
                               {BatchNorm{}, {8, 6, 6}},
                               {pointwise(word), {8, 6, 6}},
                               {kEight, {8, 6, 6}},
                               {BatchNorm{}, {8, 6, 6}}});
    CHECK(kept == std::vector<double>{kMap / 2, kMap, kMap, kMap, kMap});
  }
}

TEST_CASE("images: a maximum remembers where it was, an average does not", "[unit][plan]") {
  const Pool largest{.kernel = {2, 2}, .stride = {2, 2}};
  const Pool mean{.kernel = {2, 2}, .stride = {2, 2}, .average = true};
  CHECK(kept_by({{kEight, {4, 6, 6}}, {largest, {8, 6, 6}}}) == std::vector<double>{kMap / 2, kMap + 8.0 * 8 * 3 * 3});
  CHECK(kept_by({{kEight, {4, 6, 6}}, {mean, {8, 6, 6}}}) == std::vector<double>{kMap / 2, kMap});
}

TEST_CASE("images: what two branches read is kept once, and a sum by who reads it", "[unit][plan]") {
  const auto kept = kept_by({{kEight, {4, 6, 6}},
                             {pointwise("relu"), {8, 6, 6}},
                             {kFour, {8, 6, 6}},  // a branch,
                             {pointwise("relu"), {4, 6, 6}},
                             {kEight, {8, 6, 6}},  // another of the same tensor
                             {Combine{}, {8, 6, 6}},
                             {kFour, {8, 6, 6}}});
  CHECK(kept == std::vector<double>{kMap / 2, kMap, 0, kMap / 2, 0, 0, kMap});
}

TEST_CASE("images: a gate's product keeps both of its factors", "[unit][plan]") {
  const auto kept = kept_by({{kEight, {4, 6, 6}},
                             {pointwise("silu"), {8, 6, 6}},
                             {GlobalPool{}, {8, 6, 6}},
                             {Linear{.out = 8}, {8}},
                             {pointwise("sigmoid"), {8}},
                             {Combine{.product = true}, {8, 6, 6}}});
  CHECK(kept == std::vector<double>{kMap / 2, kMap, 0, 32, 32, kMap});
}

TEST_CASE("images: dropout keeps a byte of mask, a flattened map is no tensor of its own", "[unit][plan]") {
  const auto kept = kept_by({{kEight, {4, 6, 6}},
                             {pointwise("relu"), {8, 6, 6}},
                             {Flatten{}, {8, 6, 6}},
                             {pointwise("dropout"), {288}},
                             {Linear{.out = 2}, {288}}});
  CHECK(kept == std::vector<double>{kMap / 2, kMap, 0, 288, kMap});
}

TEST_CASE("images: products of attention within windows keep both operands", "[unit][plan]") {
  // 2 windows of 4 rows: scores of 4 x 4 from 3 numbers each.
  const MatMul scores{.rows = 4, .inner = 3, .columns = 4, .products = 2, .out = {2, 4, 4}};
  CHECK(kept_by({{kEight, {4, 6, 6}}, {scores, {2, 4, 3}}})[1] == 4 * 24);
}

TEST_CASE("images: products of 16 bits keep copies of weights, norms of torch.autocast their input in fp32",
          "[unit][plan]") {
  std::vector<Layer> layers;
  layers.push_back(layer_of(kEight, {4, 6, 6}, "conv").value().layer);
  layers.push_back(layer_of(LayerNorm{}, {36, 8}, "norm").value().layer);
  const ActivationCut cut{.batch = 3, .precision = Precision::kFp16, .autocast = true, .casts = true};
  const auto kept = kept_activations(layers, cut);
  CHECK(kept[0].casts.in(bytes) == Approx(2 * 8 * 4 * 9));  // whatever the batch
  CHECK(kept[0].always.in(bytes) == Approx(3 * kMap / 4));
  CHECK(kept[1].always.in(bytes) == Approx(3 * kMap));
}
