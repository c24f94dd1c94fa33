// The steps of a plan that does not fold, as tasks. Private to the room.
//
// Every class is an actor: it takes its slots in the order of plan/order.h, and in a slot its layers one by one. A row
// is a task on a stream of its class's group (or of its copies, or a way of its own from stage to stage), in the order
// in which the class asks for it; what needs it comes after it, and with `in_the_way` all that follows in its class.
// Where ranks do not end a step together (plan::ends_together) each goes on to the next by itself. A pipeline that
// never empties takes its passes in one order over all steps; gradients of a pass are waited for `lag` updates later.
// A pair of DualPipe is two chains of kernels on one GPU: what is in the way of one pass runs beside the other's
// kernels, and their exchanges follow each other in turns. So nobody has a clock: what the recurrence of
// step/schedule.h computes from the plan, here follows from the tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/answer/timeline.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/plan/order.h"
#include "event_builder.h"
#include "gpu_work.h"
#include "job_links.h"

namespace ddlsim::events {

/// The slots of all classes in one order, of one step; where the pipeline never empties of so many steps, and what is
/// on its way when they end. Errors: kInvalidArgument for a cyclic order of passes.
[[nodiscard]] Expected<std::vector<plan::Slot>> slots_of(const plan::StepPlan& plan, std::size_t steps);

class SplitJob {
 public:
  /// `links` may be null: then nothing is shared.
  SplitJob(EventBuilder& builder, const cost::PricedStep& step, const answer::Timeline& record,
           std::vector<plan::Slot> slots, JobLinks* links, bool named);

  void set_up(const std::string& name);
  /// Returns the task that ends the step.
  TaskId step(TaskId begin);

 private:
  using Rows = std::vector<std::size_t>;

  /// The rows of a class by the point at which they become ready, or are needed.
  struct Around {
    Rows begin;
    std::vector<Rows> forward;
    std::vector<Rows> backward;
    Rows update;

    explicit Around(std::size_t layers) : forward(layers), backward(layers) {}
    Rows* at(const plan::Point& point);
  };
  struct Actor {
    std::string process;
    GpuWork gpu;
    Issue issue{};
    Around ready;
    Around needed;
    Rows lagged{};               // gradients that a later update waits for
    std::vector<TaskId> ends{};  // of its steps, where the pipeline never empties
  };
  /// First-in-first-out: a group, a direction of copies, a way between stages.
  struct Resource {
    StreamId stream{};
    std::optional<TaskId> free{};
    Rounder rounder{};
  };
  /// How a row moves; worked out once.
  struct Move {
    Resource* by = nullptr;
    std::optional<RouteId> route{};
    DataSize size{};
    Time latency{};                             // of transfers; else all of its time
    Time in_flight{};                           // after it has left
    std::vector<std::optional<TaskId>> done{};  // by micro-batch, or by step
  };
  /// A pass under way.
  struct Pass {
    const plan::Slot& slot;
    bool held;             // what leaves for other stages waits for the pair's end
    std::size_t first;     // of its layers
    std::size_t count;     // likewise
    std::size_t done = 0;  // of `count`, in the pass's order
    TaskId kernels_end{};  // before what was in the way
  };

  void set_up_row(std::size_t r);
  Resource& resource(const plan::Row& row);
  void pass(const plan::Slot& slot);
  void pair(const plan::Slot& forward, const plan::Slot& backward);
  [[nodiscard]] Pass begin(const plan::Slot& slot, bool held);
  /// Up to the next exchange between experts, or to the end: then false.
  bool go_on(Pass& pass);
  /// Whether an exchange was among them that kernels of their pass wait for.
  bool start(Actor& actor, const Rows& rows, const plan::Slot& slot, bool held);
  void start(Actor& actor, std::size_t r, std::int64_t micro_batch);
  [[nodiscard]] std::vector<TaskId> inputs_of(const plan::Slot& slot);
  [[nodiscard]] std::vector<TaskId> waits(const Rows& rows, std::int64_t micro_batch);
  TaskId input(TaskId begin);
  /// What no stream does; nothing where it takes no time.
  TaskId alone(std::string_view name, Time duration, TaskId after);
  /// After a step's, or with PipeDream any, last pass.
  TaskId update(std::size_t c, std::int64_t micro_batch);
  void lay_slots();
  /// Up to the end of one more step of every class.
  void lay_endless();
  [[nodiscard]] std::optional<TaskId>& done(std::size_t r, std::int64_t micro_batch);
  TaskId waiting(TaskId after);
  TaskId by_itself(TaskId updated);
  [[nodiscard]] std::string pass_name(std::string_view pass, const workload::Layer& layer,
                                      std::int64_t micro_batch) const;
  [[nodiscard]] std::string row_name(const plan::Row& row, std::int64_t micro_batch) const;
  [[nodiscard]] std::string numbered(std::string name, std::int64_t micro_batch) const;

  EventBuilder& builder_;
  const cost::PricedStep& step_;
  const plan::StepPlan& plan_;
  plan::Pipeline pipeline_;
  const answer::Timeline& record_;
  std::vector<plan::Slot> slots_;
  std::vector<std::pair<std::size_t, std::int64_t>> held_;  // outputs of a pair: rows and their micro-batches
  JobLinks* links_;
  bool named_;
  bool endless_;
  std::int64_t steps_ = 0;     // begun
  std::size_t next_slot_ = 0;  // where the pipeline never empties
  std::vector<Actor> actors_;
  std::map<std::string, Resource> resources_;  // by the name of the stream
  std::vector<Move> moves_;                    // by row
  Resource input_;
  std::optional<RouteId> input_route_;
};

}  // namespace ddlsim::events
