#include "ddlsim/importers/launch_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "ddlsim/importers/training_way.h"
#include "ddlsim/support/lower_case.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "launch.h"

namespace ddlsim::importers {
namespace launch {
namespace {

std::string placed(const SourceLocation& where) {
  if (where.file.empty()) return {};
  return where.line == 0 ? where.file + ": " : fmt::format("{}:{}:{}: ", where.file, where.line, where.column);
}

}  // namespace

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 80)) out += (c >= ' ' && c <= '~') ? c : ' ';
  if (text.size() > 80) out += "...";
  return out;
}

Builder::Builder(const LaunchOptions& options) : gpus_of_node_(options.gpus_of_node) {
  for (const auto& [path, value] : options.stated) {
    if (LaunchSetting* known = find(path)) {
      known->value = value;
    } else {
      result_.settings.push_back({path, value, "stated at the import (--set)"});
      stated_.push_back(path);
    }
  }
}

LaunchSetting* Builder::find(std::string_view path) {
  const auto found = std::find_if(result_.settings.begin(), result_.settings.end(),
                                  [&](const LaunchSetting& setting) { return setting.path == path; });
  return found == result_.settings.end() ? nullptr : &*found;
}

const LaunchSetting* Builder::find(std::string_view path) const {
  const auto found = std::find_if(result_.settings.begin(), result_.settings.end(),
                                  [&](const LaunchSetting& setting) { return setting.path == path; });
  return found == result_.settings.end() ? nullptr : &*found;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): in the order of a line of the file
void Builder::set(std::string path, std::string value, const std::string& words, const SourceLocation& where) {
  if (std::find(stated_.begin(), stated_.end(), path) != stated_.end()) return;
  const std::string reason = where.line == 0 ? shown(words) : fmt::format("line {}: {}", where.line, shown(words));
  if (LaunchSetting* known = find(path)) {
    *known = {std::move(path), std::move(value), reason};
  } else {
    result_.settings.push_back({std::move(path), std::move(value), reason});
  }
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): in the order of a line of the file
void Builder::assume(std::string path, std::string value, const std::string& why) {
  if (find(path) == nullptr) result_.settings.push_back({std::move(path), std::move(value), why});
}

void Builder::ask(std::string path, const std::string& why, const SourceLocation& where) {
  if (find(path) != nullptr) return;
  const std::string line = where.line == 0 ? std::string() : fmt::format("line {}: ", where.line);
  result_.settings.push_back({std::move(path), std::string(kAsked), line + why});
}

void Builder::leave_out(const std::string& words, const std::string& why, const SourceLocation& where) {
  constexpr std::size_t kMost = 200;
  if (result_.left_out.size() < kMost) {
    result_.left_out.push_back(fmt::format("{}{}: {}", placed(where), shown(words), why));
  }
}

void Builder::fault(std::string message, const SourceLocation& where, std::vector<std::string> notes, ErrorCode code) {
  if (errors_.size() < io::kMaxErrors) errors_.push_back(Error{code, std::move(message), where, std::move(notes), {}});
}

bool Builder::has(std::string_view path) const { return find(path) != nullptr; }

std::string Builder::value_of(std::string_view path) const {
  const LaunchSetting* setting = find(path);
  return setting == nullptr ? std::string() : setting->value;
}

std::int64_t Builder::count_of(std::string_view path) const {
  const LaunchSetting* setting = find(path);
  if (setting == nullptr) return 0;
  return parse_count(setting->value, {0, kLargest}).value_or(0);
}

std::int64_t Builder::bytes_of_gradients() const { return value_of("parallel.states") == "mixed-16" ? 2 : 4; }

std::int64_t Builder::gpus_per_node() const {
  const std::int64_t used = count_of("gpus_per_node");
  return used > 0 ? used : has("gpus_per_node") ? 0 : gpus_of_node_;
}

