// Where a search begins: the job as it is, and what is said of its batch. Private to the room.
#pragma once

#include <optional>
#include <span>
#include <string>

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
  std::optional<Override> instead;  // of the variable, where the job is none as it is stated
};

/// The job and what is predicted for it. Where servers or their GPUs are looked for and the job is none with those it
/// has (tp 8 x pp 4 on one server): with the fewest that make it one. Errors: of the job as it is.
[[nodiscard]] Expected<SearchStart> start_of_search(const io::Catalog& catalog, std::span<const Override> base,
                                                    const NumberSetting& variable, Predictor& predictor);

/// Of a run whose steps have more samples the more there is of the variable: nobody asked for another batch. Requires
/// the answer's baseline, prediction and limit.
[[nodiscard]] std::optional<std::string> note_of_batch(const Scenario& scenario, const answer::Inverse& result);

}  // namespace ddlsim::whatif
