// Steps whose passes are alike: one stands for all. Private to the room.
#pragma once

#include "ddlsim/step/schedule.h"

namespace ddlsim::step {

/// A coordinator wakes first at `phase` cycles (step/schedule.h).
[[nodiscard]] answer::Timeline schedule_folded(const cost::PricedStep& step, answer::Detail detail, double phase = 1);

}  // namespace ddlsim::step
