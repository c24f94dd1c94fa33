// What one GPU holds in a step: a ledger of tensors, from the same plan as the step's time.
//
// Per parameter, in bytes (plan/parallel.h, States; n = states of the optimizer, Adam's 2):
//   states          weights  gradients  master copy  optimizer   source
//   fp32            4        4          -            4 n         what automatic mixed precision keeps as well
//   mixed           2        4          4            4 n         Megatron-LM with fp32 gradients (18 with Adam)
//   mixed-16        2        2          4            4 n         ZeRO, Rajbhandari et al. 2020 (16 with Adam)
//   pure-16         2        2          -            2 n         torchtune (dtype: bf16), LitGPT (precision: bf16-true)
//   fp8             3        4          4            4 n         fp8 weights beside 16-bit ones (Transformer Engine)
//   fp8-primary     1        4          4            4 n         Megatron-LM's --fp8-param-gather (no copy of 16 bits)
//   adam-8bit       2        2          4            n           Dettmers et al. 2022
// ZeRO over d ranks leaves a rank 1/d of master copy and optimizer (1), of the gradients (2), of the weights (3); an
// expert's states are shared by the ranks that have it. An offloaded optimizer keeps both on the host, with
// fp32 weights and gradients; with ZeRO 2 and 3 gradients leave as they are made, two layers' stand, with ZeRO 1 and
// without it (which DeepSpeed does not offload) all of them stand where they are summed. Offloaded weights are on the
// host too: a GPU has those that it gathers, in their buffers. LoRA of rank r: gradients and states of r (in + out)
// parameters per product that has an adapter; where nobody states a format the frozen weights are held as they are
// computed with (`frozen_weight`). Servers hold optimizer and sparse tables.
//
// Activations: what each operator's backward reads, once per tensor, of a micro-batch; e = 2 bytes, fp32 4:
//   product                e input, unless another reader has kept it (queries, keys and values read one tensor). Where
//                          blocks are fused and products take 8 or 4 bits, 1 or 1/2 byte: the copy in them that
//                          Transformer Engine saves (pytorch/module/linear.py; block scales, 3 %, aside). Not of the
//                          head, of routing, nor beside adapters, which read 16 bits
//   norm                   e input, 4 or 8 per row
//   attention, several     e (queries + keys + values + output), and of its core (2 e + 1) scores: softmax, its output
//     kernels              after dropout, a mask of bytes; where the model has no dropout e scores. A softmax in fp32
//                          (T5's; transformers' Llamas) 4, and e its copy for the product
//   attention, one kernel  e (queries + keys + values + output) + 4 per row and head
//   biased, software.fused no, since 2026 (T5 of transformers by scaled_dot_product_attention; a trained bias takes
//                          _scaled_dot_product_attention_math of aten/native/transformers/attention.cpp, in fp32):
//                          4 (queries + keys + values), e output, of the scores 4 softmax, 4 after dropout, a mask
//   both, under autocast   norm 4 input; of the scores 4 softmax, a mask, e the copy that its product reads
//                          (torch.autocast keeps fp32 for layer_norm and softmax; states fp32, software.fused no). Of
//                          what a norm made every product that reads it keeps an e of its own: weights' casts alone are
//                          remembered (cached_cast of autocast_mode.cpp)
//   gelu, silu, ...        e input          product of two (swiglu)   e both
//   single operations      (software.fused no: PyTorch's models without fused kernels) RMSNorm 4 input, e what its
//                          weights scale (4 under autocast); swiglu 3 e; gelu_new 4 e (under autocast 12 + e: what is
//                          raised to a power, its tanh, 1 + tanh, half the input); quick_gelu 2 e (input, sigmoid)
//   dropout                1 a mask         sums, rotary, relu, tanh  nothing (what comes out is the next one's input);
//                          relu and tanh e their output before a dropout or a scaling, which make another
//   experts                e rows active (width + 3 inner): sorted rows, both first products, the activation; a tensor
//                          share of it where experts are whole and tensor ranks have rows of their own
//   others                 e what the operator saves (workload/op.h)
// Networks of convolutions go by tensors, each kept once, in e, where the operator that makes it or one that reads it
// needs it (derivatives.yaml of PyTorch); a layer reads the nearest output before it of its input's size:
//   its input: convolution, linear, norms, pool, gelu, silu, hardswish, relu6, both factors of a product
//   its output: relu, tanh, sigmoid, softmax. Relu works in place: nothing is left of the norm before it
//   neither: sum, concatenation, mean over a map. Besides: of a maximum's output 8 (int64: where it was), a mask of 1 a
//   number; under autocast layer norm and softmax 4 (copies in fp32). The batch stands as it was copied to the GPU too.
// Where products of 16 bits read weights of 32 (states fp32), 2 a weight of a product until its backward, whatever the
// batch: torch.autocast keeps its casts (aten/src/ATen/autocast_mode.cpp); with zero 3, weights are gathered so
// instead. Not those of experts, nor quantised ones; one set, however many micro-batches are in flight. Checked by
// bench/calibrate/measured: most that PyTorch allocated, in 410 steps of 84 models on H200 and H100. A block of a GPT
// is so s b h (34 + 5 a s / h) bytes, its tensor share s b h (10 + 24/t + 5 a s / (h t)), with sequence parallelism
// everything / t: table 2 of Korthikanti et al., MLSys 2023, to the byte (dropout counted). With adapters (LoRA) frozen
// products without one keep no input, experts their first products alone. Context ranks have 1/c of all. Recomputation:
// selective drops the cores; full keeps a block's input, per-op that and the outputs that are not computed again; both
// have one block besides while its backward runs, up to where that is; stage keeps what enters a stage, and has all of
// that stage for the one micro-batch in backward. As many micro-batches stand as the schedule keeps (plan/order.h);
// offloaded activations leave two blocks.
//
// The peak is over the layers of the oldest micro-batch's backward: what is kept below it (where gradients are tensors
// of their own and passes are not summed, those of the layers above it instead of all), plus what the layer's own
// backward needs: gradients of its output, input and largest weight, the head's logits in e and once more in 4 bytes
// (softmax of the loss; e beside them where a tanh caps them); where it runs as single operations in fp32 (torch's
// cross_entropy of logits.float()) 12 bytes each: the copy, its log-softmax, its gradient; of encoders, whose logits
// nothing makes fp32, 3 e, under autocast 8 + e (log_softmax reads 16 bits and makes 32); gradients of the head's
// weight and input come when two of the three are gone (plan/lowerer.h, beside_loss). A step's end may
// need more: 16-bit gradients once more as fp32 (FP16_Optimizer of DeepSpeed), a value of every parameter where an
// optimizer's operations run over all tensors (torch.optim, foreach: the square root). Buffers: DDP's buckets, a copy
// of all gradients (torch/nn/parallel/distributed.py, gradient_as_bucket_view=False; a split model's gradients are
// their own buckets); Horovod's fusion buffer; with zero 3 the gathered weights of `prefetch` + 1 units in a row and
// the gradients of one, without `reshard` those of all units, with `no_sync` all gradients whole; what stages receive,
// two of each kind.
//
// On top of tensors (`device_overhead`): the CUDA context with NCCL's buffers, and what the caching allocator holds and
// does not use, less of it where there is no room for more (kLeastSlack). Both come out of `memory_size`, the total
// that CUDA gives: a process on an H200 of 139.83 GiB had 139.22 of tensors when nothing was left
// (pytorch/pytorch#150096). What the driver itself keeps (nvidia-smi's memory.reserved) is not in that total, and in no
// line here. Not counted: workspaces of libraries, buffers of all-gathers within a tensor group (both under 1 %; of
// cuDNN in strict fp32 up to a quarter of all). A model known by its features alone, or by measured times, has no
// activation count: `complete` is false and the size a lower bound. Used by plan/lower.h.
//
// Worked example: Llama 3 70B's block (h 8192, 64 heads of 128, 8 of keys, inner 28672), 4096 tokens, 2 bytes, in units
// of 64 MiB = 2 s h: norm 1, q/k/v's input 1, queries 1, keys and values 1/4, output 1, norm 1, gate and up's input 1,
// both 7, their product 3.5: 16.75, 1072 MiB, and 1 MiB of attention's row sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/plan/parallel.h"
#include "ddlsim/plan/strategy.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::plan {

