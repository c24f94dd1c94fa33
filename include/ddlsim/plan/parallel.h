// How a model is split over ranks. `strategy` (plan/strategy.h) names the exchange of gradients among the replicas that
// are left; both are values of the job. What each split makes of a step is in plan/lower.h, what it makes of memory in
// plan/memory.h, in which order stages work in plan/order.h.
//
//   degree     ranks that                                              source
//   tensor     share every large matrix                                Megatron-LM, Shoeybi et al. 2019
//   context    share a sample's positions                              ring attention, Liu et al. 2023; Ulysses,
//                                                                      Jacobs et al. 2023
//   expert     share a layer's experts: ranks of the stage that have   GShard, Lepikhin et al. 2021; over tensor and
//              others' rows (ExpertRanks)                              context ranks too: MoE parallel folding, Liu et
//                                                                      al. 2025 (Megatron-Core)
//   pipeline   have a stage of the layers each                         GPipe, Huang et al. 2019
//   data       are replicas: GPUs / (tensor context pipeline); `zero` says what they share
// Worked examples: 64 GPUs, tensor 8, pipeline 4: 2 replicas; a batch (micro-batch) of 1 and 16 passes make a global
// batch of 32. 256 GPUs, tensor 2, pipeline 8, experts whole (expert_tensor 1) on 32 ranks: the 2 of each tensor group
// in all 16 replicas.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ddlsim/support/choices.h"
#include "ddlsim/workload/passes.h"

namespace ddlsim::plan {

/// The ways in which ranks differ.
enum class Axis { kTensor, kContext, kExpert, kData, kPipeline };
inline constexpr std::size_t kAxes = 5;

inline constexpr Choices<Axis, kAxes> kAxisNames{{
    {"tp", Axis::kTensor},
    {"cp", Axis::kContext},
    {"ep", Axis::kExpert},
    {"dp", Axis::kData},
    {"pp", Axis::kPipeline},
}};

/// Axes, innermost first: neighbours along an earlier one are nearer.
using AxisOrder = std::array<Axis, kAxes>;
inline constexpr AxisOrder kMegatronOrder{Axis::kTensor, Axis::kContext, Axis::kExpert, Axis::kData, Axis::kPipeline};

/// In which order a stage takes the passes of its micro-batches (plan/order.h).
enum class PipelineSchedule {
  kNone,                   // one micro-batch after the other, without overlap of stages: layer-wise model parallelism
  kGpipe,                  // all forward passes, then all backward ones (Huang et al. 2019)
  kOneForwardOneBackward,  // 1F1B: a stage keeps at most as many micro-batches as stages follow it, and its own
                           // (PipeDream-flush, Narayanan et al. 2021)
  kInterleaved,            // 1F1B with `virtual_stages` chunks of layers per rank (Narayanan et al. 2021)
  kZeroBubbleH1,           // weights' gradients apart, in the bubbles, at 1F1B's memory (Qi et al. 2024)
  kZeroBubbleH2,           // the same without a bubble, at twice its memory
  kZeroBubbleV,            // two chunks per rank in a V, without a bubble at 1F1B's memory (Qi et al. 2024, ZBV)
  kDualPipe,               // both directions at once, two copies of the weights (DeepSeek-V3 2024)
  kPipeDream,              // asynchronous 1F1B with stashed weights, no flush (Narayanan et al. 2019)
  kPipeDream2Bw,           // the same with two versions of the weights (Narayanan et al. 2021, PipeDream-2BW)
};

inline constexpr Choices<PipelineSchedule, 11> kPipelineSchedules{{
    {"none", PipelineSchedule::kNone},
    {"gpipe", PipelineSchedule::kGpipe},
    {"1f1b", PipelineSchedule::kOneForwardOneBackward},
    {"interleaved", PipelineSchedule::kInterleaved},
    {"zb-h1", PipelineSchedule::kZeroBubbleH1},
    {"zb-h2", PipelineSchedule::kZeroBubbleH2},
    {"zbv", PipelineSchedule::kZeroBubbleV},
    {"dualpipe", PipelineSchedule::kDualPipe},
    {"pipedream", PipelineSchedule::kPipeDream},
    {"pipedream-2bw", PipelineSchedule::kPipeDream2Bw},
    {"one-forward-one-backward", PipelineSchedule::kOneForwardOneBackward},
}};

/// Who has which part of attention where a sample's positions are shared.
enum class ContextBy {
  kRing,     // keys and values travel around the ring, block by block, beside attention
  kUlysses,  // all-to-all before and after attention: whole samples of a part of the heads
};

inline constexpr Choices<ContextBy, 2> kContextWays{{
    {"ring", ContextBy::kRing},
    {"ulysses", ContextBy::kUlysses},
}};

/// How a row of tokens gets to its experts on other ranks, and their outputs back.
enum class ExpertDispatch {
  kCopies,  // a copy for each of its experts: an all-to-all (Megatron's dispatcher `alltoall`)
  kOnce,    // one to each server that has any of them, and from there to each rank (DeepEP, HybridEP: `flex`)
};

inline constexpr Choices<ExpertDispatch, 2> kExpertDispatches{{
    {"copies", ExpertDispatch::kCopies},
    {"once", ExpertDispatch::kOnce},
}};

/// What is computed again in backward instead of kept.
enum class Recompute {
  kNone,
  kSelective,  // the core of attention (Korthikanti et al. 2023)
  kPerOp,      // blocks, but for attention and every other product (torchtitan, selective_ac_option "op")
  kFull,       // whole blocks, from their input
  kStage,  // all that a stage has, from what entered it (GPipe, Huang et al. 2019; torchgpipe's checkpoint="always")
};

inline constexpr Choices<Recompute, 5> kRecomputes{{
    {"none", Recompute::kNone},
    {"selective", Recompute::kSelective},
    {"per-op", Recompute::kPerOp},
    {"full", Recompute::kFull},
    {"stage", Recompute::kStage},
}};

/// Formats of what a rank keeps per parameter: weights + gradients + optimizer states (plan/memory.h has the bytes).
enum class States {
  kFp32,          // all of it in fp32
  kMixed,         // weights of 16 bits with an fp32 master copy, gradients in fp32 (Megatron-LM)
  kMixedSixteen,  // the same with gradients of 16 bits (ZeRO, DeepSpeed; DDP of bf16 models)
  kPureSixteen,   // all of it in 16 bits, no master copy (torchtune, LitGPT's bf16-true)
  kFp8,           // fp8 weights beside 16-bit ones, the rest as kMixed
  kFp8Primary,    // fp8 weights alone, the rest as kMixed (Megatron's --fp8-param-gather)
  kAdam8bit,      // as kMixedSixteen with states of 8 bits (Dettmers et al. 2022)
};

inline constexpr Choices<States, 9> kStates{{
    {"fp32", States::kFp32},
    {"mixed", States::kMixed},
    {"mixed-16", States::kMixedSixteen},
    {"mixed-bf16", States::kMixedSixteen},
    {"pure-16", States::kPureSixteen},
    {"pure-bf16", States::kPureSixteen},
    {"fp8", States::kFp8},
    {"fp8-primary", States::kFp8Primary},
    {"adam-8bit", States::kAdam8bit},
}};

/// Whether gradients are kept, and sent, in 16 bits.
[[nodiscard]] constexpr bool sums_sixteen(States states) {
  return states == States::kMixedSixteen || states == States::kPureSixteen || states == States::kAdam8bit;
}

inline constexpr Choices<workload::AdaptedProducts, 3> kAdaptedProducts{{
    {"qkv", workload::AdaptedProducts::kQkv},
    {"attention", workload::AdaptedProducts::kAttention},
    {"all", workload::AdaptedProducts::kAll},
}};

struct Parallel {
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 0;  // ranks that an expert is cut over: 1, it is whole (Megatron's
                                   // --expert-tensor-parallel-size), or as the other layers (0, `tensor`)
  std::int64_t pipeline = 1;
  AxisOrder order = kMegatronOrder;

