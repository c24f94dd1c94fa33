#include "shell_expand.h"

#include <algorithm>
#include <cctype>

#include "ddlsim/support/checked.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::importers::shell {
namespace {

constexpr std::size_t kMostText = std::size_t{4} << 20;
constexpr int kMostLevels = 32;

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::size_t name_end(std::string_view text, std::size_t at) {
  while (at < text.size() && is_name(text[at])) ++at;
  return at;
}

/// + - * / % and brackets on whole numbers and names.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, Variables& variables) : text_(text), variables_(variables) {}

  std::optional<std::int64_t> value() {
    const std::int64_t result = sum();
    blanks();
    return good_ && at_ == text_.size() ? std::optional(result) : std::nullopt;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::int64_t keep(std::optional<std::int64_t> value) {
    good_ = good_ && value.has_value();
    return value.value_or(0);
  }
  std::int64_t sum() {
    std::int64_t result = product();
    while (good_) {
      if (take('+')) {
        result = keep(checked_add(result, product()));
      } else if (take('-')) {
        result = keep(checked_add(result, -product()));
      } else {
        break;
      }
    }
    return result;
  }
  std::int64_t product() {
    std::int64_t result = factor();
    while (good_) {
      if (take('*')) {
        result = keep(checked_multiply(result, factor()));
      } else if (take('/')) {
        const std::int64_t by = factor();
        result = by == 0 ? keep({}) : result / by;
      } else if (take('%')) {
        const std::int64_t by = factor();
        result = by == 0 ? keep({}) : result % by;
      } else {
        break;
      }
    }
    return result;
  }
  std::int64_t factor() {
    if (++depth_ > kMostLevels) good_ = false;
    std::int64_t result = 0;
    if (good_ && take('(')) {
      result = sum();
      good_ = good_ && take(')');
    } else if (good_ && take('-')) {
      result = -factor();
    } else if (good_) {
      result = atom();
    }
    --depth_;
    return result;
  }
  std::int64_t atom() {
    blanks();
    const std::size_t start = at_;
    std::string word;
    if (at_ < text_.size() && text_[at_] == '$') {
      at_ = at_ + 1 < text_.size() && (text_[at_ + 1] == '{' || text_[at_ + 1] == '(') ? skip_group(text_, at_)
                                                                                       : name_end(text_, at_ + 1);
      word = variables_.text(text_.substr(start, at_ - start));
    } else {
      at_ = name_end(text_, at_);
      word = text_.substr(start, at_ - start);
      const bool named = !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) == 0;
      if (named) word = variables_.text("$" + word);
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 52;
    const auto number = parse_count(word, {0, kMost});
    return keep(number ? std::optional(*number) : std::nullopt);
  }

  std::string_view text_;
  Variables& variables_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool good_ = true;
};

/// Whether a shell would put something in. What is not known stands for itself.
bool has_expansion(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == kUnknown) at = std::min(text.find(kEnd, at), text.size());
    if (at < text.size() && (text[at] == '$' || text[at] == '`')) return true;
  }
  return false;
}

}  // namespace

std::string unknown(std::string_view name) { return kUnknown + std::string(name.substr(0, 60)) + kEnd; }

std::size_t skip_group(std::string_view text, std::size_t at) {
  const char first = text[at];
  if (first == '\'') return std::min(text.find('\'', at + 1), text.size() - 1) + 1;
  if (first == '`') return std::min(text.find('`', at + 1), text.size() - 1) + 1;
  if (first == '"') {
    for (++at; at < text.size(); ++at) {
      if (text[at] == '"') return at + 1;
      if (text[at] == '\\') ++at;
      if (at + 1 < text.size() && text[at] == '$' && (text[at + 1] == '(' || text[at + 1] == '{')) {
        at = skip_group(text, at) - 1;
      }
    }
    return text.size();
  }
  // ${...} and $(...): brackets count, quotes hide them. One pass, so that nesting costs no time.
  std::vector<char> open;
  bool quoted = false;
  for (++at; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\') {
      ++at;
    } else if (c == '\'' && !quoted) {
      at = std::min(text.find('\'', at + 1), text.size());
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '(' || c == '{')) {
      open.push_back(c == '(' ? ')' : '}');
    } else if (!quoted && !open.empty() && c == open.back()) {
      open.pop_back();
      if (open.empty()) return at + 1;
    }
  }
  return text.size();
}

/// Puts fields together from pieces.
class Variables::Splitter {
 public:
  explicit Splitter(SourceLocation where) : where_(std::move(where)) {}

  void add(std::string_view text) {
    open_ = true;
    current_ += text;
  }
  /// As add, but blanks end a field; not those in the name of what is not known.
  void add_split(std::string_view text, const SourceLocation& where) {
    bool named = false;
    for (const char c : text) {
      named = c == kUnknown || (named && c != kEnd);
      if (is_blank(c) && !named) {
        close();
      } else {
        if (!open_ && !where.file.empty()) from_ = where;
        open_ = true;
        current_ += c;
      }
    }
  }
  void close() {
    if (open_) fields_.push_back({std::move(current_), from_.file.empty() ? where_ : from_});
    current_.clear();
    from_ = {};
    open_ = false;
  }
  void begin_at(const SourceLocation& where) { from_ = where; }
  std::vector<Word> take() {
    close();
    return std::move(fields_);
  }

 private:
  SourceLocation where_;
  SourceLocation from_;
  std::string current_;
  std::vector<Word> fields_;
  bool open_ = false;
};

