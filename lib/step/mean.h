// Means of two lines: every time of theirs, and the path they add up to. Private to the room.
#pragma once

#include "ddlsim/answer/timeline.h"

namespace ddlsim::step {

/// `line` times 1 - `share` and `other` times `share`. What a step is made of (kWork) stays `line`'s.
void mix(answer::Timeline& line, const answer::Timeline& other, double share);

}  // namespace ddlsim::step
