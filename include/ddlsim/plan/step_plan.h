// Everything that a step of a job does, and who does it: no rate, no time, no catalogue.
//
// Alike ranks stand once, as a RankClass: the replicas of a data-parallel job are one class, a mixed cluster's slower
// GPUs another, every stage of a pipeline one. A class runs its layers forward and backward, micro-batch by micro-batch
// in the plan's order (plan/order.h); everything else it does is a Row of one table: gradients that are summed, weights
// that are gathered, activations that cross stages, copies over PCIe, the update. A row says when it may start and what
// waits for it, so that nobody who reads a plan need know which strategy made it.
//
// Points in a class's pass:  begin | forward(0) ... forward(L-1) | backward(L-1) ... backward(0) | update
// A row starts when its class has passed `ready`; what `needed` names does not begin before the row is done. With
// `in_the_way` the class's own kernels wait from start to end (tensor-parallel reductions); else it runs beside them.
// Where backward is split in two, rows that the update needs start after the weights' pass, others after the input's.
//   gradient, wait-free        ready backward(l)    needed update                      all-reduce in the data group
//   the same by priority       ready backward(l)    needed forward(l), one step later  lag 1
//   TP reduction of a block    ready forward(l)     in the way                         all-reduce in the tensor group
//   ZeRO-3 gather, prefetched  ready forward(l-1)   needed forward(l)                  all-gather in the data group
//   stage boundary             ready forward(last)  needed forward(first) of the next part's class
//   keys around a ring         needed forward(l)    in the way, beside (c-1)/c of attention's own kernels
//   asynchronous server        ready backward(l)    needed by nobody of this step      lag kNobodyWaits
//
// Priced by cost/price.h, scheduled by step/schedule.h, simulated by events/step.h. Made by plan/lower.h, which has the
// worked examples.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/plan/memory.h"
#include "ddlsim/plan/parallel.h"
#include "ddlsim/plan/strategy.h"
#include "ddlsim/primitives/collective_op.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::plan {

/// The ranks of a job: how many along each axis, and how many of them stand in one server.
struct Grid {
  std::array<std::int64_t, kAxes> along{1, 1, 1, 1, 1};  // by Axis; data ranks apart from those of experts
  std::int64_t gpus_per_node = 1;
  AxisOrder order = kMegatronOrder;
  bool whole_experts = false;        // not cut over tensor ranks
  std::int64_t experts_tensor = 1;   // neighbours in a tensor group that share experts, beside those along their axis
  std::int64_t experts_context = 1;  // in a context group likewise

  [[nodiscard]] std::int64_t at(Axis axis) const { return along[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] std::int64_t ranks() const;
};

/// What a group of ranks is there for.
enum class GroupRole {
  kGradients,        // have the same weights, experts apart: data, context and expert axes
  kExpertGradients,  // have the same experts: data axis, what does not share experts of the context axis and, where
                     // they are whole, of the tensor axis
  kShards,           // zero: share what kGradients would copy, where they are fewer (HSDP)
  kCopies,           // have the same shard
  kExpertShards,     // likewise of what kExpertGradients would copy: those of a shard group that have the same experts
  kExpertCopies,
  kTensor,
  kContext,
  kExperts,
  kStages,        // two neighbouring stages in one server, or of which none are
  kStagesAcross,  // two neighbouring stages in two servers
};

/// Ranks that talk to each other. Every such group of the job looks alike.
struct RankGroup {
  Axis along = Axis::kData;
  GroupRole role = GroupRole::kGradients;
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;     // that its ranks stand on, as many on each
  std::int64_t siblings = 1;  // groups like it, itself included, that send through the same server's ports at once
  std::int64_t between = 1;   // of these, itself included, whose ranks stand between its own: what they send each
                              // other takes the same ways through the server

  [[nodiscard]] std::int64_t per_node() const { return ranks / nodes; }
};

/// The groups along axes. Ranks fill servers in the grid's order, the innermost axis first. Errors: kInvalidArgument
/// where a group would stand on some servers with more ranks than on others.
[[nodiscard]] Expected<RankGroup> group_along(const Grid& grid, std::span<const Axis> axes);
[[nodiscard]] inline Expected<RankGroup> group_along(const Grid& grid, Axis axis) {
  return group_along(grid, std::span(&axis, 1));
}

/// What all ranks of one group of a role have in common, and no rank of another: a number between 0 and the grid's
/// ranks.
[[nodiscard]] std::int64_t group_number(const Grid& grid, const RankGroup& group, std::int64_t rank);

/// Layers of a list, which belongs to somebody who lives longer, or to the plan: those that follow `first`, or where
/// they do not follow each other those that `which` numbers.
struct Chunk {
  std::shared_ptr<const std::vector<workload::Layer>> layers;
  std::size_t first = 0;
  std::size_t count = 0;
  std::shared_ptr<const std::vector<std::size_t>> which{};

