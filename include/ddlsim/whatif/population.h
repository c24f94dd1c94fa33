// A population of jobs drawn from published marginals (io/population_file.h).
//
// Job i of seed s is a pure function of (s, i): every feature is drawn on its own from its marginal by inverting its
// distribution at a hash of (s, i, feature), so populations are the same on every machine and any part can be drawn
// alone. Features are independent, with one physical bound: weights and gradients cross the links at most twice a step,
// so weight traffic is at most twice the weights. Weights above 10 GB count as embeddings.
// Limits: real features are correlated (large jobs have large models); the marginals do not say how.
#pragma once

#include <cstdint>

#include "ddlsim/cost/pai.h"
#include "ddlsim/io/population_file.h"

namespace ddlsim::whatif {

[[nodiscard]] cost::PaiJob draw_job(const io::PopulationFile& population, std::uint64_t seed, std::uint64_t index);

}  // namespace ddlsim::whatif
