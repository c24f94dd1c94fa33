#include "ddlsim/io/yaml.h"

#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <system_error>
#include <unordered_set>
#include <utility>

namespace ddlsim::io {
namespace {

/// Thrown inside yaml-cpp's parser to leave it; never leaves this file.
struct Refusal {
  Error error;
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& file) : file_(file) {}

  Node take() { return std::move(root_); }
  [[nodiscard]] bool has_document() const { return has_document_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { scalar(mark, "?", anchor, ""); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*name) are not accepted: write the value out");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    scalar(mark, tag, anchor, value);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, NodeKind::kList);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, NodeKind::kMap);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    Node node;
    std::optional<Entry> pending;  // a map's key that waits for its value
    std::unordered_set<std::string> keys;
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string message) {
    throw Refusal{Error{ErrorCode::kParse, std::move(message), place(mark), {}, {}}};
  }

  [[nodiscard]] SourceLocation place(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) refuse(mark, "anchors (&name) are not accepted: write the value out");
    if (!tag.empty() && tag != "?" && tag != "!") refuse(mark, fmt::format("tags ({}) are not accepted", tag));
    if (++nodes_ > kMaxNodes) refuse(mark, fmt::format("more than {} values", kMaxNodes));
    if (!levels_.empty() && levels_.back().node.kind == NodeKind::kMap && !levels_.back().pending) {
      awaiting_key_ = true;
    } else {
      awaiting_key_ = false;
    }
  }

  void scalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) {
    check(mark, tag, anchor);
    if (awaiting_key_) {
      Level& level = levels_.back();
      if (value == "<<") refuse(mark, "merge keys (<<) are not accepted: write the values out");
      if (!level.keys.insert(value).second) refuse(mark, fmt::format("duplicate key '{}'", value.substr(0, 60)));
      level.pending = Entry{value, place(mark), {}};
      return;
    }
    add(Node{NodeKind::kScalar, place(mark), value, {}, {}});
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, NodeKind kind) {
    check(mark, tag, anchor);
    if (awaiting_key_) refuse(mark, "a key must be plain text");
    if (levels_.size() >= static_cast<std::size_t>(kMaxDepth)) {
      refuse(mark, fmt::format("nested deeper than {} levels", kMaxDepth));
    }
    levels_.push_back(Level{Node{kind, place(mark), {}, {}, {}}, {}, {}});
  }

  void close() {
    Node done = std::move(levels_.back().node);
    levels_.pop_back();
    add(std::move(done));
  }

  void add(Node node) {
    if (levels_.empty()) {
      root_ = std::move(node);
      has_document_ = true;
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == NodeKind::kList) {
      level.node.items.push_back(std::move(node));
    } else {
      level.pending->value = std::move(node);
      level.node.entries.push_back(std::move(*level.pending));
      level.pending.reset();
    }
  }

  const std::string& file_;
  Node root_;
  bool has_document_ = false;
  bool awaiting_key_ = false;
  std::size_t nodes_ = 0;
  std::vector<Level> levels_;
};

/// The offset of the first byte that is not UTF-8 (or a control character YAML forbids), or npos.
std::size_t first_bad_byte(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80           ? 1
                               : (lead >> 5) == 0x6  ? 2
                               : (lead >> 4) == 0xE  ? 3
                               : (lead >> 3) == 0x1E ? 4
                                                     : 0;
    const bool control = lead < 0x20 && lead != '\t' && lead != '\n' && lead != '\r';
    if (length == 0 || control || lead == 0x7F || i + length > text.size()) return i;
    for (std::size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) >> 6) != 0x2) return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

/// The offset of the first '[' or '{' that nests deeper than kMaxDepth, or npos. yaml-cpp scans far ahead of its events
/// in flow collections, so depth there is bounded before it starts. Quoted text and comments are passed over.
std::size_t first_too_deep(std::string_view text) {
  int depth = 0;
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool starts_word = i == 0 || std::string_view(" \n\t[{,:").find(text[i - 1]) != std::string_view::npos;
    if (quote != '\0') {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = '\0';
    } else if (starts_word && (c == '"' || c == '\'')) {
      quote = c;
    } else if (starts_word && c == '#') {
      i = std::min(text.find('\n', i), text.size() - 1);
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return i;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return std::string_view::npos;
}

SourceLocation place_of_offset(std::string_view text, std::size_t offset, const std::string& file) {
  const std::string_view before = text.substr(0, offset);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n');
  const std::size_t column = start == std::string_view::npos ? offset : offset - start - 1;
  return {file, static_cast<int>(lines) + 1, static_cast<int>(column) + 1};
}

}  // namespace

Expected<Node> parse_yaml(std::string_view text, const std::string& file) {
  if (text.size() > kMaxFileSize) {
    return fail(ErrorCode::kParse, fmt::format("larger than {} MiB", kMaxFileSize >> 20), {file, 0, 0});
  }
  if (const std::size_t bad = first_bad_byte(text); bad != std::string_view::npos) {
    return fail(ErrorCode::kParse, "not UTF-8 text (a control character or a broken sequence)",
                place_of_offset(text, bad, file));
  }
  if (const std::size_t deep = first_too_deep(text); deep != std::string_view::npos) {
    return fail(ErrorCode::kParse, fmt::format("nested deeper than {} levels", kMaxDepth),
                place_of_offset(text, deep, file));
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(file);
    const bool more = parser.HandleNextDocument(builder);
    if (!more || !builder.has_document()) return fail(ErrorCode::kParse, "the file is empty", {file, 1, 1});
    TreeBuilder second(file);
    if (parser.HandleNextDocument(second)) {
      return fail(ErrorCode::kParse, "more than one document (---) in the file", {file, 0, 0});
    }
    return builder.take();
  } catch (Refusal& refusal) {
    return tl::unexpected<Error>(std::move(refusal.error));
  } catch (const YAML::Exception& problem) {
    return fail(ErrorCode::kParse, problem.msg, {file, problem.mark.line + 1, problem.mark.column + 1});
  } catch (const std::exception& problem) {
    return fail(ErrorCode::kParse, problem.what(), {file, 0, 0});
  }
}

