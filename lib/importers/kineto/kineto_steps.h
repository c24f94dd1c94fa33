// The steps of one rank's trace.
#pragma once

#include "ddlsim/importers/kineto_file.h"
#include "kineto_events.h"

namespace ddlsim::importers::kineto {

/// Errors: kInvalidArgument without steps, kUnsupported without work on a GPU.
[[nodiscard]] Expected<TracedRank> steps_of(const Trace& trace, const KinetoOptions& options);

/// Splits the step's time on the GPU, and says of every kernel how long it ran alone.
void split(TracedStep& step);

/// The step that stands for several, by their medians.
[[nodiscard]] TracedStep typical_of(const std::vector<TracedStep>& steps);

/// The one in the middle, the lower of two. Requires at least one.
[[nodiscard]] Time median_of(std::vector<Time> times);

}  // namespace ddlsim::importers::kineto
