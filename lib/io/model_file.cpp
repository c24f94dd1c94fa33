#include "ddlsim/io/model_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ddlsim/support/names.h"
#include "ddlsim/workload/op.h"
#include "ddlsim/workload/passes.h"
#include "image_resize.h"
#include "op_reader.h"

namespace ddlsim::io {
namespace {

using workload::Op;
using workload::Shape;

constexpr std::int64_t kMaxBatch = std::int64_t{1} << 32;
constexpr std::size_t kMaxLayerName = 200;

/// Walks the `layers:` list, carrying the current shape.
class LayerBuilder {
 public:
  LayerBuilder(Shape input, const Dimensions& dimensions, std::vector<Error>& errors)
      : shape_(std::move(input)), dimensions_(dimensions), errors_(errors) {}

  /// For images of another size than the file's.
  void resize(std::int64_t height, std::int64_t width, bool detects) {
    resize_.emplace(shape_, height, width, detects);
    resized_ = {shape_[0], height, width};
  }

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
  [[nodiscard]] bool stopped() const { return refused_ || errors_.size() >= kMaxErrors; }

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
    const auto ops = readable_ops();
    const auto row = std::find_if(ops.begin(), ops.end(), [&](const OpRow& op) { return op.name == entry.key; });
    if (row == ops.end()) {
      unknown(entry);
      return;
    }
    const std::size_t before = errors_.size();
    OpReader keys(entry.value, entry.key, dimensions_, errors_);
    Shape in = keys.shape_or_empty("in");
    const bool elsewhere = !in.empty();  // than at the layer before
    if (elsewhere) shape_ = std::move(in);
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
    const Shape out = made->out;
    if (resize_) {
      made = resized(op, elsewhere, *made);
      if (!made) {
        errors_.push_back(made.error());
        refused_ = true;
        return;
      }
      resized_ = made->out;
    }
    tensors_ += made->layer.parameters.size();
    if (tensors_ > kMaxTensors) {
      report(item, fmt::format("the model has more than {} gradient tensors", kMaxTensors));
      return;
    }
    shape_ = out;
    layers_.push_back(std::move(made->layer));
  }

  /// The layer `one`, of images of the other size.
  Expected<workload::LayerAndShape> resized(const Op& op, bool elsewhere, const workload::LayerAndShape& one) {
    const auto refuse = [&](const std::string& why) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("the model takes no images of that size: layer '{}' {}", one.layer.name, why));
    };
    if (elsewhere) {
      auto in = resize_->of(shape_);
      if (!in) return refuse("reads a map of a size that nothing before it has");
      resized_ = std::move(*in);
    }
    // What is flattened was pooled to the file's size.
    if (std::holds_alternative<workload::Flatten>(op) && shape_.size() == 3) return one;
    const auto sized = resize_->of(op);
    if (!sized) return refuse("writes a map of a size that nothing before it has");
    auto made = workload::layer_of(*sized, resized_, one.layer.name);
    if (!made) return refuse("would not work: " + made.error().message);
    if (!resize_->follow(op, one.out, made->out)) return refuse("makes another size of it than another path");
    return made;
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
    const auto ops = readable_ops();
    names.reserve(ops.size() + 1);
    for (const OpRow& op : ops) names.emplace_back(op.name);
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

