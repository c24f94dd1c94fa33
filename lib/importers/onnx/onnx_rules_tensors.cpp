// Rules of the operators that rearrange tensors or make constants. Semantics: onnx/docs/Operators.md.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "onnx_builder.h"

namespace ddlsim::importers::onnx {
namespace {

using workload::Shape;
using Numbers = std::vector<std::int64_t>;

std::string text_of(const Shape& shape) { return workload::to_string(shape); }

/// The same data in another shape.
void view(NodeContext& node, Shape shape) {
  const Value& from = node.input(0);
  if (node.failed()) return;
  node.set(0, Value{.shape = std::move(shape),
                    .constant = from.constant,
                    .weight = from.weight,
                    .numbers = from.numbers,
                    .fractions = from.fractions,
                    .vector_weight = from.vector_weight});
}

/// A tensor whose elements are copied one by one.
void copied(NodeContext& node, Shape shape) {
  node.layer("concat", workload::Concat{node.sample(shape)}, {});
  if (node.elements(shape) < 1) node.refuse("it makes an empty tensor");
  node.set(std::move(shape));
}

void identity(NodeContext& node) { view(node, node.input(0).shape); }

void cast(NodeContext& node) {
  const Value& from = node.input(0);
  if (!from.constant) node.layer_on("scale", workload::Pointwise{}, from.shape);
  view(node, from.shape);
}

void flatten(NodeContext& node) {
  const Value& from = node.input(0);
  const Shape shape = from.shape;
  const std::size_t axis = node.axis(node.integer("axis", 1), shape.size(), true);
  const auto middle = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  const std::int64_t rows = node.elements(Shape(shape.begin(), middle));
  const std::int64_t width = node.elements(Shape(middle, shape.end()));
  if (!from.constant && axis == 1 && shape.size() > 2) node.layer_on("flatten", workload::Flatten{}, shape);
  view(node, {rows, width});
}

void reshape(NodeContext& node) {
  const Value& from = node.input(0);
  const auto wanted = node.numbers("shape", 1);
  if (node.failed()) return;
  if (!wanted) {
    node.refuse("its shape is missing");
    return;
  }
  const Shape before = from.shape;
  const std::int64_t all = node.elements(before);
  Shape shape = *wanted;
  std::size_t open = kNone;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && node.integer("allowzero", 0) == 0 && i < before.size()) shape[i] = before[i];
    if (shape[i] == -1 && open == kNone) {
      open = i;
      shape[i] = 1;
    }
    if (shape[i] < 0) node.refuse(fmt::format("cannot have the shape {}", text_of(*wanted)));
  }
  if (node.failed()) return;
  const std::int64_t given = node.elements(shape);
  if (open != kNone && given > 0) shape[open] = all / given;
  if (node.elements(shape) != all) {
    node.refuse(fmt::format("{} has {} elements and cannot have the shape {}", text_of(before), all, text_of(*wanted)));
    return;
  }
  if (!from.constant && node.sample(shape).size() == 1 && node.sample(before).size() > 1) {
    node.layer_on("flatten", workload::Flatten{}, before);
  }
  view(node, std::move(shape));
}