Expected<std::string> read_file(const std::filesystem::path& path) {
  std::error_code status;
  const SourceLocation where{path.string(), 0, 0};
  if (!std::filesystem::exists(path, status)) return fail(ErrorCode::kIo, "no such file", where);
  if (!std::filesystem::is_regular_file(path, status)) return fail(ErrorCode::kIo, "not a regular file", where);
  const auto size = std::filesystem::file_size(path, status);
  if (status) return fail(ErrorCode::kIo, status.message(), where);
  if (size > kMaxFileSize) {
    return fail(ErrorCode::kIo, fmt::format("{} bytes, larger than {} MiB", size, kMaxFileSize >> 20), where);
  }
  std::ifstream stream(path, std::ios::binary);
  std::string text(size, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(size))) {
    return fail(ErrorCode::kIo, "could not be read", where);
  }
  return text;
}

Expected<Node> load_yaml(const std::filesystem::path& path) {
  return read_file(path).and_then([&](const std::string& text) { return parse_yaml(text, path.string()); });
}

MapReader::MapReader(const Node& node, std::string what, std::vector<Error>& errors)
    : node_(&node), what_(std::move(what)), errors_(&errors) {
  if (node.kind == NodeKind::kMap) {
    for (const Entry& entry : node.entries) values_.emplace(entry.key, &entry.value);
    return;
  }
  report(node, ErrorCode::kParse, fmt::format("{} must be a map of keys and values", what_));
  node_ = nullptr;
}

const Node* MapReader::find(std::string_view key) {
  known_.emplace_back(key);
  if (node_ == nullptr) return nullptr;
  const auto value = values_.find(key);
  return value == values_.end() ? nullptr : value->second;
}

const Node* MapReader::require(std::string_view key) {
  const Node* value = find(key);
  if (value == nullptr && node_ != nullptr) {
    report(*node_, ErrorCode::kParse, fmt::format("{} needs the key '{}'", what_, key));
  }
  return value;
}

std::string MapReader::text(std::string_view key) {
  const Node* value = require(key);
  if (value == nullptr || !is_scalar(*value)) return {};
  if (value->text.empty()) report(*value, ErrorCode::kParse, fmt::format("'{}' has no value", key));
  return value->text;
}

std::string MapReader::text_or(std::string_view key, std::string otherwise) {
  return find(key) == nullptr ? std::move(otherwise) : text(key);
}

std::int64_t MapReader::count(std::string_view key, CountRange range) {
  const Node* value = require(key);
  if (value == nullptr || !is_scalar(*value)) return range.lowest;
  return accept(parse_count(value->text, range), *value).value_or(range.lowest);
}

std::int64_t MapReader::count_or(std::string_view key, std::int64_t otherwise, CountRange range) {
  return find(key) == nullptr ? otherwise : count(key, range);
}

bool MapReader::flag_or(std::string_view key, bool otherwise) {
  const Node* value = find(key);
  if (value == nullptr || !is_scalar(*value)) return otherwise;
  if (value->text == "true") return true;
  if (value->text == "false") return false;
  report(*value, ErrorCode::kParse, fmt::format("'{}' is neither true nor false", value->text.substr(0, 60)));
  return otherwise;
}

Sources MapReader::sources(const std::vector<std::string>& keys) {
  Sources sources;
  const Node* node = require("sources");
  if (node == nullptr) return sources;
  MapReader reader(*node, "sources", *errors_);
  for (const std::string& key : keys) {
    // A source without its value is a slip worth hearing about: finish() reports it as unknown.
    if (values_.contains(key)) sources.push_back({key, reader.text(key)});
  }
  reader.finish();
  return sources;
}

void MapReader::finish() {
  if (node_ == nullptr) return;
  const std::unordered_set<std::string_view> known(known_.begin(), known_.end());
  for (const Entry& entry : node_->entries) {
    if (known.contains(entry.key) || errors_->size() >= kMaxErrors) continue;
    errors_->push_back(Error{ErrorCode::kParse,
                             fmt::format("unknown key '{}' in {}", entry.key.substr(0, 60), what_),
                             entry.where,
                             {suggestion(entry.key, known_)},
                             {}});
  }
}

bool MapReader::is_scalar(const Node& node) {
  if (node.kind == NodeKind::kScalar) return true;
  report(node, ErrorCode::kParse,
         node.kind == NodeKind::kMap ? "a single value is wanted here, not a map"
                                     : "a single value is wanted here, not a list");
  return false;
}

void MapReader::report(const Node& node, ErrorCode code, std::string message, std::vector<std::string> notes) {
  if (errors_->size() >= kMaxErrors) return;
  errors_->push_back(Error{code, std::move(message), node.where, std::move(notes), {}});
}

}  // namespace ddlsim::io
