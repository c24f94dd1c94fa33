#include "op_transformer.h"

#include <algorithm>

namespace ddlsim::workload {
namespace {

/// Pairs of a query and a key that look at each other.
std::int64_t pairs_of(const GroupedAttention& op, std::int64_t rows, Counter& count) {
  const std::int64_t window = op.window == 0 ? rows : std::min(op.window, rows);
  if (!op.causal) return count.product({rows, window});
  // The first `window` queries see 1, 2, ..., window keys, each later one `window`.
  const std::int64_t first = count.product({window, window + 1}) / 2;
  return count.sum({first, count.product({rows - window, window})});
}

/// Rows that experts work on, and their elements outside and inside of them.
struct Routed {
  std::int64_t rows = 0;
  std::int64_t outside = 0;
  std::int64_t inside = 0;
};

/// One product per matrix, for all experts together, each with its share of the rows; gathering, activation and sum.
void set_kernels(Layer& layer, const Experts& op, std::int64_t width, const Routed& routed) {
  const std::int64_t experts = std::max<std::int64_t>(std::min(op.experts, routed.rows), 1);
  const std::int64_t rows = std::max<std::int64_t>(routed.rows / experts, 1);
  const std::int64_t first = op.gated ? 2 : 1;
  const auto add = [&](const primitives::Gemm& forward, std::int64_t times) {
    layer.forward.push_back({forward, times});
    layer.backward.push_back(
        {primitives::Gemm{experts, rows, forward.k, forward.n, primitives::BatchScales::kM, true}, times});
    layer.backward.push_back(
        {primitives::Gemm{experts, forward.k, forward.n, rows, primitives::BatchScales::kK, true}, times});
  };
  const std::int64_t moved = 3 * routed.outside + (first + 1) * routed.inside;
  layer.forward.push_back({primitives::MemoryBoundKernel{.elements = moved}});
  layer.backward.push_back({primitives::MemoryBoundKernel{.elements = 2 * moved}});
  add({experts, rows, op.width, width, primitives::BatchScales::kM, true}, first);
  add({experts, rows, width, op.width, primitives::BatchScales::kM, true}, 1);
}

}  // namespace

Expected<void> rms_norm_layer(const Shape& in, LayerAndShape& made, Counter& count) {
  if (in.empty()) return misfit("rmsnorm", in, "it needs [..., width]");
  const std::int64_t elements = count.elements(in);
  made.out = in;
  made.layer.forward_elements = count.product({2, elements});
  made.layer.backward_elements = count.product({3, elements});
  made.layer.saved_elements = elements;
  made.layer.parameters = {in.back()};
  made.layer.forward = {
      {primitives::MemoryBoundKernel{primitives::MemoryBoundKind::kNorm, made.layer.forward_elements, 0, in.back()}}};
  made.layer.backward = {
      {primitives::MemoryBoundKernel{primitives::MemoryBoundKind::kNorm, made.layer.backward_elements, 0, in.back()}}};
  return {};
}

Expected<void> attention_layer(const GroupedAttention& op, const Shape& in, LayerAndShape& made, Counter& count) {
  const std::int64_t queries = count.product({op.heads, op.width});
  if (in.size() != 2 || in[1] != queries) {
    return misfit("grouped_attention", in, fmt::format("it needs [rows, heads * width], so [rows, {}]", queries));
  }
  const std::int64_t kv_heads = op.kv_heads == 0 ? op.heads : op.kv_heads;
  if (op.heads % kv_heads != 0) {
    return misfit("grouped_attention", in, fmt::format("{} kv_heads do not divide {} heads", kv_heads, op.heads));
  }
  const std::int64_t value_width = op.value_width == 0 ? op.width : op.value_width;
  const std::int64_t rows = in[0];
  const std::int64_t values = count.product({op.heads, value_width});
  const std::int64_t pairs = pairs_of(op, rows, count);
  made.out = {rows, values};
  Layer& layer = made.layer;
  layer.forward_work = work(count.product({2, pairs, count.sum({queries, values})}));
  // Scores again and the gradients of queries and keys; those of probabilities and values.
  layer.backward_work =
      work(count.product({2, pairs, count.sum({count.product({3, queries}), count.product({2, values})})}));
  // Queries, keys, values and the output; backward reads them and the output's gradient, and writes the other three.
  const std::int64_t kv = count.product({kv_heads, count.sum({op.width, value_width})});
  layer.forward_elements = count.product({rows, count.sum({queries, kv, values})});
  layer.backward_elements = count.sum({count.product({2, layer.forward_elements}), count.product({rows, op.heads})});
  // The output, and the logarithm of each query's sum of exponentials.
  layer.saved_elements = count.product({rows, count.sum({values, op.heads})});
  layer.forward_kernels = 1;
  layer.backward_kernels = 3;
  primitives::AttentionShape shape{.queries = rows,
                                   .keys = rows,
                                   .heads = op.heads,
                                   .kv_heads = kv_heads,
                                   .width = op.width,
                                   .value_width = value_width,
                                   .window = op.window < rows ? op.window : 0,
                                   .causal = op.causal};
  layer.forward = {{primitives::FusedAttention{layer.forward_work, layer.forward_elements, shape}}};
  shape.pass = primitives::AttentionPass::kBackward;
  layer.backward = {{primitives::FusedAttention{layer.backward_work, layer.backward_elements, shape}}};
  return {};
}

Expected<void> experts_layer(const Experts& op, const Shape& in, LayerAndShape& made, Counter& count) {
  if (in.empty()) return misfit("experts", in, "it needs [..., width]");
  if (op.active > op.experts) {
    return misfit("experts", in, fmt::format("{} active experts of {}", op.active, op.experts));
  }
  // Checked before one list entry per tensor is made.
  constexpr std::int64_t kMostExperts = std::int64_t{1} << 16;
  if (op.experts > kMostExperts) return misfit("experts", in, fmt::format("at most {} experts", kMostExperts));
  const std::int64_t matrix = count.product({in.back(), op.width});
  const std::int64_t input = count.elements(in);
  const std::int64_t rows = count.overflowed() ? 1 : input / in.back();
  const std::int64_t routed = count.product({rows, op.active});
  const std::int64_t outside = count.product({routed, in.back()});
  const std::int64_t inside = count.product({routed, op.width});
  const std::int64_t matrices = op.gated ? 3 : 2;
  made.out = in;
  Layer& layer = made.layer;
  layer.forward_work = work(count.product({2, routed, matrices, matrix}));
  layer.backward_work = work(count.product({4, routed, matrices, matrix}));
  // Rows are gathered by expert (2 outside), multiplied (gated: 2 read, else 1; 1 written) and summed (1, and the
  // output); inside, each product writes, the activation reads all and writes one, and the last product reads it.
  const std::int64_t first = matrices - 1;
  layer.forward_elements =
      count.sum({count.product({4 + first, outside}), input, count.product({2 * first + 2, inside})});
  layer.backward_elements = count.product({2, layer.forward_elements});
  layer.saved_elements = count.sum({count.product({2, outside}), input, count.product({first + 1, inside})});
  // Experts that no row goes to are not read.
  layer.forward_weight_elements = count.product({std::min(op.experts, routed), matrices, matrix});
  layer.backward_weight_elements = count.product({2, layer.forward_weight_elements});
  // Gather, a grouped product per matrix, activation, sum.
  layer.forward_kernels = static_cast<int>(matrices) + 3;
  layer.backward_kernels = 2 * layer.forward_kernels;
  layer.parameters.assign(static_cast<std::size_t>(op.experts * matrices), matrix);
  if (!count.overflowed()) set_kernels(layer, op, in.back(), {routed, outside, inside});
  return {};
}

}  // namespace ddlsim::workload
