// Cuts a shell script into statements of raw words; quotes and $ stay as they stand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/support/error.h"
#include "shell_words.h"

namespace ddlsim::importers::shell {

/// What stands between a statement and the one before it.
enum class Joint { kNone, kAnd, kOr };

/// NAME=(...) or NAME+=(...).
struct RawArray {
  std::string name;
  bool append = false;
  std::vector<Word> items;
};

struct Statement {
  Joint joint = Joint::kNone;
  std::vector<Word> words;       // raw
  std::vector<RawArray> arrays;  // set by it
  bool pipes = false;            // the next one reads what it prints
};

[[nodiscard]] Expected<std::vector<Statement>> statements_of(std::string_view text, const std::string& file);

/// Where the name that `raw` assigns to ends: at "=" or "+="; npos when it assigns nothing.
[[nodiscard]] std::size_t assignment_in(std::string_view raw);

}  // namespace ddlsim::importers::shell
