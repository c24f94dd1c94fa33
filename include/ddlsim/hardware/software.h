// What a framework takes on top of the kernels of a step, learnt from published steps.
//
//   GPU time = f_c * kernels bound by arithmetic + f_m * by memory, each and what the other is dearer:
//   cost/layer_time.h f_c = exp(sum over the features of effect * value) f_m = f_c * exp(sum over the features of
//   memory - those of arithmetic of effect * value)
//
// Layers of small kernels take more, gaps between kernels among it (a launch, the first and last blocks of each):
//   more = c t max(0, min(1, log2(400 us n / t) / 3))   t the bare time of a layer's n kernels; c the effect
// so that t + more grows with t: its slope is 1 + c (s - 1 / (3 ln 2)), s the clamped logarithm, which is above 0 for c
// up to 3 ln 2. 400 us and 3 were chosen among four forms while the errors of sources left out were in sight. Worked
// example: 4 kernels of 100 us each, c = 0.3: s = 2 / 3, 80 us more.
//
// What frameworks do apart is mostly done to memory: what a fused block spares, what casts and turned layouts cost.
// Worked example: always 0.1, and of memory fused -0.4 at half its value: f_c = 1.105, f_m = 1.105 * 0.819 = 0.905.
//
// `SoftwareProfile` is a file of hardware/software: the effects with the interval that resampling the sources gives,
// how many rows and sources they rest on, and what they err by on sources that were left out; and the ends of the 90 %
// interval by the kind of question, which are residuals of sources that were left out as well. Made by
// bench/accuracy/learn.cpp, which says how; a job's features are plan/software.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/units.h"

namespace ddlsim::hardware {

/// What of a job the factors depend on. No feature depends on a rate, for halving a rate changes what it changes by
/// physics; one compares a GPU's tensor cores with its FP32, and counts where these cores work: faster ones gain less.
enum class SoftwareFeature : std::uint8_t {
  kAlways,       // 1
  kAttention,    // 1 for models with attention of 16 bits or fewer
  kConvolution,  // 1 for convolutional networks of 16 bits whose norms and activations are kernels of their own
                 // (PyTorch, TensorFlow, PaddlePaddle), 0 where they are fused (NVIDIA's MXNet, XLA); 0.5: nobody says
  kWideConvolution,  // of arithmetic alone: 1 for convolutional networks of 16 bits where tensor cores are 16 times as
                     // fast as FP32, 0 at 8, 2 at 32
  kRecurrent,        // 1 for models with LSTMs
  kVolta,            // of arithmetic alone: 1 for Volta
  kAda,              // 1 for chips that borrow Ampere's profiles with ten times its second cache: Ada, RTX Blackwell
  kUltra,            // of arithmetic alone: 1 for Blackwell Ultra, whose clocks in lasting work nobody measured
  kEightBits,        // 1 for products of 8 bits and fewer
  kFourBits,         // and 1 more for those of 4
  kNoProfile,        // 1 for GPUs without a profile of their architecture
  kShared,           // doublings of the GPUs that share a server
  kYears,            // years of age at `SoftwareProfile::newest`, over 3; never below 0
  kSmallKernels,     // on layers of small kernels: 1, half of it where blocks of 16 bits are fused, 0 in graphs
  // Of memory: on kernels bound by it alone.
  kMemory32,         // 1 for FP32 and TF32 from Ampere on
  kMemoryDepthwise,  // 1 for networks with depthwise convolutions
  kMemoryFused,  // of models with attention of 16 bits or fewer 1 where blocks run as fused kernels (Megatron, NeMo),
                 // 0 where not; 0.5: nobody says
};

inline constexpr Choices<SoftwareFeature, 17> kSoftwareFeatures{{
    {"always", SoftwareFeature::kAlways},
    {"attention", SoftwareFeature::kAttention},
    {"convolution", SoftwareFeature::kConvolution},
    {"wide-convolution", SoftwareFeature::kWideConvolution},
    {"recurrent", SoftwareFeature::kRecurrent},
    {"volta", SoftwareFeature::kVolta},
    {"ada", SoftwareFeature::kAda},
    {"ultra", SoftwareFeature::kUltra},
    {"eight-bits", SoftwareFeature::kEightBits},
    {"four-bits", SoftwareFeature::kFourBits},
    {"no-profile", SoftwareFeature::kNoProfile},
    {"shared", SoftwareFeature::kShared},
    {"years", SoftwareFeature::kYears},
    {"small-kernels", SoftwareFeature::kSmallKernels},
    {"memory-32-bits", SoftwareFeature::kMemory32},
    {"memory-depthwise", SoftwareFeature::kMemoryDepthwise},
    {"memory-fused", SoftwareFeature::kMemoryFused},
}};

inline constexpr std::size_t kSoftwareFeatureCount = kSoftwareFeatures.size();

[[nodiscard]] constexpr bool is_of_memory(SoftwareFeature feature) { return feature >= SoftwareFeature::kMemory32; }
/// On arithmetic alone.
[[nodiscard]] constexpr bool is_of_arithmetic(SoftwareFeature feature) {
  return feature == SoftwareFeature::kWideConvolution || feature == SoftwareFeature::kVolta ||
         feature == SoftwareFeature::kUltra;
}

/// How many times as long kernels take.
struct SoftwareFactor {
  double compute = 1;  // bound by arithmetic
  double memory = 1;
  double update = 1;  // of weights: bound by memory
  double small = 0;   // c of `small_kernels_time`: of layers

