// How a job spreads one step over its GPUs: a strategy is a value.
#pragma once

#include <cstdint>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::plan {

enum class StrategyKind {
  kPs,         // parameter servers hold the weights; workers push gradients and pull weights
  kAllReduce,  // every GPU holds the weights; gradients are summed by ring all-reduce
  kPearl,      // embeddings split over the GPUs, dense weights all-reduced (Wang et al. 2019)
};

inline constexpr Choices<StrategyKind, 5> kStrategies{{
    {"ps", StrategyKind::kPs},
    {"allreduce", StrategyKind::kAllReduce},
    {"pearl", StrategyKind::kPearl},
    {"ps-worker", StrategyKind::kPs},
    {"all-reduce", StrategyKind::kAllReduce},
}};

/// When communication may run.
enum class Overlap {
  kNone,      // after backward, nothing hidden
  kBackward,  // as soon as a gradient is ready (wait-free backpropagation)
  kIdeal,     // everything hidden behind the longest part: a bound, not a schedule
};

inline constexpr Choices<Overlap, 3> kOverlaps{{
    {"none", Overlap::kNone},
    {"backward", Overlap::kBackward},
    {"ideal", Overlap::kIdeal},
}};

struct Strategy {
  StrategyKind kind = StrategyKind::kAllReduce;
  /// All-reduce: gradients are sent in buckets of at least this much, in the order backward makes them; a tensor is
  /// never split. The first bucket is 1 MiB so that sending starts early. Default: PyTorch DDP's bucket_cap_mb.
  DataSize bucket = mebibytes(25);
  /// PS: tensors are cut into pieces of at most this size, spread evenly over the servers. Default: BytePS's
  /// BYTEPS_PARTITION_BYTES (4,096,000 B).
  DataSize partition = bytes(4'096'000);
  /// PS: server machines, apart from the workers', each with the workers' network port. 0: as many as worker nodes.
  std::int64_t servers = 0;
  /// Format in which gradients and pulled weights travel.
  Precision gradients = Precision::kFp32;
};

/// The architecture of Wang et al. (IISWC 2019) that a strategy amounts to on so many GPUs and nodes. One GPU keeps its
/// weights whatever the strategy.
[[nodiscard]] constexpr workload::Architecture architecture_of(StrategyKind kind, std::int64_t nodes,
                                                               std::int64_t gpus) {
  using workload::Architecture;
  if (gpus == 1) return Architecture::k1w1g;
  switch (kind) {
    case StrategyKind::kPs: return nodes == 1 ? Architecture::k1wng : Architecture::kPsWorker;
    case StrategyKind::kAllReduce: return nodes == 1 ? Architecture::kAllReduceLocal : Architecture::kAllReduceCluster;
    case StrategyKind::kPearl: return Architecture::kPearl;
  }
  return Architecture::k1w1g;
}

}  // namespace ddlsim::plan
