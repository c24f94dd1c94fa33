#include "ddlsim/workload/passes.h"

#include <algorithm>
#include <string>
#include <variant>

#include "ddlsim/workload/blocks.h"

namespace ddlsim::workload {
namespace {

bool is_weights_gradient(const primitives::Kernel& kernel) {
  const auto* gemm = std::get_if<primitives::Gemm>(&kernel.shape);
  return gemm != nullptr && gemm->batch_scales == primitives::BatchScales::kK;
}

bool is_input_gradient(const primitives::Kernel& kernel) {
  const auto* shape = std::get_if<primitives::ConvolutionShape>(&kernel.shape);
  return shape != nullptr && shape->pass == primitives::ConvolutionPass::kInputGradient;
}

bool is_linear(const Layer& layer) { return layer.op && std::holds_alternative<Linear>(*layer.op); }
bool is_sum(const Layer& layer) {
  const auto* combine = layer.op ? std::get_if<Combine>(&*layer.op) : nullptr;
  return combine != nullptr && !combine->product;
}

void freeze(Layer& layer) {
  for (const std::int64_t tensor : layer.parameters) layer.frozen_elements += tensor;
  layer.parameters.clear();
  layer.sparse_gradient = false;
  layer.sparse_elements = 0;
  const std::size_t before = layer.backward.size();
  std::erase_if(layer.backward, is_weights_gradient);
  if (layer.backward.size() == before) return;
  // One of two products is left, and nothing sums a bias's gradient.
  std::erase_if(layer.backward, [](const primitives::Kernel& kernel) {
    return std::holds_alternative<primitives::MemoryBoundKernel>(kernel.shape);
  });
  layer.backward_work = layer.forward_work;
  layer.backward_elements = layer.forward_elements;
  layer.backward_weight_elements = layer.forward_weight_elements;
  layer.backward_kernels = static_cast<int>(layer.backward.size());
}

void without_backward(Layer& layer) {
  layer.backward.clear();
  layer.backward_work = Work::zero();
  layer.backward_elements = 0;
  layer.backward_weight_elements = 0;
  layer.backward_kernels = 0;
}

/// The first layer of the head: of what follows the last residual sum; without sums none has one.
std::size_t head_of(std::span<const Layer> layers) {
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (is_sum(layers[i])) return i + 1;
  }
  return layers.size();
}

/// A kernel before each use that reads weights as they are kept and writes them in 16 bits.
void quantise(Layer& layer, int bits) {
  if (!is_linear(layer) && !(layer.op && std::holds_alternative<Experts>(*layer.op))) return;
  const std::int64_t weights = layer.frozen_elements;
  layer.quantised_elements = weights;
  if (weights == 0) return;
  constexpr DataSize kSixteen = bytes(2);
  const double accesses = 1 + quantised_weight(bits) / kSixteen;
  const auto moved = static_cast<std::int64_t>(static_cast<double>(weights) * accesses);
  const primitives::Kernel kernel{primitives::MemoryBoundKernel{.weights = moved}};
  layer.forward.insert(layer.forward.begin(), kernel);
  layer.forward_weight_elements += moved;
  layer.forward_rewritten += moved;
  ++layer.forward_kernels;
  if (layer.backward.empty()) return;
  layer.backward.insert(layer.backward.begin(), kernel);
  layer.backward_weight_elements += moved;
  layer.backward_rewritten += moved;
  ++layer.backward_kernels;
}

/// Down to `rank`, up again, and the sum with what the product made; `apart`: scaled by a kernel before.
Expected<void> add_adapter(Layer& layer, std::int64_t rank, bool apart) {
  const std::int64_t out = std::get<Linear>(*layer.op).out;
  Shape inside = layer.in;
  inside.back() = rank;
  Shape whole = layer.in;
  whole.back() = out;
  const auto down = layer_of(Linear{.out = rank, .bias = false}, layer.in, layer.name);
  if (!down) return tl::unexpected<Error>(down.error());
  const auto up = layer_of(Linear{.out = out, .bias = false}, inside, layer.name);
  if (!up) return tl::unexpected<Error>(up.error());
  const auto scaled = layer_of(pointwise("scale"), whole, layer.name);
  if (!scaled) return tl::unexpected<Error>(scaled.error());
  const auto sum = layer_of(Combine{}, whole, layer.name);
  if (!sum) return tl::unexpected<Error>(sum.error());
  for (const Layer* part : {&down->layer, &up->layer, apart ? &scaled->layer : nullptr, &sum->layer}) {
    if (part == nullptr) continue;
    layer.forward_work += part->forward_work;
    layer.backward_work += part->backward_work;
    layer.forward_elements += part->forward_elements;
    layer.backward_elements += part->backward_elements;
    layer.forward_weight_elements += part->forward_weight_elements;
    layer.backward_weight_elements += part->backward_weight_elements;
    layer.forward_kernels += part->forward_kernels;
    layer.backward_kernels += part->backward_kernels;
    layer.forward.insert(layer.forward.end(), part->forward.begin(), part->forward.end());
    layer.backward.insert(layer.backward.end(), part->backward.begin(), part->backward.end());
    layer.parameters.insert(layer.parameters.end(), part->parameters.begin(), part->parameters.end());
  }
  layer.saved_elements += down->layer.saved_elements;
  return {};
}

}  // namespace

