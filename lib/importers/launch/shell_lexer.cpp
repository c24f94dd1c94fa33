#include "shell_lexer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "shell_expand.h"

namespace ddlsim::importers::shell {
namespace {

constexpr std::size_t kMostWords = 100'000;

class Lexer {
 public:
  Lexer(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {
    lines_.push_back(0);
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') lines_.push_back(i + 1);
    }
  }

  Expected<std::vector<Statement>> run() {
    while (at_ < text_.size() && !error_) step();
    end_statement(Joint::kNone);
    if (error_) return tl::unexpected<Error>(*error_);
    return std::move(done_);
  }

 private:
  [[nodiscard]] SourceLocation place(std::size_t offset) const {
    const auto after = std::upper_bound(lines_.begin(), lines_.end(), offset);
    const std::size_t line = static_cast<std::size_t>(after - lines_.begin());
    return {file_, static_cast<int>(line), static_cast<int>(offset - lines_[line - 1]) + 1};
  }

  void refuse(std::string message, std::size_t offset, std::vector<std::string> notes = {}) {
    if (!error_) error_ = Error{ErrorCode::kParse, std::move(message), place(offset), std::move(notes), {}};
  }

  void end_statement(Joint next) {
    if (!now_.words.empty() || !now_.arrays.empty()) {
      done_.push_back(std::move(now_));
      now_ = {};
      now_.joint = next;
    } else if (next != Joint::kNone) {
      now_.joint = next;
    }
    test_ = false;
  }

  /// Blanks, comments, continued lines. True when something was skipped.
  bool skip_blank() {
    const char c = text_[at_];
    if (c == ' ' || c == '\t') {
      ++at_;
      return true;
    }
    if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
      at_ += 2;
      return true;
    }
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return true;
    }
    return false;
  }

  void step() {
    if (skip_blank()) return;
    const char c = text_[at_];
    const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (c == '\n') {
      ++at_;
      // `a &&` goes on in the next line, and so does [[ ... ]].
      if (!test_) end_statement(now_.words.empty() && now_.arrays.empty() ? now_.joint : Joint::kNone);
      if (!here_.empty()) skip_here();
      return;
    }
    if (test_ && (c == '&' || c == '|' || c == '(' || c == ')' || c == '<' || c == '>')) {
      const std::size_t size = c == next ? 2 : 1;
      push({std::string(text_.substr(at_, size)), place(at_)});
      at_ += size;
      return;
    }
    if (c == '(' && option_value()) return;
    if (c == ';' && next == ';') {  // a word of its own: it ends a branch of `case`
      end_statement(Joint::kNone);
      push({";;", place(at_)});
      end_statement(Joint::kNone);
      at_ += 2;
      return;
    }
    if (c == ';' || c == '&' || c == '|' || c == '(' || c == ')') {
      const bool twice = c == next && (c == '&' || c == '|');
      if (c == '|' && !twice) now_.pipes = true;
      end_statement(twice ? (c == '&' ? Joint::kAnd : Joint::kOr) : Joint::kNone);
      at_ += twice ? 2 : 1;
      return;
    }
    word();
  }

  void push(Word word) {
    if (++words_ > kMostWords) {
      refuse(fmt::format("has over {} words", kMostWords), at_);
      return;
    }
    now_.words.push_back(std::move(word));
  }

  /// "([0]*3+[1]*58)" behind an option, which no shell takes but logs of command lines have without its quotes: one
  /// word, up to the blank behind its last parenthesis. False: it is none.
  bool option_value() {
    if (now_.words.empty() || !now_.words.back().text.starts_with("--")) return false;
    int open = 0;
    std::size_t end = at_;
    for (; end < text_.size(); ++end) {
      const char c = text_[end];
      if (c == '\n' || (open == 0 && std::string_view(" \t;&|>\\").find(c) != std::string_view::npos)) break;
      if (std::string_view("()[]*+, \t0123456789").find(c) == std::string_view::npos) return false;
      open += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (open < 0) return false;
    }
    if (open != 0) return false;
    std::string value(text_.substr(at_, end - at_));
    std::erase_if(value, [](char c) { return c == ' ' || c == '\t'; });
    Word& option = now_.words.back();
    if (option.text.ends_with('=')) {
      option.text += value;
    } else {
      push({std::move(value), place(at_)});
    }
    at_ = end;
    return true;
  }