void transpose(NodeContext& node) {
  const Value& from = node.input(0);
  const Shape before = from.shape;
  Numbers order = node.integers("perm");
  if (order.empty()) {
    for (std::size_t i = before.size(); i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
  }
  Shape after;
  std::vector<bool> seen(before.size(), false);
  std::vector<std::int64_t> moved;  // where the sizes above 1 come from
  for (const std::int64_t from_axis : order) {
    const std::size_t index = node.axis(from_axis, before.size());
    if (node.failed()) return;
    if (seen[index]) break;
    seen[index] = true;
    after.push_back(before[index]);
    if (before[index] > 1) moved.push_back(from_axis);
  }
  if (after.size() != before.size()) {
    node.refuse(fmt::format("perm {} does not name each of {} dimensions once", text_of(order), before.size()));
    return;
  }
  if (from.constant || std::is_sorted(moved.begin(), moved.end())) {
    view(node, std::move(after));
    return;
  }
  node.note("A transposed tensor is written as concat, a copy of it");
  copied(node, std::move(after));
}

void squeeze(NodeContext& node) {
  const Shape before = node.input(0).shape;
  const Numbers axes = node.numbers("axes", 1).value_or(Numbers{});
  std::vector<bool> gone(before.size(), false);
  for (std::size_t i = 0; axes.empty() && i < before.size(); ++i) gone[i] = before[i] == 1;
  for (const std::int64_t axis : axes) {
    const std::size_t index = node.axis(axis, before.size());
    if (node.failed()) return;
    if (before[index] != 1) node.refuse(fmt::format("dimension {} of {} is not 1", axis, text_of(before)));
    gone[index] = true;
  }
  Shape after;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!gone[i]) after.push_back(before[i]);
  }
  view(node, std::move(after));
}

void unsqueeze(NodeContext& node) {
  const Shape before = node.input(0).shape;
  const auto axes = node.numbers("axes", 1);
  if (node.failed()) return;
  if (!axes || before.size() + axes->size() > kMaxRank) {
    node.refuse("its axes are missing or too many");
    return;
  }
  const std::size_t rank = before.size() + axes->size();
  std::vector<bool> fresh(rank, false);
  for (const std::int64_t axis : *axes) {
    const std::size_t index = node.axis(axis, rank);
    if (node.failed()) return;
    if (fresh[index]) {
      node.refuse(fmt::format("axis {} twice", axis));
      return;
    }
    fresh[index] = true;
  }
  Shape after;
  auto next = before.begin();
  for (std::size_t i = 0; i < rank; ++i) after.push_back(fresh[i] ? 1 : *next++);
  view(node, std::move(after));
}

void concat(NodeContext& node) {
  if (node.inputs() == 0) node.refuse("it reads nothing");
  Shape out = node.input(0).shape;
  const std::size_t axis = node.axis(node.integer("axis", 1), out.size());
  bool constant = true;
  std::optional<Numbers> numbers = Numbers{};
  for (std::size_t i = 0; i < node.inputs() && !node.failed(); ++i) {
    const Value& value = node.input(i);
    constant = constant && value.constant;
    if (numbers && value.numbers && value.shape.size() == 1) {
      numbers->insert(numbers->end(), value.numbers->begin(), value.numbers->end());
    } else {
      numbers.reset();
    }
    if (i == 0) continue;
    Shape other = value.shape;
    if (other.size() != out.size()) {
      node.refuse(fmt::format("{} and {} do not fit", text_of(out), text_of(other)));
      return;
    }
    const std::int64_t size = std::exchange(other[axis], out[axis]);
    if (other != out) {
      node.refuse(fmt::format("{} and {} do not fit along axis {}", text_of(out), text_of(value.shape), axis));
      return;
    }
    out[axis] += size;
    if (out[axis] > kLargestSize) node.refuse("its output is larger than 2^48 along an axis");
  }
  if (node.failed()) return;
  if (constant) {
    if (numbers && numbers->size() > kMaxValues) numbers.reset();
    node.set(0, Value{.shape = std::move(out), .constant = true, .numbers = std::move(numbers)});
    return;
  }
  for (std::size_t i = 0; i < node.inputs(); ++i) {
    if (node.input(i).weight != kNone) node.trained_operand(i);
  }
  copied(node, std::move(out));
}

