// What a case's words say of how a model is tuned, sharded and compiled, in the spellings that sources have.
#include <catch2/catch.hpp>
#include <string>

#include "case_row.h"
#include "cases/case_text.h"

using namespace ddlsim;
using ddlsim::test::row;
using ddlsim::test::said;

namespace {

/// Llama 2 7B on two H100, as fsdp_qlora's table has it.
io::Case tuned() {
  io::Case one = row();
  one.model = "Llama-2 7B";
  one.framework = "PyTorch 2.2";
  one.precision = "bf16";
  one.gpu = "H100 80GB SXM";
  one.gpus_per_node = one.total_gpus = 2;
  one.nodes = 1;
  one.batch_per_gpu = 1;
  one.architecture = "fsdp";
  one.extra = {{"seq_len", "2048"}, {"dp", "2"}, {"tp", "1"}, {"pp", "1"}};
  return one;
}

std::string with(const std::string& key, const std::string& value, const std::string& path) {
  io::Case one = tuned();
  one.extra[key] = value;
  return said(one, path);
}

}  // namespace

TEST_CASE("case: adapters under the names that sources have for them", "[unit][whatif]") {
  CHECK(said(tuned(), "parallel.lora_rank") == "");
  CHECK(with("task", "LoRA fine-tuning", "parallel.lora_rank") == "16");
  CHECK(with("task", "full fine-tuning, no LoRA", "parallel.lora_rank") == "");
  CHECK(with("train_type", "QLoRA", "parallel.frozen_bits") == "4");
  CHECK(with("tuning", "lora_finetune_distributed", "parallel.lora_rank") == "16");
  CHECK(with("peft", "lora", "parallel.frozen_bits") == "");
  CHECK(with("lora_rank", "64", "parallel.lora_rank") == "64");
  io::Case one = tuned();
  one.extra["lora_rank"] = "8";
  one.extra["quantization"] = "bitsandbytes 4-bit";
  CHECK(said(one, "parallel.frozen_bits") == "4");
  one.extra["quantization"] = "int8";
  CHECK(said(one, "parallel.frozen_bits") == "8");
  one.extra["quantization"] = "none";
  CHECK(said(one, "parallel.frozen_bits") == "");
  one.extra["load_in_4bit"] = "true";
  CHECK(said(one, "parallel.frozen_bits") == "4");
}

TEST_CASE("case: which products have adapters, as said or as recipes have them", "[unit][whatif]") {
  const auto of = [](const std::string& framework, const std::string& targets) {
    io::Case one = tuned();
    one.framework = framework;
    one.extra["lora_rank"] = "16";
    if (!targets.empty()) one.extra["lora_targets"] = targets;
    return said(one, "parallel.lora_products");
  };
  CHECK(of("PyTorch", "") == "");  // attention's
  CHECK(of("PyTorch", "q_proj, k_proj, v_proj, o_proj") == "");
  CHECK(of("PyTorch", "attention_qkv,attention_dense") == "");
  CHECK(of("PyTorch", "c_attn c_proj w1 w2") == "all");
  CHECK(of("PyTorch", "all-linear") == "all");
  CHECK(of("PyTorch", "q_proj v_proj") == "qkv");
  CHECK(of("PyTorch", "linear_qkv") == "qkv");
  CHECK(of("LLaMA-Factory", "") == "all");
  CHECK(of("NeMo AutoModel (PyTorch FSDP2)", "") == "all");
  CHECK(of("NeMo 24.12 (Megatron-Core)", "") == "qkv");
  CHECK(of("NeMo 24.12 (Megatron-Core)", "q k v o") == "");
}

TEST_CASE("case: FSDP that keeps gathered weights shares all three all the same", "[unit][whatif]") {
  CHECK(said(tuned(), "parallel.zero") == "3");
  CHECK(said(tuned(), "parallel.reshard") == "");
  for (const auto& [key, value] :
       {std::pair{"zero_stage", "2"}, {"sharding", "SHARD_GRAD_OP"}, {"sharding", "zero2"}}) {
    CAPTURE(key, value);
    CHECK(with(key, value, "parallel.zero") == "3");
    CHECK(with(key, value, "parallel.reshard") == "no");
  }
  io::Case one = tuned();
  one.framework = "DeepSpeed";
  one.architecture = "zero";
  one.extra["zero_stage"] = "2";
  CHECK(said(one, "parallel.zero") == "2");
  CHECK(said(one, "parallel.reshard") == "");
}

