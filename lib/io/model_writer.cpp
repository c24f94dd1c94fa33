#include "ddlsim/io/model_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <variant>

#include "ddlsim/io/model_file.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "in_quotes.h"

namespace ddlsim::io {
namespace {

using workload::Op;
using workload::Pair;
using workload::Shape;

/// Exact for times of whole nanoseconds.
std::string in_microseconds(Time time) { return fmt::format("{:.12g} us", time.in(microseconds)); }

std::string measured_on_line(const workload::MeasuredOn& on) {
  std::string line = fmt::format("measured_on: {{gpu: {}, precision: {}, peak: {} TFLOP/s, memory_bandwidth: {} GB/s",
                                 in_quotes(on.gpu), name_of(kPrecisions, on.precision),
                                 significant(on.peak.in(teraflops_per_second), 12),
                                 significant(on.memory.in(gigabytes_per_second), 12));
  if (on.launch_interval) line += ", launch_interval: " + in_microseconds(*on.launch_interval);
  return line + (on.update ? ", update: true}\n" : "}\n");
}

/// The keys of one operator, in the order of models/README.md, defaults left out.
class Keys {
 public:
  /// `rows` is the name that stands for the first size of the layer's input; empty: none.
  explicit Keys(std::string rows) : rows_(std::move(rows)) {}

  void text(std::string_view key, std::string_view value) { add(key, in_quotes(value)); }
  void size(std::string_view key, std::int64_t value) { add(key, std::to_string(value)); }
  void size_unless(std::string_view key, std::int64_t value, std::int64_t usual) {
    if (value != usual) size(key, value);
  }
  void shape(std::string_view key, const Shape& value) { add(key, workload::to_string(value)); }
  /// The input's shape, and how many rows it has, by name where there is one.
  void input(const Shape& value) { add("in", with_rows(value, rows_)); }
  void rows(std::string_view key, std::int64_t value) { add(key, rows_.empty() ? std::to_string(value) : rows_); }
  static std::string with_rows(const Shape& shape, const std::string& rows) {
    if (rows.empty() || shape.empty()) return workload::to_string(shape);
    std::string text = "[" + rows;
    for (std::size_t i = 1; i < shape.size(); ++i) text += ", " + std::to_string(shape[i]);
    return text + "]";
  }
  void pair(std::string_view key, const Pair& value) {
    add(key, value[0] == value[1] ? std::to_string(value[0]) : fmt::format("[{}, {}]", value[0], value[1]));
  }
  void pair_unless(std::string_view key, const Pair& value, const Pair& usual) {
    if (value != usual) pair(key, value);
  }
  void flag_unless(std::string_view key, bool value, bool usual) {
    if (value != usual) add(key, value ? "true" : "false");
  }
  void word(std::string_view key, std::string_view value) { add(key, value); }
  void time_unless_zero(std::string_view key, Time value) {
    if (value > Time::zero()) add(key, in_microseconds(value));
  }
  [[nodiscard]] const std::string& line() const { return line_; }

 private:
  void add(std::string_view key, std::string_view value) {
    fmt::format_to(std::back_inserter(line_), "{}{}: {}", line_.empty() ? "" : ", ", key, value);
  }
  std::string rows_;
  std::string line_;
};

struct KeyWriter {
  Keys& keys;

