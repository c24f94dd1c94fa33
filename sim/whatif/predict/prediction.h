// A question's whole answer. Private to the room.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/plan/memory.h"
#include "ddlsim/support/error.h"
#include "predict/question.h"

namespace ddlsim::whatif {

[[nodiscard]] Expected<answer::Prediction> prediction_of(const Question& question);

/// What a GPU draws; nothing: nobody measured it, or the step was not laid out of kernels.
[[nodiscard]] std::optional<answer::PowerPart> power_of(const Question& question, const Laid& laid);

/// What a step's work takes at its GPUs' peak: none can be faster.
[[nodiscard]] Time least_of_work(const answer::Prediction& prediction);

/// Whether `prediction_of` has an answer where a step was laid out as so long, and is so long as its runs correct it.
/// Errors: those of `prediction_of`.
[[nodiscard]] Expected<void> check_answer(const Question& question, Time laid_out, Time corrected);

/// Errors: kInfeasible for a step that no machine takes: not finite, under a picosecond, over a hundred years.
[[nodiscard]] Expected<void> check_step(Time step);

/// Settings of a job's split that are not their defaults, with their values: those that answer::Split has no field for.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> other_splits(const Scenario& scenario);

/// What a job holds, and whether it fits. Errors: of plan/lower.h.
[[nodiscard]] Expected<plan::Needed> needed_by(const Scenario& scenario);

}  // namespace ddlsim::whatif
