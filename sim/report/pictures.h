// What each answer looks like (page.h). The first picture is the one that answers; SVG is that one alone.
#pragma once

#include <string>
#include <vector>

#include "ddlsim/answer/collective.h"
#include "ddlsim/answer/curve.h"
#include "ddlsim/answer/fleet.h"
#include "ddlsim/answer/plan_choice.h"
#include "ddlsim/answer/prediction.h"
#include "ddlsim/answer/recommendation.h"
#include "ddlsim/answer/stalls.h"
#include "ddlsim/answer/validation.h"
#include "page.h"

namespace ddlsim::report {

/// Where the step goes, in which order, and what the GPU's memory holds.
[[nodiscard]] std::vector<Picture> pictures_of(const answer::Prediction& prediction);
/// The steps beside each other.
[[nodiscard]] std::vector<Picture> pictures_of(const answer::Comparison& comparison);
/// The best plans, and the front of step time against memory.
[[nodiscard]] std::vector<Picture> pictures_of(const answer::PlanChoice& choice);
/// Money against time, of every choice.
[[nodiscard]] std::vector<Picture> pictures_of(const answer::Recommendation& result);
[[nodiscard]] std::vector<Picture> pictures_of(const answer::StallReport& report);
[[nodiscard]] std::vector<Picture> pictures_of(const answer::StallStudy& study);
/// Bus bandwidth against size.
[[nodiscard]] std::vector<Picture> pictures_of(const answer::CollectiveReport& report);
/// Predicted against measured.
[[nodiscard]] std::vector<Picture> pictures_of(const answer::Validation& validation);
/// Where the time goes, and the CDF of speedups.
[[nodiscard]] std::vector<Picture> pictures_of(const answer::FleetReport& report);
/// Throughput with its 90 % band beside perfect scaling.
[[nodiscard]] std::vector<Picture> pictures_of(const answer::Curve& curve);
[[nodiscard]] Chart chart_of(const answer::Curve& curve);

}  // namespace ddlsim::report
