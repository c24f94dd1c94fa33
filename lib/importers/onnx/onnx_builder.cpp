#include "onnx_builder.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ddlsim/support/checked.h"
#include "ddlsim/support/names.h"

namespace ddlsim::importers::onnx {
namespace {

using workload::Shape;

constexpr std::int64_t kLargestCount = std::int64_t{1} << 53;
/// Notes stay well within a model file's limit on a text (kMaxText).
constexpr std::size_t kLongestNotes = 5000;

const Rule* find_rule(const GraphNode& node) {
  if (!node.domain.empty() && node.domain != "ai.onnx") return nullptr;
  for (const std::span<const Rule> rules : {window_rules(), layer_rules(), tensor_rules()}) {
    const auto found = std::find_if(rules.begin(), rules.end(), [&](const Rule& rule) { return rule.op == node.op; });
    if (found != rules.end()) return &*found;
  }
  return nullptr;
}

std::string operator_name(const GraphNode& node) {
  return node.domain.empty() ? printable(node.op) : printable(node.domain) + "." + printable(node.op);
}

/// The name of an open dimension as `--dim` takes it.
std::string name_of(const ValueInfo& input, std::size_t index) {
  const std::string_view name = (*input.dims)[index].name;
  return name.empty() ? fmt::format("{}:{}", printable(input.name), index) : printable(name);
}

}  // namespace

std::optional<std::int64_t> elements_of(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    const auto product = checked_multiply(count, size);
    if (!product || *product > kLargestCount) return std::nullopt;
    count = *product;
  }
  return count;
}

Builder::Builder(const Graph& graph, const OnnxOptions& options, std::string file)
    : graph_(graph), options_(options), file_(std::move(file)) {
  for (const ValueInfo& info : graph.known) declared_.emplace(info.name, &info);
}

Expected<io::ModelDescription> Builder::build() {
  read_initializers();
  read_inputs();
  count_readers();
  for (const GraphNode& node : graph_.nodes) {
    if (error_) break;
    apply(node);
  }
  if (!error_ && model_.layers.empty()) {
    refuse({ErrorCode::kUnsupported, "the graph computes nothing that costs time", {}, {}, {}});
  }
  if (error_) return tl::unexpected<Error>(std::move(*error_));
  model_.notes = joined_notes();
  return std::move(model_);
}

void Builder::read_initializers() {
  for (const TensorHead& tensor : graph_.initializers) {
    const auto count = elements_of(tensor.dims);
    const bool negative = std::any_of(tensor.dims.begin(), tensor.dims.end(), [](auto size) { return size < 0; });
    if (negative || !count) {
      refuse({ErrorCode::kInvalidArgument,
              fmt::format("the initializer '{}' has {}: {}", printable(tensor.name),
                          negative ? "a negative size" : "over 2^53 elements", workload::to_string(tensor.dims)),
              {},
              {},
              {}});
      return;
    }
    Value value{.shape = tensor.dims, .constant = true, .numbers = tensor.values, .fractions = tensor.fractions};
    if (is_floating(tensor.data_type)) value.weight = new_weight(*count);
    values_.emplace(tensor.name, std::move(value));
  }
}

void Builder::read_inputs() {
  for (const ValueInfo& input : graph_.inputs) {
    // Files of IR version 3 and older list initializers among the inputs.
    if (error_ || values_.contains(input.name)) continue;
    read_input(input);
  }
  if (error_) return;
  if (model_.input_shape.empty()) {
    refuse({ErrorCode::kInvalidArgument, "the graph has no input", {}, {}, {}});
    return;
  }
  check_dimensions();
}

void Builder::read_input(const ValueInfo& input) {
  const bool first = model_.input_shape.empty();
  if (!input.dims || (first && input.dims->empty())) {
    refuse({ErrorCode::kInvalidArgument,
            fmt::format("the input '{}' has no shape", printable(input.name)),
            {},
            {"its first dimension must be the batch"},
            {}});
    return;
  }
  Shape shape;
  for (std::size_t i = 0; i < input.dims->size() && !error_; ++i) {
    const std::int64_t size = size_of(input, i);
    if (i == 0 && first) batch_ = size;
    shape.push_back(size);
  }
  const auto width = element_bytes(input.data_type);
  const Shape sample = sample_of(shape);
  const auto count = elements_of(sample);
  if (!error_ && (!count || !width)) {
    refuse({ErrorCode::kInvalidArgument,
            fmt::format("the input '{}' of shape {} {}", printable(input.name), workload::to_string(shape),
                        width ? "has over 2^53 elements" : fmt::format("has the data type {}", input.data_type)),
            {},
            {},
            {}});
  }
  if (error_) return;
  if (first) {
    model_.input_shape = sample;
    const bool image = is_floating(input.data_type) && sample.size() == 3;
    model_.sample = image ? "image" : is_floating(input.data_type) ? "sample" : "sequence";
  }
  model_.input_per_sample += bytes(static_cast<double>(*count) * static_cast<double>(*width));
  values_.emplace(input.name, Value{.shape = std::move(shape)});
}

