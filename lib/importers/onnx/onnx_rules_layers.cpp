// Rules of the operators that cost time, apart from sliding windows. Semantics: onnx/docs/Operators.md of
// github.com/onnx/onnx.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "onnx_builder.h"

namespace ddlsim::importers::onnx {
namespace {

using workload::Shape;

void global_pool(NodeContext& node) {
  const Shape whole = node.input(0).shape;
  Shape sample = features_of(node, whole);
  if (node.failed()) return;
  node.layer("global_avgpool", workload::GlobalPool{}, std::move(sample));
  Shape out(whole.size(), 1);
  out[0] = whole[0];
  out[1] = whole[1];
  node.set(std::move(out));
}

/// ReduceMean and its like: [kept, reduced] elements to [kept].
void reduce(NodeContext& node) {
  const Value& value = node.input(0);
  const Shape whole = value.shape;
  auto axes = node.numbers("axes", 1).value_or(std::vector<std::int64_t>{});
  if (axes.empty()) {
    for (std::size_t i = 0; i < whole.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  std::vector<bool> reduced(whole.size(), false);
  for (const std::int64_t axis : axes) {
    const std::size_t index = node.axis(axis, whole.size());
    if (index < reduced.size()) reduced[index] = true;
  }
  Shape out;
  Shape kept;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (!reduced[i]) kept.push_back(whole[i]);
    if (!reduced[i] || node.integer("keepdims", 1) != 0) out.push_back(reduced[i] ? 1 : whole[i]);
  }
  const std::int64_t rows = node.elements(node.sample(kept));
  const std::int64_t all = node.elements(node.sample(whole));
  if (node.failed()) return;
  if (value.constant) {
    node.set(0, Value{.shape = out, .constant = true});
    return;
  }
  node.layer("global_avgpool", workload::GlobalPool{},
             {rows, std::max<std::int64_t>(all / std::max<std::int64_t>(rows, 1), 1)});
  node.set(std::move(out));
}

/// Norms with a scale and a shift; where those are another norm's as well, only the traffic is left.
void norm(NodeContext& node, std::string_view word, const workload::Op& op, Shape in, std::int64_t width) {
  const Value& scale = node.input(1);
  if (node.failed()) return;
  const auto count = elements_of(scale.shape);
  if (!count || *count != width) {
    node.refuse(fmt::format("a scale of shape {} for {} features", workload::to_string(scale.shape), width));
    return;
  }
  const bool shifted = node.has(2);
  const bool fresh = node.train(1);
  const bool fresh_shift = shifted && node.train(2);
  if (fresh && fresh_shift) {
    node.layer(word, op, std::move(in));
    return;
  }
  if (fresh) {
    node.layer("embedding", workload::Embedding{.rows = 1, .width = width, .lookups = 1}, {}, "_scale");
  }
  if (fresh_shift) {
    node.layer("embedding", workload::Embedding{.rows = 1, .width = width, .lookups = 1}, {}, "_shift");
  }
  node.layer("scale", workload::Pointwise{}, std::move(in));
  node.note("A norm without a shift, or with the scale of another, is written as scale, its own parameters before it");
}

void batch_norm(NodeContext& node) {
  const Shape whole = node.input(0).shape;
  Shape sample = features_of(node, whole);
  const std::int64_t channels = sample[0];
  norm(node, "batchnorm", workload::BatchNorm{}, std::move(sample), channels);
  node.set(whole);
}

void layer_norm(NodeContext& node) {
  const Shape whole = node.input(0).shape;
  const std::size_t axis = node.axis(node.integer("axis", -1), whole.size());
  const std::int64_t width = node.elements(Shape(whole.begin() + static_cast<std::ptrdiff_t>(axis), whole.end()));
  const std::int64_t all = node.elements(node.sample(whole));
  if (width < 1) node.refuse("it reads an empty tensor");
  if (node.failed()) return;
  const Shape in = axis + 1 == whole.size() ? node.sample(whole) : Shape{std::max<std::int64_t>(all / width, 1), width};
  norm(node, "layernorm", workload::LayerNorm{}, in, width);
  node.set(whole);
}

/// A product with a stored matrix of `width` columns.
void linear(NodeContext& node, const Shape& left, std::size_t weight, std::int64_t width, bool bias) {
  const bool fresh = node.train(weight);
  node.layer_on("linear", workload::Linear{.out = width, .bias = bias, .tied = !fresh}, left);
}

void gemm(NodeContext& node) {
  const Shape left = node.input(0).shape;
  const Value right = node.input(1);
  if (node.failed()) return;
  if (left.size() != 2 || right.shape.size() != 2) {
    node.refuse(
        fmt::format("needs two matrices, not {} and {}", workload::to_string(left), workload::to_string(right.shape)));
    return;
  }
  const bool turned = node.integer("transB", 0) != 0;
  const bool turned_left = node.integer("transA", 0) != 0;
  const std::int64_t inner = turned_left ? left[0] : left[1];
  const std::int64_t rows = turned_left ? left[1] : left[0];
  const std::int64_t width = right.shape[turned ? 0 : 1];
  if (inner != right.shape[turned ? 1 : 0]) {
    node.refuse(fmt::format("{} and {} do not fit", workload::to_string(left), workload::to_string(right.shape)));
    return;
  }
  const Shape a{rows, inner};
  const Shape out{rows, width};
  if (right.constant) {
    const bool stored_bias = node.has(2) && node.input(2).constant;
    const bool bias = stored_bias && node.elements(node.input(2).shape) == width && node.train(2);
    linear(node, a, 1, width, bias);
  } else {
    const Shape sample = node.sample(a);
    node.layer(
        "matmul",
        workload::MatMul{
            .rows = sample.size() == 2 ? sample[0] : 1, .inner = inner, .columns = width, .out = node.sample(out)},
        {});
  }
  if (node.has(2) && !node.input(2).constant) node.layer_on("add", workload::Combine{}, out);
  node.set(out);
}

/// The shape of a batch of products: leading sizes are broadcast, as in numpy's matmul.
std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1) return std::nullopt;
    out[out.size() - 1 - i] = left == 1 ? right : left;
  }
  return out;
}

