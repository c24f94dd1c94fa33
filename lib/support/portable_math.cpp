#include "ddlsim/support/portable_math.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace ddlsim {
namespace {

constexpr double kLn2 = 0.693147180559945309417232;

/// 1/n!: a division takes longer than all else here.
constexpr std::array<double, 15> kInverseFactorials = [] {
  std::array<double, 15> inverse{};
  double factorial = 1;  // exact: 14! is below 2^53
  for (int n = 0; n < 15; ++n) {
    if (n > 0) factorial *= n;
    inverse[static_cast<std::size_t>(n)] = 1 / factorial;
  }
  return inverse;
}();

/// 1/(2n+1).
constexpr std::array<double, 13> kInverseOdd = [] {
  std::array<double, 13> inverse{};
  for (int n = 0; n < 13; ++n) inverse[static_cast<std::size_t>(n)] = 1.0 / (2 * n + 1);
  return inverse;
}();

// The bits of a double: std::ldexp, std::frexp and std::floor are calls that take as long as the polynomials.
constexpr int kMantissaBits = 52;
constexpr std::uint64_t kMantissa = (std::uint64_t{1} << kMantissaBits) - 1;
constexpr std::uint64_t kExponents = 0x7FF;
constexpr std::uint64_t kHalf = 0x3FE;     // the exponent of [0.5, 1)
constexpr double kNormalExponents = 1000;  // 2^x and its neighbours are normal up to here

/// 2^whole * mantissa.
double scaled(double mantissa, double whole) {
  if (!(std::abs(whole) <= kNormalExponents)) return std::ldexp(mantissa, static_cast<int>(whole));
  const auto power = static_cast<std::uint64_t>(static_cast<std::int64_t>(whole) + 1023) << kMantissaBits;
  return mantissa * std::bit_cast<double>(power);
}

/// The whole number nearest to x, the higher of two.
double nearest(double x) {
  if (!(std::abs(x) <= kNormalExponents)) return std::floor(x + 0.5);
  const double half_up = x + 0.5;
  const auto towards_zero = static_cast<double>(static_cast<std::int64_t>(half_up));
  return towards_zero > half_up ? towards_zero - 1 : towards_zero;
}

struct Parts {
  double mantissa;  // in [0.5, 1)
  int exponent;
};

Parts parts_of(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t exponent = bits >> kMantissaBits;
  if (exponent == 0 || exponent >= kExponents) {  // not normal, or negative
    Parts parts{};
    parts.mantissa = std::frexp(x, &parts.exponent);
    return parts;
  }
  return {std::bit_cast<double>((bits & kMantissa) | (kHalf << kMantissaBits)),
          static_cast<int>(exponent) - static_cast<int>(kHalf)};
}

}  // namespace

double portable_exp2(double x) {
  const double whole = nearest(x);
  const double y = (x - whole) * kLn2;  // |y| <= ln(2)/2, so terms up to y^14 leave 1e-19
  double sum = 0.0;
  for (std::size_t n = kInverseFactorials.size(); n-- > 0;) sum = sum * y + kInverseFactorials[n];
  return scaled(sum, whole);
}

double portable_log2(double x) {
  auto [mantissa, exponent] = parts_of(x);
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2;
    --exponent;
  }
  // ln m = 2 atanh((m-1)/(m+1)); |s| < 0.172, so 12 odd powers leave 1e-20.
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = s * s;
  double sum = 0.0;
  for (std::size_t n = kInverseOdd.size(); n-- > 0;) sum = sum * square + kInverseOdd[n];
  return exponent + 2.0 * s * sum / kLn2;
}

}  // namespace ddlsim
