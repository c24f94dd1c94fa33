#include "ddlsim/io/model_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "ddlsim/support/names.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::io {
namespace {

using workload::Op;
using workload::Pair;
using workload::Shape;

constexpr std::int64_t kMaxSize = std::int64_t{1} << 48;
constexpr std::int64_t kMaxBatch = std::int64_t{1} << 32;
constexpr std::size_t kMaxRank = 16;
constexpr std::size_t kMaxGradients = 10'000;
constexpr std::size_t kMaxLayerName = 200;
constexpr std::int64_t kMaxStride = std::int64_t{1} << 20;

/// The keys of one operator. Sizes may be written as names of the model's dimensions.
class OpReader {
 public:
  OpReader(const Node& node, const std::string& op, const Dimensions& dimensions, std::vector<Error>& errors)
      : reader_(node, op, errors), dimensions_(dimensions) {}

  std::int64_t size(std::string_view key) {
    const Node* value = reader_.require(key);
    return value == nullptr ? 1 : size_of(*value, 1);
  }
  std::int64_t size_or(std::string_view key, std::int64_t otherwise) {
    const Node* value = reader_.find(key);
    return value == nullptr ? otherwise : size_of(*value, 1);
  }
  Shape shape_or_empty(std::string_view key, std::size_t most = kMaxRank) {
    const Node* value = reader_.find(key);
    return value == nullptr ? Shape{} : shape_of(*value, most);
  }
  Shape shape(std::string_view key) {
    const Node* value = reader_.require(key);
    return value == nullptr ? Shape{1} : shape_of(*value);
  }
  /// n, or [height, width].
  Pair pair_or(std::string_view key, Pair otherwise, std::int64_t lowest) {
    const Node* value = reader_.find(key);
    return value == nullptr ? otherwise : pair_of(*value, lowest);
  }
  Pair pair(std::string_view key) {
    const Node* value = reader_.require(key);
    return value == nullptr ? Pair{1, 1} : pair_of(*value, 1);
  }

  MapReader& map() { return reader_; }

 private:
  std::int64_t size_of(const Node& node, std::int64_t lowest) {
    if (!reader_.is_scalar(node)) return 1;
    const auto named = std::find_if(dimensions_.begin(), dimensions_.end(),
                                    [&](const auto& dimension) { return dimension.first == node.text; });
    if (named != dimensions_.end()) return named->second;
    auto count = parse_count(node.text, {lowest, kMaxSize});
    if (!count && !dimensions_.empty()) {
      std::vector<std::string> names;
      names.reserve(dimensions_.size());
      for (const auto& [name, value] : dimensions_) names.push_back(name);
      count.error().notes.push_back("or one of the model's dimensions; " + suggestion(node.text, names));
    }
    return reader_.accept(std::move(count), node).value_or(1);
  }

  Shape shape_of(const Node& node, std::size_t most = kMaxRank) {
    Shape shape;
    if (node.kind != NodeKind::kList || node.items.empty()) {
      reader_.report(node, ErrorCode::kParse, "a shape is a list of sizes, as [3, 224, 224]");
      return {1};
    }
    if (node.items.size() > most) {
      reader_.report(node, ErrorCode::kParse, fmt::format("a shape has at most {} sizes", most));
      return {1};
    }
    for (const Node& item : node.items) shape.push_back(size_of(item, 1));
    return shape;
  }

  Pair pair_of(const Node& node, std::int64_t lowest) {
    if (node.kind != NodeKind::kList) {
      const std::int64_t both = small(node, lowest);
      return {both, both};
    }
    if (node.items.size() != 2) {
      reader_.report(node, ErrorCode::kParse, "write one size, or two as [height, width]");
      return {1, 1};
    }
    return {small(node.items[0], lowest), small(node.items[1], lowest)};
  }

  std::int64_t small(const Node& node, std::int64_t lowest) {
    const std::int64_t value = size_of(node, lowest);
    if (value <= kMaxStride) return value;
    reader_.report(node, ErrorCode::kInvalidArgument, fmt::format("'{}' is larger than {}", node.text, kMaxStride));
    return 1;
  }

