// Times of kernels, from one GPU to another.
#include "ddlsim/cost/wave_scaling.h"

#include <catch2/catch.hpp>

#include "ddlsim/cost/layer_time.h"

using namespace ddlsim;
using namespace ddlsim::cost;
using workload::Bound;

namespace {

constexpr WaveScaling kV100ToA100{.memory = 900.0 / 1555.0, .compute = 15.7 / 19.5, .batch = 1};

}  // namespace

TEST_CASE("wave scaling: the example of the header") {
  const Time timed = microseconds(100);
  CHECK(wave_scaled(timed, 1.0, kV100ToA100).in(microseconds) == Approx(57.88).epsilon(1e-4));
  CHECK(wave_scaled(timed, 0.0, kV100ToA100).in(microseconds) == Approx(80.51).epsilon(1e-4));
  CHECK(wave_scaled(timed, 0.5, kV100ToA100).in(microseconds) == Approx(68.26).epsilon(1e-4));
  CHECK(wave_scaled(timed, Bound::kMemory, kV100ToA100) == wave_scaled(timed, 1.0, kV100ToA100));
  CHECK(wave_scaled(timed, Bound::kCompute, kV100ToA100) == wave_scaled(timed, 0.0, kV100ToA100));
}

TEST_CASE("wave scaling: the same GPU takes the same time, twice the batch twice") {
  for (const double share : {0.0, 0.3, 1.0}) {
    CHECK(wave_scaled(microseconds(7), share, {}) == microseconds(7));
    CHECK(wave_scaled(microseconds(7), share, {.batch = 2}) == microseconds(14));
  }
}

TEST_CASE("wave scaling: what the GPU does not bound stays") {
  CHECK(wave_scaled(microseconds(9), Bound::kFixed, {.memory = 0.5, .compute = 3, .batch = 4}) == microseconds(9));
}

TEST_CASE("a measured layer takes its measured time, on the side that bounds it") {
  workload::Layer layer;
  layer.measured = workload::MeasuredTime{microseconds(10), microseconds(30), Bound::kCompute};
  DeviceRates device{teraflops_per_second(1), gigabytes_per_second(1), kV100ToA100};
  const LayerTime forward = layer_time(layer, Pass::kForward, 64, bytes(4), device);
  CHECK(forward.compute.in(microseconds) == Approx(8.051).epsilon(1e-4));
  CHECK(forward.memory == Time::zero());
  layer.measured->bound = Bound::kMemory;
  const LayerTime backward = layer_time(layer, Pass::kBackward, 64, bytes(4), device);
  CHECK(backward.compute == Time::zero());
  CHECK(backward.memory.in(microseconds) == Approx(30 * 0.57878).epsilon(1e-4));
}

TEST_CASE("a layer's roofline: weights that a kernel of its own rewrites come on top, whatever bounds the rest") {
  workload::Layer layer;
  layer.forward_work = flops(1000);
  layer.forward_elements = 10;
  layer.forward_weight_elements = 100;
  layer.forward_rewritten = 60;
  const Bandwidth memory = gigabytes_per_second(1);
  // 10 + 40 numbers of 2 bytes are 100 ns, 60 are 120 ns; arithmetic takes 1 us, or 10 ns.
  const LayerTime slow = layer_time(layer, Pass::kForward, 1, bytes(2), {teraflops_per_second(1e-3), memory});
  CHECK(slow.compute.in(nanoseconds) == Approx(1000));
  CHECK(slow.memory.in(nanoseconds) == Approx(120));
  const LayerTime fast = layer_time(layer, Pass::kForward, 1, bytes(2), {teraflops_per_second(0.1), memory});
  CHECK(fast.compute == Time::zero());
  CHECK(fast.memory.in(nanoseconds) == Approx(220));
}

TEST_CASE("a layer's roofline: what is dearer adds what it takes beyond what bounds") {
  workload::Layer layer;
  layer.forward_work = flops(1000);
  layer.forward_elements = 50;
  const auto at = [&](double compute, const Surcharge& surcharge) {
    const DeviceRates device{teraflops_per_second(compute), gigabytes_per_second(1)};
    return layer_time(layer, Pass::kForward, 1, bytes(2), device, surcharge);
  };
  // Memory takes 100 ns; arithmetic 250 ns, then 40 ns. The dearer factor is 2, the other 1.
  const Surcharge memory{.memory = 0.5};
  CHECK(at(4e-3, memory).compute.in(nanoseconds) == Approx(250));
  CHECK(at(4e-3, memory).memory.in(nanoseconds)*2 == Approx(100));
  CHECK(at(25e-3, memory).compute == Time::zero());
  CHECK(at(25e-3, memory).memory.in(nanoseconds) == Approx(100));
  const Surcharge arithmetic{.arithmetic = 0.5};
  CHECK(at(4e-3, arithmetic).memory == Time::zero());
  CHECK(at(25e-3, arithmetic).memory.in(nanoseconds) == Approx(100));
  CHECK(at(25e-3, arithmetic).compute.in(nanoseconds)*2 == Approx(40));
  CHECK(bounded(nanoseconds(7), time_ratio(nanoseconds(1), Time::zero()), arithmetic).compute == Time::zero());
}
