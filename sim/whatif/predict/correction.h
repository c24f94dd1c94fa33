// How a job's own runs correct its prediction. Private to the room.
#pragma once

#include <utility>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/answer/timeline.h"
#include "ddlsim/calib/run_posterior.h"
#include "ddlsim/whatif/own_runs.h"
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
/// wait for whatever its samples; at the interval of eager PyTorch where a framework is known for a longer one. 0 to 1;
/// 0 of kernels that are launched together (CUDA graphs).
[[nodiscard]] double fixed_share(const Question& question);
/// The same of a step whose parts are known.
[[nodiscard]] double fixed_share(const Question& question, const answer::Breakdown& parts);

/// Whether a step's loader makes its batches as it does, whatever runs say of the rest: unless they waited for theirs.
[[nodiscard]] bool loads_apart(const OwnRuns& runs, const Laid& laid);

/// A step whose loader works apart, where all the rest of it takes `busy`.
[[nodiscard]] Time step_beside_loader(const Laid& laid, Time busy);

/// What runs speak of: the step, without its wait for input where its loader works apart.
[[nodiscard]] Time spoken_of(const Laid& laid, bool apart);

/// Where a question stands along its runs; `laid` is its answer without a correction.
[[nodiscard]] calib::RunPoint point_of(const Question& question, const Laid& laid, bool apart);

/// The step alone, if the scenario has runs of its own; else as it is.
[[nodiscard]] Time corrected_step(const Question& question, const Laid& laid);

/// What a scenario's own runs make of the model's step.
struct RunCorrection {
  calib::RunPoint point;
  double factor = 1;     // of what they speak of
  Time step{};           // corrected
  bool apart = false;    // its wait for input is no part of that
  Time input{};          // that wait then
  double deviation = 0;  // of its logarithm
  double parts = 1;      // of every part, but for what follows
  Time sent{};           // exposed communication besides; less than zero: less of it
  Time unexplained{};
  bool by_links = false;  // what runs took beside the smallest is explained by them
};

/// `laid`: the step and its parts without a correction.
[[nodiscard]] RunCorrection correction_of(const Question& question, const Laid& laid);

/// The step, its parts, what bounds it and its interval as the scenario's own runs say. `line`: without them; `gain`:
/// what the bottleneck gains when 10 % faster, but for found.parts; `unmeasured`: the interval without runs.
void correct(const Question& question, const answer::Timeline& line, const RunCorrection& found, Time gain,
             const std::pair<Time, Time>& unmeasured, answer::Prediction& prediction);

/// What was learnt, before all other notes, and how well the step is known: of its interval as it stands. `model`: the
/// step without runs.
void add_correction_notes(const Question& question, Time model, answer::Prediction& prediction);

}  // namespace ddlsim::whatif
