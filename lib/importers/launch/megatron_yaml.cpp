// Megatron's arguments in YAML: by the names of its command line, of Megatron-Core's configurations (TransformerConfig,
// DistributedDataParallelConfig), of NeMo and of Megatron-Bridge.
//
// A key counts by its own name, whatever it stands under. ${...} is OmegaConf's: ${NAME} is a --define, ${model.hidden}
// a key from the root, ${.hidden} one beside it, ${..hidden} one level up; ${oc.env:NAME,default}; multiply,
// divide_ceil and divide_floor are NeMo's (nemo_launcher/main.py). What none of them says stays unknown.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ddlsim/support/checked.h"
#include "ddlsim/support/quantity_io.h"
#include "megatron_arguments.h"
#include "shell_words.h"

namespace ddlsim::importers::launch {
namespace {

/// A key of Megatron-Core and the command line's option for it. `inverted`: a switch that says the opposite.
struct CoreName {
  std::string_view key;
  std::string_view option;
  bool inverted = false;
};
constexpr std::array kCoreNames{
    CoreName{"num-moe-experts", "num-experts"},
    CoreName{"num-layers-in-first-pipeline-stage", "decoder-first-pipeline-num-layers"},
    CoreName{"num-layers-in-last-pipeline-stage", "decoder-last-pipeline-num-layers"},
    CoreName{"bucket-size", "ddp-bucket-size"},
    CoreName{"apply-rope-fusion", "no-rope-fusion", true},
    CoreName{"bias-dropout-fusion", "no-bias-dropout-fusion", true},
    CoreName{"bias-dropout-add-fusion", "no-bias-dropout-fusion", true},
    CoreName{"gradient-accumulation-fusion", "no-gradient-accumulation-fusion", true},
};

/// megatron/core/transformer/enums.py, AttnBackend.
constexpr std::array<std::string_view, 5> kBackends{"flash", "fused", "unfused", "local", "auto"};

const io::Node* child(const io::Node& map, std::string_view key) {
  const auto found =
      std::find_if(map.entries.begin(), map.entries.end(), [&](const io::Entry& entry) { return entry.key == key; });
  return found == map.entries.end() ? nullptr : &found->value;
}

/// Behind the bracket that closes the one before `at`; npos where none does.
std::size_t closed_behind(std::string_view text, std::size_t at) {
  for (int open = 1; at < text.size(); ++at) {
    open += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
    if (open == 0) return at + 1;
  }
  return std::string_view::npos;
}

std::string_view trimmed_of_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

/// A map and those it stands in.
struct Enclosed {
  const io::Node* map = nullptr;
  const Enclosed* by = nullptr;
};

/// Puts in what ${...} stands for.
class Interpolation {
 public:
  Interpolation(const io::Node& root, const LaunchOptions& options) : root_(root), options_(options) {}

  /// `place`: the map that the text is a value of.
  [[nodiscard]] std::string text(std::string_view raw, const Enclosed& place) { return text_at(raw, place, 0); }

 private:
  static constexpr int kMostLevels = 16;

  std::string text_at(std::string_view raw, const Enclosed& place, int level) {
    std::string out;
    while (!raw.empty()) {
      const std::size_t start = std::min(raw.find("${"), raw.size());
      out += raw.substr(0, start);
      raw.remove_prefix(start);
      if (raw.empty()) break;
      const std::size_t end = closed_behind(raw, 2);
      const std::string_view whole = raw.substr(0, end);
      const auto value = end == std::string_view::npos || level >= kMostLevels
                             ? std::nullopt
                             : value_of(trimmed_of_blanks(whole.substr(2, whole.size() - 3)), place, level + 1);
      out += value ? *value : shell::kUnknown + std::string(whole) + shell::kEnd;
      raw.remove_prefix(whole.size());
    }
    return out;
  }

  std::optional<std::string> value_of(std::string_view inside, const Enclosed& place, int level) {
    if (room_ == 0) return std::nullopt;
    --room_;
    const std::size_t colon = inside.find(':');
    if (colon != std::string_view::npos) {
      return called(inside.substr(0, colon), arguments_of(inside.substr(colon + 1)), place, level);
    }
    for (const auto& [name, value] : options_.variables) {
      if (name == inside) return value;
    }
    return keyed(inside, place, level);
  }