  void operator()(const workload::Convolution& op) const {
    keys.size("out", op.out);
    keys.pair("kernel", op.kernel);
    keys.pair_unless("stride", op.stride, {1, 1});
    keys.pair_unless("pad", op.pad, {0, 0});
    keys.pair_unless("dilation", op.dilation, {1, 1});
    keys.size_unless("groups", op.groups, 1);
    keys.flag_unless("bias", op.bias, false);
    keys.flag_unless("tied", op.tied, false);
  }
  void operator()(const workload::Linear& op) const {
    keys.size("out", op.out);
    keys.flag_unless("bias", op.bias, true);
    keys.flag_unless("tied", op.tied, false);
    keys.size_unless("groups", op.groups, 1);
    keys.flag_unless("whole", op.whole, false);
  }
  void operator()(const workload::Pool& op) const {
    keys.pair("kernel", op.kernel);
    keys.pair_unless("stride", op.stride, op.kernel);
    keys.pair_unless("pad", op.pad, {0, 0});
    keys.flag_unless("ceil", op.ceil, false);
  }
  void operator()(const workload::Concat& op) const { keys.shape("out", op.out); }
  void operator()(const workload::Embedding& op) const {
    keys.size("rows", op.rows);
    keys.size("width", op.width);
    keys.rows("lookups", op.lookups);
    if (op.sparse_gradient) keys.text("gradient", "sparse");
    if (!op.out.empty()) keys.shape("out", op.out);
  }
  void operator()(const workload::Attention& op) const {
    keys.size("heads", op.heads);
    keys.size_unless("keys", op.keys, 0);
    keys.flag_unless("causal", op.causal, false);
    keys.flag_unless("biased", op.biased, false);
    keys.flag_unless("wide_softmax", op.wide, false);
  }
  void operator()(const workload::Lstm& op) const {
    keys.size("hidden", op.hidden);
    keys.size_unless("directions", op.directions, 1);
  }
  void operator()(const workload::MatMul& op) const {
    keys.size_unless("products", op.products, 1);
    keys.size("rows", op.rows);
    keys.size("inner", op.inner);
    keys.size("columns", op.columns);
    keys.shape("out", op.out);
  }
  void operator()(const workload::GroupedAttention& op) const {
    keys.size("heads", op.heads);
    keys.size_unless("kv_heads", op.kv_heads, 0);
    keys.size("width", op.width);
    keys.size_unless("value_width", op.value_width, 0);
    keys.size_unless("window", op.window, 0);
    keys.flag_unless("causal", op.causal, false);
    keys.size_unless("chunk", op.chunk, 0);
    keys.flag_unless("sinks", op.sinks, false);
    keys.size_unless("pooled", op.pooled, 0);
    keys.size_unless("pooled_keep", op.pooled_keep, 0);
  }
  void operator()(const workload::Experts& op) const {
    keys.size("experts", op.experts);
    keys.size("active", op.active);
    keys.size("width", op.width);
    keys.flag_unless("gated", op.gated, true);
    keys.flag_unless("bias", op.bias, false);
  }
  void operator()(const workload::CausalConv& op) const {
    keys.size("kernel", op.kernel);
    keys.flag_unless("bias", op.bias, false);
  }
  void operator()(const workload::IndexScores& op) const {
    keys.size("heads", op.heads);
    keys.size("width", op.width);
    keys.size("keep", op.keep);
    keys.size_unless("pooled", op.pooled, 1);
  }
  void operator()(const workload::HostWork& op) const { keys.time_unless_zero("time", op.time); }
  void operator()(const workload::LinearAttention& op) const {
    keys.size("heads", op.heads);
    keys.size_unless("key_heads", op.key_heads, 0);
    keys.size("width", op.width);
    keys.size("value_width", op.value_width);
    keys.size_unless("chunk", op.chunk, 64);
    keys.flag_unless("delta", op.delta, false);
  }
  void operator()(const workload::RmsNorm&) const {}
  void operator()(const workload::Measured& op) const {
    keys.time_unless_zero("forward", op.time.forward);
    keys.time_unless_zero("backward", op.time.backward);
    if (op.time.bound != workload::Bound::kMemory) keys.word("bound", name_of(workload::kBounds, op.time.bound));
    keys.size_unless("kernels", op.kernels, 1);
    if (!op.gradients.empty()) keys.shape("gradients", op.gradients);
  }
  void operator()(const workload::BatchNorm&) const {}
  void operator()(const workload::LayerNorm&) const {}
  void operator()(const workload::Pointwise&) const {}
  void operator()(const workload::Combine&) const {}
  void operator()(const workload::GlobalPool&) const {}
  void operator()(const workload::Flatten&) const {}
};

struct WordsFor {
  using Words = std::vector<std::string>;
  Words operator()(const workload::Convolution&) const { return {"conv"}; }
  Words operator()(const workload::Linear&) const { return {"linear"}; }
  Words operator()(const workload::BatchNorm&) const { return {"batchnorm"}; }
  Words operator()(const workload::LayerNorm&) const { return {"layernorm"}; }
  Words operator()(const workload::Pointwise& op) const {
    Words words;
    for (const auto& [word, meant] : workload::kPointwiseWords) {
      if (meant == op) words.emplace_back(word);
    }
    return words;
  }
  Words operator()(const workload::Combine& op) const {
    return {op.gated ? "swiglu" : op.product ? "multiply" : "add"};
  }
  Words operator()(const workload::Pool& op) const { return {op.average ? "avgpool" : "maxpool"}; }
  Words operator()(const workload::GlobalPool&) const { return {"global_avgpool"}; }
  Words operator()(const workload::Flatten&) const { return {"flatten"}; }
  Words operator()(const workload::Concat&) const { return {"concat"}; }
  Words operator()(const workload::Embedding&) const { return {"embedding"}; }
  Words operator()(const workload::Attention&) const { return {"attention"}; }
  Words operator()(const workload::Lstm&) const { return {"lstm"}; }
  Words operator()(const workload::MatMul&) const { return {"matmul"}; }
  Words operator()(const workload::RmsNorm&) const { return {"rmsnorm"}; }
  Words operator()(const workload::GroupedAttention&) const { return {"grouped_attention"}; }
  Words operator()(const workload::Experts&) const { return {"experts"}; }
  Words operator()(const workload::Measured&) const { return {"measured"}; }
  Words operator()(const workload::CausalConv&) const { return {"causal_conv"}; }
  Words operator()(const workload::IndexScores&) const { return {"index_scores"}; }
  Words operator()(const workload::HostWork&) const { return {"host"}; }
  Words operator()(const workload::LinearAttention&) const { return {"linear_attention"}; }
};

Error in_layer(const DescribedLayer& layer, std::size_t index, Error error) {
  error.message = fmt::format("layer {} '{}' ({}): {}", index + 1, layer.name, layer.word, error.message);
  return error;
}

/// Calls `visit(layer, input as it is, input as it was left, made)` for each layer in turn.
template <typename Visit>
Expected<void> walk(const ModelDescription& description, Visit visit) {
  if (description.layers.empty()) return fail(ErrorCode::kInvalidArgument, "a model has at least one layer");
  if (description.layers.size() > kMaxLayers) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} layers, but a model file has at most {}", description.layers.size(), kMaxLayers));
  }
  Shape left = description.input_shape;
  std::size_t tensors = 0;
  for (std::size_t i = 0; i < description.layers.size(); ++i) {
    const DescribedLayer& layer = description.layers[i];
    const std::vector<std::string> words = words_for(layer.op);
    if (std::find(words.begin(), words.end(), layer.word) == words.end()) {
      return tl::unexpected<Error>(in_layer(
          layer, i, {ErrorCode::kInvalidArgument, "the word does not stand for this operator", {}, {join(words)}, {}}));
    }
    const Shape in = layer.in.empty() ? left : layer.in;
    auto made = workload::layer_of(layer.op, in, layer.name);
    if (!made) return tl::unexpected<Error>(in_layer(layer, i, made.error()));
    tensors += made->layer.parameters.size();
    if (tensors > kMaxTensors) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("the model has more than {} gradient tensors", kMaxTensors));
    }
    visit(layer, in, std::as_const(left), *made);
    left = std::move(made->out);
  }
  return {};
}

