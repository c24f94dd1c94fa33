// Products of tensor cores by the precision, alignment and run of what was measured.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "ddlsim/cost/kernel_time.h"
#include "ddlsim/workload/model.h"
#include "tiny_gpu.h"

using namespace ddlsim;
using namespace ddlsim::cost;

TEST_CASE("kernel time: tensor cores load 16 bytes at once", "[unit][cost]") {
  hardware::GpuProfile known = profile();
  known.gemms = {products_in(Precision::kBf16), products_in(Precision::kFp32)};
  const auto times = [&](std::int64_t out, Precision precision, hardware::GpuGeneration generation,
                         std::int64_t in = 1024) {
    const auto linear = model_of(workload::Linear{.out = out, .bias = false}, {in});
    Calibration by = calibration(known);
    by.gpu.nccl_tuning = generation;
    by.gpu.peak.set(Precision::kTf32, teraflops_per_second(20));
    return calibrated_times(linear.layers, by, 1024, precision, {}).layers[0];
  };
  using hardware::GpuGeneration;
  const LayerTimes even = times(1024, Precision::kBf16, GpuGeneration::kAmpere);
  // 1023 outputs: n of the forward product, k of the input's gradient, m of the weights'.
  const LayerTimes odd = times(1023, Precision::kBf16, GpuGeneration::kAmpere);
  const Time computing = flops(2.0 * 1024 * 1024 * 1023) / (*gpu().peak.at(Precision::kBf16) * 0.75) * 1.8;
  CHECK(odd.forward.total() / computing == Approx(1));
  CHECK(odd.weights.total() / computing == Approx(1));
  CHECK(odd.backward.total() / even.backward.total() == Approx(computing / even.weights.total()).epsilon(1e-3));
  // Two odd sizes lose no more than one.
  const LayerTimes twice = times(1023, Precision::kBf16, GpuGeneration::kAmpere, 1023);
  CHECK(twice.forward.total() / computing == Approx(1023.0 / 1024));
  // Multiples of 4 are not enough.
  CHECK(times(1020, Precision::kBf16, GpuGeneration::kAmpere).forward.total() > 1.3 * even.forward.total());
  CHECK(times(1016, Precision::kBf16, GpuGeneration::kAmpere).forward.total() <= even.forward.total());
  // Volta: not above fp32's 10 TFLOP/s, 2 x 1024 x 1024 x 1023 FLOPs.
  const LayerTimes volta = times(1023, Precision::kBf16, GpuGeneration::kVolta);
  CHECK(volta.forward.total().in(microseconds) == Approx(2.0 * 1024 * 1024 * 1023 / 10e6));
  CHECK(times(1023, Precision::kFp32, GpuGeneration::kAmpere).forward.total() <=
        times(1024, Precision::kFp32, GpuGeneration::kAmpere).forward.total());
  // Hopper: 1.85 times fp32's 10 TFLOP/s for each number of a load, in TF32 from multiples of 4 on as fast as it can.
  const auto hopper = [&](std::int64_t out, Precision precision) {
    return times(out, precision, GpuGeneration::kHopper).forward.total();
  };
  CHECK(hopper(1023, Precision::kBf16).in(microseconds) == Approx(2.0 * 1024 * 1024 * 1023 / 18.5e6));
  CHECK(
      hopper(1022, Precision::kBf16).in(microseconds) ==
      Approx(std::max(2.0 * 1024 * 1024 * 1022 / 37e6, hopper(1016, Precision::kBf16).in(microseconds))).epsilon(0.01));
  CHECK(hopper(1022, Precision::kTf32) >= flops(2.0 * 1024 * 1024 * 1022) / teraflops_per_second(18.5) * 0.999);
  CHECK(hopper(1020, Precision::kTf32) <= hopper(1024, Precision::kTf32));
  // Rows at multiples of 8 bytes are loaded by two numbers as well: 18.5 of 32 TFLOP/s where fp32 has 5.
  const auto four = model_of(workload::Linear{.out = 1020, .bias = false}, {1024});
  Calibration slow = calibration(known);
  slow.gpu.nccl_tuning = GpuGeneration::kHopper;
  slow.gpu.peak.fp32 = teraflops_per_second(5);
  const Time loaded = calibrated_times(four.layers, slow, 1024, Precision::kBf16, {}).layers[0].forward.total();
  CHECK(loaded.in(microseconds) == Approx(2.0 * 1024 * 1024 * 1020 / 18.5e6));
  // Rows lie one after another: 1023 of them are no matter.
  const auto linear = model_of(workload::Linear{.out = 1024, .bias = false}, {1024});
  Calibration by = calibration(known);
  by.gpu.nccl_tuning = GpuGeneration::kAmpere;
  CHECK(calibrated_times(linear.layers, by, 1023, Precision::kBf16, {}).layers[0].forward.total() <=
        even.forward.total());
}

TEST_CASE("kernel time: two runs of fp16 and bf16 are one speed, the middle of both", "[unit][cost]") {
  const auto linear = model_of(workload::Linear{.out = 1024, .bias = false}, {1024});
  const auto time = [&](Precision asked, std::initializer_list<std::pair<Precision, double>> runs) {
    hardware::GpuProfile known = profile();
    for (const auto& [precision, efficiency] : runs) known.gemms.push_back(products_in(precision, efficiency));
    return calibrated_times(linear.layers, calibration(known), 1024, asked, {}).layers[0].forward.total();
  };
  const Time slow = time(Precision::kFp16, {{Precision::kFp16, 0.4}});
  const Time fast = time(Precision::kBf16, {{Precision::kBf16, 0.9}});
  CHECK(slow / fast > 1.5);
  for (const Precision asked : {Precision::kFp16, Precision::kBf16}) {
    const Time both = time(asked, {{Precision::kFp16, 0.4}, {Precision::kBf16, 0.9}});
    CHECK(both / fast == Approx(std::sqrt(slow / fast)));
  }
}

TEST_CASE("kernel time: batches of products whose rows begin anywhere go as fp32 on Ampere", "[unit][cost]") {
  hardware::GpuProfile known = profile();
  known.gemms.push_back(products_in(Precision::kBf16));
  const auto rate = [&](std::int64_t width, Precision precision) {
    const auto scores = model_of(workload::MatMul{.rows = 1024, .inner = width, .columns = 1024, .products = 12}, {1});
    Calibration by = calibration(known);
    by.gpu.nccl_tuning = hardware::GpuGeneration::kAmpere;
    by.gpu.memory_bandwidth = gigabytes_per_second(1000);
    const Time time = calibrated_times(scores.layers, by, 8, precision, {}).layers[0].forward.total();
    return 2e-12 * 8 * 12 * 1024 * 1024 * static_cast<double>(width) / time.in(seconds);
  };
  // Of fp32's 10 TFLOP/s.
  CHECK(rate(150, Precision::kBf16) == Approx(6.3));
  CHECK(rate(140, Precision::kBf16) == Approx(6.3));
  CHECK(rate(150, Precision::kFp16) == Approx(6.3));
  CHECK(rate(140, Precision::kFp16) == Approx(27.6));
  CHECK(rate(144, Precision::kBf16) > 28);  // a last wave that is half full
}
