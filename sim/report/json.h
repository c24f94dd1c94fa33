// Answers as JSON, by the command contract.
#pragma once

#include <nlohmann/json.hpp>

#include "ddlsim/answer/fleet.h"
#include "ddlsim/answer/prediction.h"

namespace ddlsim::report {

using Json = nlohmann::ordered_json;

[[nodiscard]] Json to_json(const answer::Prediction& prediction);
[[nodiscard]] Json to_json(const answer::Training& run);
[[nodiscard]] Json to_json(const answer::Comparison& comparison);
[[nodiscard]] Json to_json(const answer::FleetReport& report);
/// Two-space indent and a newline, with the program (report/program.h); text that is not UTF-8 is replaced, never
/// thrown at.
[[nodiscard]] std::string dump(const Json& json);

}  // namespace ddlsim::report
