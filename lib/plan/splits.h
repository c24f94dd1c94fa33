// Ways of splitting work, one function each, which plan/lower.h composes. Private to the room.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ddlsim/plan/job.h"
#include "ddlsim/plan/messages.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/plan/stage_cuts.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"
#include "ddlsim/workload/blocks.h"
#include "ddlsim/workload/shard.h"

namespace ddlsim::plan {

/// What of a job contradicts its splits, or its GPUs.
[[nodiscard]] Expected<void> check_splits(const Job& job);

/// Heads and experts that degrees do not divide: said first, for no number of GPUs makes up for it.
[[nodiscard]] Expected<void> check_parts(const Job& job);

/// How many GPUs each axis takes.
[[nodiscard]] Expected<void> check_degrees(const Job& job);

/// Degrees of an axis, all others as they are, that heads, experts and GPUs take: "1, 2, 4"; empty: none.
[[nodiscard]] std::string legal_degrees(const Job& job, Axis axis);

/// Whether every group of so split a job stands alike on every server that it is on.
[[nodiscard]] bool stands_on(const Parallel& parallel, const hardware::Cluster& cluster);

/// The grid of a job's ranks and their groups; the first has the ranks that share gradients.
[[nodiscard]] Expected<void> add_groups(const Job& job, StepPlan& plan);

/// The group of a role; nothing: the plan has none.
[[nodiscard]] std::optional<std::size_t> group_of(const StepPlan& plan, GroupRole role);

/// The group that carries what goes from one stage to another.
[[nodiscard]] std::size_t boundary_group(const StepPlan& plan, std::int64_t from, std::int64_t to);

/// How many ranks share the states of what all replicas have (zero); of experts, of their fewer replicas.
[[nodiscard]] std::int64_t sharing_ranks(const StepPlan& plan, bool experts);

struct Memo;
struct HeldLayers;

/// How much of a lowering is made.
enum class Lowered : std::uint8_t {
  kOutline,   // who has which layers and what they hold: all that can be refused
  kExchange,  // who has which layers, what replicas send each other, and the updates
  kPasses,    // who has which layers, and what ranks send each other around them
  kTimed,     // all but what they hold
  kWhole,
};
[[nodiscard]] constexpr bool has_passes(Lowered how) { return how == Lowered::kPasses || how >= Lowered::kTimed; }
[[nodiscard]] constexpr bool has_exchange(Lowered how) { return how == Lowered::kExchange || how >= Lowered::kTimed; }
[[nodiscard]] constexpr bool has_memory(Lowered how) { return how == Lowered::kOutline || how == Lowered::kWhole; }

/// What ranks send around a layer, of any batch.
struct SentRow {
  GroupRole role = GroupRole::kTensor;
  primitives::CollectiveOp op = primitives::CollectiveOp::kAllReduce;
  std::int64_t elements = 0;  // per sample
  bool fp32 = false;
  std::int64_t count = 1;
  Point ready{};
  Point needed{};
  double beside = 0;
  bool in_the_way = true;
  workload::Routing routing{};
};

/// Layers as one rank has them, alike in number and order to the model's, and the rows around them. A row belongs to
/// the class that has the layer of `needed`.
struct SplitModel {
  std::shared_ptr<const std::vector<workload::Layer>> layers;
  std::shared_ptr<const std::vector<SentRow>> sent;
  std::vector<Row> rows;  // of what is sent, for a batch
  std::vector<workload::Block> blocks;
  std::vector<bool> experts;  // layers whose weights are some experts'; empty: none
  std::vector<bool> on_rows;  // layers whose weights see a part of the rows; empty: none

