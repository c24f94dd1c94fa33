// Decoders with RMSNorm: what sets their families apart, a row each.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ddlsim::importers::hf {

/// What a configuration's class has where config.json leaves a key out (transformers, configuration_<model_type>.py);
/// 0: it follows from other keys, or has to be stated. Null is stated: no window, as many key heads as heads.
struct ClassSizes {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t width = 0;  // head_dim
  std::int64_t window = 0;
  std::int64_t vocabulary = 0;
};

/// What sets the members of the family apart (transformers, modeling_<model_type>.py).
struct DecoderTraits {
  std::string_view model_type;
  /// Of attention. kStated: `attention_bias`, kQkvStated: that of q, k and v alone, kQkv: `qkv_bias`, kErnie:
  /// `use_bias` of the MLP's products as well.
  enum class Bias { kNone, kStated, kQkvStated, kQkv, kErnie } bias = Bias::kNone;
  bool qk_norm = false;                                                 // a norm of each head's queries and keys
  enum class Norms { kBefore, kBoth, kBehind } norms = Norms::kBefore;  // where attention's and the MLP's stand
  bool fused = false;                                                   // one matrix for q, k, v, one for gate and up
  bool gemma = false;                                                   // the embedding scaled
  enum class Mixture { kNone, kMixtral, kOlmoe, kQwen, kGlm, kDeepseek, kLlama4, kErnie } mixture = Mixture::kNone;
  bool whole_norm = false;  // a norm of all heads' queries at once, and one of the keys
  ClassSizes usual{};
  bool oss = false;     // gpt_oss: sinks, biases everywhere, every other block windowed
  bool tied = false;    // where nobody says
  bool biased = false;  // likewise
};

