// From a job to its step's plan: one function per way of splitting work, which compose. Nobody above this room asks
// which strategy it was.
//
//   data parallel   one class of alike replicas (two where some GPUs are slower), gradients as rows (plan/messages.h):
//                   all-reduced in the data group, or pushed to servers and pulled
//   PEARL           embeddings with sparse gradients of `spread_from` and more stand evenly divided among all GPUs;
//                   what is smaller and the other weights are replicated (Wang et al., IISWC 2019; today's TorchRec and
//                   HugeCTR). Tables that follow each other are one lookup (workload/fusion.h). A GPU looks up its rows
//                   for everybody's samples, on average as many as its own samples have; sums of rows go to whose
//                   samples they are by an all-to-all, needed by the next concat (where there is none, the next layer),
//                   and their gradients go back. Rows that a step touches are updated where they stand. Limits: even
//                   shares (no planner's table-wise imbalance), as if no two samples touched the same row; ids travel
//                   beside the step before
//   tensor (t), context (c), expert (e), sequence
//                   every layer is cut by rule (workload/shard.h), which also says what its ranks send and beside what;
//                   rows in the way of kernels. Experts' gradients are summed by the ranks that have the same experts,
//                   with tensors cut along rows the norms' over the tensor group once a step
//   zero 1, 2       gradients are reduce-scattered in the messages that the strategy makes of them (once a step, or in
//                   every pass as DeepSpeed's stage 2 does), weights all-gathered: after the update, or beside the next
//                   forward pass until the layer that needs them (Rajbhandari et al., SC 2020; Megatron-LM's
//                   distributed optimizer, --overlap-param-gather)
//   zero 3          weights are gathered before each unit's forward and, dropped in between (`reshard`), backward,
//                   `prefetch` units ahead; gradients scattered unit by unit in every pass, or whole until the last one
//                   (`no_sync`: torch/distributed/pipelining/stage.py, which with FSDP gathers weights once a step). A
//                   unit is a block (workload/blocks.h), or what stands between blocks; the last one's weights, which
//                   backward begins with, are not gathered twice. Weights travel in 16 bits where `states` keep such a
//                   copy, gradients in the strategy's format, or in 16 bits where states say so
//   shard_ranks     the innermost so many replicas share; after every scatter its copies are all-reduced (HSDP); of the
//                   copies of an expert those that such replicas hold share it
//   pipeline (p)    a class per rank of the pipeline, with one stage or several parts of the model (plan/order.h);
//                   activations and their gradients cross in every micro-batch, over NVLink or the
//                   network as that boundary's servers say: every tensor rank sends its rows (`sequence`), a part of
//                   them (`scatter_gather`), or all of them. Eight ranks of 16 x 2,048 rows of 2,304 in 16 bits send
//                   151 MB, or 1.2 GB through one port. A head that is tied to the first stage's table has a copy on
//                   the last one, and both sum its gradients once a step
//   offload         gradients go to the host, the host updates, weights come back (ZeRO-Offload, Ren et al. 2021), or
//                   stay there, and a rank's share is copied before every gather (FSDP's CPUOffload); activations of a
//                   block follow its forward out and come back a block ahead of its backward
//   recomputation   forward kernels, and what ranks send around them, again in backward (workload/passes.h)
//   LoRA            adapters alone have gradients (workload/passes.h)
//   one process     torch.nn.DataParallel: the batch to GPU 0 and on to the others in turn, weights broadcast and
//                   gradients reduced in buffers of 10 MiB, outputs and their gradients in turn, all in the way. The
//                   remedies of Xu et al. (WWW 2021): split_on_host copies every GPU's part from the host, preload
//                   copies beside the step before, parameter_compression c broadcasts weights / c and reads and writes
//                   them twice for it. Limits: no wait of its threads for Python's lock; the loss stays where its
//                   layer is
// The data-parallel degree is what the others leave: GPUs / (t c p). Experts are shared by neighbours among these ranks
// (plan/parallel.h, ExpertRanks). Ranks fill servers in
// `order`, its first axis innermost: `group_along` says how many of a group share a server, and how many groups share
// its ports.
//
// Stages are cut between a model's alike blocks, as many for each where that works out, what stands before the blocks
// and behind them counted as nothing or as one each (plan/stage_cuts.h); otherwise so that the heaviest, by FLOPs or,
// without blocks of attention, by what FLOPs and bytes take on the GPU, is as light as possible.
// DualPipe keeps two copies of every stage, so twice as many ranks share a gradient.
//
// Memory per class is lowered beside the rows (plan/memory.h), so that time and memory never disagree about who holds
// what. Limits: layers that keep no operator (measured, fused before) are not cut; parameter servers, PEARL, priority,
// fusion by cycles and ideal overlap do not compose with splits of the model; sharded gradients are not compressed.
//
// Worked examples (tests: test/unit/plan): two layers with gradients of 10 MB each, 25 MiB buckets, four GPUs: one
// class of 4 ranks, one group of 4, one row of 20 MB ready after backward of layer 0. A transformer block cut in two: 4
// rows in the way, after forward of the attention's and the MLP's last product and after backward of their first. Four
// layers under zero 3 on 4 GPUs: 7 gathers of a layer's weights / 4 per rank, 4 reduce-scatters. 8 experts over 4 of 8
// replicas, 2 per row: 4 all-to-alls of rows x 2 / 4 to each rank, and experts' gradients summed in pairs. 16 rows of
// keys and values over 4 context ranks: 3 hops of 4 rows' forward, twice as much backward. Two tables of 1e6 rows of 16
// on 4 GPUs, 10 samples each of one row a table, fp32: one all-to-all of 10 x 32 x 4 B / 4 = 320 B to each rank
// forward, one back, and 2 x 40 x 16 / 4 = 320 elements updated by each.
#pragma once