Expected<LaunchImport> Builder::finish() {
  if (!errors_.empty()) return fail_with_all(std::move(errors_));
  ask("node", "which server? (ddlsim list nodes)");
  ask("nodes", "how many servers?");
  if (!result_.model) ask("model", "which model? a name (ddlsim list models) or a file (ddlsim import hf)");
  std::stable_sort(result_.settings.begin(), result_.settings.end(),
                   [](const LaunchSetting& a, const LaunchSetting& b) { return a.path < b.path; });
  return std::move(result_);
}

void assume_software(std::string_view framework, Builder& out) {
  const char* const why = "as published runs of this framework are read";
  if (const auto fused = runs_fused_blocks(framework)) {
    const char* const kernels = *fused              ? "its blocks run as fused kernels"
                                : out.has("fusion") ? "no fused kernels of its own beside what is compiled"
                                                    : "single operators unless compiled";
    out.assume("software.fused", *fused ? "yes" : "no", fmt::format("{}, {}", kernels, why));
  }
  if (const auto interval = module_launch_interval(framework)) {
    out.assume("launch_interval", to_text(*interval), fmt::format("its modules, {}", why));
  }
  const std::string_view attention = way_of(framework).attention;
  if (attention != "best") out.assume("software.attention", std::string(attention), why);
}

std::string no_rule(const std::string& name, std::span<const std::string> asked) {
  constexpr std::size_t kSlip = 2;  // letters more or fewer; longer names have words of their own
  for (const std::string& near : nearest_names(name, asked)) {
    const std::size_t more = std::max(near.size(), name.size()) - std::min(near.size(), name.size());
    if (near != name && more <= kSlip) return "no rule here: did you mean '" + near + "'?";
  }
  return "no rule here";
}

Tree::Found Tree::find(std::string_view path) {
  asked_.emplace_back(path);
  const io::Node* node = &root_;
  std::string_view left = path;
  while (!left.empty()) {
    if (node->kind != io::NodeKind::kMap) return {};
    const std::size_t dot = std::min(left.find('.'), left.size());
    const std::string_view key = left.substr(0, dot);
    const auto entry = std::find_if(node->entries.begin(), node->entries.end(),
                                    [&](const io::Entry& candidate) { return candidate.key == key; });
    if (entry == node->entries.end()) return {};
    node = &entry->value;
    left.remove_prefix(std::min(dot + 1, left.size()));
  }
  close(std::string(path));
  if (node->kind == io::NodeKind::kScalar && (node->text == "null" || node->text == "~" || node->text.empty())) {
    return {};
  }
  const char* shape = node->kind == io::NodeKind::kMap ? "{...}" : "[...]";
  return {node, fmt::format("{} = {}", path, node->kind == io::NodeKind::kScalar ? shown(node->text) : shape)};
}

bool Tree::has(std::string_view key) const {
  return std::any_of(root_.entries.begin(), root_.entries.end(),
                     [&](const io::Entry& entry) { return entry.key == key; });
}

Tree::Found Tree::find_first(const std::vector<std::string>& paths) {
  Found first;
  for (const std::string& path : paths) {
    Found found = find(path);
    if (found && !first) first = std::move(found);
  }
  return first;
}

bool Tree::is_auto(const Found& found) {
  return found && found.node->kind == io::NodeKind::kScalar && lower_case(found.node->text) == "auto";
}

std::optional<std::int64_t> Tree::count(const Found& found, std::int64_t least) {
  if (!found || is_auto(found)) return std::nullopt;
  std::string text = found.node->kind == io::NodeKind::kScalar ? found.node->text : std::string("?");
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  const bool negative = text.starts_with('-');
  const auto value = parse_count(negative ? text.substr(1) : text, {0, kLargest});
  const std::int64_t number = value ? (negative ? -*value : *value) : 0;
  if (value && number >= least) return number;
  // 5e8 is how JSON writes a large whole number.
  const auto real = parse_number(text);
  if (real && *real >= static_cast<double>(least) && *real <= static_cast<double>(kLargest) &&
      *real == static_cast<double>(static_cast<std::int64_t>(*real))) {
    return static_cast<std::int64_t>(*real);
  }
  out_.fault(fmt::format("'{}'", found.words), found.where(),
             {fmt::format("it must be a whole number from {} to {}", least, kLargest)});
  return std::nullopt;
}

