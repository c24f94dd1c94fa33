// What a prediction rests on, and what its reader should know beside the numbers.
#pragma once

#include "ddlsim/answer/prediction.h"
#include "ddlsim/plan/memory.h"
#include "step_parts.h"

namespace ddlsim::whatif {

/// The weakest of its parts.
[[nodiscard]] Provenance provenance_of(const StepQuestion& question);

/// Assumptions, where kernels' times come from, what does not fit, and settings without effect.
void add_notes(const StepQuestion& question, const plan::MemoryFootprint& footprint, answer::Prediction& prediction);

}  // namespace ddlsim::whatif
