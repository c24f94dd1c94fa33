#include "ddlsim/cost/image_kernels.h"

#include <algorithm>

namespace ddlsim::cost {
namespace {

constexpr double kChannelsFirstPasses = 1.5;
constexpr double kChannelsLastPasses = 1.25;
constexpr double kOwnChannelsFirst = 1.33;  // bf16: PyTorch's kernels instead of cuDNN's
constexpr double kOwnChannelsLast = 1.75;
constexpr Time kBlockNumber = nanoseconds(0.24);  // of a block, for a number
constexpr double kBlocksAtOnce = 1.43;            // on a multiprocessor
constexpr Time kPooled = nanoseconds(0.62);       // of a multiprocessor, for a number

constexpr Time kDepthwiseNumber = nanoseconds(0.47);
constexpr Time kDepthwiseTap = nanoseconds(0.051);
constexpr Time kHalfDepthwiseNumber = nanoseconds(0.051);
constexpr Time kHalfDepthwiseTap = nanoseconds(0.0099);

bool is_half(Precision precision) { return precision != Precision::kFp32 && precision != Precision::kTf32; }

}  // namespace

Time batch_norm_time(const hardware::DeviceSpec& spec, Time moved, double elements, std::int64_t channels,
                     ImageNumbers numbers) {
  const bool own = numbers.precision == Precision::kBf16;
  if (!numbers.channels_first) return moved * (kChannelsLastPasses * (own ? kOwnChannelsLast : 1));
  const double blocks = std::min(static_cast<double>(channels), kBlocksAtOnce * spec.multiprocessors);
  return max(moved * kChannelsFirstPasses, kBlockNumber * (elements / blocks)) * (own ? kOwnChannelsFirst : 1);
}

Time least_pooling_time(const hardware::DeviceSpec& spec, double elements) {
  return kPooled * (elements / spec.multiprocessors);
}

Time least_depthwise_time(const hardware::DeviceSpec& spec, std::int64_t taps, double elements, ImageNumbers numbers) {
  const bool loads_wide = !numbers.channels_first && is_half(numbers.precision);
  const Time each = loads_wide ? kHalfDepthwiseNumber + kHalfDepthwiseTap * static_cast<double>(taps)
                               : kDepthwiseNumber + kDepthwiseTap * static_cast<double>(taps);
  return each * (elements / spec.multiprocessors);
}

}  // namespace ddlsim::cost
