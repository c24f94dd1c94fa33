// How an operator of a model file is read. Private to the room.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/io/model_file.h"
#include "ddlsim/support/names.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::io {

/// The keys of one operator. Sizes may be written as names of the model's dimensions, and as products and whole parts
/// of them, from left to right: `latent/2`, `latent*latent/4`.
class OpReader {
 public:
  static constexpr std::int64_t kMaxSize = std::int64_t{1} << 48;
  static constexpr std::int64_t kMaxStride = std::int64_t{1} << 20;
  static constexpr std::size_t kMaxRank = 16;

  OpReader(const Node& node, const std::string& op, const Dimensions& dimensions, std::vector<Error>& errors)
      : reader_(node, op, errors), dimensions_(dimensions), errors_(errors) {}

  std::int64_t size(std::string_view key) {
    const Node* value = reader_.require(key);
    return value == nullptr ? 1 : size_of(*value, 1);
  }
  std::int64_t size_or(std::string_view key, std::int64_t otherwise) {
    const Node* value = reader_.find(key);
    return value == nullptr ? otherwise : size_of(*value, 1);
  }
  workload::Shape shape_or_empty(std::string_view key, std::size_t most = kMaxRank) {
    const Node* value = reader_.find(key);
    return value == nullptr ? workload::Shape{} : shape_of(*value, most);
  }
  workload::Shape shape(std::string_view key) {
    const Node* value = reader_.require(key);
    return value == nullptr ? workload::Shape{1} : shape_of(*value);
  }
  /// n, or [height, width].
  workload::Pair pair_or(std::string_view key, workload::Pair otherwise, std::int64_t lowest) {
    const Node* value = reader_.find(key);
    return value == nullptr ? otherwise : pair_of(*value, lowest);
  }
  workload::Pair pair(std::string_view key) {
    const Node* value = reader_.require(key);
    return value == nullptr ? workload::Pair{1, 1} : pair_of(*value, 1);
  }

  MapReader& map() { return reader_; }

 private:
  std::int64_t size_of(const Node& node, std::int64_t lowest) {
    if (!reader_.is_scalar(node)) return 1;
    const auto named = std::find_if(dimensions_.begin(), dimensions_.end(),
                                    [&](const auto& dimension) { return dimension.first == node.text; });
    if (named != dimensions_.end()) return named->second;
    if (!dimensions_.empty() && node.text.find_first_of("*/") != std::string::npos) return reckoned(node, lowest);
    auto count = parse_count(node.text, {lowest, kMaxSize});
    if (!count && !dimensions_.empty()) {
      std::vector<std::string> names;
      names.reserve(dimensions_.size());
      for (const auto& [name, value] : dimensions_) names.push_back(name);
      count.error().notes.push_back("or one of the model's dimensions; " + suggestion(node.text, names));
    }
    return reader_.accept(std::move(count), node).value_or(1);
  }

  /// A dimension or a number; 0: neither.
  [[nodiscard]] std::int64_t factor_of(std::string_view text) const {
    const auto named = std::find_if(dimensions_.begin(), dimensions_.end(),
                                    [&](const auto& dimension) { return dimension.first == text; });
    return named != dimensions_.end() ? named->second : parse_count(text, {1, kMaxSize}).value_or(0);
  }

  /// Of `latent*latent/4`.
  std::int64_t reckoned(const Node& node, std::int64_t lowest) {
    const std::string& text = node.text;
    std::int64_t value = 1;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find_first_of("*/", begin), text.size());
      const std::int64_t factor = factor_of(std::string_view(text).substr(begin, end - begin));
      const bool divides = begin > 0 && text[begin - 1] == '/';
      if (factor == 0 || (!divides && value > kMaxSize / factor)) {
        reader_.report(node, ErrorCode::kParse,
                       fmt::format("'{}' is no product of numbers and dimensions of the model", text.substr(0, 60)));
        return 1;
      }
      if (divides && value % factor != 0) {
        const auto what = fmt::format("'{}' is no whole number: {} / {}", text.substr(0, 60), value, factor);
        // Once of all the layers that have it.
        const bool said =
            std::any_of(errors_.begin(), errors_.end(), [&](const Error& e) { return e.message == what; });
        if (!said) reader_.report(node, ErrorCode::kInvalidArgument, what);
        return 1;
      }
      value = divides ? value / factor : value * factor;
      begin = end + 1;
    }
    return std::max(value, lowest);
  }

  workload::Shape shape_of(const Node& node, std::size_t most = kMaxRank) {
    workload::Shape shape;
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

  workload::Pair pair_of(const Node& node, std::int64_t lowest) {
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
  const std::vector<Error>& errors_;
};

struct OpRow {
  std::string_view name;
  workload::Op (*make)(OpReader&);
};

/// Every operator that a model file may name.
[[nodiscard]] std::span<const OpRow> readable_ops();

}  // namespace ddlsim::io
