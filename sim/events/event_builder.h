// Building a Program of many parts: the first fault is kept, and what follows it does no harm. Private to the room.
#pragma once

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/events/engine.h"

namespace ddlsim::events {

/// Rounds durations that follow each other so that their sums, not each of them, are nearest to whole picoseconds.
class Rounder {
 public:
  Time next(Time duration) { return up_to(sum_ + duration); }
  /// The duration that ends `total` after the start.
  Time up_to(Time total) {
    sum_ = total;
    const double count = std::round(total.in(seconds)*1e12);
    return seconds((count - std::exchange(count_, count)) / 1e12);
  }

 private:
  Time sum_;
  double count_ = 0;
};

class EventBuilder {
 public:
  StreamId stream(std::string name) { return or_fault(program_.add_stream({std::move(name)})); }
  LinkId link(std::string name, Bandwidth capacity) { return or_fault(program_.add_link({std::move(name), capacity})); }
  RouteId route(std::span<const Hop> hops) { return or_fault(program_.add_route(hops)); }
  TaskId compute(const Computation& task, std::span<const TaskId> after) {
    return or_fault(program_.compute(task, after));
  }
  TaskId transfer(const Transfer& task, std::span<const TaskId> after) {
    return or_fault(program_.transfer(task, after));
  }
  /// The one task to wait for instead of `tasks`, of which there is at least one.
  TaskId join(std::string_view name, std::span<const TaskId> tasks) {
    return tasks.size() == 1 ? tasks.front() : or_fault(program_.join(name, tasks));
  }

  [[nodiscard]] Expected<Program> take() {
    if (fault_) return tl::unexpected<Error>(*fault_);
    return std::move(program_);
  }

 private:
  template <typename Id>
  Id or_fault(Expected<Id> id) {
    if (id) return *id;
    if (!fault_) fault_ = std::move(id.error());
    return Id{};
  }

  Program program_;
  std::optional<Error> fault_;
};

}  // namespace ddlsim::events
