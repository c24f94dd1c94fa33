// Which profile answers for a scenario's GPU.
//
// `gpu.calibration`: none; the id of a profile; or auto: the GPU's own first, then those of GPUs of its architecture,
// the nearest datasheet first, for the curves that the former lack; none that is over three times away in peak rate or
// bandwidth. Shares that somebody stated (efficiency.compute, efficiency.memory, efficiency) win over auto. A profile
// counts as borrowed where it was measured on another GPU, or where somebody stated another peak rate or bandwidth than
// the datasheet's.
#pragma once

#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// Errors: kNotFound when a named profile is not there.
[[nodiscard]] Expected<void> set_profiles(Scenario& scenario, const io::Catalog& catalog);

}  // namespace ddlsim::whatif
