// Variables of a shell script and what words become with them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shell_words.h"

namespace ddlsim::importers::shell {

struct Variable {
  std::vector<Word> items;  // one, unless it is an array
  bool array = false;
};

/// A text that somebody has to know: see Word.
[[nodiscard]] std::string unknown(std::string_view name);

class Variables {
 public:
  void set(const std::string& name, Variable value) { values_[name] = std::move(value); }
  [[nodiscard]] const Variable* find(const std::string& name) const;
  /// To change it; made when it is new.
  [[nodiscard]] Variable& at(const std::string& name) { return values_[name]; }
  [[nodiscard]] const std::map<std::string, Variable>& all() const { return values_; }

  /// The words that a raw word stands for: quotes off, $ replaced, split where nothing quotes it.
  [[nodiscard]] std::vector<Word> fields(const Word& raw);
  /// The words again, those with $ left in them as a further shell expands them (bash -c, ssh, eval).
  [[nodiscard]] std::vector<Word> expanded_again(std::vector<Word> words);
  /// The same as one text, never split: of an assignment, a comparison.
  [[nodiscard]] std::string text(std::string_view raw);
  /// Whether all that was asked for stayed within the limits.
  [[nodiscard]] bool overflowed() const { return overflowed_; }

 private:
  struct Piece {
    std::vector<Word> items;
    bool whole = false;  // "${NAME[@]}": each item a word of its own
  };
  class Splitter;

  Piece expansion(std::string_view raw, std::size_t& at);
  Piece braces(std::string_view inside);
  Piece value_of(const std::string& name, bool all_items) const;
  bool room_for(std::size_t size);

  std::map<std::string, Variable> values_;
  std::size_t expanded_ = 0;
  int depth_ = 0;
  bool overflowed_ = false;
};

/// The value of $((...)); nothing when it is not known or no arithmetic.
[[nodiscard]] std::optional<std::int64_t> arithmetic(std::string_view text, Variables& variables);

/// Where the quote, ${ }, $( ) or ` ` that begins at `at` ends: behind its last character.
[[nodiscard]] std::size_t skip_group(std::string_view text, std::size_t at);

}  // namespace ddlsim::importers::shell
