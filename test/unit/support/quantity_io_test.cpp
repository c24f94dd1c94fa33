// Quantities as text: what is read, what is refused and why, what is written.
#include "ddlsim/support/quantity_io.h"

#include <catch2/catch.hpp>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace ddlsim;
using Catch::Matchers::Contains;

/// Everything an error says, or nothing when there is none.
template <typename T>
std::string said(const Expected<T>& result) {
  return result ? std::string() : to_string(result.error());
}

template <typename T>
std::optional<ErrorCode> code_of(const Expected<T>& result) {
  return result ? std::nullopt : std::optional(result.error().code);
}

double seconds_of(std::string_view text) { return parse_time(text).value().in(seconds); }
double bytes_of(std::string_view text) { return parse_data_size(text).value().in(bytes); }
double rate_of(std::string_view text) { return parse_bandwidth(text).value().in(bytes_per_second); }

}  // namespace

TEST_CASE("quantity_io: units are read as they are written", "[unit][support]") {
  CHECK(seconds_of("5 us") == Approx(5e-6));
  CHECK(seconds_of("5 µs") == Approx(5e-6));
  CHECK(seconds_of("3 min") == 180.0);   // 3 * 60
  CHECK(seconds_of("1.5 h") == 5400.0);  // 1.5 * 3600
  CHECK(seconds_of("250 ns") == Approx(250e-9));
  CHECK(seconds_of("30 d") == 2592000.0);  // 30 * 86,400
  CHECK(seconds_of("30 days") == 2592000.0);
  CHECK(seconds_of("1 day") == 86400.0);
  CHECK(seconds_of("36 hours") == 129600.0);
  CHECK(seconds_of("1 hour") == 3600.0);
  CHECK(seconds_of("2 weeks") == 1209600.0);
  CHECK(seconds_of("1.5 minutes") == 90.0);
  CHECK_THAT(said(parse_time("30 D")), Contains("unknown unit 'D'"));
  CHECK(bytes_of("16 GiB") == 17179869184.0);  // 16 * 2^30
  CHECK(bytes_of("16 GB") == 16e9);
  CHECK(bytes_of("1 TiB") == 1099511627776.0);  // 2^40
  CHECK(rate_of("25 Gb/s") == 3.125e9);         // 25e9 / 8
  CHECK(rate_of("25 Gbps") == 3.125e9);
  CHECK(rate_of("25 Gbit/s") == 3.125e9);
  CHECK(rate_of("900 GB/s") == 900e9);
  CHECK(parse_compute_rate("15.7 TFLOP/s").value().in(teraflops_per_second) == Approx(15.7));
  CHECK(parse_compute_rate("15.7 TFLOPS").value().in(teraflops_per_second) == Approx(15.7));
  CHECK(parse_quantity<dimension::kWork>("1.56 TFLOP").value().in(flops) == Approx(1.56e12));
  CHECK(parse_quantity<dimension::kEnergy - dimension::kTime>("300 W").value().in(watts) == 300.0);
  CHECK(parse_quantity<dimension::kMoney - dimension::kTime>("24.48 $/h").value().in(dollars_per_hour) ==
        Approx(24.48));
}

TEST_CASE("quantity_io: spaces and number forms", "[unit][support]") {
  CHECK(bytes_of("5B") == 5.0);
  CHECK(bytes_of("  5   B\t") == 5.0);
  CHECK(bytes_of("1e3 B") == 1000.0);
  CHECK(bytes_of(".5 kB") == 500.0);
  CHECK(bytes_of("+5 B") == 5.0);
}

TEST_CASE("quantity_io: b and B, m and M mean different things", "[unit][support]") {
  CHECK(bytes_of("8 Gb") == bytes_of("1 GB"));
  CHECK(bytes_of("8 kb") == bytes_of("1 kB"));
  CHECK(rate_of("8 Mb/s") == rate_of("1 MB/s"));
  CHECK(rate_of("8 Gbps") == rate_of("1 GBps"));
  for (const char* text : {"25 gb/s", "25 GB/S", "25 gbps", "25 mb/s"}) {
    CAPTURE(text);
    CHECK_THAT(said(parse_bandwidth(text)), Contains("unknown unit"));
  }
  CHECK_THAT(said(parse_bandwidth("25 gb/s")), Contains("'Gb/s'") && Contains("'GB/s'"));
  CHECK_THAT(said(parse_time("5 MS")), Contains("unknown unit 'MS'") && Contains("'ms'"));
  CHECK_THAT(said(parse_data_size("5 mB")), Contains("unknown unit 'mB'"));
}

