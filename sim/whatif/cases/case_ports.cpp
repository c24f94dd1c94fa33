#include "cases/case_ports.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>

#include "cases/case_text.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

/// The whole number that begins at `begin`, spaces and a dash aside.
std::optional<Number> number_after(std::string_view text, std::size_t begin) {
  while (begin < text.size() && (text[begin] == ' ' || text[begin] == '-')) ++begin;
  std::size_t end = begin;
  while (end < text.size() && is_digit(text[end])) ++end;
  const auto number = parse_number(text.substr(begin, end - begin));
  if (!number || *number <= 0 || *number > 1e6) return std::nullopt;
  return Number{*number, begin, end};
}

/// Rates that links are sold with: a number with a bare "g" is one of them, or no rate ("a3-highgpu-8g").
bool is_sold(double gigabits) {
  constexpr auto kSold = std::to_array<double>({10, 20, 25, 40, 50, 56, 100, 200, 400, 800, 1600, 3200});
  return std::find(kSold.begin(), kSold.end(), gigabits) != kSold.end();
}

/// "gige", "gig ethernet".
bool has_unit_gig(std::string_view unit) {
  return unit == "gig" || unit.starts_with("gige") || unit.starts_with("gig ");
}

}  // namespace

std::optional<Number> number_before(std::string_view text, std::size_t end) {
  while (end > 0 && text[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && (is_digit(text[begin - 1]) || text[begin - 1] == '.')) --begin;
  const auto number = parse_number(text.substr(begin, end - begin));
  if (!number || *number <= 0 || *number > 1e6) return std::nullopt;
  return Number{*number, begin, end};
}

std::optional<Number> rate_in(std::string_view text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] != 'g' && text[i] != 't') continue;
    auto number = number_before(text, i);
    if (!number) continue;
    const std::string_view unit = text.substr(i);
    const bool bits = unit.size() > 1 && unit[1] == 'b';
    const bool in_words = unit.starts_with("gigabit") || unit.starts_with("gbit") || has_unit_gig(unit);
    const bool bare = text[i] == 'g' && (unit.size() == 1 || !is_lower(unit[1])) &&
                      (is_sold(number->value) || unit.starts_with("g ethernet"));
    if (!bits && !in_words && !bare) continue;
    if (text[i] == 't') number->value *= 1000;
    return number;
  }
  return std::nullopt;
}

std::optional<Number> generation_in(std::string_view text) {
  constexpr auto kGenerations = std::to_array<std::pair<std::string_view, double>>({{"xdr", 800},
                                                                                    {"ndr", 400},
                                                                                    {"hdr", 200},
                                                                                    {"edr", 100},
                                                                                    {"fdr10", 40},
                                                                                    {"fdr-10", 40},
                                                                                    {"fdr", 56},
                                                                                    {"qdr", 40},
                                                                                    {"slingshot-10", 100},
                                                                                    {"slingshot", 200},
                                                                                    {"omni-path", 100},
                                                                                    {"omnipath", 100},
                                                                                    {"opa", 100}});
  for (const auto& [name, rate] : kGenerations) {
    const std::size_t at = text.find(name);
    if (at == std::string_view::npos) continue;
    const auto own = number_after(text, at + name.size());
    return Number{own && is_sold(own->value) && own->value >= 40 ? own->value : rate, at, at + name.size()};
  }
  return std::nullopt;
}

namespace {

constexpr double kMostPorts = 32;  // of a server: p5's EFA

/// Whether a number may be one of ports; a product's is none: "ConnectX-6", "MCX4".
bool is_count(std::string_view text, const Number& number) {
  const char before = number.begin > 0 ? text[number.begin - 1] : ' ';
  const bool of_name = is_lower(before) || before == '-' || before == '_';
  return number.value == std::floor(number.value) && number.value >= 1 && number.value <= kMostPorts && !of_name;
}

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return text.ends_with(word) && (text.size() == word.size() || !is_lower(text[text.size() - word.size() - 1]));
  });
}

