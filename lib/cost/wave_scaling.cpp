#include "ddlsim/cost/wave_scaling.h"

#include "ddlsim/support/portable_math.h"

namespace ddlsim::cost {
namespace {

/// base^exponent, the exponents that matter exactly.
double power(double base, double exponent) {
  if (exponent == 0) return 1;
  if (exponent == 1) return base;
  return portable_exp2(exponent * portable_log2(base));
}

}  // namespace

Time wave_scaled(Time timed, double memory_share, const WaveScaling& scaling) {
  return timed * (scaling.batch * power(scaling.memory, memory_share) * power(scaling.compute, 1.0 - memory_share));
}

Time wave_scaled(Time timed, workload::Bound bound, const WaveScaling& scaling) {
  switch (bound) {
    case workload::Bound::kMemory: return wave_scaled(timed, 1.0, scaling);
    case workload::Bound::kCompute: return wave_scaled(timed, 0.0, scaling);
    case workload::Bound::kFixed: return timed;
  }
  return timed;
}

}  // namespace ddlsim::cost
