#include "ddlsim/events/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "event_queue.h"
#include "sharing.h"

namespace ddlsim::events {
namespace {

/// The end of a transfer whose rate is so low that it would not end in time; a later rate may.
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct FlowState {
  double left = 0;  // bytes at `since`
  double rate = 0;  // bytes per second
  std::int64_t since = 0;
  std::uint32_t task = 0;
};

std::int64_t finish_time(const FlowState& flow) {
  if (!(flow.left > 0.0)) return flow.since;
  const double wait = flow.left * 1e12 / flow.rate;
  // Below 2^63 with room for rounding.
  if (!(wait < 9.2e18) || wait > 9.2e18 - static_cast<double>(flow.since)) return kNever;
  return flow.since + std::llround(wait);
}

}  // namespace

/// One run. Indices instead of ids, counts instead of Picoseconds.
class Engine {
 public:
  explicit Engine(const Program& program) : program_(program), sharing_(program.links_) {
    const std::size_t tasks = program.tasks();
    run_.tasks.assign(tasks, {Picoseconds(-1), Picoseconds(-1)});
    run_.links.resize(program.links().size());
    busy_since_.resize(program.links().size());
    streams_.resize(program.streams().size());
    flows_.resize(1);
    lay_out();
  }

  Expected<Run> operator()() {
    for (std::uint32_t task = 0; task < program_.tasks(); ++task) {
      if (program_.after(TaskId(task)).empty()) ready(task);
    }
    settle();
    share();
    while (const Event* next = events_.next()) {
      now_ = next->time;
      if (now_ == kNever || failed_ != kNone) return too_long(failed_ != kNone ? failed_ : next->task);
      do {
        handle(events_.take());
        settle();
        next = events_.next();
      } while (next != nullptr && next->time == now_);
      share();
    }
    if (failed_ != kNone) return too_long(failed_);
    count_bytes();
    run_.makespan = Picoseconds(now_);
    return std::move(run_);
  }

 private:
  static constexpr std::uint32_t kNone = Program::kNone;

  struct StreamState {
    bool busy = false;
    std::uint32_t first = kNone;  // of those that wait, in the order they will be served
    std::uint32_t last = kNone;
  };

  /// What the run needs of a task, side by side: a task that ends reads one cache line of each that comes after it.
  struct alignas(64) TaskState {
    std::int64_t delay = 0;
    std::int64_t earliest = 0;
    double bytes = 0;
    std::uint32_t stream = kNone;
    std::uint32_t route = kNone;
    std::int32_t priority = 0;
    std::uint32_t waiting_for = 0;            // predecessors that have not ended
    std::uint32_t behind = kNone;             // the next that waits for the same stream
    std::uint32_t successor = kNone;          // the first of those that come after it; the others are in successors_,
    std::uint32_t more_successors_begin = 0;  // from here
    std::uint32_t more_successors_end = 0;
  };

  void lay_out() {
    const auto tasks = static_cast<std::uint32_t>(program_.tasks());
    state_.resize(tasks);
    for (const TaskId before : program_.after_) ++state_[index_of(before)].more_successors_end;
    std::uint32_t places = 0;
    for (TaskState& state : state_) {
      const std::uint32_t count = state.more_successors_end;
      state.more_successors_begin = state.more_successors_end = places;
      if (count > 1) places += count - 1;
    }
    successors_.resize(places);
    for (std::uint32_t task = 0; task < tasks; ++task) {
      const Program::Task& what = program_.tasks_[task];
      TaskState& state = state_[task];
      state.delay = what.delay.count();
      state.earliest = what.earliest.count();
      state.bytes = what.bytes;
      state.stream = what.stream;
      state.route = what.route;
      state.priority = what.priority;
      const auto after = program_.after(TaskId(task));
      state.waiting_for = static_cast<std::uint32_t>(after.size());
      for (const TaskId before : after) {
        TaskState& earlier = state_[index_of(before)];
        if (earlier.successor == kNone) {
          earlier.successor = task;
        } else {
          successors_[earlier.more_successors_end++] = task;
        }
      }
    }
  }

  void handle(const Event& event) {
    ++run_.events;
    if (event.slot != 0) {
      end_flow(event.slot);
    } else if (run_.tasks[event.task].start.count() < 0) {
      enqueue(event.task);
    } else {
      delay_over(event.task);
    }
  }

  /// Everything `task` comes after has ended.
  void ready(std::uint32_t task) {
    const std::int64_t earliest = state_[task].earliest;
    if (earliest > now_) {
      events_.add({earliest, task, 0});
    } else {
      enqueue(task);
    }
  }

  void enqueue(std::uint32_t task) {
    const std::uint32_t stream = state_[task].stream;
    if (stream == kNone || !streams_[stream].busy) return start(task);
    StreamState& queue = streams_[stream];
    const std::int32_t priority = state_[task].priority;
    if (queue.first == kNone) {
      queue.first = queue.last = task;
    } else if (state_[queue.last].priority <= priority) {
      state_[queue.last].behind = task;
      queue.last = task;
    } else {
      std::uint32_t* place = &queue.first;
      while (state_[*place].priority <= priority) place = &state_[*place].behind;
      state_[task].behind = *place;
      *place = task;
    }
  }