void matmul(NodeContext& node) {
  const Value a = node.input(0);
  const Value b = node.input(1);
  if (node.failed()) return;
  const std::size_t left = a.shape.size();
  const std::size_t right = b.shape.size();
  const auto misfit = [&] {
    node.refuse(fmt::format("{} and {} do not fit", workload::to_string(a.shape), workload::to_string(b.shape)));
  };
  if (left < 2 || right < 2 || a.shape[left - 1] != b.shape[right - 2]) return misfit();
  const std::int64_t rows = a.shape[left - 2];
  const std::int64_t inner = a.shape[left - 1];
  const std::int64_t columns = b.shape[right - 1];
  const auto leading = broadcast(Shape(a.shape.begin(), a.shape.end() - 2), Shape(b.shape.begin(), b.shape.end() - 2));
  if (!leading) return misfit();
  Shape out = *leading;
  out.push_back(rows);
  out.push_back(columns);
  if (b.weight != kNone && right == 2) {
    linear(node, a.shape, 1, columns, false);
    node.set(0, Value{.shape = out, .bare_linear = node.layers() - 1});
    return;
  }
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (node.input(side).weight != kNone) node.trained_operand(side);
  }
  const Shape sample = node.sample(out);
  const Shape left_sample = node.sample(a.shape);
  const std::int64_t own_rows = left_sample.size() < 2 ? 1 : left_sample[left_sample.size() - 2];
  const std::int64_t all = node.elements(sample);
  const std::int64_t cells = node.elements({own_rows, columns});
  if (cells < 1) node.refuse("it reads an empty tensor");
  if (node.failed()) return;
  node.layer("matmul",
             workload::MatMul{.rows = own_rows,
                              .inner = inner,
                              .columns = columns,
                              .products = std::max<std::int64_t>(all / cells, 1),
                              .out = sample},
             {});
  node.set(std::move(out));
}

/// One tensor in, one of its shape out.
void pointwise(NodeContext& node, std::string_view word) {
  Value value = node.input(0);
  value.bare_linear = kNone;
  value.vector_weight = kNone;
  value.fractions.reset();
  value.numbers.reset();
  if (!value.constant) node.layer_on(word, workload::pointwise(word), value.shape);
  if (value.constant) value.weight = kNone;
  node.set(0, std::move(value));
}

void prelu(NodeContext& node) {
  if (node.input(1).weight != kNone) node.trained_operand(1);
  pointwise(node, "relu");
}

/// Operator sets before 7 say by `axis` where a second operand's first dimension goes: sizes of 1 follow its own.
Shape aligned(NodeContext& node, std::size_t operand, std::size_t rank) {
  Shape shape = node.input(operand).shape;
  if (operand == 0 || node.integer("broadcast", 0) == 0 || node.node().find("axis") == nullptr) return shape;
  const std::size_t first = node.axis(node.integer("axis", 0), rank);
  if (node.failed()) return shape;
  if (first + shape.size() > rank) {
    node.refuse(fmt::format("{} does not fit {} dimensions from axis {} on", workload::to_string(shape), rank, first));
    return shape;
  }
  shape.resize(rank - first, 1);
  return shape;
}

