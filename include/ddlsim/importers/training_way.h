// How frameworks trained language models at some time, each from its code or documentation: what a published case
// leaves unsaid (sim/whatif/cases), and what a launch file does not say (importers/launch_file.h). Both read one table,
// so that an imported job is taken as the published run of its framework is.
//
// Names are a framework's own in lower case ("torchtitan (pytorch fsdp2)"); the first row whose words all stand in it,
// of releases before its year, counts.
// Limits: of a framework without a row what Megatron-LM does without more flags is assumed.
// Example: way_of("torchtitan") has states `mixed`, gradients `fp32`, attention `sdpa`; runs_fused_blocks() of it is
// unknown, of "torchtitan (pytorch fsdp2)" false.
#pragma once

#include <optional>
#include <string_view>

#include "ddlsim/support/units.h"

namespace ddlsim::importers {

/// What a framework sends beside kernels.
enum class Beside {
  kNothing,    // gradients after backward, weights after the update
  kGradients,  // beside backward
  kWeights,    // updated weights beside forward too
  kAll,        // tensor groups' rows too, and weights in 8 bits where products take them so
};

inline constexpr double kEver = 0;  // years
inline constexpr double kNever = 3000;
inline constexpr double kNewest = 2999;  // where nobody says which release

/// How a framework trained language models at some time.
struct TrainingWay {
  std::string_view names;  // words of the framework's name, in lower case, all of which stand in it
  double until;            // of releases before that year; kNever: of all later ones
  double fused_since;      // when attention became one kernel (FlashAttention, or cuDNN's) unless told otherwise
  bool sequence;           // norms along the sequence in the tensor group, where there is one
  Beside beside;
  int zero;                    // what its usual optimizer shares
  std::string_view states;     // of 16-bit training (plan::States)
  std::string_view gradients;  // the format they are summed in
  std::string_view attention;  // its kernel, where attention is fused (primitives::AttentionKernel)
  bool stops_early;            // plan::Parallel::recompute_stops
  std::string_view source;
};

/// The way of a framework at the time of a release; the last row of the table where none is known.
[[nodiscard]] const TrainingWay& way_of(std::string_view framework, double year = kNewest);

/// Whether a framework's FSDP stages keep weights and gradients whole over the passes of a step (plan::Parallel::
/// no_sync): those of torch.distributed.pipelining (its stage.py: set_requires_gradient_sync(False),
/// set_reshard_after_backward(False) up to the last pass), as torchtitan's are.
[[nodiscard]] bool syncs_stages_once(std::string_view framework);

/// Whether a framework's transformer blocks run as fused kernels. Megatron and NeMo fuse (masked softmax, bias and
/// GELU, norms: NVIDIA/Megatron-LM megatron/core/fusions), and so does XLA in JAX; InternEvo (Apex's and flash-attn's
/// kernels) and MosaicML's Composer (norms in 16 bits, no dropout: bench/accuracy/README.md) count with them, and so
/// does NeMo AutoModel, which patches models with Liger's kernels or has its own with TransformerEngine's
/// (nemo_automodel/_transformers/auto_model.py; docs/performance-summary.mdx, glossary); PyTorch,
/// Hugging Face, TensorFlow, PaddlePaddle and MXNet run single operators. Nothing for others, for DeepSpeed, whose
/// engine runs either, and for OneFlow, whose BERT has residual sums fused and nothing else (OneFlow-Benchmark
/// LanguageModeling/BERT/util.py: enable_fuse_add_to_output).
[[nodiscard]] std::optional<bool> runs_fused_blocks(std::string_view framework);

/// Between two kernels that the CPU issues, of frameworks whose blocks are trees of Python modules, each with checks,
/// autograd functions and streams of its own (Megatron's with TransformerEngine, nanotron's): a pass of few tokens
/// waits for them. Three times what eager PyTorch takes a kernel: `none` of their rows whose passes wait (five sources,
/// 2021 to 2026) is best at 60 to 80 us, and 20 us is half as long as measured (bench/accuracy/README.md). Nothing for
/// others. A job under CUDA graphs waits for no launch (plan::Job).
[[nodiscard]] std::optional<Time> module_launch_interval(std::string_view framework);

/// Whether a framework had passes of one step whose gradients add up at that time, without pipelines: Megatron-LM since
/// v2.0 (December 2020); others had, or nobody asks.
[[nodiscard]] bool accumulates(std::string_view framework, double year = kNewest);

/// Whether tensor ranks send a part each between stages, and gather it (plan::Parallel::scatter_gather). Megatron-LM by
/// default from June 2021 (bigscience-workshop's fork of then: --no-scatter-gather-tensors-in-pipeline; before, it had
/// to be asked for) until its stages moved to its core in 2023 (NVIDIA/Megatron-LM #4140); NeMo's stages until then
/// (apex transformer/pipeline_parallel/p2p_communication.py); DeepSpeed (pipe_partitioned), PaddlePaddle
/// (enable_partial_send_recv) and Alpa (Zheng et al., OSDI 2022: local all-gather) always (recalled). Others are taken
/// to send the whole.
[[nodiscard]] bool scatters_between_stages(std::string_view framework, double year = kNewest);

}  // namespace ddlsim::importers
