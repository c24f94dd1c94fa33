// Discrete events: the `event` fidelity.
//
// A Program says what happens in which order: tasks in a directed acyclic graph, on streams and links.
//   stream    works on one task at a time: a GPU's compute stream, its communication stream, a CPU core. Among the
//             tasks that are ready it takes the lowest `priority`, of those the one that was ready first. `speed`
//             scales its computations: a straggler has 0.8, a faster GPU of a mixed cluster 1.3
//   task      starts when all tasks it comes after have ended, `earliest` is reached and its stream is free, and holds
//             the stream until it ends
//     compute   takes duration / speed
//     transfer  takes its latency, then moves its bytes over its route at the rate max-min fair sharing gives
//               (events/flow_network.h), which changes when other transfers start and end
//     join      takes no time: a barrier
// A task can only come after tasks that exist, so a graph cannot have a cycle.
//
// Time is counted in whole picoseconds (int64: up to 106 days; beyond is an error). Durations, and the end of every
// transfer, are rounded to the nearest picosecond. Events are in strict total order: time, then the order in which the
// tasks were added. Rates are doubles computed in a fixed order. A run has no state outside itself, so a Program gives
// the same bits on any thread, whatever runs beside it, and with any compiler that follows IEEE 754
// (-ffp-contract=off).
//
// Cost: O(log n) per event for uncontended work; a transfer that starts or ends re-solves only the transfers it shares
// links with, directly or through others. Workers that are alike are described once (Hop::times), so the cost grows
// with the distinct parts. Sources: discrete-event simulation: Fujimoto, Parallel and Distributed Simulation Systems,
// 2000, ch. 2; DAG of computations and fluid flows: Casanova et al., JPDC 74(10), 2014 (SimGrid). Limits: a task holds
// at most one stream; no preemption; memory is not modelled.
//
// Worked example: two GPUs send 1 GB each over one 1 GB/s link, the second after 0.5 s of computation. The first is
// alone until 0.5 s, then each has 0.5 GB/s: the first ends at 1.5 s, the second, with 0.5 GB left and the link to
// itself, at 2 s.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <ratio>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ddlsim/events/flow_network.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::events {

/// Event time.
using Picoseconds = std::chrono::duration<std::int64_t, std::pico>;

[[nodiscard]] constexpr Time to_time(Picoseconds moment) {
  return seconds(static_cast<double>(moment.count()) / 1e12);  // dividing rounds once, 1e-12 would round twice
}

enum class StreamId : std::uint32_t {};
enum class RouteId : std::uint32_t {};
enum class TaskId : std::uint32_t {};

template <typename Id>
[[nodiscard]] constexpr std::uint32_t index_of(Id id) {
  return static_cast<std::uint32_t>(id);
}

struct Stream {
  std::string name{};
  double speed = 1.0;
};

struct Computation {
  std::string_view name{};
  std::optional<StreamId> stream{};  // none: nothing to wait for
  Time duration{};                   // at speed 1
  Time earliest{};
  std::int32_t priority = 0;  // lower goes first
};

struct Transfer {
  std::string_view name{};
  std::optional<StreamId> stream{};
  std::optional<RouteId> route{};  // none: only the latency
  DataSize size{};
  Time latency{};
  Time earliest{};
  std::int32_t priority = 0;
};

/// What happens in which order. Every fault is refused when it is added, naming the task.
class Program {
 public:
  [[nodiscard]] Expected<StreamId> add_stream(Stream stream);
  [[nodiscard]] Expected<LinkId> add_link(Link link);
  /// A link named twice is crossed twice.
  [[nodiscard]] Expected<RouteId> add_route(std::span<const Hop> hops);
  [[nodiscard]] Expected<RouteId> add_route(std::initializer_list<Hop> hops) {
    return add_route(std::span<const Hop>(hops.begin(), hops.size()));
  }

  [[nodiscard]] Expected<TaskId> compute(const Computation& task, std::span<const TaskId> after = {});
  [[nodiscard]] Expected<TaskId> compute(const Computation& task, std::initializer_list<TaskId> after) {
    return compute(task, std::span<const TaskId>(after.begin(), after.size()));
  }
  [[nodiscard]] Expected<TaskId> transfer(const Transfer& task, std::span<const TaskId> after = {});
  [[nodiscard]] Expected<TaskId> transfer(const Transfer& task, std::initializer_list<TaskId> after) {
    return transfer(task, std::span<const TaskId>(after.begin(), after.size()));
  }
  [[nodiscard]] Expected<TaskId> join(std::string_view name, std::span<const TaskId> after);
  [[nodiscard]] Expected<TaskId> join(std::string_view name, std::initializer_list<TaskId> after) {
    return join(name, std::span<const TaskId>(after.begin(), after.size()));
  }

  /// Makes room, so that building a large program does not copy it.
  void reserve(std::size_t tasks, std::size_t dependencies);

  [[nodiscard]] std::size_t tasks() const { return tasks_.size(); }
  [[nodiscard]] std::span<const Stream> streams() const { return streams_; }
  [[nodiscard]] std::span<const Link> links() const { return links_; }
  [[nodiscard]] const std::string& name(TaskId task) const { return names_[tasks_[index_of(task)].name]; }
  [[nodiscard]] std::optional<StreamId> stream(TaskId task) const;
  [[nodiscard]] DataSize size(TaskId task) const { return bytes(tasks_[index_of(task)].bytes); }
  [[nodiscard]] std::span<const Hop> hops(RouteId route) const;
  [[nodiscard]] std::span<const Hop> hops(TaskId task) const;
  [[nodiscard]] std::span<const TaskId> after(TaskId task) const;

 private:
  friend class Engine;
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  struct Task {
    Picoseconds delay{};  // of the computation, or the latency before the bytes
    Picoseconds earliest{};
    double bytes = 0;
    std::uint32_t stream = kNone;
    std::uint32_t route = kNone;
    std::uint32_t name = 0;
    std::uint32_t after = 0;  // where its predecessors end in after_; they begin where those of the task before end
    std::int32_t priority = 0;
  };

  [[nodiscard]] Expected<TaskId> add(Task task, std::string_view name, std::span<const TaskId> after);
  [[nodiscard]] std::uint32_t intern(std::string_view name);

  std::vector<Stream> streams_;
  std::vector<Link> links_;
  std::vector<Hop> hops_;
  std::vector<std::uint32_t> route_ends_;
  std::vector<Task> tasks_;
  std::vector<TaskId> after_;
  std::vector<std::string> names_{std::string{}};
  std::unordered_map<std::string, std::uint32_t> name_index_;
  std::uint32_t last_name_ = 0;
};

struct TaskTimes {
  Picoseconds start{};
  Picoseconds end{};

  friend bool operator==(const TaskTimes&, const TaskTimes&) = default;
};

struct LinkUse {
  DataSize carried{};
  Picoseconds busy{};  // while at least one transfer crossed it

  friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

struct Run {
  Picoseconds makespan{};
  std::vector<TaskTimes> tasks;  // by TaskId
  std::vector<LinkUse> links;    // by LinkId
  std::int64_t events = 0;       // moments taken from the event queue

  [[nodiscard]] const TaskTimes& operator[](TaskId task) const { return tasks[index_of(task)]; }
  friend bool operator==(const Run&, const Run&) = default;
};

/// Fails only when the run would last over 106 days.
[[nodiscard]] Expected<Run> run(const Program& program);

}  // namespace ddlsim::events