  Shape shape_;  // of the file's images
  std::optional<ImageResize> resize_;
  Shape resized_;         // of the others
  bool refused_ = false;  // that size
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
      dimensions.emplace_back(entry.key, sizes.count(entry.key, {1, OpReader::kMaxSize}));
      names.push_back(entry.key);
    }
  }
  for (const auto& [name, value] : overrides) {
    const auto known =
        std::find_if(dimensions.begin(), dimensions.end(), [&](const auto& entry) { return entry.first == name; });
    if (known != dimensions.end() && value >= 1 && value <= OpReader::kMaxSize) {
      known->second = value;
    } else if (known != dimensions.end()) {
      errors.push_back(Error{ErrorCode::kInvalidArgument,
                             fmt::format("dimension '{}' cannot be {}", name, value),
                             {},
                             {fmt::format("write a whole number from 1 to {}", OpReader::kMaxSize)},
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

/// Layers before the one that `trained_from` names are not trained.
void freeze_layers(MapReader& reader, workload::Model& model, std::vector<Error>& errors) {
  const Node* node = reader.find("trained_from");
  if (node == nullptr) return;
  const std::string name = reader.text("trained_from");
  const auto first = std::find_if(model.layers.begin(), model.layers.end(),
                                  [&](const workload::Layer& layer) { return layer.name == name; });
  if (first != model.layers.end()) {
    workload::freeze_before(model.layers, static_cast<std::size_t>(first - model.layers.begin()));
    return;
  }
  std::vector<std::string> names;
  for (const workload::Layer& layer : model.layers) names.push_back(layer.name);
  errors.push_back(Error{ErrorCode::kNotFound,
                         fmt::format("no layer is named '{}'", name.substr(0, 60)),
                         node->where,
                         {suggestion(name, names)},
                         {}});
}

/// Sides of images that are asked for instead of the file's.
struct ImageSides {
  std::optional<std::int64_t> height, width;

  [[nodiscard]] bool any() const { return height || width; }
};

/// Takes them out of what is asked for.
ImageSides sides_of(Dimensions& dimensions) {
  const auto [both, tall, wide] = kImageSides;
  ImageSides sides;
  for (const auto& [name, value] : dimensions) {
    if (name == both || name == tall) sides.height = value;
    if (name == both || name == wide) sides.width = value;
  }
  std::erase_if(dimensions, [](const auto& one) {
    return std::find(kImageSides.begin(), kImageSides.end(), one.first) != kImageSides.end();
  });
  return sides;
}

/// Images are of other sides: what is known of the file's alone goes.
void resize_images(const ImageSides& sides, const Shape& shape, workload::Model& model, LayerBuilder& builder,
                   std::vector<Error>& errors) {
  constexpr std::int64_t kLargest = 1 << 16;
  // What a detector counts by itself (regions, SSD's boxes, DETR's queries) is of the file's size.
  const bool detects =
      model.task.find("detection") != std::string::npos || model.task.find("instance") != std::string::npos;
  if (shape.size() != 3 || (detects && !model.dimensions.empty())) {
    errors.push_back(Error{ErrorCode::kUnsupported, "the model is known for images of its own size alone", {}, {}, {}});
    return;
  }
  const std::int64_t height = sides.height.value_or(shape[1]);
  const std::int64_t width = sides.width.value_or(shape[2]);
  if (std::min(height, width) < 1 || std::max(height, width) > kLargest) {
    errors.push_back(Error{ErrorCode::kInvalidArgument,
                           fmt::format("images of {} x {} pixels", height, width),
                           {},
                           {fmt::format("write whole numbers from 1 to {}", kLargest)},
                           {}});
    return;
  }
  if (height == shape[1] && width == shape[2]) return;
  // Bytes of what is no image (a text's tokens) stay.
  const auto values = static_cast<double>(shape[0] * shape[1] * shape[2]);
  const double of_value = std::floor(model.input_per_sample.in(bytes) / values);
  model.input_per_sample += bytes(of_value * (static_cast<double>(shape[0] * height * width) - values));
  model.published = {};
  model.name += fmt::format(" at {} x {}", height, width);
  builder.resize(height, width, detects);
}

void read_layers(MapReader& reader, const ImageSides& sides, workload::Model& model, std::vector<Error>& errors) {
  const Node* layers = reader.require("layers");
  const Node* input = reader.require("input");
  if (input == nullptr || layers == nullptr) return;
  OpReader keys(*input, "input", model.dimensions, errors);
  Shape shape = keys.shape("shape");
  model.input_per_sample = keys.map().quantity<dimension::kData>("bytes", Range::kNonNegative);
  keys.map().finish();
  LayerBuilder builder(shape, model.dimensions, errors);
  if (sides.any()) resize_images(sides, shape, model, builder, errors);
  builder.build(*layers);
  model.layers = builder.take();
  workload::drop_unread_outputs(model.layers);
  freeze_layers(reader, model, errors);
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
  if (reader.find("model") == nullptr && reader.find("model_type") != nullptr) {
    return fail(ErrorCode::kParse, "this is a Hugging Face config, no model file", document.where,
                {"ddlsim import hf makes one of it"});
  }
  workload::Model model;
  model.id = reader.text("model");
  model.name = reader.text("name");
  model.task = reader.text("task");
  model.sample = reader.text("sample");
  model.batch = reader.count("batch", {1, kMaxBatch});
  if (reader.find("global_batch") != nullptr) model.global_batch = reader.count("global_batch", {1, kMaxBatch});
  model.optimizer = reader.choice("optimizer", workload::kOptimizers);
  Dimensions asked = dimensions;
  const ImageSides sides = sides_of(asked);
  model.dimensions = read_dimensions(reader, asked, errors);
  if (const Node* published = reader.find("published")) {
    MapReader parts(*published, "published", errors);
    if (parts.find("parameters") != nullptr) {
      model.published.parameters = parts.count("parameters", {0, OpReader::kMaxSize});
    }
    model.published.forward_flops = parts.optional_quantity<dimension::kWork>("forward_flops");
    parts.finish();
  }
  const Node* features = reader.find("features");
  if (features != nullptr) {
    read_features(*features, model, errors);
    read_recalled(reader, model);
    if (sides.any()) {
      errors.push_back(
          Error{ErrorCode::kUnsupported, "the model is known by its totals: it has no images", {}, {}, {}});
    }
  } else {
    read_layers(reader, sides, model, errors);
    read_measured_on(reader, model, errors);
  }
  model.sources = reader.sources({"layers", "input", "batch", "global_batch", "optimizer", "dimensions", "published",
                                  "features", "measured_on", "trained_from"});
  model.notes = reader.text_or("notes", {});
  return reader.whole(std::move(model));
}

}  // namespace ddlsim::io
