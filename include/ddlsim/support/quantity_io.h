// Quantities as text: "25 Gb/s", "16 GiB", "5 us", "70 %", "24.48 $/h".
//
// A number, optional space, a unit; of a time words as well ("30 days"). Units are case-sensitive because b and B, m
// and M mean different things. Rejected, with the reason: no unit, an unknown unit, a unit of another dimension, nan,
// inf, digit grouping ("1,000"), text left over. Zero and negative values are rejected by the `Range` the caller
// states.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim {

enum class Range { kPositive, kNonNegative };

template <Dimension D>
[[nodiscard]] Expected<Quantity<D>> parse_quantity(std::string_view text, Range range = Range::kPositive);

[[nodiscard]] inline Expected<Time> parse_time(std::string_view text, Range range = Range::kPositive) {
  return parse_quantity<dimension::kTime>(text, range);
}
[[nodiscard]] inline Expected<DataSize> parse_data_size(std::string_view text, Range range = Range::kPositive) {
  return parse_quantity<dimension::kData>(text, range);
}
[[nodiscard]] inline Expected<Bandwidth> parse_bandwidth(std::string_view text, Range range = Range::kPositive) {
  return parse_quantity<dimension::kData - dimension::kTime>(text, range);
}
[[nodiscard]] inline Expected<Rate> parse_rate(std::string_view text) {
  return parse_quantity<Dimension{.time = -1}>(text);
}
[[nodiscard]] inline Expected<ComputeRate> parse_compute_rate(std::string_view text) {
  return parse_quantity<dimension::kWork - dimension::kTime>(text);
}

/// The counts that make sense, both ends included.
struct CountRange {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};

/// A count: digits only (no sign, point, exponent or grouping).
[[nodiscard]] Expected<std::int64_t> parse_count(std::string_view text, CountRange range);

/// A count of samples or tokens as people write them: "1281167", "1.28e6", "300e9", "300B", "15T" (k, M, G or B, T are
/// thousands to trillions). A whole number all the same.
[[nodiscard]] Expected<std::int64_t> parse_large_count(std::string_view text);

/// A length in tokens: digits, or "128Ki" (131072), "1Mi". "128k" is refused, as it may be 128,000 or 131,072.
[[nodiscard]] Expected<std::int64_t> parse_length(std::string_view text, CountRange range);

/// A share in (0, 1]: "70 %" or "0.7".
[[nodiscard]] Expected<double> parse_fraction(std::string_view text);

/// A finite decimal number; the whole text must be one. Fails for nan, inf, hex and empty text.
[[nodiscard]] Expected<double> parse_number(std::string_view text);

/// For people: four significant digits in a sensible unit ("412.3 ms", "30 d", "25 Gb/s" for networks stays with
/// `in_bits`).
[[nodiscard]] std::string to_text(Time value);
/// For files: "1030.5 ms", twelve digits where it takes them.
[[nodiscard]] std::string to_exact_text(Time value);
[[nodiscard]] std::string to_text(DataSize value);
[[nodiscard]] std::string to_text(Work value);
[[nodiscard]] std::string to_text(ComputeRate value);
[[nodiscard]] std::string to_text(Bandwidth value);
[[nodiscard]] std::string to_text(Power value);
[[nodiscard]] std::string to_text(EnergyPerFlop value);
[[nodiscard]] std::string to_text(EnergyPerByte value);
[[nodiscard]] std::string to_text(PriceRate value);
[[nodiscard]] std::string to_text(Money value);
[[nodiscard]] std::string to_text(Energy value);  // in kWh
[[nodiscard]] std::string to_text(Mass value);
[[nodiscard]] std::string to_text_in_bits(Bandwidth value);
/// 1,234,567 as "1,234,567".
[[nodiscard]] std::string to_text(std::int64_t count);
/// A plain number with the given significant digits and no trailing zeros.
[[nodiscard]] std::string significant(double value, int digits = 4);

}  // namespace ddlsim
