#include "ddlsim/workload/fusion.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "autocast.h"
#include "ddlsim/workload/passes.h"

namespace ddlsim::workload {
namespace {

/// Its kernels are no longer those of its operator.
void forget_operator(Layer& layer) {
  layer.op.reset();
  layer.in.clear();
}

/// A norm of constants takes in what follows it, as other norms do; no compiler puts it into a library's convolution.
bool is_frozen_norm(const Layer& layer) {
  const auto* op = layer.op ? std::get_if<Pointwise>(&*layer.op) : nullptr;
  return op != nullptr && op->constant;
}

bool is_pointwise(const Layer& layer) {
  if (layer.forward.size() != 1 || layer.output_elements == 0 || is_frozen_norm(layer)) return false;
  const auto* kernel = std::get_if<primitives::MemoryBoundKernel>(&layer.forward.front().shape);
  return kernel != nullptr && kernel->kind == primitives::MemoryBoundKind::kElementwise && layer.parameters.empty();
}

/// What is left of a kernel goes to the kernel it joined.
void join(std::vector<primitives::Kernel>& into, std::int64_t elements) {
  if (elements > 0) into.push_back({primitives::MemoryBoundKernel{.elements = elements}});
}

void join(Layer& into, Layer& layer) {
  forget_operator(into);
  forget_operator(layer);
  const std::int64_t between = 2 * layer.output_elements;
  const std::int64_t forward = std::max<std::int64_t>(layer.forward_elements - between, 0);
  const std::int64_t backward = std::max<std::int64_t>(layer.backward_elements - between, 0);
  into.forward_elements += forward;
  into.backward_elements += backward;
  join(into.forward, forward);
  join(into.backward, backward);
  layer.forward_elements = 0;
  layer.backward_elements = 0;
  layer.forward_kernels = 0;
  layer.backward_kernels = 0;
  layer.forward.clear();
  layer.backward.clear();
}

/// Who looks at whom.
primitives::AttentionShape shape_of(const Layer& layer) {
  primitives::AttentionShape shape;
  const auto* op = layer.op ? std::get_if<Attention>(&*layer.op) : nullptr;
  if (op == nullptr || layer.in.size() != 2) return shape;
  shape.queries = layer.in[0];
  shape.keys = op->keys == 0 ? layer.in[0] : op->keys;
  shape.heads = op->heads;
  shape.kv_heads = op->heads;
  shape.width = std::max<std::int64_t>(layer.in[1] / op->heads, 1);
  shape.value_width = shape.width;
  shape.causal = op->causal;
  return shape;
}

bool is_biased(const Layer& layer) {
  const auto* op = layer.op ? std::get_if<Attention>(&*layer.op) : nullptr;
  return op != nullptr && op->biased;
}

void fuse_attention(Layer& layer) {
  primitives::AttentionShape shape = shape_of(layer);
  if (shape.queries == shape.keys && layer.in.size() == 2) {
    const GroupedAttention op{.heads = shape.heads, .width = shape.width, .causal = shape.causal};
    if (auto made = layer_of(op, layer.in, layer.name)) {
      layer = std::move(made->layer);
      return;
    }
  }
  forget_operator(layer);
  if (shape.causal) {
    // Of a block's rows (a rank's share of a sequence) every second key is looked at, whichever share it is.
    const auto keys = static_cast<double>(shape.keys);
    layer.forward_work = layer.forward_work * (shape.queries == shape.keys ? (keys + 1) / (2 * keys) : 0.5);
  }
  const std::int64_t scores = layer.scores;
  layer.forward_elements -= 10 * scores;
  layer.backward_elements -= 11 * scores;
  layer.saved_elements -= 2 * scores;
  layer.backward_work = layer.forward_work * 2.5;
  layer.forward_kernels = 1;
  layer.backward_kernels = 1;
  layer.forward = {{primitives::FusedAttention{layer.forward_work, layer.forward_elements, shape}}};
  shape.pass = primitives::AttentionPass::kBackward;
  layer.backward = {{primitives::FusedAttention{layer.backward_work, layer.backward_elements, shape}}};
}

/// Copies of keys and values, or the sums of their gradients.
primitives::Kernel copies(std::int64_t elements) { return {primitives::MemoryBoundKernel{.elements = elements}}; }

/// A column beside the scores: both are joined, their largest is found and taken off; backward of the three.
void add_sinks(Layer& layer, const std::vector<std::int64_t>& logits) {
  const auto add = [&](std::vector<primitives::Kernel>& kernels, std::int64_t& moved, int& launched,
                       std::initializer_list<std::int64_t> accesses) {
    for (const std::int64_t times : accesses) {
      kernels.push_back(copies(times * layer.scores));
      moved += times * layer.scores;
      ++launched;
    }
  };
  add(layer.forward, layer.forward_elements, layer.forward_kernels, {2, 1, 2});
  add(layer.backward, layer.backward_elements, layer.backward_kernels, {1, 2, 2, 1, 1, 3});
  layer.parameters = logits;
}

void take_apart(Layer& layer, bool single) {
  const auto* op = std::get_if<GroupedAttention>(&*layer.op);
  const std::int64_t kv_heads = op->kv_heads == 0 ? op->heads : op->kv_heads;
  auto made =
      layer_of(Attention{.heads = op->heads, .causal = op->causal, .wide = single && !op->sinks}, layer.in, layer.name);
  if (!made) return;
  const std::int64_t copied = layer.in.front() * op->width * (op->heads + kv_heads);
  if (kv_heads < op->heads) {
    for (int i = 0; i < 2; ++i) {
      made->layer.forward.insert(made->layer.forward.begin(), copies(copied));
      made->layer.backward.push_back(copies(copied));
    }
    made->layer.forward_elements += 2 * copied;
    made->layer.backward_elements += 2 * copied;
    made->layer.forward_kernels += 2;
    made->layer.backward_kernels += 2;
  }
  if (op->sinks) add_sinks(made->layer, layer.parameters);
  layer = std::move(made->layer);
}

/// What the kernels of a lookup move, per sample.
std::int64_t moved(const std::vector<primitives::Kernel>& kernels) {
  std::int64_t elements = 0;
  for (const primitives::Kernel& kernel : kernels) {
    if (const auto* bound = std::get_if<primitives::MemoryBoundKernel>(&kernel.shape)) elements += bound->elements;
  }
  return elements;
}

/// Every table's lookup is done with the one of the table after it.
void join_tables(std::vector<Layer>& layers) {
  for (std::size_t i = 1; i < layers.size(); ++i) {
    Layer& before = layers[i - 1];
    Layer& layer = layers[i];
    if (!before.sparse_gradient || !layer.sparse_gradient) continue;
    forget_operator(before);
    forget_operator(layer);
    const auto add = [](std::vector<primitives::Kernel>& from, std::vector<primitives::Kernel>& to) {
      const primitives::MemoryBoundKernel both{primitives::MemoryBoundKind::kLookup, moved(from) + moved(to)};
      from.clear();
      to = {{both}};
    };
    add(before.forward, layer.forward);
    add(before.backward, layer.backward);
    layer.forward_elements += std::exchange(before.forward_elements, 0);
    layer.backward_elements += std::exchange(before.backward_elements, 0);
    before.forward_kernels = 0;
    before.backward_kernels = 0;
  }
}

/// What the library turns for one product of a convolution: its input or that one's gradient, and its output or that
/// one's; nothing for other layers and depthwise ones.
std::int64_t turned(const Layer& layer) {
  const auto* op = layer.op ? std::get_if<Convolution>(&*layer.op) : nullptr;
  if (op == nullptr || layer.in.empty() || (op->groups > 1 && op->groups == layer.in.front())) return 0;
  std::int64_t in = 1;
  for (const std::int64_t size : layer.in) in *= size;
  return 2 * (in + layer.output_elements);
}

void transpose(Layer& layer, std::int64_t elements) {
  if (elements == 0) return;
  const auto turn = [&](std::vector<primitives::Kernel>& kernels, std::int64_t& moved, int& launched) {
    const auto products =
        static_cast<std::int64_t>(std::count_if(kernels.begin(), kernels.end(), [](const primitives::Kernel& kernel) {
          return std::holds_alternative<primitives::ConvolutionShape>(kernel.shape);
        }));
    if (products == 0) return;
    kernels.push_back({primitives::MemoryBoundKernel{.elements = elements * products}});
    moved += elements * products;
    launched += static_cast<int>(2 * products);
  };
  turn(layer.forward, layer.forward_elements, layer.forward_kernels);
  turn(layer.backward, layer.backward_elements, layer.backward_kernels);
}

constexpr double kWide = 2;  // fp32 where the rest is in 16 bits

/// A pass of single operations: accesses to the operator's tensor, and kernels.
struct Singles {
  double accesses = 0;
  int kernels = 0;
  double widening = kWide;  // of the bytes, in 16 bits
};
struct Composition {
  Singles forward;
  Singles backward;
};
constexpr Composition kGelu{{18, 8}, {26, 10}};
constexpr Composition kGeluNew{{18, 8, 1}, {28, 11, 1}};
constexpr Composition kQuickGelu{{7, 3, 1}, {14, 5, 1}};
constexpr Composition kDropout{{8.5, 5}, {5, 2}};
constexpr Composition kLayerNorm{{15, 8}, {41, 20}};
constexpr Composition kRmsNorm{{7, 8, 18.0 / 7}, {23, 17, 2}};
constexpr Composition kRotary{{10, 10, 1}, {15, 18, 1}};
constexpr Composition kGated{{5, 2, 1}, {9, 3, 1}};

Composite composite_of(const Op& op) {
  const auto* pointwise = std::get_if<Pointwise>(&op);
  return pointwise == nullptr ? Composite::kNo : pointwise->composite;
}

/// By PyTorch's code of models.
std::optional<Composition> single_operations(const Op& op) {
  if (std::holds_alternative<RmsNorm>(op)) return kRmsNorm;
  if (const auto* combine = std::get_if<Combine>(&op); combine != nullptr && combine->gated) return kGated;
  if (composite_of(op) == Composite::kRotary) return kRotary;
  if (composite_of(op) == Composite::kGeluNew) return kGeluNew;
  if (composite_of(op) == Composite::kQuickGelu) return kQuickGelu;
  return std::nullopt;
}

/// By TensorFlow's.
std::optional<Composition> composition_of(const Op& op) {
  if (std::holds_alternative<LayerNorm>(op)) return kLayerNorm;
  switch (composite_of(op)) {
    case Composite::kGelu:
    case Composite::kGeluNew: return kGelu;
    case Composite::kQuickGelu: return kQuickGelu;
    case Composite::kDropout: return kDropout;
    case Composite::kRotary:
    case Composite::kNo: break;
  }
  return std::nullopt;
}

/// One pass of a layer.
struct PassOf {
  std::vector<primitives::Kernel>& kernels;
  std::int64_t& moved;
  int& launched;
};

/// As many kernels as launch, which share the accesses.
void add(PassOf pass, const Singles& singles, std::int64_t tensor) {
  const double elements = singles.accesses * static_cast<double>(tensor);
  const primitives::MemoryBoundKernel each{.elements = static_cast<std::int64_t>(elements / singles.kernels),
                                           .widening = singles.widening};
  pass.kernels.insert(pass.kernels.end(), static_cast<std::size_t>(singles.kernels), {each});
  pass.moved += static_cast<std::int64_t>(elements);
  pass.launched += singles.kernels;
}

/// Attention in separate kernels, of which dropout is one.
bool drops_scores(const Layer& layer) {
  return layer.scores > 0 && layer.op && std::holds_alternative<Attention>(*layer.op) && !is_biased(layer);
}

void compose(Layer& layer, const Composition& made_of) {
  const PassOf forward{layer.forward, layer.forward_elements, layer.forward_kernels};
  const PassOf backward{layer.backward, layer.backward_elements, layer.backward_kernels};
  for (const PassOf& pass : {forward, backward}) {
    pass.kernels.clear();
    pass.moved = 0;
    pass.launched = 0;
  }
  add(forward, made_of.forward, layer.output_elements);
  add(backward, made_of.backward, layer.output_elements);
}

void compose_as_tensorflow(Layer& layer) {
  if (drops_scores(layer)) {
    const PassOf forward{layer.forward, layer.forward_elements, layer.forward_kernels};
    const PassOf backward{layer.backward, layer.backward_elements, layer.backward_kernels};
    const auto but_one = [](Singles all) { return Singles{all.accesses - 2, all.kernels - 1}; };  // counted already
    add(forward, but_one(kDropout.forward), layer.scores);
    add(backward, but_one(kDropout.backward), layer.scores);
    return;
  }
  const auto made_of = layer.op && layer.forward_kernels > 0 ? composition_of(*layer.op) : std::nullopt;
  if (made_of) compose(layer, *made_of);
}

/// A kernel of its own for a norm's weight and bias: it reads input and gradient.
void add_weights_gradient(Layer& layer) {
  primitives::Kernel again = layer.backward.front();
  auto& kernel = std::get<primitives::MemoryBoundKernel>(again.shape);
  kernel.elements = 2 * layer.output_elements;
  layer.backward.push_back(again);
  layer.backward_elements += kernel.elements;
  ++layer.backward_kernels;
}

void compose_as_pytorch(Layer& layer) {
  if (!layer.op || layer.forward_kernels == 0) return;
  if (const auto made_of = single_operations(*layer.op)) compose(layer, *made_of);
  const bool trains = layer.backward.size() == 1 && !layer.parameters.empty();
  if (trains && std::holds_alternative<LayerNorm>(*layer.op)) add_weights_gradient(layer);
}

}  // namespace

bool has_single_operations(const Layer& layer) {
  return layer.op && (single_operations(*layer.op) || std::holds_alternative<LayerNorm>(*layer.op));
}

bool comes_apart(const Layer& layer) {
  const auto* op = layer.op ? std::get_if<GroupedAttention>(&*layer.op) : nullptr;
  if (op == nullptr || op->chunk > 0 || op->pooled > 0) return false;
  if (op->value_width != 0 && op->value_width != op->width) return false;
  // Of a ring's share of the keys there is less work than its operator says.
  const auto whole = layer_of(*op, layer.in, layer.name);
  return whole && whole->layer.forward_work == layer.forward_work;
}

bool is_composite(const Layer& layer) { return drops_scores(layer) || (layer.op && composition_of(*layer.op)); }

std::vector<Layer> fused(std::vector<Layer> layers, const Fusion& fusion, const std::vector<bool>& closed) {
  if (fusion.tables) join_tables(layers);
  std::vector<std::int64_t> turns(layers.size());
  if (fusion.transposes) std::transform(layers.begin(), layers.end(), turns.begin(), turned);
  Layer* before = nullptr;
  Autocast formats;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Layer& layer = layers[i];
    const Layer before_fusion = runs_forward_alone(layer) ? layer : Layer{};
    if (fusion.attention && layer.scores > 0 && !is_biased(layer)) fuse_attention(layer);
    if (fusion.apart && comes_apart(layer)) take_apart(layer, fusion.single);
    if (fusion.composed && !fusion.pointwise) compose_as_tensorflow(layer);
    if (fusion.single && !fusion.pointwise) compose_as_pytorch(layer);
    if (fusion.autocast && !fusion.pointwise) formats.apply(layer);
    freeze_as(layer, before_fusion);
    if (fusion.pointwise && before != nullptr && is_pointwise(layer)) {
      join(*before, layer);
    } else if (layer.forward_kernels > 0) {
      before = &layer;
    }
    if (i < closed.size() && closed[i]) before = nullptr;
  }
  for (std::size_t i = 0; i < layers.size(); ++i) transpose(layers[i], turns[i]);
  return layers;
}

Expected<Model> fused(Model model, const Fusion& fusion) {
  model.layers = fused(std::move(model.layers), fusion);
  auto totals = total(model.layers);
  if (!totals) return tl::unexpected<Error>(totals.error());
  model.totals = std::move(*totals);
  return model;
}

}  // namespace ddlsim::workload
