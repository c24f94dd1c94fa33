#include "ddlsim/cost/straggler.h"

#include <numbers>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::cost {
namespace {

/// Square root by Newton's method, from arithmetic alone.
double square_root(double x) {
  double root = portable_exp2(0.5 * portable_log2(x));
  for (int i = 0; i < 2; ++i) root = 0.5 * (root + x / root);
  return root;
}

/// Upper tail quantile: P(Z > z) = tail, for 0 < tail <= 0.5. Abramowitz and Stegun 26.2.23, error below 4.5e-4.
double upper_quantile(double tail) {
  const double t = square_root(-2.0 * std::numbers::ln2 * portable_log2(tail));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

}  // namespace

double expected_largest(std::int64_t n) {
  if (n <= 1) return 0;
  const auto count = static_cast<double>(n);
  return upper_quantile(0.625 / (count + 0.25));
}

}  // namespace ddlsim::cost
