// A published step of a language model, in ddlsim's words: the model by its sizes, the split by its degrees, and the
// rest as the framework of the time did it. Private to the room.
//
// The sizes in `extra` (layers, hidden, heads, kv_heads, ffn, vocab, seq_len, experts, top_k, ...) become a Hugging
// Face configuration that importers/hf_config.h reads, so that cases and imported models follow one set of rules:
//   hybrid_layer_pattern           nemotron_h       attention mla         deepseek_v3
//   seq_len_dec, decoder_layers    t5               experts               qwen3_moe (every block a mixture), gpt_oss
//   patch                          vit              kv_heads              llama
//   else by the words of its name  llama (Llama, Mistral, Qwen), gpt2, opt, t5, vit,
//                                  bert (BERT, RoBERTa, DistilBERT: with the head of pre-training over all positions,
//                                  or a classifier)
//   else                           gpt2, with a table of learned positions
// The vocabulary, where nobody says one, is that of the model's or the tokenizer's name (case_model.cpp), else GPT-2's,
// and the interval has others.
// Vocabularies are padded to a multiple of 128 times the tensor degree (Megatron's make_vocab_size_divisible_by). A GPT
// whose framework had FlashAttention has its attention as one kernel.
// What a source leaves open is filled in as `way_of` says; a case that leaves open what nobody can fill in (heads,
// layers) is an error that names it. A submission to MLPerf that does not say its precision is taken as 8 bits, as all
// that say it have 8 or 4 (rounds 4.1, 5.1); one that does not say its split as as many replicas as its batch has
// passes for, the GPUs of a replica as a tensor group. Such rows are `assumed`, their interval reaches down to 4 bits,
// and nothing is learnt from them.
// MLPerf's Llama 2 70B with adapters in 8 bits (or 4: at most that) keeps the frozen weights in 8 (fp8_params and
// disable_parameter_transpose_cache of megatron_gpt_peft_tuning_config.yaml, mlcommons' training_results_v4.0,
// NVIDIA/benchmarks/llama2_70b_lora/implementations/nemo/conf). Where one GPU has the whole model and whole sequences
// its gated activations keep 8 bits too: that file's fp8_activation_input_store, which v5.0's MI300X of TP 1 and CP 1
// set (MangoBoost, config_MI300X_1x8x1.sh: FP8_ACTIVATION); without it MI300X, B200 and GB200 have no room. `offload`:
// what waits on the host ("optimizer", "activations", or both).
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ddlsim/io/case_file.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::whatif {

/// Whether a case gives its model by sizes.
[[nodiscard]] bool gives_sizes(const io::Case& one);

[[nodiscard]] Expected<std::shared_ptr<const workload::Model>> language_model_of(const io::Case& one);

/// Makes a scenario's model the one that the case ran: with the activation that it names, where that is a GELU of one
/// kernel; without dropout, where forward passes alone were timed (inference); of a shipped model its first `layers`
/// alone; with nothing frozen.
[[nodiscard]] Expected<void> as_run(const io::Case& one, Scenario& scenario);

/// Which layers of the model each stage has, as its framework cuts them: whole blocks, embeddings with the first, the
/// head with the last. Nothing: there are no stages, or blocks do not divide.
[[nodiscard]] std::optional<Override> stages_of(const io::Case& one, const workload::Model& model);

/// Degrees, batches, schedule, recomputation and states.
[[nodiscard]] Expected<std::vector<Override>> splits_of(const io::Case& one);

/// What is computed again in backward, by its word in a plan (parallel.recompute): "full (1 layer)", "yes (...)",
/// "selective", "selective (per operator)"; "none" where nobody says.
[[nodiscard]] std::string_view recomputation_of(const io::Case& one);

/// What AutoModel's recipes do where a case says nothing: from 30 billion parameters on they compute blocks again,
/// below not (NVIDIA-NeMo/Automodel examples/llm_benchmark: activation_checkpointing of Llama 70B, Qwen 30B, Nemotron
/// 30B and 120B, GPT-OSS 120B, DeepSeek-V3, Kimi K2; not of Llama 8B, Qwen 7B, GPT-OSS 20B). Nothing for others.
[[nodiscard]] std::vector<Override> recomputation_by_recipe(const io::Case& one, const workload::Model& model);

/// Whether layers are cut in stages (`pp`), and nothing else of the model is: what any model with layers can be.
[[nodiscard]] bool cuts_stages_alone(const io::Case& one);
/// Stages, schedule and batches of such a case. Where its stages begin is taken as anybody's (plan/stage_cuts.h).
[[nodiscard]] Expected<std::vector<Override>> stages_alone_of(const io::Case& one);

/// Whether attention is one kernel, where the case says it; nothing where it does not.
[[nodiscard]] std::optional<bool> said_attention_in_one(const io::Case& one);

/// Model FLOPs of a step of so many samples, as the source of the case counts them for its TFLOP/s per GPU.
[[nodiscard]] Expected<Work> published_flops(const io::Case& one, double samples);

/// Whether the precision or the split of a case is assumed.
[[nodiscard]] bool leaves_open(const io::Case& one);

/// Whether torch.compile, its Inductor or Thunder joins kernels.
[[nodiscard]] bool is_compiled(const io::Case& one);

}  // namespace ddlsim::whatif
