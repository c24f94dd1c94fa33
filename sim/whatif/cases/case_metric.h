// A prediction in the metric of a published case. Private to the room, and bench/accuracy's.
#pragma once

#include "ddlsim/answer/prediction.h"
#include "ddlsim/io/case_file.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// Whether more is faster.
[[nodiscard]] bool is_rate(io::CaseMetric metric);

/// Whether a pass was timed by itself, as kernels are: no training loop is around it.
[[nodiscard]] bool is_pass(io::CaseMetric metric);

/// If the predicted step took `step`. Errors: kUnsupported for metrics that a step does not have.
[[nodiscard]] Expected<double> metric_of(const io::Case& one, const Scenario& scenario,
                                         const answer::Prediction& prediction, Time step);

}  // namespace ddlsim::whatif
