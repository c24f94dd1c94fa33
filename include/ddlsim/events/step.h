// Training steps as a Program: the `event` fidelity.
//
// A priced plan and its schedule (step/schedule.h) say what one step is made of; here the same work becomes tasks of
// events/engine.h:
//   a layer   c kernels of t in all, which the CPU has issued at `issued`, end at max(done + t, issued + t/c): a task
//             of t - t/c on the GPU's stream, and one of t/c that waits for the CPU stream's task as well
//   a message starts when it is ready on all workers that wait for each other and the one before it is done
//             all-reduce   a task as long as cost/collective.h says
//             PS           c pieces that pass a station s long: the first (s), the middle ((c-2) s), the last (s), each
//                          after its like at the station before, all three in order at this one
//   a step    ends when every worker has updated its weights and copied its input; the next begins there
// Of a plan that does not fold every class is an actor: it takes the passes of its micro-batches in the order of
// plan/order.h, and in a pass its layers one by one. Its rows are tasks on a stream of their group, of copies out or
// in, of the host, or of the way to another stage; each starts when its class has passed `ready` and what the class
// asked for before on that stream is done, and what is `needed` comes after it.
// Ranks that do not end a step together (zb-h2, zbv) go on to the next one by themselves. A pipeline that never empties
// (PipeDream, PipeDream-2BW) takes its passes in one endless order: enough steps to fill it, four times as many, whose
// mean is measured (of those that repeat themselves), and what is on its way when they end. A gradient's sum is waited
// for when the next is there: at the next update. A pair of DualPipe is two chains of kernels on one GPU: what is in
// the way of one pass runs beside the other's kernels. With one job of alike workers that is the schedule's recurrence,
// and the step is the same: to 1e-9, or to 1 ps per message where that is more (times are whole picoseconds; the tasks
// of a stream are rounded together, not one by one). Beyond the recurrence:
// - workers of different speeds: all GPU work of a kind takes `slowness` times as long; synchronous steps wait for the
//   slowest, asynchronous workers do not. Alike workers are described once, so the cost grows with the kinds alone.
// - what shares a link: a transfer is a flow that shares the links it crosses max-min fairly (events/flow_network.h).
//   It moves after its latency, at most as fast as it goes alone; at that pace a byte fills a link for 1 / (what the
//   price reaches there). A collective puts its bytes (cost::CollectiveCost::wire) on the ports of its nodes, in and
//   out; a send on its sender's way out and its receiver's way in; a parameter server's stations 2 and 6 theirs on
//   the worker's ports, 3 and 5 on the servers'. So jobs on the same servers share their ports, whatever their
//   strategies; jobs on servers of their own meet on the uplink of their leaf, where one is stated, which all that a
//   job's servers send crosses: a job alone waits for it too. A job starts
//   `offset` (modulo its step) after the first. The fourth of five steps of the longest is measured: all jobs still
//   run.
// - links inside a server, where a job says what its servers are (`cluster`): the edges of their hardware::Topology.
//   Groups of a split model then meet on a GPU's NVLink port, or on the link of two GPUs of a mesh; what leaves the
//   server goes from each GPU over its PCIe link to the NIC nearest to it, so that rails fill one by one; input and
//   what an offloaded optimizer copies share the links to the host. Jobs on the same servers share all of that but the
//   links of their GPUs, which are `first_gpu` and those that follow.
//
// Laws (tested): a slower worker, another job, or what shares a link never makes the step shorter; where no two
// transfers meet on a link, the step is the recurrence's; n jobs add at most n - 1 times the communication (with
// servers under priority: the step, for their pieces are then no pipeline). Where exchanges of experts, and
// nothing else that is in the way, run beside DualPipe's other direction, the step is the recurrence's or longer: the
// recurrence hides totals, events what is there at that moment.
// Limits: kernels slowed by collectives, fusion's waits for the coordinator, and the order under priority are those of
// the step alone. Where forward waits for weights, the CPU leads backward as if it had not waited, as in the schedule.
// Slower GPUs lag more behind their CPU then, so a backward pass that waits for its launches can be shorter with them:
// a step by 2e-5 at most in what random cases have found (VGG16 of one image, asynchronous servers, all GPUs 1.1 times
// slower). A server receives a piece when the slowest worker has sent it. A transfer's share of a link does not depend
// on how many connections it has, and latencies are not shared. Rings inside a server take the order of GPUs; on a mesh
// what a GPU sends is spread over its links to its group by their width. The memory of hosts and servers is shared by
// nobody. Of several jobs whose PipeDream's turns do not fit into a step, which makes steps of two lengths, one step is
// measured. Machines of parameter servers are apart from the workers' (co-located: their part of a port is in the
// price). Errors, kUnsupported: ideal overlap (a bound, no schedule), priority together with pull at start, several
// asynchronous jobs, a split model on GPUs of two speeds. kInvalidArgument: a cyclic order of passes, GPUs that the
// servers do not have.
//
// Worked examples (tests: test/unit/events). Two layers of 1 and 2 ms forward, twice that backward, 5 ms of ring for
// each, as in step_test.cpp. Alone: the rings run 7..12 and 12..17, a step takes 17 ms. One GPU 1.5 times as slow: its
// layers are back at 10.5 and 13.5, the rings run 10.5..15.5..20.5: 20.5 ms. Two such jobs on one network port: every
// ring takes 10 ms, 7..17..27. Two stages, 1F1B, four micro-batches, 1 ms forward, 2 backward and half of one for every
// send: 17 ms. Two layers of 1 and 2 ms each on GPUs that belong to a data and a tensor group, the data group's sum of
// 5 ms from 4 on, the tensor group's of 5 ms from 6 on, in the way of the update: 11 ms; where both fill the NVLink
// port of a GPU, data ..12 and tensor ..14.
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
  std::optional<Bandwidth> uplink{};  // of the leaf that all network traffic crosses, one job's too; none: never full
};

struct EventStep {
  Time step{};              // mean over jobs like the first, that is those on its plan; asynchronous workers: the time
                            // in which each does one step on average
  Time slowest{};           // the step of the slowest of them
  std::vector<Time> steps;  // of every job
  Program program;          // its streams are named "job 1, GPUs x 1.3/gpu": process, track
  Run run;
};

/// Errors: kUnsupported and kInvalidArgument as above; kInvalidArgument for no job, over 1,000 of them, offsets below
/// zero, and jobs of which one knows the cluster they share and another does not; kInfeasible for more tasks than can
/// be simulated.
[[nodiscard]] Expected<EventStep> simulate(std::span<const SimulatedJob> jobs, const EventOptions& options = {});

}  // namespace ddlsim::events