/// A vector added to the product before it is that product's bias.
bool is_bias(NodeContext& node, std::size_t product, std::size_t vector) {
  if (node.inputs() != 2 || !node.has(product) || !node.has(vector)) return false;
  const Value& left = node.input(product);
  const Value& right = node.input(vector);
  const bool stored = right.weight != kNone || right.vector_weight != kNone;
  if (left.bare_linear == kNone || !stored || !node.only_reader_of(product)) return false;
  const std::int64_t last = static_cast<std::int64_t>(left.shape.size()) - 1;
  if (node.integer("broadcast", 0) != 0 && node.integer("axis", last) != last && node.integer("axis", last) != -1) {
    return false;
  }
  if (right.shape.size() != 1 || left.shape.back() != right.shape[0]) return false;
  const std::size_t index = left.bare_linear;
  const Shape out = left.shape;
  if (node.train(vector)) node.add_bias(index);
  node.set(out);
  return true;
}

/// Element-wise on several tensors: one layer for each pair of them that is no constant.
void combine(NodeContext& node, bool product) {
  Shape out;
  std::size_t operands = 0;
  bool constant = true;
  if (node.inputs() == 0) node.refuse("it reads nothing");
  for (std::size_t i = 0; i < node.inputs() && !node.failed(); ++i) {
    const Value& value = node.input(i);
    const Shape other = aligned(node, i, out.size());
    const auto both = broadcast(out, other);
    if (!both) {
      node.refuse(fmt::format("{} and {} do not fit", workload::to_string(out), workload::to_string(other)));
      return;
    }
    out = *both;
    constant = constant && value.constant;
  }
  if (node.failed()) return;
  if (constant) {
    node.set(0, Value{.shape = out, .constant = true});
    return;
  }
  for (std::size_t i = 0; i < node.inputs(); ++i) {
    const Value& value = node.input(i);
    const bool trained = value.weight != kNone && node.elements(value.shape) > 1;
    if (trained) node.trained_operand(i);
    if (trained || !value.constant) ++operands;
  }
  if (operands == 1) node.layer_on("scale", workload::Pointwise{}, out);
  for (std::size_t i = 1; i < operands; ++i) {
    node.layer_on(product ? "multiply" : "add", workload::Combine{.product = product}, out);
  }
  node.set(std::move(out));
}

void add(NodeContext& node) {
  if (is_bias(node, 0, 1) || is_bias(node, 1, 0)) return;
  combine(node, false);
}

void relu(NodeContext& node) { pointwise(node, "relu"); }
void clip(NodeContext& node) { pointwise(node, "relu6"); }
void hardswish(NodeContext& node) { pointwise(node, "hardswish"); }
void sigmoid(NodeContext& node) { pointwise(node, "sigmoid"); }
void tanh(NodeContext& node) { pointwise(node, "tanh"); }
void gelu(NodeContext& node) { pointwise(node, "gelu"); }
void softmax(NodeContext& node) { pointwise(node, "softmax"); }
void scale(NodeContext& node) { pointwise(node, "scale"); }
void sum(NodeContext& node) { combine(node, false); }
void multiply(NodeContext& node) { combine(node, true); }

constexpr auto kLayersRules = std::to_array<Rule>({
    {"GlobalAveragePool", global_pool},
    {"GlobalMaxPool", global_pool},
    {"ReduceMean", reduce},
    {"BatchNormalization", batch_norm},
    {"InstanceNormalization", batch_norm},
    {"LayerNormalization", layer_norm},
    {"Gemm", gemm},
    {"MatMul", matmul},
    {"Relu", relu},
    {"LeakyRelu", relu},
    {"PRelu", prelu},
    {"Elu", relu},
    {"Selu", relu},
    {"Clip", clip},
    {"HardSigmoid", sigmoid},
    {"HardSwish", hardswish},
    {"Softplus", relu},
    {"Sigmoid", sigmoid},
    {"Tanh", tanh},
    {"Gelu", gelu},
    {"Erf", gelu},
    {"Softmax", softmax},
    {"LogSoftmax", softmax},
    {"LRN", [](NodeContext& node) { pointwise(node, "lrn"); }},
    {"Dropout", [](NodeContext& node) { pointwise(node, "dropout"); }},
    {"Neg", scale},
    {"Abs", scale},
    {"Sqrt", scale},
    {"Exp", scale},
    {"Log", scale},
    {"Reciprocal", scale},
    {"Add", add},
    {"Sub", sum},
    {"Sum", sum},
    {"Mul", multiply},
    {"Div", multiply},
    {"Pow", multiply},
});

}  // namespace

Shape features_of(NodeContext& node, const Shape& whole) {
  Shape sample = node.sample(whole);
  if (whole.size() >= 2 && sample.size() + 1 == whole.size()) return sample;
  node.refuse(fmt::format("an input of shape {}", workload::to_string(whole)),
              {"it must be the batch, the channels, and what they are made of"});
  return {1, 1, 1};
}

std::span<const Rule> layer_rules() { return kLayersRules; }

}  // namespace ddlsim::importers::onnx
