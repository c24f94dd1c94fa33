#include "shell_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>

#include "ddlsim/support/quantity_io.h"
#include "shell_expand.h"
#include "shell_lexer.h"

namespace ddlsim::importers::shell {
namespace {

constexpr std::size_t kMostBlocks = 32;
constexpr std::size_t kMostScript = std::size_t{1} << 20;

enum class Sure { kNo, kYes, kUnknown };

Sure sure(bool value) { return value ? Sure::kYes : Sure::kNo; }
Sure both(Sure a, Sure b) {
  if (a == Sure::kNo || b == Sure::kNo) return Sure::kNo;
  return a == Sure::kYes && b == Sure::kYes ? Sure::kYes : Sure::kUnknown;
}
Sure inverse(Sure a) { return a == Sure::kUnknown ? a : sure(a == Sure::kNo); }
Sure either(Sure a, Sure b) { return inverse(both(inverse(a), inverse(b))); }

/// What patterns of a whole script may compare.
constexpr std::size_t kMostCompared = 10'000'000;

/// Whether a text fits a pattern of * and ?; not decided where it has brackets, or where `left` does not suffice.
Sure fits(std::string_view pattern, std::string_view text, std::size_t& left) {
  if (pattern == "*") return Sure::kYes;
  const std::size_t most = (pattern.size() + 1) * (text.size() + 1);
  const bool plain = pattern.find('[') == std::string_view::npos && most <= left;
  left -= std::min(left, most);
  if (!plain || !is_known(pattern) || !is_known(text)) return Sure::kUnknown;
  std::size_t at = 0;
  std::size_t star = std::string_view::npos;  // the last one, and where what it stands for ends
  std::size_t taken = 0;
  std::size_t read = 0;
  while (read < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      taken = read;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[read])) {
      ++at;
      ++read;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      read = ++taken;
    } else {
      return Sure::kNo;
    }
  }
  return sure(pattern.find_first_not_of('*', at) == std::string_view::npos);
}

/// What stands between [ and ], texts already put in.
class Test {
 public:
  explicit Test(std::vector<std::string> words) : words_(std::move(words)) {}

  Sure value() {
    const Sure result = any();
    return at_ == words_.size() ? result : Sure::kUnknown;
  }

