#include "ddlsim/cost/attention_time.h"

#include <catch2/catch.hpp>
#include <vector>

#include "catalog.h"
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
  // Four heads of five sequences have 40 tiles on two multiprocessors.
  AttentionShape heads = shape(256, false);
  heads.heads = 4;
  CHECK(us(plain(), heads, 5) == Approx(20 * 256 * kStep));
  // A third tile of 44 queries ends at key 300, as its tile would beyond it: (128 + 256 + 300) / 3 keys in the mean.
  CHECK(us(plain(), shape(300, true), 10) == Approx(15 * 228 * kStep));
}

TEST_CASE("attention time: queries that come after other keys", "[unit][cost]") {
  // The last 256 of 512 tokens ask: one tile goes over 384 keys, the other over 512.
  AttentionShape late = shape(256, true);
  late.keys = 512;
  CHECK(us(plain(), late, 10) == Approx(10 * 448 * kStep));
  CHECK(us(plain(), late) == Approx(512 * kStep));
  // A window that ends before the first of them does: every tile looks at 64 keys and at those of its own queries.
  late.window = 64;
  CHECK(us(plain(), late, 10) == Approx(10 * 192 * kStep));
  CHECK(attention_pairs({.queries = 2, .keys = 8, .window = 3, .causal = true}) == 2 * 3);
}

TEST_CASE("attention time: lasting load, and what computing hides of memory", "[unit][cost]") {
  AttentionCurve curve = plain();
  curve.sustained_slowdown = 0.5;
  curve.slowdown_half_time = microseconds(256 * kStep);
  CHECK(us(curve, shape(256, false)) == Approx(1.25 * 256 * kStep));  // half of 50 % longer
  curve.sustained_slowdown = 0;
  curve.not_overlapped = 0.25;
  // 4 x 256 x 64 elements of 2 B at 1 GB/s: 131.072 us, and a quarter of the 256 steps.
  const DeviceSpec slow{2, teraflops_per_second(2), gigabytes_per_second(1), megabytes(6)};
  CHECK(attention_time(curve, slow, shape(256, false), 1, bytes(2)).in(microseconds) ==
        Approx(131.072 + 0.25 * 256 * kStep));
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
    return kernel_slowdown(kernel, generation, pass, 128).value_or(KernelSlowdown{0, 0});
  };
  const auto best = slower(AttentionKernel::kBest, GpuGeneration::kBlackwell, AttentionPass::kForward);
  CHECK(best.compute == 1);
  CHECK(best.whole == 1);
  CHECK(slower(AttentionKernel::kFlash2, GpuGeneration::kAmpere, AttentionPass::kBackward).compute == 1);
  CHECK(slower(AttentionKernel::kFlash2, GpuGeneration::kHopper, AttentionPass::kForward).compute == 1.85);
  CHECK(slower(AttentionKernel::kFlash2, GpuGeneration::kHopper, AttentionPass::kForward).whole == 1);
  CHECK(slower(AttentionKernel::kFlash1, GpuGeneration::kAmpere, AttentionPass::kBackward).compute == 1);
  CHECK(slower(AttentionKernel::kFlash1, GpuGeneration::kAmpere, AttentionPass::kBackward).whole == 2);
  CHECK(slower(AttentionKernel::kFlash1, GpuGeneration::kHopper, AttentionPass::kBackward).compute == 1.74);
  CHECK(slower(AttentionKernel::kFlash1, GpuGeneration::kHopper, AttentionPass::kBackward).whole == 2);
  CHECK(slower(AttentionKernel::kFlash2, GpuGeneration::kBlackwell, AttentionPass::kForward).compute == 3.55);
  CHECK(slower(AttentionKernel::kFlash2, GpuGeneration::kBlackwell, AttentionPass::kBackward).compute == 3.25);
  CHECK_FALSE(kernel_slowdown(AttentionKernel::kFlash1, GpuGeneration::kBlackwell, AttentionPass::kForward, 128));
  // torchtitan's order of PyTorch's backends: cuDNN's on Blackwell alone.
  CHECK(slower(AttentionKernel::kSdpa, GpuGeneration::kBlackwell, AttentionPass::kForward).compute == 1);
  CHECK(slower(AttentionKernel::kSdpa, GpuGeneration::kHopper, AttentionPass::kForward).compute == 1.85);
  CHECK(slower(AttentionKernel::kSdpa, GpuGeneration::kAmpere, AttentionPass::kForward).compute == 1);
  const auto at_width = [](double width) {
    const auto slow =
        kernel_slowdown(AttentionKernel::kFlash2, GpuGeneration::kHopper, AttentionPass::kBackward, width);
    return slow.value_or(KernelSlowdown{0, 0}).compute;
  };
  CHECK(at_width(32) == 1.56);
  CHECK(at_width(64) == 1.56);
  CHECK(at_width(90.50966799187809) == Approx(1.65));  // half way in octaves
  CHECK(at_width(256) == 1.74);
}

