// Time as what is limited by it reads it: searches, by a clock that their caller gives, and a sweep's estimate of
// itself.
#pragma once

#include <chrono>
#include <functional>

#include "ddlsim/support/units.h"

namespace ddlsim::whatif {

/// Seconds since any moment.
using Clock = std::function<Time()>;

/// The clock that users have.
[[nodiscard]] inline Time steady_time() {
  return seconds(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace ddlsim::whatif
