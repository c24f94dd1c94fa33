// The parts of one step under a scenario, at any fidelity: what predict.cpp asks again and again.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/cost/efficiency.h"
#include "ddlsim/cost/kernel_time.h"
#include "ddlsim/events/event_step.h"
#include "ddlsim/plan/messages.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// A scenario with the rates that a prediction may vary.
struct StepQuestion {
  const Scenario& scenario;
  answer::Fidelity fidelity;
  ComputeRate peak;
  std::int64_t nodes;
  std::int64_t gpus_per_node;
  cost::Efficiency efficiency;
  Time launch_interval;
  double latency_factor = 1;   // of every link's latency
  double gpu_time_factor = 1;  // of all GPU time
  double server_speed = 1;     // of the servers' memory
  double transport_speed = 1;  // of the servers' transport, and of TCP under collectives
  bool rdma = false;           // drives a network of which nobody says what drives it
  std::vector<plan::Message> messages;
  std::shared_ptr<const cost::CalibratedTimes> calibrated;  // at the scenario's own rates; null: no profile

  [[nodiscard]] std::int64_t gpus() const { return nodes * gpus_per_node; }
};

struct StepParts {
  answer::Breakdown breakdown;
  Time time;
  std::optional<std::pair<Time, Time>> bounds;  // aggregate: ideal overlap, no overlap
  std::vector<answer::LinkTraffic> traffic;     // only when asked for
  std::vector<answer::Segment> segments;        // likewise
};

enum class Detail { kTime, kAll };

/// Fills in the messages that the question's strategy sends, and the layers' times by a profile. Done once: messages do
/// not depend on rates, and the times scale with them. Fails where the collective library does not have what is asked
/// of it.
[[nodiscard]] Expected<void> prepare(StepQuestion& question);

/// Fails in the event fidelity alone: where it cannot simulate a schedule, or not in time.
[[nodiscard]] Expected<StepParts> step_parts(const StepQuestion& question, Detail detail);

/// The step's work, one by one; not of the aggregate fidelity.
[[nodiscard]] step::StepRecord record(const StepQuestion& question);

/// What the event fidelity simulated, its tasks named after the model's layers.
[[nodiscard]] Expected<events::EventStep> simulate(const StepQuestion& question);

}  // namespace ddlsim::whatif