/// Whether the number before the x at `x` counts lanes of one port, of which generations have four: "100 gb/s (4x
/// edr)", "edr 4x", "ib 4x fdr10". "4 x hdr", "4x hdr 200 gb/s", "hdr 4x200 gb/s" and "hdr 4x nics" are ports.
bool counts_lanes(std::string_view text, const Number& number, std::size_t x, const std::optional<Number>& rate) {
  constexpr double kLanes = 4;
  const std::size_t next = std::min(text.find_first_not_of(' ', x + 1), text.size());
  const std::string_view after = text.substr(next);
  const auto generation = generation_in(text.substr(x + 1, 5));
  if (generation && rate && rate->begin < number.begin) return true;
  if (number.value != kLanes || number.end != x) return false;
  const auto before = [&](std::string_view between) {
    return text.substr(0, text.find_last_not_of(between, number.begin - 1) + 1);
  };
  if (number.begin > 0 && generation) return ends_with_any(before(" "), {"ib", "infiniband"});
  if (number.begin == 0 || (!after.empty() && is_digit(after.front()))) return false;
  const bool of_cards = ends_with_any(after.substr(0, after.find_first_of(" s-,;()")),
                                      {"nic", "hca", "card", "port", "adapter", "rail", "per", "connectx", "mellanox"});
  return !of_cards && ends_with_any(before(" ("), {"xdr", "ndr", "ndr200", "ndr400", "hdr", "hdr100", "hdr200", "edr",
                                                   "fdr", "fdr10", "fdr-10", "qdr"});
}

/// "8 ports", "2-port", "8 nics", "dual-rail".
std::optional<std::int64_t> named_count_in(std::string_view text) {
  for (const std::string_view word : {"port", "nics", "rails", "hcas", "adapters", "cards"}) {
    for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
      const bool joined = at > 0 && text[at - 1] == '-';
      const auto before = number_before(text, joined ? at - 1 : at);
      // Not of "mlx5".
      const bool alone =
          before && (before->begin == 0 || text[before->begin - 1] == ' ' || text[before->begin - 1] == '(');
      if (alone && is_count(text, *before)) return static_cast<std::int64_t>(before->value);
    }
  }
  if (has_any(text, {"dual-rail", "dual rail", "dual-port", "dual port"})) return 2;
  if (has_any(text, {"quad-rail", "quad rail"})) return 4;
  return std::nullopt;
}

/// How many ports: "8x", "8 x", "200gb/s x 8", "8 ports x 200 gb/s", "8 nics", "dual-rail". Lanes of one port are none.
std::optional<std::int64_t> count_in(std::string_view text, const std::optional<Number>& rate) {
  const auto named = rate ? rate : generation_in(text);
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] != 'x') continue;
    if (const auto before = number_before(text, i); before && is_count(text, *before)) {
      if (!counts_lanes(text, *before, i, rate)) return static_cast<std::int64_t>(before->value);
      continue;
    }
    const auto after = number_after(text, i + 1);
    const bool ends = after && (after->end == text.size() || !(is_lower(text[after->end]) || text[after->end] == '.'));
    const bool parts = ends && !is_lower(text[i - 1]) && !is_digit(text[i - 1]) && text[i - 1] != '-';
    if (parts && after->value <= kMostPorts && named && named->end <= i) return static_cast<std::int64_t>(after->value);
  }
  return named_count_in(text);
}

}  // namespace

NetworkPorts ports_in(std::string_view text) {
  NetworkPorts ports;
  const auto rate = rate_in(text);
  const auto generation = generation_in(text);
  ports.gigabits = rate ? rate->value : generation ? generation->value : 0;
  const bool gigabit =
      has_phrase(words_of(text), "gigabit ethernet") || has_word(text, "gige") || has_word(text, "gbe");
  if (ports.gigabits == 0 && gigabit) ports.gigabits = 1;  // its name
  const auto count = count_in(text, rate);
  ports.count = count.value_or(1);
  ports.counted = count.has_value();
  ports.per_gpu = !count && has_any(text, {"per gpu", "per-gpu", "/gpu", "each gpu"});
  return ports;
}

}  // namespace ddlsim::whatif
