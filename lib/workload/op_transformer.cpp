#include "op_transformer.h"

#include <algorithm>
#include <vector>

namespace ddlsim::workload {
namespace {

/// Keys that stand for several rows each, of which a query looks at some.
struct PooledKeys {
  std::int64_t rows = 1;  // of a key
  std::int64_t keep = 0;  // at most
};

/// How many of them queries look at: the sum over queries, one a row.
std::int64_t pooled_pairs(std::int64_t queries, const PooledKeys& keys, Counter& count) {
  const std::int64_t all = queries / keys.rows;
  const std::int64_t most = std::min(keys.keep, all);
  // `keys.rows` queries see 0, 1, ..., all - 1 each, and those of the last block `all`, as far as they look.
  const std::int64_t rising = std::max<std::int64_t>(std::min(most, all - 1), 0);
  const std::int64_t level = std::max<std::int64_t>(all - 1 - rising, 0);
  const std::int64_t blocks = count.sum({count.product({rising, rising + 1}) / 2, count.product({level, most})});
  return count.sum({count.product({keys.rows, blocks}), count.product({queries - all * keys.rows + 1, most})});
}

/// Pairs of a query and a key that look at each other.
std::int64_t pairs_in(const GroupedAttention& op, std::int64_t rows, Counter& count) {
  const std::int64_t window = op.window == 0 ? rows : std::min(op.window, rows);
  if (!op.causal) return count.product({rows, window});
  // The first `window` queries see 1, 2, ..., window keys, each later one `window`.
  const std::int64_t first = count.product({window, window + 1}) / 2;
  return count.sum({first, count.product({rows - window, window})});
}

std::int64_t pairs_of(const GroupedAttention& op, std::int64_t rows, Counter& count) {
  if (op.chunk == 0 || op.chunk >= rows) return pairs_in(op, rows, count);
  return count.sum(
      {count.product({rows / op.chunk, pairs_in(op, op.chunk, count)}), pairs_in(op, rows % op.chunk, count)});
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
  if (op.pooled < 0 || (op.pooled > 0 && (!op.causal || op.chunk > 0))) {
    return misfit("grouped_attention", in, "pooled keys need causal attention without chunks");
  }
  const std::int64_t beside = op.pooled == 0 ? 0 : rows / op.pooled;  // keys
  const std::int64_t keep = op.pooled_keep == 0 ? beside : std::min(op.pooled_keep, beside);
  const std::int64_t pairs =
      count.sum({pairs_of(op, rows, count), op.pooled == 0 ? 0 : pooled_pairs(rows, {op.pooled, keep}, count)});
  made.out = {rows, values};
  Layer& layer = made.layer;
  layer.forward_work = Counter::work({2, pairs, count.sum({queries, values})});
  // Scores again and the gradients of queries and keys; those of probabilities and values.
  layer.backward_work = Counter::work({2, pairs, count.sum({count.product({3, queries}), count.product({2, values})})});
  // Queries, keys, values and the output; backward reads them and the output's gradient, and writes the other three.
  const std::int64_t kv = count.product({kv_heads, count.sum({op.width, value_width})});
  layer.forward_elements =
      count.sum({count.product({rows, count.sum({queries, kv, values})}), count.product({beside, kv})});
  layer.backward_elements = count.sum({count.product({2, layer.forward_elements}), count.product({rows, op.heads})});
  // The output, and the logarithm of each query's sum of exponentials.
  layer.saved_elements = count.product({rows, count.sum({values, op.heads})});
  if (op.sinks) layer.parameters = {op.heads};
  layer.forward_kernels = 1;
  layer.backward_kernels = 3;
  // Chunks look at nothing outside of them, as heads do.
  const std::int64_t length = op.chunk == 0 ? rows : std::min(op.chunk, rows);
  const std::int64_t chunks = length == 0 ? 1 : (rows + length - 1) / length;
  const std::int64_t looked_at = count.sum({op.window, keep});  // by the last query
  primitives::AttentionShape shape{.queries = length,
                                   .keys = length,
                                   .heads = count.product({op.heads, chunks}),
                                   .kv_heads = count.product({kv_heads, chunks}),
                                   .width = op.width,
                                   .value_width = value_width,
                                   .window = op.window > 0 && looked_at < length ? looked_at : 0,
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
  layer.forward_work = Counter::work({2, routed, matrices, matrix});
  layer.backward_work = Counter::work({4, routed, matrices, matrix});
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
  for (std::int64_t i = 0; op.bias && i < op.experts; ++i) {
    layer.parameters.insert(layer.parameters.end(), static_cast<std::size_t>(first), op.width);
    layer.parameters.push_back(in.back());
  }
  if (!count.overflowed()) set_kernels(layer, op, in.back(), {routed, outside, inside});
  return {};
}

Expected<void> causal_conv_layer(const CausalConv& op, const Shape& in, LayerAndShape& made, Counter& count) {
  if (in.size() != 2) return misfit("causal_conv", in, "it needs [rows, width]");
  const std::int64_t elements = count.elements(in);
  made.out = in;
  Layer& layer = made.layer;
  layer.forward_elements = count.product({2, elements});
  layer.backward_elements = count.product({3, elements});
  layer.saved_elements = elements;
  layer.parameters = {count.product({in[1], op.kernel})};
  if (op.bias) layer.parameters.push_back(in[1]);
  layer.forward = {{primitives::MemoryBoundKernel{.elements = layer.forward_elements}}};
  layer.backward = {{primitives::MemoryBoundKernel{.elements = layer.backward_elements}}};
  return {};
}

Expected<void> index_scores_layer(const IndexScores& op, const Shape& in, LayerAndShape& made, Counter& count) {
  const std::int64_t queries = count.product({op.heads, op.width});
  if (in.size() != 2 || in[1] != queries) {
    return misfit("index_scores", in, fmt::format("it needs [rows, heads * width], so [rows, {}]", queries));
  }
  if (op.pooled < 1) return misfit("index_scores", in, "a key stands for one row at least");
  const std::int64_t rows = in[0];
  const std::int64_t keys = rows / op.pooled;
  const std::int64_t keep = std::min(op.keep, keys);
  made.out = {rows, keep};
  Layer& layer = made.layer;
  // rows (rows + 1) / 2 pairs, as a product of whole sizes; of pooled keys nearly so.
  const std::int64_t m = rows % 2 == 0 ? rows / 2 : rows;
  const std::int64_t n = op.pooled > 1 ? std::max<std::int64_t>(keys, 1) : rows % 2 == 0 ? rows + 1 : (rows + 1) / 2;
  const std::int64_t pairs = op.pooled > 1 ? pooled_pairs(rows, {op.pooled, keys}, count) : count.product({m, n});
  layer.forward_work = Counter::work({2, pairs, queries});
  layer.backward_work = Counter::work({4, pairs, queries});
  const std::int64_t inputs = count.product({rows, count.sum({queries, op.width, op.heads})});
  layer.forward_elements = count.sum({inputs, count.product({2, pairs}), count.product({rows, keep})});
  layer.backward_elements = count.sum({count.product({2, inputs}), count.product({2, pairs})});
  layer.saved_elements = count.product({rows, keep});
  layer.forward_kernels = 2;  // scores, choice
  layer.backward_kernels = 2;
  constexpr primitives::BatchScales kScales = primitives::BatchScales::kBatchCount;
  layer.forward = {{primitives::Gemm{op.heads, m, n, op.width, kScales}},
                   {primitives::MemoryBoundKernel{.elements = count.sum({pairs, count.product({rows, keep})})}}};
  layer.backward = {{primitives::Gemm{op.heads, m, op.width, n, kScales}},
                    {primitives::Gemm{op.heads, op.width, n, m, kScales}}};
  return {};
}

namespace {

/// The products of linear attention, and which of them backward makes again.
class ChunkedProducts {
 public:
  explicit ChunkedProducts(Layer& layer) : layer_(layer) {}

  /// C[m, n] = A[m, k] B[k, n], `times` of them in one kernel. `last`: it ends in the output.
  void add(std::int64_t times, const Shape& mnk, bool last = false) {
    const primitives::Gemm forward = gemm(times, mnk);
    const Work work = Counter::work({2, times, mnk[0], mnk[1], mnk[2]});
    forward_ += work;
    backward_ += work * (last ? 2.0 : 3.0);
    layer_.forward.push_back({forward});
    if (!last) layer_.backward.push_back({forward});
    layer_.backward.push_back({gemm(times, {mnk[0], mnk[2], mnk[1]})});
    layer_.backward.push_back({gemm(times, {mnk[2], mnk[1], mnk[0]})});
  }

  void finish() {
    layer_.forward_work = forward_;
    layer_.backward_work = backward_;
    layer_.forward_kernels = static_cast<int>(layer_.forward.size());
    layer_.backward_kernels = static_cast<int>(layer_.backward.size());
  }

 private:
  static primitives::Gemm gemm(std::int64_t times, const Shape& mnk) {
    return {times, mnk[0], mnk[1], mnk[2], primitives::BatchScales::kBatchCount};
  }

  Layer& layer_;
  Work forward_{};
  Work backward_{};
};

}  // namespace

Expected<void> linear_attention_layer(const LinearAttention& op, const Shape& in, LayerAndShape& made, Counter& count) {
  const std::int64_t key_heads = op.key_heads == 0 ? op.heads : op.key_heads;
  const std::int64_t keys = count.product({key_heads, op.width});
  const std::int64_t values = count.product({op.heads, op.value_width});
  const std::int64_t width = count.sum({keys, keys, values});
  if (in.size() != 2 || in[1] != width) {
    return misfit("linear_attention", in,
                  fmt::format("it needs [rows, 2 * key_heads * width + heads * value_width], so [rows, {}]", width));
  }
  if (op.heads % key_heads != 0) {
    return misfit("linear_attention", in, fmt::format("{} key_heads do not divide {} heads", key_heads, op.heads));
  }
  const std::int64_t rows = in[0];
  const std::int64_t c = std::min(op.chunk, rows);
  const std::int64_t chunks = rows / c + (rows % c == 0 ? 0 : 1);
  const std::int64_t all = count.product({op.heads, chunks});
  const std::int64_t n = op.width;
  const std::int64_t v = op.value_width;
  made.out = {rows, values};
  Layer& layer = made.layer;
  ChunkedProducts products(layer);
  if (op.delta) {
    products.add(all, {c, c, n});                                 // keys by keys
    products.add(all, {c, c, std::max<std::int64_t>(c / 6, 1)});  // the triangle inverted: c^3 / 3
    products.add(all, {c, n, c});                                 // it by keys
    products.add(all, {c, v, c});                                 // it by values
    products.add(all, {c, c, n});                                 // queries by keys
    products.add(all, {c, v, n});                                 // keys read the state
  } else {
    products.add(count.product({key_heads, chunks}), {c, c, n});  // queries by keys
  }
  products.add(all, {n, v, c});        // the state made
  products.add(all, {c, v, c}, true);  // by values
  products.add(all, {c, v, n}, true);  // queries read the state
  products.finish();
  // The input, the output, a decay (with delta a strength too) of every row and head; states written and read.
  const std::int64_t gates = count.product({rows, op.heads, op.delta ? 2 : 1});
  const std::int64_t states = count.product({all, n, v});
  layer.forward_elements =
      count.sum({count.product({rows, count.sum({width, values})}), gates, count.product({2, states})});
  layer.backward_elements = count.product({2, layer.forward_elements});
  layer.saved_elements = count.sum({count.product({rows, values}), gates});
  // The decay's base and the step's bias of every head; Mamba also has a way around (D).
  layer.parameters.assign(op.delta ? 2 : 3, op.heads);
  layer.forward.push_back({primitives::MemoryBoundKernel{.elements = count.sum({gates, count.product({2, states})})}});
  layer.backward.push_back(
      {primitives::MemoryBoundKernel{.elements = count.product({2, count.sum({gates, states, states})})}});
  return {};
}

}  // namespace ddlsim::workload
