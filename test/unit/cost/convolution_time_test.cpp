#include "ddlsim/cost/convolution_time.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace ddlsim;
using namespace ddlsim::cost;
using hardware::ConvolutionCurve;
using hardware::DeviceSpec;
using hardware::MeasuredConvolution;

namespace {

primitives::ConvolutionShape three_by_three(primitives::ConvolutionPass pass = primitives::ConvolutionPass::kForward) {
  return {.pass = pass, .in = 64, .out = 32, .input = {4, 4}, .output = {4, 4}, .kernel = {3, 3}};
}

/// One tile of one element at the peak: time is arithmetic alone.
ConvolutionCurve arithmetic() {
  ConvolutionCurve curve;
  curve.implicit_gemm.memory_efficiency = 1;
  curve.implicit_gemm.not_overlapped = 0;
  curve.implicit_gemm.prologue_steps = 0;
  curve.implicit_gemm.partial_wave_cost = 0;
  curve.implicit_gemm.batched = true;
  curve.implicit_gemm.tiles = {{.m = 1, .n = 1, .efficiency = 1, .tiles_to_fill = 1e-9}};
  return curve;
}

const DeviceSpec kDevice{1, teraflops_per_second(2), gigabytes_per_second(1e9), megabytes(6)};

double us(const ConvolutionCurve& curve, const primitives::ConvolutionShape& shape, double batch) {
  return convolution_time(curve, kDevice, shape, batch, bytes(4)).in(microseconds);
}

}  // namespace

TEST_CASE("convolution time: the GEMMs of the header's worked example", "[unit][cost]") {
  const auto forward = implicit_gemm(three_by_three(), 2);
  CHECK(forward.batch_count == 1);
  CHECK(forward.m == 32);
  CHECK(forward.n == 32);
  CHECK(forward.k == 576);
  const auto input = implicit_gemm(three_by_three(primitives::ConvolutionPass::kInputGradient), 2);
  CHECK(input.m == 32);
  CHECK(input.n == 64);
  CHECK(input.k == 288);
  const auto weights = implicit_gemm(three_by_three(primitives::ConvolutionPass::kWeightGradient), 2);
  CHECK(weights.m == 32);
  CHECK(weights.n == 576);
  CHECK(weights.k == 32);
  // With a stride of 2 every output is sent to nine inputs: the same arithmetic as forward.
  const primitives::ConvolutionShape strided{.pass = primitives::ConvolutionPass::kInputGradient,
                                             .in = 8,
                                             .out = 16,
                                             .input = {8, 8},
                                             .output = {4, 4},
                                             .kernel = {3, 3},
                                             .stride = {2, 2}};
  CHECK(implicit_gemm(strided, 1).m == 16);
  CHECK(implicit_gemm(strided, 1).n == 72);
  CHECK(implicit_gemm(strided, 1).k == 16);
  primitives::ConvolutionShape grouped = three_by_three();
  grouped.groups = 4;
  CHECK(implicit_gemm(grouped, 1).batch_count == 4);
  CHECK(implicit_gemm(grouped, 1).n == 8);
  CHECK(implicit_gemm(grouped, 1).k == 144);
}