  bool sequence = false;  // norms, dropout and residual sums are cut along the sequence in the tensor group
                          // (Korthikanti et al. 2023)
  ContextBy context_by = ContextBy::kRing;

  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  std::int64_t virtual_stages = 1;  // chunks of layers per rank, where the schedule is interleaved
  /// The first layer of every part but the first, as a micro-batch meets them (order.h); empty: of nearly equal work.
  std::vector<std::size_t> cuts{};

  /// What the data-parallel ranks share instead of keeping a copy each: 1 optimizer states, 2 gradients too, 3 weights
  /// too (ZeRO, Rajbhandari et al. 2020; FSDP).
  int zero = 0;
  std::int64_t shard_ranks = 0;  // that share; among groups of them there are copies (HSDP). 0: all data-parallel ranks
  std::int64_t prefetch = 1;     // zero 3: weights are gathered so many units (blocks) ahead
  bool reshard = true;           // zero 3: weights that were gathered for forward are dropped, and gathered again
  bool no_sync = false;          // zero 3: gradients of a step's passes add up whole and are scattered after the last;
                                 // without `reshard` weights are gathered once a step (PyTorch's pipelining of FSDP)
  bool overlap_gather = false;   // zero 1, 2: updated weights are gathered beside the next forward pass (Megatron's
                                 // --overlap-param-gather), else before it
  bool gather_fp8 = false;       // weights are gathered in 8 bits (Megatron's --fp8-param-gather)

  Recompute recompute = Recompute::kNone;
  std::int64_t recompute_every = 1;  // full: of every so many blocks
  std::int64_t recompute_first = 1;  // so many first are computed again (Megatron's --recompute-method block: of the
                                     // blocks of a stage)
  /// per-op, full: up to the input of a block's last product, whose output no gradient needs (PyTorch's checkpoint
  /// since 2.1, set_checkpoint_early_stop); else the whole block (Megatron-LM).
  bool recompute_stops = false;

