#include "ddlsim/cost/kernel_time.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <span>
#include <vector>

#include "ddlsim/cost/attention_time.h"
#include "tiny_gpu.h"

using namespace ddlsim;
using namespace ddlsim::cost;

TEST_CASE("kernel time: a kernel bound by memory within its fitted ranges", "[unit][cost]") {
  const hardware::GpuProfile known = profile();
  const auto relu = model_of(workload::Pointwise{.reads = workload::Reads::kOutput}, {1000});
  // 2 x 1000 elements of 4 B, 1000 samples: 8 MB at 100 GB/s; backward 12 MB. The update: 10 MB.
  const CalibratedTimes times =
      calibrated_times(relu.layers, calibration(known), 1000, Precision::kFp32, {megabytes(10), {}});
  REQUIRE(times.layers.size() == 1);
  CHECK(times.layers[0].forward.memory.in(microseconds) == Approx(80));
  CHECK(times.layers[0].backward.memory.in(microseconds) == Approx(120));
  CHECK(times.layers[0].forward.compute == Time::zero());
  CHECK(times.update.in(microseconds) == Approx(100));
  // The update has no curve of its own; the element-wise one stands in for it, which doubles the logarithm.
  CHECK(times.measured.in(microseconds) == Approx(200));
  CHECK(times.extrapolated.in(microseconds) == Approx(100));
  CHECK(times.low.in(microseconds) == Approx(200 * 0.9 + 100 * 0.81));
  CHECK(times.high.in(microseconds) == Approx(200 * 1.2 + 100 * 1.44));
}

TEST_CASE("kernel time: outside the fitted_ranges the interval widens per octave", "[unit][cost]") {
  const hardware::GpuProfile known = profile();
  const auto relu = model_of(workload::Pointwise{}, {1000});
  // 8 GB forward and backward, three octaves above the most: 0.9^8 and 1.2^8 are beyond what is assumed of anything.
  const CalibratedTimes times = calibrated_times(relu.layers, calibration(known), 1e6, Precision::kFp32, {});
  CHECK(times.extrapolated.in(milliseconds) == Approx(160));
  CHECK(times.low / times.extrapolated == Approx(0.5));
  CHECK(times.high / times.extrapolated == Approx(2));
}

