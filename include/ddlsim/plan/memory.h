// What one GPU must hold during a step.
//
// weights + gradients + optimizer state (fp32 each) + activations kept for backward (batch x saved elements x the
// precision's activation size). All-reduce and one GPU hold all of it; with parameter servers the optimizer's state and
// the sparse embeddings live on the servers; PEARL splits the embeddings evenly over the GPUs.
// Not counted: framework and CUDA context (0.5-1 GB), workspaces, fragmentation, communication buffers.
// A model known by its features alone, or by measured times, has no activation count: `complete` is false and the size
// is a lower bound.
#pragma once

#include <cstdint>

#include "ddlsim/plan/strategy.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::plan {

struct MemoryFootprint {
  DataSize weights{};
  DataSize gradients{};
  DataSize optimizer_state{};
  DataSize activations{};
  bool complete = true;

  [[nodiscard]] DataSize total() const { return weights + gradients + optimizer_state + activations; }
};

[[nodiscard]] MemoryFootprint memory_footprint(const workload::Model& model, const Strategy& strategy,
                                               std::int64_t gpus, std::int64_t batch, Precision precision);

}  // namespace ddlsim::plan
