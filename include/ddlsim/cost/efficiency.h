// The share of each peak rate that a step reaches.
//
// Wang et al. (IISWC 2019) take 70 % of every rate unless a measurement says otherwise; so do we, and call it assumed.
#pragma once

#include "ddlsim/support/provenance.h"

namespace ddlsim::cost {

inline constexpr double kDefaultEfficiency = 0.70;  // Wang et al., IISWC 2019, section on the analytical model

struct Efficiency {
  double compute = kDefaultEfficiency;
  double memory = kDefaultEfficiency;
  double pcie = kDefaultEfficiency;
  double nvlink = kDefaultEfficiency;
  double network = kDefaultEfficiency;
  int assumed = 5;  // how many of the shares nobody stated

  [[nodiscard]] constexpr Provenance provenance() const {
    return assumed > 0 ? Provenance::kAssumed : Provenance::kAnalytic;
  }
  /// All five stated.
  [[nodiscard]] static constexpr Efficiency uniform(double share) { return {share, share, share, share, share, 0}; }
};

}  // namespace ddlsim::cost
