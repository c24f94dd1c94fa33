// What an optimizer reads, writes and launches (UpdateKernels of plan/job.h). Private to the room.
#pragma once

#include <cstdint>

#include "ddlsim/plan/job.h"
#include "ddlsim/plan/step_plan.h"

namespace ddlsim::plan {

/// fp32 values per parameter.
[[nodiscard]] inline int accesses_of_update(const Job& job) {
  const workload::Optimizer optimizer = job.model->optimizer;
  return job.software_optimizer == UpdateKernels::kFused ? workload::update_accesses(optimizer)
                                                         : workload::single_operations(optimizer).accesses;
}

/// Beside the update's own, of each tensor: its norm, its product with what clips it, and zeros in its gradient.
inline constexpr int kLaunchesAround = 3;

/// Launches that the GPU waits for, of a chunk's tensors.
[[nodiscard]] inline std::int64_t launches_of_update(const Job& job, const Chunk& chunk) {
  const workload::Optimizer optimizer = job.model->optimizer;
  if (job.software_optimizer != UpdateKernels::kForLoop || optimizer != workload::Optimizer::kAdam) return 0;
  std::int64_t tensors = 0;
  for (std::size_t i = 0; i < chunk.count; ++i) tensors += static_cast<std::int64_t>(chunk[i].parameters.size());
  return tensors * (workload::single_operations(optimizer).kernels + kLaunchesAround);
}

}  // namespace ddlsim::plan
