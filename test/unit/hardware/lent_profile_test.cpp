#include "ddlsim/hardware/lent_profile.h"

#include <catch2/catch.hpp>

using namespace ddlsim;
using namespace ddlsim::hardware;

namespace {

Gpu gpu(double tflops, double watt) {
  Gpu one;
  one.peak.fp32 = teraflops_per_second(tflops);
  one.tdp = watts(watt);
  return one;
}

std::shared_ptr<const GpuProfile> profile(double slowdown) {
  GpuProfile made;
  made.gemms.emplace_back().sustained_slowdown = slowdown;
  made.convolutions.emplace_back().implicit_gemm.sustained_slowdown = slowdown;
  made.attention.emplace_back().precision = Precision::kFp32;
  made.attention.front().sustained_slowdown = slowdown;
  return std::make_shared<const GpuProfile>(std::move(made));
}

}  // namespace

TEST_CASE("lent profile: its worked example, T4 to RTX 2080 Ti", "[unit][hardware]") {
  const auto own = profile(1.5);
  const auto lent_to = lent(own, gpu(8.1, 70), gpu(13.45, 250));
  const double slower = 2.5 * (70 / 8.1) / (250 / 13.45) - 1;
  CHECK(slower == Approx(0.16).epsilon(0.02));
  CHECK(lent_to->gemms.front().sustained_slowdown == Approx(slower));
  CHECK(lent_to->convolutions.front().implicit_gemm.sustained_slowdown == Approx(slower));
  CHECK(lent_to->attention.front().sustained_slowdown == Approx(slower));
  CHECK(own->gemms.front().sustained_slowdown == 1.5);
}

TEST_CASE("lent profile: never below no slowdown, never more of it", "[unit][hardware]") {
  const auto own = profile(1.5);
  CHECK(lent(own, gpu(8.1, 70), gpu(8.1, 700))->gemms.front().sustained_slowdown == 0);
  // Fewer watts for a FLOP, as many, and a TDP that nobody knows: as it is.
  for (const Gpu& other : {gpu(16.2, 70), gpu(8.1, 70), gpu(8.1, 0)}) CHECK(lent(own, gpu(8.1, 70), other) == own);
  CHECK(lent(own, gpu(8.1, 0), gpu(8.1, 700)) == own);
}

TEST_CASE("lent profile: the borrower's own large products say how far its clocks fall", "[unit][hardware]") {
  GpuProfile made = *profile(0.5);
  made.gemms.front().tiles = {{.m = 64, .n = 64, .efficiency = 0.7}, {.m = 128, .n = 256, .efficiency = 0.92}};
  const auto own = std::make_shared<const GpuProfile>(made);
  Gpu starved = gpu(121, 72);
  starved.sustained.set(Precision::kFp32, 53.0 / 121);
  const auto slower = lent(own, gpu(149.7, 300), starved);
  const double prologue = 1 + made.gemms.front().prologue_steps / 8192;
  CHECK(slower->gemms.front().sustained_slowdown == Approx(0.92 * 121 / 53 / prologue - 1));
  CHECK(slower->gemms.front().tiles[1].efficiency == 0.92);
  // Convolutions and attention without tiles know only watts.
  CHECK(slower->convolutions.front().implicit_gemm.sustained_slowdown == 0.5);
  CHECK(slower->attention.front().sustained_slowdown == 0.5);
  // Long rows of k take longer by the curve alone.
  made.gemms.front().long_k = 1024;
  made.gemms.front().long_k_slowdown = 0.05;
  const auto by_long_k = lent(std::make_shared<const GpuProfile>(made), gpu(149.7, 300), starved);
  CHECK(by_long_k->gemms.front().sustained_slowdown == Approx(0.92 * 121 / 53 / prologue / 1.15 - 1));
  Gpu other = gpu(121, 72);
  other.sustained.set(Precision::kFp16, 0.4);
  CHECK(lent(own, gpu(149.7, 300), other) == own);
}

