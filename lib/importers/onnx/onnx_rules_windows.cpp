// Rules of convolutions and pools. Semantics: onnx/docs/Operators.md of github.com/onnx/onnx.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "onnx_builder.h"

namespace ddlsim::importers::onnx {
namespace {

using workload::Pair;
using workload::Shape;

/// A window that slides over two spatial sizes, as the node describes it.
struct Window {
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Pair dilation{1, 1};
  Pair before{0, 0};  // padding
  Pair after{0, 0};
  bool ceil = false;

  [[nodiscard]] std::int64_t span(std::size_t axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
};

/// The values of an attribute for two spatial axes; one axis is the width of a height of 1.
Pair pair_of(NodeContext& node, std::string_view attribute, std::size_t spatial, std::int64_t otherwise) {
  const std::vector<std::int64_t> list = node.integers(attribute);
  if (list.empty()) return spatial == 1 ? Pair{1, otherwise} : Pair{otherwise, otherwise};
  if (list.size() != spatial) {
    node.refuse(fmt::format("{} has {} values for {} spatial dimensions", attribute, list.size(), spatial));
    return {1, 1};
  }
  for (const std::int64_t value : list) {
    if (value >= 1 && value <= kLargestStride) continue;
    node.refuse(fmt::format("{} of {} is not from 1 to 2^20", attribute, value));
    return {1, 1};
  }
  return spatial == 1 ? Pair{1, list[0]} : Pair{list[0], list[1]};
}

void read_padding(NodeContext& node, Window& window, const Shape& image, std::size_t spatial) {
  const std::string_view automatic = node.text("auto_pad");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const std::int64_t out = (image[axis + 1] + window.stride[axis] - 1) / window.stride[axis];
      const std::int64_t total =
          std::max<std::int64_t>((out - 1) * window.stride[axis] + window.span(axis) - image[axis + 1], 0);
      window.before[axis] = total / 2;
      window.after[axis] = total - total / 2;
    }
    return;
  }
  const std::vector<std::int64_t> pads = node.integers("pads");
  if (pads.empty() || automatic == "VALID") return;
  if (pads.size() != 2 * spatial) {
    node.refuse(fmt::format("pads has {} values for {} spatial dimensions", pads.size(), spatial));
    return;
  }
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::size_t axis = i + 2 - spatial;
    window.before[axis] = pads[i];
    window.after[axis] = pads[i + spatial];
    if (std::min(pads[i], pads[i + spatial]) < 0 || std::max(pads[i], pads[i + spatial]) > kLargestStride) {
      node.refuse(fmt::format("pads of {} and {} are not from 0 to 2^20", pads[i], pads[i + spatial]));
      window.before[axis] = window.after[axis] = 0;
    }
  }
}

/// [channels, height, width] of an image tensor [batch, channels, (height,) width].
Shape image_of(NodeContext& node, const Shape& whole) {
  Shape sample = features_of(node, whole);
  if (sample.size() == 2) return {sample[0], 1, sample[1]};
  if (sample.size() == 3) return sample;
  node.refuse(fmt::format("an input of shape {}", workload::to_string(whole)),
              {"one, two or three spatial dimensions are modelled"}, ErrorCode::kUnsupported);
  return {1, 1, 1};
}

Pair output_of(NodeContext& node, const Window& window, const Shape& image) {
  Pair out{1, 1};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t room = image[axis + 1] + window.before[axis] + window.after[axis] - window.span(axis);
    if (room < 0) {
      node.refuse(fmt::format("its window is larger than the padded input {}", workload::to_string(image)));
      return {1, 1};
    }
    out[axis] = (window.ceil ? room + window.stride[axis] - 1 : room) / window.stride[axis] + 1;
  }
  return out;
}

/// What the schema has for a window: the same padding on both sides. `image` grows by what is left over.
struct Symmetric {
  Pair pad{0, 0};
  bool ceil = false;
};

