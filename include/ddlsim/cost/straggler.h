// Waiting for the slowest of n alike GPUs.
//
// If the time of one GPU's part of a step varies from step to step with standard deviation s (as a share of its mean),
// a synchronous step takes the largest of n of them:
//   wait = s * T * E(n),   E(n) = expected largest of n standard normal values
//   E(n) ~ z((n - 0.375) / (n + 0.25))   z = inverse of the normal distribution       (Blom 1958; within 5 %)
// p passes that are added up before anybody waits vary independently: their sum by sqrt(p) s T, as a share of p T less.
// E(1) = 0, E(2) = 0.59, E(8) = 1.43, E(64) = 2.34, E(1024) = 3.2: the wait grows like sqrt(2 ln n).
// Limits: GPUs independent and alike; a persistent straggler is another matter (events/engine.h).
// Worked example: 100 ms, s = 2 %, 8 GPUs: 0.02 * 100 * 1.43 = 2.9 ms; four such passes: 5.7 ms.
#pragma once

#include <cstdint>

namespace ddlsim::cost {

/// E(n).
[[nodiscard]] double expected_largest(std::int64_t n);

}  // namespace ddlsim::cost
