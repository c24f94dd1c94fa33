// Training steps as a Program: the `event` fidelity.
//
// A priced plan and its schedule (step/schedule.h) say what one step is made of; here the same work becomes tasks of
// events/engine.h:
//   a layer   c kernels of t in all, which the CPU has issued at `issued`, end at max(done + t, issued + t/c): a task
//   of
//             t - t/c on the GPU's stream, and one of t/c that waits for the CPU stream's task as well
//   a message starts when it is ready on all workers that wait for each other and the one before it is done
//             all-reduce   a task as long as cost/collective.h says
//             PS           c pieces that pass a station s long: the first (s), the middle ((c-2) s), the last (s), each
//                          after its like at the station before, all three in order at this one
//   a step    ends when every worker has updated its weights and copied its input; the next begins there
// With one job of alike workers that is the schedule's recurrence, and the step is the same: to 1e-9, or to 1 ps per
// message where that is more (times are whole picoseconds; the tasks of a stream are rounded together, not one by one).
// Beyond the recurrence:
// - workers of different speeds: all GPU work of a kind takes `slowness` times as long; synchronous steps wait for the
//   slowest, asynchronous workers do not. Alike workers are described once, so the cost grows with the kinds alone.
// - several jobs, alike or not: what crosses a network port is a flow that shares it max-min fairly
//   (events/flow_network.h). A collective puts its bytes (cost::CollectiveModel::wire_bytes) on its nodes' ports after
//   its latency, at most as fast as it goes alone; a parameter server's stations 2, 3, 5 and 6 put theirs on the
//   worker's or server's port. Jobs on the same servers share their ports; jobs on servers of their own meet on the
//   uplink of their leaf, where one is stated. A job starts `offset` (modulo its step) after the first. The fourth of
//   five steps of the longest is measured: all jobs still run.
//
// Laws (tested): a slower worker, or another job, never makes the step shorter; n jobs add at most n - 1 times the
// communication (with servers under priority: the step, for their pieces are then no pipeline).
// Limits: kernels slowed by collectives, fusion's waits for the coordinator, and the order under priority are those of
// the step alone. Where forward waits for weights, the CPU leads backward as if it had not waited, as in the schedule.
// A server receives a piece when the slowest worker has sent it. Jobs share network ports alone: neither the servers'
// memory nor links inside a node; and a job of collectives has ports apart from those of a job with parameter servers.
// Errors, kUnsupported: ideal overlap (a bound, no schedule), priority together with pull at start, several
// asynchronous jobs.
//
// Worked example: two layers of 1 and 2 ms forward, twice that backward, 5 ms of ring for each, as in step_test.cpp.
// Alone: the rings run 7..12 and 12..17, a step takes 17 ms. One GPU 1.5 times as slow: its layers are back at 10.5 and
// 13.5, the rings run 10.5..15.5..20.5: 20.5 ms. Two such jobs on one network port: every ring takes 10 ms, 7..17..27.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ddlsim/answer/timeline.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/events/engine.h"
#include "ddlsim/hardware/node.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::events {

/// A job among others. Both must outlive the simulation.
struct SimulatedJob {
  const cost::PricedStep* step = nullptr;   // its classes: kinds of GPUs, each so many times as slow
  const answer::Timeline* alone = nullptr;  // the schedule of its nominal GPUs, answer::Detail::kWork
  Time offset{};                            // after the first job's start
  std::size_t servers = 0;                  // jobs of one number stand on the same servers
  /// Whose servers' links its transfers cross; none: nothing inside a server fills. Jobs on the same servers agree.
  const hardware::Cluster* cluster = nullptr;
  std::int64_t first_gpu = 0;  // its GPUs' first place in each server
};

struct EventOptions {
  bool named = false;                 // whether tasks are named after layers, for a trace
  std::optional<Bandwidth> uplink{};  // of the leaf that all jobs' network traffic crosses; none: it never fills
};

struct EventStep {
  Time step{};              // mean over jobs like the first, that is those on its plan; asynchronous workers: the time
                            // in which each does one step on average
  Time slowest{};           // the step of the slowest of them
  std::vector<Time> steps;  // of every job
  Program program;          // its streams are named "job 1, GPUs x 1.3/gpu": process, track
  Run run;
};

/// Errors: kUnsupported as above and for plans that do not fold; kInvalidArgument for no job, over 1,000 of them, or
/// offsets below zero; kInfeasible for more tasks than can be simulated.
[[nodiscard]] Expected<EventStep> simulate(std::span<const SimulatedJob> jobs, const EventOptions& options = {});

}  // namespace ddlsim::events
