#include "ddlsim/support/portable_math.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

namespace ddlsim {
namespace {

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
  // From 3000 on nothing changes; what no int holds must not become one.
  if (!(std::abs(whole) <= kNormalExponents)) {
    return std::ldexp(mantissa,
                      static_cast<int>(std::fmin(std::fmax(whole, -3 * kNormalExponents), 3 * kNormalExponents)));
  }
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

/// y^N / N! + y^(N+1) / (N+1)! + ..., divided by y^N; without a loop, so that loops around it become vectors.
template <std::size_t N>
double powers_from(double y) {
  if constexpr (N + 1 == kInverseFactorials.size()) {
    return kInverseFactorials[N];
  } else {
    return powers_from<N + 1>(y) * y + kInverseFactorials[N];
  }
}

std::uint64_t bits_of(double x) { return std::bit_cast<std::uint64_t>(x); }

/// portable_exp2 of values whose powers are normal, without a branch, which compilers turn into vectors.
[[gnu::always_inline]] inline void exp2_in_vectors(double* values, std::size_t size) {
  // The lowest bits of whole + kShifted are those of `whole` as a number; 1023 more is an exponent.
  constexpr double kShifted = 0x1.8p52 + 1023;
  for (std::size_t i = 0; i < size; ++i) {
    const double half_up = values[i] + 0.5;
    const auto towards_zero = static_cast<double>(static_cast<std::int32_t>(half_up));
    const std::uint64_t below = bits_of(half_up - towards_zero) >> 63;  // 1: the whole number is one less
    const double whole = towards_zero - std::bit_cast<double>((0 - below) & bits_of(1.0));
    const double y = (values[i] - whole) * std::numbers::ln2;
    values[i] = powers_from<0>(y) * std::bit_cast<double>(bits_of(whole + kShifted) << kMantissaBits);
  }
}

#if defined(__x86_64__)
/// Four at a time; nothing is fused, so the bits are those of two at a time.
[[gnu::target("avx2")]] void exp2_by_avx2(double* values, std::size_t size) { exp2_in_vectors(values, size); }
void exp2_of_normal(double* values, std::size_t size) {
  if (__builtin_cpu_supports("avx2") != 0) {
    exp2_by_avx2(values, size);
  } else {
    exp2_in_vectors(values, size);
  }
}
#else
void exp2_of_normal(double* values, std::size_t size) { exp2_in_vectors(values, size); }
#endif

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
  const double y = (x - whole) * std::numbers::ln2;  // |y| <= ln(2)/2, so terms up to y^14 leave 1e-19
  return scaled(powers_from<0>(y), whole);
}

void portable_exp2(std::span<double> values) {
  constexpr std::size_t kBlock = 64;
  constexpr std::uint64_t kMost = std::bit_cast<std::uint64_t>(kNormalExponents - 1);
  for (std::size_t from = 0; from < values.size(); from += kBlock) {
    const auto block = values.subspan(from, std::min(kBlock, values.size() - from));
    std::uint64_t beyond = 0;  // its highest bit: whether some |x| is greater than kMost, or no number
    for (const double x : block) beyond |= kMost - (bits_of(x) << 1 >> 1);
    if (beyond >> 63 == 0) {
      exp2_of_normal(block.data(), block.size());
    } else {
      for (double& x : block) x = portable_exp2(x);
    }
  }
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
  return exponent + 2.0 * s * sum / std::numbers::ln2;
}

}  // namespace ddlsim
