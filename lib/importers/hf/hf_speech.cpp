// Models of sound: Whisper's encoder and decoder on mel bins, wav2vec 2.0 on the wave.
#include <fmt/core.h>

#include "hf_towers.h"

namespace ddlsim::importers::hf {
namespace {

namespace wl = ddlsim::workload;

/// Of a convolution along time.
struct Taps {
  std::int64_t kernel;
  std::int64_t stride = 1;
  std::int64_t pad = 0;
};

/// A 1-D convolution, as a 2-D one of height one.
wl::Convolution along_time(std::int64_t out, const Taps& taps, bool bias) {
  return {.out = out, .kernel = {1, taps.kernel}, .stride = {1, taps.stride}, .pad = {0, taps.pad}, .bias = bias};
}

/// One side of Whisper.
struct WhisperSide {
  std::int64_t heads;
  std::int64_t blocks;
  std::int64_t inner;
  const char* activation;
};

WhisperSide whisper_side(ConfigReader& config, const std::string& name, const char* activation, std::int64_t width) {
  const std::string heads = name + "_attention_heads";
  WhisperSide side{};
  side.heads = config.size(heads.c_str(), kModest);
  side.blocks = config.size((name + "_layers").c_str(), {1, kMostBlocks});
  side.inner = config.size((name + "_ffn_dim").c_str());
  side.activation = activation;
  if (width % side.heads != 0) {
    config.report(heads.c_str(), fmt::format("is {}, which does not divide 'd_model', {}", side.heads, width));
  }
  return side;
}

/// Norm, three projections (keys without bias), attention in one kernel, the output's projection and the sum.
void add_own_attention(Tower& rows, const WhisperSide& side, bool causal) {
  const std::int64_t width = rows.width();
  rows.add("layernorm", wl::LayerNorm{}, "self_attn_layer_norm");
  rows.linear(width, width, "q_proj");
  rows.linear(width, width, "k_proj", false);
  rows.linear(width, width, "v_proj");
  rows.add("grouped_attention",
           wl::GroupedAttention{.heads = side.heads, .width = width / side.heads, .causal = causal}, "attention");
  rows.linear(width, width, "out_proj");
  rows.sum("attention_residual");
}

void add_cross_attention(Tower& rows, const WhisperSide& side, std::int64_t keys) {
  const std::int64_t width = rows.width();
  Tower others(rows.stack(), keys, width);
  rows.add("layernorm", wl::LayerNorm{}, "encoder_attn_layer_norm");
  rows.linear(width, width, "q_proj");
  others.linear(width, width, "k_proj", false);
  others.linear(width, width, "v_proj");
  rows.add("attention", wl::Attention{.heads = side.heads, .keys = keys}, "cross_attention");
  rows.linear(width, width, "out_proj");
  rows.sum("cross_residual");
}

/// `keys`: frames of the encoder; 0: this is the encoder.
void add_whisper_side(Tower& rows, const WhisperSide& side, std::int64_t keys) {
  for (std::int64_t i = 0; i < side.blocks; ++i) {
    add_own_attention(rows, side, keys > 0);
    if (keys > 0) add_cross_attention(rows, side, keys);
    rows.add("layernorm", wl::LayerNorm{}, "final_layer_norm");
    rows.mlp(side.inner, side.activation);
    rows.sum("mlp_residual");
  }
  rows.add("layernorm", wl::LayerNorm{}, keys > 0 ? "decoder_layer_norm" : "encoder_layer_norm");
}

/// wav2vec 2.0's convolutions: the same length in three lists.
struct Waves {
  std::vector<std::int64_t> widths;
  std::vector<std::int64_t> kernels;
  std::vector<std::int64_t> strides;
  bool bias;
  bool every_norm;  // layer norm after each; otherwise group norm after the first
};

Waves waves_of(ConfigReader& config) {
  constexpr std::int64_t kMost = 1 << 16;
  const auto list = [&](const char* key, std::vector<std::int64_t> usual) {
    std::vector<std::int64_t> sizes = config.has(key) ? config.counts(key) : std::move(usual);
    const bool fit = std::all_of(sizes.begin(), sizes.end(), [](std::int64_t n) { return n >= 1 && n <= kMost; });
    if (!sizes.empty() && sizes.size() <= kMostBlocks && fit) return sizes;
    if (!config.failed()) config.report(key, "has no sizes, or one outside 1 to 65536");
    return std::vector<std::int64_t>{1};
  };
  Waves waves{.widths = list("conv_dim", {512, 512, 512, 512, 512, 512, 512}),
              .kernels = list("conv_kernel", {10, 3, 3, 3, 3, 2, 2}),
              .strides = list("conv_stride", {5, 2, 2, 2, 2, 2, 2}),
              .bias = config.flag_or("conv_bias", false),
              .every_norm = false};
  const std::string norm = config.text_or("feat_extract_norm", "group");
  waves.every_norm = norm == "layer";
  if (norm != "layer" && norm != "group") {
    config.report("feat_extract_norm", "is '" + norm.substr(0, 60) + "'", {"known: group, layer"},
                  ErrorCode::kUnsupported);
  }
  if (waves.kernels.size() != waves.widths.size() || waves.strides.size() != waves.widths.size()) {
    config.report("conv_dim", fmt::format("has {} sizes, 'conv_kernel' {} and 'conv_stride' {}", waves.widths.size(),
                                          waves.kernels.size(), waves.strides.size()));
  }
  return waves;
}

/// The convolutions of the wave; returns how many frames come of it.
std::int64_t add_waves(Stack& stack, ConfigReader& config, const Waves& waves, std::int64_t values) {
  std::int64_t frames = values;
  std::int64_t channels = 1;
  for (std::size_t i = 0; i < waves.widths.size() && !config.failed(); ++i) {
    if (frames < waves.kernels[i]) {
      config.report("conv_kernel", fmt::format("has a kernel of {} on {} frames", waves.kernels[i], frames),
                    {"ask for a longer wave (--sequence, values at 16 kHz)"});
      break;
    }
    const std::int64_t width = waves.widths[i];
    stack.add_apart({channels, 1, frames}, "conv",
                    along_time(width, {.kernel = waves.kernels[i], .stride = waves.strides[i]}, waves.bias),
                    fmt::format("conv_{}", i));
    frames = (frames - waves.kernels[i]) / waves.strides[i] + 1;
    if (waves.every_norm) stack.add_apart({frames, width}, "layernorm", wl::LayerNorm{}, "conv_norm");
    if (!waves.every_norm && i == 0) stack.add("batchnorm", wl::BatchNorm{}, "group_norm");
    stack.add("gelu", wl::pointwise("gelu"), "conv_activation");
    channels = width;
  }
  return frames;
}

/// The transformer of wav2vec 2.0.
struct Wav2VecSizes {
  std::int64_t width;
  std::int64_t heads;
  std::int64_t blocks;
  std::int64_t inner;
  bool norm_first;
  const char* activation;
};

void add_wav2vec_block(Tower& rows, const Wav2VecSizes& sizes) {
  const std::int64_t width = sizes.width;
  if (sizes.norm_first) rows.add("layernorm", wl::LayerNorm{}, "layer_norm");
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) rows.linear(width, width, name);
  rows.add("grouped_attention", wl::GroupedAttention{.heads = sizes.heads, .width = width / sizes.heads}, "attention");
  rows.linear(width, width, "out_proj");
  rows.add("dropout", wl::pointwise("dropout"), "attention_dropout");
  rows.sum("attention_residual");
  if (!sizes.norm_first) rows.add("layernorm", wl::LayerNorm{}, "layer_norm");
  if (sizes.norm_first) rows.add("layernorm", wl::LayerNorm{}, "final_layer_norm");
  rows.mlp(sizes.inner, sizes.activation);
  rows.add("dropout", wl::pointwise("dropout"), "output_dropout");
  rows.sum("mlp_residual");
  if (!sizes.norm_first) rows.add("layernorm", wl::LayerNorm{}, "final_layer_norm");
}

/// A convolution of all frames' neighbours, in groups, with its weight's norm apart; its sum and norm.
void add_wav2vec_positions(Tower& rows, ConfigReader& config, const Wav2VecSizes& sizes) {
  const std::int64_t taps = config.size_or("num_conv_pos_embeddings", 128, kModest);
  const std::int64_t groups = config.size_or("num_conv_pos_embedding_groups", 16, kModest);
  Stack& stack = rows.stack();
  wl::Convolution op = along_time(sizes.width, {.kernel = taps, .pad = taps / 2}, true);
  op.groups = groups;
  stack.add_apart({sizes.width, 1, rows.rows()}, "conv", op, "pos_conv_embed");
  add_parameter(stack, 1, taps, "pos_conv_weight_g");
  rows.add("gelu", wl::pointwise("gelu"), "pos_conv_activation");
  rows.sum("positions");
  if (!sizes.norm_first) rows.add("layernorm", wl::LayerNorm{}, "encoder_layer_norm");
  rows.add("dropout", wl::pointwise("dropout"), "encoder_dropout");
}

/// The quantiser of pre-training and the projections that its contrast compares.
void add_wav2vec_quantiser(Tower& rows, ConfigReader& config, std::int64_t features) {
  const std::int64_t groups = config.size_or("num_codevector_groups", 2, kModest);
  const std::int64_t each = config.size_or("num_codevectors_per_group", 320, kModest);
  const std::int64_t wide = config.size_or("codevector_dim", 256);
  const std::int64_t projected = config.size_or("proj_codevector_dim", 256);
  if (wide % groups != 0) {
    config.report("codevector_dim", fmt::format("is {}, not a multiple of 'num_codevector_groups', {}", wide, groups));
    return;
  }
  rows.linear(rows.width(), projected, "project_hid");
  rows.linear(features, groups * each, "quantizer_weight_proj");
  rows.on(groups * each, "softmax", wl::pointwise("softmax"), "gumbel_softmax");
  add_parameter(rows.stack(), groups * each, wide / groups, "codevectors");
  rows.linear(wide, projected, "project_q");
}

/// masked_spec_embed exists where a mask may be drawn.
bool masks(ConfigReader& config) {
  for (const auto& [key, usual] : {std::pair{"mask_time_prob", 0.05}, std::pair{"mask_feature_prob", 0.0}}) {
    const nlohmann::json* value = config.value(key);
    if ((value != nullptr && value->is_number() ? value->get<double>() : usual) > 0) return true;
  }
  return false;
}

Wav2VecSizes wav2vec_sizes(ConfigReader& config) {
  Wav2VecSizes sizes{};
  sizes.width = divided(config, "hidden_size", "num_attention_heads");
  sizes.heads = config.size("num_attention_heads");
  sizes.blocks = config.size("num_hidden_layers", {1, kMostBlocks});
  sizes.inner = config.size("intermediate_size");
  sizes.norm_first = config.flag_or("do_stable_layer_norm", false);
  sizes.activation = activation_of(config, "hidden_act", "gelu");
  if (config.flag_or("add_adapter", false)) {
    config.report("add_adapter", "is true: the adapter has no rule", {}, ErrorCode::kUnsupported);
  }
  return sizes;
}

}  // namespace