#include <string_view>

#include "ddlsim/plan/job.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"

namespace ddlsim::plan {

/// Errors: kUnsupported for a model without layers, for measured layers that would be cut, and for settings
/// that contradict each other; kInvalidArgument for degrees that do not divide GPUs, layers or a layer's sizes.
[[nodiscard]] Expected<StepPlan> lower(const Job& job);

/// The model as its kernels run: fused where the job says so. Errors: kInvalidArgument where totals overflow.
[[nodiscard]] Expected<std::shared_ptr<const workload::Model>> model_as_run(const Job& job);

/// How a model that says nothing else is trained: as its source did, else by all-reduce.
[[nodiscard]] StrategyKind default_strategy(const workload::Model& model);

/// "all-reduce": the strategy in a word.
[[nodiscard]] std::string_view word_for(const Strategy& strategy);

/// Whether weights are held by servers beside the ranks.
[[nodiscard]] bool has_servers(const Strategy& strategy);

/// What a pass moves of a GPU's memory, per parameter, to add its gradients to those of the passes before: nothing
/// where a step is one pass, a share where ranks sum gradients in every pass and keep a share each (zero 2 and 3).
///   fp32 gradients of automatic mixed precision, fp32   12 B: a kernel reads both and writes one (autograd's
///                                                       AccumulateGrad)
///   16-bit gradients                                    6 B: likewise
///   fp32 main gradients beside 16-bit weights           3 B: in the weights' product itself (Megatron's
///     gradient_accumulation_fusion): reads and writes 4 each, where 2 were written; half of it is hidden under
///     arithmetic (products of MooreThreads/SimuMax configs/system: 4 to 7 % longer at 4096 rows, not 8 to 14)
/// Every pass adds, the first to zeros: so Megatron's buffer has it, and PyTorch before 2.0, whose zero_grad kept the
/// tensors; later ones keep what the first pass makes, which saves one of n additions.
[[nodiscard]] DataSize accumulated_per_parameter(const Job& job);

/// Whether the model has tables that PEARL could spread: layers with sparse gradients.
[[nodiscard]] inline bool has_tables(const Job& job) { return !job.model->totals.sparse_tables.empty(); }

/// Whether large tables stand divided among the GPUs (PEARL).
[[nodiscard]] bool spreads_tables(const Job& job);

}  // namespace ddlsim::plan