TEST_CASE("lent profile: a borrower that reaches more of its peak has more efficient tiles", "[unit][hardware]") {
  GpuProfile made = *profile(0.1);
  made.gemms.front().tiles = {{.m = 64, .n = 64, .efficiency = 0.6}, {.m = 128, .n = 256, .efficiency = 0.8}};
  made.gemms.front().prologue_steps = 256;
  made.attention.front().sustained_slowdown = 0.05;
  made.attention.front().widths = {{.width = 64, .efficiency = 0.4}, {.width = 128, .efficiency = 0.6}};
  const auto own = std::make_shared<const GpuProfile>(made);
  Gpu lender = gpu(989, 700);
  lender.sm_count = 132;
  Gpu cut = gpu(148, 400);
  cut.sustained.set(Precision::kFp32, 0.96);
  // Nobody knows its multiprocessors: attention goes by watts, of which it has more.
  const auto by_watts = lent(own, lender, cut);
  CHECK(by_watts->gemms.front().sustained_slowdown == 0);
  const double product = (1 + 256.0 / 8192) / 0.8;
  // Below the share without a prologue: tiles are quicker.
  CHECK(by_watts->gemms.front().prologue_steps == 0);
  CHECK(by_watts->gemms.front().tiles[0].efficiency == Approx(0.6 * 0.96 / 0.8));
  CHECK(by_watts->gemms.front().tiles[1].efficiency == Approx(0.96));
  CHECK(by_watts->attention.front().sustained_slowdown == 0);
  CHECK(by_watts->attention.front().widths[1].efficiency == 0.6);
  cut.sm_count = 78;
  const auto lent_to = lent(own, lender, cut);
  const double beside = 1.05 / 0.6 - 1.1 * product;
  const double takes = 1 / 0.96 + beside * (148.0 / 78) / (989.0 / 132);
  CHECK(lent_to->attention.front().sustained_slowdown == 0);
  CHECK(lent_to->attention.front().widths[1].efficiency == Approx(1 / takes));
  CHECK(lent_to->attention.front().widths[0].efficiency == Approx(0.4 / 0.6 / takes));
  // No clock beyond that of the peak.
  Gpu boosted = gpu(148, 400);
  boosted.sustained.set(Precision::kFp32, 1.06);
  CHECK(lent(own, lender, boosted)->gemms.front().tiles[1].efficiency == Approx(1));
  // What long rows cost goes first, then a part of the prologue: a large product takes 1 / 0.75 each time.
  GpuProfile slow = made;
  slow.gemms.front().long_k = 1024;
  slow.gemms.front().long_k_slowdown = 0.1;
  Gpu near = gpu(148, 400);
  near.sustained.set(Precision::kFp32, 0.75);
  const GemmCurve less = lent(std::make_shared<const GpuProfile>(slow), lender, near)->gemms.front();
  CHECK(less.tiles[1].efficiency == 0.8);
  CHECK(less.prologue_steps == 256);
  CHECK((1 + 256.0 / 8192) * (1 + 3 * less.long_k_slowdown) / 0.8 == Approx(1 / 0.75));
  Gpu nearer = gpu(148, 400);
  nearer.sustained.set(Precision::kFp32, 0.79);
  const GemmCurve least = lent(std::make_shared<const GpuProfile>(slow), lender, nearer)->gemms.front();
  CHECK(least.long_k_slowdown == 0);
  CHECK(least.tiles[1].efficiency == 0.8);
  CHECK((1 + least.prologue_steps / 8192) / 0.8 == Approx(1 / 0.79));
  // As many multiprocessors at as much of the peak as the lender's products reach: as slow as the lender's.
  Gpu alike = lender;
  alike.sustained.set(Precision::kFp32, 1 / (1.1 * product));
  CHECK(lent(own, lender, alike)->attention.front().sustained_slowdown == Approx(0.05));
  // Batched products say nothing of single ones.
  made.gemms.front().batched = true;
  const auto batched = lent(std::make_shared<const GpuProfile>(made), lender, cut);
  CHECK(batched->attention.front().widths[1].efficiency == 0.6);
}

TEST_CASE("lent profile: another run of the lender stays with it", "[unit][hardware]") {
  GpuProfile made = *profile(0);
  made.gemms.front().report.another_run = {0.5, 10, "other"};
  const auto own = std::make_shared<const GpuProfile>(made);
  const auto lent_to = lent(own, gpu(8.1, 70), gpu(8.1, 70));
  CHECK_FALSE(lent_to->gemms.front().report.another_run);
  CHECK(own->gemms.front().report.another_run);
}
