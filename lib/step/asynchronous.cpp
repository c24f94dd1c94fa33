#include "asynchronous.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ddlsim/step/input_wait.h"
#include "links.h"
#include "rounding.h"
#include "slot_programs.h"

namespace ddlsim::step {
namespace {

using answer::Timeline;
using plan::SlotKind;

/// What one micro-batch takes of a class.
struct Load {
  Run run;    // forward and backward
  Time send;  // to the class behind it, or back: the longer
  Time once;  // a step: rows in the way
};

class Endless {
 public:
  Endless(const cost::PricedStep& step, const plan::Pipeline& pipeline)
      : step_(step), plan_(*step.plan), programs_(step, pipeline), loads_(plan_.classes.size()) {
    for (std::size_t c = 0; c < loads_.size(); ++c) {
      for (const SlotKind kind : {SlotKind::kForward, SlotKind::kBackward}) add(c, kind);
    }
    add_channels();
  }

  Timeline run(answer::Detail detail) const;

 private:
  void add(std::size_t c, SlotKind kind);
  void add_channels();
  [[nodiscard]] bool updates_every_pass() const { return plan_.schedule == plan::PipelineSchedule::kPipeDream; }
  /// The GPU's own time for one micro-batch.
  [[nodiscard]] Time own(std::size_t c) const {
    const Time update = updates_every_pass() ? step_.classes[c].update : Time::zero();
    return max(loads_[c].run.work + update, loads_[c].run.issue);
  }
  [[nodiscard]] Time period() const;

  const cost::PricedStep& step_;
  const plan::StepPlan& plan_;
  SlotPrograms programs_;
  std::vector<Load> loads_;
  Time busiest_;  // channel, over a step
};

void Endless::add(std::size_t c, SlotKind kind) {
  Run& sum = loads_[c].run;
  // The last pass of a step has what leaves once; it is counted by channels.
  for (const Segment& segment : programs_.of(c, 0, kind, {})) {
    const Run& run = segment.run;
    sum.issue += run.issue;
    sum.work += run.work;
    sum.kernels += run.kernels;
    sum.encoding += run.encoding;
    sum.in_the_way += run.in_the_way;
    for (const std::uint32_t r : programs_.starts(segment)) {
      const Time encoding = step_.rows[r].encoding;
      const plan::Row& row = plan_.rows[r];
      const Time taken = row.in_the_way ? programs_.sending(r) : Time::zero();
      sum.work += encoding + taken;
      sum.encoding += encoding;
      sum.in_the_way += taken;
    }
  }
}

void Endless::add_channels() {
  std::vector<Time> channels(programs_.resources());
  for (std::size_t r = 0; r < plan_.rows.size(); ++r) {
    const plan::Row& row = plan_.rows[r];
    const std::size_t at = programs_.resource(r);
    const Time time = programs_.sending(r);
    const bool own = row.rank_class == row.needed_by;
    if (row.in_the_way && !row.every_pass) loads_[row.rank_class].once += time + step_.rows[r].encoding;
    if (row.in_the_way) continue;
    const double times = row.every_pass ? static_cast<double>(plan_.micro_batches) : 1.0;
    busiest_ = max(busiest_, channels[at] += time * times);
    if (own) continue;
    Load& first = loads_[std::min(row.rank_class, row.needed_by)];
    first.send = max(first.send, programs_.time_of(r));
  }
  // Channels share links.
  busiest_ = max(busiest_, busiest_link(moved_of(step_, programs_, static_cast<double>(plan_.micro_batches))));
}

/// From one micro-batch to the next: the slowest rank; and 1F1B's own circle, in which neighbours that wait
/// for each other's sends share a turn each: over any ranks s to t, what all of them and the sends there and back take
/// is spread over t - s + 1 micro-batches.
Time Endless::period() const {
  Time longest;
  for (std::size_t s = 0; s < loads_.size(); ++s) {
    Time circle;
    for (std::size_t t = s; t < loads_.size(); ++t) {
      circle += own(t);
      longest = max(longest, circle / static_cast<double>(t - s + 1));
      circle += loads_[t].send * 2.0;
    }
  }
  return longest;
}

Timeline Endless::run(answer::Detail detail) const {
  const auto passes = static_cast<double>(plan_.micro_batches);
  const double updates = updates_every_pass() ? passes : 1.0;
  std::size_t slowest = 0;
  for (std::size_t c = 0; c < loads_.size(); ++c) {
    if (own(c) > own(slowest)) slowest = c;
  }
  const auto busy_of = [&](std::size_t c) {
    const Time extra = updates_every_pass() ? Time::zero() : step_.classes[c].update;
    return own(c) * passes + extra + loads_[c].once;
  };
  Time step = period() * passes;
  for (std::size_t c = 0; c < loads_.size(); ++c) step = max(step, busy_of(c));
  const Load& load = loads_[slowest];
  const cost::PricedClass& layers = step_.classes[slowest];
  const Time busy = busy_of(slowest);
  const Time all = max(step, busiest_);
  Timeline line;
  line.copying = load.run.encoding * passes;
  line.update = layers.update * updates;
  line.waiting = load.run.kernels * (std::sqrt(passes) * step_.wait_for_slowest);
  line.host_link = step_.input * passes;
  answer::Breakdown& parts = line.parts;
  const Time in_the_way = load.run.in_the_way * passes + load.once;
  line.decoding = decoding_of(step_, passes);
  parts.compute = layers.compute * passes + line.decoding;
  parts.memory = layers.memory * passes + line.update + line.copying;
  parts.launch = busy - (parts.compute - line.decoding) - parts.memory - in_the_way;
  parts.communication_exposed = in_the_way + (all - step);
  parts.bubble = step - busy;
  parts.other = line.waiting;
  line.step = with_input(step_, all + line.waiting + line.decoding, passes, line);
  drop_rounding(parts, line.step);
  line.forward = Time::zero();
  for (const cost::PricedLayer& layer : layers.forward) line.forward += layer.time * passes;
  line.backward = busy - in_the_way - line.copying - line.update - line.forward;
  if (detail == answer::Detail::kTime) return line;
  parts.communication = max(busiest_communication(step_, plan_.micro_batches), parts.communication_exposed);
  line.critical_path = {{"decoding on the GPU", line.decoding},
                        {"forward", line.forward},
                        {"backward", line.backward},
                        {"waiting for other stages", parts.bubble},
                        {"communication, exposed", parts.communication_exposed},
                        {"copying gradients", line.copying},
                        {"waiting for the slowest GPU", line.waiting},
                        {"weight update", line.update},
                        {"waiting for input", parts.input_exposed}};
  return line;
}

}  // namespace

Timeline schedule_asynchronous(const cost::PricedStep& step, const plan::Pipeline& pipeline, answer::Detail detail) {
  return Endless(step, pipeline).run(detail);
}

}  // namespace ddlsim::step
