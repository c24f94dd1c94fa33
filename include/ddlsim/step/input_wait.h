// What a step waits for its input.
//
// A step that is `busy` on its GPUs takes max(busy, copies, loading) + starved: copies of the next batches over the
// host link and the loader run beside it; what cannot (a loader without workers, copies from memory that is not
// pinned), and what times that vary add (cost/loader.h), comes on top.
//
// Worked example (test): busy 300 ms, batches every 224 ms: it waits for none. Busy 200 ms: 24 ms.
#pragma once

#include "ddlsim/answer/timeline.h"
#include "ddlsim/cost/price.h"

namespace ddlsim::step {

/// What the GPU itself decodes in a step.
[[nodiscard]] inline Time decoding_of(const cost::PricedStep& step, double passes) { return step.decoding * passes; }

struct InputWait {
  Time loading{};  // of the step's batches by the loader, beside everything else
  Time starved{};  // of the wait, what nothing runs beside
  Time exposed{};  // the wait
};

/// Of a step that is `busy`, decoding counted, and copies for `host_link` beside it.
[[nodiscard]] inline InputWait input_wait(const cost::PricedStep& step, Time host_link, Time busy, double passes) {
  InputWait wait;
  if (!step.pinned) wait.starved += step.input * passes;
  if (step.loader) {
    const Time interval = step.loader->interval();
    const Time of_pass = cost::wait_for_batch(*step.loader, busy / passes);
    const bool beside = step.loader->workers > 0;
    wait.loading = beside ? interval * passes : Time::zero();
    wait.starved +=
        (beside ? max(of_pass - max(interval - busy / passes, Time::zero()), Time::zero()) : of_pass) * passes;
  }
  wait.exposed = max(max(host_link, wait.loading) - busy, Time::zero()) + wait.starved;
  return wait;
}

/// Fills the line's loading and starved and its part `input_exposed`; returns the step. `busy` counts decoding.
[[nodiscard]] inline Time with_input(const cost::PricedStep& step, Time busy, double passes, answer::Timeline& line) {
  const InputWait wait = input_wait(step, line.host_link, busy, passes);
  line.loading = wait.loading;
  line.starved = wait.starved;
  line.parts.input_exposed = wait.exposed;
  return busy + wait.exposed;
}

}  // namespace ddlsim::step
