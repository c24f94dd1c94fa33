// What the last word of a command line may become. Lines are `WORD<tab>WHAT`; `:files`, `:folders` and `:open` say that
// paths come too, and that the word goes on.
#include <algorithm>

#include "commands.h"
#include "ddlsim/whatif/scenario.h"
#include "program.h"
#include "value_types.h"

namespace ddlsim::cli {
namespace {

const OptionDescription* option_named(const CommandDescription& command, std::string_view name) {
  for (const OptionDescription& option : command.options) {
    const bool same =
        !option.positional && std::find(option.names.begin(), option.names.end(), name) != option.names.end();
    if (same) return &option;
  }
  return nullptr;
}

/// The words before the cursor, as the command reads them.
struct Typed {
  std::vector<std::string> arguments;
  const OptionDescription* awaits = nullptr;  // its value is what stands at the cursor
  std::string data;                           // of --data
};

Typed read_words(const CommandDescription& command, const std::vector<std::string>& words) {
  Typed typed;
  for (const std::string& word : words) {
    if (typed.awaits != nullptr) {
      if (typed.awaits->names.back() == "--data") typed.data = word;
      typed.awaits = nullptr;
      continue;
    }
    if (!word.starts_with('-')) {
      typed.arguments.push_back(word);
      continue;
    }
    if (word.starts_with("--data=")) typed.data = word.substr(std::string_view("--data=").size());
    const OptionDescription* option = option_named(command, word);
    if (option != nullptr && !option->type.empty()) typed.awaits = option;
  }
  return typed;
}

void add_options(const CommandDescription& command, Candidates& to) {
  for (const OptionDescription& option : command.options) {
    if (!option.positional) to.words.push_back({option.names.back(), option.what});
  }
}

/// The argument without dashes that comes next.
Candidates complete_argument(const CommandDescription& command, const Typed& typed, const std::string& current,
                             const io::Catalog* catalog) {
  std::vector<const OptionDescription*> places;
  for (const OptionDescription& option : command.options) {
    if (option.positional) places.push_back(&option);
  }
  const std::size_t at = typed.arguments.size();
  const OptionDescription* place = at < places.size() ? places[at] : nullptr;
  if (place == nullptr && !places.empty() && places.back()->repeatable) place = places.back();
  if (command.name == "ddlsim list" && at == 1 && catalog != nullptr) {
    Candidates found;
    for (const auto& [name, kind] : io::kKinds) {
      if (name != typed.arguments.front()) continue;
      for (const std::string& id : catalog->ids(kind)) found.words.push_back({id, {}});
    }
    if (typed.arguments.front() == "settings") {
      for (const whatif::SettingInfo& setting : whatif::settings()) {
        found.words.push_back({setting.path, setting.meaning});
      }
    }
    return found;
  }
  return place == nullptr ? Candidates{} : complete_value(place->type, current, catalog);
}

Candidates complete_in(const CommandDescription& command, const std::vector<std::string>& before,
                       const std::string& current) {
  const Typed typed = read_words(command, before);
  const auto opened = open_catalog(typed.data);
  const io::Catalog* catalog = opened ? &*opened : nullptr;
  if (typed.awaits != nullptr) return complete_value(typed.awaits->type, current, catalog);
  if (current.starts_with("--") && current.find('=') != std::string::npos) {
    const std::string flag = current.substr(0, current.find('='));
    const OptionDescription* option = option_named(command, flag);
    if (option == nullptr) return {};
    Candidates values = complete_value(option->type, current.substr(flag.size() + 1), catalog);
    for (Candidate& value : values.words) value.word.insert(0, flag + "=");
    return values;
  }
  Candidates found = complete_argument(command, typed, current, catalog);
  if (current.starts_with('-') || (found.words.empty() && !found.files)) add_options(command, found);
  return found;
}

/// The commands, or the parts of one.
Candidates complete_parts(const CommandDescription& command) {
  Candidates found;
  for (const auto& [name, what] : command.parts) found.words.push_back({name, what});
  if (command.name != "ddlsim") return found;
  for (const char* flag : {"--help", "--version"}) found.words.push_back({flag, {}});
  return found;
}

Candidates complete_line(std::vector<std::string> words) {
  const std::string current = words.empty() ? "" : words.back();
  if (!words.empty()) words.pop_back();
  const bool help = !words.empty() && words.front() == "help";
  if (help) words.erase(words.begin());
  CommandDescription command = describe_program();
  std::vector<std::string> path;
  while (!words.empty() && !command.parts.empty()) {
    path.push_back(words.front());
    words.erase(words.begin());
    const auto next = description_of(path);
    if (!next) return {};
    command = *next;
  }
  if (!command.parts.empty()) return complete_parts(command);
  return help ? Candidates{} : complete_in(command, words, current);
}

}  // namespace

int run_complete(const std::vector<std::string>& arguments) {
  const Candidates found = complete_line(arguments);
  const std::string current = arguments.empty() ? "" : arguments.back();
  std::string text;
  for (const Candidate& candidate : found.words) {
    if (!candidate.word.starts_with(current)) continue;
    text += candidate.word + (candidate.what.empty() ? "" : "\t" + candidate.what) + "\n";
  }
  if (found.files) text += ":files\n";
  if (found.folders) text += ":folders\n";
  if (found.open) text += ":open\n";
  return print(text);
}

}  // namespace ddlsim::cli
