// The steps of a plan that folds, as tasks: the work that its schedule recorded. Private to the room.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/answer/timeline.h"
#include "ddlsim/cost/price.h"
#include "event_builder.h"
#include "event_channel.h"
#include "gpu_work.h"
#include "job_links.h"

namespace ddlsim::events {

/// Workers that wait for each other.
class FoldedJob {
 public:
  FoldedJob(EventBuilder& builder, const cost::PricedStep& step, const answer::Timeline& record, bool named)
      : builder_(builder), step_(step), exchange_(step.plan->exchange), record_(record), named_(named) {}

  void set_up(const std::string& name, std::span<const plan::RankClass> kinds, JobLinks* links);
  /// Returns the task that ends the step.
  TaskId step(TaskId begin);

 private:
  using Waits = std::vector<std::vector<TaskId>>;  // by layer

  /// One kind of worker of a job.
  struct Worker {
    double slowness = 1;
    GpuWork gpu;
    StreamId host_link{};
    std::optional<RouteId> input{};  // over links that others share
  };

  struct PlainPass {
    Time time{};
    Time lead{};  // of the CPU, when forward ends
  };

  [[nodiscard]] bool overlapped() const { return exchange_.overlap == plan::Overlap::kBackward; }
  [[nodiscard]] bool prioritised() const { return overlapped() && exchange_.priority && !record_.sent.empty(); }
  [[nodiscard]] bool pulled() const { return overlapped() && exchange_.pull_at_start && !rows().empty(); }

  [[nodiscard]] PlainPass plain_pass(double slowness) const;
  [[nodiscard]] Time lead() const;
  TaskId input(Worker& worker, TaskId begin);
  /// What no stream does.
  TaskId alone(std::string_view name, Time duration, TaskId after);
  void forward(Worker& worker, Issue& issue, const Waits& waits);
  std::vector<TaskId> backward(Worker& worker, Issue& issue);
  [[nodiscard]] TaskId chosen(std::size_t worker, const answer::Timeline::Sent& sent, TaskId ready);
  [[nodiscard]] std::vector<std::vector<TaskId>> send_all(const std::vector<std::vector<TaskId>>& ready);
  [[nodiscard]] std::vector<Waits> pull_all(TaskId begin);
  void step_by_priority(std::vector<TaskId>& ends);
  void step_in_order(std::vector<TaskId>& ends);
  [[nodiscard]] std::string label(std::string_view pass, std::size_t layer) const;
  [[nodiscard]] std::span<const plan::Row> rows() const { return step_.plan->rows; }

  EventBuilder& builder_;
  const cost::PricedStep& step_;
  const plan::Exchange& exchange_;
  const answer::Timeline& record_;
  bool named_;
  std::vector<Worker> workers_;
  std::optional<EventChannel> channel_;
  std::vector<TaskId> begun_;  // by worker, what its backward pass begins after
};

}  // namespace ddlsim::events
