#include "gpu_name.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>
#include "ddlsim/support/lower_case.h"

namespace ddlsim::io {
namespace {

constexpr auto kSaysNothing = std::to_array<std::string_view>(
    {"accelerator", "amd", "ampere", "blackwell", "core", "geforce", "gpu", "gpus", "hbm2", "hbm2e", "hbm3", "hbm3e",
     "hopper", "instinct", "nv", "nvidia", "radeon", "tensor", "tesla", "turing", "volta", "with",
     // what makers of cards call theirs
     "aorus", "blower", "edition", "eagle", "founders", "gaming", "oc", "rog", "strix", "suprim", "trio", "tuf",
     "ventus"});

bool is_number(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::vector<std::string> words_in(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) {
      words.back() += lower_letter(c);
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// "8x" at the beginning.
bool is_count(std::string_view word) { return word.ends_with('x') && is_number(word.substr(0, word.size() - 1)); }

}  // namespace

std::set<std::string> gpu_words(std::string_view name) {
  std::vector<std::string> words = words_in(name);
  if (!words.empty() && is_count(words.front())) words.erase(words.begin());
  std::set<std::string> kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    const bool unit_follows = i + 1 < words.size() && (words[i + 1] == "gb" || words[i + 1] == "g");
    if (is_number(word) && unit_follows) {
      word += "gb";
      ++i;
    } else if (word.ends_with('g') && is_number(std::string_view(word).substr(0, word.size() - 1))) {
      word += 'b';
    } else if ((word.starts_with("sxm") || word.starts_with("smx")) &&
               (word.size() == 3 || is_number(std::string_view(word).substr(3)))) {
      word = "sxm";
    }
    if (std::find(kSaysNothing.begin(), kSaysNothing.end(), word) == kSaysNothing.end()) kept.insert(std::move(word));
  }
  return kept;
}

}  // namespace ddlsim::io
