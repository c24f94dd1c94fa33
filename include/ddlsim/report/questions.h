// Views of inverse questions, sensitivities and explanations; as report/views.h.
#pragma once

#include <string>

#include "ddlsim/answer/explanation.h"
#include "ddlsim/answer/inverse.h"
#include "ddlsim/answer/sensitivity.h"
#include "ddlsim/report/format.h"

namespace ddlsim::report {

/// The answer, then what the variable gives now, there, and at most. JSON: `ddlsim/find/1`; CSV: every value tried.
[[nodiscard]] std::string render(const answer::Inverse& inverse, Format format);
/// Elasticities, then the tornado. JSON: `ddlsim/elasticities/1`; CSV: both in one table.
[[nodiscard]] std::string render(const answer::Sensitivity& all, Format format);
/// Equation by equation. JSON: `ddlsim/explain/1`; CSV: a row for every value.
[[nodiscard]] std::string render(const answer::Explanation& explanation, Format format);

}  // namespace ddlsim::report