inline constexpr std::array kDecoders{
    DecoderTraits{.model_type = "llama", .bias = DecoderTraits::Bias::kStated},
    DecoderTraits{.model_type = "mistral", .usual = {.kv_heads = 8, .window = 4096}},
    DecoderTraits{.model_type = "mixtral", .mixture = DecoderTraits::Mixture::kMixtral, .usual = {.kv_heads = 8}},
    DecoderTraits{.model_type = "qwen2", .bias = DecoderTraits::Bias::kQkv, .usual = {.kv_heads = 32}},
    DecoderTraits{
        .model_type = "qwen2_moe", .bias = DecoderTraits::Bias::kQkv, .mixture = DecoderTraits::Mixture::kQwen},
    DecoderTraits{.model_type = "qwen3",
                  .bias = DecoderTraits::Bias::kStated,
                  .qk_norm = true,
                  .usual = {.kv_heads = 32, .width = 128}},
    DecoderTraits{.model_type = "qwen3_moe",
                  .bias = DecoderTraits::Bias::kStated,
                  .qk_norm = true,
                  .mixture = DecoderTraits::Mixture::kQwen},
    DecoderTraits{.model_type = "gemma",
                  .bias = DecoderTraits::Bias::kStated,
                  .gemma = true,
                  .usual = {.heads = 16, .kv_heads = 16, .width = 256, .vocabulary = 256'000},
                  .tied = true},
    DecoderTraits{.model_type = "gemma2",
                  .bias = DecoderTraits::Bias::kStated,
                  .norms = DecoderTraits::Norms::kBoth,
                  .gemma = true,
                  .usual = {.heads = 8, .kv_heads = 4, .width = 256, .window = 4096, .vocabulary = 256'000},
                  .tied = true},
    DecoderTraits{.model_type = "gemma3_text",
                  .bias = DecoderTraits::Bias::kStated,
                  .qk_norm = true,
                  .norms = DecoderTraits::Norms::kBoth,
                  .gemma = true,
                  .usual = {.heads = 8, .kv_heads = 4, .width = 256, .window = 4096, .vocabulary = 262'208},
                  .tied = true},
    DecoderTraits{.model_type = "phi3", .fused = true},
    DecoderTraits{.model_type = "deepseek_v2",
                  .bias = DecoderTraits::Bias::kStated,
                  .mixture = DecoderTraits::Mixture::kDeepseek},
    DecoderTraits{.model_type = "deepseek_v3",
                  .bias = DecoderTraits::Bias::kStated,
                  .mixture = DecoderTraits::Mixture::kDeepseek},
    DecoderTraits{.model_type = "qwen3_vl_text", .bias = DecoderTraits::Bias::kStated, .qk_norm = true},
    DecoderTraits{.model_type = "qwen3_vl_moe_text",
                  .bias = DecoderTraits::Bias::kStated,
                  .qk_norm = true,
                  .mixture = DecoderTraits::Mixture::kQwen},
    DecoderTraits{.model_type = "mimo", .bias = DecoderTraits::Bias::kQkv},
    DecoderTraits{.model_type = "minimax_m2", .mixture = DecoderTraits::Mixture::kMixtral, .whole_norm = true},
    DecoderTraits{.model_type = "gpt_oss",
                  .bias = DecoderTraits::Bias::kStated,
                  .mixture = DecoderTraits::Mixture::kMixtral,
                  .usual = {.kv_heads = 8, .width = 64, .window = 128},
                  .oss = true,
                  .biased = true},
    DecoderTraits{.model_type = "llama4_text",
                  .bias = DecoderTraits::Bias::kStated,
                  .mixture = DecoderTraits::Mixture::kLlama4,
                  .usual = {.kv_heads = 8, .width = 128}},
    DecoderTraits{.model_type = "deepseek_v32",
                  .bias = DecoderTraits::Bias::kStated,
                  .mixture = DecoderTraits::Mixture::kDeepseek},
    DecoderTraits{.model_type = "glm_moe_dsa",
                  .bias = DecoderTraits::Bias::kStated,
                  .mixture = DecoderTraits::Mixture::kDeepseek},
    DecoderTraits{
        .model_type = "glm4_moe", .bias = DecoderTraits::Bias::kQkvStated, .mixture = DecoderTraits::Mixture::kGlm},
    DecoderTraits{.model_type = "glm4v_moe_text",
                  .bias = DecoderTraits::Bias::kQkvStated,
                  .mixture = DecoderTraits::Mixture::kGlm},
    DecoderTraits{.model_type = "glm", .bias = DecoderTraits::Bias::kQkvStated, .usual = {.kv_heads = 2, .width = 128}},
    DecoderTraits{.model_type = "glm4",
                  .bias = DecoderTraits::Bias::kQkvStated,
                  .norms = DecoderTraits::Norms::kBoth,
                  .usual = {.kv_heads = 2, .width = 128}},
    DecoderTraits{.model_type = "glm4_moe_lite",
                  .bias = DecoderTraits::Bias::kStated,
                  .mixture = DecoderTraits::Mixture::kDeepseek},
    DecoderTraits{.model_type = "olmoe",
                  .bias = DecoderTraits::Bias::kStated,
                  .mixture = DecoderTraits::Mixture::kOlmoe,
                  .whole_norm = true},
    DecoderTraits{
        .model_type = "smollm3", .bias = DecoderTraits::Bias::kStated, .usual = {.kv_heads = 4}, .tied = true},
    DecoderTraits{
        .model_type = "kimi_k2", .bias = DecoderTraits::Bias::kStated, .mixture = DecoderTraits::Mixture::kDeepseek},
    DecoderTraits{.model_type = "qwen2_5_vl", .bias = DecoderTraits::Bias::kQkv, .usual = {.kv_heads = 32}},
    DecoderTraits{.model_type = "qwen2_5_vl_text", .bias = DecoderTraits::Bias::kQkv, .usual = {.kv_heads = 32}},
    DecoderTraits{.model_type = "seed_oss",
                  .bias = DecoderTraits::Bias::kQkvStated,
                  .usual = {.kv_heads = 8, .width = 128},
                  .biased = true},
    DecoderTraits{.model_type = "ministral3", .usual = {.kv_heads = 8, .width = 128}},
    DecoderTraits{.model_type = "hunyuan_v1_dense", .bias = DecoderTraits::Bias::kStated, .qk_norm = true},
    DecoderTraits{.model_type = "olmo3",
                  .bias = DecoderTraits::Bias::kStated,
                  .norms = DecoderTraits::Norms::kBehind,
                  .whole_norm = true,
                  .usual = {.window = 4096}},
    DecoderTraits{.model_type = "exaone4", .qk_norm = true, .norms = DecoderTraits::Norms::kBehind},
    DecoderTraits{.model_type = "ernie4_5",
                  .bias = DecoderTraits::Bias::kErnie,
                  .usual = {.kv_heads = 2, .width = 128},
                  .tied = true},
    DecoderTraits{.model_type = "ernie4_5_moe",
                  .bias = DecoderTraits::Bias::kErnie,
                  .mixture = DecoderTraits::Mixture::kErnie,
                  .usual = {.kv_heads = 4},
                  .tied = true},
};

}  // namespace ddlsim::importers::hf