std::int64_t Builder::size_of(const ValueInfo& input, std::size_t index) {
  const Dimension& dimension = (*input.dims)[index];
  const bool batch = index == 0;
  // Some exporters write an open batch as 0.
  if (dimension.size && (*dimension.size != 0 || !batch)) {
    if (*dimension.size < 1 || *dimension.size > kLargestSize) {
      refuse({ErrorCode::kInvalidArgument,
              fmt::format("dimension {} of the input '{}' is {}", index, printable(input.name), *dimension.size),
              {},
              {"a size is from 1 to 2^48, or open with a name"},
              {}});
      return 1;
    }
    if (batch && model_.input_shape.empty()) stated_batch_ = *dimension.size;
    return *dimension.size;
  }
  const std::string name = name_of(input, index);
  dimension_names_.push_back(name);
  const auto given = std::find_if(options_.dimensions.begin(), options_.dimensions.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (given != options_.dimensions.end()) {
    if (given->second < 1 || given->second > kLargestSize) {
      refuse({ErrorCode::kInvalidArgument,
              fmt::format("dimension '{}' cannot be {}", name, given->second),
              {},
              {"write a whole number from 1 to 2^48"},
              {}});
      return 1;
    }
    if (batch && model_.input_shape.empty()) stated_batch_ = given->second;
    return given->second;
  }
  if (batch) return batch_;
  refuse({ErrorCode::kInvalidArgument,
          fmt::format("dimension {} of the input '{}' is open ('{}')", index, printable(input.name), name),
          {},
          {fmt::format("say how large it is: --dim \"{}=128\"", name)},
          {}});
  return 1;
}

void Builder::check_dimensions() {
  for (const auto& [name, value] : options_.dimensions) {
    if (std::find(dimension_names_.begin(), dimension_names_.end(), name) == dimension_names_.end()) {
      refuse({ErrorCode::kNotFound,
              fmt::format("the graph's inputs have no open dimension '{}'", printable(name)),
              {},
              {dimension_names_.empty() ? "all of them are numbers" : suggestion(name, dimension_names_)},
              {}});
    }
  }
}

void Builder::count_readers() {
  for (const GraphNode& node : graph_.nodes) {
    for (const std::string_view input : node.inputs) ++readers_[input];
  }
}

void Builder::apply(const GraphNode& node) {
  if (const Rule* rule = find_rule(node)) {
    NodeContext context(*this, node);
    rule->apply(context);
    return;
  }
  if (options_.unknown == UnknownOperator::kAssumed) {
    assume(node);
    return;
  }
  const std::vector<std::string> known = onnx_operators();
  refuse({ErrorCode::kUnsupported,
          fmt::format("{}: no rule for the operator '{}'", describe(node), operator_name(node)),
          {},
          {"--unknown assumed takes it as an element-wise operator of its output's size",
           "operators with a rule: " + join(known)},
          {}});
}

/// An element-wise operator of the output's size: the size the file declares, else that of the first activation read.
void Builder::assume(const GraphNode& node) {
  NodeContext context(*this, node);
  Shape fallback{1};
  bool constant = true;
  std::int64_t ignored = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!context.has(i)) continue;
    const Value& value = context.input(i);
    if (!value.constant && constant) fallback = value.shape;
    constant = constant && value.constant;
    if (value.weight != kNone && !weights_[value.weight].used) ignored += weights_[value.weight].elements;
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Shape shape = declared_shape(node.outputs[i]).value_or(fallback);
    if (i == 0 && !constant) {
      context.layer_on("scale", workload::Pointwise{}, shape);
      note(fmt::format("assumed: {}, an operator without a rule, as element-wise on {}{}", describe(node),
                       workload::to_string(sample_of(shape)),
                       ignored > 0 ? fmt::format("; the {} elements of its weights are not counted", ignored) : ""));
    }
    context.set(i, Value{.shape = shape, .constant = constant});
  }
}

