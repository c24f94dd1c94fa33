#include "ddlsim/workload/op.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "ddlsim/support/checked.h"
#include "layer_rules.h"
#include "op_transformer.h"

namespace ddlsim::workload {
namespace {

/// Of a softmax of outputs in 16 bits, for it runs in fp32 (cost/kernel_time.h): (6 + 8 + 4 + 12 + 6) / (5 x 2).
constexpr double kWideSoftmax = 3.6;

/// A matrix product with weights, or of two activations.
struct Multiplication {
  Work forward_work{};
  std::int64_t input = 0;   // elements
  std::int64_t output = 0;  // elements
  std::int64_t weights = 0;
};

/// Backward makes the gradients of input and weights, each a product of the forward's size.
void set_gemm(Layer& layer, Counter& count, const Multiplication& gemm) {
  layer.forward_work = gemm.forward_work;
  layer.backward_work = gemm.forward_work * 2.0;
  layer.forward_elements = count.sum({gemm.input, gemm.output});
  layer.backward_elements = count.product({2, layer.forward_elements});
  layer.forward_weight_elements = gemm.weights;
  layer.backward_weight_elements = count.product({2, gemm.weights});
  layer.saved_elements = gemm.output;
  layer.backward_kernels = 2;
}

/// A product of rows with a weight matrix, and the gradients of both.
void set_kernels(Layer& layer, const primitives::Gemm& forward) {
  layer.forward = {{forward}};
  layer.backward = {
      {primitives::Gemm{.m = forward.m, .n = forward.k, .k = forward.n}},
      {primitives::Gemm{.m = forward.n, .n = forward.k, .k = forward.m, .batch_scales = primitives::BatchScales::kK}}};
}

/// The output's gradient summed over rows.
void add_bias_gradient(Layer& layer, std::int64_t output, Counter& count) {
  layer.backward.push_back({primitives::MemoryBoundKernel{.elements = output}});
  layer.backward_elements = count.sum({layer.backward_elements, output});
  ++layer.backward_kernels;
}

/// A product of two activations, and the gradients of both.
void add_kernels(Layer& layer, const MatMul& op) {
  constexpr primitives::BatchScales kScales = primitives::BatchScales::kBatchCount;
  layer.forward.push_back({primitives::Gemm{op.products, op.rows, op.columns, op.inner, kScales}});
  layer.backward.push_back({primitives::Gemm{op.products, op.rows, op.inner, op.columns, kScales}});
  layer.backward.push_back({primitives::Gemm{op.products, op.inner, op.columns, op.rows, kScales}});
}

/// Output height and width of a sliding window; nothing when the window does not fit.
std::optional<Pair> slide(const Shape& in, const Pool& window) {
  Pair out{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const auto padded = checked_add(in[axis + 1], 2 * window.pad[axis]);
    if (!padded || *padded < window.kernel[axis]) return std::nullopt;
    const std::int64_t room = *padded - window.kernel[axis];
    const std::int64_t stride = window.stride[axis];
    out[axis] = (window.ceil ? (room + stride - 1) / stride : room / stride) + 1;
  }
  return out;
}

/// Elements that an operator without FLOPs reads and writes, and keeps.
struct Traffic {
  primitives::MemoryBoundKind kind = primitives::MemoryBoundKind::kElementwise;
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t saved = 0;
  std::int64_t row = 0;  // elements that are reduced together
  double widening = 1;
  std::int64_t channels = 0;  // of images
};

struct LayerRules {
  const Shape& in;
  LayerAndShape& made;
  Counter& count;

