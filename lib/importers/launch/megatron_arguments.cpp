#include "megatron_arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

#include "ddlsim/support/lower_case.h"
#include "ddlsim/support/quantity_io.h"
#include "shell_words.h"

namespace ddlsim::importers::launch {
namespace {

/// Options that tell a Megatron command from another one.
constexpr std::array<std::string_view, 10> kSigns{
    "tensor-model-parallel-size",
    "pipeline-model-parallel-size",
    "num-layers",
    "micro-batch-size",
    "global-batch-size",
    "hidden-size",
    "seq-length",
    "num-attention-heads",
    "use-distributed-optimizer",
    "expert-model-parallel-size",
};

constexpr std::size_t kMostArguments = 5'000;

/// "--name" or "--name=value" as a name; empty for anything else.
std::string option_of(std::string_view word) {
  if (!word.starts_with("--") || word.size() < 4) return {};
  const std::string name = dashed(word.substr(2, word.find('=') - 2));
  const bool plain =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; });
  return plain ? name : std::string();
}

/// Words that still hold blanks (options inside a quoted command) become several; quotes inside them go.
std::vector<shell::Word> apart(const std::vector<shell::Word>& words) {
  std::vector<shell::Word> out;
  for (const shell::Word& word : words) {
    std::string text;
    const auto close = [&] {
      if (!text.empty()) out.push_back({std::move(text), word.where});
      text.clear();
    };
    bool unknown = false;
    for (const char c : word.text) {
      if (c == shell::kUnknown) unknown = true;
      if (c == shell::kEnd) unknown = false;
      if (!unknown && (c == ' ' || c == '\t' || c == '\n' || c == ';')) {
        close();
      } else if (unknown || (c != '"' && c != '\'' && c != '\\')) {
        text += c;
      }
    }
    close();
  }
  return out;
}

bool has_sign(const std::vector<shell::Word>& words) {
  return std::any_of(words.begin(), words.end(), [](const shell::Word& word) { return is_sign(option_of(word.text)); });
}

/// "2>&1", ">log", "&>": where output goes.
bool is_redirection(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of("0123456789&"), word.size()));
  return word.starts_with('>') || word.starts_with('<');
}

/// The words behind an option's name up to the next option.
void add_words(const std::vector<shell::Word>& words, Arguments& arguments) {
  std::optional<Argument> open;
  bool whole = false;  // the value came with the name, as --nnodes=2
  const auto close = [&] {
    if (open) arguments.add(std::move(*open));
    open.reset();
  };
  for (const shell::Word& word : words) {
    if (is_redirection(word.text)) {
      close();
      continue;
    }
    const std::string name = option_of(word.text);
    if (!name.empty()) {
      close();
      const std::size_t equals = word.text.find('=');
      whole = equals != std::string::npos;
      open = Argument{.name = name, .values = {}, .where = word.where, .loose = !whole};
      if (whole) open->values.push_back(word.text.substr(equals + 1));
    } else if (open && !open->values.empty() && word.text.ends_with(".py")) {
      close();  // the script that torchrun starts
    } else if (open && !whole && (shell::is_known(word.text) || open->values.empty())) {
      open->values.push_back(word.text);
    } else if (!shell::is_known(word.text)) {
      close();
      arguments.add_unknown({.name = {}, .values = {word.text}, .where = word.where});
    }
  }
  close();
}

/// A line of the list that Megatron prints: "  name ....... value", maybe behind a rank or a time.
std::optional<Argument> listed(std::string_view line, const SourceLocation& where) {
  const std::size_t dots = line.find(" ..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::size_t name_end = line.find_last_not_of(' ', dots);
  if (name_end == std::string_view::npos) return std::nullopt;
  std::size_t start = name_end;
  while (start > 0 && (std::isalnum(static_cast<unsigned char>(line[start - 1])) != 0 || line[start - 1] == '_')) {
    --start;
  }
  std::size_t value = line.find_first_not_of('.', dots + 1);
  if (value == std::string_view::npos || line[value] != ' ') return std::nullopt;
  value = line.find_first_not_of(' ', value);
  if (value == std::string_view::npos) return std::nullopt;
  std::string_view text = line.substr(value);
  text = text.substr(0, text.find_last_not_of(" \r\t") + 1);
  const std::string_view name = line.substr(start, name_end + 1 - start);
  if (name.empty() || std::isalpha(static_cast<unsigned char>(name.front())) == 0) return std::nullopt;
  return Argument{.name = dashed(name),
                  .values = {std::string(text)},
                  .where = {where.file, where.line, static_cast<int>(start) + 1}};
}

/// Arguments of a printed list; false when the text is none.
bool read_list(std::string_view text, const std::string& file, Arguments& arguments) {
  std::vector<Argument> found;
  int line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    ++line_number;
    if (auto argument = listed(text.substr(at, end - at), {file, line_number, 1})) {
      found.push_back(std::move(*argument));
    }
    at = end + 1;
    if (found.size() > kMostArguments) break;
  }
  const auto signs = std::count_if(found.begin(), found.end(), [](const Argument& a) { return is_sign(a.name); });
  if (signs < 2) return false;
  for (Argument& argument : found) arguments.add(std::move(argument));
  return true;
}

