// Classifiers of images beside ViT: ConvNeXt, and Swin with attention in windows.
#include <fmt/core.h>

#include <cmath>
#include <numeric>

#include "hf_towers.h"

namespace ddlsim::importers::hf {
namespace {

namespace wl = ddlsim::workload;

constexpr std::int64_t kMostStages = 16;

/// An image cut into patches, and the sizes of the stages that follow.
struct Pyramid {
  std::int64_t image;
  std::int64_t patch;
  std::int64_t channels;
  std::vector<std::int64_t> depths;
};

std::vector<std::int64_t> stages(ConfigReader& config, const char* key, std::vector<std::int64_t> usual,
                                 std::int64_t most) {
  std::vector<std::int64_t> sizes = config.has(key) ? config.counts(key) : std::move(usual);
  const bool fit = std::all_of(sizes.begin(), sizes.end(), [&](std::int64_t n) { return n >= 1 && n <= most; });
  if (fit && !sizes.empty() && sizes.size() <= kMostStages) return sizes;
  config.report(key, fmt::format("has no sizes, more than {}, or one outside 1 to {}", kMostStages, most));
  return {1};
}

Pyramid pyramid_of(ConfigReader& config, std::vector<std::int64_t> depths) {
  Pyramid pyramid{.image = config.size_or("image_size", 224, kModest),
                  .patch = config.size_or("patch_size", 4, kModest),
                  .channels = config.size_or("num_channels", 3, kModest),
                  .depths = stages(config, "depths", std::move(depths), kMostBlocks)};
  if (std::accumulate(pyramid.depths.begin(), pyramid.depths.end(), std::int64_t{0}) > kMostBlocks) {
    config.report("depths", fmt::format("has over {} blocks in all", kMostBlocks));
  }
  if (pyramid.patch > pyramid.image) {
    config.report("patch_size", fmt::format("is {}, larger than 'image_size', {}", pyramid.patch, pyramid.image));
  }
  return pyramid;
}

/// A stage's length in one list beside that of another.
void same_length(ConfigReader& config, const char* key, std::size_t length, std::size_t stages) {
  if (length == stages) return;
  config.report(key, fmt::format("has {} sizes for {} stages of 'depths'", length, stages));
}

void add_patches(Stack& stack, const Pyramid& pyramid, std::int64_t width) {
  stack.add_apart({pyramid.channels, pyramid.image, pyramid.image}, "conv",
                  wl::Convolution{.out = width,
                                  .kernel = {pyramid.patch, pyramid.patch},
                                  .stride = {pyramid.patch, pyramid.patch},
                                  .bias = true},
                  "patch_embeddings");
}

Family family_of_images(Stack& stack, const Pyramid& pyramid, const char* note) {
  Family family;
  family.task = "image classification";
  family.sample = "image";
  family.rows_name.clear();
  family.input_shape = {pyramid.channels, pyramid.image, pyramid.image};
  family.input_per_sample =
      bytes(4.0 * static_cast<double>(pyramid.channels) * static_cast<double>(pyramid.image * pyramid.image));
  family.input_source = "fp32 image, as the Trainer of transformers copies it; labels not counted";
  family.layers = stack.take();
  family.notes = {note};
  return family;
}

/// What follows the mean over the image.
void add_classifier(Stack& stack, ConfigReader& config, const Request& request) {
  if (request.head != "ForImageClassification") return;
  const std::int64_t labels = std::max<std::int64_t>(1, config.members("id2label").value_or(2));
  stack.add("linear", wl::Linear{.out = labels}, "classifier");
  stack.add("softmax", wl::pointwise("softmax"), "loss");
}

/// A convolution of each channel's neighbourhood, a norm and two products.
void add_convnext_block(Stack& stack, std::int64_t side, std::int64_t width, bool scaled) {
  Tower rows(stack, side * side, width);
  stack.add_apart({width, side, side}, "conv",
                  wl::Convolution{.out = width, .kernel = {7, 7}, .pad = {3, 3}, .groups = width, .bias = true},
                  "dwconv");
  rows.add("layernorm", wl::LayerNorm{}, "layernorm");
  rows.linear(width, 4 * width, "pwconv1");
  rows.on(4 * width, "gelu", wl::pointwise("gelu"), "activation");
  rows.linear(4 * width, width, "pwconv2");
  if (scaled) {
    add_parameter(stack, 1, width, "layer_scale_parameter");
    rows.add("scale", wl::pointwise("scale"), "layer_scale");
  }
  rows.sum("residual");
}

/// Swin's rows of one stage.
struct WindowedStage {
  std::int64_t side;
  std::int64_t width;
  std::int64_t heads;
  std::int64_t window;  // at most the side
  std::int64_t table;   // rows of the bias table
  std::int64_t inner;   // of the MLP
  bool bias;
  const char* activation;
};

/// Scores within windows, in memory, with their bias; the sum of the values.
void add_windows(Tower& rows, const WindowedStage& stage, bool shifted) {
  Stack& stack = rows.stack();
  const std::int64_t across = (stage.side + stage.window - 1) / stage.window;  // the last ones padded
  const std::int64_t cells = stage.window * stage.window;
  const std::int64_t products = across * across * stage.heads;
  const std::int64_t each = stage.width / stage.heads;
  for (const char* name : {"query", "key", "value"}) rows.linear(stage.width, stage.width, name, stage.bias);
  add_parameter(stack, stage.table, stage.heads, "relative_position_bias_table");
  stack.add_apart(
      {rows.rows(), stage.width}, "matmul",
      wl::MatMul{.rows = cells, .inner = each, .columns = cells, .products = products, .out = {products, cells, cells}},
      "scores");
  stack.add("scale", wl::pointwise("scale"), "scaled_scores");
  stack.add("add", wl::Combine{}, "position_bias");
  if (shifted) stack.add("add", wl::Combine{}, "mask");
  stack.add("softmax", wl::pointwise("softmax"), "probabilities");
  stack.add(
      "matmul",
      wl::MatMul{
          .rows = cells, .inner = cells, .columns = each, .products = products, .out = {rows.rows(), stage.width}},
      "context");
  rows.linear(stage.width, stage.width, "output_dense");
}

void add_swin_block(Stack& stack, const WindowedStage& stage, bool shifted) {
  Tower rows(stack, stage.side * stage.side, stage.width);
  const wl::Concat moved{{rows.rows(), stage.width}};
  rows.add("layernorm", wl::LayerNorm{}, "layernorm_before");
  if (shifted) rows.add("concat", moved, "roll");
  rows.add("concat", moved, "windows");
  add_windows(rows, stage, shifted);
  rows.add("concat", moved, "windows_back");
  if (shifted) rows.add("concat", moved, "roll_back");
  rows.sum("attention_residual");
  rows.add("layernorm", wl::LayerNorm{}, "layernorm_after");
  rows.mlp(stage.inner, stage.activation);
  rows.sum("mlp_residual");
}

WindowedStage first_stage(ConfigReader& config, const Pyramid& pyramid) {
  WindowedStage stage{};
  stage.side = std::max<std::int64_t>(1, pyramid.image / pyramid.patch);
  stage.width = config.size_or("embed_dim", 96, {1, std::int64_t{1} << 20});
  stage.window = config.size_or("window_size", 7, {1, std::int64_t{1} << 10});
  stage.table = (2 * stage.window - 1) * (2 * stage.window - 1);
  stage.bias = config.flag_or("qkv_bias", true);
  stage.activation = activation_of(config, "hidden_act", "gelu");
  if (config.flag_or("use_absolute_embeddings", false)) {
    config.report("use_absolute_embeddings", "is true: these positions have no rule", {}, ErrorCode::kUnsupported);
  }
  return stage;
}

/// Four neighbours become one row of four times the width, then of twice.
void merge_patches(Stack& stack, WindowedStage& stage) {
  stage.side = (stage.side + 1) / 2;
  Tower rows(stack, stage.side * stage.side, 4 * stage.width);
  rows.add("concat", wl::Concat{{rows.rows(), rows.width()}}, "patch_merging");
  rows.add("layernorm", wl::LayerNorm{}, "merging_norm");
  rows.linear(4 * stage.width, 2 * stage.width, "reduction", false);
  stage.width *= 2;
}

}  // namespace

Family convnext_family(ConfigReader& config, const Request& request) {
  const Pyramid pyramid = pyramid_of(config, {3, 3, 9, 3});
  const std::vector<std::int64_t> widths = stages(config, "hidden_sizes", {96, 192, 384, 768}, kLargestSize);
  same_length(config, "hidden_sizes", widths.size(), pyramid.depths.size());
  const nlohmann::json* scale = config.value("layer_scale_init_value");
  const bool scaled = scale == nullptr || !scale->is_number() || scale->get<double>() > 0;
  Stack stack(1);
  std::int64_t side = std::max<std::int64_t>(1, pyramid.image / pyramid.patch);
  add_patches(stack, pyramid, widths.front());
  stack.add_apart({side * side, widths.front()}, "layernorm", wl::LayerNorm{}, "embeddings_norm");
  for (std::size_t i = 0; i < pyramid.depths.size() && !config.failed(); ++i) {
    if (i > 0) {
      stack.add_apart({side * side, widths[i - 1]}, "layernorm", wl::LayerNorm{}, "downsampling_norm");
      if (side < 2) config.report("image_size", "leaves nothing to halve before the last stage");
      stack.add_apart({widths[i - 1], side, side}, "conv",
                      wl::Convolution{.out = widths[i], .kernel = {2, 2}, .stride = {2, 2}, .bias = true},
                      "downsampling");
      side = std::max<std::int64_t>(1, side / 2);
    }
    for (std::int64_t block = 0; block < pyramid.depths[i]; ++block) {
      add_convnext_block(stack, side, widths[i], scaled);
    }
  }
  stack.add_apart({widths.back(), side, side}, "global_avgpool", wl::GlobalPool{}, "pool");
  stack.add("layernorm", wl::LayerNorm{}, "layernorm");
  add_classifier(stack, config, request);
  return family_of_images(stack, pyramid,
                          "Permutations between channels first and last are not listed: with channels_last they are "
                          "views. layer_scale is written as a table of one row and a scale.");
}

Family swin_family(ConfigReader& config, const Request& request) {
  const Pyramid pyramid = pyramid_of(config, {2, 2, 6, 2});
  const std::vector<std::int64_t> heads = stages(config, "num_heads", {3, 6, 12, 24}, kModest.highest);
  same_length(config, "num_heads", heads.size(), pyramid.depths.size());
  WindowedStage stage = first_stage(config, pyramid);
  const double ratio = config.ratio_or("mlp_ratio", 4.0);
  const std::int64_t window = stage.window;
  Stack stack(1);
  add_patches(stack, pyramid, stage.width);
  stack.add_apart({stage.side * stage.side, stage.width}, "layernorm", wl::LayerNorm{}, "embeddings_norm");
  for (std::size_t i = 0; i < pyramid.depths.size() && !config.failed(); ++i) {
    if (i > 0) merge_patches(stack, stage);
    stage.heads = heads[i];
    stage.window = std::min(window, stage.side);
    stage.inner = std::max<std::int64_t>(1, std::llround(std::floor(ratio * static_cast<double>(stage.width))));
    if (stage.width % stage.heads != 0) {
      config.report("num_heads", fmt::format("has {}, which does not divide a width of {}", stage.heads, stage.width));
      break;
    }
    for (std::int64_t block = 0; block < pyramid.depths[i]; ++block) {
      add_swin_block(stack, stage, block % 2 == 1 && stage.side > window);
    }
  }
  stack.add_apart({stage.side * stage.side, stage.width}, "layernorm", wl::LayerNorm{}, "layernorm");
  stack.add_apart({stage.width, stage.side, stage.side}, "global_avgpool", wl::GlobalPool{}, "pool");
  add_classifier(stack, config, request);
  return family_of_images(stack, pyramid,
                          "Attention within windows is listed as transformers computes it: batched products per window "
                          "and head, bias and mask added to the scores in memory; rolling and cutting are copies.");
}

}  // namespace ddlsim::importers::hf