/// Rows of a stored table, or elements of a tensor.
void gather(NodeContext& node) {
  const Value table = node.input(0);
  const Value which = node.input(1);
  const std::size_t axis = node.axis(node.integer("axis", 0), table.shape.size());
  if (node.failed()) return;
  Shape out(table.shape.begin(), table.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  out.insert(out.end(), which.shape.begin(), which.shape.end());
  out.insert(out.end(), table.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, table.shape.end());
  if (table.numbers && table.shape.size() == 1 && which.numbers) {
    Numbers taken;
    for (const std::int64_t index : *which.numbers) {
      const std::size_t place = node.axis(index, table.numbers->size());
      if (node.failed()) return;
      taken.push_back((*table.numbers)[place]);
    }
    node.set(0, Value{.shape = std::move(out), .constant = true, .numbers = std::move(taken)});
    return;
  }
  if (table.weight != kNone && axis == 0 && table.shape.size() >= 2) {
    const std::int64_t rows = table.shape[0];
    const std::int64_t width = node.elements(Shape(table.shape.begin() + 1, table.shape.end()));
    const std::int64_t lookups = node.elements(node.sample(which.shape));
    if (rows < 1 || width < 1 || lookups < 1) node.refuse("it reads an empty tensor");
    if (node.train(0)) {
      node.layer("embedding",
                 workload::Embedding{.rows = rows, .width = width, .lookups = lookups, .out = node.sample(out)}, {});
    } else {
      node.layer("concat", workload::Concat{node.sample(out)}, {});
      node.note("A table that is read again is written as concat, a copy of what is read");
    }
    node.set(std::move(out));
    return;
  }
  if (table.constant && which.constant) {
    node.set(0, Value{.shape = std::move(out), .constant = true});
    return;
  }
  copied(node, std::move(out));
}

/// A part of a tensor: a view.
void slice(NodeContext& node) {
  const Value from = node.input(0);
  const auto starts = node.numbers("starts", 1);
  const auto ends = node.numbers("ends", 2);
  const auto given = node.numbers("axes", 3);
  const auto given_steps = node.numbers("steps", 4);
  if (node.failed()) return;
  if (!starts || !ends || starts->size() != ends->size() || (given && given->size() != starts->size()) ||
      (given_steps && given_steps->size() != starts->size())) {
    node.refuse("starts, ends, axes and steps differ in length");
    return;
  }
  Shape out = from.shape;
  std::optional<Numbers> numbers = from.numbers;
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const std::size_t axis = node.axis(given ? (*given)[i] : static_cast<std::int64_t>(i), out.size());
    const std::int64_t step = given_steps ? (*given_steps)[i] : 1;
    if (node.failed()) return;
    if (step < 1 || step > kLargestSize) {
      node.refuse(fmt::format("a step of {}", step), {"steps from 1 are modelled"}, ErrorCode::kUnsupported);
      return;
    }
    const std::int64_t size = out[axis];
    // The spec's "to the end" is the largest integer: clamp before anything is added to it.
    const auto place = [&](std::int64_t at) {
      at = std::clamp(at, -size, size);
      return at < 0 ? at + size : at;
    };
    const std::int64_t first = place((*starts)[i]);
    const std::int64_t last = std::max(place((*ends)[i]), first);
    out[axis] = (last - first + step - 1) / step;
    if (!numbers || out.size() != 1) continue;
    Numbers taken;
    for (std::int64_t k = first; k < last; k += step) taken.push_back((*numbers)[static_cast<std::size_t>(k)]);
    numbers = std::move(taken);
  }
  if (out.size() != 1) numbers.reset();
  node.set(0, Value{.shape = std::move(out), .constant = from.constant, .weight = from.weight, .numbers = numbers});
}

/// Parts of a tensor: views.
void split(NodeContext& node) {
  const Value from = node.input(0);
  const std::size_t axis = node.axis(node.integer("axis", 0), from.shape.size());
  auto sizes = node.numbers("split", 1);
  const std::size_t parts = node.node().outputs.size();
  if (node.failed()) return;
  if (!sizes) {
    const std::int64_t count = std::max<std::int64_t>(static_cast<std::int64_t>(parts), 1);
    const std::int64_t each = (from.shape[axis] + count - 1) / count;
    sizes.emplace(parts, each);
    if (parts > 0) sizes->back() = from.shape[axis] - each * (count - 1);
  }
  std::int64_t all = 0;
  for (const std::int64_t size : *sizes) all += std::clamp<std::int64_t>(size, -kLargestSize, kLargestSize);
  if (sizes->size() != parts || all != from.shape[axis]) {
    node.refuse(fmt::format("{} does not split into {} along axis {}", text_of(from.shape), text_of(*sizes), axis));
    return;
  }
  for (std::size_t i = 0; i < parts; ++i) {
    Shape shape = from.shape;
    shape[axis] = (*sizes)[i];
    node.set(i, Value{.shape = std::move(shape), .constant = from.constant, .weight = from.weight});
  }
}

