// A predicted step as a Chakra execution trace, which ASTRA-sim and SimAI replay.
//
// One rank's graph: a COMP_NODE per layer and pass, each after the one before; a COMM_COLL_NODE per message, after the
// backward layer that makes it; one COMP_NODE for the update, after all of them. Durations are whole microseconds, of
// at least one where there is any time. Messages that are gathered are all-gathers of what one rank sends; parameter
// servers have no node in the format.
// Example: two layers, one message ready after both: fwd 0, fwd 1, bwd 1, bwd 0, an all-reduce after bwd 0, an update.
#pragma once

#include <span>

#include "ddlsim/io/chakra_file.h"
#include "ddlsim/plan/messages.h"
#include "ddlsim/sim/step.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::report {

/// `record` is what run_step made of the same model and messages.
[[nodiscard]] io::ChakraTrace chakra_of(const workload::Model& model, std::span<const plan::Message> messages,
                                        const sim::StepRecord& record);

}  // namespace ddlsim::report
