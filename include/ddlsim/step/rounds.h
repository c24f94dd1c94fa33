// Numbers of a recurrence of max and +, compared a round later: where all of them are later by as much, further rounds
// only repeat it, and may be left out (lib/step/slot_state.h, the plan search).
#pragma once

#include <cmath>

#include "ddlsim/support/units.h"

namespace ddlsim::step {

/// Whether two times are the same but for what rounding leaves of sums, 1e-11 of the longer one; two zeros are not.
[[nodiscard]] inline bool alike(Time a, Time b) {
  constexpr double kRounding = 1e-11;
  return std::abs((a - b) / max(a, b)) < kRounding;
}

/// `now`, so many rounds later, each of which adds what the last one did.
[[nodiscard]] inline Time later(Time now, Time was, double rounds) { return now + (now - was) * rounds; }

}  // namespace ddlsim::step
