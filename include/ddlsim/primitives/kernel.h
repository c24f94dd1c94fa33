// What a layer asks of a GPU: kernels, by their shapes. Sizes are per sample; the batch comes in when a kernel is timed
// (cost/kernel_time.h).
//
//   Product      C[m, n] = A[m, k] B[k, n], `products` times; the batch multiplies the size that `grows` names.
//                Linear on r rows: forward  m = r*, n = out, k = in     (* grows)
//                                  backward m = r*, n = in,  k = out    (input's gradient)
//                                           m = out, n = in, k = r*     (weights' gradient)
//   Convolution  as its shape; `pass` says which of its three products.
//   Sweep        reads and writes `elements` (times the batch) and `weights` (once), and little else.
// `times` kernels of a shape run one after another (an LSTM's steps).
//
// Worked example: linear {out: 1000} on [2048], batch 64, forward: m = 64, n = 1000, k = 2048, 262 MFLOP.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <variant>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/support/units.h"

namespace ddlsim::primitives {

/// The size of a product that the batch multiplies.
enum class Grows { kProducts, kM, kK };

struct Product {
  std::int64_t products = 1;
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  Grows grows = Grows::kM;
};

enum class ConvolutionPass { kForward, kInputGradient, kWeightGradient };

inline constexpr Choices<ConvolutionPass, 3> kConvolutionPasses{{
    {"forward", ConvolutionPass::kForward},
    {"input-gradient", ConvolutionPass::kInputGradient},
    {"weight-gradient", ConvolutionPass::kWeightGradient},
}};

struct ConvolutionShape {
  ConvolutionPass pass = ConvolutionPass::kForward;
  std::int64_t in = 1;   // channels
  std::int64_t out = 1;  // channels
  std::int64_t groups = 1;
  std::array<std::int64_t, 2> input{1, 1};   // height, width
  std::array<std::int64_t, 2> output{1, 1};  // likewise
  std::array<std::int64_t, 2> kernel{1, 1};
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> dilation{1, 1};

  auto operator<=>(const ConvolutionShape&) const = default;
};

/// Kinds of kernels that are bound by memory; each has a curve of its own in a GPU's profile.
enum class SweepKind { kElementwise, kSoftmax, kNorm, kBatchNorm, kPool, kCopy, kLookup, kUpdate, kRecurrent };

inline constexpr Choices<SweepKind, 9> kSweepKinds{{
    {"elementwise", SweepKind::kElementwise},
    {"softmax", SweepKind::kSoftmax},
    {"norm", SweepKind::kNorm},
    {"batchnorm", SweepKind::kBatchNorm},
    {"pool", SweepKind::kPool},
    {"copy", SweepKind::kCopy},
    {"lookup", SweepKind::kLookup},
    {"update", SweepKind::kUpdate},
    {"recurrent", SweepKind::kRecurrent},  // the gates of one step of a recurrent layer
}};

struct Sweep {
  SweepKind kind = SweepKind::kElementwise;
  std::int64_t elements = 0;  // read and written, per sample
  std::int64_t weights = 0;   // read and written once, whatever the batch
  std::int64_t row = 0;       // softmax, norm: elements that are reduced together; 0: does not matter
};

/// Scores, softmax and context in one kernel that keeps the scores on the chip.
struct FusedAttention {
  Work work{};                // per sample
  std::int64_t elements = 0;  // read and written, per sample
};

struct Kernel {
  std::variant<Product, ConvolutionShape, Sweep, FusedAttention> shape;
  std::int64_t times = 1;
};

/// What was timed, batch included (bench/calibrate/README.md).
struct TimedConvolution {
  ConvolutionShape shape{};
  std::int64_t batch = 1;
};

struct TimedSweep {
  SweepKind kind = SweepKind::kElementwise;
  DataSize traffic{};    // read and written
  std::int64_t row = 0;  // elements that are reduced together
};

/// From one launch of an empty kernel to the next.
struct TimedLaunch {};

enum class CopyKind { kHostToDevice, kDeviceToHost, kDeviceToDevice };

inline constexpr Choices<CopyKind, 3> kCopyKinds{{
    {"h2d", CopyKind::kHostToDevice},
    {"d2h", CopyKind::kDeviceToHost},
    {"d2d", CopyKind::kDeviceToDevice},
}};

struct TimedCopy {
  CopyKind kind = CopyKind::kHostToDevice;
  DataSize size{};
};

enum class OverlapKind { kProduct, kSweep };

inline constexpr Choices<OverlapKind, 2> kOverlapKinds{{
    {"product", OverlapKind::kProduct},
    {"sweep", OverlapKind::kSweep},
}};

/// A kernel beside another that holds `taken` multiprocessors.
struct TimedOverlap {
  OverlapKind kind = OverlapKind::kProduct;
  std::int64_t taken = 0;
  double slowdown = 1;
};

/// One measured kernel. `series` names the way of measuring: rows of a series share what it adds to every time.
struct KernelMeasurement {
  std::variant<Product, TimedConvolution, TimedSweep, TimedLaunch, TimedCopy, TimedOverlap> what;
  Precision precision = Precision::kFp32;
  Time time{};
  std::string series;
  std::int64_t order = 0;  // rows that the session measured before, where what it adds grows with them
  int line = 0;            // of the file it came from
  bool left_out = false;   // throttled, or with a cold cache: shown, not fitted
};

}  // namespace ddlsim::primitives
