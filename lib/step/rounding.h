// Parts of a step that are differences of others. Private to the room.
#pragma once

#include "ddlsim/answer/timeline.h"

namespace ddlsim::step {

/// What sums of doubles leave of a difference, less than a billionth of the step or below zero, is nothing.
[[nodiscard]] inline Time beyond_rounding(Time part, Time step) {
  constexpr double kOfStep = 1e-9;
  return part < step * kOfStep ? Time::zero() : part;
}

inline void drop_rounding(answer::Breakdown& parts, Time step) {
  for (Time* part : {&parts.launch, &parts.input_exposed, &parts.communication_exposed, &parts.bubble}) {
    *part = beyond_rounding(*part, step);
  }
}

}  // namespace ddlsim::step
