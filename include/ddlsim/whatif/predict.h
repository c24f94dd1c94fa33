// The one prediction every question asks for.
//
// `predict` maps a scenario to a step time and says where it goes. Two fidelities stand behind it
// (answer/prediction.h); a model known by its features, and the PEARL strategy, only have the aggregate one.
//
// What it assumes, and says so in the notes: an efficiency of 70 % of every peak (Wang et al. 2019) unless the scenario
// states one. Nothing is calibrated on a device yet, so the 90 % interval is wide: it runs from `kInterval90Low` to
// `kInterval90High` times the prediction, the 5th and 95th percentile of measured / predicted step time over 56
// published single-GPU steps (NVIDIA DeepLearningExamples: ResNet-50, BERT-Large; V100 and A100; fp32, tf32, amp).
//
// Worked example: README.md, "A what-if, worked".
#pragma once

#include "ddlsim/answer/prediction.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

inline constexpr double kInterval90Low = 0.56;
inline constexpr double kInterval90High = 1.67;

/// Errors: kUnsupported when the GPU has no rate for the precision, or the fidelity cannot answer for the model.
[[nodiscard]] Expected<answer::Prediction> predict(const Scenario& scenario);

/// The scenario of one GPU with the same batch; its throughput is what scaling efficiency is measured against.
[[nodiscard]] Scenario on_one_gpu(const Scenario& scenario);

}  // namespace ddlsim::whatif
