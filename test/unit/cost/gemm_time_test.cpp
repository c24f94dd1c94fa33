#include "ddlsim/cost/gemm_time.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace ddlsim;
using namespace ddlsim::cost;
using hardware::CurveReport;
using hardware::DeviceSpec;
using hardware::GemmCurve;

namespace {

/// Nothing but tiles and waves.
GemmCurve plain() {
  GemmCurve curve;
  curve.memory_efficiency = 1;
  curve.not_overlapped = 0.5;
  curve.prologue_steps = 0;
  curve.partial_wave_cost = 1;
  curve.tiles = {{.m = 128, .n = 128, .efficiency = 1, .tiles_to_fill = 1}};
  return curve;
}

DeviceSpec spec(double multiprocessors, double teraflops, double gigabytes) {
  return {multiprocessors, teraflops_per_second(teraflops), gigabytes_per_second(gigabytes), megabytes(6)};
}

double us(const GemmCurve& curve, const DeviceSpec& device, const hardware::GemmSize& size) {
  return gemm_time(curve, device, size, bytes(4)).in(microseconds);
}

}  // namespace

TEST_CASE("gemm time: the header's worked example", "[unit][cost]") {
  CHECK(us(plain(), spec(2, 2, 1), {1, 256, 256, 1000}) == Approx(2310.144 + 32.768));
  // The same bytes in a tenth of the time: computing is the longer part.
  CHECK(us(plain(), spec(2, 2, 100), {1, 256, 256, 1000}) == Approx(65.536 + 0.5 * 23.10144));
  GemmCurve slow = plain();
  slow.left_operand_cost = 2;
  CHECK(us(slow, spec(2, 2, 1), {1, 256, 256, 1000}) == Approx(3334.144 + 32.768));
}

TEST_CASE("gemm time: waves", "[unit][cost]") {
  const DeviceSpec device = spec(4, 4, 1e9);  // memory takes no time; 128 x 128 x 1000 takes 32.768 us
  CHECK(us(plain(), device, {1, 128, 128, 60}) == Approx(60 * 0.032768));
  CHECK(us(plain(), device, {4, 128, 128, 60}) == Approx(60 * 0.032768));
  CHECK(us(plain(), device, {5, 128, 128, 60}) == Approx(120 * 0.032768));
  CHECK(us(plain(), device, {1, 129, 1, 60}) == Approx(60 * 0.032768));
  GemmCurve fluid = plain();
  fluid.partial_wave_cost = 0.25;  // a quarter of 2 waves, three quarters of 5 / 4
  CHECK(us(fluid, device, {5, 128, 128, 60}) == Approx((0.5 + 0.9375) * 60 * 0.032768));
  GemmCurve two = plain();
  two.tiles[0].tiles_to_fill = 2;  // one tile cannot fill a multiprocessor
  CHECK(us(two, device, {4, 128, 128, 60}) == Approx(120 * 0.032768));
  GemmCurve start = plain();
  start.prologue_steps = 40;
  CHECK(us(start, device, {1, 128, 128, 60}) == Approx(100 * 0.032768));
}

TEST_CASE("gemm time: a split k fills the multiprocessors", "[unit][cost]") {
  const DeviceSpec device = spec(4, 4, 1e9);
  GemmCurve curve = plain();
  curve.split_k_launch = microseconds(1);
  // One tile on four multiprocessors: four parts of 256 and the kernel that sums them.
  CHECK(us(curve, device, {1, 128, 128, 1024}) == Approx(256 * 0.032768 + 1));
  curve.split_k_launch = microseconds(30);  // not worth it
  CHECK(us(curve, device, {1, 128, 128, 1024}) == Approx(1024 * 0.032768));
  curve.split_k_launch = microseconds(1);
  // No part is shorter than 64: of 128 there are two at most, though 80 multiprocessors are idle.
  CHECK(us(curve, spec(80, 80, 1e9), {1, 128, 128, 128}) == Approx(64 * 0.032768 + 1));
  curve.batched = true;  // libraries do not split batches
  CHECK(us(curve, device, {1, 128, 128, 1024}) == Approx(1024 * 0.032768));
}