TEST_CASE("attention time: another kernel computes longer and moves the same", "[unit][cost]") {
  const AttentionShape one = shape(256, true);
  const KernelSlowdown computes{1.5, 1};
  CHECK(attention_time(plain(), kDevice, one, 1, bytes(2), computes).in(microseconds) == Approx(1.5 * 256 * kStep));
  const DeviceSpec slow{2, teraflops_per_second(2), gigabytes_per_second(1), megabytes(6)};
  const Time moves = attention_time(plain(), slow, one, 1, bytes(2));
  CHECK(attention_time(plain(), slow, one, 1, bytes(2), computes) == moves);
  CHECK(attention_time(plain(), slow, one, 1, bytes(2), {1.5, 2}) / moves == Approx(2));
}

TEST_CASE("attention time: a backward pass that waits for memory", "[unit][cost]") {
  const DeviceSpec slow{2, teraflops_per_second(2), gigabytes_per_second(1), megabytes(6)};
  AttentionShape back = shape(256, true);
  back.pass = AttentionPass::kBackward;
  AttentionCurve curve = plain();
  curve.pass = AttentionPass::kBackward;
  // 256 queries of 11 x 64 elements, 256 keys of 2 x 128.
  CHECK(attention_time(curve, slow, back, 1, bytes(2)).in(microseconds) == Approx(2 * 256 * (11 * 64 + 2 * 128) / 1e3));
  // By a forward curve twice what a forward pass moves.
  CHECK(attention_time(plain(), slow, back, 1, bytes(2)).in(microseconds) == Approx(2 * 256 * 128 * 4 / 1e3));
}

TEST_CASE("attention time: what a backward pass moves", "[unit][cost]") {
  const auto moved = [](std::int64_t heads, std::int64_t kv_heads) {
    AttentionShape of{.queries = 4, .keys = 6, .heads = heads, .kv_heads = kv_heads, .width = 16, .value_width = 8};
    CHECK(attention_moved(of, 2, bytes(2)) == attention_traffic(of, 2, bytes(2)));
    of.pass = AttentionPass::kBackward;
    return attention_moved(of, 2, bytes(2)).in(bytes);
  };
  // 2 sequences of 2 bytes: 4 queries of 8 x 16 + 3 x 8, 6 keys read and their gradients written.
  CHECK(moved(8, 8) == 2 * 2 * (8 * 4 * 152 + 6 * (8 + 8) * 24));
  // Gradients of eight heads are written, read again, and two written.
  CHECK(moved(8, 2) == 2 * 2 * (8 * 4 * 152 + 6 * (2 + 8 + 8 + 2) * 24));
  // Measured on an H100, 512 sequences of 128 tokens, width 128: 7234 us with 64 heads over 8, 3383 with 32 over 32.
  const auto of_128 = [](std::int64_t heads, std::int64_t kv_heads) {
    return attention_moved({AttentionPass::kBackward, 128, 128, heads, kv_heads, 128, 128}, 512, bytes(2));
  };
  CHECK(of_128(64, 8) / of_128(32, 32) == Approx(7234.0 / 3383).epsilon(0.05));
}

TEST_CASE("attention time: cards that run Ampere's kernels have FlashAttention-2 as their own", "[unit][cost]") {
  const auto generation = [](const char* gpu) { return attention_generation(test::catalog().gpu(gpu).value()); };
  CHECK(generation("a100-sxm4-80gb") == hardware::GpuGeneration::kAmpere);
  CHECK(generation("h200-sxm5-141gb") == hardware::GpuGeneration::kHopper);
  CHECK(generation("b200-sxm-180gb") == hardware::GpuGeneration::kBlackwell);
  CHECK(generation("rtx-5090") == hardware::GpuGeneration::kAmpere);
  CHECK(generation("l40s") == hardware::GpuGeneration::kAmpere);
}