/// Repeats along dimensions of 1: a view of stride 0.
void expand(NodeContext& node) {
  const Value from = node.input(0);
  const auto wanted = node.numbers("shape", 1);
  if (node.failed()) return;
  if (!wanted) {
    node.refuse("its shape is missing");
    return;
  }
  Shape out(std::max(from.shape.size(), wanted->size()), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t old = i < from.shape.size() ? from.shape[from.shape.size() - 1 - i] : 1;
    const std::int64_t asked = i < wanted->size() ? (*wanted)[wanted->size() - 1 - i] : 1;
    if (old != 1 && asked != 1 && old != asked) {
      node.refuse(fmt::format("{} cannot become {}", text_of(from.shape), text_of(*wanted)));
      return;
    }
    out[out.size() - 1 - i] = old == 1 ? asked : old;
  }
  node.set(0, Value{.shape = std::move(out), .constant = from.constant, .weight = from.weight});
}

/// Of every dimension of a Resize the size that its inputs say; nothing where they are worked out at run time.
std::optional<Shape> resized(NodeContext& node, const Shape& before) {
  const bool upsample = node.node().op == "Upsample" || node.inputs() == 2;
  Shape after = before;
  std::vector<std::size_t> axes;
  for (const std::int64_t axis : node.integers("axes")) axes.push_back(node.axis(axis, before.size()));
  if (axes.empty()) {
    for (std::size_t i = 0; i < before.size(); ++i) axes.push_back(i);
  }
  if (!upsample && node.has(3)) {
    const auto sizes = node.numbers("sizes", 3);
    if (!sizes || sizes->size() != axes.size()) return std::nullopt;
    for (std::size_t i = 0; i < axes.size(); ++i) after[axes[i]] = (*sizes)[i];
    return after;
  }
  const auto scales = node.fractions(upsample ? 1 : 2);
  if (!scales || scales->size() != axes.size()) return std::nullopt;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const double size = std::floor(static_cast<double>(before[axes[i]]) * static_cast<double>((*scales)[i]));
    if (!(size >= 1 && size <= static_cast<double>(kLargestSize))) return std::nullopt;
    after[axes[i]] = static_cast<std::int64_t>(size);
  }
  return after;
}

/// Interpolation: every element of the output is written once, and read again by backward.
void resize(NodeContext& node) {
  const Shape before = node.input(0).shape;
  const auto after = resized(node, before);
  if (node.failed()) return;
  if (!after) {
    node.refuse("its sizes or scales are not stored in the file",
                {"export with fixed shapes, or simplify the file with onnxsim"}, ErrorCode::kUnsupported);
    return;
  }
  if (*after == before) {
    view(node, before);
    return;
  }
  node.note("Resize is written as concat, a copy of what it makes");
  copied(node, *after);
}

