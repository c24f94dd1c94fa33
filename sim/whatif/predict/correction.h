// How a job's own runs correct its prediction. Private to the room.
#pragma once

#include "ddlsim/answer/prediction.h"
#include "ddlsim/calib/run_posterior.h"
#include "predict/question.h"

namespace ddlsim::whatif {

/// What makes two splits of a model different ones; 0s for a whole model.
[[nodiscard]] calib::RunSplit split_of(const Scenario& scenario);

/// Where a scenario stands along its runs, but for its shares, which are left open. Models that are not split count as
/// run by the same software.
[[nodiscard]] calib::RunPoint configuration_of(const Scenario& scenario);

/// How much slower a GPU is taken to be to see which share of a step is its own. Enough to go over jumps of a step: at
/// 1 % one that misses a coordinator's wake made a share of 0 of 0.3.
inline constexpr double kSlowerGpu = 1.1;

/// The share of a step that is no GPU time, 0 to 1: 1 - ln(slower / step) / ln(kSlowerGpu), `slower` the step of a GPU
/// that takes kSlowerGpu times as long.
[[nodiscard]] double share_beside_gpu(Time step, Time slower);

/// The share of a step's GPU time that launching its kernels, one every launch interval, takes the CPU: what it may
/// wait for whatever its samples. 0 to 1; 0 of kernels that are launched together (CUDA graphs).
[[nodiscard]] double fixed_share(const Question& question);

/// Where a question stands along its runs; `step` is its answer without a correction.
[[nodiscard]] calib::RunPoint point_of(const Question& question, Time step);

/// The step alone, if the scenario has runs of its own; else as it is.
[[nodiscard]] Time corrected_step(const Question& question, Time step);

/// The step, its parts and its interval as the scenario's own runs say; what was learnt comes first in the notes.
/// `unmeasured`: the interval without them.
void correct(const Question& question, const std::pair<Time, Time>& unmeasured, answer::Prediction& prediction);

/// All times of a prediction `factor` times as long.
void scale(answer::Prediction& prediction, double factor);

}  // namespace ddlsim::whatif