/// A shape of the file's own value_info, where every size is known.
std::optional<Shape> Builder::declared_shape(std::string_view name) const {
  const auto found = declared_.find(name);
  if (found == declared_.end() || !found->second->dims || found->second->dims->empty()) return std::nullopt;
  Shape shape;
  for (const Dimension& dimension : *found->second->dims) {
    const auto given = std::find_if(options_.dimensions.begin(), options_.dimensions.end(),
                                    [&](const auto& entry) { return entry.first == dimension.name; });
    if (dimension.size && *dimension.size >= 1 && *dimension.size <= kLargestSize) {
      shape.push_back(*dimension.size);
    } else if (given != options_.dimensions.end()) {
      shape.push_back(given->second);
    } else if (shape.empty() && !dimension.size) {
      shape.push_back(batch_);
    } else {
      return std::nullopt;
    }
  }
  return shape;
}

void Builder::refuse(Error error) {
  if (error_) return;
  error.where.file = file_;
  error_ = std::move(error);
}

void Builder::note(const std::string& text) {
  if (noted_.insert(text).second) notes_.push_back(text);
}

std::string Builder::joined_notes() const {
  std::string text;
  std::size_t written = 0;
  while (written < notes_.size() && text.size() + notes_[written].size() < kLongestNotes) {
    text += (written > 0 ? ". " : "") + notes_[written];
    ++written;
  }
  if (written < notes_.size()) text += fmt::format(". And {} more notes", notes_.size() - written);
  return text.empty() ? text : text + ".";
}

/// The shape of one sample's part of a tensor. A tensor that does not depend on the batch is every sample's.
Shape Builder::sample_of(const Shape& shape) const {
  if (shape.empty()) return {1};
  Shape sample = shape;
  if (sample[0] == batch_) {
    sample.erase(sample.begin());
  } else if (sample[0] % batch_ == 0) {
    sample[0] /= batch_;
  } else if (const auto batch = std::find(sample.begin(), sample.end(), batch_); batch != sample.end()) {
    sample.erase(batch);
  }
  if (sample.empty()) sample = {1};
  return sample;
}

std::size_t Builder::new_weight(std::int64_t elements) {
  weights_.push_back({.elements = elements});
  return weights_.size() - 1;
}

const Value& NodeContext::input(std::size_t index) {
  if (!has(index)) {
    refuse(fmt::format("input {} is missing", index + 1));
    return nothing_;
  }
  const auto found = builder_.values_.find(node_.inputs[index]);
  if (found == builder_.values_.end()) {
    refuse(fmt::format("the tensor '{}' has no shape here", printable(node_.inputs[index])),
           {"it is an output that the rule of its operator does not make"}, ErrorCode::kUnsupported);
    return nothing_;
  }
  return found->second;
}

bool NodeContext::only_reader_of(std::size_t index) const {
  const auto readers = builder_.readers_.find(node_.inputs[index]);
  return readers != builder_.readers_.end() && readers->second == 1;
}

std::int64_t NodeContext::integer(std::string_view attribute, std::int64_t otherwise) const {
  const Attribute* found = node_.find(attribute);
  return found == nullptr ? otherwise : found->integer;
}

std::vector<std::int64_t> NodeContext::integers(std::string_view attribute) const {
  const Attribute* found = node_.find(attribute);
  return found == nullptr ? std::vector<std::int64_t>{} : found->integers;
}

std::string_view NodeContext::text(std::string_view attribute) const {
  const Attribute* found = node_.find(attribute);
  return found == nullptr ? std::string_view{} : found->text;
}

std::optional<std::vector<std::int64_t>> NodeContext::numbers(std::string_view attribute, std::size_t index) {
  if (const Attribute* found = node_.find(attribute)) return found->integers;
  if (!has(index)) return std::nullopt;
  const Value& value = input(index);
  if (!value.numbers) {
    refuse(fmt::format("its {} is worked out at run time ('{}')", attribute, printable(node_.inputs[index])),
           {"export with fixed shapes, or simplify the file with onnxsim"}, ErrorCode::kUnsupported);
  }
  return value.numbers;
}