  MapReader reader_;
  const Dimensions& dimensions_;
};

using MakeOp = Op (*)(OpReader&);

struct OpRow {
  std::string_view name;
  MakeOp make;
};

Op make_pool(OpReader& keys) {
  workload::Pool pool;
  pool.kernel = keys.pair("kernel");
  pool.stride = keys.pair_or("stride", pool.kernel, 1);
  pool.pad = keys.pair_or("pad", {0, 0}, 0);
  pool.ceil = keys.map().flag_or("ceil", false);
  return pool;
}

Op make_embedding(OpReader& keys) {
  workload::Embedding op;
  op.rows = keys.size("rows");
  op.width = keys.size("width");
  op.lookups = keys.size("lookups");
  op.out = keys.shape_or_empty("out");
  constexpr Choices<bool, 2> kGradients{{{"dense", false}, {"sparse", true}}};
  if (keys.map().find("gradient") != nullptr) op.sparse_gradient = keys.map().choice("gradient", kGradients);
  return op;
}

Op make_convolution(OpReader& keys) {
  workload::Convolution op;
  op.out = keys.size("out");
  op.kernel = keys.pair("kernel");
  op.stride = keys.pair_or("stride", {1, 1}, 1);
  op.pad = keys.pair_or("pad", {0, 0}, 0);
  op.dilation = keys.pair_or("dilation", {1, 1}, 1);
  op.groups = keys.size_or("groups", 1);
  op.bias = keys.map().flag_or("bias", false);
  op.tied = keys.map().flag_or("tied", false);
  return op;
}

Op make_linear(OpReader& keys) {
  return workload::Linear{
      .out = keys.size("out"), .bias = keys.map().flag_or("bias", true), .tied = keys.map().flag_or("tied", false)};
}

Op make_lstm(OpReader& keys) {
  return workload::Lstm{.hidden = keys.size("hidden"), .directions = keys.map().count_or("directions", 1, {1, 2})};
}

Op make_matmul(OpReader& keys) {
  return workload::MatMul{.rows = keys.size("rows"),
                          .inner = keys.size("inner"),
                          .columns = keys.size("columns"),
                          .products = keys.size_or("products", 1),
                          .out = keys.shape("out")};
}

Op make_grouped_attention(OpReader& keys) {
  return workload::GroupedAttention{.heads = keys.size("heads"),
                                    .kv_heads = keys.size_or("kv_heads", 0),
                                    .width = keys.size("width"),
                                    .value_width = keys.size_or("value_width", 0),
                                    .window = keys.size_or("window", 0),
                                    .causal = keys.map().flag_or("causal", false),
                                    .chunk = keys.size_or("chunk", 0),
                                    .sinks = keys.map().flag_or("sinks", false)};
}

Op make_experts(OpReader& keys) {
  return workload::Experts{.experts = keys.size("experts"),
                           .active = keys.size("active"),
                           .width = keys.size("width"),
                           .gated = keys.map().flag_or("gated", true),
                           .bias = keys.map().flag_or("bias", false)};
}

Op make_causal_conv(OpReader& keys) {
  return workload::CausalConv{.kernel = keys.size("kernel"), .bias = keys.map().flag_or("bias", false)};
}

Op make_index_scores(OpReader& keys) {
  return workload::IndexScores{.heads = keys.size("heads"), .width = keys.size("width"), .keep = keys.size("keep")};
}

Op make_linear_attention(OpReader& keys) {
  return workload::LinearAttention{.heads = keys.size("heads"),
                                   .key_heads = keys.size_or("key_heads", 0),
                                   .width = keys.size("width"),
                                   .value_width = keys.size("value_width"),
                                   .chunk = keys.size_or("chunk", 64),
                                   .delta = keys.map().flag_or("delta", false)};
}

Op make_measured(OpReader& keys) {
  workload::Measured op;
  op.time.forward = keys.map().optional_quantity<dimension::kTime>("forward").value_or(Time::zero());
  op.time.backward = keys.map().optional_quantity<dimension::kTime>("backward").value_or(Time::zero());
  if (keys.map().find("bound") != nullptr) op.time.bound = keys.map().choice("bound", workload::kBounds);
  op.kernels = keys.map().count_or("kernels", 1, {1, kMaxStride});
  op.gradients = keys.shape_or_empty("gradients", kMaxGradients);
  return op;
}

Op activation(OpReader&) { return workload::Pointwise{.inverts_output = true}; }
Op copy(OpReader&) { return workload::Pointwise{.inverts_output = false}; }

constexpr auto kOps = std::to_array<OpRow>({
    {"conv", make_convolution},
    {"linear", make_linear},
    {"batchnorm", [](OpReader&) -> Op { return workload::BatchNorm{}; }},
    {"layernorm", [](OpReader&) -> Op { return workload::LayerNorm{}; }},
    {"relu", activation},
    {"gelu", activation},
    {"tanh", activation},
    {"sigmoid", activation},
    {"softmax", [](OpReader&) -> Op { return workload::Pointwise{.inverts_output = true, .over_rows = true}; }},
    {"lrn", activation},
    {"dropout", copy},
    {"scale", copy},
    {"add", [](OpReader&) -> Op { return workload::Combine{.product = false}; }},
    {"multiply", [](OpReader&) -> Op { return workload::Combine{.product = true}; }},
    {"maxpool", make_pool},
    {"avgpool", make_pool},
    {"global_avgpool", [](OpReader&) -> Op { return workload::GlobalPool{}; }},
    {"flatten", [](OpReader&) -> Op { return workload::Flatten{}; }},
    {"concat", [](OpReader& keys) -> Op { return workload::Concat{keys.shape("out")}; }},
    {"embedding", make_embedding},
    {"attention",
     [](OpReader& keys) -> Op {
       return workload::Attention{.heads = keys.size("heads"), .keys = keys.size_or("keys", 0)};
     }},
    {"lstm", make_lstm},
    {"matmul", make_matmul},
    {"rmsnorm", [](OpReader&) -> Op { return workload::RmsNorm{}; }},
    {"silu", activation},
    {"swiglu", [](OpReader&) -> Op { return workload::Combine{.product = true}; }},
    {"grouped_attention", make_grouped_attention},
    {"experts", make_experts},
    {"measured", make_measured},
    {"causal_conv", make_causal_conv},
    {"linear_attention", make_linear_attention},
    {"index_scores", make_index_scores},
});

/// Walks the `layers:` list, carrying the current shape.
class LayerBuilder {
 public:
  LayerBuilder(Shape input, const Dimensions& dimensions, std::vector<Error>& errors)
      : shape_(std::move(input)), dimensions_(dimensions), errors_(errors) {}

