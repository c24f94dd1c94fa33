// Layers cut over ranks, by rule: tensor, sequence, context and expert parallelism, and what the ranks send for it.
//
// Tensor, degree t (Megatron-LM, Shoeybi et al. 2019, section 3). A block is cut twice: the first products by columns,
// so that every rank makes its part of the heads or of the inner width from the whole input; the last product by rows,
// whose partial outputs are summed. Here the rule is read off the list of layers:
//   a product that reads what is whole   by columns: out / t; its input's gradient is summed over the ranks, once for
//                                        products that read the same input (query, key, value; gate, up)
//   heads, norms of each head,           on the part: heads / t, width / t; fewer key heads than t: one on each rank,
//   activations, products of two         and the products that make them likewise
//   the next product that reads a part   by rows: in / t; its output is summed
//   the largest embedding, its head      rows (outputs) / t, padded; an embedding's output is summed; smaller tables
//                                        (positions, token types) are whole on every rank
//   the loss over the head's part        on the part: three reductions of a number per row (largest logit, the label's,
//                                        sum of exponentials; megatron/core/tensor_parallel/cross_entropy.py)
//   experts                              inner width / t; output and input's gradient are summed
//   routers, products before a norm of   whole, on every rank (Megatron: nn.Linear; MLA's down projections)
//   theirs, of fewer outputs than t
//   other norms, residual sums, dropout  whole, on every rank; with `sequence` their rows / t
// Volumes per rank, of s rows of width h: 2 sums forward and 2 backward per block, 8 s h (t-1)/t elements in all.
// With `sequence` (Korthikanti et al. 2023, section 4.2.2) a sum becomes a reduce-scatter, and an all-gather stands
// before each product that is cut by columns: the same elements; a column product keeps its part of the rows alone and
// gathers them again in backward (+ s h (t-1)/t for each).
// Who runs beside: in backward a column product's sum (reduce-scatter) runs beside its weights' gradient, and the
// second gather beside its input's (megatron/core/tensor_parallel/layers.py,
// LinearWithGradAccumulationAndAsyncCommunication; both halves of a product's backward). `overlap` cuts a product and
// its gather or scatter into t pieces, of which all but one run side by side (Wang et al., ASPLOS 2023; Transformer
// Engine's user buffers):
//   exposed = max(0, collective - (t-1)/t product)
//
// Context, degree c: a sample's rows are shared, everything that works row by row has rows / c.
//   ring      (Liu et al. 2023; Transformer Engine, "p2p") attention takes c steps with the keys and values of one rank
//             each, which travel on meanwhile: c-1 hops of 2 (s/c) kv elements forward, twice that in backward (their
//             gradients travel too). Under a causal mask a rank has the i-th and the i-th last of 2c parts, so that
//             pairs are shared evenly: pairs / c. exposed = max(0, hops - (c-1)/c attention)
//   Ulysses   (Jacobs et al. 2023) all-to-alls of queries, keys, values before, of the output after, the same backward;
//             attention has heads / c and all rows
//
// Experts, degree e (GShard, Lepikhin et al. 2021; Megatron's all-to-all dispatcher): a rank has E / e experts and the
// rows that are sent to them: rows active `expert_load`. A buffer of rows active h elements goes out and comes back in
// each pass. With tensor ranks (which need `sequence`, as in Megatron) a rank sends its rows / t, and what arrived is
// gathered in the tensor group. With whole experts (Megatron's --expert-tensor-parallel-size 1) tensor ranks are among
// the e, each with its rows / t and experts of its own: nothing is gathered or summed. Rows are sorted by expert once
// more where they arrive. That is a copy for each of a row's experts; DeepEP (github.com/deepseek-ai/DeepEP, normal
// kernels) and HybridEP send a row once to each place that has any of them: places_of_a_row / active of those elements
// (plan/parallel.h, ExpertDispatch).
//
// Limits: a list has no edges: a product is taken to read a part when it is as wide, unless a product of two follows it
// and not the activation (the up-projection of a gated MLP as wide as the model); layers without an operator (measured,
// fused) cannot be cut; convolutions, pools and recurrent layers are whole over a tensor group and are refused over a
// context group. Composed by plan/lower.h.
//
// Worked examples: linear 1024 -> 4096, gelu, linear 4096 -> 1024 over two ranks: 1024 -> 2048 by columns, gelu on
// 2048, 2048 -> 1024 by rows: half the FLOPs, one sum after the last product's forward, one after the first's backward.
// The same with `sequence`, 128 rows: an all-gather of 128 x 1024 before the first, a reduce-scatter of as much after
// the last; backward the other way round, and a gather more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ddlsim/primitives/collective_op.h"
#include "ddlsim/support/error.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::workload {

/// Who shares a layer's work, and how.
struct Cut {
  std::int64_t tensor = 1;
  bool sequence = false;  // what is whole over the tensor group is cut along the rows
  bool overlap = false;   // a product's pieces run beside its gather's or scatter's
  std::int64_t context = 1;
  bool ulysses = false;  // else a ring
  std::int64_t expert = 1;
  bool whole_experts = false;  // not cut over the tensor group, whose ranks are among those of experts
  double expert_load = 1;      // rows of the busiest rank's experts over the mean

  friend auto operator<=>(const Cut&, const Cut&) = default;
};

enum class Ranks { kTensor, kContext, kExpert };

/// Each row goes to `active` of a layer's experts.
struct Routing {
  std::int64_t experts = 0;
  std::int64_t active = 0;
};

/// On how many of equal places, each with its share of the experts, a row has any of its experts, on average: where all
/// choices are as likely, p (1 - C(E - E / p, a) / C(E, a)) for E experts, a of them active, on p places. Requires p to
/// divide E and a <= E. Example: 256 experts, 8 active: 3.61 of 4 places, 7.27 of 32.
[[nodiscard]] double places_of_a_row(const Routing& routing, std::int64_t places);

/// What a group of ranks sends around one layer.
struct Sent {
  Ranks among = Ranks::kTensor;
  primitives::CollectiveOp op = primitives::CollectiveOp::kAllReduce;
  std::int64_t elements = 0;  // per sample, as nccl-tests counts: a rank's buffer, or the gathered (scattered) total
  std::int64_t count = 1;     // so many of that size
  bool forward = true;        // in which pass
  bool before = false;        // the layer's kernels, else after them
  double beside = 0;          // of the layer's kernels in that pass, that run meanwhile
  bool fp32 = false;          // whatever the precision of activations
  Routing routing{};          // by which its rows are sent; none: they are not routed
};

/// One rank's part of a layer.
struct Shard {
  Layer layer;
  std::vector<Sent> sent{};
  bool experts = false;  // its weights are those of some experts alone
  bool on_rows = false;  // its weights see a part of the rows: their gradients are summed over the tensor group
};

/// Errors: kUnsupported for a layer without an operator, and for one without rows over a context group;
/// kInvalidArgument where a degree does not divide a size, with the degrees that would.
[[nodiscard]] Expected<std::vector<Shard>> shard(std::span<const Layer> layers, const Cut& cut);

}  // namespace ddlsim::workload
