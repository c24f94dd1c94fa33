// What a compiler or a hand-written kernel spares a model: the tensors between operators.
//
//   pointwise   a layer that is one element-wise kernel joins the kernel of the layer listed before it: the tensor
//               between them is neither written nor read again, its gradient neither,
//                 elements' = elements - 2 * output,   kernels' = 0
//               other inputs (a residual's) are still read. (torch.compile, XLA; NVFuser)
//   attention   scores, softmax, dropout and context are one kernel that keeps scores on the chip: it reads Q, K and V
//               and writes its output; backward computes the scores again, 2.5 times the forward FLOPs. Keys after a
//               query's own are spared where the operator says `causal`; one whose scores are `biased` stays as it is,
//               no such kernel adds a bias. A sequence's attention to itself becomes a `grouped_attention`.
//               (Dao et al., FlashAttention, NeurIPS 2022)
//   apart       the contrary: a `grouped_attention` is the kernels of an `attention`, with scores of all rows by all.
//               Fewer heads of keys and values are copied to as many as queries have (transformers'
//               repeat_kv; backward adds them up); with `single` the softmax is in fp32 (eager_attention_forward of
//               transformers modeling_llama.py). In a window all scores are computed too, the mask hides the rest.
//               Sinks are a column beside the scores, in their format (modeling_gpt_oss.py: joined, the largest found
//               and taken off): 5 accesses to the scores in 3 kernels forward, 10 in 6 backward. One with chunks,
//               values of another width than keys or a ring's share of the keys stays one kernel.
//   tables      embeddings with sparse gradients that follow each other are one lookup, forward and backward, with the
//               last of them (FBGEMM's table-batched embedding; HugeCTR's embedding collection). Bytes stay.
//   transposes  the contrary: images lie channel after channel, and tensor cores take them pixel by pixel. Around every
//               convolution but a depthwise one its library turns what goes in and what comes out, a read and a write
//               of each: input and output forward; for the gradient of the input that of the output and itself, for
//               that of the weights the input and the output's gradient,
//                 elements' = elements + 2 (input + output) a product
//               (NVIDIA, Deep Learning Performance: Convolutional Layers, "Tensor Layouts": transposes from NCHW)
//   single      the contrary: models written in PyTorch without fused kernels have RMSNorm, rotary positions, SwiGLU,
//               GPT-2's and CLIP's GELU as single operations. Accesses and kernels, as above, of the norm in fp32 with
//               casts around it in 16 bits, of GPT-2's GELU in fp32 under autocast (its power is):
//                 rmsnorm    7 in 8 forward, 23 in 17 backward; in 16 bits the bytes of 18 and 46
//                 gelu_new   18 in 8 forward (x / 2 (1 + tanh(c (x + a x^3)))), 28 in 11 backward
//                 quick_gelu 7 in 3 forward (x sigmoid(c x)), 14 in 5 backward
//                 rotary     10 in 10 forward (q cos + rotate_half(q) sin, of q and of k), 15 in 18 backward
//                 swiglu     5 in 2 forward, 9 in 3 backward
//               Layer norm's weight and bias have a backward kernel of their own, 2 accesses more
//               (aten/src/ATen/native/cuda/layer_norm_kernel.cu); with it all take 3 TB/s on an H200.
//               (transformers modeling_llama.py: LlamaRMSNorm, apply_rotary_pos_emb, LlamaMLP; activations.py:
//               NewGELUActivation, QuickGELUActivation; counted with their gradients, and by kernels of an H200's
//               steps: bench/calibrate/measured, zoo-kernels)
//   composed    the contrary as well: TensorFlow without XLA has no kernel of GELU, of dropout and of contrib's layer
//               norm; they are single operations, each a kernel that reads and writes the tensor. Accesses to it and
//               kernels:
//                 gelu       18 in 8 forward (x cdf, cdf = (1 + tanh(c (x + a x^3))) / 2), 26 in 10 backward
//                 dropout    8.5 in 5 (random, compare, scale, cast, product), 5 in 2
//                 layernorm  15 in 8 (moments, then x * inv + (beta - mean * inv)), 41 in 20
//               Trained in 16 bits they run in fp32: Pow, Mean and Sum are on the list of what never is cast, and what
//               follows these stays with them. Nothing is composed where `pointwise` holds.
//               (NVIDIA/DeepLearningExamples TensorFlow/LanguageModeling/BERT/modeling.py, gelu, dropout, layer_norm;
//               tensorflow/core/grappler/optimizers/auto_mixed_precision_lists.h; counts derived from these and
//               their gradients, small tensors left out)
//   autocast    the contrary as well: torch.autocast (PyTorch's own mixed precision, without a compiler). Norms and
//               softmax read and write fp32, and so does what follows them until a product; a sum with such a tensor
//               makes another. A product casts what it reads in fp32 and its parameters, each a kernel (2 accesses to
//               the tensor, one side of 4 bytes), and their gradients back. Scores are cast to fp32 for their softmax
//               and dropout, and back. A cast product keeps no copy in memory here. Nothing is cast where `pointwise`
//               holds: compilers put casts into the kernels beside them.
//               (pytorch.org/docs/stable/amp.html, "Ops that can autocast to float32", "Ops that promote to the widest
//               input type"; aten/src/ATen/autocast_mode.cpp: parameters are cast once a pass, other tensors each time)
// FLOPs of products, parameters and gradient tensors stay as they are; fused attention keeps no scores.
// Limits: layers are fused in the order of the list, across a branch's end as well; norms and softmax stay kernels of
// their own; no fused optimizer (the update is one kernel already); what TensorFlow's composed operators keep for
// backward counts as that of whole ones (of single ones: plan/memory.h).
//
// Worked example: relu on 1000 elements after a convolution: forward 2000 elements, fused 0; backward 3000, fused 1000
// (the saved output is still read). An add: 3000, fused 1000.
#pragma once

#include <vector>

#include "ddlsim/workload/model.h"

namespace ddlsim::workload {

struct Fusion {
  bool pointwise = false;
  bool attention = false;
  bool tables = false;
  bool transposes = false;
  bool composed = false;
  bool autocast = false;
  bool single = false;
  bool apart = false;

  friend auto operator<=>(const Fusion&, const Fusion&) = default;
};

/// Whether `composed` makes single operations of it.
[[nodiscard]] bool is_composite(const Layer& layer);

/// Whether `single` makes other kernels of it.
[[nodiscard]] bool has_single_operations(const Layer& layer);
/// Whether `apart` makes several kernels of it.
[[nodiscard]] bool comes_apart(const Layer& layer);

/// The layers as they run. Into one that `closed` names nothing is joined: its output is sent before others read it.
[[nodiscard]] std::vector<Layer> fused(std::vector<Layer> layers, const Fusion& fusion,
                                       const std::vector<bool>& closed = {});

/// The layers as they run. Totals follow.
[[nodiscard]] Expected<Model> fused(Model model, const Fusion& fusion);

}  // namespace ddlsim::workload
