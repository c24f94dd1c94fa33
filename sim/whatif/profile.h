// Which profile answers for a scenario's GPU.
//
// `gpu.calibration`: none; the id of a profile; or auto: the GPU's own, else that of the GPU of its architecture whose
// datasheet is nearest, unless it is over three times away in peak rate or bandwidth. Shares that somebody stated
// (efficiency.compute, efficiency.memory, efficiency) win over auto. A profile counts as lent where it was measured on
// another GPU, or where somebody stated another peak rate or bandwidth than the datasheet's.
#pragma once

#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// Errors: kNotFound when a named profile is not there.
[[nodiscard]] Expected<void> set_profile(Scenario& scenario, const io::Catalog& catalog);

}  // namespace ddlsim::whatif