Family whisper_family(ConfigReader& config, const Request& request) {
  constexpr std::int64_t kUsualTokens = 448;
  const std::int64_t width = config.size("d_model");
  const std::int64_t bins = config.size_or("num_mel_bins", 80, kModest);
  const std::int64_t frames = config.size_or("max_source_positions", 1500, kModest);
  const std::int64_t tokens = tokens_of(config, request, {"max_target_positions", kUsualTokens});
  const std::int64_t vocabulary = config.size("vocab_size");
  const char* const activation = activation_of(config, "activation_function", "gelu");
  const WhisperSide front = whisper_side(config, "encoder", activation, width);
  const WhisperSide back = whisper_side(config, "decoder", activation, width);
  Stack stack(tokens);
  Tower encoder(stack, frames, width);
  Tower decoder(stack, tokens, width);
  Family family;
  family.input_shape = {bins, 1, 2 * frames};
  stack.add_apart(family.input_shape, "conv", along_time(width, {.kernel = 3, .pad = 1}, true), "conv1");
  stack.add("gelu", wl::pointwise("gelu"), "conv1_activation");
  stack.add("conv", along_time(width, {.kernel = 3, .stride = 2, .pad = 1}, true), "conv2");
  stack.add("gelu", wl::pointwise("gelu"), "conv2_activation");
  encoder.table(frames, "encoder_embed_positions");
  encoder.sum("encoder_positions");
  if (!config.failed()) add_whisper_side(encoder, front, 0);
  decoder.table(vocabulary, "embed_tokens");
  decoder.table(config.size_or("max_target_positions", kUsualTokens), "decoder_embed_positions");
  decoder.sum("decoder_positions");
  if (!config.failed()) add_whisper_side(decoder, back, frames);
  const bool tied = config.flag_or("tie_word_embeddings", true);
  decoder.on(width, "linear", wl::Linear{.out = vocabulary, .bias = false, .tied = tied}, "proj_out");
  stack.add("softmax", wl::pointwise("softmax"), "loss");
  family.task = "speech recognition";
  family.sample = "clip";
  family.rows_name.clear();
  family.input_per_sample = bytes(8.0 * static_cast<double>(bins * frames) + 16.0 * static_cast<double>(tokens));
  family.input_source = "fp32 log-mel spectrogram, two frames for each position, token ids and labels of 8 B each";
  family.layers = stack.take();
  family.notes = {fmt::format("A sample has {} target tokens (--sequence).", tokens),
                  "The encoder's sinusoidal positions are frozen; their gradient is counted nevertheless. "
                  "Self-attention is one kernel, cross-attention is listed with its scores in memory."};
  return family;
}

