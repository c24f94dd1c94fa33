#include "ddlsim/hardware/software.h"

#include <algorithm>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::hardware {

Time small_kernels_time(double small, Time time, double kernels) {
  constexpr Time kLarge = microseconds(400);
  constexpr double kHalvings = 3;  // below it all of the effect
  if (!(small > 0) || !(kernels > 0) || !(time > Time::zero())) return Time::zero();
  return time * (small * std::clamp(portable_log2(kLarge * kernels / time) / kHalvings, 0.0, 1.0));
}

}  // namespace ddlsim::hardware
