// What the program can be told, as data: taken from the CLI11 apps of the commands themselves. `--help`, man pages,
// `help --format json` and completion in shells are all made of it, so that none of them can say something else.
//
// An option's type name is the word for its value: `a|b|c` are words to choose from, `a|b,...` a list of them, a name
// with a dot is a file, everything else is a row of value_types.h.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddlsim::cli {

struct OptionDescription {
  std::vector<std::string> names;  // "-f", "--scenario"; of an argument without dashes: its word
  std::string type;                // empty: a flag
  std::string what;
  std::string fallback;  // what holds when it is not given; may be empty
  std::string group;
  bool positional = false;
  bool required = false;
  bool repeatable = false;
};

struct CommandDescription {
  std::string name;  // "ddlsim predict"
  std::string what;
  std::string more;                                        // paragraphs
  std::string examples;                                    // lines
  std::vector<OptionDescription> options;                  // group by group; arguments first
  std::vector<std::pair<std::string, std::string>> parts;  // of a command that has some: `ddlsim import onnx`
};

/// Thrown instead of running when a command's arguments are `kDescribe` alone.
struct DescribeRequest {
  CommandDescription description;
};
/// No command line can hold it.
inline const std::string kDescribe("\0describe", 9);

/// Options of a group are shown together. Those without a group of their own are "Options"; the last two come last.
inline constexpr std::string_view kOwnGroup = "Options";
inline constexpr const char* kJobGroup = "The job";
inline constexpr const char* kSplitGroup = "How its model is split";
inline constexpr const char* kInputGroup = "Its measurements and its input";
inline constexpr const char* kTrainingGroup = "The run and its price";
inline constexpr const char* kOutputGroup = "Output";
inline constexpr const char* kCommonGroup = "Of every command";

[[nodiscard]] CommandDescription describe(const CLI::App& app);

/// Throws what `--help` and kDescribe ask for, of a command whose first word names one of its parts.
void describe_parts(const std::vector<std::string>& arguments, const CommandDescription& description);

/// For a terminal of 80 columns, or more where examples are longer.
[[nodiscard]] std::string help_text(const CommandDescription& command);
/// troff, for man(7).
[[nodiscard]] std::string man_page(const CommandDescription& command);
/// "ddlsim/help/1"
[[nodiscard]] std::string help_json(std::span<const CommandDescription> descriptions);

}  // namespace ddlsim::cli