std::optional<std::vector<float>> NodeContext::fractions(std::size_t index) {
  return has(index) ? input(index).fractions : std::nullopt;
}

std::size_t NodeContext::axis(std::int64_t value, std::size_t rank, bool past_end) {
  const auto size = static_cast<std::int64_t>(rank);
  const std::int64_t index = value < 0 ? value + size : value;
  if (index >= 0 && index < size + (past_end ? 1 : 0)) return static_cast<std::size_t>(index);
  refuse(fmt::format("axis {} of a tensor of {} dimensions", value, rank));
  return 0;
}

void NodeContext::set(std::size_t output, Value value) {
  if (failed() || output >= node_.outputs.size() || node_.outputs[output].empty()) return;
  for (const std::int64_t size : value.shape) {
    if ((size < 1 && !value.constant) || size < 0 || size > kLargestSize) {
      refuse(fmt::format("its output would have the shape {}", workload::to_string(value.shape)));
      return;
    }
  }
  if (value.shape.size() > kMaxRank) {
    refuse(fmt::format("its output would have {} dimensions", value.shape.size()));
    return;
  }
  builder_.values_.insert_or_assign(node_.outputs[output], std::move(value));
}

void NodeContext::layer(std::string_view word, workload::Op op, Shape in, std::string_view suffix) {
  if (failed()) return;
  std::string name = printable(node_.name);
  if (name.empty() && !node_.outputs.empty()) name = printable(node_.outputs.front());
  if (name.empty()) name = fmt::format("{}_{}", word, layers() + 1);
  name += suffix;
  if (!in.empty() && elements(in) < 1) refuse("it reads an empty tensor");
  const Shape given = in.empty() ? Shape{1} : in;
  // Only a fault of the layer itself; what it does not read (`in` empty) cannot matter to it.
  if (auto made = workload::layer_of(op, given, name); !made && !failed()) {
    refuse(made.error().message, made.error().notes);
  }
  if (layers() == io::kMaxLayers) refuse(fmt::format("the model has more than {} layers", io::kMaxLayers));
  if (failed()) return;
  builder_.model_.layers.push_back({std::string(word), std::move(op), std::move(name), std::move(in)});
}

void NodeContext::add_bias(std::size_t index) {
  if (!failed()) std::get<workload::Linear>(builder_.model_.layers[index].op).bias = true;
}

bool NodeContext::train(std::size_t index) {
  const Value& value = input(index);
  const std::size_t which = value.weight != kNone ? value.weight : value.vector_weight;
  if (which == kNone) {
    refuse(
        fmt::format("'{}' is no stored tensor of floating-point numbers", printable(node_.inputs[index])),
        {"a weight is an initializer or a Constant: export with the parameters (export_params=True), or fold what is "
         "worked out from them (onnxsim)"},
        ErrorCode::kUnsupported);
    return false;
  }
  Weight& weight = builder_.weights_[which];
  if (weight.used) return false;
  weight.used = true;
  builder_.trained_ += weight.elements;
  return true;
}

void NodeContext::trained_operand(std::size_t index) {
  if (!train(index)) return;
  const Shape shape = input(index).shape;
  const std::int64_t all = elements(shape);
  const std::int64_t width = shape.empty() || shape.back() == 1 ? all : shape.back();
  if (all < 1 || failed()) return;
  const std::int64_t rows = all / width;
  layer("embedding", workload::Embedding{.rows = rows, .width = width, .lookups = rows}, {}, "_parameter");
  note("A trained operand of an element-wise operator is written as an embedding that reads all its rows");
}

void NodeContext::refuse(std::string message, std::vector<std::string> notes, ErrorCode code) {
  builder_.refuse({code, describe(node_) + ": " + std::move(message), {}, std::move(notes), {}});
}

std::int64_t NodeContext::elements(const Shape& shape) {
  const auto count = elements_of(shape);
  if (!count) refuse(fmt::format("a tensor of over 2^53 elements: {}", workload::to_string(shape)));
  return count.value_or(1);
}

}  // namespace ddlsim::importers::onnx

namespace ddlsim::importers {

std::vector<std::string> onnx_operators() {
  std::vector<std::string> names;
  for (const std::span<const onnx::Rule> rules : {onnx::window_rules(), onnx::layer_rules(), onnx::tensor_rules()}) {
    for (const onnx::Rule& rule : rules) names.emplace_back(rule.op);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace ddlsim::importers
