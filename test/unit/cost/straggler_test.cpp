#include "ddlsim/cost/straggler.h"

#include <catch2/catch.hpp>

using ddlsim::cost::expected_largest;

TEST_CASE("straggler: the expected largest of n normal values", "[unit][cost]") {
  CHECK(expected_largest(1) == 0);
  // Exact values: 1/sqrt(pi) = 0.5642, 1.0294, 1.4236, 2.3437 (Harter 1961); Blom's formula is within 5 %.
  CHECK(expected_largest(2) == Approx(0.5642).epsilon(0.05));
  CHECK(expected_largest(4) == Approx(1.0294).epsilon(0.03));
  CHECK(expected_largest(8) == Approx(1.4236).epsilon(0.02));
  CHECK(expected_largest(64) == Approx(2.3437).epsilon(0.01));
  for (std::int64_t n = 1; n < 1'000'000'000'000; n *= 3) CHECK(expected_largest(n) < expected_largest(3 * n));
}