  /// The end of the word that begins at at_.
  std::size_t word_end() {
    std::size_t end = at_;
    while (end < text_.size()) {
      const char c = text_[end];
      const char next = end + 1 < text_.size() ? text_[end + 1] : '\0';
      if (c == '\\') {
        if (next == '\n') break;
        end += 2;
      } else if (c == '\'' || c == '"' || c == '`' || (c == '$' && (next == '{' || next == '('))) {
        const std::size_t past = skip_group(text_, end);
        const char closing = c == '$' ? (next == '{' ? '}' : ')') : c;
        if (past <= end + 1 || text_[past - 1] != closing) {
          refuse(fmt::format("{} is not closed", c == '$' ? text_.substr(end, 2) : text_.substr(end, 1)), end,
                 {fmt::format("its {} is missing", closing)});
        }
        end = past;
      } else if (c == ' ' || c == '\t' || c == '\n' || c == ';' || c == '|' || c == ')' || c == '(') {
        break;
      } else if (c == '&' && (end == at_ || text_[end - 1] != '>')) {
        if (next == '>') {  // &> file
          ++end;
        } else {
          break;
        }
      } else {
        ++end;
      }
    }
    return std::min(end, text_.size());
  }

  void word() {
    const std::size_t start = at_;
    const std::size_t end = word_end();
    const std::string_view raw = text_.substr(start, end - start);
    at_ = end;
    const std::size_t name = assignment_in(raw);
    if (name != std::string_view::npos && raw.ends_with('=') && end < text_.size() && text_[end] == '(') {
      array(std::string(raw.substr(0, name)), raw[name] == '+');
      return;
    }
    if (raw.starts_with("<<") && !raw.starts_with("<<<")) {
      here_ = raw.substr(raw.starts_with("<<-") ? 3 : 2);
      std::erase_if(here_, [](char c) { return c == '"' || c == '\'' || c == '\\'; });
      return;
    }
    if (raw == "[[") test_ = true;  // behind `if` and `elif` too
    if (raw == "]]") test_ = false;
    if (end == start) {  // a character that begins nothing
      refuse(fmt::format("'{}' is not understood here", text_.substr(start, 1)), start);
      ++at_;
      return;
    }
    push({std::string(raw), place(start)});
  }

  void array(std::string name, bool append) {
    const std::size_t start = at_++;
    RawArray made{std::move(name), append, {}};
    while (at_ < text_.size() && text_[at_] != ')' && !error_) {
      if (skip_blank()) continue;
      if (text_[at_] == '\n') {
        ++at_;
        continue;
      }
      const std::size_t first = at_;
      const std::size_t end = word_end();
      if (end == first) {
        refuse(fmt::format("'{}' is not understood in an array", text_.substr(first, 1)), first);
        return;
      }
      if (++words_ > kMostWords) {
        refuse(fmt::format("has over {} words", kMostWords), first);
        return;
      }
      made.items.push_back({std::string(text_.substr(first, end - first)), place(first)});
      at_ = end;
    }
    if (at_ >= text_.size()) {
      refuse(fmt::format("the array '{}' is not closed", made.name), start, {"its ) is missing"});
      return;
    }
    ++at_;
    now_.arrays.push_back(std::move(made));
  }

  /// The lines of <<WORD.
  void skip_here() {
    while (at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      at_ = std::min(end + 1, text_.size());
      line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
      if (line == here_) break;
    }
    here_.clear();
  }

  std::string_view text_;
  std::string file_;
  std::vector<std::size_t> lines_;
  std::size_t at_ = 0;
  std::size_t words_ = 0;
  Statement now_;
  std::vector<Statement> done_;
  std::string here_;
  bool test_ = false;  // between [[ and ]]
  std::optional<Error> error_;
};

}  // namespace

std::size_t assignment_in(std::string_view raw) {
  if (raw.empty() || std::isdigit(static_cast<unsigned char>(raw.front())) != 0) return std::string_view::npos;
  std::size_t end = 0;
  while (end < raw.size() && (std::isalnum(static_cast<unsigned char>(raw[end])) != 0 || raw[end] == '_')) ++end;
  if (end == 0 || end >= raw.size()) return std::string_view::npos;
  if (raw[end] == '=') return end;
  return raw.substr(end).starts_with("+=") ? end : std::string_view::npos;
}

Expected<std::vector<Statement>> statements_of(std::string_view text, const std::string& file) {
  return Lexer(text, file).run();
}

}  // namespace ddlsim::importers::shell
