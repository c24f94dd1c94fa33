#include "ddlsim/cost/attention_time.h"

#include <catch2/catch.hpp>
#include <vector>

#include "ddlsim/workload/op.h"

using namespace ddlsim;
using namespace ddlsim::cost;
using hardware::AttentionCurve;
using hardware::DeviceSpec;
using primitives::AttentionPass;
using primitives::AttentionShape;

namespace {

/// Nothing but tiles and waves.
AttentionCurve plain() {
  AttentionCurve curve;
  curve.memory_efficiency = 1;
  curve.not_overlapped = 0;
  curve.prologue_steps = 0;
  curve.partial_wave_cost = 1;
  curve.widths = {{.width = 64, .rows = 128, .efficiency = 1, .tiles_to_fill = 1}};
  return curve;
}

/// 2 multiprocessors of 1 TFLOP/s each; memory takes no time.
const DeviceSpec kDevice{2, teraflops_per_second(2), gigabytes_per_second(1e9), megabytes(6)};

AttentionShape shape(std::int64_t queries, bool causal) {
  return {.queries = queries, .keys = queries, .width = 64, .value_width = 64, .causal = causal};
}

double us(const AttentionCurve& curve, const AttentionShape& of, double batch = 1) {
  return attention_time(curve, kDevice, of, batch, bytes(2)).in(microseconds);
}

constexpr double kStep = 0.032768;  // us: one key of a tile of 128 queries, 2 x 128 x 128 FLOP at 1 TFLOP/s

}  // namespace

TEST_CASE("attention time: the header's worked example", "[unit][cost]") {
  CHECK(us(plain(), shape(256, true)) == Approx(256 * kStep));
}

TEST_CASE("attention time: masks, windows and waves", "[unit][cost]") {
  // Without a mask both tiles go over 256 keys.
  CHECK(us(plain(), shape(256, false)) == Approx(256 * kStep));
  // Ten sequences: 10 tiles in a row on each multiprocessor, 192 keys in the mean.
  CHECK(us(plain(), shape(256, true), 10) == Approx(10 * 192 * kStep));
  CHECK(us(plain(), shape(256, false), 10) == Approx(10 * 256 * kStep));
  // 1024 queries in 8 tiles, a window of 128: the first tile looks at 128 keys, the others at 256; 4 tiles in a row.
  AttentionShape near = shape(1024, true);
  near.window = 128;
  CHECK(us(plain(), near) == Approx(4 * (128 + 7 * 256) / 8.0 * kStep));
  near.causal = false;
  CHECK(us(plain(), near) == Approx(4 * 256 * kStep));
  // Three tiles: the second wave is half empty, of which a quarter is paid.
  AttentionCurve fluid = plain();
  fluid.partial_wave_cost = 0.25;
  CHECK(us(fluid, shape(128, false), 3) == Approx((0.25 * 2 + 0.75 * 1.5) * 128 * kStep));
  AttentionCurve start = plain();
  start.prologue_steps = 32;
  start.masked_steps = 16;
  CHECK(us(start, shape(128, false)) == Approx(160 * kStep));
  CHECK(us(start, shape(128, true)) == Approx(176 * kStep));
}

TEST_CASE("attention time: a backward pass makes five products, a forward pass two", "[unit][cost]") {
  AttentionShape back = shape(256, false);
  back.pass = AttentionPass::kBackward;
  AttentionCurve curve = plain();
  curve.pass = AttentionPass::kBackward;
  CHECK(us(curve, back) == Approx(2.5 * 256 * kStep));
  // By the forward curve, as nobody measured another.
  CHECK(us(plain(), back) == Approx(2.5 * kBackwardSlowdown * 256 * kStep));
  CHECK(attention_work(back, 3) / attention_work(shape(256, false), 3) == Approx(2.5));
}

TEST_CASE("attention time: FLOPs and bytes", "[unit][cost]") {
  CHECK(attention_pairs(shape(4, false)) == 16);
  CHECK(attention_pairs(shape(4, true)) == 10);
  AttentionShape near = shape(4, true);
  near.window = 2;  // 1 + 2 + 2 + 2
  CHECK(attention_pairs(near) == 7);
  near.causal = false;
  CHECK(attention_pairs(near) == 8);
  // The last two of four tokens ask: 3 and 4 keys.
  CHECK(attention_pairs({.queries = 2, .keys = 4, .causal = true}) == 7);
  const AttentionShape grouped{
      .queries = 4, .keys = 4, .heads = 8, .kv_heads = 2, .width = 16, .value_width = 8, .causal = false};
  CHECK(attention_work(grouped, 2).in(flops) == 2 * 16 * 8 * 24 * 2);
  CHECK(attention_traffic(grouped, 2, bytes(2)).in(bytes) == 2 * 2 * 4 * 24 * (8 + 2));
  // Memory is the longer part.
  const DeviceSpec slow{2, teraflops_per_second(2), gigabytes_per_second(1), megabytes(6)};
  CHECK(attention_time(plain(), slow, shape(256, true), 1, bytes(2)).in(microseconds) == Approx(256 * 128 * 4 / 1e3));
}

