#include "slots.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "clocks.h"
#include "ddlsim/plan/order.h"

namespace ddlsim::step {
namespace {

using answer::Timeline;
using plan::Moment;
using Rows = std::vector<std::size_t>;

/// The rows of one class by the layer at which they become ready, or are needed.
struct Around {
  Rows begin;
  std::vector<Rows> forward;
  std::vector<Rows> backward;
  Rows update;

  explicit Around(std::size_t layers) : forward(layers), backward(layers) {}
  Rows* at(const plan::Point& point) {
    switch (point.at) {
      case Moment::kBegin: return &begin;
      case Moment::kForward: return &forward[point.layer];
      case Moment::kBackward: return &backward[point.layer];
      case Moment::kUpdate: return &update;
      case Moment::kNever: break;
    }
    return nullptr;
  }
};

/// Where the time of one class went; the parts add up to its clock.
struct Spent {
  Time forward;
  Time backward;
  Time launch;
  Time encoding;
  Time exposed;
  Time bubble;
  Time update;
};

class SlotStep {
 public:
  explicit SlotStep(const cost::PricedStep& step) : step_(step), plan_(*step.plan) {
    for (std::size_t c = 0; c < plan_.classes.size(); ++c) {
      const std::size_t layers = plan_.classes[c].chunk.count;
      ready_.emplace_back(layers);
      needed_.emplace_back(layers);
      clocks_.emplace_back(step.launch_interval);
    }
    spent_.resize(plan_.classes.size());
    for (std::size_t r = 0; r < plan_.rows.size(); ++r) {
      const plan::Row& row = plan_.rows[r];
      if (Rows* at = ready_[row.rank_class].at(row.ready)) at->push_back(r);
      if (Rows* at = row.in_the_way || row.lag != 0 ? nullptr : needed_[row.needed_by].at(row.needed)) at->push_back(r);
      done_.emplace_back(row.every_pass ? static_cast<std::size_t>(plan_.micro_batches) : 1);
    }
    resources_ = plan_.groups.size() + 3;
    free_.resize(plan_.classes.size() * resources_);
    free_of_row_.resize(plan_.rows.size());
  }

  Expected<Timeline> run(answer::Detail detail);

 private:
  Time& free_for(std::size_t r);
  void pass(const plan::Slot& slot);
  void run_layer(std::size_t c, const cost::PricedLayer& layer, Time Spent::*part);
  void start(std::size_t c, const Rows& rows, std::int64_t micro_batch);
  void wait(std::size_t c, const Rows& rows, std::int64_t micro_batch);
  void update(std::size_t c);
  [[nodiscard]] Time done(std::size_t r, std::int64_t micro_batch) const {
    return done_[r][plan_.rows[r].every_pass ? static_cast<std::size_t>(micro_batch) : 0];
  }
  [[nodiscard]] Time communication() const;
  [[nodiscard]] Timeline answer(std::size_t slowest, answer::Detail detail) const;

