#include "ddlsim/support/quantity_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "ddlsim/support/names.h"

namespace ddlsim {
namespace {

struct UnitRow {
  std::string_view symbol;
  Dimension dimension;
  double factor;
};

constexpr Dimension kBandwidth = dimension::kData - dimension::kTime;
constexpr Dimension kComputeRate = dimension::kWork - dimension::kTime;
constexpr Dimension kIntensity = dimension::kWork - dimension::kData;
constexpr Dimension kPower = dimension::kEnergy - dimension::kTime;
constexpr Dimension kPerFlop = dimension::kEnergy - dimension::kWork;
constexpr Dimension kPerByte = dimension::kEnergy - dimension::kData;
constexpr Dimension kPriceRate = dimension::kMoney - dimension::kTime;
constexpr Dimension kRate{.time = -1};
constexpr Dimension kCarbon = dimension::kMass - dimension::kEnergy;
constexpr double kKi = 1024.0;
constexpr double kMi = kKi * kKi;
constexpr double kGi = kMi * kKi;

constexpr auto kUnits = std::to_array<UnitRow>({
    {"s", dimension::kTime, 1},
    {"ms", dimension::kTime, 1e-3},
    {"us", dimension::kTime, 1e-6},
    {"µs", dimension::kTime, 1e-6},
    {"ns", dimension::kTime, 1e-9},
    {"min", dimension::kTime, 60},
    {"h", dimension::kTime, 3600},
    {"d", dimension::kTime, 86400},
    {"B", dimension::kData, 1},
    {"kB", dimension::kData, 1e3},
    {"KB", dimension::kData, 1e3},
    {"MB", dimension::kData, 1e6},
    {"GB", dimension::kData, 1e9},
    {"TB", dimension::kData, 1e12},
    {"PB", dimension::kData, 1e15},
    {"KiB", dimension::kData, kKi},
    {"MiB", dimension::kData, kMi},
    {"GiB", dimension::kData, kGi},
    {"TiB", dimension::kData, kGi* kKi},
    {"b", dimension::kData, 0.125},
    {"kb", dimension::kData, 1e3 / 8},
    {"Mb", dimension::kData, 1e6 / 8},
    {"Gb", dimension::kData, 1e9 / 8},
    {"FLOP", dimension::kWork, 1},
    {"MFLOP", dimension::kWork, 1e6},
    {"GFLOP", dimension::kWork, 1e9},
    {"TFLOP", dimension::kWork, 1e12},
    {"PFLOP", dimension::kWork, 1e15},
    {"B/s", kBandwidth, 1},
    {"kB/s", kBandwidth, 1e3},
    {"MB/s", kBandwidth, 1e6},
    {"GB/s", kBandwidth, 1e9},
    {"TB/s", kBandwidth, 1e12},
    {"KiB/s", kBandwidth, kKi},
    {"MiB/s", kBandwidth, kMi},
    {"GiB/s", kBandwidth, kGi},
    {"b/s", kBandwidth, 0.125},
    {"kb/s", kBandwidth, 1e3 / 8},
    {"Mb/s", kBandwidth, 1e6 / 8},
    {"Gb/s", kBandwidth, 1e9 / 8},
    {"Tb/s", kBandwidth, 1e12 / 8},
    {"Gbit/s", kBandwidth, 1e9 / 8},
    {"Mbit/s", kBandwidth, 1e6 / 8},
    {"Gbps", kBandwidth, 1e9 / 8},
    {"Mbps", kBandwidth, 1e6 / 8},
    {"GBps", kBandwidth, 1e9},
    {"FLOP/s", kComputeRate, 1},
    {"GFLOP/s", kComputeRate, 1e9},
    {"TFLOP/s", kComputeRate, 1e12},
    {"PFLOP/s", kComputeRate, 1e15},
    {"GFLOPS", kComputeRate, 1e9},
    {"TFLOPS", kComputeRate, 1e12},
    {"PFLOPS", kComputeRate, 1e15},
    {"FLOP/B", kIntensity, 1},
    {"1/s", kRate, 1},
    {"IOPS", kRate, 1},
    {"GHz", kRate, 1e9},
    {"J", dimension::kEnergy, 1},
    {"kWh", dimension::kEnergy, 3.6e6},
    {"MWh", dimension::kEnergy, 3.6e9},
    {"W", kPower, 1},
    {"kW", kPower, 1e3},
    {"pJ/FLOP", kPerFlop, 1e-12},
    {"pJ/B", kPerByte, 1e-12},
    {"$", dimension::kMoney, 1},
    {"$/h", kPriceRate, 1.0 / 3600.0},
    {"g", dimension::kMass, 1},
    {"kg", dimension::kMass, 1e3},
    {"g/kWh", kCarbon, 1.0 / 3.6e6},
    {"kg/kWh", kCarbon, 1e3 / 3.6e6},
});

/// Words for units, read but not listed: a list of valid units has the symbols.
constexpr auto kUnitWords = std::to_array<UnitRow>({
    {"second", dimension::kTime, 1},
    {"seconds", dimension::kTime, 1},
    {"minute", dimension::kTime, 60},
    {"minutes", dimension::kTime, 60},
    {"hour", dimension::kTime, 3600},
    {"hours", dimension::kTime, 3600},
    {"day", dimension::kTime, 86400},
    {"days", dimension::kTime, 86400},
    {"week", dimension::kTime, 7 * 86400},
    {"weeks", dimension::kTime, 7 * 86400},
    {"$/hr", kPriceRate, 1.0 / 3600.0},
    {"$/hour", kPriceRate, 1.0 / 3600.0},
});

/// Null where there is no such unit.
const UnitRow* find_unit(std::string_view symbol) {
  const auto named = [&](const UnitRow& row) { return row.symbol == symbol; };
  if (const auto* row = std::find_if(kUnits.begin(), kUnits.end(), named); row != kUnits.end()) return row;
  const auto* row = std::find_if(kUnitWords.begin(), kUnitWords.end(), named);
  return row == kUnitWords.end() ? nullptr : row;
}

std::string_view dimension_name(Dimension d) {
  constexpr auto kNames = std::to_array<std::pair<Dimension, std::string_view>>({
      {dimension::kTime, "a time"},
      {dimension::kData, "a data size"},
      {dimension::kWork, "an amount of work"},
      {dimension::kEnergy, "an energy"},
      {dimension::kMoney, "an amount of money"},
      {kBandwidth, "a bandwidth"},
      {kComputeRate, "a compute rate"},
      {kIntensity, "an operational intensity"},
      {kPower, "a power"},
      {kPerFlop, "an energy per FLOP"},
      {kPerByte, "an energy per byte"},
      {kPriceRate, "a price per time"},
      {kRate, "a rate"},
      {dimension::kMass, "a mass"},
      {kCarbon, "a carbon intensity"},
  });
  for (const auto& [candidate, name] : kNames) {
    if (candidate == d) return name;
  }
  return "a quantity";
}

std::vector<std::string> symbols_of(Dimension d) {
  std::vector<std::string> symbols;
  for (const UnitRow& row : kUnits) {
    if (row.dimension == d) symbols.emplace_back(row.symbol);
  }
  return symbols;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// What is wrong with a message may come from a file of any size: quote only its beginning.
std::string quoted(std::string_view text) {
  constexpr std::size_t kMost = 60;
  return text.size() <= kMost ? fmt::format("'{}'", text) : fmt::format("'{}…'", text.substr(0, kMost));
}

/// The leading decimal number of `text` and what follows it.
std::optional<std::pair<double, std::string_view>> leading_number(std::string_view text) {
  const char first = text.empty() ? '\0' : text.front();
  const bool starts_number = (first >= '0' && first <= '9') || first == '.' || first == '-' || first == '+';
  if (!starts_number) return std::nullopt;
  if (first == '+') {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || !std::isfinite(number)) return std::nullopt;
  return std::pair{number, text.substr(static_cast<std::size_t>(end - text.data()))};
}

/// "nan", "-inf GB/s", "1e999 B": what arithmetic has, and no quantity.
bool is_no_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  const std::string word = fold_name(text.substr(0, text.find(' ')));
  if (word == "nan" || word == "inf" || word == "infinity" || word == "infinite") return true;
  return !text.empty() && text.front() >= '0' && text.front() <= '9';
}

Expected<double> parse_in(std::string_view whole, Dimension wanted, Range range) {
  const std::string_view text = trim(whole);
  // Said of an error alone: a file has thousands of quantities.
  const auto what = [&] { return fmt::format("{} is not {}", quoted(text), dimension_name(wanted)); };
  const auto units = [&] { return join(symbols_of(wanted)); };
  const std::string_view sign = text.starts_with('$') ? text.substr(0, 1) : std::string_view();  // "$98/h"
  const auto number = leading_number(trim(text.substr(sign.size())));
  if (!number) {
    return fail(ErrorCode::kParse, what() + (is_no_number(text) ? ": it must be a finite number" : ""), {},
                {"write a number and a unit: " + units()});
  }
  if (number->second.starts_with(',')) {
    return fail(ErrorCode::kParse, what() + ": digits are not grouped and the decimal sign is a point");
  }
  const std::string symbol = std::string(sign) + std::string(trim(number->second));
  if (symbol.empty()) return fail(ErrorCode::kParse, what() + ": the unit is missing", {}, {"units: " + units()});
  const UnitRow* row = find_unit(symbol);
  if (row == nullptr) {
    return fail(ErrorCode::kParse, fmt::format("{}: unknown unit {}", what(), quoted(symbol)), {},
                {suggestion(symbol, symbols_of(wanted))});
  }
  if (row->dimension != wanted) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} but {}", what(), dimension_name(row->dimension)), {},
                {"units: " + units()});
  }
  const double value = number->first * row->factor;
  if (!std::isfinite(value)) return fail(ErrorCode::kInvalidArgument, what() + ": too large");
  if (value < 0) return fail(ErrorCode::kInvalidArgument, what() + ": it must not be negative");
  if (value == 0 && range == Range::kPositive) {
    return fail(ErrorCode::kInvalidArgument, what() + ": it must be greater than zero");
  }
  return value;
}

