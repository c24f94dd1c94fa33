// The run of cost/goodput.h, event by event: what its formulas are held against.
//
// A run works, takes checkpoints, fails, waits for a spare, restarts, reads, warms up and goes on, until so many
// intervals are done. Failures of three classes (GPUs and servers, which cost a server; switches, which do not) come
// exponentially while it does not stand; servers away come back after exponential repairs, whatever the run does.
// Writes beside training are lost with a failure before their end. The random numbers are splitmix64's (Steele, Lea and
// Flood, OOPSLA 2014), logarithms support/portable_math.h's: the same seed gives the same run on every machine.
//
//   goodput = worked / mean wall time of a run; 95 % interval: mean +- 1.96 s / sqrt(runs)
//
// The pool of spares gets into balance before a run is timed: for five repairs' worth of work (by the clock, a run
// would mostly begin where a long wait for a spare has just ended, with all spares away). Limits: the interval is the
// normal law's; where few of the failures seen wait for a spare, and those waits are most of what is lost, it says
// little (whatif/goodput.h has the note).
//
// Worked example: no failures. 10 intervals of 50 s with checkpoints that block 10 s take 600 s: goodput 83.3 %.
#pragma once

#include <cstdint>

#include "ddlsim/answer/goodput.h"
#include "ddlsim/cost/goodput.h"
#include "ddlsim/support/units.h"

namespace ddlsim::events {

struct FailureOptions {
  cost::FailingRun run;    // `down` without waiting for spares
  cost::SparePool pool{};  // `lost` is a part of run.failures; no repair: spares never run out
  Time interval{};
  std::int64_t intervals = 1000;  // of one run; in memory rounded up to whole rounds of run.remote_every
  std::int64_t runs = 100;        // at least 2
  std::uint64_t seed = 1;
};

[[nodiscard]] answer::SimulatedGoodput simulate_failures(const FailureOptions& options);

}  // namespace ddlsim::events