  const cost::PricedStep& step_;
  const plan::StepPlan& plan_;
  std::vector<Around> ready_;
  std::vector<Around> needed_;
  std::vector<Clocks> clocks_;
  std::vector<Spent> spent_;
  std::vector<std::vector<Time>> done_;  // by row, by micro-batch
  std::vector<Time> free_;
  std::vector<Time> free_of_row_;
  std::size_t resources_ = 0;  // of a class: a channel per group, both ways to the host, the host
};

/// When what carries a row is free. Stages send to each other over ways of their own.
Time& SlotStep::free_for(std::size_t r) {
  const plan::Row& row = plan_.rows[r];
  if (row.rank_class != row.needed_by) return free_of_row_[r];
  const std::size_t first = row.rank_class * resources_;
  const std::size_t groups = plan_.groups.size();
  switch (row.kind) {
    case plan::RowKind::kCopy: return free_[first + groups];
    case plan::RowKind::kCopyBack: return free_[first + groups + 1];
    case plan::RowKind::kHost: return free_[first + groups + 2];
    case plan::RowKind::kKernel:
    case plan::RowKind::kServer:
    case plan::RowKind::kCollective: break;
  }
  return free_[first + row.group];
}

void SlotStep::start(std::size_t c, const Rows& rows, std::int64_t micro_batch) {
  Clocks& clocks = clocks_[c];
  for (const std::size_t r : rows) {
    const plan::Row& row = plan_.rows[r];
    const bool once_here = row.with_first() ? micro_batch == 0 : micro_batch + 1 == plan_.micro_batches;
    if (!row.every_pass && !once_here) continue;
    const cost::PricedRow& priced = step_.rows[r];
    clocks.wait_until(clocks.now() + priced.encoding);
    spent_[c].encoding += priced.encoding;
    Time& free = free_for(r);
    Time begin = max(clocks.now(), free);
    if (row.after != plan::kNoRow) begin = max(begin, done(row.after, micro_batch));
    const Time end = begin + max(priced.once * static_cast<double>(row.count) - priced.hidden, Time::zero());
    free = end;
    done_[r][row.every_pass ? static_cast<std::size_t>(micro_batch) : 0] = end;
    if (!row.in_the_way) continue;
    spent_[c].exposed += end - clocks.now();
    clocks.wait_until(end);
  }
}

void SlotStep::wait(std::size_t c, const Rows& rows, std::int64_t micro_batch) {
  Clocks& clocks = clocks_[c];
  for (const std::size_t r : rows) {
    const Time waited = max(done(r, micro_batch) - clocks.now(), Time::zero());
    clocks.wait_until(clocks.now() + waited);
    const bool other_stage = plan_.rows[r].rank_class != c;
    (other_stage ? spent_[c].bubble : spent_[c].exposed) += waited;
  }
}

void SlotStep::run_layer(std::size_t c, const cost::PricedLayer& layer, Time Spent::*part) {
  Clocks& clocks = clocks_[c];
  const Time before = clocks.now();
  const Time took = clocks.run(layer) - before;
  spent_[c].*part += took;
  if (layer.kernels > 0) spent_[c].launch += took - layer.time;
}

void SlotStep::pass(const plan::Slot& slot) {
  const std::size_t c = slot.stage;
  const cost::PricedClass& layers = step_.classes[c];
  const std::size_t count = layers.forward.size();
  if (slot.forward) {
    start(c, ready_[c].begin, slot.micro_batch);
    for (std::size_t i = 0; i < count; ++i) {
      wait(c, needed_[c].forward[i], slot.micro_batch);
      run_layer(c, layers.forward[i], &Spent::forward);
      start(c, ready_[c].forward[i], slot.micro_batch);
    }
    return;
  }
  for (std::size_t i = count; i-- > 0;) {
    wait(c, needed_[c].backward[i], slot.micro_batch);
    run_layer(c, layers.backward[count - 1 - i], &Spent::backward);
    start(c, ready_[c].backward[i], slot.micro_batch);
  }
}

void SlotStep::update(std::size_t c) {
  const std::int64_t last = plan_.micro_batches - 1;
  wait(c, needed_[c].update, last);
  clocks_[c].wait_until(clocks_[c].now() + step_.classes[c].update);
  spent_[c].update += step_.classes[c].update;
  start(c, ready_[c].update, last);
}

/// What rows take by themselves, on the busiest class.
Time SlotStep::communication() const {
  std::vector<Time> of(plan_.classes.size());
  for (std::size_t r = 0; r < plan_.rows.size(); ++r) {
    const plan::Row& row = plan_.rows[r];
    const double times =
        static_cast<double>(row.count) * (row.every_pass ? static_cast<double>(plan_.micro_batches) : 1.0);
    if (row.kind == plan::RowKind::kCollective) of[row.rank_class] += step_.rows[r].once * times;
  }
  return *std::max_element(of.begin(), of.end());
}

Timeline SlotStep::answer(std::size_t slowest, answer::Detail detail) const {
  const Spent& spent = spent_[slowest];
  const cost::PricedClass& layers = step_.classes[slowest];
  const auto passes = static_cast<double>(plan_.micro_batches);
  Timeline line;
  line.forward = spent.forward;
  line.backward = spent.backward;
  line.copying = spent.encoding;
  line.update = spent.update;
  line.waiting = (spent.forward + spent.backward) * step_.wait_for_slowest;
  line.host_link = step_.input * passes;
  answer::Breakdown& parts = line.parts;
  parts.compute = layers.compute * passes;
  parts.memory = layers.memory * passes + spent.update + spent.encoding;
  parts.launch = spent.launch;
  parts.communication_exposed = spent.exposed;
  parts.communication = max(communication(), spent.exposed);
  parts.bubble = spent.bubble;
  parts.other = line.waiting;
  const Time busy = clocks_[slowest].now() + line.waiting;
  parts.input_exposed = max(line.host_link - busy, Time::zero());
  line.step = busy + parts.input_exposed;
  if (detail == answer::Detail::kTime) return line;
  line.critical_path = {{"forward", line.forward},
                        {"backward", line.backward},
                        {"waiting for other stages", spent.bubble},
                        {"communication, exposed", spent.exposed},
                        {"copying gradients", spent.encoding},
                        {"waiting for the slowest GPU", line.waiting},
                        {"weight update", line.update},
                        {"waiting for input", parts.input_exposed}};
  return line;
}

Expected<Timeline> SlotStep::run(answer::Detail detail) {
  const std::size_t stages = plan_.classes.size();
  std::vector<std::vector<plan::Slot>> orders;
  for (std::size_t s = 0; s < stages; ++s) {
    // Without stages a pass is forward and backward at once, whatever the schedule of stages says.
    const auto schedule = stages == 1 ? plan::PipelineSchedule::kOneForwardOneBackward : plan_.schedule;
    orders.push_back(plan::stage_order(schedule, s, stages, plan_.micro_batches));
  }
  const auto order = plan::order_of(orders);
  if (!order) return tl::unexpected<Error>(order.error());
  for (const plan::Slot& slot : *order) pass(slot);
  std::size_t slowest = 0;
  for (std::size_t c = 0; c < stages; ++c) {
    update(c);
    if (clocks_[c].now() > clocks_[slowest].now()) slowest = c;
  }
  return answer(slowest, detail);
}

}  // namespace

Expected<Timeline> schedule_slots(const cost::PricedStep& step, answer::Detail detail) {
  return SlotStep(step).run(detail);
}

}  // namespace ddlsim::step
