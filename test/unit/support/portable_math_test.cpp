// exp2 and log2 against the C library, which is right to an ulp on the machines this runs on.
#include "ddlsim/support/portable_math.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace ddlsim;

double relative_error(double value, double truth) {
  if (value == truth) return 0;
  return std::abs(value - truth) / std::abs(truth);
}

}  // namespace

TEST_CASE("portable_math: exp2 agrees with the C library to 1e-15", "[unit][support]") {
  double worst = 0;
  double worst_at = 0;
  for (int i = -200'000; i <= 200'000; ++i) {
    const double x = i * 0.004999;  // -999.8 to 999.8, never twice the same fraction
    const double error = relative_error(portable_exp2(x), std::exp2(x));
    if (error > worst) {
      worst = error;
      worst_at = x;
    }
  }
  CAPTURE(worst_at);
  CHECK(worst < 1e-15);
}

TEST_CASE("portable_math: exp2 of small arguments", "[unit][support]") {
  for (double x = 1e-18; x < 1; x *= 1.7) {
    CAPTURE(x);
    CHECK(relative_error(portable_exp2(x), std::exp2(x)) < 1e-15);
    CHECK(relative_error(portable_exp2(-x), std::exp2(-x)) < 1e-15);
  }
}

TEST_CASE("portable_math: log2 agrees with the C library to 1e-15", "[unit][support]") {
  double worst = 0;
  double worst_at = 0;
  const auto check = [&](double x) {
    const double error = relative_error(portable_log2(x), std::log2(x));
    if (error > worst) {
      worst = error;
      worst_at = x;
    }
  };
  for (double x = 1e-300; x < 1e300; x *= 1.0061) check(x);
  for (int i = 1; i < 100'000; ++i) check(i * 3e-5);  // every mantissa between 0 and 3
  CAPTURE(worst_at);
  CHECK(worst < 1e-15);
}

TEST_CASE("portable_math: log2 keeps its relative accuracy next to 1", "[unit][support]") {
  for (double d = 1e-15; d < 0.5; d *= 2.3) {
    CAPTURE(d);
    CHECK(relative_error(portable_log2(1 + d), std::log2(1 + d)) < 1e-15);
    CHECK(relative_error(portable_log2(1 - d), std::log2(1 - d)) < 1e-15);
  }
}

TEST_CASE("portable_math: powers of two are exact", "[unit][support]") {
  for (int n = -1000; n <= 1000; ++n) {
    CAPTURE(n);
    CHECK(portable_exp2(n) == std::ldexp(1.0, n));
  }
  for (int n = -1074; n <= 1023; ++n) {
    CAPTURE(n);
    CHECK(portable_log2(std::ldexp(1.0, n)) == n);
  }
}

TEST_CASE("portable_math: values worked by hand", "[unit][support]") {
  CHECK(portable_exp2(0.5) == Approx(1.4142135623730951).epsilon(1e-15));                   // sqrt(2)
  CHECK(portable_exp2(-0.5) == Approx(0.7071067811865476).epsilon(1e-15));                  // 1 / sqrt(2)
  CHECK(portable_log2(10) == Approx(3.321928094887362).epsilon(1e-15));                     // ln 10 / ln 2
  CHECK(portable_log2(std::numeric_limits<double>::max()) == Approx(1024).epsilon(1e-15));  // 2^1024 (1 - 2^-53)
}

TEST_CASE("portable_math: exp2 of many is exp2 of each, to the bit", "[unit][support]") {
  std::mt19937_64 random(1);
  std::vector<double> values{0.0, -0.0, 0.5,   -0.5,  0.5 - 0x1p-54, -0.5 - 0x1p-53, -0.5 + 0x1p-54,
                             1.5, -1.5, 998.7, -998.7};
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(std::ldexp(static_cast<double>(random() >> 11), -53 + static_cast<int>(random() % 10)) *
                     (random() % 2 == 0 ? 1 : -1));
  }
  // Blocks with what is far out, and with what is no number, among the others.
  for (const double far : {999.5, -1074.0, 5000.0, -5000.0, std::numeric_limits<double>::infinity()}) {
    values[random() % values.size()] = far;
  }
  std::vector<double> powers = values;
  portable_exp2(powers);
  std::int64_t unlike = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    unlike += std::bit_cast<std::uint64_t>(powers[i]) != std::bit_cast<std::uint64_t>(portable_exp2(values[i])) ? 1 : 0;
  }
  CHECK(unlike == 0);
}
