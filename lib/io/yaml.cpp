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

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (has_document_) refuse(mark, "more than one document (---) in the file");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (levels_.empty()) return;  // a document with nothing in it
    // yaml-cpp puts a missing value at the next token; it is missing at its key.
    const bool value = levels_.back().pending.has_value();
    scalar(mark, "?", anchor, "");
    if (value) levels_.back().node.entries.back().value.where = levels_.back().node.entries.back().where;
  }

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
      if (level.keys.size() > kMaxKeys) refuse(mark, fmt::format("more than {} keys in one map", kMaxKeys));
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

/// The length of the UTF-8 sequence that starts `text`, or 0: no overlong form, no surrogate, nothing over U+10FFFF.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(k) >> 6) != 0x2) return 0;
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
  const bool too_large = lead == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

/// The offset of the first byte that is not UTF-8 (or a control character YAML forbids), or npos.
std::size_t first_bad_byte(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const bool control = (lead < 0x20 && lead != '\t' && lead != '\n' && lead != '\r') || lead == 0x7F;
    const std::size_t length = control ? 0 : utf8_length(text.substr(i));
    if (length == 0) return i;
    i += length;
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

/// yaml-cpp scans far ahead of its events, so what would cost it much is refused before it starts: deep flow
/// collections, very long lines, more lines, commas or anchors than any accepted file can have. Quotes and comments are
/// recognised well enough to pass over brackets inside them.
std::optional<Error> refuse_costly(std::string_view text, const std::string& file) {
  constexpr std::size_t kMaxLine = std::size_t{1} << 16;
  constexpr std::size_t kMaxAnchors = 1000;
  constexpr std::string_view kBeforeWord = " \n\t[{,:";
  const auto refuse = [&](std::string message, std::size_t offset) {
    return Error{ErrorCode::kParse, std::move(message), place_of_offset(text, offset, file), {}, {}};
  };
  std::size_t line_start = 0;
  std::size_t lines = 0;
  std::size_t commas = 0;
  std::size_t anchors = 0;
  int depth = 0;
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      line_start = i + 1;
      if (++lines > kMaxNodes) return refuse(fmt::format("more than {} lines", kMaxNodes), i);
      continue;
    }
    if (i - line_start > kMaxLine) return refuse(fmt::format("a line of over {} characters", kMaxLine), line_start);
    const bool starts_word = i == 0 || kBeforeWord.find(text[i - 1]) != std::string_view::npos;
    if (quote != '\0') {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = '\0';
    } else if (starts_word && (c == '"' || c == '\'')) {
      quote = c;
    } else if (starts_word && c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (starts_word && (c == '&' || c == '*' || c == '!')) {
      if (++anchors > kMaxAnchors) return refuse("anchors, aliases and tags are not accepted", i);
    } else if (c == ',') {
      if (++commas > kMaxNodes) return refuse(fmt::format("more than {} values", kMaxNodes), i);
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return refuse(fmt::format("nested deeper than {} levels", kMaxDepth), i);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return std::nullopt;
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
  if (auto refused = refuse_costly(text, file)) return tl::unexpected<Error>(std::move(*refused));
  try {
    // The end of the document, so that a quote that is still open there is an error.
    std::istringstream stream{std::string(text) + "\n...\n"};
    YAML::Parser parser(stream);
    TreeBuilder builder(file);
    const bool more = parser.HandleNextDocument(builder);
    if (!more || !builder.has_document()) return fail(ErrorCode::kParse, "the file is empty", {file, 1, 1});
    parser.HandleNextDocument(builder);  // refuses, or finds none
    return builder.take();
  } catch (Refusal& refusal) {
    return tl::unexpected<Error>(std::move(refusal.error));
  } catch (const YAML::Exception& problem) {
    const SourceLocation end = place_of_offset(text, text.size(), file);
    if (problem.mark.line + 1 > end.line) return fail(ErrorCode::kParse, "the file ends in the middle of a value", end);
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
  if (value->text.size() > kMaxText) {
    report(*value, ErrorCode::kParse, fmt::format("'{}' is longer than {} characters", key, kMaxText));
    return {};
  }
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
  std::vector<Source> sources;
  const Node* node = require("sources");
  if (node == nullptr) return {};
  MapReader reader(*node, "sources", *errors_);
  for (const std::string& key : keys) {
    // A source without its value is a slip worth hearing about: finish() reports it as unknown.
    if (values_.contains(key)) sources.push_back({key, reader.text(key)});
  }
  reader.finish();
  return Sources(std::move(sources));
}

void MapReader::finish() {
  if (node_ == nullptr) return;
  std::sort(known_.begin(), known_.end());
  known_.erase(std::unique(known_.begin(), known_.end()), known_.end());
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