/// Whether a command shows words and runs none.
bool only_shows(const std::vector<shell::Word>& words) {
  return words.front().text == "echo" || words.front().text == "printf";
}

bool same_words(const std::vector<shell::Word>& a, const std::vector<shell::Word>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const shell::Word& left, const shell::Word& right) { return left.text == right.text; });
}

/// Commands once each, without those that are shown before they run.
void keep_run(std::vector<std::vector<shell::Word>>& found) {
  if (!std::all_of(found.begin(), found.end(), only_shows)) std::erase_if(found, only_shows);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto repeated = [&](const auto& words) { return same_words(words, found[i]); };
    found.erase(std::remove_if(found.begin() + static_cast<std::ptrdiff_t>(i) + 1, found.end(), repeated), found.end());
  }
}

/// What CUDA finds set.
void read_environment(const shell::Script& script, Builder& out) {
  const std::string name = "CUDA_LAUNCH_BLOCKING";
  const auto found = script.variables.find(name);
  if (found == script.variables.end() || found->second.empty()) return;
  const shell::Word& value = found->second.front();
  if (!shell::is_known(value.text)) {
    out.ask("launch_blocking", name + ": set under a condition", value.where);
  } else if (!value.text.empty() && value.text != "0") {
    out.set("launch_blocking", "yes", fmt::format("{}={}", name, value.text.substr(0, 8)), value.where);
  }
}

void read_script_words(const shell::Script& script, const std::string& file, Arguments& arguments, Builder& out) {
  std::vector<std::vector<shell::Word>> found;
  bool bare = false;  // the group before was options alone, each line of them a "command"
  for (const auto& command : script.commands) {
    std::vector<shell::Word> words = apart(command);
    if (words.empty()) continue;
    const bool options = words.front().text.starts_with("--");
    if (options && bare) {
      std::move(words.begin(), words.end(), std::back_inserter(found.back()));
      continue;
    }
    if (!options && !has_sign(words)) continue;
    bare = options;
    found.push_back(std::move(words));
  }
  std::erase_if(found, [](const auto& words) { return !has_sign(words); });
  keep_run(found);
  if (found.empty()) {
    std::vector<shell::Word> all;
    for (const auto& [name, value] : script.variables) {
      std::vector<shell::Word> words = apart(value);
      const bool options = std::any_of(words.begin(), words.end(),
                                       [](const shell::Word& word) { return !option_of(word.text).empty(); });
      if (options) std::move(words.begin(), words.end(), std::back_inserter(all));
    }
    if (has_sign(all)) found.push_back(std::move(all));
  }
  if (found.empty()) {
    out.fault(
        "no Megatron-LM arguments found", {file, 0, 0},
        {"looked for --tensor-model-parallel-size, --num-layers, --micro-batch-size and their like, in commands and "
         "variables, and for the list 'name ....... value' that Megatron prints"},
        ErrorCode::kParse);
    return;
  }
  if (found.size() > 1) {
    out.fault(fmt::format("{} commands with Megatron-LM arguments", found.size()), found[1].front().where,
              {fmt::format("the first stands in line {}: keep one of them in the file", found[0].front().where.line)});
    return;
  }
  add_words(found.front(), arguments);
  read_environment(script, out);
}

}  // namespace