/// Of all tables with sparse gradients, what one rank has: elements, and elements of the rows that a step of `samples`
/// a rank gives it gradients for. PEARL spreads tables evenly, each rank looks up its rows for the samples of all.
struct TableShare {
  double held = 0;
  double touched = 0;
};
[[nodiscard]] TableShare table_share(const workload::Model& model, const Strategy& strategy, std::int64_t ranks,
                                     std::int64_t samples);

struct MemoryFootprint {
  DataSize weights{};
  DataSize gradients{};        // that stand when the rest is most
  DataSize gradients_later{};  // made while activations leave: in no sum
  DataSize master{};           // fp32 copies of weights in fewer bits
  DataSize optimizer_state{};
  DataSize weight_casts{};   // copies of fp32 weights in 16 bits, that products read until their backward
  DataSize activations{};    // kept for backward, of all micro-batches in flight, when the sum is largest
  DataSize loss{};           // logits and their softmax
  DataSize working{};        // gradients of activations and of one weight
  DataSize buffers{};        // of communication
  DataSize host{};           // what waits in the host's memory: in no sum
  double micro_batches = 0;  // in flight; parts of a rank's layers count as their share
  bool complete = true;

  /// What is gone when weights are updated.
  [[nodiscard]] DataSize passing() const { return weight_casts + activations + loss + working; }
  /// Of tensors.
  [[nodiscard]] DataSize total() const { return weights + gradients + master + optimizer_state + passing() + buffers; }
};

