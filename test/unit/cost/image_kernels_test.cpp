// What lies between convolutions, against numbers worked out by hand and what an H200 took.
#include "ddlsim/cost/image_kernels.h"

#include <catch2/catch.hpp>

#include "catalog.h"

using namespace ddlsim;
using namespace ddlsim::cost;

namespace {

ImageDevice device_of(const char* gpu) { return image_device(test::catalog().gpu(gpu).value()); }

constexpr ImageNumbers kFirst{true, Precision::kFp32};
constexpr ImageNumbers kLast{false, Precision::kFp32};

}  // namespace

TEST_CASE("image kernels: cycles of a multiprocessor by its lanes", "[unit][cost]") {
  CHECK(device_of("h200-sxm5-141gb").cycle.in(nanoseconds) == Approx(0.505).epsilon(0.002));  // 1,980 MHz
  CHECK(device_of("a100-sxm4-80gb").cycle.in(nanoseconds) == Approx(1 / 1.41).epsilon(0.002));
  CHECK(device_of("a30").cycle.in(nanoseconds) == Approx(1 / 1.44).epsilon(0.01));
  CHECK(device_of("l4").cycle.in(nanoseconds) == Approx(1 / 2.04).epsilon(0.01));
  CHECK(device_of("v100-sxm2-16gb").cycle.in(nanoseconds) == Approx(1 / 1.53).epsilon(0.005));
  CHECK(device_of("rtx-3090").cycle.in(nanoseconds) == Approx(1 / 1.695).epsilon(0.005));
  CHECK(device_of("p100-pcie-16gb").cycle.in(nanoseconds) == Approx(1 / 1.3).epsilon(0.01));
  CHECK(device_of("gtx-1080-ti").cycle.in(nanoseconds) == Approx(1 / 1.58).epsilon(0.05));
}

// Lanes by the ratio of two peaks made twice the fp32 no faster.
TEST_CASE("image kernels: twice the rate is half the cycle", "[unit][cost]") {
  for (const char* id : {"a100-sxm4-80gb", "rtx-3090", "v100-sxm2-16gb", "p100-pcie-16gb", "l4", "h200-sxm5-141gb"}) {
    hardware::Gpu gpu = test::catalog().gpu(id).value();
    const Time before = image_device(gpu).cycle;
    gpu.peak.fp32 = gpu.peak.fp32 * 2.0;
    INFO(id);
    CHECK(image_device(gpu).cycle == before / 2.0);
  }
}

TEST_CASE("image kernels: a block for each channel normalises", "[unit][cost]") {
  const ImageDevice h200 = device_of("h200-sxm5-141gb");
  const double elements = 3.0 * 64 * 64 * 112 * 112;
  // The worked example: 154 million numbers by 64 blocks, 0.475 cycles each.
  const Time moved = milliseconds(0.14);
  CHECK(batch_norm_time(h200, moved, elements, 64, kFirst).in(milliseconds) == Approx(0.578).epsilon(0.005));
  // Half as many channels leave twice as many multiprocessors idle; 1.43 blocks fit on one, and then bytes count.
  CHECK(batch_norm_time(h200, moved, elements, 32, kFirst).in(milliseconds) == Approx(1.156).epsilon(0.005));
  CHECK(batch_norm_time(h200, moved, elements, 2048, kFirst).in(milliseconds) == Approx(0.21));
  CHECK(batch_norm_time(h200, moved / 4, elements, 2048, kFirst).in(milliseconds) == Approx(0.1958).epsilon(0.005));
  CHECK(batch_norm_time(h200, moved / 4, elements, 4096, kFirst) ==
        batch_norm_time(h200, moved / 4, elements, 2048, kFirst));
  // Numbers of 16 bits move in half the time, and take blocks as long.
  const ImageNumbers fp16{true, Precision::kFp16};
  CHECK(batch_norm_time(h200, moved / 2, elements, 64, fp16) == batch_norm_time(h200, moved, elements, 64, kFirst));
  CHECK(batch_norm_time(h200, moved, elements, 64, kLast).in(milliseconds) == Approx(0.175));
}

TEST_CASE("image kernels: bf16 is normalised by PyTorch's own kernels", "[unit][cost]") {
  const ImageDevice h200 = device_of("h200-sxm5-141gb");
  const auto ratio = [&](bool first) {
    const Time own = batch_norm_time(h200, milliseconds(1), 1e8, 64, {first, Precision::kBf16});
    return own / batch_norm_time(h200, milliseconds(1), 1e8, 64, {first, Precision::kFp16});
  };
  CHECK(ratio(true) == Approx(1.33));
  CHECK(ratio(false) == Approx(1.75));
}

TEST_CASE("image kernels: pooling and depthwise convolutions count numbers, not bytes", "[unit][cost]") {
  const ImageDevice h200 = device_of("h200-sxm5-141gb");
  CHECK(least_pooling_time(h200, 132e6).in(milliseconds) == Approx(1.23 * 0.505).epsilon(0.002));
  // 3 x 3 and 7 x 7, a multiprocessor's million of numbers.
  CHECK(least_depthwise_time(h200, 9, 132e6, kFirst).in(milliseconds) == Approx(1.839 * 0.505).epsilon(0.002));
  CHECK(least_depthwise_time(h200, 49, 132e6, kFirst).in(milliseconds) == Approx(5.879 * 0.505).epsilon(0.002));
  const ImageNumbers half{false, Precision::kFp16};
  CHECK(least_depthwise_time(h200, 9, 132e6, half).in(milliseconds) == Approx(0.2774 * 0.505).epsilon(0.002));
  // Numbers of 32 bits are not loaded several at a time, however they lie.
  CHECK(least_depthwise_time(h200, 9, 132e6, kLast) == least_depthwise_time(h200, 9, 132e6, kFirst));
  const ImageNumbers half_first{true, Precision::kFp16};
  CHECK(least_depthwise_time(h200, 9, 132e6, half_first) == least_depthwise_time(h200, 9, 132e6, kFirst));
}
