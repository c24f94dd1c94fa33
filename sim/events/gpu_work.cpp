#include "gpu_work.h"

#include <vector>

namespace ddlsim::events {

void GpuWork::wait_for(std::span<const TaskId> tasks) {
  if (tasks.empty()) return;
  std::vector<TaskId> after{at_};
  after.insert(after.end(), tasks.begin(), tasks.end());
  at_ = builder_.join("ready", after);
}

TaskId GpuWork::run(std::string_view name, Time duration, std::span<const TaskId> after) {
  return at_ = builder_.compute({.name = name, .stream = gpu_, .duration = rounder_.next(duration)}, after);
}

void GpuWork::kernels(Issue& issue, const answer::Timeline::Kernels& layer, double slowness, std::string_view name,
                      std::span<const TaskId> waits) {
  std::vector<TaskId> after{at_};
  after.insert(after.end(), waits.begin(), waits.end());
  if (layer.count == 0) {
    at_ = builder_.join("ready", after);
    return;
  }
  const auto count = static_cast<double>(layer.count);
  issue.issued += launch_interval_ * count;
  const Time issuing = issue.rounder.up_to(max(issue.issued - issue.lead, Time::zero()));
  if (issuing > Time::zero()) {
    issue.at = builder_.compute({.name = "launch", .stream = cpu_, .duration = issuing}, std::span(&issue.at, 1));
  }
  const Time last = layer.duration * slowness / count;
  if (layer.count > 1 || layer.slowed > Time::zero()) {
    run(name, last * (count - 1.0) + layer.slowed, after);
    after.assign(1, at_);
  }
  after.push_back(issue.at);
  run(name, last, after);
}

}  // namespace ddlsim::events
