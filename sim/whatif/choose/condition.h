// What a condition asks of a prediction. Private to the room.
#pragma once

#include <optional>
#include <string>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/find.h"

namespace ddlsim::whatif {

/// In the condition's SI unit. Errors: kInvalidArgument where a prediction does not say it: costs without a length of
/// the run or a price, tokens of images.
[[nodiscard]] Expected<double> measure(const Condition& condition, const answer::Prediction& prediction);

/// The metric as often as `sure` at least so good; the step's interval says how good. Errors: as measure, and
/// kInvalidArgument for a metric or relation of which that says nothing.
[[nodiscard]] Expected<double> measure(const Condition& condition, const answer::Prediction& prediction, double sure);

/// That the condition holds; nothing for a metric or relation of which the step's interval says nothing.
[[nodiscard]] std::optional<double> probability_of(const Condition& condition, const answer::Prediction& prediction);

/// "85.3 %", "412 samples/s".
[[nodiscard]] std::string measured_text(const Condition& condition, double value, const std::string& sample);

}  // namespace ddlsim::whatif
