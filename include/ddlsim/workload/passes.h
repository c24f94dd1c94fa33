// Layers that do more, or less, than a forward pass and its backward pass.
//
// Recomputation: what was not kept is computed again in backward, just before it is needed.
//   selective   the core of attention: scores, softmax, context (Korthikanti et al. 2023, section 5; with a fused
//               kernel it runs again all the same: megatron/core/transformer/attention.py,
//               _checkpointed_attention_forward)
//   full        of every n-th block all layers, from the block's input (Chen et al. 2016; Megatron-LM's
//               recompute-granularity full; torch.utils.checkpoint, reentrant, which stops nowhere early)
//   stage       all that a stage has, from what entered it (GPipe, Huang et al. 2019; torchgpipe/checkpoint.py)
// A layer's backward then has its forward's kernels and FLOPs before its own. In truth a block's forward runs as a
// whole before the block's backward: the sum is the same, gradients within a block are ready earlier than here by less
// than its forward. What the layer's ranks send in forward they send again (plan/lower.h).
//
// LoRA (Hu et al. 2021): weights are frozen; products have adapters A [in, r] and B [r, out], which alone have
// gradients:
//   qkv         those that make queries, keys and values (NeMo's and Megatron-Bridge's performance recipes)
//   attention   and the one after it (as MLPerf's Llama 2 70B LoRA has them)
//   all         and those of MLPs, experts and their routing aside (Dettmers et al. 2023; Qwen's finetune.py) A frozen
//   product makes its input's gradient, half its backward FLOPs; a frozen norm has
// no weights' gradient; layers before the first adapter have no backward at all. An adapter adds 2 rows r (in + out)
// FLOPs forward, twice that backward, and its part of the output is added to the product's. Limits: adapters' ranks are
// not cut over a tensor group.
//
// QLoRA (Dettmers et al. 2023) keeps the weights of frozen products and experts in 4 or 8 bits, with a scale of 32 bits
// for every 64 of them (bitsandbytes, bnb_4bit_use_double_quant false, blocksize 64), or for a row: 0.5625 or 1 byte
// each. The head (products behind the last residual sum), tables and norms stay as they are. Before every use a kernel
// writes the weights in 16 bits. Limits: what PEFT keeps in fp32 beside it (prepare_model_for_kbit_training: norms,
// head and what flows between blocks) is not counted: a tenth to a third of a step, and a part of its activations.
//
// Frozen layers (torchvision's trainable_backbone_layers, Detectron2's FREEZE_AT; a feature extractor): the layers
// before the first that is trained have no backward, keep nothing and make no gradients; that first one makes none of
// its input. Limit: other layers that read what frozen ones made (a downsampling beside it, a pyramid's branch) still
// do.
//
// Worked example: linear 1024 -> 1024 on 8 rows without bias, rank 4: forward 2*8*1024*1024 + 2*8*4*2048 FLOPs,
// backward 2*8*1024*1024 + 2 * 2*8*4*2048, gradient tensors of 4096 and 4096 elements instead of 1,048,576.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::workload {

/// The layer whose forward pass runs again in its backward pass.
void recompute(Layer& layer);

enum class AdaptedProducts : std::uint8_t { kQkv, kAttention, kAll };

struct Adapters {
  std::int64_t rank = 0;
  int frozen_bits = 0;  // 4, 8: frozen products' weights, with their scales; 0: as all others
  AdaptedProducts products = AdaptedProducts::kAttention;
  bool apart = false;  // alpha / r is a kernel of its own (PEFT's LoRA layer and torchtune's, run by eager PyTorch)

  friend auto operator<=>(const Adapters&, const Adapters&) = default;
};

/// Layers of which adapters alone are trained. Errors: kUnsupported for a model without attention, or whose layers keep
/// no operator.
[[nodiscard]] Expected<void> adapt(std::vector<Layer>& layers, const Adapters& adapters);

/// The products that an adapter stands beside.
[[nodiscard]] std::vector<bool> adapted_products(std::span<const Layer> layers, AdaptedProducts which);

/// The size of a weight that is kept in fewer bits, its scale included.
[[nodiscard]] DataSize quantised_weight(int bits);

/// Layers before `first` are not trained. `first` is one of them.
void freeze_before(std::vector<Layer>& layers, std::size_t first);

/// Whether a layer has kernels, and none of them in backward: nothing before it is trained, and nothing of it.
[[nodiscard]] bool runs_forward_alone(const Layer& layer);

/// The layer, made anew, is as frozen as it was before.
void freeze_as(Layer& layer, const Layer& before);

/// Outputs that no backward reads are not kept: those of products before a scaling by constants.
void drop_unread_outputs(std::vector<Layer>& layers);

}  // namespace ddlsim::workload