std::optional<bool> Tree::flag(const Found& found) {
  if (!found || is_auto(found)) return std::nullopt;
  const std::string text = found.node->kind == io::NodeKind::kScalar ? lower_case(found.node->text) : std::string();
  if (text == "true" || text == "yes") return true;
  if (text == "false" || text == "no") return false;
  out_.fault(fmt::format("'{}'", found.words), found.where(), {"it must be true or false"});
  return std::nullopt;
}

std::string Tree::word(const Found& found) {
  if (!found) return {};
  if (found.node->kind == io::NodeKind::kScalar) return lower_case(found.node->text);
  out_.fault(fmt::format("'{}'", found.words), found.where(), {"it must be a text"});
  return {};
}

}  // namespace launch

namespace {

/// A YAML scalar, quoted unless it is plain beyond doubt.
std::string scalar(const std::string& value) {
  const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '/' || c == '-';
  }) && value.front() != '-';
  if (plain) return value;
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c >= ' ' ? c : ' ';
  }
  return out + '"';
}

}  // namespace

std::string write_scenario(const LaunchImport& launch, const std::string& title, const std::string& model) {
  std::vector<LaunchSetting> settings = launch.settings;
  if (launch.model && !model.empty()) settings.push_back({"model", model, "what the arguments describe"});
  // `model` has both a value and settings under it.
  for (LaunchSetting& setting : settings) {
    const bool outer = std::any_of(settings.begin(), settings.end(), [&](const LaunchSetting& other) {
      return other.path.starts_with(setting.path + ".");
    });
    if (outer) setting.path += ".name";
  }
  std::stable_sort(settings.begin(), settings.end(), [](const LaunchSetting& a, const LaunchSetting& b) {
    const auto group = [](const std::string& path) { return path.substr(0, path.find('.')); };
    const auto order = [](const std::string& path) { return path == "model" ? 0 : path.starts_with("node") ? 1 : 2; };
    const std::string left = group(a.path);
    const std::string right = group(b.path);
    if (left != right) return std::pair(order(left), left) < std::pair(order(right), right);
    return a.path < b.path;
  });
  std::string text = "# " + launch::shown(title) + "\n";
  std::string open;
  for (const LaunchSetting& setting : settings) {
    const std::size_t dot = setting.path.find('.');
    const bool nested = dot != std::string::npos;
    const std::string head = setting.path.substr(0, dot);
    if (nested && head != open) text += head + ":\n";
    open = nested ? head : "";
    const std::string line = fmt::format("{}{}: {}", nested ? "  " : "", nested ? setting.path.substr(dot + 1) : head,
                                         scalar(setting.value));
    text += fmt::format("{:<36}  # {}\n", line, setting.reason);
  }
  return text;
}

Expected<LaunchImport> parse_launch(LaunchFormat format, std::string_view text, const std::string& file,
                                    const LaunchOptions& options) {
  if (text.size() > io::kMaxFileSize) return fail(ErrorCode::kIo, "is over 16 MiB", {file, 0, 0});
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return fail(ErrorCode::kParse, "is empty", {file, 1, 1});
  }
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return fail(ErrorCode::kParse, "is no text: it has a zero byte", {file, 0, 0});
  }
  switch (format) {
    case LaunchFormat::kMegatron: return launch::megatron(text, file, options);
    case LaunchFormat::kDeepSpeed: return launch::deepspeed(text, file, options);
    case LaunchFormat::kTorchtitan: return launch::torchtitan(text, file, options);
    case LaunchFormat::kAccelerate: return launch::accelerate(text, file, options);
  }
  return fail(ErrorCode::kUnsupported, "unknown format", {file, 0, 0});
}

Expected<LaunchImport> import_launch(LaunchFormat format, const std::filesystem::path& path,
                                     const LaunchOptions& options) {
  return io::read_file(path).and_then(
      [&](const std::string& text) { return parse_launch(format, text, path.string(), options); });
}

}  // namespace ddlsim::importers