const Variable* Variables::find(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

bool Variables::room_for(std::size_t size) {
  expanded_ += size + 1;
  if (expanded_ > kMostText) overflowed_ = true;
  return !overflowed_;
}

Variables::Piece Variables::value_of(const std::string& name, bool all_items) const {
  const Variable* variable = find(name);
  if (variable == nullptr) return {{{unknown("$" + name), {}}}, false};
  if (all_items) return {variable->items, true};
  if (variable->items.empty()) return {{{"", {}}}, false};
  return {{variable->items.front()}, false};
}

/// The inside of ${...}.
Variables::Piece Variables::braces(std::string_view inside) {
  const std::size_t end = name_end(inside, 0);
  const std::string name(inside.substr(0, end));
  std::string_view rest = inside.substr(end);
  bool all = false;
  if (rest.starts_with("[@]") || rest.starts_with("[*]")) {
    all = true;
    rest.remove_prefix(3);
  }
  if (rest.empty() && !name.empty()) return value_of(name, all);
  const bool otherwise = rest.starts_with(":-") || rest.starts_with(":=");
  const bool unset = rest.starts_with("-") || rest.starts_with("=");
  if (name.empty() || (!otherwise && !unset)) return {{{unknown("${" + std::string(inside) + "}"), {}}}, false};
  const Variable* variable = find(name);
  const bool blank =
      variable == nullptr || (otherwise && (variable->items.empty() || variable->items.front().text.empty()));
  if (!blank) return value_of(name, all);
  return {{{text(rest.substr(otherwise ? 2 : 1)), {}}}, false};
}

Variables::Piece Variables::expansion(std::string_view raw, std::size_t& at) {
  const std::size_t start = at;
  if (raw[at] == '`') {
    at = skip_group(raw, at);
    return {{{unknown(raw.substr(start, at - start)), {}}}, false};
  }
  const char next = at + 1 < raw.size() ? raw[at + 1] : '\0';
  if (next == '{') {
    at = skip_group(raw, at);
    if (at - start < 3) return {{{unknown(raw.substr(start)), {}}}, false};
    return braces(raw.substr(start + 2, at - start - 3));
  }
  if (next == '(') {
    at = skip_group(raw, at);
    const std::string_view whole = raw.substr(start, at - start);
    if (whole.starts_with("$((") && whole.ends_with("))") && whole.size() >= 5) {
      if (const auto value = arithmetic(whole.substr(3, whole.size() - 5), *this)) {
        return {{{std::to_string(*value), {}}}, false};
      }
    }
    return {{{unknown(whole), {}}}, false};
  }
  std::size_t end = name_end(raw, at + 1);
  if (next >= '0' && next <= '9') end = at + 2;
  if (end == at + 1) {
    const bool special = next == '@' || next == '*' || next == '#' || next == '?' || next == '$';
    at += special ? 2 : 1;
    return {{{special ? unknown(raw.substr(start, 2)) : "$", {}}}, false};
  }
  at = end;
  return value_of(std::string(raw.substr(start + 1, end - start - 1)), false);
}

std::vector<Word> Variables::fields(const Word& raw) {
  if (++depth_ > kMostLevels) overflowed_ = true;
  Splitter out(raw.where);
  const std::string_view text = raw.text;
  bool quoted = false;
  std::size_t at = 0;
  while (at < text.size() && !overflowed_) {
    const char c = text[at];
    if (c == kUnknown) {  // of an outer shell
      const std::size_t end = std::min(text.find(kEnd, at), text.size() - 1) + 1;
      out.add(text.substr(at, end - at));
      at = end;
    } else if (c == '\'' && !quoted) {
      const std::size_t end = std::min(text.find('\'', at + 1), text.size());
      out.add(text.substr(at + 1, end - at - 1));
      at = end + 1;
    } else if (c == '"') {
      quoted = !quoted;
      out.add("");
      ++at;
    } else if (c == '\\' && at + 1 < text.size()) {
      // Between double quotes a backslash stays before what it would not change.
      const char next = text[at + 1];
      const bool plain = quoted && next != '"' && next != '\\' && next != '$' && next != '`' && next != '\n';
      if (next != '\n') out.add(text.substr(plain ? at : at + 1, plain ? 2 : 1));
      at += 2;
    } else if (c == '$' || c == '`') {
      const Piece piece = expansion(text, at);
      bool first = true;
      for (const Word& item : piece.items) {
        if (!room_for(item.text.size())) break;
        if (piece.whole && !first) out.close();
        if (quoted) {
          if (piece.whole && !item.where.file.empty()) out.begin_at(item.where);
          out.add(item.text);
        } else {
          out.add_split(item.text, item.where);
        }
        first = false;
      }
    } else {
      out.add(text.substr(at, 1));
      ++at;
    }
  }
  --depth_;
  return out.take();
}

std::vector<Word> Variables::expanded_again(std::vector<Word> words) {
  constexpr int kMostShells = 3;
  for (int shell = 0; shell < kMostShells; ++shell) {
    std::vector<Word> inner;
    bool any = false;
    for (Word& word : words) {
      if (!has_expansion(word.text) || !room_for(word.text.size())) {
        inner.push_back(std::move(word));
        continue;
      }
      any = true;
      for (Word& field : fields(word)) inner.push_back(std::move(field));
    }
    words = std::move(inner);
    if (!any) break;
  }
  return words;
}

std::string Variables::text(std::string_view raw) {
  std::string joined;
  // Quoted as a whole it is not split; its own quotes still come off.
  for (const Word& word : fields({std::string(raw), {}})) {
    if (!joined.empty()) joined += ' ';
    joined += word.text;
  }
  return joined;
}

std::optional<std::int64_t> arithmetic(std::string_view text, Variables& variables) {
  return Arithmetic(text, variables).value();
}

}  // namespace ddlsim::importers::shell
