// Laws of the kernels' cost models, on random curves and sizes.
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "ddlsim/cost/attention_time.h"
#include "ddlsim/cost/convolution_time.h"
#include "ddlsim/cost/gemm_time.h"

using namespace ddlsim;
using namespace ddlsim::cost;
using hardware::AttentionCurve;
using hardware::ConvolutionCurve;
using hardware::DeviceSpec;
using hardware::GemmCurve;
using hardware::GemmSize;
using primitives::AttentionPass;
using primitives::AttentionShape;

namespace {

double between(double least, double most) { return least + (most - least) * *rc::gen::inRange(0, 1001) / 1000.0; }

/// 1 to 2^20, evenly in its logarithm.
double size() { return std::floor(std::exp2(between(0, 20))); }

GemmCurve random_curve() {
  GemmCurve curve;
  curve.memory_efficiency = between(0.2, 1.1);
  curve.not_overlapped = between(0, 1);
  curve.prologue_steps = between(0, 200);
  curve.partial_wave_cost = between(0, 1);
  curve.split_k_passes = between(0.1, 8);
  curve.long_k_slowdown = between(0, 0.3);
  for (int t = *rc::gen::inRange(1, 5); t > 0; --t) {
    curve.tiles.push_back({.m = std::exp2(*rc::gen::inRange(4, 9)),
                           .n = std::exp2(*rc::gen::inRange(4, 9)),
                           .efficiency = between(0.1, 1.2),
                           .tiles_to_fill = between(0.2, 8)});
  }
  return curve;
}

DeviceSpec random_spec() {
  return {static_cast<double>(*rc::gen::inRange(1, 200)), teraflops_per_second(between(1, 1000)),
          gigabytes_per_second(between(50, 5000)), megabytes(6)};
}

GemmSize random_size() { return {std::floor(std::exp2(between(0, 10))), size(), size(), size()}; }

AttentionCurve random_attention(AttentionPass pass) {
  AttentionCurve curve;
  curve.pass = pass;
  curve.memory_efficiency = between(0.2, 1);
  curve.not_overlapped = between(0, 1);
  curve.prologue_steps = between(0, 400);
  curve.masked_steps = between(0, 100);
  curve.partial_wave_cost = between(0, 1);
  curve.sustained_slowdown = between(0, 0.3);
  curve.slowdown_half_time = microseconds(between(1, 1e5));
  for (const double width : {64.0, 128.0}) {
    curve.widths.push_back({width, std::exp2(*rc::gen::inRange(6, 9)), between(0.1, 1), between(0.2, 8)});
  }
  return curve;
}

AttentionShape random_attention_shape(AttentionPass pass) {
  const std::int64_t length = *rc::gen::inRange(1, 20'000);
  const std::int64_t shared = *rc::gen::inRange(1, 9);
  const std::int64_t width = *rc::gen::element<std::int64_t>(32, 64, 80, 128, 256);
  return {pass,
          length,
          length,
          shared * *rc::gen::inRange(1, 9),
          shared,
          width,
          width,
          *rc::gen::element<std::int64_t>(0, 128, 1024),
          *rc::gen::arbitrary<bool>()};
}

}  // namespace

TEST_CASE("kernel time laws: attention of more or longer work is never faster, in any kernel", "[property]") {
  CHECK(rc::check([] {
    const AttentionPass pass = *rc::gen::element(AttentionPass::kForward, AttentionPass::kBackward);
    const AttentionCurve curve = random_attention(*rc::gen::element(AttentionPass::kForward, pass));
    const DeviceSpec spec = random_spec();
    const AttentionShape one = random_attention_shape(pass);
    const double batch = *rc::gen::inRange(1, 500);
    const KernelSlowdown slow{between(1, 2), between(1, 2)};
    const auto time = [&](const AttentionShape& shape, double sequences, const KernelSlowdown& by) {
      return attention_time(curve, spec, shape, sequences, bytes(2), by).in(seconds);
    };
    const double here = time(one, batch, slow);
    RC_ASSERT(std::isfinite(here));
    RC_ASSERT(here > 0);
    RC_ASSERT(time(one, batch + 1, slow) >= here * (1 - 1e-12));
    RC_ASSERT(time(one, batch, {}) <= here * (1 + 1e-12));
    AttentionShape more = one;
    more.heads *= 2;
    more.kv_heads *= 2;
    RC_ASSERT(time(more, batch, slow) >= here * (1 - 1e-12));
    AttentionShape longer = one;
    longer.queries += *rc::gen::inRange(1, 2000);
    longer.keys = longer.queries;
    RC_ASSERT(time(longer, batch, slow) >= here * (1 - 1e-12));
  }));
}

TEST_CASE("kernel time laws: twice the peak and bandwidth halve attention's time", "[property]") {
  CHECK(rc::check([] {
    const AttentionPass pass = *rc::gen::element(AttentionPass::kForward, AttentionPass::kBackward);
    AttentionCurve curve = random_attention(pass);
    curve.sustained_slowdown = 0;
    const DeviceSpec spec = random_spec();
    DeviceSpec twice = spec;
    twice.peak = 2 * spec.peak;
    twice.memory = 2 * spec.memory;
    const AttentionShape shape = random_attention_shape(pass);
    const double time = attention_time(curve, spec, shape, 64, bytes(2)).in(seconds);
    RC_ASSERT(std::abs(2 * attention_time(curve, twice, shape, 64, bytes(2)).in(seconds) / time - 1) < 1e-9);
  }));
}

TEST_CASE("kernel time laws: a GEMM takes positive, finite time", "[property]") {
  CHECK(rc::check([] {
    GemmCurve curve = random_curve();
    curve.sustained_slowdown = between(0, 3);
    curve.slowdown_half_time = microseconds(between(1, 1e5));
    curve.split_k_launch = microseconds(between(0, 30));
    const double time = gemm_time(curve, random_spec(), random_size(), bytes(2)).in(seconds);
    RC_ASSERT(std::isfinite(time));
    RC_ASSERT(time > 0);
  }));
}

TEST_CASE("kernel time laws: twice the peak and bandwidth halve a GEMM's time", "[property]") {
  CHECK(rc::check([] {
    const GemmCurve curve = random_curve();
    const DeviceSpec spec = random_spec();
    DeviceSpec twice = spec;
    twice.peak = 2 * spec.peak;
    twice.memory = 2 * spec.memory;
    const GemmSize asked = random_size();
    const double time = gemm_time(curve, spec, asked, bytes(4)).in(seconds);
    RC_PRE(time > 1e-11);  // above the least time there is
    RC_ASSERT(gemm_time(curve, twice, asked, bytes(4)).in(seconds)*2 == time);
  }));
}

TEST_CASE("kernel time laws: more of either rate is never slower", "[property]") {
  CHECK(rc::check([] {
    GemmCurve curve = random_curve();
    curve.sustained_slowdown = between(0, 3);
    curve.slowdown_half_time = microseconds(between(1, 1e5));
    const DeviceSpec spec = random_spec();
    DeviceSpec better = spec;
    better.peak = between(1, 3) * spec.peak;
    better.memory = between(1, 3) * spec.memory;
    const GemmSize asked = random_size();
    RC_ASSERT(gemm_time(curve, better, asked, bytes(4)).in(seconds) <=
              gemm_time(curve, spec, asked, bytes(4)).in(seconds) * (1 + 1e-12));
  }));
}

TEST_CASE("kernel time laws: a larger m, n or number of unsplit GEMMs is never faster", "[property]") {
  CHECK(rc::check([] {
    GemmCurve curve = random_curve();
    curve.batched = true;  // parts of a split k are chosen from few: there a larger GEMM may meet a better split
    const DeviceSpec spec = random_spec();
    const GemmSize asked = random_size();
    GemmSize larger = asked;
    larger.m += size();
    larger.n += size();
    larger.k += size();
    larger.batch_count += size();
    RC_ASSERT(gemm_time(curve, spec, asked, bytes(4)).in(seconds) <=
              gemm_time(curve, spec, larger, bytes(4)).in(seconds) * (1 + 1e-12));
  }));
}

TEST_CASE("kernel time laws: splitting k never hurts", "[property]") {
  CHECK(rc::check([] {
    const GemmCurve curve = random_curve();
    GemmCurve whole = curve;
    whole.batched = true;
    const DeviceSpec spec = random_spec();
    const GemmSize asked = random_size();
    RC_ASSERT(gemm_time(curve, spec, asked, bytes(4)) <= gemm_time(whole, spec, asked, bytes(4)));
  }));
}

TEST_CASE("kernel time laws: an algorithm more never makes a convolution slower", "[property]") {
  CHECK(rc::check([] {
    ConvolutionCurve curve;
    curve.implicit_gemm = random_curve();
    const std::int64_t side = *rc::gen::inRange<std::int64_t>(1, 200);
    const primitives::ConvolutionShape shape{.pass = static_cast<primitives::ConvolutionPass>(*rc::gen::inRange(0, 3)),
                                             .in = *rc::gen::inRange<std::int64_t>(1, 2000),
                                             .out = *rc::gen::inRange<std::int64_t>(1, 2000),
                                             .input = {side, side},
                                             .output = {side, side},
                                             .kernel = {3, 3}};
    const DeviceSpec spec = random_spec();
    const double batch = static_cast<double>(*rc::gen::inRange(1, 512));
    const Time without = convolution_time(curve, spec, shape, batch, bytes(4));
    RC_ASSERT(std::isfinite(without.in(seconds)));
    RC_ASSERT(without > Time::zero());
    curve.winograd_fused.efficiency = between(0.3, 1);
    curve.winograd_nonfused.tiles = {{.m = 64, .n = 64, .efficiency = between(0.3, 1), .tiles_to_fill = 1}};
    RC_ASSERT(convolution_time(curve, spec, shape, batch, bytes(4)) <= without);
  }));
}
