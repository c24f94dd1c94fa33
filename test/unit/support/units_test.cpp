// Quantities: what may be written, what it means, and what must not compile.
#include "ddlsim/support/units.h"

#include <catch2/catch.hpp>
#include <concepts>
#include <type_traits>

namespace {

using namespace ddlsim;

template <typename A, typename B>
concept Adds = requires(A a, B b) {
  a + b;
};
template <typename A, typename B>
concept Subtracts = requires(A a, B b) {
  a - b;
};
template <typename A, typename B>
concept Accumulates = requires(A a, B b) {
  a += b;
};
template <typename A, typename B>
concept Compares = requires(A a, B b) {
  a < b;
};
template <typename A, typename B>
concept Equates = requires(A a, B b) {
  a == b;
};
template <typename A, typename B>
concept TakesLess = requires(A a, B b) {
  min(a, b);
};
template <typename Q, typename U>
concept ReadsIn = requires(Q quantity, U unit) {
  quantity.in(unit);
};

using TimeUnit = std::remove_const_t<decltype(seconds)>;
using DataUnit = std::remove_const_t<decltype(bytes)>;

// The right programs compile: without these, a concept that is never satisfied would pass every check below.
static_assert(Adds<Time, Time> && Subtracts<Time, Time> && Accumulates<Time, Time>);
static_assert(Compares<Time, Time> && Equates<Time, Time> && TakesLess<Time, Time>);
static_assert(ReadsIn<Time, TimeUnit> && ReadsIn<DataSize, DataUnit>);

static_assert(!Adds<Time, DataSize> && !Adds<DataSize, Bandwidth> && !Subtracts<Time, DataSize>);
static_assert(!Accumulates<Time, DataSize> && !Compares<Time, DataSize> && !Equates<Time, DataSize>);
static_assert(!TakesLess<Time, DataSize>);
static_assert(!Adds<Time, double> && !Adds<double, Time> && !Subtracts<Time, double> && !Accumulates<Time, double>);
static_assert(!Compares<Time, double> && !Equates<Time, double>);
static_assert(!ReadsIn<Time, DataUnit> && !ReadsIn<Bandwidth, DataUnit> && !ReadsIn<Time, double>);

static_assert(!std::is_convertible_v<double, Time> && !std::is_constructible_v<Time, double>);
static_assert(!std::is_convertible_v<Time, double> && !std::is_constructible_v<double, Time>);
static_assert(!std::is_assignable_v<Time&, double> && !std::is_assignable_v<Time&, DataSize>);
static_assert(!std::is_convertible_v<double, DataUnit>);
static_assert(!std::is_convertible_v<Time, DataSize> && !std::is_constructible_v<DataSize, Time>);

static_assert(std::is_trivially_copyable_v<DataSize> && sizeof(Bandwidth) == sizeof(double));

}  // namespace

TEST_CASE("units: products and quotients have the dimension they should", "[unit][support]") {
  STATIC_REQUIRE(std::same_as<decltype(bytes(1) / seconds(1)), Bandwidth>);
  STATIC_REQUIRE(std::same_as<decltype(bytes(1) / bytes_per_second(1)), Time>);
  STATIC_REQUIRE(std::same_as<decltype(bytes_per_second(1) * seconds(1)), DataSize>);
  STATIC_REQUIRE(std::same_as<decltype(flops(1) / seconds(1)), ComputeRate>);
  STATIC_REQUIRE(std::same_as<decltype(flops(1) / flops_per_second(1)), Time>);
  STATIC_REQUIRE(std::same_as<decltype(flops(1) / bytes(1)), Intensity>);
  STATIC_REQUIRE(std::same_as<decltype(flops_per_byte(1) * bytes_per_second(1)), ComputeRate>);
  STATIC_REQUIRE(std::same_as<decltype(watts(1) * seconds(1)), Energy>);
  STATIC_REQUIRE(std::same_as<decltype(dollars_per_hour(1) * hours(1)), Money>);
  STATIC_REQUIRE(std::same_as<decltype(dollars(1) / hours(1)), PriceRate>);
  STATIC_REQUIRE(std::same_as<decltype(seconds(1) / seconds(1)), double>);
  STATIC_REQUIRE(std::same_as<decltype(seconds(1) * 2.0), Time>);
  STATIC_REQUIRE(std::same_as<decltype(seconds(1) / 2.0), Time>);
}