 private:
  bool take(std::string_view a, std::string_view b) {
    if (at_ >= words_.size() || (words_[at_] != a && words_[at_] != b)) return false;
    ++at_;
    return true;
  }
  Sure any() {
    Sure result = all();
    while (take("||", "-o")) result = either(result, all());
    return result;
  }
  Sure all() {
    Sure result = one();
    while (take("&&", "-a")) result = both(result, one());
    return result;
  }
  Sure one() {
    bool inverted = false;
    while (take("!", "!")) inverted = !inverted;
    const Sure result = primary();
    return inverted ? inverse(result) : result;
  }
  Sure primary() {
    const std::size_t left = words_.size() - at_;
    if (left == 0) return Sure::kUnknown;
    const std::string& first = words_[at_];
    if (left >= 2 && (first == "-z" || first == "-n")) {
      const std::string& text = words_[at_ + 1];
      at_ += 2;
      return is_known(text) ? sure(text.empty() == (first == "-z")) : Sure::kUnknown;
    }
    if (left >= 2 && first.size() == 2 && first[0] == '-') {  // of files
      at_ += 2;
      return Sure::kUnknown;
    }
    if (left >= 3 && words_[at_ + 1] != "&&" && words_[at_ + 1] != "||") {
      at_ += 3;
      return compared(std::span(words_).subspan(at_ - 3).first<3>());
    }
    ++at_;
    return is_known(first) ? sure(!first.empty()) : Sure::kUnknown;
  }
  static Sure compared(std::span<const std::string, 3> words) {
    const auto& [a, op, b] = std::tie(words[0], words[1], words[2]);
    if (!is_known(a) || !is_known(b)) return Sure::kUnknown;
    if (b.find_first_of("*?[") == std::string::npos) {
      if (op == "==" || op == "=") return sure(a == b);
      if (op == "!=") return sure(a != b);
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 52;
    const auto left = parse_count(a, {0, kMost});
    const auto right = parse_count(b, {0, kMost});
    if (!left || !right) return Sure::kUnknown;
    if (op == "-eq") return sure(*left == *right);
    if (op == "-ne") return sure(*left != *right);
    if (op == "-lt") return sure(*left < *right);
    if (op == "-le") return sure(*left <= *right);
    if (op == "-gt") return sure(*left > *right);
    if (op == "-ge") return sure(*left >= *right);
    return Sure::kUnknown;
  }

  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

/// if, a loop, case.
struct Block {
  char kind;                // of its last word: 'f'i, 'd'one, 'e'sac
  Sure active;              // whether the branch that is being read runs
  Sure before{Sure::kNo};   // whether a branch before it did
  bool condition = false;   // reading the condition
  std::string subject{};    // of case
  bool patterns = false;    // reading those of its next branch
  Sure fitting{Sure::kNo};  // whether one of them fits
};

class Reader {
 public:
  Reader(const Named& variables, const Named& environment) {
    for (const auto& [name, value] : environment) variables_.set(name, {{{value, {}}}, false});
    for (const auto& [name, value] : variables) {
      variables_.set(name, {{{value, {}}}, false});
      fixed_.push_back(name);
    }
  }

  Expected<Script> run(const std::vector<Statement>& statements, const std::string& file) {
    for (const Statement& statement : statements) {
      read(statement);
      if (variables_.overflowed()) {
        return fail(ErrorCode::kParse, "its variables expand to more than 4 MiB, or over 32 levels deep",
                    where_of(statement));
      }
      if (blocks_.size() > kMostBlocks) {
        return fail(ErrorCode::kParse, fmt::format("is nested over {} levels deep", kMostBlocks), where_of(statement));
      }
    }
    if (!blocks_.empty()) {
      const char kind = blocks_.back().kind;
      return fail(ErrorCode::kParse,
                  fmt::format("ends inside {}", kind == 'f'   ? "an 'if': its 'fi' is missing"
                                                : kind == 'd' ? "a loop: its 'done' is missing"
                                                              : "a 'case': its 'esac' is missing"),
                  {file, 0, 0});
    }
    for (const auto& [name, variable] : variables_.all()) {
      script_.variables.try_emplace(name, variables_.expanded_again(variable.items));
    }
    return std::move(script_);
  }

 private:
  static SourceLocation where_of(const Statement& statement) {
    if (!statement.words.empty()) return statement.words.front().where;
    return statement.arrays.empty() || statement.arrays.front().items.empty()
               ? SourceLocation{}
               : statement.arrays.front().items.front().where;
  }

  [[nodiscard]] Sure active() const {
    Sure result = Sure::kYes;
    for (const Block& block : blocks_) result = both(result, block.active);
    return result;
  }

  void read(const Statement& statement) {
    const bool ends = !statement.words.empty() && statement.words.front().text == "esac";
    if (!blocks_.empty() && blocks_.back().patterns && !ends) return read_patterns(statement, 0);
    std::size_t first = 0;
    // Words of the shell that may stand before a command.
    while (first < statement.words.size() && keyword(statement.words[first].text)) ++first;
    if (first < statement.words.size() && statement.words[first].text == "case") return open_case(statement, first);
    const bool condition = !blocks_.empty() && blocks_.back().condition;
    Sure runs = Sure::kYes;
    if (statement.joint == Joint::kAnd) runs = status_;
    if (statement.joint == Joint::kOr) runs = inverse(status_);
    if (!condition) runs = both(runs, active());
    const Sure before = status_;
    status_ = execute(statement, first, runs);
    if (statement.joint == Joint::kAnd) status_ = both(before, status_);
    if (statement.joint == Joint::kOr) status_ = either(before, status_);
  }

  /// "case WORD in", and maybe the first patterns in its line.
  void open_case(const Statement& statement, std::size_t first) {
    const auto& words = statement.words;
    Block block{'e', Sure::kUnknown};
    block.patterns = words.size() > first + 2 && words[first + 2].text == "in";
    if (block.patterns) block.subject = variables_.text(words[first + 1].text);
    blocks_.push_back(std::move(block));
    if (blocks_.back().patterns && words.size() > first + 3) read_patterns(statement, first + 3);
  }

  /// A pattern of a branch; another one follows behind a |.
  void read_patterns(const Statement& statement, std::size_t first) {
    Block& block = blocks_.back();
    for (std::size_t at = first; at < statement.words.size(); ++at) {
      block.fitting =
          either(block.fitting, fits(variables_.text(statement.words[at].text), block.subject, compared_left_));
    }
    if (statement.pipes) return;
    block.patterns = false;
    block.active = both(inverse(block.before), block.fitting);
    block.before = either(block.before, block.active);
    block.fitting = Sure::kNo;
  }

  /// Whether the word opens, turns or closes a block. The condition of `if` and of loops is what follows until `then`.
  bool keyword(const std::string& word) {
    if (word == "{" || word == "}" || word == "function" || word == "then" || word == "do") {
      if (!blocks_.empty() && blocks_.back().condition && (word == "then" || word == "do")) begin_branch();
      return true;
    }
    if (word == "if") {
      blocks_.push_back({'f', Sure::kYes, Sure::kNo, true});
    } else if (word == "for" || word == "while" || word == "until" || word == "select") {
      blocks_.push_back({'d', Sure::kUnknown, Sure::kNo, word != "for" && word != "select"});
    } else if (word == ";;") {
      if (!blocks_.empty() && blocks_.back().kind == 'e') blocks_.back().patterns = true;
    } else if (word == "elif" || word == "else") {
      if (blocks_.empty() || blocks_.back().kind != 'f') return true;
      Block& block = blocks_.back();
      block.before = either(block.before, block.active);
      block.active = word == "else" ? inverse(block.before) : Sure::kYes;
      block.condition = word == "elif";
    } else if (word == "fi" || word == "done" || word == "esac") {
      if (!blocks_.empty() && blocks_.back().kind == word.front()) blocks_.pop_back();
    } else {
      return false;
    }
    return true;
  }

  void begin_branch() {
    Block& block = blocks_.back();
    block.condition = false;
    block.active = block.kind == 'f' ? both(inverse(block.before), status_) : Sure::kUnknown;
  }

  /// Assigns, tests, or notes a command; whether it succeeds. Commands are taken to succeed.
  Sure execute(const Statement& statement, std::size_t first, Sure runs) {
    for (const RawArray& array : statement.arrays) assign_array(array, runs);
    const auto& words = statement.words;
    if (first >= words.size()) return Sure::kYes;
    const std::string& name = words[first].text;
    if (name == "[" || name == "[[" || name == "test") return tested(words, first + 1);
    if (name == "!") {
      const bool test = first + 1 < words.size() && words[first + 1].text.starts_with("[");
      return test ? inverse(tested(words, first + 2)) : Sure::kUnknown;
    }
    if (name.starts_with("((")) return Sure::kUnknown;
    const bool declares =
        name == "export" || name == "local" || name == "declare" || name == "readonly" || name == "typeset";
    std::size_t at = first + (declares ? 1 : 0);
    while (at < words.size() && assignment_in(words[at].text) != std::string_view::npos) ++at;
    if (at == words.size() || declares) {
      for (std::size_t i = first; i < at; ++i) assign(words[i], runs);
      return Sure::kYes;
    }
    if (runs == Sure::kNo) return Sure::kUnknown;
    for (std::size_t i = first; i < at && runs == Sure::kYes; ++i) {
      const std::size_t end = assignment_in(words[i].text);
      const std::string set = words[i].text.substr(0, end);
      if (words[i].text[end] == '+' || is_fixed(set)) continue;
      script_.variables[set] = {{variables_.text(std::string_view(words[i].text).substr(end + 1)), words[i].where}};
    }
    std::vector<Word> fields;
    for (; at < words.size(); ++at) {
      for (Word& field : variables_.fields(words[at])) fields.push_back(std::move(field));
    }
    fields = variables_.expanded_again(std::move(fields));
    const bool condition = !blocks_.empty() && blocks_.back().condition;
    if (!fields.empty()) script_.commands.push_back(std::move(fields));
    return condition ? Sure::kUnknown : Sure::kYes;
  }

  Sure tested(const std::vector<Word>& words, std::size_t first) {
    std::vector<std::string> texts;
    for (std::size_t i = first; i < words.size() && words[i].text != "]" && words[i].text != "]]"; ++i) {
      texts.push_back(variables_.text(words[i].text));
    }
    return Test(std::move(texts)).value();
  }

  [[nodiscard]] bool is_fixed(const std::string& name) const {
    return std::find(fixed_.begin(), fixed_.end(), name) != fixed_.end();
  }

  void assign(const Word& word, Sure runs) {
    const std::size_t end = assignment_in(word.text);
    if (end == std::string_view::npos || runs == Sure::kNo) return;
    const std::string name = word.text.substr(0, end);
    if (is_fixed(name)) return;
    const bool append = word.text[end] == '+';
    std::string value = variables_.text(std::string_view(word.text).substr(end + (append ? 2 : 1)));
    if (runs == Sure::kUnknown) value = in_doubt(name, word.where);
    Variable& variable = variables_.at(name);
    if (append && !variable.items.empty()) {
      variable.items.front().text += value;
    } else {
      variable = {{{std::move(value), word.where}}, false};
    }
  }

  void assign_array(const RawArray& array, Sure runs) {
    if (runs == Sure::kNo || is_fixed(array.name)) return;
    std::vector<Word> items;
    if (runs == Sure::kUnknown) {
      const SourceLocation where = array.items.empty() ? SourceLocation{} : array.items.front().where;
      if (!array.items.empty()) items.push_back({in_doubt(array.name, where), where});
    } else {
      for (const Word& item : array.items) {
        for (Word& field : variables_.fields(item)) items.push_back(std::move(field));
      }
    }
    Variable& variable = variables_.at(array.name);
    variable.array = true;
    if (!array.append && runs == Sure::kYes) variable.items.clear();
    std::move(items.begin(), items.end(), std::back_inserter(variable.items));
  }

  static std::string in_doubt(const std::string& name, const SourceLocation& where) {
    return unknown(fmt::format("${} (line {} sets it under a condition)", name.substr(0, 24), where.line));
  }

  Variables variables_;
  std::vector<std::string> fixed_;
  std::vector<Block> blocks_;
  Sure status_ = Sure::kYes;
  std::size_t compared_left_ = kMostCompared;
  Script script_;
};

}  // namespace

Expected<Script> read_script(std::string_view text, const std::string& file, const Named& variables,
                             const Named& environment) {
  if (text.size() > kMostScript) return fail(ErrorCode::kParse, "a launch script of over 1 MiB", {file, 0, 0});
  std::string clean(text);
  std::erase_if(clean, [](char c) { return c == '\r' || c == kUnknown || c == kEnd; });
  const auto statements = statements_of(clean, file);
  if (!statements) return tl::unexpected<Error>(statements.error());
  return Reader(variables, environment).run(*statements, file);
}

}  // namespace ddlsim::importers::shell
