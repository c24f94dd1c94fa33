#include "ddlsim/importers/training_way.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace ddlsim::importers {
namespace {

/// The first row whose words all stand in the framework's name, or in its repository of results, counts.
/// Where gradients are reduced in 16 bits they stand in 16: Megatron-Core's buffers have the format that is reduced
/// (core/distributed/distributed_data_parallel.py: grad_dtype), and its optimizer makes a rank's share fp32 for the
/// update (core/optimizer/distrib_optimizer.py): mixed-16.
constexpr auto kWays = std::to_array<TrainingWay>({
    {"sailor", kNever, kNever, false, Beside::kNothing, 0, "mixed-16", "fp16", "best", false,
     "eth-easl/sailor: Megatron-DeepSpeed without --use-flash-attn, zero_optimization {}"},
    {"megatron deepspeed", kNever, kNever, false, Beside::kNothing, 1, "mixed-16", "fp16", "best", false,
     "bigscience-workshop/Megatron-DeepSpeed: ZeRO-1, fused softmax, no FlashAttention (tr11-176B-ml)"},
    {"deepspeed zero-3", kNever, 2023.95, false, Beside::kNothing, 3, "mixed-16", "fp16", "best", false,
     "DeepSpeed ZeRO-3: bigscience experiments/gpt2.md; scaled_dot_product_attention of transformers since 4.36"},
    {"deepspeed", kNever, 2023.95, false, Beside::kNothing, 1, "mixed-16", "fp16", "best", false,
     "DeepSpeed's engine with somebody's model: attention as in transformers, whose models most train"},
    {"megatron-bridge", kNever, kEver, true, Beside::kAll, 1, "mixed-16", "bf16", "best", false,
     "NVIDIA-NeMo/Megatron-Bridge scripts/performance/configs @ 2a0d46e: distributed optimizer, sequence parallel, "
     "grad_reduce_in_fp32 False, tp_comm_overlap; training/mixed_precision.py: fp8_param_gather; docs: communication "
     "overlap"},
    {"megatron-llama", kNever, kNever, true, Beside::kGradients, 1, "mixed", "fp32", "best", false,
     "alibaba/Megatron-LLaMA @ 46ae7dde overlapped_dist_optimizer.py: gradients beside backward, weights gathered "
     "after "
     "the update; arguments.py: --use-flash-attn is off unless given"},
    {"megatron-lm v0.12", kNever, kEver, true, Beside::kNothing, 1, "mixed", "fp32", "best", false,
     "MooreThreads/SimuMax A100 runs (simu_tools/megatron_scripts/scripts/run_pretrain_llama3.sh): "
     "--use-distributed-optimizer without --overlap-grad-reduce, --sequence-parallel, TransformerEngine 2.1"},
    {"megatron-lm transformerengine", kNever, kEver, true, Beside::kNothing, 1, "mixed", "fp32", "best", false,
     "MooreThreads/SimuMax, likewise with TransformerEngine 2.11; docs/b200/b200_real_repro_guide.md: nothing "
     "overlaps"},
    {"megatron-lm (2022)", kNever, kNever, false, Beside::kNothing, 0, "mixed", "fp16", "best", false,
     "Korthikanti et al., MLSys 2023: no data parallelism; sequence parallelism where the row says so"},
    {"megatron-lm", 2024, kNever, false, Beside::kNothing, 0, "mixed", "fp16", "best", false,
     "Narayanan et al., SC 2021: fused softmax; fp32 main gradients (18 bytes a parameter); sent in fp16"},
    {"megatron-lm", kNever, kEver, true, Beside::kWeights, 1, "mixed", "fp32", "best", false,
     "NVIDIA/Megatron-LM since core_r0.5 (January 2024): TransformerEngine's attention by default; its examples have "
     "--use-distributed-optimizer --sequence-parallel --overlap-grad-reduce --overlap-param-gather"},
    {"automodel", kNever, kEver, true, Beside::kGradients, 3, "pure-16", "bf16", "best", true,
     "NVIDIA-NeMo/Automodel examples/llm_benchmark: FSDP2, bf16 reduction, torch.optim.Adam on bf16 weights, PyTorch's "
     "checkpoints"},
    {"composer", kNever, kEver, true, Beside::kGradients, 3, "mixed", "bf16", "flash-1", false,
     "mosaicml/llm-foundry scripts/train/yamls/pretrain: FULL_SHARD, attn_impl triton; Composer keeps weights in fp32, "
     "sums gradients in bf16 where mixed_precision is PURE"},
    {"nemo", 2022.8, kNever, false, Beside::kGradients, 0, "mixed", "bf16", "best", false,
     "NeMo Megatron 22.08, README's changelog: asynchronous all-reduce of gradients (22.05), fused Adam; "
     "conf/training/gpt3/5b.yaml: no sequence parallelism"},
    {"nemo", 2023.16, kNever, true, Beside::kGradients, 1, "mixed", "bf16", "best", false,
     "NeMo-Megatron-Launcher 23.05, README's changelog: distributed Adam of GPT and T5 by 22.11, FlashAttention from "
     "23.03 on"},
    {"nemo", 2023.58, kEver, true, Beside::kWeights, 1, "mixed", "bf16", "best", false,
     "NeMo-Megatron-Launcher 23.05 conf/training/gpt3/5b.yaml: overlap_grad_sync, overlap_param_sync, no "
     "ub_tp_comm_overlap"},
    {"nemo", kNever, kEver, true, Beside::kAll, 1, "mixed-16", "bf16", "best", false,
     "NVIDIA/NeMo docs/source/features/optimizations/communication_overlap.rst: distributed optimizer, gradients and "
     "weights overlapped, fp8_param_gather; scripts/performance/llm: grad_reduce_in_fp32 = False"},
    {"megatron-core", kNever, kEver, true, Beside::kAll, 1, "mixed", "fp32", "best", false,
     "NVIDIA/Megatron-LM core_r0.8.0 README: distributed optimizer, sequence parallel, TransformerEngine attention, "
     "--overlap-grad-reduce --overlap-param-gather --tp-comm-overlap"},
    {"torchtitan", kNever, kEver, true, Beside::kGradients, 3, "mixed", "fp32", "sdpa", true,
     "pytorch/torchtitan docs/fsdp.md: FSDP2, bf16 weights gathered, gradients reduced in fp32; models/attention.py: "
     "scaled_dot_product_attention, cuDNN's on Blackwell"},
    {"torchtune", kNever, kEver, true, Beside::kGradients, 3, "pure-16", "bf16", "flash-2", true,
     "pytorch/torchtune recipes/configs/llama3_1/8B_full.yaml: dtype bf16, of weights and all that follows from them; "
     "full_finetune_distributed: FSDP2"},
    {"litgpt", kNever, kEver, true, Beside::kGradients, 3, "pure-16", "bf16", "flash-2", true,
     "Lightning-AI/litgpt config_hub/finetune: precision bf16-true; FSDPStrategy over several GPUs"},
    {"nanotron", kNever, kEver, true, Beside::kGradients, 1, "mixed", "fp32", "best", false,
     "huggingface/nanotron examples: zero_stage 1, accumulate_grad_in_fp32, tp_mode REDUCE_SCATTER, FlashAttention-2"},
    {"internevo", kNever, kEver, false, Beside::kGradients, 1, "mixed-16", "bf16", "best", false,
     "InternLM/InternEvo configs/7B_sft.py: use_flash_attn, overlap_sync_grad, tensor mode mtp (no sequence "
     "parallelism), gradients as the model's bf16"},
    {"jax", kNever, 2024, false, Beside::kGradients, 0, "mixed", "fp32", "best", true,
     "AI-Hypercomputer/maxtext, google/paxml: rematerialization is what XLA's dead-code elimination leaves of it: the "
     "last product of a block is not computed again; NVIDIA/dgxc-benchmarking maxtext: XLA overlaps; openxla/xla "
     "#5910: "
     "flash attention is no default of 2023"},
    {"training_results", kNever, kEver, true, Beside::kAll, 1, "mixed-16", "bf16", "best", false,
     "mlcommons/training_results_v5.1 @ 4da2d1c, Cisco/benchmarks/llama31_8b/implementations/nemo/pretrain.py: "
     "grad_reduce_in_fp32=False; NVIDIA's config_common.sh: OVERLAP_PARAM_GATHER, FP8_PARAM_GATHER"},
    {"hf trainer fms-hf-tuning", kNever, 2023.95, false, Beside::kGradients, 0, "pure-16", "bf16", "flash-2", true,
     "foundation-model-stack/fms-hf-tuning tuning/config/configs.py: torch_dtype of 16 bits, of the weights that are "
     "trained"},
    {"hf trainer", kNever, 2023.95, false, Beside::kGradients, 0, "fp32", "fp32", "flash-2", true,
     "huggingface/transformers: PyTorch's DDP and autocast, weights in fp32; scaled_dot_product_attention since 4.36"},
    {"", kNever, 2023, true, Beside::kGradients, 1, "mixed", "fp32", "best", false,
     "assumed: as Megatron-LM without more flags"},
});

bool names_all(std::string_view framework, std::string_view words) {
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    if (framework.find(words.substr(begin, end - begin)) == std::string_view::npos) return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace

const TrainingWay& way_of(std::string_view framework, double year) {
  const auto* const found = std::find_if(kWays.begin(), kWays.end(), [&](const TrainingWay& way) {
    return names_all(framework, way.names) && year < way.until;
  });
  return found == kWays.end() ? kWays.back() : *found;
}

bool syncs_stages_once(std::string_view framework) { return names_all(framework, "torchtitan"); }

std::optional<Time> module_launch_interval(std::string_view framework) {
  const auto names = [&](std::string_view word) { return framework.find(word) != std::string_view::npos; };
  const bool modules = names("megatron") || names("nemo") || names("nanotron") || names("sailor");
  // AutoModel trains Hugging Face's models.
  return modules && !names("automodel") ? std::optional(microseconds(60)) : std::nullopt;
}

bool accumulates(std::string_view framework, double year) {
  constexpr double kSince = 2020.9;
  return !names_all(framework, "megatron-lm") || year >= kSince;
}

bool scatters_between_stages(std::string_view framework, double year) {
  constexpr double kSince = 2021.4;
  constexpr double kUntil = 2023.4;
  for (const std::string_view always : {"deepspeed", "sailor", "paddle", "alpa"}) {
    if (names_all(framework, always)) return true;
  }
  for (const std::string_view core : {"megatron-core", "megatron-bridge"}) {
    if (names_all(framework, core)) return false;
  }
  const bool megatron = names_all(framework, "megatron") || names_all(framework, "nemo");
  return megatron && year >= kSince && year < kUntil;
}

std::optional<bool> runs_fused_blocks(std::string_view framework) {
  const auto names_any = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return framework.find(word) != std::string_view::npos; });
  };
  // Models are Hugging Face's, whoever trains them (its Trainer runs DeepSpeed as well).
  const bool transformers = names_any({"hugging", "transformers"}) && !names_any({"megatron", "nemo"});
  if (framework.starts_with("hf") || transformers) return false;
  if (names_any({"deepspeed", "rocm", "llmboost", "oneflow"})) return std::nullopt;
  if (names_any({"automodel", "megatron", "nemo", "hugectr", "composer", "internevo", "jax", "flash-attention",
                 "transformer engine", "lightseq"})) {
    return true;
  }
  // huggingface/nanotron src/nanotron/models/llama.py: norm and rotary embedding are kernels, what is gated and the
  // loss single operators.
  if (names_any({"pytorch", "tensorflow", "paddle", "mxnet", "nanotron"})) return false;
  return std::nullopt;
}

}  // namespace ddlsim::importers
