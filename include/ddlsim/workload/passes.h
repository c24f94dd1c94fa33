// Layers that do more, or less, than a forward pass and its backward pass.
//
// Recomputation: what was not kept is computed again in backward, just before it is needed.
//   selective   the core of attention: scores, softmax, context (Korthikanti et al. 2023, section 5; with a fused
//               kernel it runs again all the same: megatron/core/transformer/attention.py,
//               _checkpointed_attention_forward)
//   full        of every n-th block all layers, from the block's input (Chen et al. 2016; Megatron-LM's
//               recompute-granularity full; torch.utils.checkpoint, reentrant, which stops nowhere early)
// A layer's backward then has its forward's kernels and FLOPs before its own. In truth a block's forward runs as a
// whole before the block's backward: the sum is the same, gradients within a block are ready earlier than here by less
// than its forward. What the layer's ranks send in forward they send again (plan/lower.h).
//
// LoRA (Hu et al. 2021): weights are frozen; the products of attention (those that make queries, keys and values, and
// the one after it; as Hu et al. choose and MLPerf's Llama 2 70B LoRA does) have adapters A [in, r] and B [r, out],
// which alone have gradients. A frozen product makes its input's gradient, half its backward FLOPs; a frozen norm has
// no weights' gradient; layers before the first adapter have no backward at all. An adapter adds 2 rows r (in + out)
// FLOPs forward, twice that backward, and its part of the output is added to the product's. Limits: adapters' ranks are
// not cut over a tensor group; quantised frozen weights are as they were.
//
// Worked example: linear 1024 -> 1024 on 8 rows without bias, rank 4: forward 2*8*1024*1024 + 2*8*4*2048 FLOPs,
// backward 2*8*1024*1024 + 2 * 2*8*4*2048, gradient tensors of 4096 and 4096 elements instead of 1,048,576.
#pragma once

#include <cstdint>
#include <vector>

#include "ddlsim/support/error.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::workload {

/// The layer whose forward pass runs again in its backward pass.
void recompute(Layer& layer);

/// Layers of which adapters alone are trained. Errors: kUnsupported for a model without attention, or whose layers keep
/// no operator.
[[nodiscard]] Expected<void> adapt(std::vector<Layer>& layers, std::int64_t rank);

}  // namespace ddlsim::workload