TEST_CASE("case: checkpoints, compilers and what waits on the host, by their words", "[unit][whatif]") {
  CHECK(with("recompute", "gradient checkpointing (Hugging Face)", "parallel.recompute") == "full");
  CHECK(with("recompute", "no gradient checkpointing", "parallel.recompute") == "");
  CHECK(with("activation_checkpointing", "true", "parallel.recompute") == "full");
  CHECK(with("activation_checkpointing", "Recompute", "parallel.recompute") == "full");
  CHECK(with("activation_checkpointing", "Offload", "parallel.recompute") == "full");
  CHECK(with("activation_checkpointing", "Offload", "parallel.offload_activations") == "yes");
  const std::string alone = said(tuned(), "fusion");
  for (const char* compiler : {"torch.compile", "torch: inductor", "thunder, bucketing", "true", "inductor"}) {
    CAPTURE(compiler);
    CHECK(with("compile", compiler, "fusion") != alone);
  }
  for (const char* none : {"eager", "none", "false", "no"}) {
    CAPTURE(none);
    CHECK(with("compile", none, "fusion") == alone);
  }
  io::Case named = tuned();
  named.framework = "PyTorch 2.8.0 (torch.compile)";
  CHECK(said(named, "fusion") != alone);
  CHECK(with("cpu_offload", "true", "parallel.offload_optimizer") == "yes");
  CHECK(with("cpu_offload", "true", "parallel.offload_weights") == "yes");
  CHECK(with("cpu_offload", "false", "parallel.offload_optimizer") == "");
  CHECK(with("offload_optimizer", "true", "parallel.offload_weights") == "");
  CHECK(with("offload_optimizer", "true", "parallel.offload_optimizer") == "yes");
  CHECK(with("activation_offload", "true", "parallel.offload_activations") == "yes");
}

TEST_CASE("case: precisions joined by a plus, and of who does not say", "[unit][whatif]") {
  CHECK(whatif::precision_of("FP16+TF32") == "fp16");
  CHECK(whatif::precision_of("AMP+XLA") == "amp");
  CHECK(whatif::precision_of("torch.autocast bfloat16") == "bf16");
  CHECK(whatif::precision_of("autocast") == "amp");
  io::Case one = tuned();
  one.precision.clear();
  one.extra.clear();
  one.architecture = "ddp";
  CHECK(said(one, "precision") == "bf16");  // 7 billion parameters
  one.gpu = "V100-SXM2-32GB";
  CHECK(said(one, "precision") == "fp16");
  one.model = "BERT-large";
  CHECK(said(one, "precision") == "fp32");
}

TEST_CASE("case: ranks of a ring that are called those of sequence parallelism", "[unit][whatif]") {
  io::Case one = tuned();
  one.architecture = "ring attention";
  one.extra = {{"seq_len", "65536"}, {"sequence_parallel", "2"}, {"zero_stage", "3"}};
  CHECK(said(one, "parallel.context") == "2");
  CHECK(said(one, "parallel.data") == "1");
  CHECK(said(one, "parallel.zero") == "3");
  one.architecture = "data parallel";
  CHECK(said(one, "parallel.context") == "");
}

TEST_CASE("case: a pass of who does not say the batch", "[unit][whatif]") {
  io::Case one = tuned();
  one.metric = io::CaseMetric::kTokensPerSecond;
  one.batch_per_gpu.reset();
  one.extra = {{"seq_len", "1024"}, {"layers", "12"}, {"hidden", "768"}, {"heads", "12"}, {"vocab", "50304"}};
  one.model = "GPT-2 (124M)";
  CHECK(said(one, "batch") == "8");  // 8,192 tokens of a small model
  one.extra["layers"] = "48";
  one.extra["hidden"] = "6144";
  CHECK(said(one, "batch") == "1");
}

TEST_CASE("case: a server in the place of its GPU", "[unit][whatif]") {
  io::Case one = tuned();
  one.gpus_per_node = one.total_gpus = 8;
  one.extra["dp"] = "8";
  one.gpu = "DGX-H100";
  CHECK(said(one, "node") == "dgx-h100");
  one.gpu = "DGX-GB200";
  CHECK(said(one, "node") == "gb200-nvl72");
  one.gpu = "DGX-Z";
  CHECK(said(one, "node").starts_with("error: unknown gpu 'DGX-Z'"));
}

