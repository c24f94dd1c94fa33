#include "ddlsim/workload/op.h"

#include <catch2/catch.hpp>

using namespace ddlsim;
using namespace ddlsim::workload;

namespace {

Placed placed(const Op& op, const Shape& in) {
  auto result = place(op, in, "layer");
  REQUIRE(result);
  return *result;
}

double mflop(Work work) { return work.in(flops) / 1e6; }

}  // namespace

TEST_CASE("op: the stem of ResNet-50", "[unit][workload]") {
  const Placed stem = placed(Convolution{.out = 64, .kernel = {7, 7}, .stride = {2, 2}, .pad = {3, 3}}, {3, 224, 224});
  CHECK(stem.out == Shape{64, 112, 112});
  // 2 * 64 * 3 * 49 * 112 * 112 = 236,027,904; backward makes two such products.
  CHECK(mflop(stem.layer.forward_work) == Approx(236.027904).epsilon(1e-12));
  CHECK(mflop(stem.layer.backward_work) == Approx(472.055808).epsilon(1e-12));
  CHECK(stem.layer.parameters == std::vector<std::int64_t>{9408});       // 64 * 3 * 49
  CHECK(stem.layer.forward_elements == 3 * 224 * 224 + 64 * 112 * 112);  // read, written
  CHECK(stem.layer.saved_elements == 64 * 112 * 112);
}

TEST_CASE("op: groups divide a convolution's weights and work", "[unit][workload]") {
  const Placed whole = placed(Convolution{.out = 32, .kernel = {3, 3}, .pad = {1, 1}}, {32, 8, 8});
  const Placed depthwise = placed(Convolution{.out = 32, .kernel = {3, 3}, .pad = {1, 1}, .groups = 32}, {32, 8, 8});
  CHECK(whole.layer.forward_work / depthwise.layer.forward_work == Approx(32));
  CHECK(depthwise.layer.parameters.front() == 32 * 9);
  CHECK_FALSE(place(Convolution{.out = 32, .groups = 3}, {32, 8, 8}, ""));
}

TEST_CASE("op: a linear layer acts on the last size", "[unit][workload]") {
  const Placed head = placed(Linear{.out = 1000}, {2048});
  CHECK(mflop(head.layer.forward_work) == Approx(4.096));  // 2 * 2048 * 1000
  CHECK(head.layer.parameters == std::vector<std::int64_t>{2'048'000, 1000});
  const Placed tokens = placed(Linear{.out = 768, .bias = false}, {128, 768});
  CHECK(tokens.out == Shape{128, 768});
  CHECK(mflop(tokens.layer.forward_work) == Approx(150.994944));  // 2 * 128 * 768 * 768
  CHECK(placed(Linear{.out = 10, .bias = true, .tied = true}, {4}).layer.parameters == std::vector<std::int64_t>{10});
}

TEST_CASE("op: attention counts scores and context", "[unit][workload]") {
  const Placed attention = placed(Attention{.heads = 12}, {128, 768});
  CHECK(mflop(attention.layer.forward_work) == Approx(50.331648));  // 4 * 128 * 128 * 768
  CHECK(attention.layer.parameters.empty());
  // 6 * 12 * 128 * 128 of scores, Q and output 2 * 128 * 768, K and V as much again.
  CHECK(attention.layer.forward_elements == 6 * 12 * 128 * 128 + 4 * 128 * 768);
  const Placed cross = placed(Attention{.heads = 12, .keys = 64}, {128, 768});
  CHECK(cross.layer.forward_work / attention.layer.forward_work == Approx(0.5));
}

TEST_CASE("op: an LSTM has four tensors per direction", "[unit][workload]") {
  const Placed lstm = placed(Lstm{.hidden = 1024, .directions = 2}, {50, 512});
  CHECK(lstm.out == Shape{50, 2048});
  CHECK(lstm.layer.parameters.size() == 8);
  CHECK(lstm.layer.parameters[0] == 4 * 1024 * 512);
  CHECK(lstm.layer.parameters[1] == 4 * 1024 * 1024);
  // 2 directions * 50 steps * 2 * 4096 * (512 + 1024)
  CHECK(mflop(lstm.layer.forward_work) == Approx(1258.2912));
}

TEST_CASE("op: a sparse embedding sends the rows it touched", "[unit][workload]") {
  const Placed dense = placed(Embedding{.rows = 1000, .width = 16, .lookups = 3}, {3});
  CHECK(dense.out == Shape{3, 16});
  CHECK(dense.layer.parameters.front() == 16'000);
  CHECK(dense.layer.sparse_elements == 0);
  const Placed sparse = placed(Embedding{.rows = 1000, .width = 16, .lookups = 3, .sparse_gradient = true}, {3});
  CHECK(sparse.layer.sparse_elements == 48);
}

TEST_CASE("op: pooling rounds down, or up when asked", "[unit][workload]") {
  CHECK(placed(Pool{.kernel = {3, 3}, .stride = {2, 2}}, {64, 112, 112}).out == Shape{64, 55, 55});
  CHECK(placed(Pool{.kernel = {3, 3}, .stride = {2, 2}, .ceil = true}, {64, 112, 112}).out == Shape{64, 56, 56});
  CHECK(placed(Pool{.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}}, {64, 112, 112}).out == Shape{64, 56, 56});
  CHECK(placed(GlobalPool{}, {2048, 7, 7}).out == Shape{2048});
}

TEST_CASE("op: memory-bound operators have no FLOPs", "[unit][workload]") {
  const Placed norm = placed(BatchNorm{}, {64, 10, 10});
  CHECK(norm.layer.forward_work == Work::zero());
  CHECK(norm.layer.forward_elements == 3 * 6400);
  CHECK(norm.layer.backward_elements == 5 * 6400);
  CHECK(norm.layer.parameters == std::vector<std::int64_t>{64, 64});
  CHECK(placed(LayerNorm{}, {128, 768}).layer.parameters == std::vector<std::int64_t>{768, 768});
  CHECK(placed(Flatten{}, {256, 6, 6}).layer.forward_kernels == 0);
}

TEST_CASE("op: what does not fit is refused", "[unit][workload]") {
  CHECK_FALSE(place(Convolution{.out = 8, .kernel = {9, 9}}, {3, 8, 8}, ""));
  CHECK_FALSE(place(Convolution{.out = 8}, {3, 8}, ""));
  CHECK_FALSE(place(Attention{}, {3, 8, 8}, ""));
  CHECK_FALSE(place(Lstm{.hidden = 4}, {8}, ""));
  // 2^40 by 2^40 weights exceed 2^53.
  const auto huge = place(Linear{.out = std::int64_t{1} << 40}, {std::int64_t{1} << 40}, "");
  REQUIRE_FALSE(huge);
  CHECK(huge.error().message.find("2^53") != std::string::npos);
}