void recompute(Layer& layer) {
  layer.backward_work += layer.forward_work;
  layer.backward_elements += layer.forward_elements;
  layer.backward_weight_elements += layer.forward_weight_elements;
  layer.backward_rewritten += layer.forward_rewritten;
  layer.backward_kernels += layer.forward_kernels;
  layer.backward.insert(layer.backward.begin(), layer.forward.begin(), layer.forward.end());
}

bool runs_forward_alone(const Layer& layer) {
  return !layer.measured && !layer.forward.empty() && layer.backward.empty() && layer.backward_work == Work::zero();
}

void freeze_as(Layer& layer, const Layer& before) {
  if (before.frozen_elements > 0) freeze(layer);
  if (!runs_forward_alone(before)) return;
  without_backward(layer);
  layer.saved_elements = 0;
}

void freeze_before(std::vector<Layer>& layers, std::size_t first) {
  if (first == 0) return;
  for (std::size_t i = 0; i < first; ++i) {
    freeze(layers[i]);
    without_backward(layers[i]);
    layers[i].saved_elements = 0;
  }
  Layer& layer = layers[first];
  const bool linear = is_linear(layer);
  const auto of_input = [&](const primitives::Kernel& kernel) {
    const bool product = linear && std::holds_alternative<primitives::Gemm>(kernel.shape);
    return is_input_gradient(kernel) || (product && !is_weights_gradient(kernel));
  };
  if (std::erase_if(layer.backward, of_input) == 0) return;
  layer.backward_work -= layer.forward_work;
  layer.backward_elements -= layer.forward_elements;
  layer.backward_weight_elements -= layer.forward_weight_elements;
  --layer.backward_kernels;
}

void drop_unread_outputs(std::vector<Layer>& layers) {
  for (std::size_t i = 1; i < layers.size(); ++i) {
    const auto* scaled = layers[i].op ? std::get_if<Pointwise>(&*layers[i].op) : nullptr;
    if (scaled == nullptr || !scaled->constant || !layers[i - 1].op) continue;
    if (std::holds_alternative<Convolution>(*layers[i - 1].op)) layers[i - 1].saved_elements = 0;
  }
}

namespace {

/// Whether a product's output says which experts a row goes to: a softmax over it comes before experts.
bool routes(std::span<const Layer> layers, std::size_t i) {
  for (std::size_t next = i + 1; next < layers.size() && next <= i + 2; ++next) {
    if (layers[next].op && std::holds_alternative<Experts>(*layers[next].op)) return true;
  }
  return false;
}

}  // namespace

std::vector<bool> adapted_products(std::span<const Layer> layers, AdaptedProducts which) {
  std::vector<bool> adapted(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!is_attention(layers[i])) continue;
    // Back to the last residual sum or table, and the first one after.
    for (std::size_t k = i; k-- > 0;) {
      const bool table = layers[k].op && std::holds_alternative<Embedding>(*layers[k].op);
      if (is_sum(layers[k]) || table || is_attention(layers[k])) break;
      adapted[k] = is_linear(layers[k]);
    }
    if (which == AdaptedProducts::kQkv) continue;
    const auto after = std::find_if(layers.begin() + static_cast<std::ptrdiff_t>(i), layers.end(), is_linear);
    if (after != layers.end()) adapted[static_cast<std::size_t>(after - layers.begin())] = true;
  }
  if (which != AdaptedProducts::kAll) return adapted;
  const auto first = std::find(adapted.begin(), adapted.end(), true);
  const std::size_t head = head_of(layers);
  for (auto i = static_cast<std::size_t>(first - adapted.begin()); i < head; ++i) {
    adapted[i] = adapted[i] || (is_linear(layers[i]) && !routes(layers, i));
  }
  return adapted;
}

DataSize quantised_weight(int bits) {
  constexpr double kScale = 4.0 / 64;
  return bytes(bits / 8.0 + (bits == 4 ? kScale : 0));
}

Expected<void> adapt(std::vector<Layer>& layers, const Adapters& adapters) {
  const std::vector<bool> adapted = adapted_products(layers, adapters.products);
  const auto first = std::find(adapted.begin(), adapted.end(), true);
  if (first == adapted.end()) {
    return fail(
        ErrorCode::kUnsupported, "no product of attention to adapt by LoRA", {},
        {"adapters stand beside the products of a transformer's attention, in layers that keep their operator"});
  }
  const auto start = static_cast<std::size_t>(first - adapted.begin());
  const std::size_t head = head_of(layers);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    freeze(layers[i]);
    if (i < start) without_backward(layers[i]);
    if (adapters.frozen_bits > 0 && i < head) quantise(layers[i], adapters.frozen_bits);
    if (!adapted[i]) continue;
    if (auto added = add_adapter(layers[i], adapters.rank, adapters.apart); !added) return added;
  }
  return {};
}

}  // namespace ddlsim::workload