TEST_CASE("gemm time: into how many parts k is split", "[unit][cost]") {
  // One tile on 16 multiprocessors is tried in 4, 8 and 16 parts; a part's sums are 64 KiB, 1 us a pass. Operands and
  // result take 17 us, 1024 steps 33.554 us, and nothing is hidden.
  const DeviceSpec device = spec(16, 16, 65.536);
  GemmCurve curve = plain();
  curve.not_overlapped = 1;
  const auto takes = [&](double passes) {
    curve.split_k_passes = passes;
    return us(curve, device, {1, 128, 128, 1024});
  };
  CHECK(takes(0.25) == Approx(17 + 33.554432 / 16 + 16 * 0.25));
  CHECK(takes(1) == Approx(17 + 33.554432 / 8 + 8));
  CHECK(takes(2) == Approx(17 + 33.554432 / 4 + 4 * 2));
  // Nine tiles fill them at 1.8 parts; in 3 parts 27 tiles of 342 steps come in two rounds.
  curve.split_k_passes = 0;
  CHECK(us(curve, spec(16, 16, 1e9), {1, 128, 9 * 128, 1024}) == Approx(2 * 342 * 0.032768));
}

TEST_CASE("gemm time: tiles on their side, and parts that a variant allows", "[unit][cost]") {
  // A tile of 256 x 64 covers 64 x 256 once on its side, and needs four otherwise.
  const std::vector<GemmCurve::Tile> tiles{{.m = 256, .n = 64, .efficiency = 1, .tiles_to_fill = 1}};
  GemmVariant variant{.tiles = tiles};
  const auto takes = [&](double multiprocessors, const hardware::GemmSize& size) {
    return gemm_time(plain(), variant, spec(multiprocessors, multiprocessors, 1e9), size, DataSize::zero())
        .in(microseconds);
  };
  CHECK(takes(1, {1, 64, 256, 60}) == Approx(4 * 60 * 0.032768));
  variant.either_orientation = true;
  CHECK(takes(1, {1, 64, 256, 60}) == Approx(60 * 0.032768));
  CHECK(takes(1, {1, 256, 64, 60}) == Approx(60 * 0.032768));
  // k of 128 has two parts of 64 at most, one of 1024 the four that are allowed.
  variant.most_splits = 4;
  CHECK(takes(80, {1, 256, 64, 128}) == Approx(64 * 0.032768));
  CHECK(takes(80, {1, 256, 64, 1024}) == Approx(256 * 0.032768));
}

TEST_CASE("gemm time: lasting load and long rows slow down", "[unit][cost]") {
  const DeviceSpec device = spec(1, 1, 1e9);
  GemmCurve curve = plain();
  curve.sustained_slowdown = 0.5;
  curve.slowdown_half_time = microseconds(3.2768);
  // 100 steps take 3.2768 us, as long as the clocks take to fall by half: half of 50 % longer.
  CHECK(us(curve, device, {1, 128, 128, 100}) == Approx(1.25 * 3.2768));
  curve.sustained_slowdown = 0;
  curve.long_k_slowdown = 0.1;
  curve.long_k = 25;
  CHECK(us(curve, device, {1, 128, 128, 100}) == Approx(1.2 * 3.2768));
  CHECK(us(curve, device, {1, 128, 128, 20}) == Approx(0.2 * 3.2768));
}

