// Networks of convolutions: which tensors between their operators stay for backward.
#include <algorithm>
#include <optional>
#include <variant>

#include "activations.h"
#include "ddlsim/workload/passes.h"

namespace ddlsim::plan {
namespace {

namespace wl = ddlsim::workload;

constexpr double kPlace = 8;  // bytes of an int64: where in its input a maximum lies

/// Whether an operator's gradient needs what it read.
struct ReadsInput {
  bool operator()(const wl::Convolution&) const { return true; }
  bool operator()(const wl::Linear&) const { return true; }
  bool operator()(const wl::BatchNorm&) const { return true; }
  bool operator()(const wl::LayerNorm&) const { return true; }
  bool operator()(const wl::RmsNorm&) const { return true; }
  bool operator()(const wl::Pool&) const { return true; }
  bool operator()(const wl::MatMul&) const { return true; }
  bool operator()(const wl::Lstm&) const { return true; }
  bool operator()(const wl::CausalConv&) const { return true; }
  bool operator()(const wl::Combine& op) const { return op.product; }
  bool operator()(const wl::Pointwise& op) const { return op.reads == wl::Reads::kInput; }
  template <typename Other>
  bool operator()(const Other&) const {
    return false;
  }
};

bool writes_what_it_needs(const wl::Layer& layer) {
  const auto* op = std::get_if<wl::Pointwise>(&*layer.op);
  return op != nullptr && op->reads == wl::Reads::kOutput;
}

/// Whether torch.autocast runs it in fp32, on a copy of its own that stays.
bool runs_wide(const wl::Layer& layer) {
  const auto* op = std::get_if<wl::Pointwise>(&*layer.op);
  return std::holds_alternative<wl::LayerNorm>(*layer.op) || (op != nullptr && op->over_rows);
}

/// Bytes per sample that an operator keeps for itself, whoever has its input and output. `element`: bytes of a number,
/// `wide`: under torch.autocast.
double own_bytes(const wl::Layer& layer, double element, bool wide) {
  const auto* pool = std::get_if<wl::Pool>(&*layer.op);
  if (pool != nullptr && !pool->average) return kPlace * static_cast<double>(layer.output_elements);
  const auto* op = std::get_if<wl::Pointwise>(&*layer.op);
  if (op != nullptr && op->reads == wl::Reads::kMask) return elements_in(layer.in);
  if (wide && runs_wide(layer)) return kSingle * elements_in(layer.in);
  // Of a product's two tensors the layer before it made one.
  if (const auto* product = std::get_if<wl::MatMul>(&*layer.op)) {
    const auto inner = static_cast<double>(product->products) * static_cast<double>(product->inner);
    const double both = inner * static_cast<double>(product->rows + product->columns);
    return element * std::max(both - elements_in(layer.in), 0.0);
  }
  const bool inside =
      std::holds_alternative<wl::Lstm>(*layer.op) || std::holds_alternative<wl::LinearAttention>(*layer.op);
  return inside ? element * static_cast<double>(layer.saved_elements) : 0;
}

class Tensors {
 public:
  explicit Tensors(std::span<const wl::Layer> layers) : layers_(layers), stays_(layers.size()) {}

  /// The layer whose output has so many elements, the nearest before `reader`; none: the model's input, or nobody's.
  [[nodiscard]] std::optional<std::size_t> before(std::size_t reader, double elements) const {
    for (std::size_t i = reader; i-- > 0;) {
      if (static_cast<double>(layers_[i].output_elements) == elements) return i;
    }
    return std::nullopt;
  }
  /// Whether that output had to be kept for this.
  bool keep(std::size_t layer) {
    const bool stayed = stays_[layer];
    stays_[layer] = true;
    return !stayed;
  }
  /// The output of a view is that of the layer it looks at.
  [[nodiscard]] std::size_t behind_views(std::size_t layer) const {
    while (layer > 0 && layers_[layer].op && std::holds_alternative<wl::Flatten>(*layers_[layer].op)) --layer;
    return layer;
  }

 private:
  std::span<const wl::Layer> layers_;
  std::vector<bool> stays_;
};

}  // namespace

std::vector<KeptActivations> kept_between(std::span<const wl::Layer> layers, const ActivationCut& cut) {
  const double element = activation_size(cut.precision).in(bytes);
  const double scale = static_cast<double>(cut.batch) / static_cast<double>(cut.context);
  const bool wide = cut.autocast && element < kSingle;
  std::vector<KeptActivations> kept(layers.size());
  Tensors tensors(layers);
  const auto keeps = [&](std::size_t reader, std::size_t maker) {
    const std::size_t real = tensors.behind_views(maker);
    if (tensors.keep(real)) {
      kept[reader].always += bytes(element * scale * static_cast<double>(layers[real].output_elements));
    }
  };
  bool fed = false;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const wl::Layer& layer = layers[i];
    if (!layer.op || layer.measured) {
      kept[i].always = bytes(element * scale * static_cast<double>(layer.saved_elements));
      continue;
    }
    const double in = elements_in(layer.in);
    kept[i].working = bytes(element * scale * (in + static_cast<double>(layer.output_elements)));
    if (wl::runs_forward_alone(layer)) continue;
    kept[i].always += bytes(scale * own_bytes(layer, element, wide));
    kept[i].casts = cast_weights(layer, cut);
    if (wide && runs_wide(layer)) continue;
    if (writes_what_it_needs(layer)) keeps(i, i);
    if (!std::visit(ReadsInput{}, *layer.op)) continue;
    const auto maker = tensors.before(i, in);
    if (maker) {
      keeps(i, *maker);
    } else if (!std::exchange(fed, true)) {
      kept[i].always += bytes(element * scale * in);
    }
    // A product's other factor: the layer before it where that is a gate, else another tensor of that size.
    if (!std::holds_alternative<wl::Combine>(*layer.op) || !maker || i == 0) continue;
    const auto other = *maker + 1 == i ? tensors.before(*maker, in) : std::optional(i - 1);
    if (other) keeps(i, *other);
  }
  return kept;
}

}  // namespace ddlsim::plan
