// Clocks under a power limit.
#include "ddlsim/cost/power.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace ddlsim::cost {
namespace {

hardware::PowerDraw drawn() {
  return {.idle = watts(121),
          .memory = picojoules_per_byte(131),
          .arithmetic = {{Precision::kBf16, picojoules_per_flop(1.1)}}};
}

Power power_at(const DrawnByPass& pass, const hardware::PowerDraw& draw, double s) {
  return draw.idle + (pass.arithmetic / (s * s) + pass.memory) / (pass.compute * s + pass.rest);
}

}  // namespace

TEST_CASE("clocks fall until what work draws is the limit: the worked example") {
  const DrawnByPass pass{.arithmetic = joules(85.4), .compute = milliseconds(100)};
  const SustainedClocks clocks = sustained_clocks(pass, drawn(), watts(700));
  CHECK(clocks.slowdown == Approx(std::cbrt(854.0 / 579)).epsilon(1e-9));
  CHECK(clocks.drawn.in(watts) == Approx(700));
}

TEST_CASE("clocks stay where work draws less than it may") {
  const DrawnByPass pass{
      .arithmetic = joules(20), .memory = joules(10), .compute = milliseconds(50), .rest = milliseconds(50)};
  const SustainedClocks clocks = sustained_clocks(pass, drawn(), watts(700));
  CHECK(clocks.slowdown == 1);
  CHECK(clocks.drawn.in(watts) == Approx(421));
  const SustainedClocks nothing = sustained_clocks({}, drawn(), watts(700));
  CHECK(nothing.slowdown == 1);
  CHECK(nothing.drawn.in(watts) == Approx(121));
  const DrawnByPass memory{.memory = joules(100), .rest = milliseconds(100)};  // no clock of power's to fall
  CHECK(sustained_clocks(memory, drawn(), watts(700)).slowdown == 1);
}

TEST_CASE("a lower limit never makes a pass faster, nor does faster arithmetic make it slower") {
  for (const double memory : {0.0, 20.0, 58.0, 90.0}) {
    for (const double rest : {0.0, 40.0, 100.0}) {
      double before = 0;
      for (double limit = 700; limit > 130; limit *= 0.9) {
        const DrawnByPass pass{.arithmetic = joules(80),
                               .memory = joules(memory),
                               .compute = milliseconds(100),
                               .rest = milliseconds(rest)};
        const SustainedClocks clocks = sustained_clocks(pass, drawn(), watts(limit));
        CHECK(clocks.slowdown >= before);
        before = clocks.slowdown;
        if (clocks.slowdown > 1)
          CHECK(power_at(pass, drawn(), clocks.slowdown).in(watts) == Approx(limit).epsilon(1e-9));
        DrawnByPass faster = pass;
        faster.compute = pass.compute * 0.8;
        const Time longer = pass.compute * clocks.slowdown;
        CHECK(faster.compute * sustained_clocks(faster, drawn(), watts(limit)).slowdown <= longer * (1 + 1e-12));
      }
    }
  }
}

TEST_CASE("what a FLOP draws goes by the units that compute it") {
  hardware::Gpu gpu;
  gpu.nccl_tuning = hardware::GpuGeneration::kHopper;
  gpu.peak.fp32 = teraflops_per_second(67);
  gpu.peak.fp16 = teraflops_per_second(989);
  gpu.peak.bf16 = teraflops_per_second(989);
  workload::Layer product;
  product.op = workload::Linear{};
  CHECK_FALSE(drawn_per_flop(product, gpu, Precision::kBf16));
  gpu.draw = drawn();
  gpu.draw->arithmetic.emplace_back(Precision::kFp8, picojoules_per_flop(0.6));
  const auto of = [&](const workload::Layer& layer, Precision precision) {
    return drawn_per_flop(layer, gpu, precision)->in(picojoules_per_flop);
  };
  CHECK(of(product, Precision::kBf16) == Approx(1.1));
  CHECK(of(product, Precision::kFp16) == Approx(1.1));
  CHECK(of(product, Precision::kFp8) == Approx(0.6));
  CHECK(of(product, Precision::kFp4) == Approx(0.6));
  CHECK_FALSE(drawn_per_flop(product, gpu, Precision::kTf32));
  workload::Layer attention;
  attention.op = workload::Attention{};
  CHECK(of(attention, Precision::kFp8) == Approx(1.1));
}

}  // namespace ddlsim::cost
