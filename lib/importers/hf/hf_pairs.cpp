// Models of two stacks: CLIP's towers of images and texts, T5's encoder and decoder.
#include <fmt/core.h>

#include "hf_towers.h"

namespace ddlsim::importers::hf {
namespace {

namespace wl = ddlsim::workload;

/// Sizes of one of CLIP's towers.
struct ClipTower {
  std::int64_t width;
  std::int64_t heads;
  std::int64_t blocks;
  std::int64_t inner;
  const char* activation;
};

ClipTower clip_tower(ConfigReader& config, const ClipTower& otherwise) {
  ClipTower tower = otherwise;
  tower.width = config.size_or("hidden_size", otherwise.width);
  tower.heads = config.size_or("num_attention_heads", otherwise.heads);
  tower.blocks = config.size_or("num_hidden_layers", otherwise.blocks, {1, kMostBlocks});
  tower.inner = config.size_or("intermediate_size", otherwise.inner);
  tower.activation = activation_of(config, "hidden_act", "quick_gelu");
  if (tower.width % tower.heads != 0) {
    config.report("num_attention_heads",
                  fmt::format("is {}, which does not divide 'hidden_size', {}", tower.heads, tower.width));
  }
  return tower;
}

void add_clip_block(Tower& rows, const ClipTower& sizes) {
  rows.add("layernorm", wl::LayerNorm{}, "layer_norm1");
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) rows.linear(sizes.width, sizes.width, name);
  rows.add("attention", wl::Attention{.heads = sizes.heads}, "attention");
  rows.linear(sizes.width, sizes.width, "out_proj");
  rows.sum("attention_residual");
  rows.add("layernorm", wl::LayerNorm{}, "layer_norm2");
  rows.mlp(sizes.inner, sizes.activation);
  rows.sum("mlp_residual");
}

/// The image tower; returns the input's shape.
wl::Shape add_clip_images(Stack& stack, ConfigReader& config, std::int64_t projection, bool failed) {
  const ClipTower sizes = clip_tower(config, {768, 12, 12, 3072, "gelu"});
  const std::int64_t image = config.size_or("image_size", 224, kModest);
  const std::int64_t patch = config.size_or("patch_size", 32, kModest);
  const std::int64_t channels = config.size_or("num_channels", 3, kModest);
  if (patch > image) config.report("patch_size", fmt::format("is {}, larger than 'image_size', {}", patch, image));
  const std::int64_t side = std::max<std::int64_t>(1, image / patch);
  Tower rows(stack, side * side + 1, sizes.width);
  wl::Shape input{channels, image, image};
  stack.add_apart(input, "conv",
                  wl::Convolution{.out = sizes.width, .kernel = {patch, patch}, .stride = {patch, patch}},
                  "patch_embedding");
  add_parameter(stack, 1, sizes.width, "class_embedding");
  stack.add("concat", wl::Concat{{rows.rows(), sizes.width}}, "tokens");
  rows.table(rows.rows(), "vision_position_embedding");
  rows.sum("vision_positions");
  rows.add("layernorm", wl::LayerNorm{}, "pre_layernorm");
  for (std::int64_t i = 0; i < sizes.blocks && !failed && !config.failed(); ++i) add_clip_block(rows, sizes);
  stack.add_apart({sizes.width}, "layernorm", wl::LayerNorm{}, "post_layernorm");
  stack.add("linear", wl::Linear{.out = projection, .bias = false}, "visual_projection");
  return input;
}

void add_clip_texts(Stack& stack, ConfigReader& config, std::int64_t projection, std::int64_t tokens) {
  const ClipTower sizes = clip_tower(config, {512, 8, 12, 2048, "gelu"});
  Tower rows(stack, tokens, sizes.width);
  rows.table(config.size_or("vocab_size", 49'408), "token_embedding");
  rows.table(config.size_or("max_position_embeddings", 77), "text_position_embedding");
  rows.sum("text_positions");
  for (std::int64_t i = 0; i < sizes.blocks && !config.failed(); ++i) add_clip_block(rows, sizes);
  rows.add("layernorm", wl::LayerNorm{}, "final_layer_norm");
  stack.add_apart({sizes.width}, "linear", wl::Linear{.out = projection, .bias = false}, "text_projection");
}

/// T5's sizes, and what of its blocks the configuration switches.
struct T5Sizes {
  std::int64_t width;
  std::int64_t heads;
  std::int64_t inside;  // of attention: heads by their width
  std::int64_t feed;
  bool gated;
  const char* activation;
};

T5Sizes t5_sizes(ConfigReader& config, bool multilingual) {
  T5Sizes sizes{};
  sizes.width = config.size("d_model");
  sizes.heads = config.size("num_heads", kModest);
  sizes.inside = sizes.heads * config.size("d_kv", kModest);
  sizes.feed = config.size("d_ff");
  const std::string form = config.text_or("feed_forward_proj", multilingual ? "gated-gelu" : "relu");
  sizes.gated = form.starts_with("gated-");
  const std::string name = sizes.gated ? form.substr(6) : form;
  // transformers configuration_t5.py: the gated form is GPT-2's.
  sizes.activation = name == "relu" ? "relu" : name == "silu" ? "silu" : form == "gated-gelu" ? "gelu_new" : "gelu";
  if (name != "relu" && name != "silu" && name.find("gelu") == std::string::npos) {
    config.report("feed_forward_proj", "is '" + form.substr(0, 60) + "'",
                  {"known: relu, gelu, silu, each also as gated-"}, ErrorCode::kUnsupported);
  }
  return sizes;
}

/// Attention of `rows` to `keys` rows (their own, or the encoder's), up to the residual sum.
void add_t5_attention(Tower& rows, std::int64_t keys, const T5Sizes& sizes) {
  rows.add("rmsnorm", wl::RmsNorm{}, "layer_norm");
  rows.linear(sizes.width, sizes.inside, "q", false);
  Tower others(rows.stack(), keys, sizes.width);
  others.linear(sizes.width, sizes.inside, "k", false);
  others.linear(sizes.width, sizes.inside, "v", false);
  const bool own = keys == rows.rows();  // with T5's relative positions
  rows.on(sizes.inside, "attention",
          wl::Attention{.heads = sizes.heads, .keys = own ? 0 : keys, .biased = own, .wide = true}, "attention");
  rows.linear(sizes.inside, sizes.width, "o", false);
  rows.add("dropout", wl::pointwise("dropout"), "attention_dropout");
  rows.sum("attention_residual");
}

void add_t5_feed(Tower& rows, const T5Sizes& sizes) {
  rows.add("rmsnorm", wl::RmsNorm{}, "ff_layer_norm");
  rows.linear(sizes.width, sizes.feed, sizes.gated ? "wi_0" : "wi", false);
  rows.on(sizes.feed, sizes.activation, wl::pointwise(sizes.activation), "activation");
  if (sizes.gated) {
    rows.linear(sizes.width, sizes.feed, "wi_1", false);
    rows.on(sizes.feed, "multiply", wl::Combine{.product = true}, "gate");
  }
  rows.on(sizes.feed, "dropout", wl::pointwise("dropout"), "feed_dropout");
  rows.linear(sizes.feed, sizes.width, "wo", false);
  rows.add("dropout", wl::pointwise("dropout"), "output_dropout");
  rows.sum("feed_residual");
}

/// Blocks of one side; `keys`: of the other side, 0 for none.
void add_t5_side(Tower& rows, std::int64_t blocks, std::int64_t keys, const T5Sizes& sizes) {
  for (std::int64_t i = 0; i < blocks; ++i) {
    add_t5_attention(rows, rows.rows(), sizes);
    if (keys > 0) add_t5_attention(rows, keys, sizes);
    add_t5_feed(rows, sizes);
  }
  rows.add("rmsnorm", wl::RmsNorm{}, "final_layer_norm");
  rows.add("dropout", wl::pointwise("dropout"), "final_dropout");
}

}  // namespace

std::int64_t tokens_of(ConfigReader& config, const Request& request, const Positions& table) {
  const std::int64_t positions = config.size_or(table.key, table.usual);
  const std::int64_t tokens = request.sequence.value_or(positions);
  if (tokens > positions) {
    config.report(table.key, fmt::format("is {}: the model has no position for all of {} tokens", positions, tokens),
                  {fmt::format("ask for a sequence of at most {} (--sequence)", positions)});
  }
  return tokens;
}

Family clip_family(ConfigReader& config, const Request& request) {
  Stack stack(1);
  const std::int64_t projection = config.size_or("projection_dim", 512);
  ConfigReader vision = config.inner("vision_config");
  ConfigReader text = config.inner("text_config");
  const std::int64_t tokens = tokens_of(text, request, {"max_position_embeddings", 77});
  Family family;
  family.input_shape = add_clip_images(stack, vision, projection, text.failed() || config.failed());
  add_clip_texts(stack, text, projection, tokens);
  add_parameter(stack, 1, 1, "logit_scale");
  stack.add_apart({2, projection}, "scale", wl::pointwise("scale"), "normalised");
  config.adopt(std::move(vision));
  config.adopt(std::move(text));
  const wl::Shape& image = family.input_shape;
  family.task = "contrastive image-text pre-training";
  family.sample = "image and text pair";
  family.rows_name.clear();
  family.input_per_sample = bytes(4.0 * static_cast<double>(image[0]) * static_cast<double>(image[1] * image[2]) +
                                  8.0 * static_cast<double>(tokens));
  family.input_source = "fp32 image and token ids of 8 B";
  family.layers = stack.take();
  family.notes = {
      "The matrix of images by texts and its losses, which grow with the batch, are not listed; nor are features of "
      "other GPUs exchanged. Attention is counted in full, without the saving of the text tower's mask."};
  return family;
}

Family family_of_text_pairs(std::int64_t source, std::int64_t target) {
  Family family;
  family.task = "sequence to sequence";
  family.sample = "sequence pair";
  family.rows_name.clear();
  family.input_shape = {source};
  family.input_per_sample = bytes(8.0 * static_cast<double>(source) + 16.0 * static_cast<double>(target));
  family.input_source = "source ids, previous target ids and labels of 8 B each";
  return family;
}

Family t5_family(ConfigReader& config, const Request& request) {
  constexpr std::int64_t kUsualSource = 512;
  constexpr std::int64_t kUsualTarget = 114;
  const std::int64_t source = request.sequence.value_or(kUsualSource);
  const std::int64_t target = request.target.value_or(std::max<std::int64_t>(1, kUsualTarget * source / kUsualSource));
  const bool multilingual = request.model_type == "mt5";
  const T5Sizes sizes = t5_sizes(config, multilingual);
  const std::int64_t blocks = config.size("num_layers", {1, kMostBlocks});
  const std::int64_t behind = config.size_or("num_decoder_layers", blocks, {1, kMostBlocks});
  const std::int64_t buckets = config.size_or("relative_attention_num_buckets", 32);
  const std::int64_t vocabulary = config.size("vocab_size");
  const bool tied = config.flag_or("tie_word_embeddings", !multilingual);
  Stack stack(source);
  Tower encoder(stack, source, sizes.width);
  Tower decoder(stack, target, sizes.width);
  Family family = family_of_text_pairs(source, target);
  stack.add_apart(
      {source}, "embedding",
      wl::Embedding{.rows = vocabulary, .width = sizes.width, .lookups = source + target, .out = {source, sizes.width}},
      "shared");
  if (!config.failed()) {
    add_parameter(stack, buckets, sizes.heads, "encoder_relative_attention_bias");
    encoder.add("dropout", wl::pointwise("dropout"), "encoder_dropout");
    add_t5_side(encoder, blocks, 0, sizes);
    add_parameter(stack, buckets, sizes.heads, "decoder_relative_attention_bias");
    decoder.add("dropout", wl::pointwise("dropout"), "decoder_dropout");
    add_t5_side(decoder, behind, source, sizes);
    decoder.on(sizes.width, "linear", wl::Linear{.out = vocabulary, .bias = false, .tied = tied}, "lm_head");
    stack.add("softmax", wl::pointwise("softmax"), "loss");
  }
  family.layers = stack.take();
  family.notes = {fmt::format("A sample is {} source tokens (--sequence) and {} target ones, 114 to 512 as T5's "
                              "pre-training has them (arXiv 1910.10683).",
                              source, target),
                  "The relative position bias is looked up once a step and added within attention's scores; attention "
                  "is counted in full, without the saving of the decoder's mask."};
  return family;
}

}  // namespace ddlsim::importers::hf