std::string dimensions_of(const ModelDescription& description) {
  if (description.rows_name.empty() || description.input_shape.empty()) return {};
  return fmt::format("dimensions: {{{}: {}}}\n", description.rows_name, description.input_shape.front());
}

/// A block of lines that follows itself.
struct Repeat {
  std::size_t period = 1;
  std::size_t times = 1;

  [[nodiscard]] std::size_t saved() const { return period * (times - 1); }
};

/// The block from `start` on that saves most lines.
Repeat repeat_at(const std::vector<std::string>& lines, std::size_t start) {
  constexpr std::size_t kLongest = 128;
  Repeat best;
  for (std::size_t period = 1; period <= kLongest && start + 2 * period <= lines.size(); ++period) {
    if (lines[start] != lines[start + period]) continue;
    const auto first = lines.begin() + static_cast<std::ptrdiff_t>(start);
    const auto shifted = first + static_cast<std::ptrdiff_t>(period);
    const auto end = std::mismatch(shifted, lines.end(), first).first;
    const Repeat found{period, static_cast<std::size_t>(end - first) / period};
    if (found.saved() > best.saved()) best = found;
  }
  return best;
}

/// The `layers:` list, blocks of lines that follow themselves under `repeat`.
std::string folded(const std::vector<std::string>& lines) {
  constexpr std::size_t kLinesOfRepeat = 3;
  std::string text;
  for (std::size_t i = 0; i < lines.size();) {
    const Repeat repeat = repeat_at(lines, i);
    if (repeat.saved() <= kLinesOfRepeat) {
      text += "  - " + lines[i] + "\n";
      ++i;
      continue;
    }
    fmt::format_to(std::back_inserter(text), "  - repeat:\n      times: {}\n      layers:\n", repeat.times);
    for (std::size_t k = 0; k < repeat.period; ++k) text += "        - " + lines[i + k] + "\n";
    i += repeat.period * repeat.times;
  }
  return text;
}

}  // namespace

