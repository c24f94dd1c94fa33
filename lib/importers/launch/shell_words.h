// Reads a shell script for the words of its commands; runs nothing.
//
// Understood: words with quotes, comments, continued lines; NAME=value, arrays, `+=`, export; $NAME, ${NAME},
// ${NAME[@]}, ${NAME:-default}, $((arithmetic)); if/elif/else on [ ], [[ ]] and (( )) that compare texts or numbers,
// with && and ||; case on patterns with * and ?; text for another shell (bash -c '... $NAME ...', '\$NAME'), which is
// taken to have every variable of this one; behind an option a list as "([0]*3+[1]*58)" without its quotes, as logged
// commands have it. Not understood, and so unknown: what commands print, positional parameters without a default, file
// tests, loops (their bodies are read, what they assign is unknown). Limits: 4 MiB of expanded text, 100,000 words, 32
// levels.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/support/error.h"

namespace ddlsim::importers::shell {

/// A word after expansion. What could not be known stands in it as kUnknown, its name, kEnd.
struct Word {
  std::string text;
  SourceLocation where;
};

inline constexpr char kUnknown = '\x01';
inline constexpr char kEnd = '\x02';

[[nodiscard]] inline bool is_known(std::string_view text) { return text.find(kUnknown) == std::string_view::npos; }

struct Script {
  std::vector<std::vector<Word>> commands;             // in the order of the file
  std::map<std::string, std::vector<Word>> variables;  // at its end; what a command alone has before it, too
};

using Named = std::vector<std::pair<std::string, std::string>>;

/// `variables` win over what the script sets, `environment` has what it finds set. Errors: kParse with
/// file:line:column.
[[nodiscard]] Expected<Script> read_script(std::string_view text, const std::string& file, const Named& variables,
                                           const Named& environment);

}  // namespace ddlsim::importers::shell
