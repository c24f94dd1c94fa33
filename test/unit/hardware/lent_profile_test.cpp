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
  CHECK(slower->gemms.front().sustained_slowdown == Approx(0.92 * 121 / 53 - 1));
  // Convolutions without tiles, and attention, know only watts; more of them than large products need: no slowdown.
  CHECK(slower->convolutions.front().implicit_gemm.sustained_slowdown == 0.5);
  CHECK(slower->attention.front().sustained_slowdown == 0.5);
  Gpu boosted = gpu(121, 72);
  boosted.sustained.set(Precision::kFp32, 1.1);
  CHECK(lent(own, gpu(149.7, 300), boosted)->gemms.front().sustained_slowdown == 0);
  Gpu other = gpu(121, 72);
  other.sustained.set(Precision::kFp16, 0.4);
  CHECK(lent(own, gpu(149.7, 300), other) == own);
}

TEST_CASE("lent profile: another run of the lender stays with it", "[unit][hardware]") {
  GpuProfile made = *profile(0);
  made.gemms.front().report.another_run = {0.5, 10, "other"};
  const auto own = std::make_shared<const GpuProfile>(made);
  const auto lent_to = lent(own, gpu(8.1, 70), gpu(8.1, 70));
  CHECK_FALSE(lent_to->gemms.front().report.another_run);
  CHECK(own->gemms.front().report.another_run);
}
