// The parameter servers of a job, and what reaches them. Private to the room.
#pragma once

#include "ddlsim/cost/parameter_server.h"
#include "ddlsim/cost/price.h"

namespace ddlsim::cost {

/// Of a plan that has servers: their stations' rates.
[[nodiscard]] PsFabric servers_of(const plan::Job& job, const plan::StepPlan& plan, const ReachedRates& rates,
                                  const Variation& variation);

}  // namespace ddlsim::cost
