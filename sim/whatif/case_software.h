// What a case says of its software: when it was released, and whether its kernels are fused. Private to the room.
#pragma once

#include <optional>

#include "ddlsim/io/case_file.h"

namespace ddlsim::whatif {

/// A year with its months as a fraction, of what is said first: a container of NVIDIA ("22.10-py3"), a date, a year or
/// a release in the framework's name, a round of MLPerf. Nothing where nobody says any.
[[nodiscard]] std::optional<double> software_year_of(const io::Case& one);

/// Whether blocks with attention run as fused kernels, by the framework's name: Megatron and NeMo fuse (masked softmax,
/// bias and GELU, norms: NVIDIA/Megatron-LM megatron/core/fusions), and so does what NVIDIA submits to MLPerf; PyTorch,
/// Hugging Face, TensorFlow, PaddlePaddle and MXNet run single operators. Nothing for others, and for DeepSpeed, whose
/// engine runs either.
[[nodiscard]] std::optional<bool> software_fused_of(const io::Case& one);

}  // namespace ddlsim::whatif
