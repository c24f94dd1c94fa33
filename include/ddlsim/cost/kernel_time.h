// The time of a layer's kernels by what was measured on a GPU, and how far that can be trusted.
//
//   t(layer) = sum over its kernels of times * t(kernel)
//     Gemm               cost/gemm_time.h          with the curve of the precision
//     ConvolutionShape   cost/convolution_time.h   likewise; a convolution measured at exactly this shape wins; in bf16
//                                                  where the step's is fp8 or fp4
//     MemoryBoundKernel  cost/memory_bound_time.h  with the curve of the kind, else the element-wise one
//     FusedAttention     cost/attention_time.h     likewise; in bf16 where the step's is fp8 or fp4
// Where the GPU's own profile has no curve of experts or of attention's backward pass, another's goes before its own of
// plain GEMMs or of the forward pass.
// A step of a recurrent layer is a chain of kernels that wait for each other: recurrent_chain goes by after its gates,
// whatever a framework takes on top of kernels, unless a curve of that kind was measured.
// A kernel that no curve covers takes its roofline at the assumed share of the datasheet's rates (cost/layer_time.h).
// Rows of 16 bits that do not begin at multiples of 16 bytes, because a size along which a product's operand or result
// lies is no multiple of 8 (an odd vocabulary, heads of 150): Volta and Turing have no kernel for them that uses tensor
// cores (cuBLAS documentation, "Tensor Core Usage"; at best fp32's peak), Ampere and Ada load a few numbers at a time
// and compute kUnalignedCost times as long, but a batch of products (attention's, where it is not
// fused) at kUnalignedBatch of fp32's peak, or kHalfAlignedBatch; from Hopper on cuBLAS takes kernels of Turing and
// Ampere, bound by their loads, kPerNumberLoaded times fp32's peak for each number at once (16 bits: 1 along an odd
// size, else 2; TF32, where no multiple of 4: 1). What is bound by memory takes no longer, and compilers pad (XLA;
// PyTorch's inductor, shape_padding).
//
// A softmax of outputs that is trained in 16 bits or fewer runs in fp32 (PyTorch's autocast and Megatron-LM cast the
// logits): forward a cast (2 bytes in, 4 out) and a logarithm of softmax (4, 4), backward zeros for the labels (4), the
// gradient (4, 4 and 4) and a cast (4, 2), kWidened times the five moves of 2 bytes that are listed. Where element-wise
// kernels are fused the casts join it, and nothing is added.
//
// The input's gradient of a convolution that is the model's first layer is not computed.
//
// Of every profile, the nearest first, the curve of the precision answers, else one of the same units: fp16 and bf16
// are one speed on tensor cores: where a GPU has products of both, by two runs, they take the middle (geometric) of
// both curves' times (A100: vidur's fp16 takes an eighth longer than aiconfigurator's bf16 above 100 GFLOP), else they
// read one curve; TF32 takes theirs at its own peak
// with 4-byte elements, or FP32's algorithm where that is faster; fp4 takes fp8's. fp16 without tensor cores is FP32
// whose elements take 2 bytes.
//
// Images. Convolutions of 16 bits on Volta and Turing were measured on images that lie channel by channel (DeepBench),
// which cuDNN turns for the tensor cores and back. Where they are said to lie pixel by pixel (`spares_turning`) a
// convolution takes less: the time in which input and output are read and written once, 2 (in + out) elements by the
// curve of element-wise kernels; never less than its roofline. Depthwise ones are not turned.
// Batch normalisation, pooling by windows and depthwise convolutions of images go by cost/image_kernels.h, the first
// two where no profile has a curve of their kind.
//
// Trust. The curve's 90 % interval of measured / predicted holds for each kernel; a step's kernels err together (one
// clock, one library), so the layer's ends are the sums of the kernels' ends. Outside the curve's fitted_ranges the
// interval's logarithm doubles per octave; a curve borrowed from another GPU or precision widens like one octave. What
// is assumed has the ends that the caller gives.
// Limits: kernels run one after another; nothing is fused; a profile knows the libraries of its day.
//
// Worked example: three kernels of 1, 2 and 3 ms, all within the fitted ranges of curves that err from 0.9 to 1.2:
// 6 ms, from 5.4 to 7.2 ms.
//
// The kernels come from workload/op.h; whoever has no profile goes on in cost/layer_time.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ddlsim/cost/layer_time.h"
#include "ddlsim/hardware/gpu.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/primitives/kernel.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

/// What a step of a recurrent layer waits between its kernels in software of before 2019. The median of what
/// DeepBench's LSTMs on a V100 (cuDNN 7.0) take per step beyond these kernels: 25 us (fp32) and 28 us (fp16) forward,
/// 15 and 34 us backward; their mean. A GTX 1080 still took 31 and 39 us in all with cuDNN 7.1 (H 256, batch 32).
inline constexpr Time kRecurrentChain = microseconds(26);
/// And since: 7.5 and 12.4 us in all, forward and backward, of steps that do next to nothing (H 104, batch 8; 20 shapes
/// alike: xwang233/code-snippet @ 2c053c8, cudnn-rnn-bench-62143, cuDNN 8), 7.3 us on an RTX PRO 6000; less 2 us each
/// of kernels. A CUDA graph spares it: 1.4 us in all instead of 5.7 (pyannote's four layers of two directions, H 128,
/// 589 steps, on an RTX 5070 Ti; documentation of speakrs 0.6.0). cuDNN's persistent kernels, which PyTorch takes for a
/// single layer of fp16 of up to 1,024 units and 128 samples, would as well; nobody says whether they run.
inline constexpr Time kRecurrentChainSince2019 = microseconds(8);