Symmetric make_symmetric(NodeContext& node, const Window& window, const Pair& out, Shape& image, bool may_ceil) {
  Symmetric result{.ceil = window.ceil};
  for (std::size_t axis = 0; axis < 2; ++axis) result.pad[axis] = (window.before[axis] + window.after[axis]) / 2;
  const auto gives_same = [&](bool ceil) {
    const Window even{window.kernel, window.stride, window.dilation, result.pad, result.pad, ceil};
    return output_of(node, even, image) == out;
  };
  const bool odd = window.before[0] + window.after[0] != 2 * result.pad[0] ||
                   window.before[1] + window.after[1] != 2 * result.pad[1];
  if (!odd) return result;
  // Only where the even window fits at all; a refusal would end the node.
  const bool fits = window.span(0) <= image[1] + 2 * result.pad[0] && window.span(1) <= image[2] + 2 * result.pad[1];
  if (fits && gives_same(result.ceil)) return result;
  if (fits && may_ceil && gives_same(true)) {
    result.ceil = true;
    return result;
  }
  for (std::size_t axis = 0; axis < 2; ++axis) {
    image[axis + 1] += window.before[axis] + window.after[axis] - 2 * result.pad[axis];
  }
  node.note("Padding of unequal sides is written as an input larger by the difference; output and FLOPs are exact");
  return result;
}

Shape with_spatial(const Shape& whole, std::int64_t channels, const Pair& out) {
  if (whole.size() == 3) return {whole[0], channels, out[1]};
  return {whole[0], channels, out[0], out[1]};
}

/// One axis of a window over any number of them.
struct Slide {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t out = 1;
};

/// The spatial axes of a node's window, as Operators.md has them for any number of axes. `kernel` comes from the
/// weights, or from kernel_shape.
std::vector<Slide> slides_of(NodeContext& node, const Shape& sizes, const std::vector<std::int64_t>& kernel) {
  const std::size_t spatial = sizes.size();
  const auto listed = [&](std::string_view attribute, std::int64_t otherwise) {
    std::vector<std::int64_t> list = node.integers(attribute);
    if (list.empty()) list.assign(spatial, otherwise);
    const bool sound = list.size() == spatial && std::all_of(list.begin(), list.end(), [](std::int64_t value) {
                         return value >= 1 && value <= kLargestStride;
                       });
    if (!sound) {
      node.refuse(fmt::format("{} {} for {} spatial dimensions", attribute, workload::to_string(list), spatial));
      list.assign(spatial, 1);
    }
    return list;
  };
  const auto strides = listed("strides", 1);
  const auto dilations = listed("dilations", 1);
  std::vector<std::int64_t> pads = node.integers("pads");
  if (pads.empty()) pads.assign(2 * spatial, 0);
  if (pads.size() != 2 * spatial ||
      std::any_of(pads.begin(), pads.end(), [](auto p) { return p < 0 || p > kLargestStride; })) {
    node.refuse(fmt::format("pads {} for {} spatial dimensions", workload::to_string(pads), spatial));
    pads.assign(2 * spatial, 0);
  }
  const bool same = node.text("auto_pad").starts_with("SAME");
  const bool up = node.integer("ceil_mode", 0) != 0;
  std::vector<Slide> slides;
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t span = dilations[i] * (kernel[i] - 1) + 1;
    const std::int64_t room = sizes[i] + pads[i] + pads[i + spatial] - span;
    if (!same && room < 0) {
      node.refuse(fmt::format("its window is larger than the padded input {}", workload::to_string(sizes)));
      return slides;
    }
    const std::int64_t steps = (up ? room + strides[i] - 1 : room) / strides[i];
    slides.push_back({kernel[i], strides[i], same ? (sizes[i] + strides[i] - 1) / strides[i] : steps + 1});
  }
  return slides;
}

/// A window over depth, height and width as one over two sizes: depth and height become one. Kernel elements, outputs
/// and so FLOPs and parameters are the same; the input is as large as such a window needs.
struct Folded {
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Shape image{};
  Shape out{};  // of the whole tensor
};

Folded folded(NodeContext& node, const Shape& whole, std::int64_t out_channels, const std::vector<Slide>& s) {
  Folded flat;
  flat.kernel = {s[0].kernel * s[1].kernel, s[2].kernel};
  flat.stride = {s[0].stride * s[1].stride, s[2].stride};
  flat.image = {whole[1], (s[0].out * s[1].out - 1) * flat.stride[0] + flat.kernel[0],
                (s[2].out - 1) * flat.stride[1] + flat.kernel[1]};
  flat.out = {whole[0], out_channels, s[0].out, s[1].out, s[2].out};
  if (std::max(flat.kernel[0], flat.stride[0]) > kLargestStride) {
    node.refuse(fmt::format("a window of {} elements every {}", flat.kernel[0], flat.stride[0]));
  }
  node.note(
      "A window over three sizes is written as one over two, depth and height as one: FLOPs, parameters and outputs "
      "are exact");
  return flat;
}