  bool offload_optimizer = false;    // states and update on the host; gradients and weights cross PCIe
  bool offload_weights = false;      // zero 3, optimizer on the host: weights too, a rank's share is copied to the GPU
                                     // before every gather (FSDP's CPUOffload; DeepSpeed's offload_param)
  bool offload_activations = false;  // what is kept for backward goes to the host and comes back
  bool gated_fp8 = false;            // what a gated activation reads is kept in 8 bits (Megatron-Core's
                                     // activation_func_fp8_input_store); its casts cost no time here

  std::optional<States> states{};  // nothing: fp32, as automatic mixed precision keeps them

  bool overlap_tensor = false;  // pieces of a product run beside the collective of others (Megatron's
                                // --tp-comm-overlap; Wang et al. 2023)
  bool overlap_p2p = true;      // stages send beside their work (--overlap-p2p-communication)
  /// Tensor ranks that all hold what leaves a stage send a part of it each, and gather the rest (Narayanan et al., SC
  /// 2021, section 4.1; DeepSpeed's pipe_partitioned); else each sends the whole, as Megatron-Core does since 2023.
  /// With `sequence` each has its own rows anyway.
  bool scatter_gather = false;

  std::int64_t lora_rank = 0;  // adapters of that rank beside some products are trained, all else is frozen (Hu et al.
                               // 2021); 0: none
  workload::AdaptedProducts lora_products = workload::AdaptedProducts::kAttention;
  int frozen_bits = 0;          // of frozen products' weights, beside their scales: 8, 4 (QLoRA, Dettmers et al. 2023);
                                // 0: as `states` has them, where that is nothing as they are computed with
  double expert_capacity = 0;   // a rank's experts take at most this times their even share of tokens; 0: all that come
  double expert_imbalance = 1;  // the busiest rank's tokens over the mean
  ExpertDispatch expert_dispatch = ExpertDispatch::kCopies;
  std::int64_t expert_servers = 0;  // once: a row's experts are on at most so many servers (DeepSeek-V3's routing by
                                    // groups of nodes: 4; Megatron's --moe-router-group-topk); 0: on any

  friend bool operator==(const Parallel&, const Parallel&) = default;
};

/// Whether context ranks send their keys round, and attend to one rank's at a time.
[[nodiscard]] constexpr bool goes_round(const Parallel& parallel) {
  return parallel.context > 1 && parallel.context_by == ContextBy::kRing;
}

/// Whether gradients of several passes add up whole though ranks share them.
[[nodiscard]] constexpr bool keeps_gradients_whole(const Parallel& parallel, std::int64_t passes) {
  return parallel.no_sync && parallel.zero == 3 && passes > 1;
}

/// Whether gradients leave for the host as they are made, in every pass, and are summed there (ZeRO-Offload, Ren et al.
/// 2021, of stages 2 and 3); else they stand on the GPU until the step's end (Megatron-LM's --optimizer-cpu-offload).
[[nodiscard]] constexpr bool leave_for_host(const Parallel& parallel) {
  return parallel.offload_optimizer && parallel.zero >= 2;
}

/// Whether an expert is whole where other layers are cut over a tensor group.
[[nodiscard]] constexpr bool has_whole_experts(const Parallel& parallel) {
  return parallel.tensor > 1 && parallel.expert_tensor == 1;
}

/// Whether other ranks have the same experts than have the same of the other layers.
[[nodiscard]] constexpr bool parts_experts(const Parallel& parallel) {
  return parallel.expert > 1 || has_whole_experts(parallel);
}

/// How many ranks of each axis share a layer's experts, as Megatron-Core numbers them (parallel_state.py: groups of
/// experts are neighbours, those that an expert is cut over apart): of a tensor group where experts are whole, then of
/// a context group, then replicas.
struct ExpertRanks {
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t data = 1;
};

/// Nothing where ranks do not share experts evenly. Where a degree neither divides nor is a multiple of the context
/// degree, replicas alone share them.
[[nodiscard]] std::optional<ExpertRanks> expert_ranks(const Parallel& parallel, std::int64_t replicas);

/// The expert degrees that have some, ascending, up to 1,024.
[[nodiscard]] std::vector<std::int64_t> expert_degrees(const Parallel& parallel, std::int64_t replicas);

/// Copies of rows that the busiest rank's experts work on over an even share of all that are routed.
[[nodiscard]] double expert_load(const Parallel& parallel);

/// The share of routed copies that experts work on; 1: none is dropped. Of ranks that are busier than others it counts
/// as if none were.
[[nodiscard]] double expert_share(const Parallel& parallel);

/// Whether more than whole replicas that exchange gradients take part: ranks that share a replica or its states, or
/// states in the formats of those who do (Megatron's buffers, not DDP's buckets).
[[nodiscard]] bool takes_ranks(const Parallel& parallel);

/// Whether anything of the model, its states or its samples is split.
[[nodiscard]] bool splits_model(const Parallel& parallel);

}  // namespace ddlsim::plan