  friend bool operator==(const SoftwareFactor&, const SoftwareFactor&) = default;
  friend SoftwareFactor operator*(const SoftwareFactor& factor, double times) {
    return {factor.compute * times, factor.memory * times, factor.update * times, factor.small};
  }
};

/// What `kernels` small ones that take `time` together take more.
[[nodiscard]] Time small_kernels_time(double small, Time time, double kernels);

/// Where `small` is more, twice the work could take less time.
inline constexpr double kMostOfSmallKernels = 2;

struct SoftwareEffect {
  SoftwareFeature feature = SoftwareFeature::kAlways;
  double effect = 0;  // on the logarithm of the kernels' time, per unit of the feature
  double low = 0;     // 5 % of the resampled
  double high = 0;    // 95 %
};

/// What sets how far a prediction may be off.
enum class QuestionKind : std::uint8_t {
  kOneGpu,
  kOneServer,
  kServers,           // over a network of which somebody says what drives it
  kAssumedNetwork,    // over another
  kServersOfWeights,  // parameter servers over a network
  kSplitModel,
  kUnmeasuredGpu,  // no profile of its architecture, whatever the rest
};

inline constexpr Choices<QuestionKind, 7> kQuestionKinds{{
    {"one-gpu", QuestionKind::kOneGpu},
    {"one-server", QuestionKind::kOneServer},
    {"servers", QuestionKind::kServers},
    {"assumed-network", QuestionKind::kAssumedNetwork},
    {"parameter-servers", QuestionKind::kServersOfWeights},
    {"split-model", QuestionKind::kSplitModel},
    {"unmeasured-gpu", QuestionKind::kUnmeasuredGpu},
}};

/// The 5th and 95th percentile of measured over predicted time.
struct SoftwareEnds {
  QuestionKind kind = QuestionKind::kOneGpu;
  double low = 1;
  double high = 1;
  std::int64_t rows = 0;
  std::int64_t sources = 0;
};

/// What two jobs differ in, beside counts, splits and rates, when one is compared with the other.
enum class ChangeKind : std::uint8_t {
  kGpu,
  kPrecision,
  kStrategy,
};

inline constexpr Choices<ChangeKind, 3> kChangeKinds{{
    {"gpu", ChangeKind::kGpu},
    {"precision", ChangeKind::kPrecision},
    {"strategy", ChangeKind::kStrategy},
}};

/// How far ln(measured / predicted) differs between two jobs of one source that differ in this: the 90th percentile of
/// the difference over 1.645, a standard deviation where differences are normal.
struct ChangeSpread {
  ChangeKind change = ChangeKind::kGpu;
  double deviation = 0;
  std::int64_t pairs = 0;
  std::int64_t sources = 0;
};

struct SoftwareProfile {
  std::string id;
  std::int64_t rows = 0;
  std::int64_t sources = 0;
  double newest = 2025;   // software from that year on counts as new
  double mean_error = 0;  // of sources that were left out
  double median_error = 0;
  std::vector<SoftwareEffect> effects;
  std::vector<SoftwareEnds> ends;
  std::vector<ChangeSpread> changes;
  std::string made_by;

  [[nodiscard]] const SoftwareEnds* ends_of(QuestionKind kind) const {
    for (const SoftwareEnds& one : ends) {
      if (one.kind == kind) return &one;
    }
    return nullptr;
  }
};

}  // namespace ddlsim::hardware
