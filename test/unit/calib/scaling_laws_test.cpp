#include "ddlsim/calib/scaling_laws.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace ddlsim;
using calib::ScalingPoint;

TEST_CASE("scaling laws: the worked example", "[unit][calib]") {
  const std::vector<ScalingPoint> points{{1, milliseconds(100)}, {4, milliseconds(130)}};
  CHECK(calib::amdahl_scaling(points, 16).in(milliseconds) == Approx(250).epsilon(1e-5));
  CHECK(calib::power_law_scaling(points, 16).in(milliseconds) == Approx(169));
  CHECK(calib::perfect_scaling(points).in(milliseconds) == Approx(114.018));  // the geometric mean
}

TEST_CASE("scaling laws: points of one size, and steps that get shorter, scale perfectly after Amdahl",
          "[unit][calib]") {
  const std::vector<ScalingPoint> one{{8, milliseconds(90)}, {8, milliseconds(160)}};
  CHECK(calib::amdahl_scaling(one, 64).in(milliseconds) == Approx(120));
  CHECK(calib::power_law_scaling(one, 64).in(milliseconds) == Approx(120));
  CHECK(calib::perfect_scaling(one).in(milliseconds) == Approx(120));
  const std::vector<ScalingPoint> shorter{{1, milliseconds(100)}, {4, milliseconds(81)}};
  CHECK(calib::amdahl_scaling(shorter, 64).in(milliseconds) == Approx(90).epsilon(1e-5));
  CHECK(calib::power_law_scaling(shorter, 16).in(milliseconds) == Approx(65.61));
}