TEST_CASE("case: kernels that join single operators, by the names of who has them", "[unit][whatif]") {
  io::Case one = tuned();
  one.architecture = "ddp";
  one.extra = {{"seq_len", "2048"}};
  one.framework = "HF Trainer";
  CHECK(said(one, "software.fused") == "no");
  CHECK(said(one, "software.operators") == "autocast");
  for (const char* key : {"liger_kernel", "fused", "graph_kernel_fusion"}) {
    CAPTURE(key);
    one.extra = {{"seq_len", "2048"}, {key, "true"}};
    CHECK(said(one, "software.fused") == "yes");
    CHECK(said(one, "software.operators") == "");
  }
  one.extra = {{"seq_len", "2048"}, {"fused", "RMSNorm, cross entropy, rotary, SwiGLU"}};
  CHECK(said(one, "software.fused") == "yes");
  one.extra = {{"seq_len", "2048"}, {"liger_kernel", "false"}};
  CHECK(said(one, "software.fused") == "no");
  one.extra = {{"seq_len", "2048"}};
  one.framework = "Unsloth";
  CHECK(said(one, "software.fused") == "yes");
  // Which checkpoints blocks unless it is told not to, as LLaMA-Factory does.
  for (const char* framework : {"Unsloth", "LLaMA Factory (accelerate)", "LLaMA-Factory 0.9"}) {
    CAPTURE(framework);
    one.framework = framework;
    one.extra = {{"seq_len", "2048"}};
    CHECK(said(one, "parallel.recompute") == "full");
    one.extra = {{"seq_len", "2048"}, {"recompute", "none"}};
    CHECK(said(one, "parallel.recompute") == "");
    one.extra = {{"seq_len", "2048"}, {"activation_checkpointing", "false"}};
    CHECK(said(one, "parallel.recompute") == "");
  }
  one.extra = {{"seq_len", "2048"}};
  one.framework = "MindSpore 1.1";
  CHECK(said(one, "parallel.recompute") == "");
  CHECK(said(one, "software.fused") == "");
  one.extra = {{"seq_len", "2048"}, {"graph_kernel_fusion", "false"}};
  CHECK(said(one, "software.fused") == "no");
}

TEST_CASE("case: weights that are loaded in 16 bits are trained in 16", "[unit][whatif]") {
  io::Case one = tuned();
  one.architecture = "ddp";
  one.framework = "HF Trainer + accelerate";
  one.extra = {{"seq_len", "2048"}};
  CHECK(said(one, "parallel.states") == "");
  for (const char* format : {"bfloat16", "bf16", "torch.float16"}) {
    CAPTURE(format);
    one.extra = {{"seq_len", "2048"}, {"torch_dtype", format}};
    CHECK(said(one, "parallel.states") == "pure-16");
    CHECK(said(one, "software.operators") == "");
  }
  one.extra["torch_dtype"] = "float32";
  CHECK(said(one, "parallel.states") == "");
  one.extra["torch_dtype"] = "bfloat16";
  one.framework = "HF Trainer + deepspeed";  // keeps copies of its own
  CHECK(said(one, "parallel.states") != "pure-16");
}

TEST_CASE("case: a distributed optimizer in the architecture's words shares states", "[unit][whatif]") {
  io::Case one = tuned();
  one.architecture = "data parallel, distributed optimizer";
  one.extra = {{"seq_len", "2048"}};
  CHECK(said(one, "parallel.zero") == "1");
  one.architecture = "data parallel";
  CHECK(said(one, "parallel.zero") == "");
}

TEST_CASE("case: blocks in brackets are computed again", "[unit][whatif]") {
  CHECK(with("activation_checkpointing", "[Block]", "parallel.recompute") == "full");
  CHECK(with("activation_checkpointing", "every layer", "parallel.recompute") == "full");
  CHECK(with("activation_checkpointing", "no block", "parallel.recompute") == "");
}

TEST_CASE("case: two cards that NVLink joins", "[unit][whatif]") {
  io::Case one = row();
  one.gpu = "RTX 3090";
  one.nodes = 1;
  one.gpus_per_node = one.total_gpus = 2;
  const auto joined = [&](const char* inside) {
    one.intra_interconnect = inside;
    return said(one, "gpu_interconnect");
  };
  CHECK(joined("") == "");
  CHECK(joined("NVLink (NV4)") == "nvlink");
  CHECK(joined("NVLink bridge") == "nvlink");
  CHECK(joined("NVLink disabled") == "");
  CHECK(joined("no NVLink") == "");
  CHECK(joined("PCIe 4.0, without NVLink") == "");
  one.gpus_per_node = one.total_gpus = 4;
  CHECK(joined("NVLink (NV4)") == "");
}
