// Layers in stages with replicas of their own, by PipeDream's dynamic programming (plan/partition.h has the equation).
//
// The chain is the model's list of layers, each with the time of its kernels, forward and backward, on each kind of GPU
// by itself (cost/price.h), and its gradients as they travel. A worker's bandwidth is its share of a server's network
// where there are several servers, else what GPUs of a server reach between each other. GPUs of several kinds: which
// kind comes first is tried in every order.
// Of each stage it is said what a GPU of it holds, by the ledger of plan/memory.h: ceil(workers from it on / its
// replicas) versions of its weights, and activations of as many micro-batches. What does not fit is said, and not
// avoided.
// Limits: plan/partition.h's; the pipeline never empties and old weights are stashed (PipeDream), which is another
// training than that of the plans of whatif/plan_search.h; sends between stages are free.
// Worked example: test/unit/whatif/stage_partition_test.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ddlsim/answer/stage_partition.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// So many GPUs of a kind.
struct GpuShare {
  std::string gpu;
  std::int64_t count = 1;
};

/// `mixed`: instead of the scenario's GPUs. Errors: of resolve, of plan/partition.h; kUnsupported for a model without
/// layers; kInvalidArgument for more than four kinds.
[[nodiscard]] Expected<answer::PartitionChoice> partition_stages(const io::Catalog& catalog,
                                                                 std::span<const Override> stated,
                                                                 std::span<const GpuShare> mixed = {});

}  // namespace ddlsim::whatif