  /// What stands between commas, but not those within brackets.
  static std::vector<std::string_view> arguments_of(std::string_view list) {
    std::vector<std::string_view> parts;
    int open = 0;
    std::size_t start = 0;
    for (std::size_t at = 0; at <= list.size(); ++at) {
      const char c = at < list.size() ? list[at] : ',';
      open += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (c != ',' || (open > 0 && at < list.size())) continue;
      parts.push_back(trimmed_of_blanks(list.substr(start, at - start)));
      start = at + 1;
    }
    return parts;
  }

  std::optional<std::string> called(std::string_view name, const std::vector<std::string_view>& arguments,
                                    const Enclosed& place, int level) {
    if (name == "oc.env" || name == "env") {
      for (const auto& [variable, value] : options_.variables) {
        if (variable == arguments.front()) return value;
      }
      return arguments.size() == 2 ? std::optional(text_at(arguments[1], place, level)) : std::nullopt;
    }
    if (arguments.size() != 2) return std::nullopt;
    const auto a = parse_count(text_at(arguments[0], place, level), {0, kLargest});
    const auto b = parse_count(text_at(arguments[1], place, level), {1, kLargest});
    if (!a || !b) return std::nullopt;
    std::optional<std::int64_t> result;
    if (name == "multiply") result = checked_multiply(*a, *b);
    if (name == "divide_floor") result = *a / *b;
    if (name == "divide_ceil") result = (*a + *b - 1) / *b;
    return result ? std::optional(std::to_string(*result)) : std::nullopt;
  }

  std::optional<std::string> keyed(std::string_view path, const Enclosed& place, int level) {
    const std::size_t dots = std::min(path.find_first_not_of('.'), path.size());
    path.remove_prefix(dots);
    const Enclosed* from = &place;
    for (std::size_t up = 1; up < dots && from != nullptr; ++up) from = from->by;
    const Enclosed root{&root_, nullptr};
    if (dots == 0) from = &root;
    return from == nullptr || from->map == nullptr ? std::nullopt : scalar_at(path, *from, level);
  }

  std::optional<std::string> scalar_at(std::string_view path, const Enclosed& from, int level) {
    const std::size_t dot = path.find('.');
    const io::Node* found = child(*from.map, path.substr(0, dot));
    if (found == nullptr) return std::nullopt;
    const Enclosed inside{found, &from};
    if (dot != std::string_view::npos) return scalar_at(path.substr(dot + 1), inside, level);
    if (found->kind != io::NodeKind::kScalar) return std::nullopt;
    room_ -= std::min(room_, found->text.size());
    return text_at(found->text, from, level);
  }

  const io::Node& root_;
  const LaunchOptions& options_;
  std::size_t room_ = std::size_t{1} << 17;  // of text that is put in
};

class YamlReader {
 public:
  YamlReader(const io::Node& root, const LaunchOptions& options, Arguments& arguments, Builder& out)
      : texts_(root, options), arguments_(arguments), out_(out) {}

  /// `key`: of `node` in the map `place`.
  void read(const io::Node& node, const std::string& key, const Enclosed& place) {
    if (node.kind == io::NodeKind::kMap) return read_map(node, key, place);
    if (node.kind == io::NodeKind::kScalar) return read_scalar(node, key, place);
    Argument argument{.name = option_of_key(key), .values = {}, .where = node.where};
    const bool flat = std::all_of(node.items.begin(), node.items.end(),
                                  [](const io::Node& item) { return item.kind == io::NodeKind::kScalar; });
    if (flat) {
      for (const io::Node& item : node.items) argument.values.push_back(texts_.text(item.text, place));
      if (argument.name == "moe-layer-freq") argument.values = {fmt::format("[{}]", joined(argument.values, ","))};
    } else {
      argument.values = {key == "pipeline_model_parallel_layout"
                             ? letters_of(node)
                             : shell::kUnknown + std::string("[...]") + shell::kEnd};
    }
    add(std::move(argument), key);
  }

 private:
  void read_map(const io::Node& node, const std::string& key, const Enclosed& place) {
    if (const io::Node* made = child(node, "_target_"); made != nullptr && is_object(node)) {
      return read_object(node, *made, key);
    }
    const Enclosed inside{&node, &place};
    for (const io::Entry& entry : node.entries) {
      // What a data set was told of the degrees says nothing about them (Megatron-Bridge), and optim.name is no other's
      // name (NeMo).
      if (key == "dataset" && entry.key.ends_with("_parallel_size")) {
        out_.pass_by();
      } else if (entry.key == "_target_") {
        read_class(node, entry.value);
      } else {
        read(entry.value, key == "optim" && entry.key == "name" ? "optim_name" : entry.key, inside);
      }
    }
  }

