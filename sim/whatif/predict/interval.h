// The 90 % interval of a step: whatif/predict.h says what its ends rest on. Private to the room.
#pragma once

#include <utility>

#include "ddlsim/answer/timeline.h"
#include "ddlsim/hardware/software.h"
#include "ddlsim/support/units.h"
#include "predict/question.h"

namespace ddlsim::whatif {

/// By which residuals a question's interval is set, where no step of the job was measured.
[[nodiscard]] hardware::QuestionKind kind_of(const Question& question);

/// Whether nobody says what the CPU leaves between kernels, and a host as slow as measured ones were could bound the
/// step. The interval then reaches from what a fast host's step takes to a slow one's.
[[nodiscard]] bool may_wait_for_launches(const Question& question, Time step);

/// Of GPUs that meet in their host's memory: a fast and a slow box's step, of which nobody says the rate. 2 to 3.7 GB/s
/// were seen (A100), 5 to 8, and 12 to 25 (RTX 6000 Ada; lambda_ngc2209). Of others `step`, twice.
[[nodiscard]] std::pair<Time, Time> staged_steps(const Question& question, Time step);

[[nodiscard]] std::pair<Time, Time> interval_of(const Question& question, const answer::Timeline& line);

/// The same as if no step of the job was measured.
[[nodiscard]] std::pair<Time, Time> interval_without_runs(const Question& question, const answer::Timeline& line);

/// What 90 % of published steps take of the predicted time: no part of a step errs farther.
[[nodiscard]] std::pair<double, double> whole_step_ends(const Question& question);

}  // namespace ddlsim::whatif