  Expected<void> operator()(const Convolution& op) {
    if (in.size() != 3) return misfit("conv", in, "it needs [channels, height, width]");
    if (in[0] % op.groups != 0 || op.out % op.groups != 0) {
      return misfit("conv", in,
                    fmt::format("{} groups divide neither input nor {} output channels", op.groups, op.out));
    }
    // A dilated kernel covers d (k - 1) + 1.
    const Pair window{op.dilation[0] * (op.kernel[0] - 1) + 1, op.dilation[1] * (op.kernel[1] - 1) + 1};
    const auto size = slide(in, {.kernel = window, .stride = op.stride, .pad = op.pad});
    if (!size) return misfit("conv", in, "the kernel is larger than the padded input");
    made.out = {op.out, (*size)[0], (*size)[1]};
    const std::int64_t weights = count.product({op.out, in[0] / op.groups, op.kernel[0], op.kernel[1]});
    set_gemm(made.layer, count,
             {.forward_work = Counter::work({2, weights, (*size)[0], (*size)[1]}),
              .input = count.elements(in),
              .output = count.elements(made.out),
              .weights = weights});
    if (!op.tied) made.layer.parameters.push_back(weights);
    if (op.bias) made.layer.parameters.push_back(op.out);
    primitives::ConvolutionShape shape{.in = in[0],
                                       .out = op.out,
                                       .groups = op.groups,
                                       .input = {in[1], in[2]},
                                       .output = *size,
                                       .kernel = op.kernel,
                                       .stride = op.stride,
                                       .dilation = op.dilation};
    made.layer.forward = {{shape}};
    shape.pass = primitives::ConvolutionPass::kInputGradient;
    made.layer.backward.push_back({shape});
    shape.pass = primitives::ConvolutionPass::kWeightGradient;
    made.layer.backward.push_back({shape});
    return {};
  }

  Expected<void> operator()(const Linear& op) {
    if (in.empty()) return misfit("linear", in, "it needs at least one size");
    made.out = in;
    made.out.back() = op.out;
    if (op.groups < 1 || in.back() % op.groups != 0 || op.out % op.groups != 0) {
      return misfit("linear", in,
                    fmt::format("{} groups do not divide {} inputs and {} outputs", op.groups, in.back(), op.out));
    }
    const std::int64_t out = op.out / op.groups;  // of a group
    const std::int64_t weights = count.product({in.back(), out});
    const std::int64_t input = count.elements(in);
    set_gemm(made.layer, count,
             {.forward_work = Counter::work({2, input, out}),
              .input = input,
              .output = count.elements(made.out),
              .weights = weights});
    if (!op.tied) made.layer.parameters.push_back(weights);
    if (op.bias) made.layer.parameters.push_back(op.out);
    const std::int64_t rows = input / in.back();
    if (op.groups == 1) {
      set_kernels(made.layer, {.m = rows, .n = op.out, .k = in.back()});
    } else {
      constexpr primitives::BatchScales kRows = primitives::BatchScales::kM;
      const std::int64_t inputs = in.back() / op.groups;
      made.layer.forward = {{primitives::Gemm{op.groups, rows, out, inputs, kRows}}};
      made.layer.backward = {{primitives::Gemm{op.groups, rows, inputs, out, kRows}},
                             {primitives::Gemm{op.groups, out, inputs, rows, primitives::BatchScales::kK}}};
    }
    if (op.bias) add_bias_gradient(made.layer, count.elements(made.out), count);
    return {};
  }

  Expected<void> operator()(const BatchNorm&) {
    if (in.empty()) return misfit("batchnorm", in, "it needs [channels, ...]");
    const std::int64_t elements = count.elements(in);
    // Its output is overwritten by the activation that follows, so the input is what stays.
    return memory_bound(in,
                        {.kind = primitives::MemoryBoundKind::kBatchNorm,
                         .forward = count.product({3, elements}),
                         .backward = count.product({5, elements}),
                         .channels = in.size() == 3 ? in[0] : 0},
                        {in[0], in[0]});
  }

  Expected<void> operator()(const LayerNorm&) {
    if (in.empty()) return misfit("layernorm", in, "it needs [..., width]");
    const std::int64_t elements = count.elements(in);
    return memory_bound(in,
                        {.kind = primitives::MemoryBoundKind::kNorm,
                         .forward = count.product({2, elements}),
                         .backward = count.product({3, elements}),
                         .saved = elements,
                         .row = in.back()},
                        {in.back(), in.back()});
  }