/// A copy with edges, or without them where the padding is negative.
void pad(NodeContext& node) {
  const Shape before = node.input(0).shape;
  auto pads = node.numbers(node.node().find("paddings") != nullptr ? "paddings" : "pads", 1);
  if (node.failed()) return;
  std::vector<std::size_t> axes;
  if (node.has(3)) {
    const auto given = node.numbers("axes", 3);
    if (node.failed()) return;
    for (const std::int64_t axis : given.value_or(Numbers{})) axes.push_back(node.axis(axis, before.size()));
  } else {
    for (std::size_t i = 0; i < before.size(); ++i) axes.push_back(i);
  }
  if (!pads || pads->size() != 2 * axes.size()) {
    node.refuse(fmt::format("pads has {} values for {} dimensions", pads ? pads->size() : 0, axes.size()));
    return;
  }
  Shape after = before;
  for (std::size_t i = 0; i < axes.size() && !node.failed(); ++i) {
    for (const std::int64_t more : {(*pads)[i], (*pads)[i + axes.size()]}) {
      if (more > kLargestSize || more < -kLargestSize) {
        node.refuse(fmt::format("a padding of {}", more));
        return;
      }
      after[axes[i]] += more;
    }
  }
  if (after == before || node.input(0).constant) {
    view(node, std::move(after));
    return;
  }
  node.note("Pad is written as concat, a copy of what it makes");
  copied(node, std::move(after));
}

void shape(NodeContext& node) {
  const Shape from = node.input(0).shape;
  const auto rank = static_cast<std::int64_t>(from.size());
  const auto place = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const std::int64_t first = place(node.integer("start", 0));
  const std::int64_t last = std::max(place(node.integer("end", rank)), first);
  Numbers sizes(from.begin() + first, from.begin() + last);
  const auto count = static_cast<std::int64_t>(sizes.size());
  node.set(0, Value{.shape = {count}, .constant = true, .numbers = std::move(sizes)});
}

void constant(NodeContext& node) {
  Value value{.shape = {}, .constant = true};
  if (const Attribute* stored = node.node().find("value"); stored != nullptr && stored->tensor) {
    value.shape = stored->tensor->dims;
    value.numbers = stored->tensor->values;
    value.fractions = stored->tensor->fractions;
    for (const std::int64_t size : value.shape) {
      if (size < 0) node.refuse(fmt::format("a negative size in {}", text_of(value.shape)));
    }
    // Some exporters keep weights in Constant nodes; it is trained if it stands in a weight's place.
    if (is_floating(stored->tensor->data_type) && value.shape.size() > 1) {
      value.weight = node.new_weight(node.elements(value.shape));
    } else if (is_floating(stored->tensor->data_type) && value.shape.size() == 1) {
      value.vector_weight = node.new_weight(node.elements(value.shape));
    }
  } else if (const Attribute* one = node.node().find("value_int"); one != nullptr) {
    value.numbers = Numbers{one->integer};
  } else if (const Attribute* list = node.node().find("value_ints"); list != nullptr) {
    if (list->cut) node.refuse(fmt::format("value_ints of over {} values", kMaxValues), {}, ErrorCode::kUnsupported);
    value.shape = {static_cast<std::int64_t>(list->integers.size())};
    value.numbers = list->integers;
  }
  node.set(0, std::move(value));
}

/// Models without weights make them here, of the sizes they have.
void constant_of_shape(NodeContext& node) {
  const auto sizes = node.numbers("shape", 0);
  if (node.failed() || !sizes) return;
  Value value{.shape = *sizes, .constant = true};
  const Attribute* fill = node.node().find("value");
  const bool floating = fill == nullptr || !fill->tensor || is_floating(fill->tensor->data_type);
  if (std::any_of(sizes->begin(), sizes->end(), [](auto size) { return size < 0; })) {
    node.refuse(fmt::format("a negative size in {}", text_of(*sizes)));
    return;
  }
  if (floating) value.weight = node.new_weight(node.elements(value.shape));
  node.set(0, std::move(value));
}

constexpr auto kTensorsRules = std::to_array<Rule>({
    {"Identity", identity},
    {"Cast", cast},
    {"Flatten", flatten},
    {"Reshape", reshape},
    {"Transpose", transpose},
    {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze},
    {"Concat", concat},
    {"Gather", gather},
    {"Slice", slice},
    {"Split", split},
    {"Expand", expand},
    {"Resize", resize},
    {"Upsample", resize},
    {"Pad", pad},
    {"Shape", shape},
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
});

}  // namespace

std::span<const Rule> tensor_rules() { return kTensorsRules; }

}  // namespace ddlsim::importers::onnx
