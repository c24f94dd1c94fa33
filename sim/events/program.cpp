#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ddlsim/events/engine.h"

namespace ddlsim::events {
namespace {

/// Below 2^63: the largest double that converts.
constexpr double kLongest = 9.2e18;

/// To the nearest picosecond, or nothing when it is negative, not a number or too long.
std::optional<Picoseconds> to_picoseconds(Time time) {
  const double count = time.in(seconds)*1e12;
  if (!(count >= 0.0) || count > kLongest) return std::nullopt;
  return Picoseconds(std::llround(count));
}

tl::unexpected<Error> not_a_time(const std::string& task, std::string_view what, Time value) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {} of {} s", task, what, value.in(seconds)), {},
              {"valid: 0 s to 9.2e6 s (106 days)"});
}

}  // namespace

Expected<StreamId> Program::add_stream(Stream stream) {
  if (!(stream.speed > 0.0) || !std::isfinite(stream.speed)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("stream '{}': speed {}", stream.name, stream.speed), {},
                {"valid: positive and finite; 1 is nominal"});
  }
  streams_.push_back(std::move(stream));
  return StreamId(static_cast<std::uint32_t>(streams_.size() - 1));
}

Expected<LinkId> Program::add_link(Link link) {
  const double capacity = link.capacity.in(bytes_per_second);
  if (!(capacity > 0.0) || !std::isfinite(capacity)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("link '{}': capacity {} B/s", link.name, capacity), {},
                {"valid: positive and finite"});
  }
  links_.push_back(std::move(link));
  return LinkId(static_cast<std::uint32_t>(links_.size() - 1));
}

Expected<RouteId> Program::add_route(std::span<const Hop> hops) {
  const std::size_t first = hops_.size();
  for (const Hop& hop : hops) {
    std::string fault;
    if (index_of(hop.link) >= links_.size()) {
      fault = fmt::format("route #{}: link #{} of {}", route_ends_.size(), index_of(hop.link), links_.size());
    } else if (!(hop.times > 0) || !std::isfinite(hop.times)) {
      fault = fmt::format("route #{}: crosses link '{}' {} times", route_ends_.size(), links_[index_of(hop.link)].name,
                          hop.times);
    } else {
      const auto begin = hops_.begin() + static_cast<std::ptrdiff_t>(first);
      const auto same = std::find_if(begin, hops_.end(), [&](const Hop& other) { return other.link == hop.link; });
      if (same == hops_.end()) {
        hops_.push_back(hop);
      } else {
        same->times += hop.times;
      }
    }
    if (!fault.empty()) {
      hops_.resize(first);
      return fail(ErrorCode::kInvalidArgument, std::move(fault));
    }
  }
  route_ends_.push_back(static_cast<std::uint32_t>(hops_.size()));
  return RouteId(static_cast<std::uint32_t>(route_ends_.size() - 1));
}

Expected<TaskId> Program::compute(const Computation& task, std::span<const TaskId> after) {
  const auto who = [&] { return fmt::format("task '{}' (#{})", task.name, tasks_.size()); };
  Time duration = task.duration;
  if (task.stream) {
    if (index_of(*task.stream) >= streams_.size()) {
      return fail(ErrorCode::kNotFound,
                  fmt::format("{}: stream #{} of {}", who(), index_of(*task.stream), streams_.size()));
    }
    duration = duration / streams_[index_of(*task.stream)].speed;
  }
  const auto delay = to_picoseconds(duration);
  if (!delay) return not_a_time(who(), "a duration", duration);
  const auto earliest = to_picoseconds(task.earliest);
  if (!earliest) return not_a_time(who(), "an earliest start", task.earliest);
  Task added{.delay = *delay, .earliest = *earliest, .priority = task.priority};
  if (task.stream) added.stream = index_of(*task.stream);
  return add(added, task.name, after);
}

Expected<TaskId> Program::transfer(const Transfer& task, std::span<const TaskId> after) {
  const auto who = [&] { return fmt::format("task '{}' (#{})", task.name, tasks_.size()); };
  if (task.stream && index_of(*task.stream) >= streams_.size()) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{}: stream #{} of {}", who(), index_of(*task.stream), streams_.size()));
  }
  if (task.route && index_of(*task.route) >= route_ends_.size()) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{}: route #{} of {}", who(), index_of(*task.route), route_ends_.size()));
  }
  const double size = task.size.in(bytes);
  if (!(size >= 0.0) || !std::isfinite(size)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: a size of {} bytes", who(), size), {},
                {"valid: not negative and finite"});
  }
  const auto delay = to_picoseconds(task.latency);
  if (!delay) return not_a_time(who(), "a latency", task.latency);
  const auto earliest = to_picoseconds(task.earliest);
  if (!earliest) return not_a_time(who(), "an earliest start", task.earliest);
  Task added{.delay = *delay, .earliest = *earliest, .bytes = size, .priority = task.priority};
  if (task.stream) added.stream = index_of(*task.stream);
  if (task.route) added.route = index_of(*task.route);
  return add(added, task.name, after);
}

Expected<TaskId> Program::join(std::string_view name, std::span<const TaskId> after) { return add({}, name, after); }

Expected<TaskId> Program::add(Task task, std::string_view name, std::span<const TaskId> after) {
  for (const TaskId predecessor : after) {
    if (index_of(predecessor) < tasks_.size()) continue;
    return fail(ErrorCode::kNotFound,
                fmt::format("task '{}' (#{}) comes after task #{}, which is not there yet", name, tasks_.size(),
                            index_of(predecessor)),
                {}, {"a task comes after tasks that were added before it, so that no cycle can arise"});
  }
  if (tasks_.size() >= kNone || after_.size() + after.size() >= kNone) {
    return fail(ErrorCode::kInfeasible, fmt::format("task '{}': more than 2^32 tasks or dependencies", name));
  }
  after_.insert(after_.end(), after.begin(), after.end());
  task.after = static_cast<std::uint32_t>(after_.size());
  task.name = intern(name);
  tasks_.push_back(task);
  return TaskId(static_cast<std::uint32_t>(tasks_.size() - 1));
}

std::uint32_t Program::intern(std::string_view name) {
  // Tasks of one kind tend to be added together.
  if (names_[last_name_] == name) return last_name_;
  if (name.empty()) return 0;
  const auto [place, fresh] = name_index_.try_emplace(std::string(name), static_cast<std::uint32_t>(names_.size()));
  if (fresh) names_.push_back(place->first);
  return last_name_ = place->second;
}

void Program::reserve(std::size_t tasks, std::size_t dependencies) {
  tasks_.reserve(tasks);
  after_.reserve(dependencies);
}

std::optional<StreamId> Program::stream(TaskId task) const {
  const std::uint32_t index = tasks_[index_of(task)].stream;
  if (index == kNone) return std::nullopt;
  return StreamId(index);
}

std::span<const Hop> Program::hops(RouteId route) const {
  const std::uint32_t index = index_of(route);
  const std::uint32_t begin = index == 0 ? 0 : route_ends_[index - 1];
  return std::span(hops_).subspan(begin, route_ends_[index] - begin);
}

std::span<const Hop> Program::hops(TaskId task) const {
  const std::uint32_t route = tasks_[index_of(task)].route;
  if (route == kNone) return {};
  return hops(RouteId(route));
}

std::span<const TaskId> Program::after(TaskId task) const {
  const std::uint32_t index = index_of(task);
  const std::uint32_t begin = index == 0 ? 0 : tasks_[index - 1].after;
  return std::span(after_).subspan(begin, tasks_[index].after - begin);
}

}  // namespace ddlsim::events
