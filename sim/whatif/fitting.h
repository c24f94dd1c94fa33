// What makes a job fit into its GPUs' memory. Private to the room.
//
// Tried one at a time, in this order, the first that fits is named: recompute selective, full; zero 1, 2, 3; tensor,
// then pipeline twice, four times ... as wide (the number of GPUs stays); micro-batches of a half, a quarter ... of the
// samples (more of them); states on the host. Where none alone does, they are added up in the order recompute full,
// zero 3, micro-batch 1, offload. The smallest cluster is searched for in whole servers of the same kind, with zero 3
// and full recomputation: twice as many until they fit, then the fewest between. Replicas keep their micro-batch.
// Limits: every trial is judged by memory alone; a plan search (`ddlsim plan`) judges time as well.
//
// Worked example: 8 GPUs of 80 GB, 70 G parameters in `mixed` states with zero 1: weights and gradients alone are 420
// GB a GPU; zero 3 leaves 158 GB, so 16 GPUs are needed, which leave 79 GB, and more for activations: 24.
#pragma once

#include <string>

#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// "fits with parallel.zero=3 (61 GB of 80 GB); fits on 4 servers (32 GPUs) with parallel.zero=3, ..."; empty: unknown.
[[nodiscard]] std::string ways_to_fit(const Scenario& scenario);

}  // namespace ddlsim::whatif
