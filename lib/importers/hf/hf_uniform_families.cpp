// What the configurations of decoders whose blocks are all alike say, as their classes read it: configuration_*.py and
// modeling_*.py of transformers, and what stands beside the checkpoints of Baichuan, InternLM2 and ChatGLM.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "hf_towers.h"
#include "hf_uniform.h"

namespace ddlsim::importers::hf {
namespace {

/// A size by its name, and by the other one that its class takes as well (attribute_map of transformers).
struct SizeKey {
  const char* name;
  const char* other = nullptr;
};

struct SizeKeys {
  SizeKey width{"hidden_size"};
  SizeKey blocks{"num_hidden_layers"};
  SizeKey heads{"num_attention_heads"};
  const char* kv_heads = nullptr;   // none: as many as heads
  std::int64_t usual_kv_heads = 0;  // the class's; 0, and null in a configuration: as many as heads
  SizeKey inner{"intermediate_size"};
  std::int64_t inner_times = 0;  // what the class makes of the width where `inner` is left out; 0: it has to be stated
  const char* vocabulary = "vocab_size";
  SizeKey positions{"max_position_embeddings"};
  std::int64_t usual_positions = 2048;  // the class's
};

/// A family: where its sizes stand, what its class always has, and what the configuration switches.
struct UniformFamily {
  std::string_view model_type;
  SizeKeys keys{};
  UniformDecoder always{};
  bool tied = false;  // where the configuration does not say
  void (*read)(ConfigReader& config, UniformDecoder& decoder) = nullptr;
};

std::int64_t size_under(ConfigReader& config, const SizeKey& key, Bounds bounds = {}) {
  if (key.other == nullptr || !config.has(key.other)) return config.size(key.name, bounds);
  const std::int64_t size = config.size(key.other, bounds);
  if (config.has(key.name) && config.size(key.name, bounds) != size) {
    config.report(key.other, fmt::format("is {}, and '{}' something else: both name one size", size, key.name));
  }
  return size;
}

/// Key and value heads, which divide the heads.
void take_kv_heads(ConfigReader& config, const char* key, std::int64_t kv_heads, UniformDecoder& decoder) {
  decoder.kv_heads = kv_heads;
  if (decoder.heads % kv_heads != 0) {
    config.report(key, fmt::format("is {}, which does not divide {} heads", kv_heads, decoder.heads));
  }
}

/// What the class has, and this configuration asks for, without a rule here.
void refuse_where(ConfigReader& config, bool asked, const char* key, const std::string& why) {
  if (asked) config.report(key, why, {}, ErrorCode::kUnsupported);
}

bool drops(ConfigReader& config, const char* key, double otherwise = 0) {
  return config.probability_or(key, otherwise) > 0;
}

void read_bloom(ConfigReader& config, UniformDecoder& bloom) {
  bloom.dropout.attention = bloom.dropout.mlp = drops(config, "hidden_dropout");
}

void read_falcon(ConfigReader& config, UniformDecoder& falcon) {
  const bool grouped = config.flag_or("new_decoder_architecture", false);
  const bool shared = config.flag_or("multi_query", true);
  const bool parallel = config.flag_or("parallel_attn", true);
  if (grouped && !parallel) {
    config.report("parallel_attn", "is false, and 'new_decoder_architecture' true: its blocks are parallel");
  }
  if (grouped) {
    const char* const key = config.has("num_kv_heads") ? "num_kv_heads" : "n_head_kv";
    take_kv_heads(config, key, config.size_or(key, falcon.heads), falcon);
  } else if (shared) {
    falcon.kv_heads = 1;
  }
  if (parallel) {
    falcon.side_by_side = static_cast<int>(config.size_or("num_ln_in_parallel_attn", grouped ? 2 : 1, {1, 2}));
    refuse_where(config, falcon.side_by_side == 2 && !grouped, "num_ln_in_parallel_attn",
                 "is 2, which needs 'new_decoder_architecture'");
  }
  const bool bias = config.flag_or("bias", false);
  falcon.qkv_bias = falcon.output_bias = falcon.mlp_bias = bias;
  if (config.flag_or("alibi", false)) {
    falcon.position = PositionKind::kAlibi;
    refuse_where(config, falcon.kv_heads != falcon.heads, "alibi",
                 "is true, with fewer heads of keys than of queries: no operator has both");
  }
  falcon.activation = activation_of(config, "activation", "gelu");
  const bool last = drops(config, "hidden_dropout");
  falcon.dropout.attention = !parallel && drops(config, "attention_dropout");
  falcon.dropout.mlp = !parallel && last;
  falcon.dropout.sum = parallel && last;
}

void read_bigcode(ConfigReader& config, UniformDecoder& code) {
  if (config.flag_or("multi_query", true)) code.kv_heads = 1;
  code.activation = activation_of(config, "activation_function", "gelu_pytorch_tanh");
  code.dropout.embedding = drops(config, "embd_pdrop", 0.1);
  code.dropout.attention = code.dropout.mlp = drops(config, "resid_pdrop", 0.1);
}

void read_gptj(ConfigReader& config, UniformDecoder& gptj) {
  gptj.activation = activation_of(config, "activation_function", "gelu_new");
  gptj.dropout.embedding = drops(config, "embd_pdrop");
  gptj.dropout.attention = gptj.dropout.mlp = drops(config, "resid_pdrop");
}

void read_neo(ConfigReader& config, UniformDecoder& neo) {
  neo.activation = activation_of(config, "activation_function", "gelu_new");
  neo.dropout.embedding = drops(config, "embed_dropout");
  neo.dropout.attention = neo.dropout.mlp = drops(config, "resid_dropout");
}

void read_phi(ConfigReader& config, UniformDecoder& phi) {
  if (config.flag_or("qk_layernorm", false)) phi.qk_norm = QkNormKind::kPerHead;
  phi.activation = activation_of(config, "hidden_act", "gelu_new");
  phi.dropout.embedding = drops(config, "embd_pdrop");
  phi.dropout.attention = phi.dropout.mlp = drops(config, "resid_pdrop");
}

void read_mpt(ConfigReader& config, UniformDecoder& mpt) {
  ConfigReader attention = config.inner("attn_config");
  mpt.clipped = attention.has("clip_qkv") && attention.ratio_or("clip_qkv", 1) > 0;
  mpt.dropout.attention = mpt.dropout.mlp = drops(attention, "attn_pdrop");
  const std::string type = attention.text_or("attn_type", "multihead_attention");
  refuse_where(attention, type != "multihead_attention", "attn_type",
               "is '" + type.substr(0, 60) + "': transformers builds multihead_attention alone");
  refuse_where(attention, !attention.flag_or("alibi", true), "alibi", "is false: transformers always adds it");
  refuse_where(attention, attention.flag_or("qk_ln", false), "qk_ln", "is true: transformers has no such norm");
  config.adopt(std::move(attention));
  refuse_where(config, !config.flag_or("no_bias", true), "no_bias", "is false: transformers builds no biases");
  refuse_where(config, config.size_or("expansion_ratio", 4) != 4, "expansion_ratio",
               "is not 4: transformers' MLP is four times as wide as the rest");
}

void read_starcoder2(ConfigReader& config, UniformDecoder& code) {
  const bool bias = config.flag_or("use_bias", true);
  code.qkv_bias = code.output_bias = code.mlp_bias = bias;
  code.window = config.optional_size("sliding_window").value_or(0);
  code.activation = activation_of(config, "hidden_act", "gelu_pytorch_tanh");
  code.dropout.embedding = drops(config, "embedding_dropout");
  code.dropout.attention = code.dropout.mlp = drops(config, "residual_dropout");
}

void read_stablelm(ConfigReader& config, UniformDecoder& stable) {
  stable.qkv_bias = config.flag_or("use_qkv_bias", false);
  stable.side_by_side = config.flag_or("use_parallel_residual", false) ? 1 : 0;
  stable.dropout.mlp = drops(config, "hidden_dropout");
  refuse_where(config, config.flag_or("qk_layernorm", false), "qk_layernorm",
               "is true: a norm of its own for every head has no operator here");
}

void read_biases(ConfigReader& config, UniformDecoder& decoder) {
  decoder.qkv_bias = decoder.output_bias = config.flag_or("attention_bias", false);
}

void read_cohere(ConfigReader& config, UniformDecoder& cohere) {
  read_biases(config, cohere);
  if (config.flag_or("use_qk_norm", false)) cohere.qk_norm = QkNormKind::kWhole;
}

void read_granite(ConfigReader& config, UniformDecoder& granite) {
  read_biases(config, granite);
  granite.mlp_bias = config.flag_or("mlp_bias", false);
}

void read_olmo(ConfigReader& config, UniformDecoder& olmo) {
  read_biases(config, olmo);
  olmo.clipped = config.has("clip_qkv") && config.ratio_or("clip_qkv", 1) > 0;
}

void read_internlm2(ConfigReader& config, UniformDecoder& intern) {
  intern.qkv_bias = intern.output_bias = config.flag_or("bias", true);
}

/// One model_type for two codes: that of the 7B turns queries and keys and knows `max_position_embeddings`; that of
/// the 13B adds alibi and knows `model_max_length` alone.
void read_baichuan(ConfigReader& config, UniformDecoder& baichuan) {
  if (config.has("max_position_embeddings")) return;
  baichuan.position = PositionKind::kAlibi;
  if (!config.has("model_max_length")) {
    config.report(
        "max_position_embeddings", "is missing",
        {"it says that positions are rotary, as the 7B's; 'model_max_length' alone says alibi, as the 13B's"});
  }
}

void read_chatglm(ConfigReader& config, UniformDecoder& glm) {
  refuse_where(config, config.has("position_encoding_2d") || config.has("inner_hidden_size"),
               config.has("position_encoding_2d") ? "position_encoding_2d" : "inner_hidden_size",
               "is of the first ChatGLM, whose code has no rule here");
  glm.head = config.size("kv_channels", kModest);
  if (config.flag_or("multi_query_attention", false)) {
    take_kv_heads(config, "multi_query_group_num", config.size_or("multi_query_group_num", 1), glm);
  }
  const bool bias = config.flag_or("add_bias_linear", false);
  glm.qkv_bias = bias || config.flag_or("add_qkv_bias", false);
  glm.output_bias = glm.mlp_bias = bias;
  if (!config.flag_or("rmsnorm", true)) glm.norm = NormKind::kLayer;
  glm.dropout.attention = glm.dropout.mlp = drops(config, "hidden_dropout");
  refuse_where(config, config.has("pre_seq_len"), "pre_seq_len", "is stated: a trained prefix has no rule here");
  refuse_where(config, !config.flag_or("post_layer_norm", true), "post_layer_norm",
               "is false: a model without its last norm has no rule here");
}

constexpr SizeKeys kGptKeys{.width = {"n_embd", "hidden_size"},
                            .blocks = {"n_layer", "num_hidden_layers"},
                            .heads = {"n_head", "num_attention_heads"},
                            .inner = {"n_inner"},
                            .inner_times = 4,
                            .positions = {"n_positions", "max_position_embeddings"}};
constexpr SizeKeys kGroupedKeys{.kv_heads = "num_key_value_heads"};

constexpr std::array kUniformFamilies{
    UniformFamily{.model_type = "baichuan",
                  .keys = {.positions = {"max_position_embeddings", "model_max_length"}, .usual_positions = 4096},
                  .always = {.norm = NormKind::kRms,
                             .fused_qkv = true,
                             .gated = true,
                             .note = "Baichuan 2's head normalizes its weights every step: left out."},
                  .read = read_baichuan},
    UniformFamily{.model_type = "bloom",
                  .keys = {.width = {"hidden_size", "n_embed"},
                           .blocks = {"n_layer", "num_hidden_layers"},
                           .heads = {"n_head", "num_attention_heads"},
                           .inner = {nullptr},
                           .inner_times = 4,
                           .positions = {"seq_length"}},
                  .always = {.embedding_norm = true,
                             .position = PositionKind::kAlibi,
                             .fused_qkv = true,
                             .qkv_bias = true,
                             .output_bias = true,
                             .mlp_bias = true},
                  .tied = true,
                  .read = read_bloom},
    UniformFamily{.model_type = "chatglm",
                  .keys = {.blocks = {"num_layers"},
                           .inner = {"ffn_hidden_size"},
                           .vocabulary = "padded_vocab_size",
                           .positions = {"seq_length"}},
                  .always = {.norm = NormKind::kRms,
                             .fused_qkv = true,
                             .gated = true,
                             .fused_gate = true,
                             .note = "Half of each head's queries and keys are rotated; all of both is copied."},
                  .read = read_chatglm},
    UniformFamily{.model_type = "cohere",
                  .keys = {.kv_heads = "num_key_value_heads", .usual_positions = 8192},
                  .always = {.norm = NormKind::kNoBias, .side_by_side = 1, .gated = true, .scaled_logits = true},
                  .tied = true,
                  .read = read_cohere},
    UniformFamily{.model_type = "falcon",
                  .keys = {.width = {"hidden_size", "n_embed"},
                           .blocks = {"num_hidden_layers", "n_layer"},
                           .heads = {"num_attention_heads", "n_head"},
                           .inner = {"ffn_hidden_size"},
                           .inner_times = 4},
                  .always = {.fused_qkv = true},
                  .tied = true,
                  .read = read_falcon},
    UniformFamily{.model_type = "gpt_bigcode",
                  .keys = kGptKeys,
                  .always = {.position = PositionKind::kLearned,
                             .fused_qkv = true,
                             .qkv_bias = true,
                             .output_bias = true,
                             .mlp_bias = true},
                  .tied = true,
                  .read = read_bigcode},
    UniformFamily{.model_type = "gpt_neo",
                  .keys = {.blocks = {"num_layers", "num_hidden_layers"},
                           .heads = {"num_heads", "num_attention_heads"},
                           .inner_times = 4},
                  .always = {.position = PositionKind::kLearned,
                             .output_bias = true,
                             .wide_softmax = true,
                             .mlp_bias = true,
                             .note = "Blocks that look at a window compute every score and mask the rest."},
                  .tied = true,
                  .read = read_neo},
    UniformFamily{.model_type = "gptj",
                  .keys = kGptKeys,
                  .always = {.side_by_side = 1, .wide_softmax = true, .mlp_bias = true, .head_bias = true},
                  .read = read_gptj},
    UniformFamily{.model_type = "granite",
                  .keys = kGroupedKeys,
                  .always = {.norm = NormKind::kRms,
                             .gated = true,
                             .scaled_embedding = true,
                             .scaled_residual = true,
                             .scaled_logits = true},
                  .read = read_granite},
    UniformFamily{.model_type = "internlm2",
                  .keys = kGroupedKeys,
                  .always = {.norm = NormKind::kRms, .fused_qkv = true, .gated = true},
                  .read = read_internlm2},
    UniformFamily{.model_type = "mpt",
                  .keys = {.width = {"d_model", "hidden_size"},
                           .blocks = {"n_layers", "num_hidden_layers"},
                           .heads = {"n_heads", "num_attention_heads"},
                           .inner = {nullptr},
                           .inner_times = 4,
                           .positions = {"max_seq_len"}},
                  .always = {.norm = NormKind::kNoBias,
                             .position = PositionKind::kAlibi,
                             .fused_qkv = true,
                             .wide_softmax = true},
                  .tied = true,
                  .read = read_mpt},
    UniformFamily{.model_type = "olmo",
                  .keys = kGroupedKeys,
                  .always = {.norm = NormKind::kBare, .gated = true},
                  .read = read_olmo},
    UniformFamily{
        .model_type = "olmo2",
        .keys = kGroupedKeys,
        .always = {.norm = NormKind::kRms, .norms_behind = true, .qk_norm = QkNormKind::kWhole, .gated = true},
        .read = read_biases},
    UniformFamily{
        .model_type = "phi",
        .keys = kGroupedKeys,
        .always = {.side_by_side = 1, .qkv_bias = true, .output_bias = true, .mlp_bias = true, .head_bias = true},
        .read = read_phi},
    UniformFamily{.model_type = "stablelm",
                  .keys = {.kv_heads = "num_key_value_heads", .usual_kv_heads = 32, .usual_positions = 4096},
                  .always = {.gated = true},
                  .read = read_stablelm},
    UniformFamily{.model_type = "starcoder2",
                  .keys = {.kv_heads = "num_key_value_heads", .usual_kv_heads = 2, .usual_positions = 4096},
                  .tied = true,
                  .read = read_starcoder2},
};

/// A model's tokens where it has no table of positions: as asked for, else its positions up to 4096.
std::int64_t rows_of(ConfigReader& config, const Request& request, const SizeKeys& keys, bool learned) {
  const char* key = keys.positions.name;
  if (!config.has(key) && keys.positions.other != nullptr && config.has(keys.positions.other)) {
    key = keys.positions.other;
  }
  if (learned || config.has(key)) return sequence_of(config, request, key, learned);
  return request.sequence.value_or(std::min<std::int64_t>(keys.usual_positions, 4096));
}

void read_sizes(ConfigReader& config, const SizeKeys& keys, UniformDecoder& decoder) {
  decoder.width = size_under(config, keys.width);
  decoder.blocks = size_under(config, keys.blocks, {1, kMostBlocks});
  decoder.heads = size_under(config, keys.heads, kModest);
  decoder.kv_heads = decoder.heads;
  decoder.vocabulary = config.size(keys.vocabulary);
  decoder.head = std::max<std::int64_t>(1, decoder.width / decoder.heads);
  const bool stated = keys.inner.name != nullptr && config.has(keys.inner.name);
  const bool follows = keys.inner_times > 0 && !stated;
  decoder.inner = follows ? keys.inner_times * decoder.width : size_under(config, keys.inner);
  if (keys.kv_heads != nullptr) {
    const bool usual = keys.usual_kv_heads > 0 && !config.names(keys.kv_heads);
    const std::int64_t otherwise = usual ? keys.usual_kv_heads : decoder.heads;
    take_kv_heads(config, keys.kv_heads, config.size_or(keys.kv_heads, otherwise), decoder);
  }
}

}  // namespace

Family uniform_family(ConfigReader& config, const Request& request) {
  const auto* const family =
      std::find_if(kUniformFamilies.begin(), kUniformFamilies.end(),
                   [&](const UniformFamily& row) { return row.model_type == request.model_type; });
  const UniformFamily& is = family == kUniformFamilies.end() ? kUniformFamilies.front() : *family;
  UniformDecoder decoder = is.always;
  read_sizes(config, is.keys, decoder);
  const std::int64_t parted = decoder.heads * decoder.head;
  is.read(config, decoder);
  // A stated width of heads (ChatGLM's) leaves the rest free.
  if (decoder.heads * decoder.head == parted && parted != decoder.width) {
    config.report(is.keys.heads.name, fmt::format("is {}, which does not divide '{}', {}", decoder.heads,
                                                  is.keys.width.name, decoder.width));
  }
  decoder.tied = config.flag_or("tie_word_embeddings", is.tied) && request.model_type != "chatglm";
  const bool learned = decoder.position == PositionKind::kLearned;
  const std::int64_t rows = rows_of(config, request, is.keys, learned);
  if (learned) decoder.positions = size_under(config, is.keys.positions);
  if (config.failed()) return {};
  return build_uniform(decoder, rows);
}

}  // namespace ddlsim::importers::hf