  [[nodiscard]] bool is(const std::vector<bool>& which, std::size_t layer) const {
    return layer < which.size() && which[layer];
  }
};
/// Of a block's layers, those whose outputs PyTorch's checkpointing per operator keeps (Recompute::kPerOp; the policy
/// of torchtitan/distributed/activation_checkpoint.py): attention's, and of products the first, third, ... A product
/// that routes to experts does not count. In 8 and 4 bits products are scaled ones, which it does not name: none.
[[nodiscard]] std::vector<bool> kept_per_op(std::span<const workload::Layer> block, Precision precision);

[[nodiscard]] Expected<SplitModel> split_model(const Job& job, const StepPlan& plan, Memo& memo);

/// The rows of what is sent.
[[nodiscard]] std::vector<Row> rows_sent(const Job& job, const StepPlan& plan, const SplitModel& split);

/// Servers and exchange of gradients that the strategy has, of a job of several data-parallel ranks.
void exchange_by(const Job& job, StepPlan& plan);

/// The strategy with the format in which gradients travel, where states say it, and with the buckets of who splits.
[[nodiscard]] Strategy as_sent(const Job& job);

// Of one part of a class, `chunk` of the model as it is cut; points count from the part's first layer.

/// The gradients as the strategy sends them.
[[nodiscard]] std::vector<Row> gradients_of(const Job& job, const StepPlan& plan, const SplitModel& split,
                                            std::size_t rank_class, const Chunk& chunk, KeptMessages& kept);

/// Of a weight that is gathered: as it is computed with, where a copy of that format is kept, or where every use
/// gathers (zero 3): FSDP casts a rank's share to param_dtype before it sends it.
[[nodiscard]] DataSize gathered_weight(const Job& job, bool by_every_use);

/// The gradients and weights that are shared with the data group.
[[nodiscard]] std::vector<Row> sharded_rows(const Job& job, const StepPlan& plan, const SplitModel& split,
                                            std::size_t rank_class, const Chunk& chunk);

/// What tensor ranks sum once a step: gradients of weights that saw a part of the rows.
[[nodiscard]] std::vector<Row> rows_of_norms(const Job& job, const StepPlan& plan, const SplitModel& split,
                                             std::size_t rank_class, const Chunk& chunk);

/// Gradients to the host, the update there, and weights back: of all, or of a rank's share where states are shared.
[[nodiscard]] std::vector<Row> offload_rows(const Job& job, const StepPlan& plan, const SplitModel& split,
                                            std::size_t rank_class, const Chunk& chunk, DataSize updated);

/// What is kept for backward, as memory counts it, to the host and back, block by block.
[[nodiscard]] std::vector<Row> activation_rows(const Job& job, const StepPlan& plan, const SplitModel& split,
                                               std::size_t rank_class, const Chunk& chunk, Memo& memo);

/// A class's parts as chunks of the model, and where they begin in the class's own: those whose backward comes first
/// stand first.
struct PartChunk {
  Chunk chunk;
  std::size_t first = 0;
};
[[nodiscard]] std::vector<PartChunk> part_chunks(const RankClass& one, const SplitModel& split);

/// What the first and the last stage of a pipeline sum once a step: the gradients of a table and of the head that is a
/// copy of it (Megatron-LM's embedding group).
[[nodiscard]] std::vector<Row> rows_of_tied(const Job& job, const StepPlan& plan);

/// What one process shares out to the GPUs of its server, and collects.
[[nodiscard]] Expected<StepPlan> lower_data_parallel(const Job& job, const SplitModel& split, StepPlan plan,
                                                     Memo& memo);

/// What the optimizer reads and writes where one rank of a class updates its weights.
[[nodiscard]] DataSize updated_by(const Job& job, const StepPlan& plan, const SplitModel& split, const Chunk& chunk);

/// Whether one pass of the job stands for all (StepPlan::folds): of whole replicas, whose layers may compute again and
/// have adapters. Whose states have other formats folds where servers, a coordinator or two speeds need it.
[[nodiscard]] bool folds(const Job& job);

/// The pipeline that a job asks for.
[[nodiscard]] Pipeline pipeline_of(const Job& job);

/// What the job's GPU does at its peak while it moves an element of the job's precision.
[[nodiscard]] Work work_per_element(const Job& job);
/// What layers weigh on the job's GPU.
[[nodiscard]] LayerLoads loads_on(const Job& job, std::span<const workload::Layer> layers);

/// Where the parts of a pipeline begin, in the order in which a micro-batch meets them, and the last ends. Errors:
/// kInvalidArgument for cuts that leave one without a layer, and for more parts than layers.
[[nodiscard]] Expected<StageStarts> stage_starts(const Job& job,
                                                 const std::shared_ptr<const std::vector<workload::Layer>>& layers,
                                                 Memo& memo);

/// A class for every rank of the pipeline. Where a rank has several parts, the chunk of a whole lowering
/// has their layers alone; else all layers of the model, of which the parts are its.
[[nodiscard]] Expected<void> add_stages(const Job& job,
                                        const std::shared_ptr<const std::vector<workload::Layer>>& layers, Lowered how,
                                        StepPlan& plan, Memo& memo);

/// What crosses from each part to the next, and back: the output of the last layer, and within a block of convolutional
/// or recurrent networks what its residual sum reads beside it.
[[nodiscard]] std::vector<Row> boundary_rows(const Job& job, const StepPlan& plan);

/// What the ranks of every class hold (plan/memory.h).
void add_memory(const Job& job, const SplitModel& split, StepPlan& plan, Memo& memo);

/// The same, layer by layer.
[[nodiscard]] HeldLayers held_layers(const Job& job, const SplitModel& split, const StepPlan& plan, Memo& memo);

}  // namespace ddlsim::plan