/// Numbers of 16 bits that a tensor core's kernel loads at once.
inline constexpr std::int64_t kAligned = 8;
/// nanoGPT trains a quarter faster with 50,304 tokens instead of 50,257 on an A100 (recalled: A. Karpathy, February
/// 2023), of whose FLOPs the head's products are 0.31: 1 + 0.25 / 0.31. However many sizes are: squares of 2055 to 2073
/// in bf16 reach 107 to 116 TFLOP/s on an RTX 4090, where aligned ones reach 156 (pytorch/pytorch issue 181718).
inline constexpr double kUnalignedCost = 1.8;
/// Of fp32's peak, per number of a load, from Hopper on: 124 TFLOP/s along odd sizes (96 forward, 141 and 150 for the
/// gradients), 240 along even ones, 125 in TF32 along either, on an H200 (its heads over 50,257, 50,265 and 30,522
/// tokens in 27 steps: bench/calibrate/measured, zoo-kernels, "align1" and "align2").
inline constexpr double kPerNumberLoaded = 1.85;
/// Of fp32's peak, what a batch of such products reaches on Ampere and Ada: in bf16 12.2 TFLOP/s for 384 of
/// 1024 x 1024 x 140 on an A100 (rows of 128 numbers 132; pytorch/pytorch issue 83272, CUDA 11.6); in fp16 53.9 there,
/// but heads of 150 and 450 numbers, which begin at multiples of 4 bytes, take BLOOM's steps as long in fp16 as in bf16
/// (770 and 777 s: bigscience train/tr11-176B-ml/chronicles-prequel.md). Of Ada nobody measured it: assumed alike.
inline constexpr double kUnalignedBatch = 0.63;
inline constexpr double kHalfAlignedBatch = 2.76;  // fp16, rows that begin at multiples of 8 bytes
/// Of the peak, what such a product reaches where rows are aligned: 230 to 250 of 312 TFLOP/s on an A100, as this
/// model's curve has it.
inline constexpr double kAlignedShare = 0.75;

/// What was measured on the GPU in question, or borrowed from another.
struct ProfileInUse {
  const hardware::GpuProfile* profile = nullptr;  // not owned
  bool borrowed = false;
  /// What the profile's shares are of, where it is of the GPU's chip but rates are others: what was measured at exact
  /// shapes is then scaled as the curve is.
  struct Rates {
    hardware::PeakRates peak;
    Bandwidth memory{};
  };
  std::optional<Rates> measured_at{};
};

/// Of several profiles the first that has a curve answers.
struct Calibration {
  std::vector<ProfileInUse> profiles;
  hardware::Gpu gpu;
  DeviceRates assumed{};  // where no curve is, efficiency included
  std::pair<double, double> assumed_interval{1, 1};
  primitives::AttentionKernel attention = primitives::AttentionKernel::kBest;
  Surcharge surcharge{};
  bool fuses_pointwise = false;  // casts to fp32 join the kernel that reads them
  bool spares_turning = false;   // images lie as tensor cores take them; the profile's convolutions turned them
  bool channels_first = true;    // how images lie (cost/image_kernels.h)
  Time recurrent_chain = kRecurrentChainSince2019;  // between kernels of a recurrent layer's step
};

/// Forward and backward of every layer, and what they rest on.
struct CalibratedTimes {
  std::vector<LayerTimes> layers;
  Time update{};        // of the weights
  Time low{}, high{};   // 90 %, of all layers and the update together
  Time measured{};      // by curves of this GPU within their fitted ranges
  Time extrapolated{};  // outside the fitted ranges, or borrowed
  Time assumed{};       // no curve
  Work executed{};      // FLOPs of all layers: fewer than the model's where Winograd runs
};

/// What a pass moves besides its layers' kernels.
struct MovedBeside {
  DataSize updated{};      // read and written by the optimizer
  DataSize accumulated{};  // of each parameter, to add its gradient to earlier passes' (plan/lower.h)
};

/// `batch` samples. `input`: which of the layers, if any, is the model's first.
[[nodiscard]] CalibratedTimes calibrated_times(std::span<const workload::Layer> layers, const Calibration& calibration,
                                               double batch, Precision precision, const MovedBeside& beside,
                                               std::optional<std::size_t> input = 0);

/// What adding up gradients moves in a layer's backward. A sparse gradient is appended, and measured layers have it.
[[nodiscard]] DataSize accumulated_by(const workload::Layer& layer, DataSize per_parameter);

}  // namespace ddlsim::cost
