// Number formats of a training step.
#pragma once

#include "ddlsim/support/choices.h"
#include "ddlsim/support/units.h"

namespace ddlsim {

/// The format of the matrix products and of the activations kept in memory. Weights, gradients and optimizer state stay
/// fp32 whatever the precision (automatic mixed precision as PyTorch and TensorFlow do it) unless a strategy says
/// otherwise.
/// fp8 and fp4 are recipes of linear layers alone (Transformer Engine): the three products of a layer take operands
/// that are cast to 8 bits (tensor-wise or MXFP8) or to 4 (NVFP4: blocks of 16, arXiv 2509.25149), all else runs in
/// bf16.
enum class Precision { kFp32, kTf32, kFp16, kBf16, kFp8, kFp4 };

inline constexpr Choices<Precision, 7> kPrecisions{{
    {"fp32", Precision::kFp32},
    {"tf32", Precision::kTf32},
    {"fp16", Precision::kFp16},
    {"bf16", Precision::kBf16},
    {"fp8", Precision::kFp8},
    {"fp4", Precision::kFp4},
    {"amp", Precision::kFp16},
}};

/// Bytes of one activation: 4 for fp32 and tf32; 2 for the others (training in fp8 and fp4 keeps activations in bf16).
[[nodiscard]] constexpr DataSize activation_size(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kTf32: return bytes(4);
    case Precision::kFp16:
    case Precision::kBf16:
    case Precision::kFp8:
    case Precision::kFp4: return bytes(2);
  }
  return bytes(4);
}

/// Whether numbers are of 32 bits, whatever products round them to.
[[nodiscard]] constexpr bool is_single(Precision precision) {
  return precision == Precision::kFp32 || precision == Precision::kTf32;
}

/// Whether matrix products alone run in it, on operands that are cast for them.
[[nodiscard]] constexpr bool is_cast(Precision precision) {
  return precision == Precision::kFp8 || precision == Precision::kFp4;
}

/// Bytes of one gradient sent in this format; nobody sends any of 4 bits (whatif/scenario/settings.cpp refuses it).
[[nodiscard]] constexpr DataSize gradient_size(Precision precision) {
  return precision == Precision::kFp8 ? bytes(1) : activation_size(precision);
}

}  // namespace ddlsim