bool over_three(NodeContext& node, const Shape& whole) {
  return whole.size() == 5 && features_of(node, whole).size() == 4;
}

void refuse_weights(NodeContext& node, const Shape& weights, const Shape& whole, std::int64_t groups) {
  node.refuse(fmt::format("weights {} do not fit an input {} in {} groups", workload::to_string(weights),
                          workload::to_string(whole), groups));
}

void conv_over_three(NodeContext& node, const Shape& whole, const Shape& weights) {
  const std::int64_t groups = node.integer("group", 1);
  if (weights.size() != 5 || groups < 1 || groups > kLargestStride || weights[0] < 1 || weights[0] % groups != 0 ||
      whole[1] % groups != 0 || weights[1] != whole[1] / groups ||
      std::any_of(weights.begin() + 2, weights.end(), [](auto k) { return k < 1 || k > kLargestStride; })) {
    return refuse_weights(node, weights, whole, groups);
  }
  const auto slides = slides_of(node, {whole.begin() + 2, whole.end()}, {weights.begin() + 2, weights.end()});
  if (node.failed()) return;
  const Folded flat = folded(node, whole, weights[0], slides);
  const bool fresh = node.train(1);
  const bool bias = node.has(2) && node.train(2);
  node.layer("conv",
             workload::Convolution{.out = weights[0],
                                   .kernel = flat.kernel,
                                   .stride = flat.stride,
                                   .groups = groups,
                                   .bias = bias,
                                   .tied = !fresh},
             flat.image);
  node.set(flat.out);
}

void pool_over_three(NodeContext& node, const Shape& whole, std::string_view word) {
  const auto kernel = node.integers("kernel_shape");
  if (kernel.size() != 3 ||
      std::any_of(kernel.begin(), kernel.end(), [](auto k) { return k < 1 || k > kLargestStride; })) {
    node.refuse(fmt::format("kernel_shape {} for 3 spatial dimensions", workload::to_string(kernel)));
    return;
  }
  const auto slides = slides_of(node, {whole.begin() + 2, whole.end()}, kernel);
  if (node.failed()) return;
  const Folded flat = folded(node, whole, whole[1], slides);
  node.layer(word, workload::Pool{.kernel = flat.kernel, .stride = flat.stride, .average = word == "avgpool"},
             flat.image);
  node.set(flat.out);
}

/// Of a convolution's weights, without its padding; refused, nothing.
std::optional<Window> window_of(NodeContext& node, const Shape& weights, std::size_t spatial) {
  Window window;
  window.kernel = spatial == 1 ? Pair{1, weights[2]} : Pair{weights[2], weights[3]};
  if (std::min(window.kernel[0], window.kernel[1]) < 1 ||
      std::max(window.kernel[0], window.kernel[1]) > kLargestStride) {
    node.refuse(fmt::format("weights of shape {}", workload::to_string(weights)));
    return std::nullopt;
  }
  window.stride = pair_of(node, "strides", spatial, 1);
  window.dilation = pair_of(node, "dilations", spatial, 1);
  return window;
}

/// Every element of the input is multiplied with the kernel and added to the output: the products of a convolution that
/// makes as many outputs as this has inputs, then what it makes is put in its place.
void conv_transpose(NodeContext& node) {
  const Shape whole = node.input(0).shape;
  const Shape weights = node.input(1).shape;
  const Shape image = image_of(node, whole);
  const std::size_t spatial = whole.size() - 2;
  const std::int64_t groups = node.integer("group", 1);
  if (node.failed()) return;
  if (weights.size() != whole.size() || groups < 1 || groups > kLargestStride || image[0] % groups != 0 ||
      weights[0] != image[0] || weights[1] < 1 || weights[1] > kLargestStride) {
    return refuse_weights(node, weights, whole, groups);
  }
  std::optional<Window> read = window_of(node, weights, spatial);
  if (!read) return;
  Window& window = *read;
  Pair out{1, 1};
  const auto stated = node.integers("output_shape");
  const auto more = node.integers("output_padding");
  const bool same = node.text("auto_pad").starts_with("SAME");
  if (!same && stated.empty()) read_padding(node, window, image, spatial);
  if ((!stated.empty() && stated.size() != spatial) || (!more.empty() && more.size() != spatial)) {
    node.refuse(fmt::format("output_shape or output_padding for {} spatial dimensions", spatial));
    return;
  }
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::size_t axis = i + 2 - spatial;
    out[axis] = !stated.empty() ? stated[i]
                : same          ? image[axis + 1] * window.stride[axis]
                                : (image[axis + 1] - 1) * window.stride[axis] + window.span(axis) +
                             (more.empty() ? 0 : std::clamp<std::int64_t>(more[i], 0, kLargestStride)) -
                             window.before[axis] - window.after[axis];
  }
  const std::int64_t channels = weights[1] * groups;
  // Without padding, of an input so much larger that every position of this one makes an output.
  const Shape grown{image[0], image[1] + window.kernel[0] - 1, image[2] + window.kernel[1] - 1};
  const bool fresh = node.train(1);
  const bool bias = node.has(2) && node.train(2);
  node.layer(
      "conv",
      workload::Convolution{.out = channels, .kernel = window.kernel, .groups = groups, .bias = bias, .tied = !fresh},
      grown);
  const Shape output = with_spatial(whole, channels, out);
  node.layer("concat", workload::Concat{node.sample(output)}, {}, "_placed");
  node.note("ConvTranspose is written as a convolution of as many products, and a copy of what it makes");
  node.set(output);
}

