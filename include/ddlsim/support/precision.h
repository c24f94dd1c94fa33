// Number formats of a training step.
#pragma once

#include "ddlsim/support/choices.h"
#include "ddlsim/support/units.h"

namespace ddlsim {

/// The format of the matrix products and of the activations kept in memory. Weights, gradients and optimizer state stay
/// fp32 whatever the precision (automatic mixed precision as PyTorch and TensorFlow do it) unless a strategy says
/// otherwise.
enum class Precision { kFp32, kTf32, kFp16, kBf16, kFp8 };

inline constexpr Choices<Precision, 6> kPrecisions{{
    {"fp32", Precision::kFp32},
    {"tf32", Precision::kTf32},
    {"fp16", Precision::kFp16},
    {"bf16", Precision::kBf16},
    {"fp8", Precision::kFp8},
    {"amp", Precision::kFp16},
}};

/// Bytes of one activation: 4 for fp32 and tf32; 2 for fp16, bf16 and fp8 (fp8 training keeps activations in bf16).
[[nodiscard]] constexpr DataSize activation_size(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kTf32: return bytes(4);
    case Precision::kFp16:
    case Precision::kBf16:
    case Precision::kFp8: return bytes(2);
  }
  return bytes(4);
}

/// Bytes of one gradient sent in this format.
[[nodiscard]] constexpr DataSize gradient_size(Precision precision) {
  return precision == Precision::kFp8 ? bytes(1) : activation_size(precision);
}

}  // namespace ddlsim
