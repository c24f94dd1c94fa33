// Errors of a set of cases, summed up. Private to the room.
#pragma once

#include <vector>

#include "ddlsim/answer/validation.h"

namespace ddlsim::whatif {

/// Fills in all that follows from the set's cases.
void summarise(answer::ValidationSet& set);

/// Steps and collectives apart: only steps can be predicted from given ones. Empty where all are of one kind.
[[nodiscard]] std::vector<answer::ValidationSet> kinds_of(const answer::ValidationSet& all);

}  // namespace ddlsim::whatif