Family wav2vec2_family(ConfigReader& config, const Request& request) {
  constexpr std::int64_t kFifteenSeconds = 240'000;
  const std::int64_t values = request.sequence.value_or(kFifteenSeconds);
  const Waves waves = waves_of(config);
  const Wav2VecSizes sizes = wav2vec_sizes(config);
  Stack stack(values);
  const std::int64_t frames = add_waves(stack, config, waves, values);
  Tower rows(stack, frames, sizes.width);
  const std::int64_t features = waves.widths.back();
  rows.on(features, "layernorm", wl::LayerNorm{}, "feature_norm");
  rows.linear(features, sizes.width, "feature_projection");
  rows.add("dropout", wl::pointwise("dropout"), "feature_dropout");
  if (masks(config)) add_parameter(stack, 1, sizes.width, "masked_spec_embed");
  add_wav2vec_positions(rows, config, sizes);
  for (std::int64_t i = 0; i < sizes.blocks && !config.failed(); ++i) add_wav2vec_block(rows, sizes);
  if (sizes.norm_first) rows.add("layernorm", wl::LayerNorm{}, "encoder_layer_norm");
  if (request.head == "ForCTC") {
    rows.linear(sizes.width, config.size_or("vocab_size", 32), "lm_head");
    stack.add("softmax", wl::pointwise("softmax"), "ctc_loss");
  }
  if (request.head == "ForPreTraining") add_wav2vec_quantiser(rows, config, features);
  Family family;
  family.task = request.head == "ForPreTraining" ? "contrastive pre-training" : "speech recognition";
  family.sample = "clip";
  family.rows_name.clear();
  family.input_shape = {1, 1, values};
  family.input_per_sample = bytes(4.0 * static_cast<double>(values));
  family.input_source = "fp32 wave; letters and masks not counted";
  family.layers = stack.take();
  family.notes = {fmt::format("A sample is a wave of {} values (--sequence), 16,000 to the second.", values),
                  "Group norm is listed as batchnorm, the same passes over memory. Losses beyond their softmax, "
                  "masking, sampled distractors and the weight norm's own kernels are not listed."};
  return family;
}

}  // namespace ddlsim::importers::hf
