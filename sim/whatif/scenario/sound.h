// Whether the values of a scenario are in the ranges of their settings: whoever sets them in C++ may have set any.
#pragma once

#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// The cluster's counts and rates. Errors: kInvalidArgument, naming the setting.
[[nodiscard]] Expected<void> check_cluster_values(const Scenario& scenario);

/// The cluster's, and those of the job; there must be a model. Takes less than a microsecond. Errors: likewise.
[[nodiscard]] Expected<void> check_values(const Scenario& scenario);

}  // namespace ddlsim::whatif