  Expected<void> operator()(const Pointwise& op) {
    const std::int64_t elements = count.elements(in);
    const std::int64_t backward =
        count.product({op.reads == Reads::kInput || op.reads == Reads::kOutput ? 3 : 2, elements});
    return memory_bound(
        in, {.kind = op.over_rows ? primitives::MemoryBoundKind::kSoftmax : primitives::MemoryBoundKind::kElementwise,
             .forward = count.product({2, elements}),
             .backward = backward,
             .saved = op.constant ? 0 : elements,
             .row = op.over_rows && !in.empty() ? in.back() : 0,
             .widening = op.over_rows ? kWideSoftmax : 1});
  }

  Expected<void> operator()(const Combine& op) {
    const std::int64_t elements = count.elements(in);
    const std::int64_t backward = count.product({op.product ? 5 : 3, elements});
    return memory_bound(
        in, {.forward = count.product({3, elements}), .backward = backward, .saved = op.product ? elements : 0});
  }

  Expected<void> operator()(const Pool& op) {
    if (in.size() != 3) return misfit("pool", in, "it needs [channels, height, width]");
    const auto size = slide(in, op);
    if (!size) return misfit("pool", in, "the kernel is larger than the padded input");
    Shape out{in[0], (*size)[0], (*size)[1]};
    const std::int64_t output = count.elements(out);
    const std::int64_t both = count.sum({count.elements(in), output});
    return memory_bound(std::move(out), {.kind = primitives::MemoryBoundKind::kPool,
                                         .forward = both,
                                         .backward = count.sum({both, output}),
                                         .saved = output,
                                         .channels = in[0]});
  }

  Expected<void> operator()(const GlobalPool&) {
    if (in.size() < 2) return misfit("global_avgpool", in, "it needs [channels, ...]");
    const std::int64_t both = count.sum({count.elements(in), in[0]});
    return memory_bound(
        {in[0]}, {.kind = primitives::MemoryBoundKind::kPool, .forward = both, .backward = both, .saved = in[0]});
  }

  Expected<void> operator()(const Flatten&) {
    made.out = {count.elements(in)};
    made.layer.forward_kernels = 0;  // a view
    made.layer.backward_kernels = 0;
    return {};
  }

  Expected<void> operator()(const Concat& op) {
    const std::int64_t copied = count.product({2, count.elements(op.out)});
    return memory_bound(
        op.out,
        {.kind = primitives::MemoryBoundKind::kCopy, .forward = copied, .backward = copied, .saved = copied / 2});
  }

  Expected<void> operator()(const Embedding& op) {
    Shape out = op.out.empty() ? Shape{op.lookups, op.width} : op.out;
    const std::int64_t read = count.product({op.lookups, op.width});
    // Rows that are summed into fewer are not written, nor is each one's gradient read.
    const std::int64_t written = std::min(read, count.elements(out));
    auto done = memory_bound(std::move(out),
                             {.kind = primitives::MemoryBoundKind::kLookup,
                              .forward = count.sum({read, written}),
                              .backward = count.sum({count.product({2, read}), written}),
                              .saved = written},
                             {count.product({op.rows, op.width})});
    if (op.sparse_gradient) {
      made.layer.sparse_gradient = true;
      made.layer.sparse_elements = read;
    } else {
      // A dense gradient is zeroed before the scatter.
      made.layer.backward_weight_elements = made.layer.parameters.front();
      std::get<primitives::MemoryBoundKernel>(made.layer.backward.front().shape).weights =
          made.layer.parameters.front();
    }
    return done;
  }

