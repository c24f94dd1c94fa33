#include "ddlsim/support/exact_sum.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using ddlsim::ExactSum;

namespace {

ExactSum sum_of(const std::vector<double>& terms) {
  ExactSum sum;
  for (const double term : terms) sum.add(term);
  return sum;
}

/// Of any size and sign.
std::vector<double> any_doubles(int count, std::mt19937_64& random) {
  std::vector<double> terms;
  while (std::ssize(terms) < count) {
    const double term = std::bit_cast<double>(random());
    if (std::isfinite(term)) terms.push_back(term);
  }
  return terms;
}

}  // namespace

TEST_CASE("exact sum: what doubles lose", "[unit][support]") {
  CHECK(sum_of({}).value() == 0);
  CHECK(sum_of({1e16, 1, -1e16}).value() == 1);
  CHECK(sum_of({1e308, 1e308, -1e308}).value() == 1e308);  // past the largest double on the way
  CHECK(sum_of({1e300, 0x1p-1074, -1e300}).value() == 0x1p-1074);
  CHECK(sum_of({-0.5, -0.25}).value() == -0.75);
  CHECK(sum_of({1e308, 1e308}).value() == std::numeric_limits<double>::infinity());
  CHECK(sum_of({-1e308, -1e308}).value() == -std::numeric_limits<double>::infinity());
}

TEST_CASE("exact sum: rounded once, ties to even", "[unit][support]") {
  CHECK(sum_of({1, 0x1p-53}).value() == 1);                           // a tie
  CHECK(sum_of({1 + 0x1p-52, 0x1p-53}).value() == 1 + 0x1p-51);       // a tie, up to even
  CHECK(sum_of({1, 0x1p-53, 0x1p-1000}).value() == 1 + 0x1p-52);      // just above one
  CHECK(sum_of({1, 0x1p-53, -0x1p-1000}).value() == 1);               // just below one
  CHECK(sum_of({-1, -0x1p-53, -0x1p-1000}).value() == -1 - 0x1p-52);  // the same below zero
}

TEST_CASE("exact sum: order and cuts change nothing", "[unit][support]") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    auto terms = any_doubles(5000, random);
    const ExactSum straight = sum_of(terms);
    std::shuffle(terms.begin(), terms.end(), random);
    const auto cut = terms.begin() + static_cast<std::ptrdiff_t>(random() % terms.size());
    ExactSum parts = sum_of({cut, terms.end()});
    parts.add(sum_of({terms.begin(), cut}));
    CHECK(parts == straight);
    CHECK(std::bit_cast<std::uint64_t>(parts.value()) == std::bit_cast<std::uint64_t>(straight.value()));
    for (const double term : terms) parts.add(-term);
    CHECK(parts == ExactSum());
  }
}

TEST_CASE("exact sum: many of one sign", "[unit][support]") {
  ExactSum sum;
  for (int i = 0; i < 1'000'000; ++i) sum.add(0.1);
  // 0.1 is 3602879701896397 x 2^-55; a million of it is a whole number of those, rounded once.
  CHECK(sum.value() == std::ldexp(3602879701896397.0 * 1e6, -55));
}

TEST_CASE("exact sum: as text and back", "[unit][support]") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    const ExactSum sum = sum_of(any_doubles(20, random));
    const auto back = ExactSum::parse(sum.text());
    REQUIRE(back);
    CHECK(*back == sum);
  }
  CHECK(ExactSum().text() == "0");
  CHECK(sum_of({0x1p-1074}).text() == "0:2");  // in units of 2^-1075
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK(sum_of({1, infinite}).value() == infinite);
  CHECK(ExactSum::parse(sum_of({1, -infinite}).text())->value() == -infinite);
  CHECK(std::isnan(ExactSum::parse(sum_of({infinite, -infinite}).text())->value()));
  for (const char* text : {"", "x", "1", ":", "0:", "0:1,", "0:-1", "0:100000000", "67:1", "0:1;", "0:1;x", "0: 1"}) {
    CAPTURE(text);
    CHECK_FALSE(ExactSum::parse(text));
  }
}
