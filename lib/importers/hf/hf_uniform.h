// Decoders whose blocks are all alike, said part by part; the builder lists their layers.
#pragma once

#include <cstdint>

#include "hf_layers.h"

namespace ddlsim::importers::hf {

enum class NormKind : std::uint8_t {
  kLayer,
  kRms,
  kNoBias,  // a layer norm with a weight alone: listed as rmsnorm, which moves as much and has one tensor
  kBare,    // a layer norm without parameters
};

enum class PositionKind : std::uint8_t { kRotary, kAlibi, kLearned };

enum class QkNormKind : std::uint8_t {
  kNone,
  kPerHead,  // one set of parameters for all heads
  kWhole,    // parameters for every head
};

/// Where the class drops values out, and the configuration's probability is above zero: PyTorch runs no kernel at zero.
struct Dropouts {
  bool embedding = false;
  bool attention = false;  // of what attention puts out
  bool mlp = false;
  bool sum = false;  // of both, where they stand side by side
};

struct UniformDecoder {
  std::int64_t width = 1;
  std::int64_t blocks = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head = 1;  // width of one
  std::int64_t inner = 1;
  std::int64_t vocabulary = 1;
  std::int64_t positions = 0;  // rows of the table of learned positions
  std::int64_t window = 0;     // most keys a query looks at; 0: all

  NormKind norm = NormKind::kLayer;
  bool norms_behind = false;  // attention and MLP, which otherwise have theirs before
  int side_by_side = 0;       // norms that feed attention and MLP at once; 0: one after the other
  bool embedding_norm = false;
  QkNormKind qk_norm = QkNormKind::kNone;
  PositionKind position = PositionKind::kRotary;

  bool fused_qkv = false;
  bool qkv_bias = false;
  bool output_bias = false;
  bool clipped = false;       // queries, keys and values
  bool wide_softmax = false;  // in fp32, in separate kernels

  bool gated = false;
  bool fused_gate = false;  // gate and up in one matrix
  bool mlp_bias = false;
  const char* activation = "gelu";  // of an MLP that is not gated

  Dropouts dropout{};
  bool scaled_embedding = false;
  bool scaled_residual = false;
  bool scaled_logits = false;
  bool tied = false;
  bool head_bias = false;
  const char* note = nullptr;
};

Family build_uniform(const UniformDecoder& decoder, std::int64_t rows);

}  // namespace ddlsim::importers::hf