  [[nodiscard]] std::size_t place(std::size_t i) const { return which ? (*which)[i] : first + i; }
  [[nodiscard]] const workload::Layer& operator[](std::size_t i) const { return (*layers)[place(i)]; }
};

/// Layers of a class that follow each other in the model: its stage, or one of several (plan/order.h).
struct Part {
  std::size_t first = 0;       // of the class's chunk
  std::size_t count = 0;       //
  std::size_t position = 0;    // among the parts that a micro-batch goes through
  std::size_t layer = 0;       // of the model, as it is cut: where the part begins
  std::int64_t in_flight = 1;  // micro-batches that are kept for its backward when the class keeps the most
};

/// Ranks that do the same. Where a rank has several parts its chunk is all their layers, one part after the other.
struct RankClass {
  std::string role;
  std::int64_t ranks = 1;
  std::int64_t stage = 0;
  double slowness = 1;  // of its GPUs, against the job's
  Chunk chunk;
  std::vector<Part> parts{};         // empty: all layers are one
  std::int64_t weight_versions = 1;  // that it keeps (PipeDream)
  DataSize updated{};                // read and written by the update of its weights
  std::int64_t update_launches = 0;  // of its kernels, where nothing else happens while the CPU launches them
  bool updates_on_gpu = true;        // false: servers or the host do, or measured layers have it among them
  MemoryFootprint memory{};
};

enum class Moment { kBegin, kForward, kBackward, kUpdate, kNever };

struct Point {
  Moment at = Moment::kNever;
  std::size_t layer = 0;  // of the class's chunk

  friend bool operator==(const Point&, const Point&) = default;
};

enum class RowKind {
  kKernel,      // work of the GPU itself, beside its layers: `size` bytes of its memory, or `work`
  kCopy,        // over the link between host and GPU, from the GPU
  kCopyBack,    // over the same link, to the GPU
  kHost,        // work of the host: `size` bytes of its memory
  kServer,      // to a parameter server and back
  kCollective,  // `op` in `group`
};

/// Who may be how far ahead of a row: any distance.
inline constexpr std::int64_t kNobodyWaits = -1;

inline constexpr std::size_t kNoRow = static_cast<std::size_t>(-1);

struct Row {
  RowKind kind = RowKind::kCollective;
  primitives::CollectiveOp op = primitives::CollectiveOp::kAllReduce;
  DataSize size{};         // of one piece: the buffer of an all_reduce or a send; of one rank's share of a gather, a
                           // scatter or an all_to_all
  std::int64_t count = 1;  // alike pieces
  Point ready{};
  Point needed{};
  bool in_the_way = false;
  /// In the way, and yet beside so much of the kernels of `needed`'s layer in that pass (0.5: half of them): only what
  /// is longer than that share of their time holds kernels up.
  double beside = 0;
  std::size_t after = kNoRow;  // a row of the same pass that is done before this one starts
  bool alone = false;          // a copy that no other GPU makes at the same time
  std::size_t rank_class = 0;  // whose ready
  std::size_t needed_by = 0;   // the class whose needed: another for what crosses a stage boundary
  std::size_t group = 0;       // of StepPlan::groups
  bool every_pass = false;     // once for every micro-batch; else once in a step: with the first where it is needed
                               // in forward, with the last otherwise
  std::int64_t lag = 0;        // steps that what needs it may be ahead of it
  std::int64_t server = -1;    // that holds it; -1: spread over all
  // What the GPU does with it before it starts (copies into a bucket, compression), summed over pieces.
  DataSize encoded{};               // bytes of its memory
  DataSize encoded_per_rank{};      // and for every rank that takes part
  Work encoding{};                  // arithmetic
  std::int64_t orthogonalized = 0;  // matrices whose columns are made so (PowerSGD)

  [[nodiscard]] bool gathered() const { return op == primitives::CollectiveOp::kAllGather; }
  /// Whether a row that runs once in a step runs with the first micro-batch.
  [[nodiscard]] bool with_first() const { return needed.at == Moment::kForward && lag == 0; }
};

/// When a coordinator wakes and fuses what is ready, up to the buffer's size (Horovod). It depends on when tensors are
/// ready, so the plan has the rule and one row per tensor; FusionQueue (plan/messages.h) applies it.
struct FusionRule {
  Time cycle{};
  DataSize buffer{};
};

/// How gradients leave.
struct Exchange {
  Overlap overlap = Overlap::kBackward;
  std::optional<FusionRule> fusion{};
  bool priority = false;       // what the next forward pass needs first goes first
  bool pull_at_start = false;  // servers give weights when the next step asks
  Consistency consistency = Consistency::kSync;
  std::int64_t staleness = 0;
  std::int64_t sync_every = 1;  // steps from one exchange, then of weights, to the next (local SGD)
};

/// Parameter servers beside the ranks.
struct Servers {
  std::int64_t count = 1;
  bool local = false;              // all workers on one node, weights in its memory
  bool colocated = false;          // on the workers' machines
  bool local_aggregation = false;  // a node's workers push and pull as one
  bool update = true;              // the weights, which are theirs; else they sum, and workers update
  double pulled = 1;               // bytes that come back for one that is pushed: weights are not compressed
};

struct StepPlan {
  std::shared_ptr<const workload::Model> model;
  Grid grid;
  std::vector<RankClass> classes;  // at least one
  std::vector<RankGroup> groups;   // the first: those that share gradients
  std::vector<Row> rows;           // gradients in the order of their readiness
  Exchange exchange;
  std::optional<Servers> servers;
  std::int64_t micro_batches = 1;
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  std::int64_t virtual_stages = 1;  // parts of a class, where the schedule is interleaved
  /// Whether all passes but the last are alike and send nothing, one class runs all layers, and every row is a gradient
  /// or a whole step's: then one pass stands for all.
  bool folds = true;
  DataSize input{};  // copied to one GPU for a pass

  [[nodiscard]] const workload::Layer& layer(std::size_t rank_class, std::size_t i) const {
    return classes[rank_class].chunk[i];
  }
};

}  // namespace ddlsim::plan
