// Layers cut over the ranks of a tensor-parallel group, by rule.
//
// Megatron-LM (Shoeybi et al. 2019, section 3) cuts a block twice: the first products by columns, so that every rank
// makes its part of the heads or of the inner width from the whole input; the last product by rows, whose partial
// outputs are summed. Here the rule is read off the list of layers:
//   a product that reads what is whole   by columns: out / t; its input's gradient is summed over the ranks, once for
//                                        products that read the same input (query, key, value; gate, up)
//   heads, norms of each head,           on the part: heads / t, width / t
//   activations, products of two
//   the next product that reads a part   by rows: in / t; its output is summed
//   an embedding, a product tied to one  rows (outputs) / t, padded; an embedding's output is summed
//   experts                              inner width / t; output and input's gradient are summed
//   a product of fewer outputs than t,   whole, on every rank
//   other norms, residual sums
// A product after the part reads it when its input is as wide as the part's whole; one of another width reads what
// stood before (the second product of a gated MLP).
// Limits: a list has no edges, so a gated MLP whose inner width is the model's is taken for a plain one; layers without
// an operator (measured, fused) cannot be cut; no sequence parallelism of norms. Composed by plan/lower.h.
//
// Worked example: linear 1024 -> 4096, gelu, linear 4096 -> 1024 over two ranks: 1024 -> 2048 by columns, gelu on 2048,
// 2048 -> 1024 by rows: half the FLOPs, one sum after the last product's forward, one after the first's backward.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ddlsim/support/error.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::workload {

/// One rank's part of a layer, and what its group sums.
struct Shard {
  Layer layer;
  std::int64_t summed_forward = 0;   // elements per sample of the output, after forward; 0: nothing
  std::int64_t summed_backward = 0;  // of the input's gradient, after backward
};

/// Errors: kUnsupported for a layer without an operator; kInvalidArgument where `ranks` does not divide a size, with
/// the degrees that would.
[[nodiscard]] Expected<std::vector<Shard>> shard(std::span<const Layer> layers, std::int64_t ranks);

}  // namespace ddlsim::workload
