// Ways of splitting work, one function each, which plan/lower.h composes. Private to the room.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ddlsim/plan/job.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"

namespace ddlsim::plan {

/// Layers cut over the tensor group, and the rows that sum their parts.
struct TensorSplit {
  std::shared_ptr<const std::vector<workload::Layer>> layers;
  std::vector<Row> rows;
};
[[nodiscard]] Expected<TensorSplit> split_tensors(const Job& job, const workload::Model& model);

/// Servers and exchange of gradients that the strategy has, of a job of several data-parallel ranks.
void exchange_by(const Job& job, StepPlan& plan);

/// The gradients of one of a class's parts, as its strategy sends them. Points count from the part's first layer.
[[nodiscard]] std::vector<Row> gradients_of(const Job& job, const StepPlan& plan, std::size_t rank_class,
                                            const Chunk& chunk);

/// The gradients and weights of one of a class's parts that shares them with its data group. Points count likewise.
[[nodiscard]] std::vector<Row> sharded_rows(const Job& job, const StepPlan& plan, std::size_t rank_class,
                                            const Chunk& chunk);

/// The pipeline that a job asks for.
[[nodiscard]] Pipeline pipeline_of(const Job& job);

/// Where the parts of a pipeline begin, in the order in which a micro-batch meets them. Errors: kInvalidArgument for
/// cuts that leave one without a layer, and for more parts than layers.
[[nodiscard]] Expected<std::vector<std::size_t>> stage_starts(const Job& job,
                                                              const std::vector<workload::Layer>& layers);

/// A class for every rank of the pipeline.
[[nodiscard]] Expected<void> add_stages(const Job& job,
                                        const std::shared_ptr<const std::vector<workload::Layer>>& layers,
                                        StepPlan& plan);

/// What crosses from each part to the next, and back.
[[nodiscard]] std::vector<Row> boundary_rows(const Job& job, const StepPlan& plan);

/// A class's parts as chunks of their own, with what to add to their layers' numbers: those whose backward comes first
/// stand first.
struct PartChunk {
  Chunk chunk;
  std::size_t first = 0;
};
[[nodiscard]] std::vector<PartChunk> part_chunks(const RankClass& one);

/// Gradients to the host, the update there, and weights back: of all, or of a rank's share where states are shared.
[[nodiscard]] std::vector<Row> offload_rows(const Job& job, const StepPlan& plan, std::size_t rank_class);

}  // namespace ddlsim::plan