  void build(const Node& list) {
    if (list.kind != NodeKind::kList || list.items.empty()) {
      report(list, "layers must be a list with at least one layer");
      return;
    }
    for (const Node& item : list.items) {
      if (stopped()) return;
      build_one(item);
    }
  }

  std::vector<workload::Layer> take() { return std::move(layers_); }

 private:
  /// A faulty list is not written out many times over.
  [[nodiscard]] bool stopped() const { return errors_.size() >= kMaxErrors; }

  void build_one(const Node& item) {
    if (item.kind != NodeKind::kMap || item.entries.size() != 1) {
      report(item, "a layer is one operator with its keys, as `conv: {out: 64, kernel: 3}`");
      return;
    }
    const Entry& entry = item.entries.front();
    if (entry.key == "repeat") {
      repeat(entry.value);
      return;
    }
    const auto row = std::find_if(kOps.begin(), kOps.end(), [&](const OpRow& op) { return op.name == entry.key; });
    if (row == kOps.end()) {
      unknown(entry);
      return;
    }
    const std::size_t before = errors_.size();
    OpReader keys(entry.value, entry.key, dimensions_, errors_);
    if (Shape in = keys.shape_or_empty("in"); !in.empty()) shape_ = std::move(in);
    std::string name = keys.map().text_or("name", fmt::format("{}_{}", entry.key, layers_.size() + 1));
    if (name.size() > kMaxLayerName) {
      report(item, fmt::format("a layer's name is longer than {} characters", kMaxLayerName));
      return;
    }
    const Op op = row->make(keys);
    keys.map().finish();
    if (errors_.size() > before) return;
    auto made = workload::layer_of(op, shape_, std::move(name));
    if (!made) {
      Error error = made.error();
      error.where = entry.where;
      errors_.push_back(std::move(error));
      return;
    }
    if (layers_.size() == kMaxLayers) {
      report(item, fmt::format("the model has more than {} layers", kMaxLayers));
      return;
    }
    tensors_ += made->layer.parameters.size();
    if (tensors_ > kMaxTensors) {
      report(item, fmt::format("the model has more than {} gradient tensors", kMaxTensors));
      return;
    }
    shape_ = std::move(made->out);
    layers_.push_back(std::move(made->layer));
  }

