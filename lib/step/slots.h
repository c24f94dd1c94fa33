// Steps laid out slot by slot: stages, rows in the way, rows that hold up a later layer. Private to the room.
#pragma once

#include "ddlsim/step/schedule.h"

namespace ddlsim::step {

/// Where the step takes longer than `enough`, nothing but some such time is known of it. Errors: kInvalidArgument for a
/// cyclic order of passes.
[[nodiscard]] Expected<answer::Timeline> schedule_slots(const cost::PricedStep& step, answer::Detail detail,
                                                        Time enough = Time::infinity());

}  // namespace ddlsim::step
