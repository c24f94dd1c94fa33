// A way to split a job in words, and what its settings say.
#pragma once

#include <string>
#include <string_view>

#include "ddlsim/answer/plan_choice.h"

namespace ddlsim::answer {

/// "tp 8, pp 2, dp 4, micro-batch 1, 1f1b, zero 1": what differs from one GPU alone; of what the settings do not say
/// nothing.
[[nodiscard]] std::string words_for(const PlanSettings& plan);

/// Empty: they do not say it.
[[nodiscard]] std::string value_of(const PlanSettings& plan, std::string_view path);

}  // namespace ddlsim::answer
