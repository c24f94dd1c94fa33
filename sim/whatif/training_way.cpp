#include "training_way.h"

#include <algorithm>
#include <array>
#include <string>

#include "case_text.h"

namespace ddlsim::whatif {
namespace {

/// The first row whose words all stand in the framework's name, or in its repository of results, counts.
constexpr auto kWays = std::to_array<TrainingWay>({
    {"sailor", false, false, Beside::kNothing, 0, "mixed-16", "fp16", "best", false,
     "eth-easl/sailor: Megatron-DeepSpeed without --use-flash-attn, zero_optimization {}"},
    {"deepspeed zero-3", false, false, Beside::kNothing, 3, "mixed-16", "fp16", "best", false,
     "DeepSpeed ZeRO-3: bigscience experiments/gpt2.md"},
    {"deepspeed", false, false, Beside::kNothing, 1, "mixed-16", "fp16", "best", false,
     "bigscience-workshop/Megatron-DeepSpeed: ZeRO-1, fused softmax, no FlashAttention (tr11-176B-ml)"},
    {"megatron-core", true, true, Beside::kAll, 1, "mixed", "fp32", "best", false,
     "NVIDIA/Megatron-LM core_r0.8.0 README: distributed optimizer, sequence parallel, TransformerEngine attention, "
     "--overlap-grad-reduce --overlap-param-gather --tp-comm-overlap"},
    {"megatron-bridge", true, true, Beside::kAll, 1, "mixed", "bf16", "best", false,
     "NVIDIA-NeMo/Megatron-Bridge scripts/performance/configs @ 2a0d46e: distributed optimizer, sequence parallel, "
     "grad_reduce_in_fp32 False, tp_comm_overlap; training/mixed_precision.py: fp8_param_gather; docs: communication "
     "overlap"},
    {"megatron-lm v0.12", true, true, Beside::kNothing, 1, "mixed", "fp32", "best", false,
     "MooreThreads/SimuMax A100 runs (simu_tools/megatron_scripts/scripts/run_pretrain_llama3.sh): "
     "--use-distributed-optimizer without --overlap-grad-reduce, --sequence-parallel, TransformerEngine 2.1"},
    {"megatron-lm transformerengine", true, true, Beside::kNothing, 1, "mixed", "fp32", "best", false,
     "MooreThreads/SimuMax, likewise with TransformerEngine 2.11; docs/b200/b200_real_repro_guide.md: nothing "
     "overlaps"},
    {"megatron-lm (2022)", false, false, Beside::kNothing, 0, "mixed", "fp16", "best", false,
     "Korthikanti et al., MLSys 2023: no data parallelism; sequence parallelism where the row says so"},
    {"megatron-lm", false, false, Beside::kNothing, 0, "mixed", "fp16", "best", false,
     "Narayanan et al., SC 2021: fused softmax; fp32 main gradients (18 bytes a parameter); sent in fp16"},
    {"automodel", true, true, Beside::kGradients, 3, "mixed-16", "bf16", "best", false,
     "NVIDIA-NeMo/Automodel: FSDP2 with bf16 reduction"},
    {"composer", true, true, Beside::kGradients, 3, "mixed", "bf16", "flash-1", false,
     "mosaicml/llm-foundry scripts/train/yamls/pretrain: FULL_SHARD, attn_impl triton; Composer keeps weights in fp32, "
     "sums gradients in bf16 where mixed_precision is PURE"},
    {"nemo", true, true, Beside::kAll, 1, "mixed", "bf16", "best", false,
     "NVIDIA/NeMo docs/source/features/optimizations/communication_overlap.rst: distributed optimizer, gradients and "
     "weights overlapped, fp8_param_gather; scripts/performance/llm: grad_reduce_in_fp32 = False"},
    {"torchtitan", true, true, Beside::kGradients, 3, "mixed", "fp32", "flash-2", true,
     "pytorch/torchtitan docs/fsdp.md: FSDP2, bf16 weights gathered, gradients reduced in fp32; "
     "scaled_dot_product_attention"},
    {"internevo", true, false, Beside::kGradients, 1, "mixed-16", "bf16", "best", false,
     "InternLM/InternEvo configs/7B_sft.py: use_flash_attn, overlap_sync_grad, tensor mode mtp (no sequence "
     "parallelism), gradients as the model's bf16"},
    {"jax", true, false, Beside::kGradients, 0, "mixed", "fp32", "best", true,
     "AI-Hypercomputer/maxtext, google/paxml: rematerialization is what XLA's dead-code elimination leaves of it: the "
     "last "
     "product of a block is not computed again; NVIDIA/dgxc-benchmarking maxtext: XLA overlaps"},
    {"training_results", true, true, Beside::kAll, 1, "mixed", "bf16", "best", false,
     "mlcommons/training_results_v5.1 @ 4da2d1c, Cisco/benchmarks/llama31_8b/implementations/nemo/pretrain.py: "
     "grad_reduce_in_fp32=False; NVIDIA's config_common.sh: OVERLAP_PARAM_GATHER, FP8_PARAM_GATHER"},
    {"", true, true, Beside::kGradients, 1, "mixed", "fp32", "best", false,
     "assumed: as Megatron-LM without more flags"},
});

}  // namespace

bool is_submission(const io::Case& one) { return has(lower_case(one.source), "training_results"); }

const TrainingWay& way_of(const io::Case& one) {
  std::string name = lower_case(one.framework);
  if (says(one, "kernels", "te")) name += " transformerengine";
  if (is_submission(one)) name = "training_results";
  const auto* const found =
      std::find_if(kWays.begin(), kWays.end(), [&](const TrainingWay& way) { return has_all_words(name, way.names); });
  return found == kWays.end() ? kWays.back() : *found;
}

}  // namespace ddlsim::whatif
