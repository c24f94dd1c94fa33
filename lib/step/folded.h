// Steps whose passes are alike: one stands for all. Private to the room.
#pragma once

#include "ddlsim/step/schedule.h"

namespace ddlsim::step {

[[nodiscard]] answer::Timeline schedule_folded(const cost::PricedStep& step, answer::Detail detail);

}  // namespace ddlsim::step
