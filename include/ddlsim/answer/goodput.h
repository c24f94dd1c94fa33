// What failures and checkpoints leave of a run. Values only; the laws are in cost/goodput.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddlsim/support/units.h"

namespace ddlsim::answer {

/// The same run simulated, event by event (events/failures.h).
struct SimulatedGoodput {
  double goodput = 0;
  double low = 0;  // 95 % interval of the mean
  double high = 0;
  std::int64_t runs = 0;
  double failures = 0;  // seen, of all runs
};

struct Goodput {
  double share = 0;  // of the wall time, in which steps are made that count
  double checkpoints = 0;
  double recomputed = 0;
  double recovery = 0;
  double down = 0;
  Time mtbf{};         // of the whole job, while it runs
  Rate failures{};     // per wall time
  double by_gpus = 0;  // shares of the failures
  double by_nodes = 0;
  double by_switches = 0;
  std::string rates;         // whose, in words
  std::string mode;          // blocking, async, memory
  DataSize checkpoint{};     // its size
  std::int64_t writers = 1;  // servers that write it
  Time blocked{};            // training, by one
  Time write{};              // until one is in storage
  Time interval{};           // worked between two
  bool interval_stated = false;
  std::int64_t remote_every = 1;  // in memory: each n-th goes to storage
  Time young{};
  Time daly{};
  Time restart{};       // from a failure to the restart, spares aside
  Time spare_wait{};    // of every failure, on average
  double short_of = 0;  // probability that a failed server finds no spare
  std::int64_t spares = 0;
  Time recovery_time{};          // reading and warming up
  Time memory_recovery_time{};   // in memory: from there
  std::optional<double> of_run;  // failures of a run whose length is stated
  std::optional<SimulatedGoodput> simulated;
};

}  // namespace ddlsim::answer
