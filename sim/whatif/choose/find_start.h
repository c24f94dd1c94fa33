// Where a search begins: the job as it is, and what is said of its batch. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/answer/inverse.h"
#include "ddlsim/answer/prediction.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/whatif/predictor.h"
#include "ddlsim/whatif/scenario.h"
#include "scenario/number_settings.h"

namespace ddlsim::whatif {

struct SearchStart {
  Scenario scenario;
  answer::Prediction prediction;
  std::optional<Override> instead;  // of the variable, where the job is none as it is stated, or nobody says it
};

/// The job and what is predicted for it. Where servers or their GPUs are looked for and the job is none with those it
/// has (tp 8 x pp 4 on one server): with the fewest that make it one. Errors: of the job as it is.
[[nodiscard]] Expected<SearchStart> start_of_search(const io::Catalog& catalog, std::span<const Override> base,
                                                    const NumberSetting& variable, Predictor& predictor);

/// A port's rate as a network of so many: "4 x 25 Gb/s"; of one as it is, unless it was counted, "1 x 10 Gb/s".
[[nodiscard]] std::string with_ports(std::span<const Override> stated, std::int64_t ports, const std::string& rate);

/// What an answer's value means besides: a run's batch that grows with it, a rate that more ports make hold. Requires
/// the answer's baseline, prediction and limit.
[[nodiscard]] std::vector<std::string> notes_of_answer(const io::Catalog& catalog, std::span<const Override> base,
                                                       const Scenario& scenario, const answer::Inverse& result);

}  // namespace ddlsim::whatif
