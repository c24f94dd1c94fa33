#include "cases/case_denial.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <vector>

namespace ddlsim::whatif {
namespace {

bool is_rdma(std::string_view word) {
  constexpr auto kWords = std::to_array<std::string_view>(
      {"infiniband", "ib", "rdma", "roce", "rocev2", "verbs", "efa", "ndr", "hdr", "edr", "fdr"});
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

/// Runs of letters and digits, a number with its unit among them.
bool is_joined(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '/'; }

std::vector<TextPart> words_in(std::string_view text) {
  std::vector<TextPart> words;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && is_joined(text[end])) ++end;
    if (end > begin) words.push_back({text.substr(begin, end - begin), begin, end});
    begin = std::max(end, begin + 1);
  }
  return words;
}

}  // namespace

std::optional<TextPart> denied_rdma_in(std::string_view text) {
  const auto is = [](std::string_view word, std::initializer_list<std::string_view> some) {
    return std::find(some.begin(), some.end(), word) != some.end();
  };
  const std::vector<TextPart> words = words_in(text);
  const auto word = [&](std::size_t i) { return i < words.size() ? words[i].text : std::string_view(); };
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_rdma(word(i))) continue;
    const auto from = [&](std::size_t first, std::size_t last) {
      return TextPart{word(i), words[first].begin, words[last].end};
    };
    if (i > 0 && is(word(i - 1), {"no", "not", "non", "without", "w/o", "lacks", "lacked", "disabled", "disabling"})) {
      return from(i - 1, i);
    }
    std::size_t next = i + 1;
    while (is(word(next), {"is", "was", "were", "are", "support", "transport", "driver"})) ++next;
    if (is(word(next), {"off", "disabled", "unavailable", "absent", "missing"})) return from(i, next);
    if (word(next) == "disable" && is(word(next + 1), {"1", "true", "yes"})) {
      return from(i > 0 && word(i - 1) == "nccl" ? i - 1 : i, next + 1);
    }
    if (word(next) == "not" &&
        is(word(next + 1), {"used", "available", "installed", "enabled", "present", "supported"})) {
      return from(i, next + 1);
    }
  }
  return std::nullopt;
}

}  // namespace ddlsim::whatif