  void start(std::uint32_t task) {
    const TaskState& state = state_[task];
    if (state.stream != kNone) streams_[state.stream].busy = true;
    run_.tasks[task].start = Picoseconds(now_);
    // By the time it ends, what comes next is in the cache.
    if (state.successor != kNone) __builtin_prefetch(&state_[state.successor], 1);
    if (state.delay == 0) return delay_over(task);
    std::int64_t end = 0;
    if (__builtin_add_overflow(now_, state.delay, &end) || end == kNever) {
      failed_ = task;
      end = now_;
    }
    events_.add({end, task, 0});
  }

  void delay_over(std::uint32_t task) {
    const TaskState& state = state_[task];
    if (state.bytes > 0.0 && state.route != kNone && !hops(state).empty()) {
      start_flow(task);
    } else {
      ended_.push_back(task);
    }
  }

  [[nodiscard]] std::span<const Hop> hops(const TaskState& state) const { return program_.hops(RouteId(state.route)); }

  void start_flow(std::uint32_t task) {
    const auto crossed = hops(state_[task]);
    std::uint32_t slot = 0;
    if (free_slots_.empty()) {
      slot = static_cast<std::uint32_t>(flows_.size());
      flows_.emplace_back();
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
    }
    flows_[slot] = {state_[task].bytes, 0, now_, task};
    for (const Hop& hop : crossed) {
      if (!sharing_.busy(index_of(hop.link))) busy_since_[index_of(hop.link)] = now_;
    }
    sharing_.start(slot, crossed);
  }

  void end_flow(std::uint32_t slot) {
    const std::uint32_t task = flows_[slot].task;
    sharing_.stop(slot);
    for (const Hop& hop : hops(state_[task])) {
      const std::uint32_t link = index_of(hop.link);
      if (!sharing_.busy(link)) run_.links[link].busy += Picoseconds(now_ - busy_since_[link]);
    }
    free_slots_.push_back(slot);
    ended_.push_back(task);
  }

  /// Ends every task that is over, and those that this lets start and end at the same moment.
  void settle() {
    for (std::size_t i = 0; i < ended_.size(); ++i) end(ended_[i]);
    ended_.clear();
  }

  void end(std::uint32_t task) {
    run_.tasks[task].end = Picoseconds(now_);
    const TaskState& state = state_[task];
    if (state.stream != kNone) {
      StreamState& queue = streams_[state.stream];
      queue.busy = false;
      if (queue.first != kNone) {
        const std::uint32_t next = queue.first;
        queue.first = state_[next].behind;
        start(next);
      }
    }
    if (state.successor != kNone) ended_before(state.successor);
    for (std::uint32_t i = state.more_successors_begin; i < state.more_successors_end; ++i) {
      ended_before(successors_[i]);
    }
  }

  void ended_before(std::uint32_t task) {
    if (--state_[task].waiting_for == 0) ready(task);
  }

  /// Lets the flows of this moment share the links, and moves the ends of those whose rate changed.
  void share() {
    if (!sharing_.stale()) return;
    for (const auto& [slot, rate] : sharing_.resolve()) {
      FlowState& flow = flows_[slot];
      const bool fresh = flow.rate == 0;
      flow.left -= flow.rate * (static_cast<double>(now_ - flow.since) / 1e12);
      flow.rate = rate;
      flow.since = now_;
      const std::int64_t finish = finish_time(flow);
      if (fresh) {
        events_.add({finish, flow.task, slot});
      } else {
        events_.move(slot, finish);
      }
    }
  }

  void count_bytes() {
    for (std::uint32_t task = 0; task < program_.tasks(); ++task) {
      const DataSize size = program_.size(TaskId(task));
      for (const Hop& hop : program_.hops(TaskId(task))) {
        run_.links[index_of(hop.link)].carried += size * hop.times;
      }
    }
  }

  [[nodiscard]] tl::unexpected<Error> too_long(std::uint32_t task) const {
    return fail(ErrorCode::kInfeasible,
                fmt::format("task '{}' (#{}) would end after more than 106 days", program_.name(TaskId(task)), task),
                {}, {"event time counts picoseconds in 64 bits"});
  }

  const Program& program_;
  Run run_;
  EventQueue events_;
  Sharing sharing_;
  std::int64_t now_ = 0;
  std::uint32_t failed_ = kNone;  // the task whose end does not fit
  std::vector<StreamState> streams_;
  std::vector<TaskState> state_;
  std::vector<std::uint32_t> successors_;  // after the first
  std::vector<FlowState> flows_;           // by slot
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::int64_t> busy_since_;  // by link
  std::vector<std::uint32_t> ended_;
};

Expected<Run> run(const Program& program) { return Engine(program)(); }

}  // namespace ddlsim::events