TEST_CASE("attention time: widths between those measured", "[unit][cost]") {
  AttentionCurve curve = plain();
  curve.widths = {{64, 128, 0.4, 1}, {256, 64, 0.8, 1}};
  AttentionShape wide = shape(128, false);
  wide.width = 128;  // half way in octaves: efficiency 0.6, tiles as of the upper one; 2 in place of 1
  wide.value_width = 128;
  CHECK(us(curve, wide) == Approx(128 * kStep / 0.6));
  wide.width = 32;
  wide.value_width = 32;
  CHECK(us(curve, wide) == Approx(128 * kStep / 2 / 0.4));
  wide.width = 512;
  wide.value_width = 512;
  CHECK(us(curve, wide) == Approx(128 * kStep * 8 / 2 / 0.8));
}

TEST_CASE("attention time: which curve, and how far outside", "[unit][cost]") {
  std::vector<AttentionCurve> curves{plain()};
  CHECK(attention_curve(curves, Precision::kBf16, AttentionPass::kForward) == &curves[0]);
  CHECK(attention_curve(curves, Precision::kBf16, AttentionPass::kBackward) == nullptr);
  CHECK(attention_curve(curves, Precision::kFp8, AttentionPass::kForward) == nullptr);
  hardware::CurveReport report;
  report.fitted_ranges = {{"queries", 64, 1024}, {"width", 64, 128}, {"heads", 1, 64}};
  CHECK(outside(report, shape(1024, true), 64) == 0);
  CHECK(outside(report, shape(4096, true), 1) == Approx(2));
  CHECK(outside(report, shape(1024, true), 128) == Approx(1));
}

TEST_CASE("attention time: layers' kernels have the FLOPs and the bytes of their layer", "[unit][cost]") {
  for (const workload::GroupedAttention& op :
       {workload::GroupedAttention{.heads = 32, .kv_heads = 8, .width = 128, .causal = true},
        workload::GroupedAttention{.heads = 128, .width = 192, .value_width = 128, .causal = true},
        workload::GroupedAttention{.heads = 4, .width = 64, .window = 100, .causal = true},
        workload::GroupedAttention{.heads = 4, .width = 64, .causal = true, .chunk = 250},
        workload::GroupedAttention{.heads = 4, .width = 64, .window = 10'000}}) {
    const auto layer = workload::layer_of(op, {1000, op.heads * op.width}, "attention").value().layer;
    const auto& forward = std::get<primitives::FusedAttention>(layer.forward.front().shape);
    const auto& backward = std::get<primitives::FusedAttention>(layer.backward.front().shape);
    CHECK(attention_work(forward.shape, 1) == layer.forward_work);
    CHECK(attention_work(backward.shape, 1) == layer.backward_work);
    CHECK(attention_traffic(forward.shape, 1, bytes(1)).in(bytes) == static_cast<double>(layer.forward_elements));
  }
}

TEST_CASE("attention time: older kernels take longer where newer ones are", "[unit][cost]") {
  using hardware::GpuGeneration;
  using primitives::AttentionKernel;
  const auto slower = [](AttentionKernel kernel, GpuGeneration generation, AttentionPass pass) {
    return kernel_slowdown(kernel, generation, pass).value_or(0);
  };
  CHECK(slower(AttentionKernel::kBest, GpuGeneration::kBlackwell, AttentionPass::kForward) == 1);
  CHECK(slower(AttentionKernel::kFlash2, GpuGeneration::kAmpere, AttentionPass::kBackward) == 1);
  CHECK(slower(AttentionKernel::kFlash2, GpuGeneration::kHopper, AttentionPass::kForward) == 1.77);
  CHECK(slower(AttentionKernel::kFlash1, GpuGeneration::kAmpere, AttentionPass::kBackward) == 2);
  CHECK(slower(AttentionKernel::kFlash1, GpuGeneration::kHopper, AttentionPass::kBackward) == Approx(1.75 * 2));
  CHECK_FALSE(kernel_slowdown(AttentionKernel::kFlash2, GpuGeneration::kBlackwell, AttentionPass::kForward));
}
