// A sum of doubles without any rounding, so that the order and the cuts of the terms do not matter.
//
// The sum is a whole number of 2^-1075, kept as 67 chunks c_i of 64 bits whose weights are 32 bits apart:
//
//   sum = Σ c_i 2^(32 i - 1075)
//
// A finite double is m 2^(e - 1075), with 53 bits of m and its biased exponent e from 1 to 2046. Shifted by e mod 32 it
// has at most 84 bits: the low 32 are added to chunk e / 32, the others, at most 52, to the next one. Whole numbers are
// added, so nothing is rounded and nothing depends on order. A chunk can take 2^11 - 1 of these before it could pass
// 2^63; then what is above its 32 bits is carried to the next. Carried to the end, every chunk but the last is in
// [0, 2^32): one sum has one such form, which is what `text` writes. The last chunk has room for 2^62 of the largest
// doubles. `value` rounds the whole sum once, to the nearest double, ties to even.
//
// Infinities and what is no number are added beside (their sum does not depend on order either).
// Source: Neal, "Fast exact summation using small and large superaccumulators", 2015 (arXiv 1505.05571).
//
// Worked example: 1e16 + 1 - 1e16 is 1 here, and 0 by doubles from the left.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddlsim {

class ExactSum {
 public:
  void add(double term) {
    const auto bits = std::bit_cast<std::uint64_t>(term);
    const std::uint64_t biased = bits >> 52 & 0x7FF;
    if (biased == 0x7FF) {
      special_ += term;
      return;
    }
    const std::uint64_t hidden = biased == 0 ? 0 : std::uint64_t{1} << 52;
    const std::uint64_t exponent = biased == 0 ? 1 : biased;  // subnormal numbers have that of the smallest normal one
    const std::uint64_t mantissa = (bits & ((std::uint64_t{1} << 52) - 1)) | hidden;
    const std::uint64_t shift = exponent & 31;
    const auto low = static_cast<std::int64_t>(mantissa << shift & 0xFFFFFFFF);
    const auto high = static_cast<std::int64_t>(mantissa >> (32 - shift));
    const std::int64_t sign = -static_cast<std::int64_t>(bits >> 63);  // 0 or -1: (x ^ sign) - sign is x or -x
    const std::size_t at = exponent >> 5;
    chunks_[at] += (low ^ sign) - sign;
    chunks_[at + 1] += (high ^ sign) - sign;
    if (++uncarried_ == kMostUncarried) carry();
  }

  void add(const ExactSum& other);

  /// The nearest double; infinite or no number where a term was.
  [[nodiscard]] double value() const;

  /// The sum as text: the same for the same sum, however it came about. "0", or "AT:HEX[,HEX...][;SPECIAL]".
  [[nodiscard]] std::string text() const;
  /// Nothing: not what `text` writes.
  [[nodiscard]] static std::optional<ExactSum> parse(std::string_view text);

  friend bool operator==(const ExactSum& a, const ExactSum& b) { return a.text() == b.text(); }

 private:
  static constexpr std::size_t kChunks = 67;
  static constexpr int kMostUncarried = (1 << 11) - 1;

  void carry();
  [[nodiscard]] ExactSum carried() const {
    ExactSum sum = *this;
    sum.carry();
    return sum;
  }

  std::array<std::int64_t, kChunks> chunks_{};
  int uncarried_ = 0;
  double special_ = 0;
};

}  // namespace ddlsim
