#include <fmt/core.h>

#include "hf_towers.h"

namespace ddlsim::importers::hf {
namespace {

namespace wl = ddlsim::workload;

/// A block's attention on `width`, after the projection before it, up to the residual sum.
struct AttentionPart {
  std::int64_t width;
  std::int64_t heads;
  bool bias = true;
  const char* output = "attention_output";
  bool causal = false;
};

void add_attention(Stack& stack, const AttentionPart& part) {
  stack.add_on({part.width}, "attention", wl::Attention{.heads = part.heads, .causal = part.causal}, "attention");
  stack.add("linear", wl::Linear{.out = part.width, .bias = part.bias}, part.output);
  stack.add("dropout", wl::pointwise("dropout"), "attention_dropout");
  stack.add("add", wl::Combine{}, "attention_residual");
}

void add_three(Stack& stack, std::int64_t width, bool bias) {
  for (const char* name : {"query", "key", "value"}) {
    stack.add_on({width}, "linear", wl::Linear{.out = width, .bias = bias}, name);
  }
}

/// Two products with an activation between, up to the residual sum.
struct MlpPart {
  std::int64_t width;
  std::int64_t inner;
  const char* word = "gelu";
  bool bias = true;
};

void add_mlp(Stack& stack, const MlpPart& part) {
  stack.add("linear", wl::Linear{.out = part.inner, .bias = part.bias}, "intermediate");
  stack.add(part.word, wl::pointwise(part.word), "activation");
  stack.add("linear", wl::Linear{.out = part.width, .bias = part.bias}, "output");
  stack.add("dropout", wl::pointwise("dropout"), "output_dropout");
  stack.add("add", wl::Combine{}, "output_residual");
}

Family of_text(Stack& stack, std::string task) {
  Family family;
  family.task = std::move(task);
  family.input_shape = {stack.rows()};
  family.input_per_sample = bytes(16.0 * static_cast<double>(stack.rows()));
  family.input_source = "token ids and labels of 8 B each, as the Trainer of transformers copies them";
  family.layers = stack.take();
  family.notes = {
      "Dropout of the attention probabilities is not listed: attention covers scores, softmax and context."};
  return family;
}

void add_head(Stack& stack, std::int64_t vocabulary, bool tied) {
  stack.add("linear", wl::Linear{.out = vocabulary, .bias = false, .tied = tied}, "lm_head");
  stack.add("softmax", wl::pointwise("softmax"), "loss");
}

}  // namespace

std::int64_t divided(ConfigReader& config, const char* hidden_key, const char* heads_key) {
  const std::int64_t hidden = config.size(hidden_key);
  const std::int64_t heads = config.size(heads_key);
  if (hidden % heads != 0) {
    config.report(heads_key, fmt::format("is {}, which does not divide '{}', {}", heads, hidden_key, hidden));
  }
  return hidden;
}

const char* activation_of(ConfigReader& config, const char* key, const char* otherwise) {
  const std::string name = config.text_or(key, otherwise);
  if (name == "relu") return "relu";
  if (name == "silu" || name == "swish") return "silu";
  if (name == "tanh") return "tanh";
  if (name.find("gelu") == std::string::npos) {
    config.report(key, "is '" + name.substr(0, 60) + "'", {"known: relu, silu, swish, tanh, gelu and its variants"},
                  ErrorCode::kUnsupported);
  }
  if (name == "quick_gelu") return "quick_gelu";
  return name == "gelu_new" ? "gelu_new" : "gelu";
}

std::int64_t sequence_of(ConfigReader& config, const Request& request, const char* positions_key, bool learned) {
  constexpr std::int64_t kUsual = 4096;
  const std::int64_t positions = learned ? config.size(positions_key) : config.size_or(positions_key, kUsual);
  const std::int64_t sequence = request.sequence.value_or(std::min(positions, kUsual));
  if (learned && sequence > positions) {
    config.report(positions_key,
                  fmt::format("is {}: the model has no position for all of {} tokens", positions, sequence),
                  {fmt::format("ask for a sequence of at most {} (--sequence)", positions)});
  }
  return sequence;
}

Family gpt2_family(ConfigReader& config, const Request& request) {
  Stack stack(sequence_of(config, request, "n_positions", true));
  const std::int64_t width = divided(config, "n_embd", "n_head");
  const std::int64_t heads = config.size("n_head");
  const std::int64_t blocks = config.size("n_layer", {1, kMostBlocks});
  const std::int64_t inner = config.size_or("n_inner", 4 * width);
  const std::int64_t vocabulary = config.size("vocab_size");
  const char* const activation = activation_of(config, "activation_function", "gelu_new");
  stack.table(vocabulary, width, "wte");
  stack.table(config.size("n_positions"), width, "wpe");
  stack.add("add", wl::Combine{}, "positions");
  stack.add("dropout", wl::pointwise("dropout"), "embedding_dropout");
  for (std::int64_t i = 0; i < blocks && !config.failed(); ++i) {
    stack.add("layernorm", wl::LayerNorm{}, "ln_1");
    stack.add("linear", wl::Linear{.out = 3 * width}, "c_attn");
    add_attention(stack, {.width = width, .heads = heads, .output = "c_proj", .causal = true});
    stack.add("layernorm", wl::LayerNorm{}, "ln_2");
    add_mlp(stack, {.width = width, .inner = inner, .word = activation});
  }
  stack.add("layernorm", wl::LayerNorm{}, "ln_f");
  add_head(stack, vocabulary, config.flag_or("tie_word_embeddings", true));
  return of_text(stack, "language modelling");
}

Family opt_family(ConfigReader& config, const Request& request) {
  Stack stack(sequence_of(config, request, "max_position_embeddings", true));
  const std::int64_t width = divided(config, "hidden_size", "num_attention_heads");
  const std::int64_t heads = config.size("num_attention_heads");
  const std::int64_t blocks = config.size("num_hidden_layers", {1, kMostBlocks});
  const std::int64_t inner = config.size("ffn_dim");
  const std::int64_t vocabulary = config.size("vocab_size");
  const std::int64_t word = config.size_or("word_embed_proj_dim", width);
  const bool bias = config.flag_or("enable_bias", true);
  const bool before = config.flag_or("do_layer_norm_before", true);
  const char* const activation = activation_of(config, "activation_function", "relu");
  stack.table(vocabulary, word, "embed_tokens");
  if (word != width) stack.add("linear", wl::Linear{.out = width, .bias = false}, "project_in");
  // The table has two rows of padding before the first position.
  stack.table(config.size("max_position_embeddings") + 2, width, "embed_positions");
  stack.add("add", wl::Combine{}, "positions");
  for (std::int64_t i = 0; i < blocks && !config.failed(); ++i) {
    if (before) stack.add("layernorm", wl::LayerNorm{}, "self_attn_layer_norm");
    add_three(stack, width, bias);
    add_attention(stack, {.width = width, .heads = heads, .bias = bias, .output = "out_proj", .causal = true});
    if (!before) stack.add("layernorm", wl::LayerNorm{}, "self_attn_layer_norm");
    if (before) stack.add("layernorm", wl::LayerNorm{}, "final_layer_norm");
    add_mlp(stack, {.width = width, .inner = inner, .word = activation, .bias = bias});
    if (!before) stack.add("layernorm", wl::LayerNorm{}, "final_layer_norm");
  }
  if (before && !config.flag_or("_remove_final_layer_norm", false)) {
    stack.add("layernorm", wl::LayerNorm{}, "last_layer_norm");
  }
  if (word != width) stack.add("linear", wl::Linear{.out = word, .bias = false}, "project_out");
  add_head(stack, vocabulary, config.flag_or("tie_word_embeddings", true));
  return of_text(stack, "language modelling");
}

Family gpt_neox_family(ConfigReader& config, const Request& request) {
  Stack stack(sequence_of(config, request, "max_position_embeddings", false));
  const std::int64_t width = divided(config, "hidden_size", "num_attention_heads");
  const std::int64_t heads = config.size("num_attention_heads");
  const std::int64_t blocks = config.size("num_hidden_layers", {1, kMostBlocks});
  const std::int64_t inner = config.size("intermediate_size");
  const std::int64_t vocabulary = config.size("vocab_size");
  const bool bias = config.flag_or("attention_bias", true);
  const char* const activation = activation_of(config, "hidden_act", "gelu");
  stack.table(vocabulary, width, "embed_in");
  for (std::int64_t i = 0; i < blocks && !config.failed(); ++i) {
    stack.add("layernorm", wl::LayerNorm{}, "input_layernorm");
    stack.add("linear", wl::Linear{.out = 3 * width, .bias = bias}, "query_key_value");
    stack.add_on({2 * width}, "rotary", wl::pointwise("rotary"), "rotary");
    add_attention(stack, {.width = width, .heads = heads, .bias = bias, .output = "dense", .causal = true});
    stack.add("layernorm", wl::LayerNorm{}, "post_attention_layernorm");
    add_mlp(stack, {.width = width, .inner = inner, .word = activation});
  }
  stack.add("layernorm", wl::LayerNorm{}, "final_layer_norm");
  add_head(stack, vocabulary, config.flag_or("tie_word_embeddings", false));
  return of_text(stack, "language modelling");
}

Family vit_family(ConfigReader& config, const Request& request) {
  const std::int64_t image = config.size("image_size", {1, 1 << 16});
  const std::int64_t patch = config.size("patch_size", {1, 1 << 16});
  const std::int64_t channels = config.size_or("num_channels", 3, {1, 1 << 16});
  if (patch > image) config.report("patch_size", fmt::format("is {}, larger than 'image_size', {}", patch, image));
  const std::int64_t side = std::max<std::int64_t>(1, image / patch);
  const std::int64_t rows = side * side + 1;
  Stack stack(rows);
  const std::int64_t width = divided(config, "hidden_size", "num_attention_heads");
  const std::int64_t heads = config.size("num_attention_heads");
  const std::int64_t blocks = config.size("num_hidden_layers", {1, kMostBlocks});
  const std::int64_t inner = config.size("intermediate_size");
  const bool bias = config.flag_or("qkv_bias", true);
  const char* const activation = activation_of(config, "hidden_act", "gelu");
  stack.add("conv", wl::Convolution{.out = width, .kernel = {patch, patch}, .stride = {patch, patch}, .bias = true},
            "patch_embeddings");
  stack.add_apart({1}, "embedding", wl::Embedding{.rows = 1, .width = width, .lookups = 1}, "cls_token");
  stack.add("concat", wl::Concat{{rows, width}}, "tokens");
  stack.table(rows, width, "position_embeddings");
  stack.add("add", wl::Combine{}, "positions");
  stack.add("dropout", wl::pointwise("dropout"), "embedding_dropout");
  for (std::int64_t i = 0; i < blocks && !config.failed(); ++i) {
    stack.add("layernorm", wl::LayerNorm{}, "layernorm_before");
    add_three(stack, width, bias);
    add_attention(stack, {.width = width, .heads = heads});
    stack.add("layernorm", wl::LayerNorm{}, "layernorm_after");
    add_mlp(stack, {.width = width, .inner = inner, .word = activation});
  }
  stack.add("layernorm", wl::LayerNorm{}, "layernorm");
  const bool classifies = request.head == "ForImageClassification";
  const std::int64_t labels = std::max<std::int64_t>(1, config.members("id2label").value_or(2));
  stack.add_apart({width}, "linear", wl::Linear{.out = classifies ? labels : width},
                  classifies ? "classifier" : "pooler");
  const char* const last = classifies ? "softmax" : "tanh";
  stack.add(last, wl::pointwise(last), "last");
  Family family = of_text(stack, "image classification");
  family.sample = "image";
  family.rows_name.clear();
  family.input_shape = {channels, image, image};
  family.input_per_sample = bytes(4.0 * static_cast<double>(channels * image * image));
  family.input_source = "fp32 image, as the Trainer of transformers copies it; labels not counted";
  return family;
}

}  // namespace ddlsim::importers::hf