std::string dashed(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

bool is_sign(std::string_view option) { return std::find(kSigns.begin(), kSigns.end(), option) != kSigns.end(); }

bool is_none(std::string_view text) { return text == "None" || text == "none" || text == "null" || text == "~"; }

std::string Argument::words() const {
  std::string out = "--" + name;
  for (const std::string& value : values) {
    out += ' ';
    for (const char c : value) {
      if (c != shell::kUnknown && c != shell::kEnd) out += c;
    }
    if (out.size() > 200) break;
  }
  return out;
}

Argument* Arguments::look(std::string_view name) {
  const auto found =
      std::find_if(arguments_.begin(), arguments_.end(), [&](const Argument& a) { return a.name == name; });
  return found == arguments_.end() ? nullptr : &*found;
}

void Arguments::add(Argument argument) {
  if (Argument* known = look(argument.name)) {
    *known = std::move(argument);
  } else if (arguments_.size() < kMostArguments) {
    arguments_.push_back(std::move(argument));
  }
}

const Argument* Arguments::find(std::string_view name) {
  asked_.emplace_back(name);
  Argument* found = look(name);
  if (found == nullptr) return nullptr;
  found->read = true;
  return found->values.size() == 1 && is_none(found->values.front()) ? nullptr : found;
}

const Argument* Arguments::find_first(std::initializer_list<std::string_view> names) {
  const Argument* first = nullptr;
  for (const std::string_view name : names) {
    const Argument* found = find(name);
    if (first == nullptr) first = found;
  }
  return first;
}

bool Arguments::states(std::string_view name) {
  return has(name) || std::find(nulls_.begin(), nulls_.end(), name) != nulls_.end();
}

void Arguments::loosen(std::string_view name) {
  Argument* found = look(name);
  if (found == nullptr || !found->loose || found->values.empty() || shell::is_known(found->values.front())) return;
  for (std::string& value : found->values) {
    if (!shell::is_known(value)) add_unknown({.name = {}, .values = {std::move(value)}, .where = found->where});
  }
  found->values.clear();
}

bool Arguments::flag(std::string_view name) {
  if (find(name) == nullptr) return false;
  loosen(name);
  Argument* found = look(name);
  found->flagged = true;
  if (found->values.empty()) return true;
  const std::string value = word(name);
  if (value == "true" || value == "1" || value == "yes") return true;
  if (value == "false" || value == "0" || value == "no" || value.empty()) return false;
  out_->fault(fmt::format("'{}'", shown(found->words())), found->where,
              {"it is a switch: it takes no value, or True or False"});
  return false;
}

std::optional<std::int64_t> Arguments::count(const Argument& argument, std::int64_t least) {
  if (argument.values.size() == 1 && !shell::is_known(argument.values.front())) return std::nullopt;
  const std::string text = argument.values.size() == 1 ? argument.values.front() : std::string();
  const auto value = parse_count(text, {0, kLargest});
  if (value && *value >= least) return *value;
  out_->fault(fmt::format("'{}'", shown(argument.words())), argument.where,
              {fmt::format("it takes a whole number from {} to {}", least, kLargest)});
  return std::nullopt;
}

std::optional<std::int64_t> Arguments::count(std::string_view name, std::int64_t least) {
  const Argument* found = find(name);
  return found == nullptr ? std::nullopt : count(*found, least);
}

std::string Arguments::word(std::string_view name) {
  const Argument* found = find(name);
  if (found == nullptr || found->values.empty() || !shell::is_known(found->values.front())) return {};
  return lower_case(found->values.front());
}

bool Arguments::is_unknown(std::string_view name) {
  if (find(name) == nullptr) return false;
  Argument& found = *look(name);
  found.settled = std::any_of(found.values.begin(), found.values.end(),
                              [](const std::string& value) { return !shell::is_known(value); });
  return found.settled;
}

Expected<Arguments> read_arguments(std::string_view text, const std::string& file, const LaunchOptions& options,
                                   Builder& out) {
  Arguments arguments(out);
  if (file.ends_with(".yaml") || file.ends_with(".yml")) {
    const auto document = io::parse_yaml(text, file);
    if (!document) return tl::unexpected<Error>(document.error());
    read_yaml(*document, options, arguments, out);
    const auto& all = arguments.all();
    if (std::none_of(all.begin(), all.end(), [](const Argument& a) { return is_sign(a.name); })) {
      out.fault("no Megatron-LM arguments found", {file, 0, 0},
                {"looked for tensor_model_parallel_size, num_layers, micro_batch_size and their like"},
                ErrorCode::kParse);
    }
    return arguments;
  }
  if (read_list(text, file, arguments)) return arguments;
  const auto script = shell::read_script(text, file, options.variables, slurm_variables(text));
  if (!script) return tl::unexpected<Error>(script.error());
  read_script_words(*script, file, arguments, out);
  return arguments;
}

bool ties_embeddings(Arguments& arguments) {
  // In the printed list and in YAML the switch goes by its variable.
  const Argument* share = arguments.find("share-embeddings-and-output-weights");
  return !arguments.flag("untie-embeddings-and-output-weights") && (share == nullptr || arguments.flag(share->name));
}

}  // namespace ddlsim::importers::launch
