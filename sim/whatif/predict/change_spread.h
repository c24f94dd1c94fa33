// What changes of another kind than counts and rates leave open. Private to the room.
#pragma once

#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

inline constexpr double kTwoSided = 1.645;  // 90 % of a normal distribution

/// Variance of ln(measured / predicted) between two jobs by what neither counts nor rates say: the GPU, the model, the
/// precision or the code of kernels, adapters, the strategy, who sums (whatif/ratio.h). `gpu` is the share of a step
/// that kernels may change.
[[nodiscard]] double variance_of_kinds(const Scenario& a, const Scenario& b, double gpu);

}  // namespace ddlsim::whatif
