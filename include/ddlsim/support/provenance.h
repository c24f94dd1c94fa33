// Where a number comes from. A sum is only as good as its weakest part.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddlsim {

/// Strongest first: the weaker of two is the larger.
enum class Provenance : std::uint8_t {
  kMeasured,      // a measurement of this very thing
  kInterpolated,  // between measurements
  kAnalytic,      // a formula whose constants somebody stated for this case
  kExtrapolated,  // outside the measurements
  kAssumed,       // a default nobody measured here
};

[[nodiscard]] constexpr Provenance weaker(Provenance a, Provenance b) { return a < b ? b : a; }

[[nodiscard]] constexpr std::string_view to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::kMeasured: return "measured";
    case Provenance::kInterpolated: return "interpolated";
    case Provenance::kAnalytic: return "analytic";
    case Provenance::kExtrapolated: return "extrapolated";
    case Provenance::kAssumed: return "assumed";
  }
  return "assumed";
}

}  // namespace ddlsim