template <Dimension D>
constexpr Unit<D> kBase{1.0};

struct Scale {
  double factor;
  std::string_view symbol;
};

/// Four significant digits in the largest unit that keeps the number at 1 or above.
std::string scaled(double value, std::span<const Scale> largest_first) {
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  for (const Scale& scale : largest_first) {
    // 0.9995 rounds up to 1.000 of the unit.
    if (std::abs(value) >= 0.99995 * scale.factor) {
      return fmt::format("{} {}", significant(value / scale.factor), scale.symbol);
    }
  }
  const Scale& smallest = largest_first.back();
  return fmt::format("{} {}", significant(value / smallest.factor), smallest.symbol);
}

}  // namespace

template <Dimension D>
Expected<Quantity<D>> parse_quantity(std::string_view text, Range range) {
  return parse_in(text, D, range).map([](double value) { return kBase<D>(value); });
}

template Expected<Time> parse_quantity(std::string_view, Range);
template Expected<DataSize> parse_quantity(std::string_view, Range);
template Expected<Work> parse_quantity(std::string_view, Range);
template Expected<Bandwidth> parse_quantity(std::string_view, Range);
template Expected<ComputeRate> parse_quantity(std::string_view, Range);
template Expected<Power> parse_quantity(std::string_view, Range);
template Expected<EnergyPerFlop> parse_quantity(std::string_view, Range);
template Expected<EnergyPerByte> parse_quantity(std::string_view, Range);
template Expected<PriceRate> parse_quantity(std::string_view, Range);
template Expected<Rate> parse_quantity(std::string_view, Range);
template Expected<Money> parse_quantity(std::string_view, Range);
template Expected<Energy> parse_quantity(std::string_view, Range);
template Expected<Mass> parse_quantity(std::string_view, Range);
template Expected<CarbonIntensity> parse_quantity(std::string_view, Range);