TEST_CASE("gemm time: the fastest tile is taken, and no tiles mean the peak", "[unit][cost]") {
  const DeviceSpec device = spec(4, 4, 1e9);
  GemmCurve curve = plain();
  curve.tiles.push_back({.m = 64, .n = 64, .efficiency = 0.5, .tiles_to_fill = 1});
  // 64 x 64: 4 tiles in one wave of 60 * 8192 / 0.5 FLOP; 128 x 128: one tile on one of four multiprocessors.
  CHECK(us(curve, device, {1, 128, 128, 60}) == Approx(60 * 0.016384));
  curve.tiles.clear();
  CHECK(us(curve, device, {1, 128, 128, 1000}) == Approx(32.768 / 4));
}

TEST_CASE("gemm time: less moved than all operands", "[unit][cost]") {
  const Time time = gemm_time(plain(), spec(2, 2, 1), {1, 256, 256, 1000}, bytes(4), kilobytes(100));
  CHECK(time.in(microseconds) == Approx(100 + 32.768));
}

TEST_CASE("gemm time: which curve answers", "[unit][cost]") {
  std::vector<GemmCurve> curves(3);
  curves[1].batched = true;
  curves[2].precision = Precision::kFp16;
  CHECK(gemm_curve(curves, Precision::kFp32, 1) == curves.data());
  CHECK(gemm_curve(curves, Precision::kFp32, 12) == &curves[1]);
  CHECK(gemm_curve(curves, Precision::kFp16, 12) == &curves[2]);
  CHECK(gemm_curve(curves, Precision::kBf16, 1) == nullptr);
}

TEST_CASE("gemm time: octaves outside the rows fitted", "[unit][cost]") {
  CurveReport report;
  report.fitted_ranges = {{"m", 16, 1024}, {"k", 64, 4096}, {"flop", 1e3, 1e12}};
  CHECK(outside(report, {1, 16, 7, 4096}) == 0);
  CHECK(outside(report, {1, 2048, 7, 64}) == Approx(1));
  CHECK(outside(report, {1, 4, 7, 16384}) == Approx(2));
  CHECK(outside(report, {1, 2048, 7, 16384}) == Approx(2));
  CHECK(outside(report, {1, 8192, 7, 8192}) == Approx(3));
  CHECK(outside(report, {1, 4, 7, 4096}) == Approx(2));  // below the least
  CHECK(outside(report, {1, 4, 7, 32}) == Approx(2));
  CHECK(outside(report, {1, 8, 7, 16}) == Approx(2));
  CHECK(outside(CurveReport{}, {1, 1, 1, 1}) == 0);
}

TEST_CASE("gemm time: fp8 with the cast of its left operand", "[unit][cost]") {
  GemmCurve curve = plain();
  curve.precision = Precision::kFp8;
  // Operands of one byte, a result of two: 128 x 1000 + 1000 x 128 + 2 x 128 x 128 B at 1 GB/s; computing 32.768 us.
  const DeviceSpec device = spec(4, 4, 1);
  const double moved = 256 + 32.768;
  CHECK(gemm_time(curve, device, {1, 128, 128, 1000}, bytes(2)).in(microseconds) == Approx(moved + 0.5 * 32.768));
  curve.left_operand_passes = 2.5;  // of 2 B x 128 x 1000
  CHECK(gemm_time(curve, device, {1, 128, 128, 1000}, bytes(2)).in(microseconds) == Approx(moved + 0.5 * 32.768 + 640));
  // Two of them side by side, by half the memory's rate.
  curve.memory_efficiency = 0.5;
  CHECK(gemm_time(curve, device, {2, 128, 128, 1000}, bytes(2)).in(microseconds) ==
        Approx(4 * moved + 0.5 * 32.768 + 4 * 640));
}