  Expected<void> operator()(const Attention& op) {
    if (in.size() != 2) return misfit("attention", in, "it needs [rows, width]");
    const std::int64_t keys = op.keys == 0 ? in[0] : op.keys;
    const std::int64_t scores = count.product({op.heads, in[0], keys});
    const std::int64_t queries = count.elements(in);
    const std::int64_t pairs = count.product({2, keys, in[1]});  // K and V
    made.out = in;
    Layer& layer = made.layer;
    layer.scores = scores;
    layer.forward_work = Counter::work({4, queries, keys});
    layer.backward_work = Counter::work({8, queries, keys});
    // Scores: written by Q.K, read and written by scale, mask, softmax and dropout, read by the product with V.
    // Backward: read for V's gradient, written as their own, dropout 2, softmax 3, scale 2, and read twice.
    const std::int64_t others = count.sum({count.product({2, queries}), pairs});
    layer.forward_elements = count.sum({count.product({10, scores}), others});
    layer.backward_elements = count.sum({count.product({11, scores}), count.product({2, others})});
    layer.saved_elements = count.sum({count.product({2, scores}), queries});
    layer.forward_kernels = 6;
    layer.backward_kernels = 7;
    const std::int64_t width = std::max<std::int64_t>(in[1] / op.heads, 1);
    add_kernels(layer, {.rows = in[0], .inner = width, .columns = keys, .products = op.heads});
    const primitives::Kernel pointwise{
        primitives::MemoryBoundKernel{primitives::MemoryBoundKind::kElementwise, count.product({2, scores})}};
    layer.forward.insert(layer.forward.end(), 2, pointwise);
    layer.forward.push_back(
        {primitives::MemoryBoundKernel{primitives::MemoryBoundKind::kSoftmax, count.product({2, scores}), 0, keys}});
    layer.forward.push_back(pointwise);
    layer.backward.push_back(pointwise);
    layer.backward.push_back(
        {primitives::MemoryBoundKernel{primitives::MemoryBoundKind::kSoftmax, count.product({3, scores}), 0, keys}});
    layer.backward.push_back(pointwise);
    add_kernels(layer, {.rows = in[0], .inner = keys, .columns = width, .products = op.heads});
    return {};
  }

  Expected<void> operator()(const Lstm& op) {
    if (in.size() != 2) return misfit("lstm", in, "it needs [steps, width]");
    const std::int64_t gates = count.product({4, op.hidden});
    const std::int64_t input_weights = count.product({gates, in[1]});
    const std::int64_t state_weights = count.product({gates, op.hidden});
    const std::int64_t state = count.product({op.directions, in[0], op.hidden});
    made.out = {in[0], count.product({op.directions, op.hidden})};
    // Recurrent weights are read again at every time step.
    const std::int64_t weights =
        count.product({op.directions, count.sum({input_weights, count.product({in[0], state_weights})})});
    set_gemm(made.layer, count,
             {.forward_work = Counter::work({2, op.directions, in[0], count.sum({input_weights, state_weights})}),
              .input = count.elements(in),
              .output = count.product({10, state}),
              .weights = weights});
    made.layer.saved_elements = count.product({6, state});
    set_lstm_kernels(op);
    // What a framework launches: the steps' kernels are issued by one call of a library (cost/kernel_time.h).
    made.layer.forward_kernels = 2;
    made.layer.backward_kernels = 4;
    for (std::int64_t i = 0; i < op.directions; ++i) {
      for (const std::int64_t elements : {input_weights, state_weights, gates, gates}) {
        made.layer.parameters.push_back(elements);
      }
    }
    return {};
  }

  Expected<void> operator()(const MatMul& op) {
    made.out = op.out;
    const std::int64_t left = count.product({op.products, op.rows, op.inner});
    const std::int64_t right = count.product({op.products, op.inner, op.columns});
    set_gemm(made.layer, count,
             {.forward_work = Counter::work({2, op.products, op.rows, op.inner, op.columns}),
              .input = count.sum({left, right}),
              .output = count.product({op.products, op.rows, op.columns})});
    add_kernels(made.layer, op);
    return {};
  }