TEST_CASE("kernel time: what no curve covers is assumed", "[unit][cost]") {
  const hardware::GpuProfile known = profile();
  const auto linear = model_of(workload::Linear{.out = 1000, .bias = false}, {1000});
  const CalibratedTimes times = calibrated_times(linear.layers, calibration(known), 10'000, Precision::kFp32, {});
  // 2 x 1e10 FLOPs at 7 TFLOP/s, three times.
  CHECK(times.layers[0].forward.compute.in(milliseconds) == Approx(20.0 / 7));
  CHECK(times.layers[0].backward.compute.in(milliseconds) == Approx(40.0 / 7));
  CHECK(times.assumed.in(milliseconds) == Approx(60.0 / 7));
  CHECK(times.measured == Time::zero());
  CHECK(times.high.in(milliseconds) == Approx(120.0 / 7));
}

TEST_CASE("kernel time: fp16 and bf16 read one curve, TF32 takes it at its own peak", "[unit][cost]") {
  hardware::GpuProfile known = profile();
  hardware::GemmCurve curve;
  curve.precision = Precision::kBf16;
  curve.tiles = {{}};
  curve.report.interval = {0.9, 1.1};
  known.gemms.push_back(curve);
  const auto linear = model_of(workload::Linear{.out = 1024, .bias = false}, {1024});
  const auto measured = [&](Precision precision) {
    Calibration by = calibration(known);
    by.gpu.peak.set(Precision::kTf32, teraflops_per_second(20));
    return calibrated_times(linear.layers, by, 1024, precision, {});
  };
  CHECK(measured(Precision::kBf16).measured > Time::zero());
  CHECK(measured(Precision::kFp16).measured == measured(Precision::kBf16).measured);
  CHECK(measured(Precision::kTf32).measured == Time::zero());
  CHECK(measured(Precision::kTf32).extrapolated > Time::zero());
  CHECK(measured(Precision::kFp32).assumed > Time::zero());
}

TEST_CASE("kernel time: without tensor cores fp16 is multiplied as fp32", "[unit][cost]") {
  hardware::GpuProfile known = profile();
  hardware::GemmCurve curve;
  curve.precision = Precision::kFp32;
  curve.tiles = {{}};
  curve.not_overlapped = 0;
  curve.report.interval = {0.9, 1.1};
  known.gemms.push_back(curve);
  const auto linear = model_of(workload::Linear{.out = 1024, .bias = false}, {1024});
  Calibration by = calibration(known);
  const auto forward = [&](Precision precision) {
    return calibrated_times(linear.layers, by, 1024, precision, {}).layers[0].forward.total();
  };
  // A GPU with tensor cores says nothing about them in fp32.
  CHECK(calibrated_times(linear.layers, by, 1024, Precision::kFp16, {}).assumed > Time::zero());
  by.gpu.nccl_tuning = hardware::GpuGeneration::kPascal;
  by.gpu.peak.set(Precision::kFp16, *by.gpu.peak.at(Precision::kFp32));
  CHECK(forward(Precision::kFp16) == forward(Precision::kFp32));
  CHECK(calibrated_times(linear.layers, by, 1024, Precision::kFp16, {}).extrapolated > Time::zero());
}

TEST_CASE("kernel time: of two runs of a GPU the middle, and both are in the interval", "[unit][cost]") {
  hardware::GpuProfile known = profile();
  hardware::GemmCurve curve;
  curve.tiles = {{}};
  curve.report.interval = {0.9, 1.1};
  known.gemms.push_back(curve);
  const auto linear = model_of(workload::Linear{.out = 1024, .bias = false}, {1024});
  const auto times = [&] { return calibrated_times(linear.layers, calibration(known), 1024, Precision::kFp32, {}); };
  const CalibratedTimes one = times();
  CHECK(one.low / one.measured == Approx(0.9));
  for (const double another : {0.64, 1 / 0.64}) {
    known.gemms.front().report.another_run = {another, 86, "other"};
    const CalibratedTimes both = times();
    CHECK(both.measured / one.measured == Approx(std::sqrt(another)));
    // The curve's own run and the other one, each with what the curve errs by.
    CHECK(both.low / one.measured == Approx(0.9 * std::min(another, 1.0)));
    CHECK(both.high / one.measured == Approx(1.1 * std::max(another, 1.0)));
  }
}

TEST_CASE("kernel time: another run counts for kernels bound by memory as well", "[unit][cost]") {
  hardware::GpuProfile known = profile();
  REQUIRE_FALSE(known.memory_bound.empty());
  const auto relu = model_of(workload::Pointwise{}, {1 << 20});
  const auto time = [&] {
    return calibrated_times(relu.layers, calibration(known), 64, Precision::kFp32, {}).measured;
  };
  const Time one = time();
  REQUIRE(one > Time::zero());
  for (auto& curve : known.memory_bound) curve.report.another_run = {0.64, 10, "other"};
  CHECK(time() / one == Approx(0.8));
}

TEST_CASE("kernel time: another run counts for convolutions and attention as well", "[unit][cost]") {
  hardware::GpuProfile known = profile();
  hardware::ConvolutionCurve convolution;
  convolution.implicit_gemm.tiles = {{}};
  hardware::AttentionCurve attention;
  attention.widths = {{64, 128, 0.5, 1}};
  known.convolutions.push_back(convolution);
  known.attention.push_back(attention);
  const auto forward = [&](const workload::Op& op, const workload::Shape& in, Precision precision) {
    return calibrated_times(model_of(op, in).layers, calibration(known), 8, precision, {}).layers[0].forward.total();
  };
  const auto both = [&] {
    return std::pair{
        forward(workload::Convolution{.out = 64, .kernel = {3, 3}, .pad = {1, 1}}, {64, 56, 56}, Precision::kFp32),
        forward(workload::GroupedAttention{.heads = 10, .width = 64}, {1024, 640}, Precision::kBf16)};
  };
  const auto one = both();
  known.convolutions.front().report.another_run = {0.64, 10, "other"};
  known.attention.front().report.another_run = {0.25, 10, "other"};
  CHECK(both().first / one.first == Approx(0.8));
  CHECK(both().second / one.second == Approx(0.5));
}

TEST_CASE("kernel time: gradients are added to earlier passes'", "[unit][cost]") {
  const hardware::GpuProfile known = profile();
  const auto linear = model_of(workload::Linear{.out = 1000, .bias = false}, {1000});
  const auto times = [&](DataSize accumulated) {
    return calibrated_times(linear.layers, calibration(known), 8, Precision::kFp32, {{}, accumulated}).layers[0];
  };
  // 1e6 parameters, 12 B each at 100 GB/s: 120 us, of the weights' part of backward.
  CHECK((times(bytes(12)).backward.memory - times({}).backward.memory).in(microseconds) == Approx(120));
  CHECK((times(bytes(12)).weights.memory - times({}).weights.memory).in(microseconds) == Approx(120));
  CHECK(times(bytes(12)).forward.total() == times({}).forward.total());
  workload::Layer sparse = linear.layers[0];
  sparse.sparse_gradient = true;
  CHECK(accumulated_by(sparse, bytes(12)) == DataSize::zero());
}

TEST_CASE("kernel time: a recurrent layer waits between its steps", "[unit][cost]") {
  hardware::GpuProfile known = profile();
  const auto lstm = model_of(workload::Lstm{.hidden = 100}, {50, 100});
  const auto forward = [&] {
    return calibrated_times(lstm.layers, calibration(known), 10, Precision::kFp32, {}).layers[0].forward;
  };
  // 50 steps of 10 x 100 elements of 4 B and 10 samples, 40 kB at 100 GB/s, and the chain, which no memory makes
  // faster. No curve covers GEMMs: they take their memory's time at 70 GB/s, the state's 180 kB per step and the
  // input's 1.16 MB.
  const Time gemms = forward().memory - 50 * microseconds(0.4);
  CHECK(gemms.in(microseconds) == Approx((50 * 180e3 + 1.16e6) / 70e3));
  CHECK(forward().host.in(microseconds) == Approx(50 * kRecurrentChainSince2019.in(microseconds)));
  hardware::MemoryBoundCurve measured = known.memory_bound.front();
  measured.kind = primitives::MemoryBoundKind::kRecurrent;
  known.memory_bound.push_back(measured);
  CHECK((forward().memory - gemms).in(microseconds) == Approx(50 * 0.4));  // a measured curve knows its chain
  CHECK(forward().host == Time::zero());
}

TEST_CASE("kernel time: an exact convolution of the table wins", "[unit][cost]") {
  hardware::GpuProfile known = profile();
  const workload::Convolution op{.out = 64, .kernel = {3, 3}, .pad = {1, 1}};
  const auto model = model_of(op, {64, 56, 56});
  known.measured_convolutions.push_back({Precision::kFp32,
                                         std::get<primitives::ConvolutionShape>(model.layers[0].forward[0].shape), 32,
                                         microseconds(777)});
  const CalibratedTimes times = calibrated_times(model.layers, calibration(known), 32, Precision::kFp32, {});
  CHECK(times.layers[0].forward.total().in(microseconds) == Approx(777));
}

TEST_CASE("kernel time: twice every rate halves every time", "[unit][cost]") {
  hardware::GpuProfile known = profile();
  hardware::GemmCurve curve;
  curve.tiles = {{}};
  known.gemms.push_back(curve);
  const auto model = model_of(workload::Attention{.heads = 16}, {512, 1024});
  Calibration slow = calibration(known);
  Calibration fast = slow;
  fast.gpu.peak.fp32 = fast.gpu.peak.fp32 * 2;
  fast.gpu.memory_bandwidth = fast.gpu.memory_bandwidth * 2;
  fast.assumed = {slow.assumed.compute * 2, slow.assumed.memory * 2};
  const auto at = [&](const Calibration& c) {
    return calibrated_times(model.layers, c, 8, Precision::kFp32, {}).layers[0].forward.total();
  };
  CHECK(at(slow) / at(fast) == Approx(2).epsilon(1e-6));
}

TEST_CASE("kernel time: experts take another GPU's curve of experts before their own of plain products",
          "[unit][cost]") {
  hardware::GpuProfile own;
  hardware::GemmCurve curve;
  curve.precision = Precision::kBf16;
  curve.prologue_steps = 0;
  curve.not_overlapped = 0;
  curve.tiles = {{128, 128, 1, 1}};
  own.gemms.push_back(curve);
  hardware::GpuProfile other;
  curve.grouped = true;
  curve.tiles[0].efficiency = 0.5;
  other.gemms.push_back(curve);
  Calibration both = calibration(own);
  both.profiles.push_back({&other, true});
  both.gpu.memory_bandwidth = gigabytes_per_second(1e6);
  const auto model = model_of(workload::Experts{.experts = 10, .active = 1, .width = 128, .gated = false}, {1280, 128});
  // Two products of 10 tiles on ten multiprocessors, 128 steps of k at half of 4 TFLOP/s.
  const double product = 128 * 2 * 128 * 128 / 2e12 * 1e6;
  const auto forward = [&](const Calibration& by) {
    return calibrated_times(model.layers, by, 1, Precision::kBf16, {}).layers[0].forward.compute;
  };
  CHECK(forward(both).in(microseconds) == Approx(2 * product));
  both.profiles.pop_back();
  CHECK(forward(both).in(microseconds) == Approx(product));
}

TEST_CASE("kernel time: attention by its curve; fp8 keeps it in bf16", "[unit][cost]") {
  hardware::GpuProfile known = profile();
  hardware::AttentionCurve curve;
  curve.not_overlapped = 0;
  curve.prologue_steps = 0;
  curve.widths = {{64, 128, 0.5, 1}};
  curve.report.interval = {0.9, 1.2};
  known.attention.push_back(curve);
  Calibration by = calibration(known);
  by.gpu.memory_bandwidth = gigabytes_per_second(1e6);
  const auto model = model_of(workload::GroupedAttention{.heads = 10, .width = 64}, {128, 640});
  // Ten tiles on ten multiprocessors: 2 x 128 x 128 FLOP at half of 4 TFLOP/s, for 128 keys.
  const double forward = 128 * 2 * 128 * 128 / 2e12 * 1e6;
  for (const Precision precision : {Precision::kBf16, Precision::kFp8}) {
    const CalibratedTimes times = calibrated_times(model.layers, by, 1, precision, {});
    CHECK(times.layers[0].forward.total().in(microseconds) == Approx(forward));
    CHECK(times.layers[0].backward.total().in(microseconds) == Approx(2.5 * 1.12 * forward));
    // Nobody measured the backward pass.
    CHECK(times.measured.in(microseconds) == Approx(forward));
    CHECK(times.extrapolated.in(microseconds) == Approx(2.5 * 1.12 * forward));
  }
  // Of 32 bits it is another kernel, in TF32 as in fp32, whatever was measured in 16.
  by.assumed.memory = gigabytes_per_second(1e6);
  by.gpu.peak.set(Precision::kTf32, teraflops_per_second(20));
  const auto wide = [&](Precision precision) {
    return calibrated_times(model.layers, by, 1, precision, {}).layers[0].forward.total();
  };
  CHECK(wide(Precision::kTf32) == wide(Precision::kFp32));
  CHECK(wide(Precision::kTf32) ==
        attention_work({.queries = 128, .keys = 128, .heads = 10, .kv_heads = 10, .width = 64, .value_width = 64}, 1) /
            (by.gpu.peak.fp32 * kSingleAttention));
  // Another GPU's backward curve is nearer to it than the forward curve.
  hardware::GpuProfile other;
  curve.pass = primitives::AttentionPass::kBackward;
  curve.widths[0].efficiency = 0.25;
  other.attention.push_back(curve);
  by.profiles.push_back({&other, true});
  const CalibratedTimes times = calibrated_times(model.layers, by, 1, Precision::kBf16, {});
  CHECK(times.layers[0].backward.total().in(microseconds) == Approx(2.5 * 2 * forward));
  CHECK(times.extrapolated == times.layers[0].backward.total());
}

TEST_CASE("kernel time: a shape that comes again costs the same, in a model of more shapes than are remembered",
          "[unit][cost]") {
  const hardware::GpuProfile known = profile();
  workload::Model model;
  for (int again = 0; again < 2; ++again) {
    for (std::int64_t i = 1; i <= 400; ++i) {
      workload::Layer layer;
      layer.forward = {{.shape = primitives::MemoryBoundKernel{.elements = 1000 * i}},
                       {.shape = primitives::Gemm{.m = i, .n = 8, .k = 1000}, .times = 2},
                       {.shape = primitives::ConvolutionShape{.in = i, .out = 8}},
                       {.shape = primitives::FusedAttention{.work = flops(1e9), .elements = i}}};
      model.layers.push_back(layer);
    }
  }
  const CalibratedTimes times = calibrated_times(model.layers, calibration(known), 1, Precision::kFp32, {});
  REQUIRE(times.layers.size() == 800);
  const double element_wise = 4.0 / 100e9;  // s
  double sum = 0;
  for (std::size_t i = 0; i < 800; ++i) {
    const auto n = static_cast<double>(i % 400 + 1);
    // Without their curves GEMM and convolution take 4 B (n 1000 + 8000 + 8 n) and 4 B (8 n + 8 + n) at 70 GB/s,
    // attention 1 GFLOP at kSingleAttention of 10 TFLOP/s.
    const double roofline = 2 * 4 * (1008 * n + 8000) / 70e9 + 4 * (9 * n + 8) / 70e9;
    const double memory = element_wise * 1000 * n + roofline;
    CHECK(times.layers[i].forward.memory.in(seconds) == Approx(memory));
    CHECK(times.layers[i].forward.compute.in(seconds) == Approx(1e9 / 3.5e12));
    sum += memory + 1e9 / 3.5e12;
  }
  CHECK((times.measured + times.extrapolated + times.assumed).in(seconds) == Approx(sum));
}

TEST_CASE("kernel time: images that lie pixel by pixel spare a convolution what turns them", "[unit][cost]") {
  const auto time = [](const primitives::ConvolutionShape& shape, std::optional<Time> measured, bool spares) {
    hardware::GpuProfile known = profile();
    if (measured) known.measured_convolutions.push_back({Precision::kFp16, shape, 4, *measured});
    workload::Model model;
    model.layers.emplace_back().forward = {{.shape = shape}};
    Calibration how = calibration(known);
    how.spares_turning = spares;
    return calibrated_times(model.layers, how, 4, Precision::kFp16, {}).layers[0].forward.total().in(microseconds);
  };
  // 4 samples of 8 x 100 x 100 in and 16 x 50 x 50 out are 480,000 elements: read and written once 1.92 MB, 19.2 us at
  // 100 GB/s. Never below what they take anyway, 0.96 MB at 70 GB/s.
  primitives::ConvolutionShape shape{.in = 8, .out = 16, .input = {100, 100}, .output = {50, 50}, .stride = {2, 2}};
  CHECK(time(shape, microseconds(100), false) == Approx(100));
  CHECK(time(shape, microseconds(100), true) == Approx(100 - 19.2));
  CHECK(time(shape, microseconds(20), true) == Approx(0.96e6 / 70e3));
  // Where nothing was measured nothing was turned, and a depthwise one is not.
  CHECK(time(shape, std::nullopt, true) == time(shape, std::nullopt, false));
  shape.out = 8;
  shape.groups = 8;
  CHECK(time(shape, microseconds(100), true) == Approx(100));
}

TEST_CASE("kernel time: shapes that differ in one size alone are told apart", "[unit][cost]") {
  const hardware::GpuProfile known = profile();
  using primitives::ConvolutionShape;
  const ConvolutionShape base{.in = 8, .out = 8, .input = {16, 16}, .output = {16, 16}, .kernel = {3, 3}};
  std::vector<ConvolutionShape> shapes(9, base);
  shapes[1].in = 16;
  shapes[2].out = 16;
  shapes[3].groups = 2;
  shapes[4].input[1] = 32;
  shapes[5].output[0] = 8;
  shapes[6].output[1] = 8;
  shapes[7].kernel[1] = 5;
  shapes[8].input[0] = 32;
  const auto forward = [&](std::span<const ConvolutionShape> of) {
    workload::Model model;
    for (const ConvolutionShape& shape : of) model.layers.emplace_back().forward = {{.shape = shape}};
    return calibrated_times(model.layers, calibration(known), 4, Precision::kFp32, {});
  };
  const CalibratedTimes together = forward(shapes);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const CalibratedTimes alone = forward({&shapes[i], 1});
    CHECK(together.layers[i].forward.total() == alone.layers[0].forward.total());
  }
  // Kernel, stride and dilation matter to a curve; without one only what is computed and moved does.
  CHECK(together.layers[7].forward.total() > together.layers[0].forward.total());
}

TEST_CASE("kernel time: a softmax of outputs in 16 bits runs in fp32", "[unit][cost]") {
  const hardware::GpuProfile known = profile();
  const auto time = [&](double widening, Precision precision, bool fused, std::int64_t elements = 100'000'000) {
    workload::Model model;
    model.layers.emplace_back().forward = {{primitives::MemoryBoundKernel{
        .kind = primitives::MemoryBoundKind::kSoftmax, .elements = elements, .row = 1000, .widening = widening}}};
    Calibration how = calibration(known);
    how.fuses_pointwise = fused;
    return calibrated_times(model.layers, how, 1, precision, {}).layers[0].forward.total();
  };
  // Casts, logarithm, zeros, gradient: 6 + 8 + 4 + 12 + 6 bytes where ten are listed.
  CHECK(time(3.6, Precision::kFp16, false).in(seconds) ==
        Approx(time(1, Precision::kFp16, false, 360'000'000).in(seconds)));
  CHECK(time(3.6, Precision::kFp16, true) == time(1, Precision::kFp16, true));
  CHECK(time(3.6, Precision::kFp32, false) == time(1, Precision::kFp32, false));
}