std::vector<std::string> words_for(const Op& op) { return std::visit(WordsFor{}, op); }

Expected<std::string> write_model(const ModelDescription& description) {
  std::vector<std::string> lines;
  auto walked = walk(description, [&](const DescribedLayer& layer, const Shape& in, const Shape& left, const auto&) {
    Keys keys(layer.named_rows ? description.rows_name : std::string());
    keys.text("name", layer.name);
    if (in != left) keys.input(in);
    std::visit(KeyWriter{keys}, layer.op);
    lines.push_back(fmt::format("{}: {{{}}}", layer.word, keys.line()));
  });
  if (!walked) return tl::unexpected<Error>(walked.error());
  std::string sources;
  for (const Source& source : description.sources) {
    sources += fmt::format("  {}: {}\n", source.key, in_quotes(source.text));
  }
  std::string text = fmt::format(
      "model: {}\nname: {}\ntask: {}\nsample: {}\nbatch: {}\noptimizer: {}\ninput: {{shape: {}, bytes: {} B}}\n"
      "{}{}sources:\n{}{}layers:\n{}",
      in_quotes(description.id), in_quotes(description.name), in_quotes(description.task),
      in_quotes(description.sample), description.batch, name_of(workload::kOptimizers, description.optimizer),
      Keys::with_rows(description.input_shape, description.rows_name),
      std::llround(description.input_per_sample.in(bytes)), dimensions_of(description),
      description.measured ? measured_on_line(*description.measured) : "", sources,
      description.notes.empty() ? "" : fmt::format("notes: {}\n", in_quotes(description.notes)), folded(lines));
  // A line is a list item, its operator and its keys; every comma, a key with its value or one more size.
  const auto values = 5 * std::count(text.begin(), text.end(), '\n') + 3 * std::count(text.begin(), text.end(), ',');
  if (text.size() <= kMaxFileSize && values <= static_cast<std::ptrdiff_t>(kMaxNodes)) return text;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("a model of {} layers does not fit in a model file", description.layers.size()), {},
              {fmt::format("a model file has at most {} MiB and {} values", kMaxFileSize >> 20U, kMaxNodes)});
}

Expected<workload::Model> build_model(const ModelDescription& description) {
  workload::Model model;
  model.id = description.id;
  model.name = description.name;
  model.task = description.task;
  model.sample = description.sample;
  model.batch = description.batch;
  model.optimizer = description.optimizer;
  model.input_per_sample = description.input_per_sample;
  model.sources = Sources(description.sources);
  model.notes = description.notes;
  if (!description.rows_name.empty() && !description.input_shape.empty()) {
    model.dimensions.emplace_back(description.rows_name, description.input_shape.front());
  }
  model.measured = description.measured;
  auto walked =
      walk(description, [&](const DescribedLayer&, const Shape&, const Shape&, workload::LayerAndShape& made) {
        model.layers.push_back(std::move(made.layer));
      });
  if (!walked) return tl::unexpected<Error>(walked.error());
  auto totals = workload::total(model.layers);
  if (!totals) return tl::unexpected<Error>(totals.error());
  model.totals = *totals;
  return model;
}

}  // namespace ddlsim::io