TEST_CASE("gemm time: fp4 by the curve of fp8", "[unit][cost]") {
  GemmCurve curve = plain();
  curve.precision = Precision::kFp8;
  curve.not_overlapped = 0;
  curve.split_k_launch = seconds(1);
  const DeviceSpec device = spec(4, 4, 1e6);
  const hardware::GemmSize size{1, 128, 128, 1000};
  const auto in_fp4 = [&](double peak) {
    return fp4_gemm_time(curve, device, flops_per_second(peak), size, bytes(2)).in(microseconds);
  };
  CHECK(in_fp4(8e12) == Approx(32.768 / 1.6));
  CHECK(in_fp4(5e12) == Approx(32.768 / 1.25));  // a GPU whose fp4 is a quarter faster than its fp8
  // Memory: 2 B x (9/32 x 2 x 128,000 + 16,384) = 176,768 B at 1 GB/s; and casts of 1.2 x 2.5 x 2 B x 128,000.
  const DeviceSpec slow = spec(4, 4, 1);
  CHECK(fp4_gemm_time(curve, slow, flops_per_second(8e12), size, bytes(2)).in(microseconds) == Approx(176.768));
  curve.left_operand_passes = 2.5;
  CHECK(fp4_gemm_time(curve, slow, flops_per_second(8e12), size, bytes(2)).in(microseconds) == Approx(176.768 + 768));
}

TEST_CASE("gemm time: a layer of experts is two grouped products and its routing", "[unit][cost]") {
  GemmCurve curve = plain();
  curve.precision = Precision::kBf16;
  curve.grouped = true;
  curve.routing_passes = 2;
  curve.not_overlapped = 0;
  const DeviceSpec device = spec(4, 4, 1e6);
  // 512 rows on 4 experts: 4 x (128 x 256 x 64) in 4 tiles two times over, then 4 x (128 x 64 x 128) in 4 tiles.
  const primitives::TimedExperts layer{.tokens = 256, .routed = 512, .experts = 4, .width = 64, .inner = 128};
  const double routing = 2 * 2 * (3 * 512 * 64 + 2 * 256 * 64 + 3 * 512 * 128) / 1e15 * 1e6;
  CHECK(experts_time(curve, device, layer).in(microseconds) == Approx((2 * 64 + 128) * 0.032768 + routing));
  // More experts than rows: those without a row are not read.
  CHECK(experts_time(curve, device, {.tokens = 1, .routed = 2, .experts = 64, .width = 64, .inner = 128}) ==
        experts_time(curve, device, {.tokens = 1, .routed = 2, .experts = 2, .width = 64, .inner = 128}));
}

TEST_CASE("gemm time: the curve of experts is for grouped products alone", "[unit][cost]") {
  std::vector<GemmCurve> curves{plain(), plain()};
  curves[0].grouped = true;
  CHECK(gemm_curve(curves, Precision::kFp32, 8, true) == &curves[0]);
  CHECK(gemm_curve(curves, Precision::kFp32, 8) == &curves[1]);
  CHECK(gemm_curve(std::span(curves).first(1), Precision::kFp32, 8) == nullptr);
  CHECK(gemm_curve(std::span(curves).last(1), Precision::kFp32, 8, true) == &curves[1]);
}

TEST_CASE("gemm time: many products by a curve of single ones", "[unit][cost]") {
  GemmCurve single = plain();
  single.prologue_steps = 10'000;
  GemmCurve batched = single;
  batched.batched = true;
  // 4 tiles on 2 multiprocessors; one of them takes 32.768 ns a step, and 0.55 x 4 B x 128 x 128 x 2 / (100 GB/s) at
  // most before it.
  const DeviceSpec device = spec(2, 2, 100);
  const double prologue = 0.55 * 4 * 128 * 128 * 2 / 100e3;
  const double move = 4 * 4 * (2 * 128 * 8 + 128 * 128) / 100e3;
  CHECK(us(single, device, {4, 128, 128, 8}) == Approx(move + 0.5 * 2 * (8 * 0.032768 + prologue)));
  CHECK(us(batched, device, {4, 128, 128, 8}) == Approx(2 * 10'008 * 0.032768 + 0.5 * move));
  CHECK(us(single, device, {1, 128, 128, 8}) > 10'000 * 0.032768);
}