  void repeat(const Node& node) {
    MapReader reader(node, "repeat", errors_);
    const std::int64_t times = reader.count("times", {1, static_cast<std::int64_t>(kMaxLayers)});
    const Node* layers = reader.require("layers");
    reader.finish();
    const std::size_t before = errors_.size();
    for (std::int64_t i = 0; layers != nullptr && i < times && errors_.size() == before && !stopped(); ++i) {
      build(*layers);
    }
  }

  void unknown(const Entry& entry) {
    std::vector<std::string> names;
    names.reserve(kOps.size() + 1);
    for (const OpRow& op : kOps) names.emplace_back(op.name);
    names.emplace_back("repeat");
    errors_.push_back(Error{ErrorCode::kUnsupported,
                            fmt::format("unknown operator '{}'", entry.key.substr(0, 60)),
                            entry.where,
                            {suggestion(entry.key, names)},
                            {}});
  }

  void report(const Node& node, std::string message) {
    errors_.push_back(Error{ErrorCode::kParse, std::move(message), node.where, {}, {}});
  }

  Shape shape_;
  const Dimensions& dimensions_;
  std::vector<Error>& errors_;
  std::vector<workload::Layer> layers_;
  std::size_t tensors_ = 0;
};

const std::vector<std::string> kFeatureKeys{"flops",         "memory_access",     "input",       "weight_traffic",
                                            "dense_weights", "embedding_weights", "architecture"};

void read_features(const Node& node, workload::Model& model, std::vector<Error>& errors) {
  MapReader reader(node, "features", errors);
  workload::StepFeatures features;
  features.flops = reader.quantity<dimension::kWork>("flops");
  features.memory_access = reader.quantity<dimension::kData>("memory_access", Range::kNonNegative);
  features.input = reader.quantity<dimension::kData>("input", Range::kNonNegative);
  features.weight_traffic = reader.quantity<dimension::kData>("weight_traffic", Range::kNonNegative);
  features.dense_weights = reader.quantity<dimension::kData>("dense_weights", Range::kNonNegative);
  features.embedding_weights = reader.quantity<dimension::kData>("embedding_weights", Range::kNonNegative);
  model.architecture = reader.choice("architecture", workload::kArchitectures);
  reader.finish();
  model.features = features;
  model.input_per_sample = features.input / static_cast<double>(model.batch);
}

Dimensions read_dimensions(MapReader& reader, const Dimensions& overrides, std::vector<Error>& errors) {
  Dimensions dimensions;
  std::vector<std::string> names;
  if (const Node* node = reader.find("dimensions")) {
    MapReader sizes(*node, "dimensions", errors);
    for (const Entry& entry : node->entries) {
      dimensions.emplace_back(entry.key, sizes.count(entry.key, {1, kMaxSize}));
      names.push_back(entry.key);
    }
  }
  for (const auto& [name, value] : overrides) {
    const auto known =
        std::find_if(dimensions.begin(), dimensions.end(), [&](const auto& entry) { return entry.first == name; });
    if (known != dimensions.end() && value >= 1 && value <= kMaxSize) {
      known->second = value;
    } else if (known != dimensions.end()) {
      errors.push_back(Error{ErrorCode::kInvalidArgument,
                             fmt::format("dimension '{}' cannot be {}", name, value),
                             {},
                             {fmt::format("write a whole number from 1 to {}", kMaxSize)},
                             {}});
    } else {
      errors.push_back(Error{ErrorCode::kNotFound,
                             fmt::format("the model has no dimension '{}'", name),
                             {},
                             {names.empty() ? "it has none that can be changed" : suggestion(name, names)},
                             {}});
    }
  }
  return dimensions;
}

void read_layers(MapReader& reader, workload::Model& model, std::vector<Error>& errors) {
  const Node* layers = reader.require("layers");
  const Node* input = reader.require("input");
  if (input == nullptr || layers == nullptr) return;
  OpReader keys(*input, "input", model.dimensions, errors);
  Shape shape = keys.shape("shape");
  model.input_per_sample = keys.map().quantity<dimension::kData>("bytes", Range::kNonNegative);
  keys.map().finish();
  LayerBuilder builder(std::move(shape), model.dimensions, errors);
  builder.build(*layers);
  model.layers = builder.take();
  if (auto totals = workload::total(model.layers)) {
    model.totals = *totals;
  } else {
    errors.push_back(totals.error());
    errors.back().where = layers->where;
  }
}

/// `measured_on:` goes with measured layers, and they with it.
void read_measured_on(MapReader& reader, workload::Model& model, std::vector<Error>& errors) {
  const bool measured = std::any_of(model.layers.begin(), model.layers.end(),
                                    [](const workload::Layer& layer) { return layer.measured.has_value(); });
  const Node* node = measured ? reader.require("measured_on") : reader.find("measured_on");
  if (node == nullptr) return;
  if (!measured) {
    reader.report(*node, ErrorCode::kInvalidArgument, "measured_on, but no layer is `measured`");
    return;
  }
  MapReader keys(*node, "measured_on", errors);
  workload::MeasuredOn on;
  on.gpu = keys.text("gpu");
  on.precision = keys.choice("precision", kPrecisions);
  on.peak = keys.quantity<dimension::kWork - dimension::kTime>("peak");
  on.memory = keys.quantity<dimension::kData - dimension::kTime>("memory_bandwidth");
  on.launch_interval = keys.optional_quantity<dimension::kTime>("launch_interval", Range::kNonNegative);
  on.update = keys.flag_or("update", false);
  keys.finish();
  model.measured = std::move(on);
}

void read_recalled(MapReader& reader, workload::Model& model) {
  const Node* list = reader.find("recalled");
  if (list == nullptr) return;
  if (list->kind != NodeKind::kList) {
    reader.report(*list, ErrorCode::kParse, "recalled is a list of feature keys");
    return;
  }
  for (const Node& item : list->items) {
    if (std::find(kFeatureKeys.begin(), kFeatureKeys.end(), item.text) == kFeatureKeys.end()) {
      reader.report(item, ErrorCode::kParse, fmt::format("'{}' is not a feature", item.text.substr(0, 60)),
                    {suggestion(item.text, kFeatureKeys)});
    }
    model.recalled.push_back(item.text);
  }
}

}  // namespace

