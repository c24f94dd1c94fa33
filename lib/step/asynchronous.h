// Pipelines that never empty (PipeDream, PipeDream-2BW). Private to the room.
#pragma once

#include "ddlsim/plan/order.h"
#include "ddlsim/step/schedule.h"

namespace ddlsim::step {

[[nodiscard]] answer::Timeline schedule_asynchronous(const cost::PricedStep& step, const plan::Pipeline& pipeline,
                                                     answer::Detail detail);

/// What rows take by themselves, on the busiest class, of so many passes.
[[nodiscard]] Time busiest_communication(const cost::PricedStep& step, std::int64_t passes);

}  // namespace ddlsim::step
