#include "autocast.h"

#include <algorithm>
#include <variant>

#include "shard_rules.h"

namespace ddlsim::workload {
namespace {

constexpr double kSingle = 2;         // fp32 where the rest is in 16 bits
constexpr double kCast = 1.5;         // one side of two is
constexpr double kWideSum = 5.0 / 3;  // of three tensors two are

using primitives::MemoryBoundKernel;
using primitives::MemoryBoundKind;

void widen(std::vector<primitives::Kernel>& kernels, double widening) {
  for (primitives::Kernel& kernel : kernels) {
    if (auto* bound = std::get_if<MemoryBoundKernel>(&kernel.shape)) {
      bound->widening = std::max(bound->widening, widening);
    }
  }
}

void widen(Layer& layer, double widening) {
  widen(layer.forward, widening);
  widen(layer.backward, widening);
}

/// A copy in the other format: of `elements` per sample, or of `weights`.
void cast(Layer& layer, std::int64_t elements, std::int64_t weights) {
  const primitives::Kernel copy{MemoryBoundKernel{.elements = 2 * elements, .weights = 2 * weights, .widening = kCast}};
  layer.forward.push_back(copy);
  layer.backward.push_back(copy);
  layer.forward_elements += 2 * elements;
  layer.backward_elements += 2 * elements;
  ++layer.forward_kernels;
  ++layer.backward_kernels;
}

/// Scores go to fp32 for their softmax, and come back after their dropout for the product with the values.
void widen_scores(Layer& layer) {
  const auto bound_by_memory = [](primitives::Kernel& kernel) { return std::get_if<MemoryBoundKernel>(&kernel.shape); };
  const auto from_softmax_on = [&](auto first, auto last) {
    bool wide = false;
    for (; first != last; ++first) {
      MemoryBoundKernel* bound = bound_by_memory(*first);
      if (bound == nullptr) continue;
      wide = wide || bound->kind == MemoryBoundKind::kSoftmax;
      if (wide) bound->widening = kSingle;
    }
  };
  from_softmax_on(layer.forward.begin(), layer.forward.end());
  from_softmax_on(layer.backward.rbegin(), layer.backward.rend());
  cast(layer, layer.scores, 0);
  cast(layer, layer.scores, 0);
}

/// GELU of single operations is, as its power is in fp32.
bool is_wide(const Layer& layer) {
  if (std::holds_alternative<LayerNorm>(*layer.op) || std::holds_alternative<RmsNorm>(*layer.op)) return true;
  const auto* pointwise = std::get_if<Pointwise>(&*layer.op);
  const bool has_power = pointwise != nullptr && pointwise->composite == Composite::kGeluNew;
  return std::holds_alternative<Embedding>(*layer.op) || (has_power && layer.forward_kernels > 1);
}

bool is_product(const Layer& layer) {
  return std::any_of(layer.forward.begin(), layer.forward.end(), [](const primitives::Kernel& kernel) {
    return std::holds_alternative<primitives::Gemm>(kernel.shape) ||
           std::holds_alternative<primitives::ConvolutionShape>(kernel.shape);
  });
}

}  // namespace

bool Autocast::beside_the_last(const Layer& layer) const { return after_product_ && layer.in == product_in_; }

void Autocast::apply(Layer& layer) {
  if (!layer.op || layer.forward_kernels == 0) return;
  const bool is_attention = std::holds_alternative<Attention>(*layer.op);
  if (is_attention || is_product(layer)) {
    if (!beside_the_last(layer)) input_wide_ = wide_;
    after_product_ = std::holds_alternative<Linear>(*layer.op);
    product_in_ = layer.in;
    if (layer.scores > 0) widen_scores(layer);
    if (input_wide_ && !is_attention) cast(layer, elements_of(layer.in), 0);
    for (const std::int64_t weights : layer.parameters) cast(layer, 0, weights);
    wide_ = false;
    return;
  }
  after_product_ = false;
  if (is_wide(layer)) {
    widen(layer, kSingle);
    wide_ = true;
    stream_wide_ = stream_wide_ || !std::holds_alternative<Pointwise>(*layer.op);
  } else if (std::holds_alternative<Combine>(*layer.op)) {
    if (stream_wide_) widen(layer, wide_ ? kSingle : kWideSum);
    wide_ = stream_wide_;
  } else if (wide_) {
    widen(layer, kSingle);
  }
}

}  // namespace ddlsim::workload