Expected<workload::Model> read_model(const Node& document, const Dimensions& dimensions) {
  std::vector<Error> errors;
  MapReader reader(document, "a model file", errors);
  workload::Model model;
  model.id = reader.text("model");
  model.name = reader.text("name");
  model.task = reader.text("task");
  model.sample = reader.text("sample");
  model.batch = reader.count("batch", {1, kMaxBatch});
  if (reader.find("global_batch") != nullptr) model.global_batch = reader.count("global_batch", {1, kMaxBatch});
  model.optimizer = reader.choice("optimizer", workload::kOptimizers);
  model.dimensions = read_dimensions(reader, dimensions, errors);
  if (const Node* published = reader.find("published")) {
    MapReader parts(*published, "published", errors);
    if (parts.find("parameters") != nullptr) model.published.parameters = parts.count("parameters", {0, kMaxSize});
    model.published.forward_flops = parts.optional_quantity<dimension::kWork>("forward_flops");
    parts.finish();
  }
  const Node* features = reader.find("features");
  if (features != nullptr) {
    read_features(*features, model, errors);
    read_recalled(reader, model);
  } else {
    read_layers(reader, model, errors);
    read_measured_on(reader, model, errors);
  }
  model.sources = reader.sources(
      {"layers", "input", "batch", "global_batch", "optimizer", "dimensions", "published", "features", "measured_on"});
  model.notes = reader.text_or("notes", {});
  reader.finish();
  if (!errors.empty()) return fail_with_all(std::move(errors));
  return model;
}

}  // namespace ddlsim::io
