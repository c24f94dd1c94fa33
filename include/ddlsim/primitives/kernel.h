// What a layer asks of a GPU: kernels, by their shapes. Sizes are per sample; the batch comes in when a kernel is
// timed.
//
//   Gemm               C[m, n] = A[m, k] B[k, n], `batch_count` of them; the batch multiplies the size that
//                      `batch_scales` names. Linear on r rows (* times the batch):
//                        forward           m = r*   n = out  k = in
//                        input's gradient  m = r*   n = in   k = out
//                        weights' gradient m = out  n = in   k = r*
//   ConvolutionShape   a convolution; `pass` says which of its three GEMMs
//   MemoryBoundKernel  reads and writes `elements` (times the batch) and `weights` (once), with little arithmetic
//   FusedAttention     scores, softmax and context in one kernel (flash attention), one sequence per sample
// `times` kernels of a shape run one after another (an LSTM's steps). Timed* are what a measurement timed, batch
// included (bench/calibrate/README.md).
//
// Worked example: linear {out: 1000} on [2048], batch 64, forward: m = 64, n = 1000, k = 2048, 262 MFLOP.
//
// Made by workload/op.h, timed by cost/kernel_time.h, read as measurements by io/kernel_file.h.
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

/// The size of a GEMM that the batch multiplies.
enum class BatchScales { kBatchCount, kM, kK };

struct Gemm {
  std::int64_t batch_count = 1;  // independent ones of these sizes, as of attention's heads
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  BatchScales batch_scales = BatchScales::kM;
  bool grouped = false;  // `batch_count` of them in one kernel that sorts rows by group: the experts of a mixture

  bool operator==(const Gemm&) const = default;
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
enum class MemoryBoundKind { kElementwise, kSoftmax, kNorm, kBatchNorm, kPool, kCopy, kLookup, kUpdate, kRecurrent };

inline constexpr Choices<MemoryBoundKind, 9> kMemoryBoundKinds{{
    {"elementwise", MemoryBoundKind::kElementwise},
    {"softmax", MemoryBoundKind::kSoftmax},
    {"norm", MemoryBoundKind::kNorm},
    {"batchnorm", MemoryBoundKind::kBatchNorm},
    {"pool", MemoryBoundKind::kPool},
    {"copy", MemoryBoundKind::kCopy},
    {"lookup", MemoryBoundKind::kLookup},
    {"update", MemoryBoundKind::kUpdate},
    {"recurrent", MemoryBoundKind::kRecurrent},  // the gates of one step of a recurrent layer
}};

struct MemoryBoundKernel {
  MemoryBoundKind kind = MemoryBoundKind::kElementwise;
  std::int64_t elements = 0;  // read and written, per sample
  std::int64_t weights = 0;   // read and written once, whatever the batch
  std::int64_t row = 0;       // softmax, norm: elements that are reduced together; 0: does not matter
  double widening = 1;        // times the bytes, trained in 16 bits: what runs in fp32 (cost/kernel_time.h)
  std::int64_t channels = 0;  // batchnorm, pool: of images that are worked on channel by channel; 0: of none

  bool operator==(const MemoryBoundKernel&) const = default;
};

enum class AttentionPass { kForward, kBackward };

inline constexpr Choices<AttentionPass, 2> kAttentionPasses{{
    {"forward", AttentionPass::kForward},
    {"backward", AttentionPass::kBackward},
}};

/// Of one sequence: who looks at whom, and how wide.
struct AttentionShape {
  AttentionPass pass = AttentionPass::kForward;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t heads = 1;        // of queries
  std::int64_t kv_heads = 1;     // of keys and values, which queries' heads share
  std::int64_t width = 1;        // of a head's queries and keys
  std::int64_t value_width = 1;  // of its values
  std::int64_t window = 0;       // most keys that a query looks at; 0: all
  bool causal = false;           // a query looks at no key after its own

  auto operator<=>(const AttentionShape&) const = default;
};

/// Which kernel that is (cost/attention_time.h has what it takes).
enum class AttentionKernel : std::uint8_t {
  kBest,    // the fastest that was measured on the GPU: FlashAttention-2 on Ampere, 3 and cuDNN's on Hopper
  kSdpa,    // FlashAttention-2, but cuDNN's on Blackwell: torchtitan's order of PyTorch's backends
  kFlash2,  // FlashAttention-2 on any GPU, as PyTorch's scaled_dot_product_attention before 2.11
  kFlash1,  // FlashAttention in Triton, 2022
};

inline constexpr Choices<AttentionKernel, 4> kAttentionKernels{{
    {"best", AttentionKernel::kBest},
    {"sdpa", AttentionKernel::kSdpa},
    {"flash-2", AttentionKernel::kFlash2},
    {"flash-1", AttentionKernel::kFlash1},
}};

/// Scores, softmax and context in one kernel that keeps the scores on the chip.
struct FusedAttention {
  Work work{};                // per sample
  std::int64_t elements = 0;  // read and written, per sample
  AttentionShape shape{};

  bool operator==(const FusedAttention&) const = default;
};

struct Kernel {
  std::variant<Gemm, ConvolutionShape, MemoryBoundKernel, FusedAttention> shape;
  std::int64_t times = 1;
};

/// What was timed, batch included (bench/calibrate/README.md).
struct TimedConvolution {
  ConvolutionShape shape{};
  std::int64_t batch = 1;
};

struct TimedAttention {
  AttentionShape shape{};
  std::int64_t batch = 1;  // sequences
};

/// A mixture's experts in a forward pass, from rows in the order of their sequences to such rows again: sorted by
/// expert, multiplied by each expert's two or three matrices, summed.
struct TimedExperts {
  std::int64_t tokens = 1;   // rows in and out
  std::int64_t routed = 1;   // rows that experts work on, evenly shared among them
  std::int64_t experts = 1;  // on the GPU
  std::int64_t width = 1;    // of a row outside
  std::int64_t inner = 1;    // of an expert's inside
  bool gated = true;         // three matrices, otherwise two
};

struct TimedMemoryBound {
  MemoryBoundKind kind = MemoryBoundKind::kElementwise;
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

enum class OverlapKind { kGemm, kMemoryBound };

inline constexpr Choices<OverlapKind, 2> kOverlapKinds{{
    {"gemm", OverlapKind::kGemm},
    {"memory_bound", OverlapKind::kMemoryBound},
}};

/// A kernel beside another that holds `taken` multiprocessors.
struct TimedOverlap {
  OverlapKind kind = OverlapKind::kGemm;
  std::int64_t taken = 0;
  double slowdown = 1;
};

/// One measured kernel. `series` names the way of measuring: rows of a series share what it adds to every time.
struct KernelMeasurement {
  std::variant<Gemm, TimedConvolution, TimedMemoryBound, TimedLaunch, TimedCopy, TimedOverlap, TimedAttention,
               TimedExperts>
      what;
  Precision precision = Precision::kFp32;
  Time time{};
  std::string series;
  std::int64_t rows_before = 0;  // rows that the session measured before, where what it adds grows with them
  int line = 0;                  // of the file it came from
  bool left_out = false;         // throttled, or with a cold cache: shown, not fitted
};

}  // namespace ddlsim::primitives
