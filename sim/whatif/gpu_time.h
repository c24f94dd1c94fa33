// What a GPU's own work takes under a scenario: by the profiles that answer for it.
#pragma once

#include <memory>
#include <vector>

#include "ddlsim/cost/kernel_time.h"
#include "step_parts.h"

namespace ddlsim::whatif {

/// What the optimizer reads and writes.
[[nodiscard]] DataSize updated_bytes(const StepQuestion& question);

/// The layers' times by the scenario's profiles; `assumed` where they have no curve.
[[nodiscard]] std::shared_ptr<const cost::CalibratedTimes> calibrate(const StepQuestion& question,
                                                                     const cost::DeviceRates& assumed);

/// The layers' times by a profile, at the rates that the question varies: factors on what is bound by either.
[[nodiscard]] std::vector<cost::LayerTimes> varied_times(const cost::CalibratedTimes& times, double compute,
                                                         double memory);

}  // namespace ddlsim::whatif
