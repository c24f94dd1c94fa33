// The commands by name: main.cpp has the table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "describe.h"

namespace ddlsim::cli {

struct Command {
  std::string_view name;
  std::string_view what;
  int (*run)(const std::vector<std::string>&);
};

[[nodiscard]] std::span<const Command> commands();

/// The program as a whole: its commands are its parts.
[[nodiscard]] CommandDescription describe_program();
/// Of `{"import", "onnx"}`; nothing where there is no such command.
[[nodiscard]] std::optional<CommandDescription> description_of(const std::vector<std::string>& words);
/// The program, its commands, and their parts, in order.
[[nodiscard]] std::vector<CommandDescription> all_descriptions();

int run_help(const std::vector<std::string>& arguments);
/// `ddlsim complete WORD...`: what the last word may become. Shells call it (sim/cli/completions).
int run_complete(const std::vector<std::string>& arguments);

}  // namespace ddlsim::cli
