// Goodput of a scenario: how often its parts fail, what its checkpoints weigh and cost, and what is left.
//
//   rate       = GPUs / M_gpu + servers / M_node + ceil(servers / servers per switch) / M_switch
//   checkpoint = weights, fp32 weights and optimizer states of the model's plan on one GPU, unsplit (plan/memory.h);
//                gradients and activations are not kept, and frozen weights (adapters', first layers') are not written
//   writers    = all servers where replicas share the states (zero), else those of one replica
//   write      = max(checkpoint / storage, checkpoint / writers / rate of one server)
//   snapshot   = checkpoint / writers / (PCIe of a server's GPUs, at the job's share of it)
//   blocked    = the longer of write and snapshot, as a blocking checkpoint passes both links at once (as stated where
//                checkpoint.write is); the snapshot where it is asynchronous or in memory
//   interval   = as stated, else the exact best of cost/goodput.h; no shorter than a write that goes on beside it
//   in memory  : each n-th copy goes to storage, n as stated or as often as storage takes them
//   recovery   = reading, at the rates of writing and over PCIe, and warming up; from memory: the snapshot's time, and
//                over the network a server's part from its partner; frozen weights are read again in both
//   time       = start-up + (steps + evaluations) / goodput          cost of servers and spares alike
//
// Storage that each server has for itself counts as often as there are writers. A server's own rate is its network's
// unless stated. What nobody states of restart, warm-up and repair takes no time, and a note says so; how often things
// fail has no default. Servers under repair cost nothing more, as they are the spares' price.
//
// Limits: a stated size is all that is read as well; reading counts every byte once, replicas pass it on; writing is as
// fast as reading where a storage's file knows one rate; the interval is the best for the whole job's rate, in memory
// too.
//
// Worked example: test/unit/whatif/goodput_test.cpp.
#pragma once

#include <cstdint>
#include <optional>

#include "ddlsim/answer/goodput.h"
#include "ddlsim/cost/goodput.h"
#include "ddlsim/hardware/failures.h"
#include "ddlsim/hardware/host.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::whatif {

struct Scenario;

/// What is said of failures: settings failures.*.
struct Failures {
  std::optional<hardware::FailureRates> published;  // by name
  std::optional<Time> gpu;                          // mean times between failures of one: they win over `published`
  std::optional<Time> node;
  std::optional<Time> network;
  std::optional<std::int64_t> nodes_per_switch;
  Time restart{};              // from a failure until reading begins
  Time warmup{};               // after reading, until steps are as long as ever
  std::int64_t spares = 0;     // servers that stand by
  std::optional<Time> repair;  // until a failed server is back; nothing: at once
  /// Beside the formula: of 1,000 intervals each, or ten failures. A note where fewer than 30 failures are seen in all,
  /// or wait for a spare though that is what is lost.
  std::int64_t simulated_runs = 0;
  std::uint64_t seed = 1;

  /// Whether anybody says how often something fails.
  [[nodiscard]] bool stated() const { return published || gpu || node || network; }
};

/// What is said of checkpoints: settings checkpoint.*.
struct Checkpoints {
  cost::CheckpointMode mode = cost::CheckpointMode::kBlocking;
  std::optional<Time> interval;              // worked between two; nothing: the best
  std::optional<hardware::Storage> storage;  // nothing: the servers', where they share it
  std::optional<Bandwidth> bandwidth;        // of all who write
  std::optional<Bandwidth> node_bandwidth;   // of one server
  std::optional<DataSize> size;              // nothing: the plan's
  std::optional<std::int64_t> writers;       // servers; nothing: the plan's
  std::optional<Time> write;                 // instead of size over bandwidth
  std::optional<Time> snapshot;              // instead of size over PCIe
  std::optional<std::int64_t> remote_every;  // in memory

  [[nodiscard]] bool stated() const {
    return mode != cost::CheckpointMode::kBlocking || interval || storage || bandwidth || node_bandwidth || size ||
           writers || write || snapshot || remote_every;
  }
};

/// Whether what is said of failures and checkpoints makes sense together. Errors: kInvalidArgument, naming settings.
[[nodiscard]] Expected<void> check_goodput(const Scenario& scenario);

/// Requires scenario.failures.stated(). Errors: kInvalidArgument where nobody says what checkpoints are written to,
/// kInfeasible where they do not fit there, take longer than an interval, or the run makes no headway.
[[nodiscard]] Expected<answer::Goodput> goodput(const Scenario& scenario);

}  // namespace ddlsim::whatif