TEST_CASE("convolution time: Winograd saves arithmetic where it may run", "[unit][cost]") {
  ConvolutionCurve curve = arithmetic();
  curve.weight_gradient = 1;
  curve.weight_reduction_steps = 0;
  const auto shape = [](primitives::ConvolutionPass pass) {
    return primitives::ConvolutionShape{
        .pass = pass, .in = 64, .out = 32, .input = {16, 16}, .output = {16, 16}, .kernel = {3, 3}};
  };
  const primitives::ConvolutionShape forward = shape(primitives::ConvolutionPass::kForward);
  // 9,437,184 multiply-adds at 1e12 a second
  CHECK(us(curve, forward, 2) == Approx(9.437184));
  curve.winograd_fused = {.efficiency = 1, .prologue_steps = 0, .weight_passes = 0};
  CHECK(us(curve, forward, 2) == Approx(4.194304));
  // Blocks of 17 columns are half empty: 2 (17 x 16) outputs cost what 32 columns do.
  primitives::ConvolutionShape wide = forward;
  wide.input = wide.output = {16, 17};
  CHECK(us(curve, wide, 2) == Approx(8.388608));
  CHECK(us(curve, shape(primitives::ConvolutionPass::kInputGradient), 2) == Approx(2 * 4 * 16 * 32 * 32 * 32 * 1e-6));
  CHECK(us(curve, shape(primitives::ConvolutionPass::kWeightGradient), 2) == Approx(9.437184));
  curve.winograd_nonfused = {.prologue_steps = 0,
                             .activation_passes = 0,
                             .weight_passes = 0,
                             .extra_launches = {},
                             .tiles = curve.implicit_gemm.tiles};
  CHECK(us(curve, forward, 2) == Approx(2.359296));
  curve.weight_winograd = 0.5;
  CHECK(us(curve, shape(primitives::ConvolutionPass::kWeightGradient), 2) == Approx(0.5 * 2.359296));
  curve.winograd_nonfused.extra_launches = microseconds(2);
  CHECK(us(curve, forward, 2) == Approx(4.194304));
  primitives::ConvolutionShape other = forward;
  other.dilation = {2, 2};
  CHECK(us(curve, other, 2) == Approx(9.437184));
  other = forward;
  other.kernel = {1, 1};
  CHECK(us(curve, other, 2) == Approx(1.048576));
  other.kernel = {5, 5};  // 36 GEMMs of 128 x 32 x 64, where 26.2144 us are asked of the implicit one
  CHECK(us(curve, other, 2) == Approx(2 + 9.437184));
}

TEST_CASE("convolution time: the share of the arithmetic that an algorithm executes", "[unit][cost]") {
  ConvolutionCurve curve = arithmetic();
  primitives::ConvolutionShape shape{.in = 64, .out = 32, .input = {16, 16}, .output = {16, 16}, .kernel = {3, 3}};
  const auto share = [&] { return convolution_choice(curve, kDevice, shape, 2, bytes(4)).arithmetic; };
  CHECK(share() == 1);
  curve.winograd_fused = {.efficiency = 1, .prologue_steps = 0, .weight_passes = 0};
  CHECK(share() == Approx(16.0 / 36));  // 16 products for 4 outputs of 9 taps
  curve.winograd_nonfused = {.prologue_steps = 0,
                             .activation_passes = 0,
                             .weight_passes = 0,
                             .extra_launches = {},
                             .tiles = curve.implicit_gemm.tiles};
  CHECK(share() == Approx(36.0 / (16 * 9)));
  shape.kernel = {5, 5};
  CHECK(share() == Approx(36.0 / (4 * 25)));
}

TEST_CASE("convolution time: tensor cores see channels by eight", "[unit][cost]") {
  const ConvolutionCurve curve = arithmetic();
  primitives::ConvolutionShape shape = three_by_three();
  const auto half = [&] { return convolution_time(curve, kDevice, shape, 2, bytes(2)).in(microseconds); };
  shape.in = 8;
  const double eight = half();
  CHECK(eight == Approx(2 * 16 * 32 * 72 * 1e-6));
  shape.in = 3;
  CHECK(half() == Approx(eight));
  CHECK(us(curve, shape, 2) == Approx(2 * 16 * 32 * 27 * 1e-6));
  shape.in = 9;
  CHECK(half() == Approx(2 * eight));
}

