// What the readers of nccl-tests' text and JSON share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddlsim::importers {

inline constexpr std::int64_t kMaxRanks = 1'000'000'000;

/// "all_reduce" from "./build/all_reduce_perf -b 8"; nothing without "_perf" in the text. An operation of nccl-tests
/// that is not modelled is an error.
[[nodiscard]] Expected<std::optional<primitives::CollectiveOp>> op_of_program(std::string_view text,
                                                                              const SourceLocation& where);

/// Both bandwidths of a row in GB/s.
struct RowBandwidths {
  double algorithm = 0;
  double bus = 0;
};

/// Whether busbw / algbw is what the operation and the ranks make it.
[[nodiscard]] Expected<void> check_bandwidths(const primitives::CollectiveMeasurement& row, RowBandwidths bandwidths);

}  // namespace ddlsim::importers