void conv(NodeContext& node) {
  const Shape whole = node.input(0).shape;
  const Shape weights = node.input(1).shape;
  if (over_three(node, whole)) return conv_over_three(node, whole, weights);
  Shape image = image_of(node, whole);
  const std::size_t spatial = whole.size() - 2;
  const std::int64_t groups = node.integer("group", 1);
  if (node.failed()) return;
  if (weights.size() != whole.size() || groups < 1 || groups > kLargestStride || weights[0] < 1 ||
      weights[0] % groups != 0 || image[0] % groups != 0 || weights[1] != image[0] / groups) {
    return refuse_weights(node, weights, whole, groups);
  }
  std::optional<Window> read = window_of(node, weights, spatial);
  if (!read) return;
  Window& window = *read;
  read_padding(node, window, image, spatial);
  const Pair out = output_of(node, window, image);
  if (node.failed()) return;
  const Symmetric even = make_symmetric(node, window, out, image, false);
  const bool fresh = node.train(1);
  const bool bias = node.has(2) && node.train(2);
  node.layer("conv",
             workload::Convolution{.out = weights[0],
                                   .kernel = window.kernel,
                                   .stride = window.stride,
                                   .pad = even.pad,
                                   .dilation = window.dilation,
                                   .groups = groups,
                                   .bias = bias,
                                   .tied = !fresh},
             image);
  node.set(with_spatial(whole, weights[0], out));
}

void pool(NodeContext& node, std::string_view word) {
  const Shape whole = node.input(0).shape;
  if (over_three(node, whole)) return pool_over_three(node, whole, word);
  Shape image = image_of(node, whole);
  if (node.failed()) return;
  const std::size_t spatial = whole.size() - 2;
  if (node.node().find("kernel_shape") == nullptr) {
    node.refuse("kernel_shape is missing");
    return;
  }
  Window window;
  window.kernel = pair_of(node, "kernel_shape", spatial, 1);
  window.stride = pair_of(node, "strides", spatial, 1);
  window.dilation = pair_of(node, "dilations", spatial, 1);
  window.ceil = node.integer("ceil_mode", 0) != 0;
  read_padding(node, window, image, spatial);
  const Pair out = output_of(node, window, image);
  if (node.failed()) return;
  const Shape output = with_spatial(whole, image[0], out);
  if (window.dilation != Pair{1, 1}) {
    for (std::size_t axis = 0; axis < 2; ++axis) image[axis + 1] -= window.span(axis) - window.kernel[axis];
    window.dilation = {1, 1};
    node.note("A dilated pool is written as one of an input smaller by what its window spans; its output is exact");
  }
  const Symmetric even = make_symmetric(node, window, out, image, true);
  node.layer(word,
             workload::Pool{.kernel = window.kernel,
                            .stride = window.stride,
                            .pad = even.pad,
                            .ceil = even.ceil,
                            .average = word == "avgpool"},
             image);
  node.set(output);
}

constexpr auto kWindowsRules = std::to_array<Rule>({
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"MaxPool", [](NodeContext& node) { pool(node, "maxpool"); }},
    {"AveragePool", [](NodeContext& node) { pool(node, "avgpool"); }},
});

}  // namespace

std::span<const Rule> window_rules() { return kWindowsRules; }

}  // namespace ddlsim::importers::onnx