/// What of a GPU's memory no tensor has.
struct DeviceOverhead {
  DataSize context{};  // CUDA, and communicators
  DataSize slack{};    // held by the allocator

  [[nodiscard]] DataSize total() const { return context + slack; }
};

/// "around 400MB" with CUDA 11.7 and later, whose kernels load when they are used (pytorch/pytorch#109888).
inline constexpr DataSize kCudaContext = megabytes(400);
/// Before that all kernels were loaded: ">1000MB" (pytorch/pytorch#107667); PyTorch 1.13 loads them when they are used
/// (pytorch/pytorch#86509).
inline constexpr DataSize kCudaContextBefore = megabytes(1000);
inline constexpr double kLoadsLazily = 2022.8;
/// NCCL's buffers where a model is split: nvidia-smi's memory.used minus PyTorch's max_reserved on one of 4 or 64 GH200
/// was 2922, 3156, 3883, 3897 MiB with the context (eth-easl/sailor@16eebd4,
/// Planner/baselines/Aceso/aceso_validation_clariden/runtime/OPT-350/memory/csv); their middle, less the context.
inline constexpr DataSize kCommunicators = mebibytes(3520) - kCudaContext;
/// Of whole models: one communicator of the four that Megatron opens (data, tensor, model, world).
inline constexpr double kOneOfCommunicators = 0.25;
/// PyTorch's max_reserved over max_allocated: 1.03, 1.054, 1.060, 1.085 there; 1.03 to 1.08, in the middle 1.065, on
/// 8 B200 (MooreThreads/SimuMax@4dcaae5, docs/b200). Reserved memory is in no test.
inline constexpr double kAllocatorSlack = 0.06;
/// What of that stays where memory is short: when an allocation fails PyTorch gives cached blocks back and tries again
/// (c10/cuda/CUDACachingAllocator.cpp, release_cached_blocks). Reserved and not allocated when that failed too: 0.1,
/// 0.4, 0.7, 2.4, 2.4, 2.7, 4.1, 44, 51 % of what was reserved (GitHub issues microsoft/unilm#137,
/// pytorch/pytorch#150096, Strawberry-Eat-Mango/PCT_Pytorch#27, perrying/ssn-pytorch#11, Kunhao-Liu/StyleGaussian#11,
/// CompVis/taming-transformers#194, TencentARC/BrushNet#81, carolchenyx/MGFN.#35, murong-xu/CADS#4); the middle one.
inline constexpr double kLeastSlack = 0.024;

/// `room`: of the GPU.
[[nodiscard]] DeviceOverhead device_overhead(const MemoryFootprint& footprint, std::int64_t gpus, bool split,
                                             DataSize context = kCudaContext, DataSize room = DataSize::infinity());
struct Job;
struct StepPlan;
[[nodiscard]] DeviceOverhead device_overhead(const MemoryFootprint& footprint, const Job& job);

/// What a job needs where it needs the most, and what is there: whether it fits is asked here, and nowhere else.
struct Needed {
  MemoryFootprint tensors{};  // of the fullest GPU
  DeviceOverhead overhead{};
  std::string rank;          // whose
  DataSize capacity{};       // of a GPU
  DataSize host{};           // what waits in the memory of the fullest server: of several one is taken to have ranks of
                             // the stage alone that has most there
  DataSize host_capacity{};  // zero: nobody says

