// What a reader of a goodput should know beside the numbers. Private to the room.
#pragma once

#include <string>
#include <vector>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// Of failures and checkpoints: what is assumed, and what was stated without effect.
void add_goodput_notes(const Scenario& scenario, const answer::Prediction& prediction, std::vector<std::string>& notes);

}  // namespace ddlsim::whatif