TEST_CASE("quantity_io: a missing unit is an error", "[unit][support]") {
  const auto result = parse_bandwidth("25");
  CHECK(code_of(result) == ErrorCode::kParse);
  CHECK_THAT(said(result), Contains("'25' is not a bandwidth: the unit is missing") && Contains("Gb/s"));
}

TEST_CASE("quantity_io: an unknown unit is an error that offers the nearest", "[unit][support]") {
  const auto result = parse_compute_rate("15 TFLOPs");
  CHECK(code_of(result) == ErrorCode::kParse);
  CHECK_THAT(said(result), Contains("unknown unit 'TFLOPs'") && Contains("TFLOP"));
}

TEST_CASE("quantity_io: a unit of another dimension is an error that names both", "[unit][support]") {
  const auto result = parse_bandwidth("900 GB");
  CHECK(code_of(result) == ErrorCode::kInvalidArgument);
  CHECK_THAT(said(result), Contains("'900 GB' is not a bandwidth but a data size"));
  CHECK_THAT(said(parse_time("5 TFLOP/s")), Contains("is not a time but a compute rate"));
  CHECK_THAT(said(parse_data_size("5 s")), Contains("is not a data size but a time"));
}

TEST_CASE("quantity_io: nan, inf, grouping, hex and text left over are errors", "[unit][support]") {
  for (const char* text :
       {"nan s", "inf s",   "-inf s", "infinity s", "NaN",    "",      "   ",   "s",       "five s",  "- s", ".",
        "e5 s",  "1e400 s", "--5 s",  "+-5 s",      "0x10 s", "5 s s", "5 s 3", "1_000 s", "1 000 s", "5;s"}) {
    CAPTURE(text);
    CHECK(code_of(parse_time(text, Range::kNonNegative)) == ErrorCode::kParse);
  }
  CHECK_THAT(said(parse_data_size("1,000 B")), Contains("digits are not grouped"));
  CHECK_THAT(said(parse_data_size("1,5 GB")), Contains("the decimal sign is a point"));
}

TEST_CASE("quantity_io: money may have its sign first, prices the hour in words, energy megawatt-hours",
          "[unit][support]") {
  using dimension::kMoney;
  CHECK(parse_quantity<kMoney>("$500").value() == parse_quantity<kMoney>("500 $").value());
  for (const char* price : {"$98/h", "$ 98 /h", "98 $/hr", "$98/hour"}) {
    CAPTURE(price);
    const auto rate = parse_quantity<kMoney - dimension::kTime>(price);
    CHECK(rate.value() == parse_quantity<kMoney - dimension::kTime>("98 $/h").value());
  }
  CHECK_THAT(said(parse_quantity<kMoney>("$50,000")), Contains("digits are not grouped"));
  CHECK_THAT(said(parse_quantity<kMoney>("$98/h")), Contains("is not an amount of money but a price per time"));
  CHECK_THAT(said(parse_quantity<kMoney>("$")), Contains("write a number and a unit: $"));
  CHECK_THAT(said(parse_time("$5")), Contains("is not a time but an amount of money"));
  CHECK_THAT(said(parse_time("$5 s")), Contains("unknown unit '$s'"));
  CHECK(parse_quantity<dimension::kEnergy>("1.5 MWh").value().in(kilowatt_hours) == Approx(1500));
}

TEST_CASE("quantity_io: values out of range are errors", "[unit][support]") {
  CHECK(code_of(parse_time("0 s")) == ErrorCode::kInvalidArgument);
  CHECK_THAT(said(parse_time("0 s")), Contains("greater than zero"));
  CHECK(parse_time("0 s", Range::kNonNegative).value() == Time::zero());
  CHECK_THAT(said(parse_time("-1 s")), Contains("must not be negative"));
  CHECK_THAT(said(parse_time("-1 s", Range::kNonNegative)), Contains("must not be negative"));
  // 1e308 * 1e12 exceeds the largest double, 1.8e308.
  CHECK(code_of(parse_data_size("1e308 TB")) == ErrorCode::kInvalidArgument);
  CHECK_THAT(said(parse_data_size("1e308 TB")), Contains("too large"));
}

TEST_CASE("quantity_io: an error quotes only the beginning of a long text", "[unit][support]") {
  CHECK(said(parse_time(std::string(1'000'000, '7'))).size() < 1000);
  CHECK(said(parse_time("5 " + std::string(1'000'000, 'x'))).size() < 1000);
  CHECK(said(parse_count(std::string(1'000'000, '7'), {1, 10})).size() < 1000);
}

