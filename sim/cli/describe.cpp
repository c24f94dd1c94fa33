#include "describe.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "program.h"
#include "value_types.h"

namespace ddlsim::cli {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kTextColumn = 28;
constexpr std::size_t kWordColumn = 12;

/// "INT:INT in [1 - 4]": what CLI11 adds to a type.
std::string type_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};
  std::string type = option.get_type_name();
  type.erase(std::min(type.find(':'), type.size()));
  return type == "INT" || type == "UINT" ? "N" : type;
}

OptionDescription describe_option(const CLI::Option& option) {
  OptionDescription described{.names = {},
                              .type = type_of(option),
                              .what = option.get_description(),
                              .fallback = option.get_default_str(),
                              .group = option.get_group(),
                              .positional = option.get_positional(),
                              .required = option.get_required(),
                              .repeatable = option.get_expected_max() > 1};
  if (described.positional) {
    described.names.push_back(option.get_name());
    described.group = "Arguments";
    return described;
  }
  for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  const std::string& last = described.names.back();
  if (last == "--help" || last == "--data") described.group = kCommonGroup;
  if (last == "--help") described.what = "this text";
  return described;
}

int rank_of(std::string_view group) {
  if (group == "Arguments") return 0;
  if (group == kOwnGroup) return 1;
  if (group == kOutputGroup) return 3;
  return group == kCommonGroup ? 4 : 2;
}

/// What follows "Examples:" and is indented are examples; the rest explains.
void split_footer(const std::string& footer, CommandDescription& to) {
  constexpr std::string_view kHead = "Examples:\n";
  const std::size_t head = footer.find(kHead);
  to.more = footer.substr(0, head);
  if (head != std::string::npos) {
    std::size_t at = head + kHead.size();
    while (at < footer.size() && footer[at] == ' ') {
      const std::size_t end = std::min(footer.find('\n', at), footer.size());
      to.examples += footer.substr(at, end - at) + "\n";
      at = end + 1;
    }
    to.more.erase(to.more.find_last_not_of('\n') + 1);
    if (const std::size_t rest = footer.find_first_not_of('\n', at); rest != std::string::npos) {
      to.more += "\n\n" + footer.substr(rest);
    }
  }
  to.more.erase(0, std::min(to.more.find_first_not_of('\n'), to.more.size()));
  to.more.erase(to.more.find_last_not_of('\n') + 1);
}

/// Words in lines of `kWidth`, those after the first behind `indent` spaces.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string all;
  std::size_t column = indent;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::size_t length = end - begin;
    if (column > indent && column + 1 + length > kWidth) {
      all += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      all += ' ';
      ++column;
    }
    all += text.substr(begin, length);
    column += length;
    begin = end + 1;
  }
  return all;
}

/// A choice too long for one line is named by the option's own text.
std::string shown_type(const OptionDescription& option) {
  if (is_list(option.type)) return "WORD,...";
  return choices_of(option.type).size() > 4 ? "WORD" : option.type;
}

std::string what_of(const OptionDescription& option) {
  std::string text = option.what;
  const auto words = choices_of(option.type);
  if (shown_type(option).starts_with("WORD")) {
    text += ": ";
    for (const std::string& word : words) text += word + (word == words.back() ? "" : ", ");
  }
  if (option.required) text += " (required)";
  if (option.repeatable && !option.positional) text += "; may be repeated";
  if (!option.fallback.empty()) text += fmt::format(" [{}]", option.fallback);
  return text;
}

std::string usage_of(const CommandDescription& command) {
  if (!command.parts.empty()) return command.name + (command.name == "ddlsim" ? " COMMAND ..." : " PART ...");
  std::string text = command.name + " [OPTION]...";
  for (const OptionDescription& option : command.options) {
    if (!option.positional) continue;
    const std::string word =
        option.type.empty() || option.type.find('|') != std::string::npos ? option.names.front() : option.type;
    text += " " + (option.required ? word : "[" + word + "]") + (option.repeatable ? "..." : "");
  }
  return text;
}

/// The words for values that need an explanation, in order, each once.
std::vector<std::string> types_in(const CommandDescription& command) {
  std::vector<std::string> types;
  for (const OptionDescription& option : command.options) {
    const bool explained = !how_written(option.type).empty() && option.type != "FILE" && option.type != "DIR";
    if (explained && std::find(types.begin(), types.end(), option.type) == types.end()) types.push_back(option.type);
  }
  return types;
}

std::string row(std::string head, std::string_view text, std::size_t column) {
  head = "  " + head;
  if (head.size() + 2 > column) {
    head += "\n" + std::string(column, ' ');
  } else {
    head.resize(column, ' ');
  }
  return head + wrapped(text, column) + "\n";
}

std::string head_of(const OptionDescription& option) {
  if (option.positional) return option.names.front();
  std::string text = option.names.size() == 1 && option.names.front().starts_with("--") ? "    " : "";
  for (const std::string& name : option.names) text += name + (name == option.names.back() ? "" : ", ");
  return option.type.empty() ? text : text + " " + shown_type(option);
}

// troff

std::string escaped(std::string_view text) {
  std::string out;
  bool start = true;
  for (const char c : text) {
    if (start && (c == '.' || c == '\'')) out += "\\&";
    start = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

/// Paragraphs; indented lines stay as they are.
std::string man_paragraphs(std::string_view text) {
  std::string out;
  bool filled = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const bool plain = !line.starts_with("  ");
    if (plain != filled) out += plain ? ".fi\n" : ".nf\n";
    filled = plain;
    out += line.empty() ? std::string(".PP\n") : escaped(line) + "\n";
  }
  return filled ? out : out + ".fi\n";
}

std::string man_name(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), ' ', '-');
  return text;
}

