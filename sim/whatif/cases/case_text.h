// Words in what a case says. Private to the room.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <string>
#include <string_view>

#include "ddlsim/io/case_file.h"
#include "ddlsim/support/lower_case.h"

namespace ddlsim::whatif {

[[nodiscard]] inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

[[nodiscard]] inline bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return has(text, part); });
}

/// Whether a word stands in the text by itself, letters and digits around it apart; "no" and "not" before it deny it.
[[nodiscard]] inline bool has_word(std::string_view text, std::string_view word) {
  const auto joins = [&](std::size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::string_view before = text.substr(0, at);
    const bool denied = before.ends_with("no ") || before.ends_with("not ");
    if (!(at > 0 && joins(at - 1)) && !joins(at + word.size()) && !denied) return true;
  }
  return false;
}

/// The words of a name: runs of letters, and of digits with their points, in lower case and with a space around each:
/// "Qwen2.5-7B" is " qwen 2.5 7 b ".
[[nodiscard]] inline std::string words_of(std::string_view name) {
  const auto kind = [](char c) {
    const auto letter = static_cast<unsigned char>(c);
    return std::isalpha(letter) != 0 ? 'a' : std::isdigit(letter) != 0 || c == '.' ? '0' : ' ';
  };
  std::string words = " ";
  for (const char c : name) {
    if (words.back() != ' ' && kind(c) != kind(words.back())) words += ' ';
    if (kind(c) != ' ') words += lower_letter(c);
  }
  if (words.back() != ' ') words += ' ';
  return words;
}

/// Whether some words of `words_of` follow each other there.
[[nodiscard]] inline bool has_phrase(std::string_view words, std::string_view some) {
  return has(words, " " + std::string(some) + " ");
}

/// Whether all of the words, which spaces part, stand in the text.
[[nodiscard]] inline bool has_all_words(std::string_view text, std::string_view words) {
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    if (!has(text, words.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

/// Whether a case says something of `key` in which `part` stands.
[[nodiscard]] inline bool says(const io::Case& one, std::string_view key, std::string_view part) {
  const auto value = one.said(key);
  return value && has(lower_case(*value), part);
}

/// Whether a case says yes to `key`.
[[nodiscard]] inline bool affirms(const io::Case& one, std::string_view key) {
  const std::string value = lower_case(one.said(key).value_or(""));
  return value.starts_with("true") || value.starts_with("yes") || value == "y" || value == "1" || value == "on";
}

inline constexpr std::array<std::string_view, 6> kDenials{"false", "no ", "not ", "none", "disabled", "without"};

/// Whether it says no.
[[nodiscard]] inline bool denies(const io::Case& one, std::string_view key) {
  const std::string value = lower_case(one.said(key).value_or(""));
  if (value.starts_with("not stated") || value.starts_with("not said")) return false;
  return value == "no" || value == "n" || value == "0" || value == "off" ||
         std::any_of(kDenials.begin(), kDenials.end(), [&](std::string_view no) { return value.starts_with(no); });
}

/// "AMP/mixed (submission default)" is amp, "FP16(no AMP)" fp16, "bfloat16" and "bf16-mixed" bf16, Apex's "O2" amp.
[[nodiscard]] inline std::string precision_of(std::string_view published) {
  std::string all = lower_case(published);
  std::replace(all.begin(), all.end(), '_', ' ');
  std::string word = all.substr(0, all.find_first_of(" /(,;+"));
  if (has_any(all, {"mixed precision", "mixed-precision"}) && !has_any(all, {"fp8", "bf16", "bfloat16"})) return "amp";
  if (word == "xla") word = all.substr(std::min(all.find_last_of(' ') + 1, all.size()));
  if (word == "32" || word == "32-true" || word == "32-bit" || word == "32bit" || word == "full") return "fp32";
  if (word == "16" || word == "16-mixed" || word == "16-bit" || word == "16bit") return "amp";
  if (word == "o1" || word == "o2") return "amp";  // Apex's
  if (word == "bfloat16" || word.starts_with("bf16") || word.ends_with("-bf16")) return "bf16";
  if (word.ends_with("autocast")) return has_any(all, {"bf16", "bfloat16"}) ? "bf16" : "amp";
  if (word.empty() || word == "float" || word == "float32" || word == "single") return "fp32";
  if (word == "mixed" || word == "half" || word == "float16") return "fp16";
  if (word == "nvfp4" || word == "mxfp4") return "fp4";
  // Recipes of 8 bits differ in how blocks of numbers are scaled; products run at the same rate.
  if (word == "mxfp8" || word.starts_with("fp8-")) return "fp8";
  return word;
}

}  // namespace ddlsim::whatif