TEST_CASE("units: values of products and quotients", "[unit][support]") {
  // 1.5e9 B / (25e9 / 8 B/s) = 1.5 / 3.125 = 0.48 s
  CHECK((gigabytes(1.5) / gigabits_per_second(25)).in(milliseconds) == Approx(480));
  // 8 TFLOP / 16 TFLOP/s = 0.5 s
  CHECK((teraflops(8) / teraflops_per_second(16)).in(seconds) == Approx(0.5));
  // 3 TFLOP / 1.5 GB = 2000 FLOP/B
  CHECK((teraflops(3) / gigabytes(1.5)).in(flops_per_byte) == Approx(2000));
  // 300 W for 2 s
  CHECK((watts(300) * seconds(2)).in(joules) == Approx(600));
  // 24 $/h for half an hour
  CHECK((dollars_per_hour(24) * hours(0.5)).in(dollars) == Approx(12));
  // 90 s / 1 min
  CHECK(seconds(90) / seconds(60) == Approx(1.5));
  // 2 GB/s for 250 ms
  CHECK((gigabytes_per_second(2) * milliseconds(250)).in(megabytes) == Approx(500));
}

TEST_CASE("units: GB, GiB and Gb differ", "[unit][support]") {
  CHECK(gigabytes(1).in(bytes) == 1e9);
  CHECK(gibibytes(1).in(bytes) == 1073741824.0);                  // 2^30
  CHECK(mebibytes(1).in(bytes) == 1048576.0);                     // 2^20
  CHECK(kibibytes(1).in(bytes) == 1024.0);                        // 2^10
  CHECK(gigabits_per_second(1).in(bytes_per_second) == 0.125e9);  // 1e9 bits / 8
  CHECK(gigabits_per_second(8).in(gigabytes_per_second) == 1.0);  // 8 bits a byte
  CHECK(gibibytes(1) > gigabytes(1));
  CHECK(gibibytes(1) / gigabytes(1) == Approx(1.073741824));         // 2^30 / 1e9
  CHECK(terabytes_per_second(1).in(gigabits_per_second) == 8000.0);  // 1e12 * 8 / 1e9
}

TEST_CASE("units: what goes in by a unit comes out by it", "[unit][support]") {
  CHECK(microseconds(3).in(microseconds) == Approx(3).epsilon(1e-15));
  CHECK(microseconds(3).in(nanoseconds) == Approx(3000).epsilon(1e-15));
  CHECK(hours(2).in(seconds) == 7200.0);  // 2 * 3600
  CHECK(dollars_per_hour(24.48).in(dollars_per_hour) == Approx(24.48).epsilon(1e-15));
  CHECK(kilobytes(1).in(bytes) == 1e3);
  CHECK(megabytes(1).in(bytes) == 1e6);
  CHECK(terabytes(1).in(gigabytes) == 1e3);
  CHECK(gigaflops(1).in(flops) == 1e9);
}

TEST_CASE("units: sums, scaling and order", "[unit][support]") {
  Time total = milliseconds(1) + milliseconds(2);
  CHECK(total.in(milliseconds) == Approx(3));
  total += milliseconds(4);
  CHECK(total.in(milliseconds) == Approx(7));  // 3 + 4
  total -= milliseconds(5);
  CHECK(total.in(milliseconds) == Approx(2));  // 7 - 5
  CHECK((2.0 * bytes(3)).in(bytes) == 6.0);
  CHECK((bytes(3) * 2.0).in(bytes) == 6.0);
  CHECK((bytes(3) / 2.0).in(bytes) == 1.5);
  CHECK((bytes(3) - bytes(5)).in(bytes) == -2.0);
  CHECK(milliseconds(999) < seconds(1));
  CHECK(milliseconds(1000) == seconds(1));
  CHECK(min(bytes(1), bytes(2)) == bytes(1));
  CHECK(min(bytes(2), bytes(1)) == bytes(1));
  CHECK(max(bytes(1), bytes(2)) == bytes(2));
  CHECK(max(bytes(2), bytes(1)) == bytes(2));
}

TEST_CASE("units: a quantity starts at zero, and infinity is larger than everything", "[unit][support]") {
  CHECK(Time{} == Time::zero());
  CHECK(Time::zero().in(hours) == 0.0);
  CHECK(Time::infinity() > hours(1e300));
  CHECK(bytes(1) / Bandwidth::zero() == Time::infinity());
}

TEST_CASE("units: arithmetic works at compile time", "[unit][support]") {
  constexpr Time step = gigabytes(1) / gigabytes_per_second(4);
  STATIC_REQUIRE(step == milliseconds(250));  // 1 / 4 s
}
