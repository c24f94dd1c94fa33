// Steps laid out slot by slot: stages, rows in the way, rows that hold up a later layer. Private to the room.
#pragma once

#include "ddlsim/step/schedule.h"

namespace ddlsim::step {

/// Errors: kInvalidArgument for a cyclic order of passes.
[[nodiscard]] Expected<answer::Timeline> schedule_slots(const cost::PricedStep& step, answer::Detail detail);

}  // namespace ddlsim::step
