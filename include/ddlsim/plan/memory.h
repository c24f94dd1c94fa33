// What one GPU must hold during a step.
//
// weights + gradients + optimizer state (fp32 each) + activations kept for backward (samples in flight x saved elements
// x the precision's activation size). All-reduce and one GPU hold all of it; with parameter servers the optimizer's
// state and the sparse embeddings live on the servers; PEARL splits the embeddings evenly over the GPUs; ZeRO over d
// ranks leaves a rank 1/d of the states (1), of the gradients (2), of the weights (3); an offloaded optimizer keeps its
// states on the host; a pipeline's stage holds its own layers, and activations of every micro-batch in flight.
// Not counted: framework and CUDA context (0.5-1 GB), workspaces, fragmentation, communication buffers, weights that
// ZeRO 3 has gathered. A model known by its features alone, or by measured times, has no activation count: `complete`
// is false and the size is a lower bound. Used by plan/lower.h.
#pragma once

#include <cstdint>
#include <span>

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

/// Of a model that is not split.
[[nodiscard]] MemoryFootprint memory_footprint(const workload::Model& model, const Strategy& strategy,
                                               std::int64_t gpus, std::int64_t batch, Precision precision);

/// How the ranks of a split model share what they hold.
struct Holding {
  workload::Optimizer optimizer = workload::Optimizer::kSgdMomentum;
  int zero = 0;
  std::int64_t data_ranks = 1;
  std::int64_t in_flight = 1;  // micro-batches
  bool offloaded = false;
};

/// Of the layers of one stage, cut as its ranks have them.
[[nodiscard]] MemoryFootprint memory_of_stage(std::span<const workload::Layer> layers, const Holding& holding,
                                              std::int64_t batch, Precision precision);

}  // namespace ddlsim::plan
