// The words for values of options: how each is written, and what completes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/io/catalog.h"
#include "ddlsim/support/choices.h"

namespace ddlsim::cli {

/// What the word under the cursor may become.
struct Candidate {
  std::string word;
  std::string what;  // may be empty
};
struct Candidates {
  std::vector<Candidate> words;
  bool files = false;    // also a path
  bool folders = false;  // a path to a folder
  bool open = false;     // the word goes on: no space after it
};

struct ValueType {
  std::string_view name;
  std::string_view how;  // it is written
  /// May be null: nothing but the user knows it. The catalog may be null too.
  void (*complete)(const io::Catalog* catalog, Candidates& candidates);
};

/// Null: `a|b|c`, a file (a name with a dot), or nothing known.
[[nodiscard]] const ValueType* find_value_type(std::string_view name);
/// "how" of any type; empty for one whose name says it all.
[[nodiscard]] std::string_view how_written(std::string_view type);

/// "a|b|c": the words of a type that is a choice, or none.
[[nodiscard]] std::vector<std::string> choices_of(std::string_view type);
/// Whether several of them may stand, with commas.
[[nodiscard]] bool is_list(std::string_view type);

/// A type made of a table of choices.
template <typename Enum, std::size_t N>
[[nodiscard]] std::string one_of(const Choices<Enum, N>& choices) {
  std::string text;
  for (std::size_t i = 0; i < N; ++i) {
    bool alias = false;  // aliases follow the name they mean
    for (std::size_t k = 0; k < i; ++k) alias = alias || choices[k].second == choices[i].second;
    if (!alias) text += (text.empty() ? "" : "|") + std::string(choices[i].first);
  }
  return text;
}

/// The type of a setting's value (`ddlsim list settings`).
[[nodiscard]] std::string type_of_setting(std::string_view path);

/// What a value of that type may become; `typed` is what stands there (of a list, of PATH=VALUE).
[[nodiscard]] Candidates complete_value(std::string_view type, const std::string& typed, const io::Catalog* catalog);

}  // namespace ddlsim::cli
