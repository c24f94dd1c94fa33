#include "ddlsim/support/portable_math.h"

#include <array>
#include <cmath>
#include <cstddef>

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

}  // namespace

double portable_exp2(double x) {
  const double whole = std::floor(x + 0.5);
  const double y = (x - whole) * kLn2;  // |y| <= ln(2)/2, so terms up to y^14 leave 1e-19
  double sum = 0.0;
  for (std::size_t n = kInverseFactorials.size(); n-- > 0;) sum = sum * y + kInverseFactorials[n];
  return std::ldexp(sum, static_cast<int>(whole));
}

double portable_log2(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
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
