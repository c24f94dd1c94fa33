// The collective operations, by the names that nccl-tests and PyTorch give them, and a measurement of one.
//
// Priced by cost/collective.h, read as measurements by importers/collective_file.h.
#pragma once

#include <array>
#include <cstdint>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::primitives {

enum class CollectiveOp : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kSendRecv
};

inline constexpr std::array kAllCollectiveOps{
    CollectiveOp::kAllReduce, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll,
    CollectiveOp::kBroadcast, CollectiveOp::kReduce,    CollectiveOp::kSendRecv};
inline constexpr std::size_t kCollectiveOpCount = kAllCollectiveOps.size();

inline constexpr Choices<CollectiveOp, 9> kCollectiveOps{{
    {"all_reduce", CollectiveOp::kAllReduce},
    {"all_gather", CollectiveOp::kAllGather},
    {"reduce_scatter", CollectiveOp::kReduceScatter},
    {"all_to_all", CollectiveOp::kAllToAll},
    {"broadcast", CollectiveOp::kBroadcast},
    {"reduce", CollectiveOp::kReduce},
    {"sendrecv", CollectiveOp::kSendRecv},
    {"alltoall", CollectiveOp::kAllToAll},
    {"send_recv", CollectiveOp::kSendRecv},
}};

/// nccl-tests' factor from algorithm bandwidth (size / time) to bus bandwidth, of `gpus` ranks. Source:
/// NVIDIA/nccl-tests doc/PERFORMANCE.md.
[[nodiscard]] constexpr double bus_bandwidth_factor(CollectiveOp op, std::int64_t gpus) {
  const auto n = static_cast<double>(gpus);
  switch (op) {
    case CollectiveOp::kAllReduce: return 2.0 * (n - 1.0) / n;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll: return (n - 1.0) / n;
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kReduce:
    case CollectiveOp::kSendRecv: return 1.0;
  }
  return 1.0;
}

/// One measured collective. `size` as nccl-tests prints it (cost/collective.h); `where` is the place it was read from.
struct CollectiveMeasurement {
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::int64_t gpus = 1;
  std::int64_t nodes = 1;
  DataSize size{};
  Time time{};
  SourceLocation where{};
};

}  // namespace ddlsim::primitives