  Expected<void> operator()(const RmsNorm&) { return rms_norm_layer(in, made, count); }
  Expected<void> operator()(const GroupedAttention& op) { return attention_layer(op, in, made, count); }
  Expected<void> operator()(const Experts& op) { return experts_layer(op, in, made, count); }
  Expected<void> operator()(const CausalConv& op) { return causal_conv_layer(op, in, made, count); }
  Expected<void> operator()(const IndexScores& op) { return index_scores_layer(op, in, made, count); }
  Expected<void> operator()(const LinearAttention& op) { return linear_attention_layer(op, in, made, count); }
  Expected<void> operator()(const HostWork& op) {
    made.out = in;
    made.layer.host = op.time;
    made.layer.backward_kernels = 0;
    return {};
  }
  Expected<void> operator()(const Measured& op) {
    const auto kernels = [&](Time time) {
      return time > Time::zero() ? static_cast<int>(std::min<std::int64_t>(op.kernels, 1 << 20)) : 0;
    };
    made.out = in;
    made.layer.measured = op.time;
    made.layer.forward_kernels = kernels(op.time.forward);
    made.layer.backward_kernels = kernels(op.time.backward);
    made.layer.parameters = op.gradients;
    return {};
  }

 private:
  Expected<void> memory_bound(Shape out, const Traffic& traffic, std::vector<std::int64_t> parameters = {}) {
    made.out = std::move(out);
    made.layer.forward_elements = traffic.forward;
    made.layer.backward_elements = traffic.backward;
    made.layer.saved_elements = traffic.saved;
    made.layer.parameters = std::move(parameters);
    made.layer.forward = {{primitives::MemoryBoundKernel{traffic.kind, traffic.forward, 0, traffic.row,
                                                         traffic.widening, traffic.channels}}};
    made.layer.backward = {{primitives::MemoryBoundKernel{traffic.kind, traffic.backward, 0, traffic.row,
                                                          traffic.widening, traffic.channels}}};
    return {};
  }

  /// Products with the input of all steps at once, those with the state and the gates step by step.
  void set_lstm_kernels(const Lstm& op) {
    const std::int64_t steps = in[0];
    const std::int64_t gates = count.product({4, op.hidden});
    const auto times = [&](primitives::Kernel kernel, std::int64_t more) {
      kernel.times = count.product({op.directions, more});
      return kernel;
    };
    // The gates of a step: read from both products, cell and output written, and kept.
    const primitives::Kernel cell{
        primitives::MemoryBoundKernel{primitives::MemoryBoundKind::kRecurrent, count.product({10, op.hidden})}};
    Layer& layer = made.layer;
    set_kernels(layer, {.m = steps, .n = gates, .k = in[1]});
    for (primitives::Kernel& kernel : layer.forward) kernel = times(kernel, 1);
    for (primitives::Kernel& kernel : layer.backward) kernel = times(kernel, 1);
    layer.forward.push_back(times({primitives::Gemm{.m = 1, .n = gates, .k = op.hidden}}, steps));
    layer.forward.push_back(times(cell, steps));
    layer.backward.push_back(times({primitives::Gemm{.m = 1, .n = op.hidden, .k = gates}}, steps));
    layer.backward.push_back(times(
        {primitives::Gemm{.m = gates, .n = op.hidden, .k = steps, .batch_scales = primitives::BatchScales::kK}}, 1));
    layer.backward.push_back(times(cell, steps));
  }
};

}  // namespace

Expected<LayerAndShape> layer_of(const Op& op, const Shape& in, std::string name) {
  LayerAndShape made;
  made.layer.name = std::move(name);
  made.layer.op = op;
  made.layer.in = in;
  Counter count;
  if (auto fits = std::visit(LayerRules{in, made, count}, op); !fits) return tl::unexpected<Error>(fits.error());
  made.layer.output_elements = count.elements(made.out);
  if (count.overflowed()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the layer's size exceeds 2^53 elements per sample (input {})", to_string(in)));
  }
  return made;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace ddlsim::workload