  [[nodiscard]] DataSize all() const { return tensors.total() + overhead.total(); }
  [[nodiscard]] bool gpu_fits() const { return all() <= capacity; }
  [[nodiscard]] bool host_fits() const { return host_capacity == DataSize::zero() || host <= host_capacity; }
  [[nodiscard]] bool fits() const { return gpu_fits() && host_fits(); }
  /// Whether it fits because the allocator has less than it usually holds.
  [[nodiscard]] bool is_tight() const { return fits() && overhead.slack < tensors.total() * kAllocatorSlack; }
  /// How many times what is there: of the GPU or of the host, whichever lacks more.
  [[nodiscard]] double times() const {
    return std::max(all() / capacity, host_capacity == DataSize::zero() ? 0.0 : host / host_capacity);
  }
};
[[nodiscard]] Needed needed_by(const Job& job, const StepPlan& plan);
/// Of a job without a plan, whose GPUs all hold the same.
[[nodiscard]] Needed needed_by(const Job& job, const MemoryFootprint& held);

/// Whether gradients are made as backward goes, while activations leave: tensors of their own (zero_grad of PyTorch 2.0
/// and later leaves none of them) that no buffer holds from the start, as Megatron's and ZeRO's first stages do
/// (replicas too, where their states are as Megatron's or wait on the host), nor an earlier pass. `zero`, `passes`: of
/// the job's splits, whatever it says itself.
[[nodiscard]] bool makes_gradients_in_turn(const Job& job, int zero, std::int64_t passes);

/// Of a model that is not split.
[[nodiscard]] MemoryFootprint memory_footprint(const workload::Model& model, const Strategy& strategy,
                                               std::int64_t gpus, std::int64_t batch, Precision precision);

/// How a rank's activations are cut, and in what format they are.
struct ActivationCut {
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  bool sequence = false;
  std::int64_t batch = 1;
  Precision precision = Precision::kFp32;
  double expert_load = 1;      // of the busiest rank's experts (plan/parallel.h)
  bool single = false;         // single operations, each of which keeps what it needs: losses in fp32, norms, swiglu
  bool whole_experts = false;  // whose rows tensor ranks share (plan/parallel.h)
  bool autocast = false;       // operators choose their formats: norms and softmax of attention are in fp32
  bool casts = false;          // products read 16-bit copies of weights of 32
  std::optional<workload::AdaptedProducts> adapters{};  // alone are trained: a product without one keeps no input
  bool composed = false;   // attention with biased scores is PyTorch's of single operations, in fp32
  bool quantised = false;  // products keep what they read in their own 8 or 4 bits
  bool gated_fp8 = false;  // plan::Parallel::gated_fp8

  friend auto operator<=>(const ActivationCut&, const ActivationCut&) = default;
};

/// What one layer leaves for its backward, and what that needs besides.
struct KeptActivations {
  DataSize always{};
  DataSize casts{};    // of its weights, in the format of a product: until its backward, whatever the batch
  DataSize core{};     // of attention: dropped by selective recomputation
  DataSize loss{};     // logits and their softmax
  DataSize working{};  // gradients of input and output
  DataSize output{};   // what a product or attention makes
};

/// Of every layer of a whole model, as one rank has it, for one micro-batch. `layers` are not cut.
[[nodiscard]] std::vector<KeptActivations> kept_activations(std::span<const workload::Layer> layers,
                                                            const ActivationCut& cut);

/// A block's weights, gathered, and the gradients of those that are trained.
struct GatheredUnit {
  DataSize weights{};
  DataSize gradients{};
};
/// What zero 3 holds of units that stand in a row, when it is most: those that `prefetch` and the one at work take, and
/// that one's gradients.
[[nodiscard]] DataSize most_gathered(std::span<const GatheredUnit> units, std::int64_t prefetch);

/// Bytes of a parameter.
struct StateSizes {
  DataSize weight{};
  DataSize gradient{};
  DataSize master{};
  DataSize optimizer{};
};

[[nodiscard]] StateSizes state_sizes(States states, workload::Optimizer optimizer);

/// Of a weight beside adapters: what it is computed with, where nobody stated a format (PEFT casts adapters of 16 bits
/// to fp32 and leaves the model as it was loaded, cast_adapter_dtype; torchtune's and NeMo's LoRA recipes load it in
/// bf16); as a `trained` one where somebody did, and in models whose first layers are frozen (torch.autocast).
[[nodiscard]] DataSize frozen_weight(const Job& job, DataSize trained);

}  // namespace ddlsim::plan
