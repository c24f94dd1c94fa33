// Lists and ranges of values as people write them.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/grid.h"

namespace ddlsim::whatif {
namespace {

constexpr std::size_t kMostOfAxis = 1'000'000;
constexpr double kSlack = 1e-9;  // 0.1..0.3:+0.1 ends at 0.3

std::string without_spaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return std::string(text);
}

/// The number at the head of a text, which it takes off.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// As short as it can be told to twelve digits: 0.1 + 0.2 is 0.3.
std::string number_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  return fmt::format("{:.12g}", value);
}

struct RangeText {
  double low = 0;
  double high = 0;
  bool times = false;
  double step = 0;
  std::string unit;  // " Gb/s", as it was written
};

tl::unexpected<Error> no_range(std::string_view text, std::string why) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("'{}': {}", text.substr(0, 60), why), {},
              {"ranges are LOW..HIGH:xFACTOR or LOW..HIGH:+STEP, as 1..64:x2 or 32..512:+32"});
}

/// Nothing: no range at all, as "../model.yaml". A unit stands once, after all, or after each of the ends as well.
Expected<std::optional<RangeText>> read_range(std::string_view whole) {
  const std::size_t dots = std::min(whole.find(".."), whole.size());  // "1." is a number, too
  std::string_view first = whole.substr(0, dots);
  RangeText range;
  const auto low = take_number(first);
  if (!low || dots == whole.size()) return std::optional<RangeText>();
  std::string_view text = whole.substr(dots + 2);
  range.low = *low;
  const auto high = take_number(text);
  if (!high && !first.empty()) return std::optional<RangeText>();
  if (!high) return no_range(whole, "the range has no end");
  range.high = *high;
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return no_range(whole, fmt::format("the range has no step, as {0}:+1 or {0}:x2", whole.substr(0, 60)));
  }
  const std::string_view last = text.substr(0, colon);
  text.remove_prefix(colon + 1);
  range.times = text.starts_with("x");
  if (!range.times && !text.starts_with("+")) return no_range(whole, "the step is neither xFACTOR nor +STEP");
  text.remove_prefix(1);
  const auto step = take_number(text);
  if (!step) return no_range(whole, "the step is no number");
  range.step = *step;
  range.unit = text;
  for (const std::string_view unit : {last, first}) {
    if (range.unit.empty()) range.unit = unit;
    if (!unit.empty() && without_spaces(unit) != without_spaces(range.unit)) {
      return no_range(whole, "its ends and its step have different units");
    }
  }
  return std::optional<RangeText>(std::move(range));
}

}  // namespace

Expected<std::vector<std::string>> range_of(std::string_view text) {
  const auto read = read_range(text);
  if (!read) return tl::unexpected<Error>(read.error());
  if (!*read) return std::vector<std::string>{std::string(text)};
  const RangeText& range = **read;
  if (range.high < range.low) return no_range(text, "it ends before it begins");
  const bool arrives = range.times ? range.step > 1 && range.low > 0 : range.step > 0;
  if (!arrives) return no_range(text, "its step never arrives at the end");
  std::vector<std::string> values;
  const double end = range.high + kSlack * std::abs(range.high);
  double value = range.low;
  for (std::int64_t i = 1; value <= end; ++i) {
    if (values.size() == kMostOfAxis) return no_range(text, "it has over a million values");
    std::string one = number_text(value) + range.unit;
    if (!values.empty() && values.back() == one) return no_range(text, "its step is too small to tell values apart");
    values.push_back(std::move(one));
    value = range.times ? value * range.step : range.low + static_cast<double>(i) * range.step;
  }
  return values;
}

Expected<std::vector<std::string>> values_of(std::string_view text) {
  std::vector<std::string> values;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    const std::string one = without_spaces(text.substr(start, comma - start));
    start = comma + 1;
    if (one.empty()) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' has an empty value", text.substr(0, 60)), {},
                  {"commas part values: 25 Gb/s, 100 Gb/s"});
    }
    auto more = range_of(one);
    if (!more) return more;
    values.insert(values.end(), std::make_move_iterator(more->begin()), std::make_move_iterator(more->end()));
  }
  return values;
}

Expected<Shard> parse_shard(std::string_view text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto number = parse_count(text.substr(0, slash), {1, kMaxShards});
  const auto of = slash == text.size() ? number : parse_count(text.substr(slash + 1), {1, kMaxShards});
  if (slash == text.size() || !number || !of || *number > *of) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no part of a grid", text.substr(0, 60)), {},
                {fmt::format("K/N: part K from 1 to N of N, which is at most {}, as 3/16", kMaxShards)});
  }
  return Shard{*number, *of};
}

}  // namespace ddlsim::whatif
