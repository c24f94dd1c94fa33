#include "toml.h"

#include <fmt/core.h>

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <sstream>

namespace ddlsim::importers {
namespace {

SourceLocation place(const toml::source_region& region, const std::string& file) {
  return {file, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

class TomlTree {
 public:
  explicit TomlTree(const std::string& file) : file_(file) {}

  io::Node node(const toml::node& from, int depth) {
    io::Node made;
    made.where = place(from.source(), file_);
    if (++values_ > io::kMaxNodes || depth > io::kMaxDepth) {
      if (!error_) {
        error_ = Error{ErrorCode::kParse,
                       depth > io::kMaxDepth ? fmt::format("is nested over {} levels deep", io::kMaxDepth)
                                             : fmt::format("has over {} values", io::kMaxNodes),
                       made.where,
                       {},
                       {}};
      }
      return made;
    }
    if (const toml::table* table = from.as_table()) {
      made.kind = io::NodeKind::kMap;
      for (const auto& [key, value] : *table) {
        made.entries.push_back({std::string(key.str()), place(key.source(), file_), node(value, depth + 1)});
      }
    } else if (const toml::array* array = from.as_array()) {
      made.kind = io::NodeKind::kList;
      for (const toml::node& item : *array) made.items.push_back(node(item, depth + 1));
    } else {
      made.text = text_of(from);
    }
    return made;
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  static std::string text_of(const toml::node& from) {
    if (const auto* text = from.as_string()) return text->get();
    if (const auto* number = from.as_integer()) return std::to_string(number->get());
    if (const auto* number = from.as_floating_point()) return fmt::format("{}", number->get());
    if (const auto* flag = from.as_boolean()) return flag->get() ? "true" : "false";
    return "a date or time";
  }

  std::string file_;
  std::size_t values_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Expected<io::Node> parse_toml(std::string_view text, const std::string& file) {
  if (text.size() > io::kMaxFileSize) return fail(ErrorCode::kIo, "is over 16 MiB", {file, 0, 0});
  const toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    return fail(ErrorCode::kParse, fmt::format("is not TOML: {}", parsed.error().description()),
                place(parsed.error().source(), file));
  }
  TomlTree tree(file);
  io::Node root = tree.node(parsed.table(), 0);
  if (tree.error()) return tl::unexpected<Error>(*tree.error());
  return root;
}

}  // namespace ddlsim::importers
