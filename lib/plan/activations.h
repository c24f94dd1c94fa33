// What both followers of a list of layers share: plan/memory.h has the rules.
#pragma once

#include <span>
#include <vector>

#include "ddlsim/plan/memory.h"

namespace ddlsim::plan {

inline constexpr double kSingle = 4;  // bytes of fp32

[[nodiscard]] double elements_in(const workload::Shape& shape);

/// What a product keeps of its weights beside them: a copy in 16 bits where states are of 32 (`cut.casts`).
[[nodiscard]] DataSize cast_weights(const workload::Layer& layer, const ActivationCut& cut);

/// Of networks of convolutions without attention: by tensors, each of which is kept once.
[[nodiscard]] std::vector<KeptActivations> kept_between(std::span<const workload::Layer> layers,
                                                        const ActivationCut& cut);

}  // namespace ddlsim::plan