TEST_CASE("quantity_io: shares", "[unit][support]") {
  CHECK(parse_fraction("70 %").value() == Approx(0.7));
  CHECK(parse_fraction("70%").value() == Approx(0.7));
  CHECK(parse_fraction(" 0.7 ").value() == 0.7);
  CHECK(parse_fraction("100 %").value() == 1.0);
  CHECK(parse_fraction("1").value() == 1.0);
  for (const char* text : {"0", "0 %", "-1 %", "101 %", "1.01", "70"}) {
    CAPTURE(text);
    CHECK(code_of(parse_fraction(text)) == ErrorCode::kInvalidArgument);
  }
  for (const char* text : {"", "%", "nan", "inf %", "70 % %", "70 percent", "0,7", "7 0 %"}) {
    CAPTURE(text);
    CHECK(code_of(parse_fraction(text)) == ErrorCode::kParse);
  }
}

TEST_CASE("quantity_io: counts are digits only", "[unit][support]") {
  CHECK(parse_count("64", {1, 100}).value() == 64);
  CHECK(parse_count(" 064 ", {1, 100}).value() == 64);
  CHECK(parse_count("1", {1, 1}).value() == 1);
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  CHECK(parse_count("9223372036854775807", {0, kLargest}).value() == kLargest);  // 2^63 - 1
  for (const char* text : {"0", "101", "9223372036854775808", "1000000000000000000000000000000"}) {
    CAPTURE(text);
    CHECK(code_of(parse_count(text, {1, 100})) == ErrorCode::kInvalidArgument);
    CHECK_THAT(said(parse_count(text, {1, 100})), Contains("from 1 to 100"));
  }
  for (const char* text : {"", " ", "+5", "-0", "1.5", "1e3", "1,000", "1 000", "0x10", "5 B", "five", "nan"}) {
    CAPTURE(text);
    CHECK(code_of(parse_count(text, {0, 10'000})) == ErrorCode::kParse);
  }
  CHECK_FALSE(parse_count("-1", {0, 100}).has_value());
}

TEST_CASE("quantity_io: counts of tokens as people write them", "[unit][support]") {
  CHECK(parse_large_count("15T").value() == 15'000'000'000'000);
  CHECK(parse_large_count("15.6 T").value() == 15'600'000'000'000);
  CHECK(parse_large_count("1e12").value() == 1'000'000'000'000);
  CHECK(parse_large_count("300B").value() == 300'000'000'000);
  CHECK(parse_large_count("300G").value() == 300'000'000'000);
  CHECK(parse_large_count("1.1M").value() == 1'100'000);
  CHECK(parse_large_count("128k").value() == 128'000);
  CHECK(parse_large_count("128K").value() == 128'000);
  for (const char* text : {"15 t", "15TB", "15 tokens", "1.5", "0.0001k", "T", "15T 3", "128Ki", "15m", "15 d"}) {
    CAPTURE(text);
    CHECK(code_of(parse_large_count(text)) == ErrorCode::kParse);
  }
  for (const char* text : {"1001T", "0k", "-3M"}) {
    CAPTURE(text);
    CHECK(code_of(parse_large_count(text)) == ErrorCode::kInvalidArgument);
  }
  CHECK_THAT(said(parse_large_count("15 tokens")), Contains("300B or 15T"));
}

TEST_CASE("quantity_io: a length in tokens says which thousand it means", "[unit][support]") {
  const auto length = [](const char* text) { return parse_length(text, {1, std::int64_t{1} << 32}); };
  CHECK(length("131072").value() == 131072);
  CHECK(length("128Ki").value() == 131072);
  CHECK(length("1 Mi").value() == 1048576);
  CHECK_THAT(said(length("128k")), Contains("'128k' may be 131072 or 128000") && Contains("128Ki for 131072"));
  CHECK_THAT(said(length("1M")), Contains("1048576 or 1000000"));
  for (const char* text : {"128T", "1.5", "1e3", "0", "0.0001Ki", "8Mi Mi", "5000Mi"}) {
    CAPTURE(text);
    CHECK_FALSE(length(text));
  }
}

TEST_CASE("quantity_io: numbers", "[unit][support]") {
  CHECK(parse_number("1.5e3").value() == 1500.0);
  CHECK(parse_number(" -2 ").value() == -2.0);
  CHECK(parse_number("+2").value() == 2.0);
  for (const char* text :
       {"", " ", "nan", "-nan", "inf", "-inf", "0x10", "1e400", "1.5x", "1 2", "1,5", "+-5", "++5"}) {
    CAPTURE(text);
    CHECK(code_of(parse_number(text)) == ErrorCode::kParse);
  }
}

TEST_CASE("quantity_io: significant digits without trailing zeros", "[unit][support]") {
  const std::vector<std::pair<double, std::string>> cases{{0, "0"},
                                                          {25, "25"},
                                                          {412.34, "412.3"},
                                                          {-412.34, "-412.3"},
                                                          {0.00123456, "0.001235"},
                                                          {1000.4, "1000"},
                                                          {2.0, "2"},
                                                          {9.9996, "10"},
                                                          {0.99996, "1"},
                                                          {99.996, "100"},
                                                          {1.23456e-6, "0.000001235"},
                                                          {100, "100"},
                                                          {1.005, "1.005"}};
  for (const auto& [value, text] : cases) CHECK(significant(value) == text);
  CHECK(significant(3.14159, 3) == "3.14");
  CHECK(significant(24.4801, 5) == "24.48");
}

TEST_CASE("quantity_io: times around the edges of units", "[unit][support]") {
  CHECK(to_text(milliseconds(412.34)) == "412.3 ms");
  CHECK(to_text(milliseconds(999.94)) == "999.9 ms");
  CHECK(to_text(milliseconds(999.96)) == "1 s");  // 4 digits of it are 1000 ms
  CHECK(to_text(microseconds(999.96)) == "1 ms");
  CHECK(to_text(seconds(1)) == "1 s");
  CHECK(to_text(seconds(59.9)) == "59.9 s");
  CHECK(to_text(seconds(3600)) == "1 h");
  CHECK(to_text(hours(2.5)) == "2.5 h");
  CHECK(to_text(hours(48)) == "48 h");
  CHECK(to_text(hours(640)) == "26.67 d");       // 640 / 24
  CHECK(to_text(seconds(4.225e-15)) == "0 ns");  // a difference that is rounding
  CHECK(to_text(seconds(-4.225e-15)) == "0 ns");
  CHECK(to_text(Time::zero()) == "0 ns");
  CHECK(to_text(nanoseconds(0.25)) == "0.25 ns");
  CHECK(to_text(milliseconds(-3)) == "-3 ms");
  CHECK(to_text(Time::infinity()) == "infinite");
}

TEST_CASE("quantity_io: sizes and rates around the edges of units", "[unit][support]") {
  CHECK(to_text(bytes(999.4)) == "999.4 B");
  CHECK(to_text(bytes(999.96)) == "1 kB");
  CHECK(to_text(megabytes(999.96)) == "1 GB");
  CHECK(to_text(gibibytes(16)) == "17.18 GB");  // 16 * 2^30 = 17.179869e9
  CHECK(to_text(terabytes(2000)) == "2 PB");
  CHECK(to_text(gigabytes_per_second(900)) == "900 GB/s");
  CHECK(to_text(teraflops_per_second(15.7)) == "15.7 TFLOP/s");
  CHECK(to_text(gigaflops(8178)) == "8.178 TFLOP");
  CHECK(to_text(watts(300)) == "300 W");
  CHECK(to_text(dollars_per_hour(24.48)) == "24.48 $/h");
}

TEST_CASE("quantity_io: networks are written in bits", "[unit][support]") {
  CHECK(to_text_in_bits(gigabits_per_second(25)) == "25 Gb/s");
  CHECK(to_text_in_bits(gigabytes_per_second(1)) == "8 Gb/s");  // 8 bits a byte
  CHECK(to_text_in_bits(gigabits_per_second(1600)) == "1.6 Tb/s");
  CHECK(to_text_in_bits(gigabits_per_second(0.99996)) == "1 Gb/s");
  CHECK(to_text_in_bits(gigabits_per_second(0.1)) == "100 Mb/s");
  CHECK(to_text_in_bits(bytes_per_second(62'500)) == "500 kb/s");  // 62,500 * 8
}

TEST_CASE("quantity_io: counts are grouped for people", "[unit][support]") {
  CHECK(to_text(std::int64_t{0}) == "0");
  CHECK(to_text(std::int64_t{999}) == "999");
  CHECK(to_text(std::int64_t{1000}) == "1,000");
  CHECK(to_text(std::int64_t{1234567}) == "1,234,567");
  CHECK(to_text(std::int64_t{-123}) == "-123");
  CHECK(to_text(std::int64_t{-1234}) == "-1,234");
}
