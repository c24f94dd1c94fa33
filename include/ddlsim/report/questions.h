// Views of inverse questions, elasticities and explanations; as report/views.h.
#pragma once

#include <string>

#include "ddlsim/answer/inverse.h"
#include "ddlsim/report/format.h"

namespace ddlsim::report {

/// The answer, then what the variable gives now, there, and at most. JSON: `ddlsim/find/1`; CSV: every value tried.
[[nodiscard]] std::string render(const answer::Inverse& inverse, Format format);

}  // namespace ddlsim::report
