// How a job spreads one step over its GPUs: a strategy is a value.
//
// What a framework does under its defaults is a list of these settings (whatif/framework.h); every one can be set
// alone.
#pragma once

#include <cstdint>
#include <optional>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/support/stated.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::plan {

enum class StrategyKind {
  kPs,            // parameter servers hold the weights; workers push gradients and pull weights
  kAllReduce,     // every GPU holds the weights; gradients are summed by a collective
  kPearl,         // embeddings split over the GPUs, dense weights all-reduced (Wang et al. 2019)
  kDataParallel,  // one process of one server: GPU 0 has batch and weights, and shares them out (torch.nn.DataParallel)
};

inline constexpr Choices<StrategyKind, 6> kStrategies{{
    {"ps", StrategyKind::kPs},
    {"allreduce", StrategyKind::kAllReduce},
    {"pearl", StrategyKind::kPearl},
    {"data-parallel", StrategyKind::kDataParallel},
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

/// How gradients become messages.
enum class Grouping {
  kBuckets,     // consecutive tensors until a bucket is full; a tensor is never split (PyTorch DDP)
  kFusion,      // what is ready when a cycle of the coordinator ends, up to the buffer's size (Horovod)
  kPerTensor,   // one message per tensor (TensorFlow parameter servers, Baidu all-reduce)
  kFlat,        // one message after backward (apex delay_allreduce)
  kPartitions,  // every tensor cut into pieces of one size (BytePS, ByteScheduler, P3)
};

inline constexpr Choices<Grouping, 5> kGroupings{{
    {"buckets", Grouping::kBuckets},
    {"fusion", Grouping::kFusion},
    {"per-tensor", Grouping::kPerTensor},
    {"flat", Grouping::kFlat},
    {"partitions", Grouping::kPartitions},
}};

/// What is sent instead of a gradient; a smaller number format is `Strategy::gradients`.
enum class Compression {
  kNone,
  kTopK,      // the largest `density` of the elements with their indices, gathered from every GPU
  kPowerSgd,  // two factors of `rank` columns per matrix, all-reduced one after the other (Vogels et al. 2019)
  kSign,      // one bit per element, gathered from every GPU (signSGD with majority vote)
};

inline constexpr Choices<Compression, 4> kCompressions{{
    {"none", Compression::kNone},
    {"top-k", Compression::kTopK},
    {"powersgd", Compression::kPowerSgd},
    {"sign", Compression::kSign},
}};

/// PS: which server holds which tensor. Partitions are spread evenly whatever this says.
enum class Placement {
  kEven,        // every tensor is spread over all servers
  kRoundRobin,  // variables in turn, in the order of the model, moving means and variances too (TensorFlow)
  kGreedy,      // each tensor, largest first, on the server with the fewest bytes so far
};

inline constexpr Choices<Placement, 3> kPlacements{{
    {"even", Placement::kEven},
    {"round-robin", Placement::kRoundRobin},
    {"greedy", Placement::kGreedy},
}};

/// PS: what a worker waits for.
enum class Consistency {
  kSync,   // every other worker, every step
  kAsync,  // nobody
  kStale,  // workers more than `staleness` steps behind (stale-synchronous, Ho et al. 2013)
};

inline constexpr Choices<Consistency, 3> kConsistencies{{
    {"sync", Consistency::kSync},
    {"async", Consistency::kAsync},
    {"stale-sync", Consistency::kStale},
}};

/// What carries tensors between worker and server.
enum class PsTransport {
  kGrpc,       // protobuf over TCP, staged through host memory
  kGrpcMpi,    // gRPC for control, tensors by MPI, encoded
  kGrpcVerbs,  // gRPC for control, tensors by RDMA writes
  kGrpcGdr,    // gRPC for control, tensors by GPUDirect RDMA reads
  kTcp,        // ps-lite over ZeroMQ
  kRdma,       // ps-lite over verbs, registered host memory
};

inline constexpr Choices<PsTransport, 6> kPsTransports{{
    {"grpc", PsTransport::kGrpc},
    {"grpc+mpi", PsTransport::kGrpcMpi},
    {"grpc+verbs", PsTransport::kGrpcVerbs},
    {"grpc+gdr", PsTransport::kGrpcGdr},
    {"tcp", PsTransport::kTcp},
    {"rdma", PsTransport::kRdma},
}};

struct Strategy {
  StrategyKind kind = StrategyKind::kAllReduce;
  Stated<std::optional<Grouping>> grouping{};  // nothing: buckets for all-reduce, partitions for PS
  /// Buckets: the first is small so that sending starts early, the others hold at least `bucket`. Fusion: the buffer
  /// holds at most `bucket`. Defaults: PyTorch DDP's _DEFAULT_FIRST_BUCKET_BYTES and bucket_cap_mb.
  Stated<DataSize> first_bucket = by_default(mebibytes(1));
  Stated<DataSize> bucket = by_default(mebibytes(25));
  /// Fusion: the coordinator's cycle. Default: Horovod's HOROVOD_CYCLE_TIME since 0.21.
  Stated<Time> cycle = by_default(milliseconds(1));
  /// Partitions: the largest piece. Default: BytePS's BYTEPS_PARTITION_BYTES.
  Stated<DataSize> partition = by_default(bytes(4'096'000));
  /// What the next forward pass needs first is sent first, and each layer waits for its own tensors alone.
  Stated<bool> priority = by_default(false);
  /// Format in which gradients and pulled weights travel.
  Stated<Precision> gradients = by_default(Precision::kFp32);
  Stated<Compression> compression = by_default(Compression::kNone);
  Stated<double> density = by_default(0.01);                // top-k: share of the elements sent
  Stated<std::int64_t> rank = by_default(std::int64_t{4});  // PowerSGD
  /// Forward and backward passes per step; only the last one's gradients, the sum, are sent.
  Stated<std::int64_t> accumulation = by_default(std::int64_t{1});
  // Local SGD: replicas train by themselves for so many steps, then average their weights (step/local_sgd.h).
  Stated<std::int64_t> sync_every = by_default(std::int64_t{1});

  // Parameter servers.
  Stated<std::int64_t> servers =
      by_default(std::int64_t{0});             // processes that hold weights; 0: as many as worker nodes
  Stated<bool> colocated = by_default(false);  // on the workers' own machines, sharing their network ports
  Stated<Placement> placement = by_default(Placement::kEven);
  Stated<bool> local_aggregation = by_default(false);  // a node's GPUs sum their gradients first and share one pull
  /// Servers hold weights and update them; if not they only sum gradients, and every GPU updates its own weights
  /// (BytePS's summation service, Jiang et al., OSDI 2020).
  Stated<bool> servers_update = by_default(true);
  Stated<bool> pull_at_start =
      by_default(false);  // weights are pulled when the next step asks for them, not when they are ready
  Stated<Consistency> consistency = by_default(Consistency::kSync);
  Stated<std::int64_t> staleness = by_default(std::int64_t{3});  // stale-sync: steps a worker may be ahead

  /// PEARL: smaller tables are on every GPU, and their gradients summed whole. Default: HugeCTR's dp_sharding_threshold
  /// of MLPerf's DLRM-DCNv2, 0.008 GiB (mlcommons/training_results_v5.1).
  Stated<DataSize> spread_from = by_default(mebibytes(8));

  // One process (data-parallel). Remedies of the survey's authors (Xu et al., WWW 2021).
  Stated<bool> split_on_host = by_default(false);          // the host sends every GPU its part of the batch
  Stated<bool> preload = by_default(false);                // the next batch is copied while this one is worked on
  Stated<double> parameter_compression = by_default(1.0);  // weights are broadcast so many times as small

  friend bool operator==(const Strategy&, const Strategy&) = default;
};

[[nodiscard]] constexpr Grouping grouping_of(const Strategy& strategy) {
  return strategy.grouping->value_or(strategy.kind == StrategyKind::kPs ? Grouping::kPartitions : Grouping::kBuckets);
}

/// PEARL: whether a table of so many fp32 elements is spread over the GPUs.
[[nodiscard]] constexpr bool spreads(const Strategy& strategy, std::int64_t elements) {
  return strategy.kind == StrategyKind::kPearl && bytes(4) * static_cast<double>(elements) >= strategy.spread_from;
}

/// Whether ranks sum gradients of weights that each of them has.
[[nodiscard]] constexpr bool sums_gradients(StrategyKind kind) {
  return kind == StrategyKind::kAllReduce || kind == StrategyKind::kPearl;
}

/// Whether gradients of so many nodes go to servers. Of one node, servers that only sum get nothing: its GPUs
/// all-reduce (bytedance/byteps byteps/common/global.cc: IsDistributed is false with one worker, unless
/// BYTEPS_FORCE_DISTRIBUTED says so).
[[nodiscard]] constexpr bool sends_to_servers(const Strategy& strategy, std::int64_t nodes) {
  return strategy.kind == StrategyKind::kPs && (strategy.servers_update || nodes > 1);
}

/// The architecture of Wang et al. (IISWC 2019) that a strategy amounts to on so many GPUs and nodes. One GPU keeps its
/// weights whatever the strategy.
[[nodiscard]] constexpr workload::Architecture architecture_of(const Strategy& strategy, std::int64_t nodes,
                                                               std::int64_t gpus) {
  using workload::Architecture;
  if (gpus == 1) return Architecture::k1w1g;
  if (strategy.kind == StrategyKind::kPs && !sends_to_servers(strategy, nodes)) return Architecture::kAllReduceLocal;
  switch (strategy.kind) {
    case StrategyKind::kPs: return nodes == 1 ? Architecture::k1wng : Architecture::kPsWorker;
    case StrategyKind::kAllReduce: return nodes == 1 ? Architecture::kAllReduceLocal : Architecture::kAllReduceCluster;
    case StrategyKind::kPearl: return Architecture::kPearl;
    case StrategyKind::kDataParallel: return Architecture::kAllReduceLocal;
  }
  return Architecture::k1w1g;
}

}  // namespace ddlsim::plan
