// Words that several views have in common.
#pragma once

#include <string>

#include "ddlsim/answer/plan_choice.h"

namespace ddlsim::report {

/// "tp 8, pp 2, dp 4, micro-batch 1, 1f1b, zero 1": what differs from one GPU alone.
[[nodiscard]] std::string words_for(const answer::PlanSettings& plan);

}  // namespace ddlsim::report
