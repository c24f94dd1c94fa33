#include "ddlsim/support/portable_math.h"

#include <cmath>

namespace ddlsim {
namespace {

constexpr double kLn2 = 0.693147180559945309417232;

}  // namespace

double portable_exp2(double x) {
  const double whole = std::floor(x + 0.5);
  const double y = (x - whole) * kLn2;  // |y| <= ln(2)/2, so 16 terms of the Taylor series leave 1e-19
  double sum = 1.0;
  for (int n = 16; n >= 1; --n) sum = 1.0 + sum * y / n;
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
  for (int n = 25; n >= 1; n -= 2) sum = sum * square + 1.0 / n;
  return exponent + 2.0 * s * sum / kLn2;
}

}  // namespace ddlsim
