#include "ddlsim/hardware/software.h"

#include "ddlsim/support/portable_math.h"

namespace ddlsim::hardware {

Time small_kernels_time(double small, Time time, double kernels) {
  constexpr Time kLarge = microseconds(400);
  constexpr int kHalvings = 3;  // below it all of the effect
  if (!(small > 0) || !(kernels > 0) || !(time > Time::zero())) return Time::zero();
  const double smaller = kLarge * kernels / time;
  if (smaller <= 1) return Time::zero();
  if (smaller >= 1 << kHalvings) return time * small;
  return time * (small * (portable_log2(smaller) / kHalvings));
}

}  // namespace ddlsim::hardware
