#include "model_name.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

#include "ddlsim/support/lower_case.h"

namespace ddlsim::io {
namespace {

constexpr std::string_view kBetween = "-_ ";

constexpr auto kWords = std::to_array<std::string_view>(
    {"hf", "instruct", "chat", "base", "it", "pt", "thinking", "sft", "dpo", "lora", "qlora", "bf16", "model"});

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// A tuning; the month of a release, as Qwen has it (2507); its version, as Mistral has it (v0.1).
bool is_of_release(const std::string& word) {
  constexpr std::size_t kMonth = 4;
  if (std::find(kWords.begin(), kWords.end(), word) != kWords.end()) return true;
  if (word.size() == kMonth && is_digits(word)) return true;
  return word.starts_with("v0.") && is_digits(std::string_view(word).substr(3));
}

/// A word "7b", "0.6b", "8x7b".
bool has_size(const std::string& name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find_first_of(kBetween, begin), name.size());
    const std::string_view word = std::string_view(name).substr(begin, end - begin);
    const bool sized = word.size() > 1 && word.back() == 'b' &&
                       word.substr(0, word.size() - 1).find_first_not_of("0123456789.x") == std::string_view::npos;
    if (sized) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

std::optional<std::string_view> less_of_release(std::string_view name) {
  if (name.ends_with(".yaml") || name.starts_with('.') || name.starts_with('/')) return std::nullopt;
  if (const std::size_t owner = name.find('/'); owner != std::string_view::npos) {
    const std::string_view rest = name.substr(owner + 1);
    if (rest.find('/') != std::string_view::npos || !has_size(lower_case(rest))) return std::nullopt;
    return rest;
  }
  const std::size_t last = name.find_last_of(kBetween);
  if (last == std::string_view::npos || !is_of_release(lower_case(name.substr(last + 1)))) return std::nullopt;
  const std::string_view rest = name.substr(0, last);
  return has_size(lower_case(rest)) ? std::optional(rest) : std::nullopt;
}

std::optional<std::string> id_by_backbone(std::string_view name) {
  std::string rest;
  for (const char c : lower_case(name)) {
    if (c == '+') rest += "plus";
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) rest += c;
  }
  const auto take = [&](std::string_view word) {
    const bool is = rest.starts_with(word);
    if (is) rest.erase(0, word.size());
    return is;
  };
  using Head = std::pair<std::string_view, std::string_view>;  // as it is written, and in ids
  constexpr auto kHeads = std::to_array<Head>({{"fasterrcnn", "fasterrcnn"},
                                               {"faster", "fasterrcnn"},
                                               {"maskrcnn", "maskrcnn"},
                                               {"mask", "maskrcnn"},
                                               {"cascadercnn", "cascadercnn"},
                                               {"retinanet", "retinanet"},
                                               {"fcn", "fcn"},
                                               {"pspnet", "pspnet"},
                                               {"deeplabv3plus", "deeplabv3plus"},
                                               {"deeplabv3", "deeplabv3"},
                                               {"detr", "detr"}});
  const auto found = std::find_if(kHeads.begin(), kHeads.end(), [&](const Head& head) { return take(head.first); });
  if (found == kHeads.end()) return std::nullopt;
  const std::string_view head = found->second;
  const bool grouped = take("resnext") || take("x");
  if (!grouped && !take("resnet") && !take("r")) return std::nullopt;
  std::string id = std::string(head) + (grouped ? "_resnext" : "_resnet");
  const bool deep = take("101");
  if (!deep && !take("50")) return std::nullopt;
  id += deep ? "101" : "50";
  if (grouped) {
    take("32x8d");
    id += "_32x8d";
  }
  const bool has_levels = head.ends_with("rcnn") || head == "retinanet";
  const bool one_map = has_levels && take("c4");
  // As these are built: with a pyramid, or with a deep stem and maps of an eighth.
  while (take("fpn") || take("v1c") || take("d8")) {
  }
  if (!rest.empty()) return std::nullopt;
  return id + (one_map ? "_c4" : has_levels ? "_fpn" : "");
}

}  // namespace ddlsim::io
