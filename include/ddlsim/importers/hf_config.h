// Turns a Hugging Face config.json into a model of models/README.md.
//
// The `model_type` (or the class under `architectures`) names the family; the family's rule lists the layers that
// Hugging Face transformers would build, in forward order, each weight matrix, bias and norm a gradient tensor:
//   decoders with RMSNorm   llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3_text, phi3: grouped-query attention,
//                           gate and up product; mixtral, qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3, kimi_k2:
//                           mixtures of experts; DeepSeek's latent attention as its five products and two norms;
//                           qwen3_vl_text, qwen3_vl_moe_text, mimo, minimax_m2 (a norm of all heads), gpt_oss (sinks,
//                           biases, every other block windowed), llama4_text (chunks, a shared expert), glm4_moe,
//                           glm4v_moe_text, glm4_moe_lite, glm, glm4, olmoe, smollm3 (every fourth block without
//                           positions), qwen2_5_vl, seed_oss, ministral3, hunyuan_v1_dense, olmo3 and exaone4 (norms
//                           behind attention and MLP alone), ernie4_5, ernie4_5_moe, deepseek_v32 and glm_moe_dsa (an
//                           indexer chooses keys)
//   hybrids                 qwen3_next, qwen3_5_text, qwen3_5_moe_text: gated delta rule and gated attention;
//                           nemotron_h: Mamba-2, attention, MLP and experts by the letters of its pattern;
//                           deepseek_v4: keys pooled over rows beside a window, several residual streams
//   blocks of many sizes    gemma4_text (wider heads without values in every sixth, experts beside the MLP);
//                           nemotron-nas (DeciLM): each block as `block_configs` has it
//   known, and refused      albert (one block serves all), deberta, deberta-v2 (disentangled attention):
//                           the part without an operator is named; gemma4 with per-layer embeddings
//   blocks all alike        bloom, falcon (all three architectures), gpt_bigcode, gpt_neo, gptj, mpt, phi, starcoder2,
//                           stablelm, baichuan (rotary, or alibi as the 13B), chatglm (2, 3, GLM-4), cohere, granite,
//                           internlm2, olmo, olmo2
//   older ones              gpt2, opt, gpt_neox, vit
//   encoders                bert, roberta, xlm-roberta, electra, with the head of the class
//   of two stacks           clip (both towers); t5 and mt5, bart and mbart, whisper: cross-attention included
//   sound, images           wav2vec2 (with its head for letters, for pre-training, or none), convnext, swin
// Infinity and NaN, which Python writes, are read where nothing needs the number.
// A multimodal wrapper's `text_config` is read for the language model; its other towers are left out, and noted. clip's
// are both read.
// One sample is a sequence of `sequence` tokens (a dimension of the model); for vit, convnext and swin an image; for
// clip an image and `sequence` tokens; for t5 `sequence` source tokens and 114/512 of them as targets, for bart as many
// targets (`target` says another number); for whisper 30 s and `sequence` target tokens; for wav2vec2 a wave of
// `sequence` values (240,000: 15 s).
// Attention of the first list, and of blocks all alike, is one kernel (FlashAttention), causal; with alibi, of gptj and
// gpt_neo, of the older ones and encoders, clip, t5 and bart, unfused as published at the time; of whisper and wav2vec2
// one kernel, but for cross-attention; of swin products per window.
// Sources: the modeling_*.py of github.com/huggingface/transformers, named in the model's sources.
// Limits: a training step is assumed; dropless and evenly loaded experts; no multi-token-prediction module; quantised
// weights count as what they stand for; dropout where the class has it and its probability is above zero (gpt2, opt,
// gpt_neox, vit: always); a config says neither batch nor optimizer. Refused, with file:line:column, key and what would
// be right: missing, mistyped and impossible values.
// Example: Llama-3.1-8B: 32 blocks of 2 * 4096^2 (q, o) + 2 * 4096 * 1024 (k, v) + 3 * 4096 * 14336 + 2 * 4096
// parameters, 2 * 128256 * 4096 of embedding and head, 4096 of the last norm: 8,030,261,248.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/io/model_writer.h"
#include "ddlsim/support/error.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::importers {

struct HfOptions {
  std::string id;                        // of the model; empty: from the file's name, or its folder's
  std::int64_t batch = 1;                // samples per GPU and step
  std::optional<std::int64_t> sequence;  // tokens of a sample; the positions of the config, at most 4096, otherwise
  std::optional<std::int64_t>
      target{};  // of t5, mt5, bart and mbart, target tokens; as pre-training has them otherwise
};

struct HfImport {
  io::ModelDescription description;  // for write_model
  workload::Model model;
};

/// Errors: kIo, kParse and kInvalidArgument with file:line:column and the key; kUnsupported for a family without a
/// rule, with the list of those that have one and the nearest.
[[nodiscard]] Expected<HfImport> import_hf_config(const std::filesystem::path& path, const HfOptions& options);

/// As import_hf_config, of a text; `file` is the name used in errors and for the model.
[[nodiscard]] Expected<HfImport> parse_hf_config(std::string_view text, const std::string& file,
                                                 const HfOptions& options);

/// The families with a rule, sorted.
[[nodiscard]] std::vector<std::string> hf_model_types();

}  // namespace ddlsim::importers
