// A step's samples as micro-batches and passes. Private to the room.
//
//   share  = global batch / replicas          what a replica trains in a step
//   passes = share / batch
//
// Where nobody states the batch of a GPU (of a replica, where the model is split), it is the largest divisor of the
// share up to the model's own; where somebody states the passes, share / passes.
//
// Worked example: 2,048 images over 64 replicas are 32 each: of ResNet-50, whose file has 64, a pass of 32; over 8
// replicas 256 each: 4 passes of 64.
#pragma once

#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// What is said of a step's samples; null: nothing.
struct StatedSamples {
  const Override* global = nullptr;
  const Override* batch = nullptr;
  const Override* accumulation = nullptr;
};

/// Sets batch and passes where a global batch is stated. Errors: kInvalidArgument where they do not come out even, with
/// what could be said.
[[nodiscard]] Expected<void> set_global_batch(Scenario& scenario, const StatedSamples& stated);

}  // namespace ddlsim::whatif
