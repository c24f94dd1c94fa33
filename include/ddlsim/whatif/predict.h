// The one prediction every question asks for.
//
// `predict` maps a scenario to a step time and says where it goes. Two fidelities stand behind it
// (answer/prediction.h); a model known by its features, and the PEARL strategy, only have the aggregate one.
//
// What it assumes, and says so in the notes: an efficiency of 70 % of every peak (Wang et al. 2019) unless the scenario
// states one. Nothing is calibrated on a device yet, so the 90 % interval is wide: its ends are the 5th and 95th
// percentile of measured / predicted step time over published steps (NVIDIA DeepLearningExamples, ResNet-50 and
// BERT-Large on V100 and A100 in fp32, tf32 and amp: 56 of one GPU, 98 of several with all-reduce). On published steps
// that were not used for it, it covers fewer than 90 % where gRPC parameter servers or old GPUs are concerned.
//
// The bottleneck is the resource that shortens the step most when it gets 10 % faster, all else being equal.
//
// Worked example: README.md, "A what-if, worked".
#pragma once

#include "ddlsim/answer/prediction.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

inline constexpr double kInterval90Low = 0.56;
inline constexpr double kInterval90High = 1.67;
inline constexpr double kInterval90LowCluster = 0.58;
inline constexpr double kInterval90HighCluster = 1.95;

/// Errors: kUnsupported when the GPU has no rate for the precision, or the fidelity cannot answer for the model.
[[nodiscard]] Expected<answer::Prediction> predict(const Scenario& scenario);

/// The factor on all GPU time (Scenario::gpu_time_factor) under which a scenario's step takes `measured`, to 1e-9; what
/// takes no GPU time is left as it is. Errors: as predict; kInfeasible when communication alone takes longer.
[[nodiscard]] Expected<double> fit_gpu_time(const Scenario& scenario, Time measured);

}  // namespace ddlsim::whatif
