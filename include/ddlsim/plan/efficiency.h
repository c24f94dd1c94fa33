// The share of each peak rate that a step reaches.
//
// Wang et al. (IISWC 2019) take 70 % of every rate unless a measurement says otherwise; so do we, and call it assumed.
// A share that somebody stated wins over the models that would know better: over a GPU's profile (compute, memory) and
// over what a collective library reaches (pcie, nvlink, network).
#pragma once

#include "ddlsim/support/provenance.h"
#include "ddlsim/support/stated.h"

namespace ddlsim::plan {

inline constexpr double kDefaultEfficiency = 0.70;  // Wang et al., IISWC 2019, section on the analytical model

struct Efficiency {
  Stated<double> compute = by_default(kDefaultEfficiency);
  Stated<double> memory = by_default(kDefaultEfficiency);
  Stated<double> pcie = by_default(kDefaultEfficiency);
  Stated<double> nvlink = by_default(kDefaultEfficiency);
  Stated<double> network = by_default(kDefaultEfficiency);

  /// Assumed as long as one share is nobody's statement.
  [[nodiscard]] constexpr Provenance provenance() const {
    const bool all = compute.stated() && memory.stated() && pcie.stated() && nvlink.stated() && network.stated();
    return all ? Provenance::kAnalytic : Provenance::kAssumed;
  }
  /// All five stated.
  [[nodiscard]] static constexpr Efficiency uniform(double share) { return {share, share, share, share, share}; }
};

}  // namespace ddlsim::plan
