// A GPU's stream of kernels and the CPU that issues them. Private to the room.
//
// A layer of c kernels of t in all, which the CPU has issued at `issued`, ends at max(done + t, issued + t/c): a task
// of t - t/c on the GPU's stream, and one of t/c that waits for the CPU stream's task as well.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ddlsim/answer/timeline.h"
#include "event_builder.h"

namespace ddlsim::events {

/// How far the CPU has issued kernels.
struct Issue {
  TaskId at{};
  Time issued{};
  Time lead{};  // what it had issued before it started
  Rounder rounder{};
};

class GpuWork {
 public:
  GpuWork(EventBuilder& builder, const std::string& process, Time launch_interval)
      : builder_(builder),
        launch_interval_(launch_interval),
        cpu_(builder.stream(process + "/cpu")),
        gpu_(builder.stream(process + "/gpu")) {}

  /// The last task of the GPU.
  [[nodiscard]] TaskId at() const { return at_; }
  /// What follows comes after `task`.
  void go_on_after(TaskId task) { at_ = task; }
  void wait_for(std::span<const TaskId> tasks);
  /// One piece of work after `after`, by itself.
  TaskId run(std::string_view name, Time duration, std::span<const TaskId> after);
  TaskId run(std::string_view name, Time duration) { return run(name, duration, std::span(&at_, 1)); }
  /// A layer, all of whose times are `slowness` times as long, after `waits` too.
  void kernels(Issue& issue, const answer::Timeline::Kernels& layer, double slowness, std::string_view name,
               std::span<const TaskId> waits);

 private:
  EventBuilder& builder_;
  Time launch_interval_;
  StreamId cpu_{};
  StreamId gpu_{};
  TaskId at_{};
  Rounder rounder_{};
};

}  // namespace ddlsim::events
