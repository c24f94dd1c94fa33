// The one prediction every question asks for.
//
// `predict` maps a scenario to a step time and says where it goes. Three fidelities stand behind it
// (answer/prediction.h); a model known by its features only has the aggregate one. Slower
// GPUs and several jobs need the event fidelity, and choose it.
//
// What it assumes, and says so in the notes: kernels take what a profile of the GPU says (cost/kernel_time.h), else 70
// % of every peak (Wang et al. 2019) unless the scenario states a share; collectives reach what their library's model
// says (cost/collective.h). All GPU time is longer by what frameworks take on top of kernels (plan/software.h), unless
// the scenario's `software` is null; the 90 % interval then ends where residuals of published steps of the same kind of
// question do, sources left out (hardware/software.h). Of kernels alone: without a profile its ends are the 5th and
// 95th percentile of measured / predicted time, as
//   ddlsim validate bench/accuracy/cases/{deep*,piz*,tens*}.csv ddp_deep_learning_examples.csv
// printed them before GPUs had profiles: 0.60 and 2.23. Where a measured step of the same model on the same GPU sets
// the GPU's speed (Scenario::gpu_time_measured; --anchor first) 0.96 and 1.18, and exposed communication may besides be
// half or twice what is predicted. With a profile, those ends and on top of them what its curves err by; never below
// 0.60. On published steps that were not used for it, README.md says what it covers.
//
// The bottleneck is the resource that shortens the step most when it gets 10 % faster, all else being equal. Where that
// is the loader's, and its workers mostly wait for storage to answer, it is called "loader workers": more of them would
// help.
//
// Worked example: README.md, "A what-if, worked".
#pragma once

#include <memory>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/answer/timeline.h"
#include "ddlsim/events/step.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

inline constexpr double kInterval90Low = 0.60;
inline constexpr double kInterval90High = 2.23;
inline constexpr double kMeasuredInterval90Low = 0.96;
inline constexpr double kMeasuredInterval90High = 1.18;

/// Errors: kInvalidArgument, naming the setting, for a value out of its range or no model; kUnsupported when the GPU
/// has no rate for the precision, or the fidelity cannot answer for the model.
[[nodiscard]] Expected<answer::Prediction> predict(const Scenario& scenario);

/// Notes that it adds to a Predictor's answer: what makes the job fit, and prices of other servers alone. Not where
/// servers are compared, whose prices are all stated.
void add_notes_of_one_job(const Scenario& scenario, answer::Prediction& prediction);

/// What the event fidelity simulates for a scenario: its tasks and when they ran, for a trace (report/trace.h). Errors:
/// as predict; kUnsupported when another fidelity answers for it.
[[nodiscard]] Expected<events::EventStep> simulate(const Scenario& scenario);

/// One GPU's step as the recurrence took it apart, for a graph of its work (report/chakra.h).
struct RecordedStep {
  std::shared_ptr<const plan::StepPlan> plan;
  answer::Timeline line;  // answer::Detail::kWork
  DataSize updated{};     // what the optimizer reads and writes on the GPU
};

/// Of a GPU that is no straggler. Errors: as predict; kUnsupported for what is no graph of one job's kernels and
/// collectives: parameter servers, the aggregate fidelity, ideal overlap, several jobs.
[[nodiscard]] Expected<RecordedStep> record(const Scenario& scenario);

/// The factor on all GPU time (Scenario::gpu_time_factor) under which a scenario's step takes `measured`, to 1e-9; what
/// takes no GPU time is left as it is. Errors: as predict; kInfeasible when communication alone takes longer.
[[nodiscard]] Expected<double> fit_gpu_time(const Scenario& scenario, Time measured);

}  // namespace ddlsim::whatif
