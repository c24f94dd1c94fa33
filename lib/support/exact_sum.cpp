#include "ddlsim/support/exact_sum.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace ddlsim {
namespace {

constexpr std::int64_t kLow = 0xFFFFFFFF;

std::uint64_t bits_of(std::int64_t chunk) { return static_cast<std::uint64_t>(chunk); }

template <typename T>
bool read(std::string_view text, T& value, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

void ExactSum::carry() {
  std::int64_t over = 0;
  for (std::size_t i = 0; i + 1 < kChunks; ++i) {
    const std::int64_t chunk = chunks_[i] + over;
    chunks_[i] = chunk & kLow;
    over = chunk >> 32;  // towards minus infinity
  }
  chunks_.back() += over;
  uncarried_ = 0;
}

void ExactSum::add(const ExactSum& other) {
  const ExactSum more = other.carried();
  carry();
  for (std::size_t i = 0; i < kChunks; ++i) chunks_[i] += more.chunks_[i];
  carry();
  special_ += more.special_;
}

double ExactSum::value() const {
  if (special_ != 0) return special_;  // true of what is no number
  ExactSum sum = carried();
  const bool negative = sum.chunks_.back() < 0;
  if (negative) {
    for (std::int64_t& chunk : sum.chunks_) chunk = -chunk;
    sum.carry();
  }
  std::size_t top = kChunks;
  while (top > 0 && sum.chunks_[top - 1] == 0) --top;
  if (top-- == 0) return 0;
  if (sum.chunks_[top] > kLow) return std::numeric_limits<double>::infinity() * (negative ? -1 : 1);
  const auto chunk = [&](std::size_t below) { return below > top ? 0 : bits_of(sum.chunks_[top - below]); };
  // The 64 bits from the first one that is set, and whether any is set after them.
  std::uint64_t leading = chunk(0) << 32 | chunk(1);
  const int shift = std::countl_zero(leading);
  if (shift > 0) leading = leading << shift | chunk(2) >> (32 - shift);
  bool after = (chunk(2) << shift & 0xFFFFFFFF) != 0;
  for (std::size_t below = 3; below <= top && !after; ++below) after = chunk(below) != 0;
  // The last 11 are rounded away; a subnormal sum has zeros there.
  const std::uint64_t kept = leading >> 11;
  const std::uint64_t rest = leading & 0x7FF;
  const bool up = rest > 0x400 || (rest == 0x400 && (after || (kept & 1) != 0));
  const int exponent = 32 * (static_cast<int>(top) - 1) - 1075 - shift + 11;
  const double rounded = std::ldexp(static_cast<double>(kept + (up ? 1 : 0)), exponent);
  return negative ? -rounded : rounded;
}

std::string ExactSum::text() const {
  const ExactSum sum = carried();
  std::size_t first = 0;
  std::size_t last = kChunks;
  while (first < last && sum.chunks_[first] == 0) ++first;
  while (last > first && sum.chunks_[last - 1] == 0) --last;
  std::string text = first == last ? "0" : fmt::format("{}:", first);
  for (std::size_t i = first; i < last; ++i) {
    text += fmt::format("{}{:x}", i > first ? "," : "", sum.chunks_[i]);  // the last may be negative
  }
  if (std::isnan(special_)) return text + ";nan";
  if (special_ != 0) text += special_ > 0 ? ";inf" : ";-inf";
  return text;
}

std::optional<ExactSum> ExactSum::parse(std::string_view text) {
  ExactSum sum;
  if (const auto mark = text.find(';'); mark != std::string_view::npos) {
    const std::string_view word = text.substr(mark + 1);
    if (word != "nan" && word != "inf" && word != "-inf") return std::nullopt;
    const double infinite = std::numeric_limits<double>::infinity();
    sum.special_ = word == "inf" ? infinite : word == "-inf" ? -infinite : std::numeric_limits<double>::quiet_NaN();
    text = text.substr(0, mark);
  }
  if (text == "0") return sum;
  const auto colon = text.find(':');
  std::size_t at = 0;
  if (colon == std::string_view::npos || !read(text.substr(0, colon), at, 10)) return std::nullopt;
  for (std::size_t from = colon + 1; from <= text.size(); ++at) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    if (at >= kChunks || !read(text.substr(from, comma - from), sum.chunks_[at], 16)) return std::nullopt;
    if (at + 1 < kChunks && (sum.chunks_[at] < 0 || sum.chunks_[at] > kLow)) return std::nullopt;
    from = comma + 1;
  }
  return sum;
}

}  // namespace ddlsim