Expected<std::int64_t> parse_count(std::string_view text, CountRange range) {
  text = trim(text);
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool signless = !text.empty() && text.front() >= '0' && text.front() <= '9';
  const bool negative = text.starts_with('-') && text != "-0" && status == std::errc{};
  const bool complete = (signless || negative) && end == text.data() + text.size();
  const auto refused = [&](ErrorCode code, const char* what) {
    return fail(code, quoted(text) + what, {},
                {fmt::format("write a whole number from {} to {}", range.lowest, range.highest)});
  };
  const bool too_large = status == std::errc::result_out_of_range && complete;
  if (too_large) return refused(ErrorCode::kInvalidArgument, " is out of range");
  if (status != std::errc{} || !complete) return refused(ErrorCode::kParse, " is not a whole number");
  if (value < range.lowest || value > range.highest) return refused(ErrorCode::kInvalidArgument, " is out of range");
  return value;
}

Expected<std::int64_t> parse_large_count(std::string_view text) {
  text = trim(text);
  constexpr double kMost = 1e15;
  constexpr auto kSuffixes = std::to_array<std::pair<std::string_view, double>>(
      {{"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"B", 1e9}, {"T", 1e12}});
  const std::string choices = "write a whole number from 1 to 1e15, as 1281167, 1.28e6, 300B or 15T";
  const auto number = leading_number(text);
  const std::string_view suffix = number ? trim(number->second) : std::string_view{};
  const auto* row = std::find_if(kSuffixes.begin(), kSuffixes.end(), [&](const auto& s) { return s.first == suffix; });
  if (!number || row == kSuffixes.end()) {
    return fail(ErrorCode::kParse, quoted(text) + " is not a whole number", {}, {choices});
  }
  // 1.1 million is 1,100,000.0000000001 in binary.
  const double product = number->first * row->second;
  const double value =
      row->second > 1 && std::abs(product - std::round(product)) < 1e-6 ? std::round(product) : product;
  if (value != std::floor(value)) {
    return fail(ErrorCode::kParse, quoted(text) + " is not a whole number", {}, {choices});
  }
  if (value < 1 || value > kMost) {
    return fail(ErrorCode::kInvalidArgument, quoted(text) + " is out of range", {}, {choices});
  }
  return static_cast<std::int64_t>(value);
}

Expected<std::int64_t> parse_length(std::string_view text, CountRange range) {
  auto exact = parse_count(text, range);
  const auto number = leading_number(trim(text));
  if (exact || !number) return exact;
  const std::string_view suffix = trim(number->second);
  const bool thousands = suffix == "k" || suffix == "K";
  const double unit = thousands || suffix == "Ki" ? kKi : suffix == "M" || suffix == "Mi" ? kMi : 0;
  const double value = number->first * unit;
  if (unit == 0 || value != std::floor(value) || value < static_cast<double>(range.lowest) ||
      value > static_cast<double>(range.highest)) {
    return exact;
  }
  if (suffix.ends_with('i')) return static_cast<std::int64_t>(value);
  // A context of "128k" is 131,072 tokens to most, and 128,000 to some.
  return fail(
      ErrorCode::kParse,
      fmt::format("{} may be {:.0f} or {:.0f}", quoted(trim(text)), value, number->first * (thousands ? 1e3 : 1e6)), {},
      {fmt::format("write the number, or {}{}i for {:.0f}", number->first, thousands ? 'K' : 'M', value)});
}

Expected<double> parse_fraction(std::string_view text) {
  text = trim(text);
  const auto number = leading_number(text);
  const std::string_view rest = number ? trim(number->second) : std::string_view{};
  const std::string choices = "write a share above 0 and up to 1, as '70 %' or '0.7'";
  if (!number || !(rest.empty() || rest == "%")) {
    return fail(ErrorCode::kParse, quoted(text) + " is not a share", {}, {choices});
  }
  const double value = rest.empty() ? number->first : number->first / 100.0;
  if (value <= 0 || value > 1) {
    return fail(ErrorCode::kInvalidArgument, quoted(text) + " is out of range", {}, {choices});
  }
  return value;
}

Expected<double> parse_number(std::string_view text) {
  text = trim(text);
  const auto number = leading_number(text);
  if (!number || !number->second.empty()) return fail(ErrorCode::kParse, quoted(text) + " is not a number");
  return number->first;
}

std::string significant(double value, int digits) {
  if (value == 0) return "0";
  constexpr double kLargest = 1e12;
  constexpr double kSmallest = 1e-6;
  if (!std::isfinite(value) || std::abs(value) >= kLargest || std::abs(value) < kSmallest) {
    return fmt::format("{:.{}g}", value, digits);
  }
  if (value == std::trunc(value)) return fmt::format_int(static_cast<std::int64_t>(value)).str();
  const double magnitude = std::floor(std::log10(std::abs(value)));
  const int decimals = std::clamp(digits - 1 - static_cast<int>(magnitude), 0, 12);
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string to_text(Time value) {
  constexpr double kDay = 86400;
  constexpr double kLeast = 0.5e-12;  // half of what a clock of events tells apart; below it differences are rounding
  if (value.in(seconds) > 2 * kDay && !std::isinf(value.in(seconds))) {
    return significant(value.in(seconds) / kDay) + " d";
  }
  if (std::abs(value.in(seconds)) < kLeast) return "0 ns";
  constexpr auto kScales = std::to_array<Scale>({{3600, "h"}, {1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}});
  return scaled(value.in(seconds), kScales);
}

std::string to_exact_text(Time value) { return fmt::format("{:.12g} ms", value.in(milliseconds)); }

std::string to_text(DataSize value) {
  constexpr auto kScales =
      std::to_array<Scale>({{1e15, "PB"}, {1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}});
  return scaled(value.in(bytes), kScales);
}

std::string to_text(Work value) {
  constexpr auto kScales =
      std::to_array<Scale>({{1e15, "PFLOP"}, {1e12, "TFLOP"}, {1e9, "GFLOP"}, {1e6, "MFLOP"}, {1, "FLOP"}});
  return scaled(value.in(flops), kScales);
}

std::string to_text(ComputeRate value) {
  constexpr auto kScales =
      std::to_array<Scale>({{1e15, "PFLOP/s"}, {1e12, "TFLOP/s"}, {1e9, "GFLOP/s"}, {1, "FLOP/s"}});
  return scaled(value.in(flops_per_second), kScales);
}

std::string to_text(Bandwidth value) {
  constexpr auto kScales =
      std::to_array<Scale>({{1e12, "TB/s"}, {1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}, {1, "B/s"}});
  return scaled(value.in(bytes_per_second), kScales);
}

std::string to_text_in_bits(Bandwidth value) {
  constexpr auto kScales =
      std::to_array<Scale>({{1.25e11, "Tb/s"}, {1.25e8, "Gb/s"}, {1.25e5, "Mb/s"}, {125, "kb/s"}, {0.125, "b/s"}});
  return scaled(value.in(bytes_per_second), kScales);
}

std::string to_text(Power value) { return significant(value.in(watts)) + " W"; }
std::string to_text(EnergyPerFlop value) { return significant(value.in(picojoules_per_flop)) + " pJ/FLOP"; }
std::string to_text(EnergyPerByte value) { return significant(value.in(picojoules_per_byte)) + " pJ/B"; }

std::string to_text(PriceRate value) { return significant(value.in(dollars_per_hour), 5) + " $/h"; }

std::string to_text(Money value) {
  const double amount = value.in(dollars);
  return std::isinf(amount) ? "infinite" : fmt::format("{:.2f} $", amount);
}

std::string to_text(Energy value) { return significant(value.in(kilowatt_hours)) + " kWh"; }

std::string to_text(Mass value) {
  constexpr auto kScales = std::to_array<Scale>({{1e3, "kg"}, {1, "g"}});
  return scaled(value.in(grams), kScales);
}

std::string to_text(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t sign = count < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > sign + 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

}  // namespace ddlsim
