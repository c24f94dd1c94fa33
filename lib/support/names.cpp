#include "ddlsim/support/names.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "ddlsim/support/edit_distance.h"

namespace ddlsim {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), current(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      current[j] = std::min({last[j] + 1, current[j - 1] + 1, last[j - 1] + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) current[j] = std::min(current[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, current);
  }
  return last[b.size()];
}

std::string fold_name(std::string_view name) {
  std::string folded;
  folded.reserve(name.size());
  for (const char c : name) {
    const bool separator = c == ' ' || c == '_' || c == '-';
    if (!separator) {
      folded += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!folded.empty() && folded.back() != '-') {
      folded += '-';
    }
  }
  while (!folded.empty() && folded.back() == '-') folded.pop_back();
  return folded;
}

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> candidates,
                                       std::size_t most) {
  // A name of any length may come from a file; the distance is quadratic, so only its beginning is compared.
  const std::string folded = fold_name(name.substr(0, 64));
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    const std::string other = fold_name(candidate);
    const std::size_t limit = std::max<std::size_t>(1, std::max(folded.size(), other.size()) / 3);
    const std::size_t distance = edit_distance(folded, other);
    const bool part = folded.size() >= 3 && other.find(folded) != std::string::npos;
    if (distance <= limit) {
      near.emplace_back(distance, candidate);
    } else if (part) {
      near.emplace_back(limit, candidate);
    }
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (auto& [distance, candidate] : near) {
    if (names.size() == most) break;
    names.push_back(std::move(candidate));
  }
  return names;
}

std::string suggestion(std::string_view name, std::span<const std::string> candidates, std::size_t limit) {
  const std::vector<std::string> near = nearest_names(name, candidates);
  if (!near.empty()) {
    std::string text = "did you mean ";
    for (std::size_t i = 0; i < near.size(); ++i) {
      if (i > 0) text += i + 1 == near.size() ? " or " : ", ";
      text += "'" + near[i] + "'";
    }
    return text + "?";
  }
  const std::size_t shown = std::min(limit, candidates.size());
  std::string text = "valid: " + join(candidates.first(shown));
  if (shown < candidates.size()) text += " and " + std::to_string(candidates.size() - shown) + " more";
  return text;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

}  // namespace ddlsim