TEST_CASE("convolution time: passes have their ratios, depthwise moves only", "[unit][cost]") {
  ConvolutionCurve curve = arithmetic();
  curve.input_gradient = 1.5;
  curve.strided_gradient = 3;
  CHECK(us(curve, three_by_three(primitives::ConvolutionPass::kInputGradient), 2) == Approx(1.5 * 0.589824));
  primitives::ConvolutionShape strided = three_by_three(primitives::ConvolutionPass::kInputGradient);
  strided.input = {8, 8};
  strided.stride = {2, 2};
  CHECK(us(curve, strided, 2) == Approx(3 * 0.589824));
  // k = 32 places are too few to be split: 32 + 68 steps of 32 x 576.
  curve.weight_gradient = 2;
  curve.weight_reduction_steps = 68;
  CHECK(us(curve, three_by_three(primitives::ConvolutionPass::kWeightGradient), 2) ==
        Approx(2 * 100 * 32 * 576 * 1e-6));
  curve.implicit_gemm.tiles = {{.m = 128, .n = 128, .efficiency = 1, .tiles_to_fill = 1}};
  const DeviceSpec device{1, teraflops_per_second(0.2), gigabytes_per_second(1), megabytes(6)};
  const primitives::ConvolutionShape depthwise{
      .in = 32, .out = 32, .groups = 32, .input = {4, 4}, .output = {4, 4}, .kernel = {3, 3}};
  // 512 in, 512 out, 288 weights; 4 bytes each at half of 1 GB/s
  CHECK(convolution_time(curve, device, depthwise, 1, bytes(4)).in(microseconds) == Approx(10.496));
}

TEST_CASE("convolution time: what was measured wins, the nearest batch is scaled", "[unit][cost]") {
  const std::vector<MeasuredConvolution> table{
      {Precision::kFp32, three_by_three(), 2, microseconds(10)},
      {Precision::kFp32, three_by_three(), 32, microseconds(100)},
      {Precision::kFp16, three_by_three(), 4, microseconds(1)},
  };
  const ConvolutionCurve curve = arithmetic();
  const auto ask = [&](const primitives::ConvolutionShape& shape, double batch, const ConvolutionCurve* by) {
    return measured_convolution(table, by, kDevice, Precision::kFp32, shape, batch);
  };
  CHECK(ask(three_by_three(), 32, &curve)->time.in(microseconds) == Approx(100));
  CHECK(ask(three_by_three(), 32, &curve)->provenance == Provenance::kMeasured);
  // 4 is nearer to 2 than to 32; arithmetic doubles.
  CHECK(ask(three_by_three(), 4, &curve)->time.in(microseconds) == Approx(20));
  CHECK(ask(three_by_three(), 4, &curve)->provenance == Provenance::kInterpolated);
  CHECK(ask(three_by_three(), 64, nullptr)->time.in(microseconds) == Approx(200));
  primitives::ConvolutionShape other = three_by_three();
  other.stride = {2, 2};
  CHECK_FALSE(ask(other, 32, &curve));
}

TEST_CASE("convolution time: the weights' gradient splits its long k, into parts that fill the GPU", "[unit][cost]") {
  hardware::ConvolutionCurve curve;
  curve.implicit_gemm.tiles = {{.m = 64, .n = 32, .efficiency = 0.8, .tiles_to_fill = 1}};
  const hardware::DeviceSpec spec{80, teraflops_per_second(14), gigabytes_per_second(900), mebibytes(6)};
  primitives::ConvolutionShape shape{.in = 64, .out = 256, .input = {56, 56}, .output = {56, 56}};
  const Time forward = cost::convolution_time(curve, spec, shape, 64, bytes(4));
  shape.pass = primitives::ConvolutionPass::kWeightGradient;
  // 8 tiles for 80 multiprocessors: without splitting ten times as long.
  CHECK(cost::convolution_time(curve, spec, shape, 64, bytes(4)) < forward * 1.5);
}

TEST_CASE("convolution time: the weights' gradient has 256 parts at most", "[unit][cost]") {
  ConvolutionCurve curve = arithmetic();
  curve.implicit_gemm.tiles = {{.m = 64, .n = 64, .efficiency = 1, .tiles_to_fill = 1}};
  curve.weight_gradient = 1;
  curve.weight_reduction_steps = 0;
  // One tile for 400 multiprocessors of 10 GFLOP/s: k = 64 x 56 x 56 in 256 parts of 784 steps, 8192 FLOP each.
  const DeviceSpec wide{400, teraflops_per_second(4), gigabytes_per_second(1e9), megabytes(6)};
  const primitives::ConvolutionShape shape{
      .pass = primitives::ConvolutionPass::kWeightGradient, .in = 64, .out = 64, .input = {56, 56}, .output = {56, 56}};
  CHECK(convolution_time(curve, wide, shape, 64, bytes(4)).in(microseconds) == Approx(784 * 0.8192).epsilon(1e-3));
}
