#include "ddlsim/cost/image_kernels.h"

#include <algorithm>

namespace ddlsim::cost {
namespace {

constexpr double kChannelsFirstPasses = 1.5;
constexpr double kChannelsLastPasses = 1.25;
constexpr double kOwnChannelsFirst = 1.33;  // bf16: PyTorch's kernels instead of cuDNN's
constexpr double kOwnChannelsLast = 1.75;

// Cycles: of a block for a number, of a multiprocessor for a number or a tap of it.
constexpr double kNormalised = 0.475;
constexpr double kBlocksAtOnce = 1.43;
constexpr double kPooled = 1.23;
constexpr double kFiltered = 0.93;
constexpr double kFilteredTap = 0.101;
constexpr double kFilteredHalf = 0.101;
constexpr double kFilteredHalfTap = 0.0196;

/// Of one multiprocessor, in fp32. No rate is asked: twice as fast a GPU has as many. GA100's L2 tells it from GA10x;
/// an Ada GPU runs Ampere's kernels.
double lanes_of(const hardware::Gpu& gpu) {
  constexpr double kFew = 64;
  constexpr double kMany = 128;
  constexpr std::int64_t kMostOfMany = 40;  // Pascal's of 128 lanes; P100 has 56 of 64
  constexpr DataSize kMostOfGa10x = bytes(16 << 20);
  const bool large = !gpu.l2 || *gpu.l2 > kMostOfGa10x;
  switch (gpu.nccl_tuning.value_or(hardware::GpuGeneration::kHopper)) {
    case hardware::GpuGeneration::kPascal: return gpu.sm_count > kMostOfMany ? kFew : kMany;
    case hardware::GpuGeneration::kVolta: return kFew;
    case hardware::GpuGeneration::kAmpere: return large && gpu.kernels_of != "Ampere" ? kFew : kMany;
    case hardware::GpuGeneration::kHopper:
    case hardware::GpuGeneration::kBlackwell: break;
  }
  return kMany;
}

}  // namespace

ImageDevice image_device(const hardware::Gpu& gpu) {
  const auto multiprocessors = static_cast<double>(gpu.sm_count);
  return {multiprocessors, flops(2 * lanes_of(gpu) * multiprocessors) / gpu.peak.fp32};
}

Time batch_norm_time(const ImageDevice& device, Time moved, double elements, std::int64_t channels,
                     ImageNumbers numbers) {
  const bool own = numbers.precision == Precision::kBf16;
  if (!numbers.channels_first) return moved * (kChannelsLastPasses * (own ? kOwnChannelsLast : 1));
  const double blocks = std::min(static_cast<double>(channels), kBlocksAtOnce * device.multiprocessors);
  const Time working = device.cycle * (kNormalised * elements / blocks);
  return max(moved * kChannelsFirstPasses, working) * (own ? kOwnChannelsFirst : 1);
}

Time least_pooling_time(const ImageDevice& device, double elements) {
  return device.cycle * (kPooled * elements / device.multiprocessors);
}

Time least_depthwise_time(const ImageDevice& device, std::int64_t taps, double elements, ImageNumbers numbers) {
  const bool half = !is_single(numbers.precision);
  const bool loads_wide = !numbers.channels_first && half;
  const auto each = static_cast<double>(taps);
  const double cycles = loads_wide ? kFilteredHalf + kFilteredHalfTap * each : kFiltered + kFilteredTap * each;
  return device.cycle * (cycles * elements / device.multiprocessors);
}

}  // namespace ddlsim::cost
