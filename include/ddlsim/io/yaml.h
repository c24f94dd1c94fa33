// A strict YAML reader.
//
// A document becomes a tree of Nodes that remember where they stood. Refused, with file:line:column: anchors, aliases,
// merge keys, tags, duplicate keys, more than one document, empty documents, depth over 64, files over 16 MiB, over a
// million nodes, text that is not UTF-8. A MapReader then takes a map apart key by key: a missing key, a key nobody
// asked for (the nearest valid one is offered), a missing unit, a wrong dimension or an impossible value becomes an
// Error in the caller's list, so that all faults of a file are reported at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/support/source.h"
#include "ddlsim/support/units.h"

namespace ddlsim::io {

inline constexpr std::size_t kMaxFileSize = std::size_t{16} << 20;
inline constexpr int kMaxDepth = 64;
inline constexpr std::size_t kMaxNodes = 1'000'000;
/// Most keys of one map.
inline constexpr std::size_t kMaxKeys = 200'000;
/// Longest text of one value.
inline constexpr std::size_t kMaxText = 10'000;
/// Faults reported of one file; more would help nobody.
inline constexpr std::size_t kMaxErrors = 50;

enum class NodeKind { kScalar, kList, kMap };

struct Entry;

/// One value of a document. A scalar's text is as written, without quotes.
struct Node {
  NodeKind kind = NodeKind::kScalar;
  SourceLocation where;
  std::string text;
  std::vector<Node> items;     // of a list
  std::vector<Entry> entries;  // of a map, in the order of the file
};

struct Entry {
  std::string key;
  SourceLocation where;
  Node value;
};

/// Reads the one document of `text`; `file` is the name used in errors.
[[nodiscard]] Expected<Node> parse_yaml(std::string_view text, const std::string& file);

/// Reads a whole regular file of at most kMaxFileSize bytes.
[[nodiscard]] Expected<std::string> read_file(const std::filesystem::path& path);

/// read_file, then parse_yaml.
[[nodiscard]] Expected<Node> load_yaml(const std::filesystem::path& path);

/// Takes a map apart. Every getter names the keys it knows; `finish` reports those nobody asked for.
class MapReader {
 public:
  /// `what` names the map in errors ("a gpu file"). A node that is no map is reported, and every getter then fails
  /// in silence.
  MapReader(const Node& node, std::string what, std::vector<Error>& errors);

  /// The value of a key, or null. Marks the key as known.
  const Node* find(std::string_view key);
  /// As `find`, but a missing key is an error.
  const Node* require(std::string_view key);

  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] std::string text_or(std::string_view key, std::string otherwise);
  [[nodiscard]] std::int64_t count(std::string_view key, CountRange range);
  [[nodiscard]] std::int64_t count_or(std::string_view key, std::int64_t otherwise, CountRange range);
  [[nodiscard]] bool flag_or(std::string_view key, bool otherwise);

  template <Dimension D>
  [[nodiscard]] Quantity<D> quantity(std::string_view key, Range range = Range::kPositive) {
    const Node* value = require(key);
    return value == nullptr ? Quantity<D>{} : quantity_of<D>(*value, range).value_or(Quantity<D>{});
  }
  template <Dimension D>
  [[nodiscard]] std::optional<Quantity<D>> optional_quantity(std::string_view key, Range range = Range::kPositive) {
    const Node* value = find(key);
    if (value == nullptr) return std::nullopt;
    return quantity_of<D>(*value, range);
  }
  template <typename Enum, std::size_t N>
  [[nodiscard]] Enum choice(std::string_view key, const Choices<Enum, N>& choices) {
    const Node* value = require(key);
    if (value == nullptr || !is_scalar(*value)) return choices.front().second;
    return accept(parse_choice(choices, value->text, key), *value).value_or(choices.front().second);
  }

  template <typename Enum, std::size_t N>
  [[nodiscard]] std::optional<Enum> optional_choice(std::string_view key, const Choices<Enum, N>& choices) {
    const Node* value = find(key);
    if (value == nullptr || !is_scalar(*value)) return std::nullopt;
    return accept(parse_choice(choices, value->text, key), *value);
  }

  /// Every key of `keys` that stands in the map must have a text under `sources:`; anything else there is an error.
  [[nodiscard]] Sources sources(const std::vector<std::string>& keys);

  /// Reports keys that no getter asked for. Call it last.
  void finish();
  /// Of a whole file: `finish`, then what was read of it, or every error on the list.
  template <typename T>
  [[nodiscard]] Expected<T> whole(T value) {
    finish();
    if (!errors_->empty()) return fail_with_all(std::move(*errors_));
    return value;
  }

  /// Whether `node` is a scalar; reports it otherwise.
  bool is_scalar(const Node& node);
  /// Adds an error at `node`.
  void report(const Node& node, ErrorCode code, std::string message, std::vector<std::string> notes = {});
  /// Passes a value on; an error is given the node's place and added to the list.
  template <typename T>
  std::optional<T> accept(Expected<T> result, const Node& node) {
    if (result) return std::move(*result);
    Error error = std::move(result.error());
    if (error.where.file.empty()) error.where = node.where;
    if (errors_->size() < kMaxErrors) errors_->push_back(std::move(error));
    return std::nullopt;
  }

 private:
  template <Dimension D>
  std::optional<Quantity<D>> quantity_of(const Node& value, Range range) {
    if (!is_scalar(value)) return std::nullopt;
    return accept(parse_quantity<D>(value.text, range), value);
  }

  const Node* node_;
  std::string what_;
  std::vector<Error>* errors_;
  std::unordered_map<std::string_view, const Node*> values_;
  std::vector<std::string> known_;
};

}  // namespace ddlsim::io