  /// The class that a description of layers is for, and that has defaults of its own.
  void read_class(const io::Node& node, const io::Node& name) {
    const bool model = child(node, "num_layers") != nullptr || child(node, "hidden_size") != nullptr;
    if (!model || name.kind != io::NodeKind::kScalar) return out_.pass_by();
    arguments_.add({.name = "_target_", .values = {name.text}, .where = name.where});
  }

  /// Whether a map is one value, as Python has it: all its keys are of the machinery that makes it.
  static bool is_object(const io::Node& node) {
    return std::all_of(node.entries.begin(), node.entries.end(),
                       [](const io::Entry& entry) { return entry.key.starts_with('_'); });
  }

  /// {_target_: torch.nn.functional.silu, _call_: false}; of an enumeration _args_ has the number.
  void read_object(const io::Node& node, const io::Node& made, const std::string& key) {
    std::string text = made.text;
    if (const io::Node* inside = child(node, "_args_"); inside != nullptr) {
      const auto number =
          parse_count(inside->items.size() == 1 ? inside->items.front().text : "", {1, kBackends.size()});
      text = key == "attention_backend" && number ? std::string(kBackends[static_cast<std::size_t>(*number) - 1])
                                                  : shell::kUnknown + text + shell::kEnd;
    }
    add({.name = option_of_key(key), .values = {text.substr(text.rfind('.') + 1)}, .where = made.where}, key);
  }

  void read_scalar(const io::Node& node, const std::string& key, const Enclosed& place) {
    const CoreName* core = core_name(key);
    std::string text = texts_.text(node.text, place);
    if (text.empty() || is_none(text)) {  // null is not stated
      arguments_.add_null(option_of_key(key));
      return out_.pass_by();
    }
    if (core != nullptr && core->inverted) {
      if (text == "true" || text == "True") return out_.pass_by();
      if (text == "false" || text == "False") text = "True";
    }
    add({.name = option_of_key(key), .values = {std::move(text)}, .where = node.where}, key);
  }

  static const CoreName* core_name(const std::string& key) {
    const std::string name = dashed(key);
    const auto* found =
        std::find_if(kCoreNames.begin(), kCoreNames.end(), [&](const CoreName& core) { return core.key == name; });
    return found == kCoreNames.end() ? nullptr : found;
  }
  static std::string option_of_key(const std::string& key) {
    const CoreName* core = core_name(key);
    return core == nullptr ? dashed(key) : std::string(core->option);
  }

  static std::string joined(const std::vector<std::string>& values, std::string_view between) {
    std::string text;
    for (const std::string& value : values) {
      if (!text.empty()) text += between;
      text += value;
    }
    return text;
  }

  /// [[embedding, decoder], [decoder, loss]] as Megatron's words for it: Et|tL.
  static std::string letters_of(const io::Node& parts) {
    constexpr std::array<std::pair<std::string_view, char>, 4> kLetters{
        {{"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}}};
    std::string text;
    for (const io::Node& part : parts.items) {
      if (&part != &parts.items.front()) text += '|';
      for (const io::Node& layer : part.items) {
        const auto* known = std::find_if(kLetters.begin(), kLetters.end(), [&](const auto& row) {
          return row.first == layer.text || layer.text == std::string(1, row.second);
        });
        text += known == kLetters.end() ? '?' : known->second;
      }
    }
    return text;
  }

  void add(Argument argument, const std::string& key) {
    const auto same = std::find_if(arguments_.all().begin(), arguments_.all().end(),
                                   [&](const Argument& known) { return known.name == argument.name; });
    if (same != arguments_.all().end() && same->values != argument.values && is_sign(argument.name)) {
      out_.fault(
          fmt::format("'{}' is given twice, as {} and as {}", key, shown(same->words()), shown(argument.words())),
          argument.where, {fmt::format("the other stands in line {}: keep one", same->where.line)});
      return;
    }
    arguments_.add(std::move(argument));
  }

  Interpolation texts_;
  Arguments& arguments_;
  Builder& out_;
};

}  // namespace

void read_yaml(const io::Node& root, const LaunchOptions& options, Arguments& arguments, Builder& out) {
  YamlReader(root, options, arguments, out).read(root, "", {});
}

}  // namespace ddlsim::importers::launch
