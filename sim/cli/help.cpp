#include <fmt/core.h>

#include "commands.h"
#include "ddlsim/support/names.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kWhat = "how long a training step takes, what holds it back, and what would change it";
constexpr std::string_view kMore =
    R"(An analytical performance model of distributed deep-learning training. What a command can be told, a scenario file
(YAML, -f) can say as well, setting by setting. Results go to standard output, everything else to standard error.)";
constexpr std::string_view kProgramExamples =
    R"(  ddlsim predict --model resnet50 --node dgx-a100 --nodes 2 --precision fp16
  ddlsim what-if --model resnet50 --node dgx1-v100 --nodes 4 --network "25 Gb/s" --vs --set network="100 Gb/s"
  ddlsim list models
)";
constexpr std::string_view kHelpFormats = "text|json|man";

const Command* find_command(std::string_view name) {
  for (const Command& command : commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

}  // namespace

CommandDescription describe_program() {
  CommandDescription program{.name = "ddlsim",
                             .what = std::string(kWhat),
                             .more = std::string(kMore),
                             .examples = std::string(kProgramExamples),
                             .options = {},
                             .parts = {}};
  program.options.push_back({{"-h", "--help"}, {}, "what there is", {}, std::string(kCommonGroup)});
  program.options.push_back({{"-V", "--version"}, {}, "which version this is", {}, std::string(kCommonGroup)});
  for (const Command& command : commands()) program.parts.emplace_back(command.name, command.what);
  return program;
}

std::optional<CommandDescription> description_of(const std::vector<std::string>& words) {
  if (words.empty()) return describe_program();
  const Command* command = find_command(words.front());
  if (command == nullptr) return std::nullopt;
  std::vector<std::string> arguments(words.begin() + 1, words.end());
  arguments.push_back(kDescribe);
  try {
    command->run(arguments);
  } catch (DescribeRequest& request) {
    return std::move(request.description);
  } catch (const UsageError&) {
    // A part that the command does not have.
  }
  return std::nullopt;
}

std::vector<CommandDescription> all_descriptions() {
  std::vector<CommandDescription> all{describe_program()};
  for (const Command& command : commands()) {
    auto described = description_of({std::string(command.name)});
    if (!described) continue;
    const auto parts = described->parts;
    all.push_back(std::move(*described));
    for (const auto& [part, what] : parts) {
      if (auto one = description_of({std::string(command.name), part})) all.push_back(std::move(*one));
    }
  }
  return all;
}

int run_help(const std::vector<std::string>& arguments) {
  CLI::App app("Explain a command: what it answers, and every option.", "ddlsim help");
  app.footer(
      "\nman is a man page; json has every option as data, of all commands where none is named.\n\nExamples:\n"
      "  ddlsim help predict\n  ddlsim help import onnx\n  ddlsim help predict --format man | man -l -\n"
      "  ddlsim help --json");
  std::vector<std::string> words;
  std::string format = "text";
  bool json = false;
  app.add_option("command", words, "the command, and its part")->type_name("COMMAND");
  app.add_option("--format", format, "of the answer")->type_name(std::string(kHelpFormats))->default_str("text");
  app.add_flag("--json", json, "short for --format json");
  parse(app, arguments);
  if (json) format = "json";
  if (format != "text" && format != "json" && format != "man") {
    throw UsageError{fmt::format("--format: unknown format '{}'", format.substr(0, 60)), "valid: text, json, man"};
  }
  if (words.empty() && format == "json") return print_answer(help_json(all_descriptions()), report::Format::kJson);
  const auto described = description_of(words);
  if (!described && find_command(words.front()) == nullptr) {
    std::vector<std::string> names;
    for (const Command& command : commands()) names.emplace_back(command.name);
    throw UsageError{fmt::format("unknown command '{}'", words.front().substr(0, 60)),
                     ddlsim::suggestion(words.front(), names)};
  }
  if (!described) {
    // The command says itself which parts it has.
    std::vector<std::string> rest(words.begin() + 1, words.end());
    rest.emplace_back("--help");
    return find_command(words.front())->run(rest);
  }
  if (format == "json") return print_answer(help_json({&*described, 1}), report::Format::kJson);
  return format == "man" ? print(man_page(*described)) : print_help(help_text(*described));
}

}  // namespace ddlsim::cli
