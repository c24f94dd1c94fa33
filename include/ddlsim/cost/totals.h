// A step from whole-step totals: the `aggregate` fidelity, without a plan.
//
// The model of cost/pai.h on the rates that a job's cluster reaches. It serves models that are known by their features,
// and fleets. Limits: cost/pai.h's.
// Worked example: README.md, the case studies of Wang et al. (test/golden/pai_*).
#pragma once

#include <vector>

#include "ddlsim/answer/timeline.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/plan/job.h"
#include "ddlsim/support/error.h"

namespace ddlsim::cost {

struct TotalsStep {
  answer::Timeline line;
  std::vector<answer::LinkTraffic> traffic;
};

/// Errors: kUnsupported when the GPU has no rate for the precision.
[[nodiscard]] Expected<TotalsStep> totals_step(const plan::Job& job, const Variation& variation = {});

}  // namespace ddlsim::cost
