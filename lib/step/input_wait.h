// What a step waits for its input. Private to the room.
//
// A step that is `busy` on its GPUs takes max(busy, copies, loading) + starved: copies of the next batches over the
// host link and the loader run beside it; what cannot (a loader without workers, copies from memory that is not
// pinned), and what times that vary add (cost/loader.h), comes on top.
#pragma once

#include "ddlsim/answer/timeline.h"
#include "ddlsim/cost/price.h"

namespace ddlsim::step {

/// What the GPU itself decodes in a step.
[[nodiscard]] inline Time decoding_of(const cost::PricedStep& step, double passes) { return step.decoding * passes; }

/// Fills the line's loading and starved and its part `input_exposed`; returns the step. `busy` counts decoding.
[[nodiscard]] inline Time with_input(const cost::PricedStep& step, Time busy, double passes, answer::Timeline& line) {
  if (!step.pinned) line.starved += step.input * passes;
  if (step.loader) {
    const Time interval = step.loader->interval();
    const Time wait = cost::wait_for_batch(*step.loader, busy / passes);
    const bool beside = step.loader->workers > 0;
    line.loading = beside ? interval * passes : Time::zero();
    line.starved += (beside ? max(wait - max(interval - busy / passes, Time::zero()), Time::zero()) : wait) * passes;
  }
  const Time beside = max(line.host_link, line.loading);
  line.parts.input_exposed = max(beside - busy, Time::zero()) + line.starved;
  return busy + line.parts.input_exposed;
}

}  // namespace ddlsim::step
