// Ways of splitting work, one function each, which plan/lower.h composes. Private to the room.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ddlsim/plan/job.h"
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

/// The gradients of a class as its strategy sends them.
[[nodiscard]] std::vector<Row> gradients_of(const Job& job, const StepPlan& plan, std::size_t rank_class);

/// The gradients and weights of a class that shares them with its data group.
[[nodiscard]] std::vector<Row> sharded_rows(const Job& job, const StepPlan& plan, std::size_t rank_class);

/// Where the stages of a pipeline begin. Errors: kInvalidArgument for cuts that leave a stage without a layer.
[[nodiscard]] Expected<std::vector<std::size_t>> stage_starts(const Job& job, std::size_t layers);

/// What crosses from each stage to the next, and back.
[[nodiscard]] std::vector<Row> boundary_rows(const Job& job, const StepPlan& plan);

/// Gradients to the host, the update there, and weights back: of all, or of a rank's share where states are shared.
[[nodiscard]] std::vector<Row> offload_rows(const Job& job, const StepPlan& plan, std::size_t rank_class);

/// What the ranks of every class hold (plan/memory.h).
void add_memory(const Job& job, StepPlan& plan);

}  // namespace ddlsim::plan
