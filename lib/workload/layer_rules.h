// What the rules of op.cpp and its like share: counts that remember an overflow, and the error of a misfit.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "ddlsim/support/checked.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::workload {

/// Counts stay exact as doubles up to here.
inline constexpr std::int64_t kLargestCount = std::int64_t{1} << 53;

/// Sums and products of counts that remember an overflow instead of hiding it.
class Counter {
 public:
  std::int64_t product(std::initializer_list<std::int64_t> factors) {
    std::int64_t result = 1;
    for (const std::int64_t factor : factors) result = keep(checked_multiply(result, factor));
    return result;
  }
  std::int64_t sum(std::initializer_list<std::int64_t> terms) {
    std::int64_t result = 0;
    for (const std::int64_t term : terms) result = keep(checked_add(result, term));
    return result;
  }
  std::int64_t elements(const Shape& shape) {
    std::int64_t result = 1;
    for (const std::int64_t size : shape) result = keep(checked_multiply(result, size));
    return result;
  }
  /// FLOPs, of which no tensor is made: exact up to 2^53, rounded above. Its factors are counts: it cannot overflow.
  static Work work(std::initializer_list<std::int64_t> factors) {
    double result = 1;
    for (const std::int64_t factor : factors) result *= static_cast<double>(factor);
    return flops(result);
  }
  [[nodiscard]] bool overflowed() const { return overflowed_; }

 private:
  std::int64_t keep(std::optional<std::int64_t> value) {
    if (value && *value <= kLargestCount) return *value;
    overflowed_ = true;
    return 0;
  }
  bool overflowed_ = false;
};

/// The error of an operator that its input does not fit.
inline tl::unexpected<Error> misfit(std::string_view op, const Shape& in, std::string_view needs) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} cannot take an input of shape {}", op, to_string(in)), {},
              {std::string(needs)});
}

}  // namespace ddlsim::workload
