// The blocks that a model's list of layers repeats: what frameworks wrap, gather and compute again as one.
//
//   with attention   the shortest run of layers that has attention and stands twice or more, one after the other, is a
//                    block each time; none begins with a residual sum (Llama: from its first norm to the MLP's sum).
//                    What stands between is one block beside them: embeddings, the last norm and the head.
//   without, or      a block ends with a residual sum and the activations after it (a ResNet's bottleneck); where there
//   never twice      is none, every layer with weights and what follows it is one.
// Layers are alike when operator, input and counts are; names do not matter. Read by plan/lower.h: the units of FSDP
// (fully_shard of a block, Zhao et al., VLDB 2023), of recomputation (Chen et al. 2016) and of offloaded activations.
//
// Worked example: embedding, 2 x [norm, qkv, attention, out, sum], norm, head: blocks {0}, {1-5}, {6-10}, {11, 12}, of
// which the second and third are bodies.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ddlsim/workload/op.h"

namespace ddlsim::workload {

struct Block {
  std::size_t first = 0;
  std::size_t count = 0;
  bool body = true;  // one of those that repeat; false: embeddings, head

  friend bool operator==(const Block&, const Block&) = default;
};

/// In order; every layer is in one.
[[nodiscard]] std::vector<Block> blocks_of(std::span<const Layer> layers);

/// Whether a layer is a residual sum.
[[nodiscard]] bool is_residual(const Layer& layer);

/// Whether a layer is attention of whatever kind.
[[nodiscard]] bool is_attention(const Layer& layer);
/// Whether a layer drops values at random.
[[nodiscard]] bool is_dropout(const Layer& layer);

}  // namespace ddlsim::workload
