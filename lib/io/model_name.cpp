#include "model_name.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

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

}  // namespace ddlsim::io