std::string man_option(const OptionDescription& option) {
  std::string text = ".TP\n";
  for (const std::string& name : option.names) {
    text += fmt::format("\\fB{}\\fR{}", escaped(name), name == option.names.back() ? "" : ", ");
  }
  if (!option.type.empty() && !option.positional) text += fmt::format(" \\fI{}\\fR", escaped(shown_type(option)));
  return text + "\n" + escaped(what_of(option)) + "\n";
}

std::string man_options(const CommandDescription& command) {
  std::string text;
  std::string group;
  for (const OptionDescription& option : command.options) {
    if (text.empty()) text = ".SH OPTIONS\n";
    if (option.group != group) text += fmt::format(".SS {}\n", escaped(option.group));
    group = option.group;
    text += man_option(option);
  }
  const auto types = types_in(command);
  if (!types.empty()) text += ".SH VALUES\n";
  for (const std::string& type : types) {
    text += fmt::format(".TP\n\\fI{}\\fR\n{}\n", escaped(type), escaped(how_written(type)));
  }
  return text;
}

constexpr std::string_view kManEnd = R"(.SH EXIT STATUS
.TP
.B 0
done
.TP
.B 1
the question has no answer: bad data, or infeasible
.TP
.B 2
wrong usage
.SH ENVIRONMENT
.TP
.B DDLSIM_DATA
folder that holds models/ and hardware/, where \-\-data does not say
.TP
.B NO_COLOR
not empty: no colour on terminals
)";

}  // namespace

CommandDescription describe(const CLI::App& app) {
  CommandDescription command{app.get_name(), app.get_description(), {}, {}, {}, {}};
  split_footer(app.get_footer(), command);
  for (const CLI::Option* option : app.get_options()) command.options.push_back(describe_option(*option));
  // A group stands where its first option does.
  std::vector<std::string> groups;
  for (const OptionDescription& option : command.options) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
  }
  const auto place = [&](const OptionDescription& option) {
    return std::pair(rank_of(option.group), std::find(groups.begin(), groups.end(), option.group) - groups.begin());
  };
  std::stable_sort(command.options.begin(), command.options.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return command;
}

void describe_parts(const std::vector<std::string>& arguments, const CommandDescription& description) {
  if (arguments.empty()) return;
  if (arguments.front() == kDescribe) throw DescribeRequest{description};
  if (arguments.front() == "--help" || arguments.front() == "-h") throw HelpRequest{help_text(description)};
}

std::string help_text(const CommandDescription& command) {
  std::string text = wrapped(command.what, 0) + "\n\nUsage: " + usage_of(command) + "\n";
  if (!command.parts.empty()) text += command.name == "ddlsim" ? "\nCommands:\n" : "\nParts:\n";
  for (const auto& [name, what] : command.parts) text += row(name, what, kWordColumn + 4);
  std::string group;
  for (const OptionDescription& option : command.options) {
    if (option.group != group) text += "\n" + option.group + ":\n";
    group = option.group;
    text += row(head_of(option), what_of(option), kTextColumn);
  }
  const auto types = types_in(command);
  if (!types.empty()) text += "\nValues:\n";
  for (const std::string& type : types) text += row(type, how_written(type), kWordColumn + 4);
  if (!command.more.empty()) text += "\n" + command.more + "\n";
  if (!command.examples.empty()) text += "\nExamples:\n" + command.examples;
  if (!command.parts.empty()) {
    text += fmt::format("\n`{} {} --help` explains one\n", command.name, command.parts.front().first);
  }
  return text;
}

std::string man_page(const CommandDescription& command) {
  const std::string name = man_name(command.name);
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string text = fmt::format(".TH {} 1 \"\" \"ddlsim {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n", escaped(title),
                                 DDLSIM_VERSION, escaped(name), escaped(command.what));
  text += fmt::format(".SH SYNOPSIS\n.B {}\n", escaped(usage_of(command)));
  text += fmt::format(".SH DESCRIPTION\n{}\n", escaped(command.what));
  if (!command.more.empty()) text += ".PP\n" + man_paragraphs(command.more);
  if (!command.parts.empty()) text += ".SH COMMANDS\n";
  for (const auto& [part, what] : command.parts) {
    text += fmt::format(".TP\n.BR {} (1)\n{}\n", escaped(man_name(command.name + " " + part)), escaped(what));
  }
  text += man_options(command);
  text += kManEnd;
  if (!command.examples.empty()) text += ".SH EXAMPLES\n.nf\n" + escaped(command.examples) + ".fi\n";
  if (command.name != "ddlsim") text += ".SH SEE ALSO\n.BR ddlsim (1)\n";
  return text;
}

std::string help_json(std::span<const CommandDescription> descriptions) {
  using Json = nlohmann::ordered_json;
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json json{{"schema", "ddlsim/help/1"}, {"commands", Json::array()}};
  for (const CommandDescription& command : descriptions) {
    Json options = Json::array();
    for (const OptionDescription& option : command.options) {
      options.push_back({{"names", option.names},
                         {"group", option.group},
                         {"what", option.what},
                         {"value", text_or_null(shown_type(option))},
                         {"written", text_or_null(std::string(how_written(option.type)))},
                         {"choices", choices_of(option.type)},
                         {"default", text_or_null(option.fallback)},
                         {"positional", option.positional},
                         {"required", option.required},
                         {"repeatable", option.repeatable}});
    }
    Json parts = Json::array();
    for (const auto& [name, what] : command.parts) parts.push_back({{"name", name}, {"what", what}});
    json["commands"].push_back({{"name", command.name},
                                {"what", command.what},
                                {"usage", usage_of(command)},
                                {"more", text_or_null(command.more)},
                                {"examples", text_or_null(command.examples)},
                                {"parts", std::move(parts)},
                                {"options", std::move(options)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddlsim::cli
