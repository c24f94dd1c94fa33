#include "slots.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "asynchronous.h"
#include "channel.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/step/input_wait.h"
#include "links.h"
#include "rounding.h"
#include "slot_programs.h"
#include "slot_state.h"

namespace ddlsim::step {
namespace {

using answer::Timeline;
using plan::SlotKind;

/// Of sums taken in another order than the schedule takes them.
constexpr double kRounding = 1 - 1e-9;

constexpr const char* kWaiting = "waiting for other stages";
constexpr const char* kExposed = "communication, exposed";

class SlotStep {
 public:
  SlotStep(const cost::PricedStep& step, const plan::Pipeline& pipeline)
      : step_(step),
        plan_(*step.plan),
        pipeline_(pipeline),
        programs_(step, pipeline),
        state_(step, pipeline, programs_) {}

  Expected<Timeline> run(answer::Detail detail, Time enough);

 private:
  void pass(const plan::Slot& slot, bool held);
  void pair(const plan::Slot& forward, const plan::Slot& backward);
  void wait_for_others(const plan::Slot& slot);
  std::size_t begin_by_itself(const plan::Slot& slot);
  [[nodiscard]] Time lead_of(const plan::Slot& slot, std::size_t first) const;
  void run_kernels(RankClocks& clocks, const Run& run, bool forward);
  void start(RankClocks& clocks, std::uint32_t r, std::int64_t micro_batch);
  void wait(std::size_t c, std::uint32_t r, Time until);
  void update(std::size_t c);
  [[nodiscard]] std::span<const Segment> program(const plan::Slot& slot) const {
    return programs_.of(slot.stage, slot.part, slot.kind, turn_of(slot));
  }
  [[nodiscard]] RankClocks whole(std::size_t c) const;
  [[nodiscard]] Timeline answer(answer::Detail detail) const;
  [[nodiscard]] SlotPrograms::Turn turn_of(const plan::Slot& slot) const {
    return {slot.micro_batch == plan::first_micro_batch(pipeline_, slot.part),
            slot.micro_batch == plan::last_micro_batch(pipeline_, slot.part)};
  }
  [[nodiscard]] const SlotPrograms::Least& least(const plan::Slot& slot) const {
    return programs_.least(slot.stage, slot.part, slot.kind, turn_of(slot));
  }
  [[nodiscard]] Time contention_of(std::size_t c, const Moved& moved, const RankClocks& spent) const;
  [[nodiscard]] SlotPrograms::Least least_of(std::size_t c) const;
  /// When a rank ends at the earliest, from its begin on.
  [[nodiscard]] Time least_end(std::size_t c) const {
    const RankClocks& rank = state_.clocks(c);
    const Time worked = rank.done + rank.left.work;
    const Time sent = state_.free(programs_.channel(c)) + rank.left.sent;
    return (max(worked, sent) - rank.begin + step_.classes[c].update) * kRounding;
  }

  const cost::PricedStep& step_;
  const plan::StepPlan& plan_;
  const plan::Pipeline& pipeline_;
  SlotPrograms programs_;
  SlotState state_;
  struct Held {
    std::uint32_t row;
    std::int64_t micro_batch;
  };
  std::vector<Held> held_;  // outputs of a pair
  Run paired_[2];           // what both passes of a pair ran
};

/// All passes of a rank.
SlotPrograms::Least SlotStep::least_of(std::size_t c) const {
  SlotPrograms::Least all;
  const auto stage = static_cast<std::uint32_t>(c);
  const bool apart = plan::splits_backward(pipeline_.schedule);
  const auto passes = static_cast<double>(plan::passes_of(pipeline_));
  const auto add = [&](std::uint16_t part, SlotKind kind, std::int64_t micro_batch, double times) {
    const SlotPrograms::Least& one = least({stage, part, kind, false, micro_batch});
    all.work += one.work * times;
    all.sent += one.sent * times;
  };
  const auto parts = static_cast<std::uint16_t>(plan::parts_of(pipeline_));
  for (std::uint16_t part = 0; part < parts; ++part) {
    const std::int64_t first = plan::first_micro_batch(pipeline_, part);
    const std::int64_t last = plan::last_micro_batch(pipeline_, part);
    const auto add_all = [&](SlotKind kind) {
      add(part, kind, first, 1);
      if (last > first) add(part, kind, last, 1);
      if (passes > 2) add(part, kind, first + 1, passes - 2);
    };
    add_all(SlotKind::kForward);
    // DualPipe's backward is one or comes in two, pass by pass.
    if (!apart || pipeline_.schedule == plan::PipelineSchedule::kDualPipe) {
      add_all(SlotKind::kBackward);
    } else {
      add_all(SlotKind::kBackwardInput);
      add_all(SlotKind::kBackwardWeights);
    }
  }
  return all;
}

void SlotStep::start(RankClocks& clocks, std::uint32_t r, std::int64_t micro_batch) {
  const plan::Row& row = plan_.rows[r];
  const cost::PricedRow& priced = step_.rows[r];
  clocks.done += priced.encoding;
  clocks.encoding += priced.encoding;
  Time& free = state_.free(programs_.resource(r));
  Time begin = max(clocks.done, free);
  if (row.after != plan::kNoRow) begin = max(begin, state_.done(row.after, micro_batch));
  if (row.rank_class != row.needed_by && state_.ports().any()) begin += state_.ports().late(r, begin);
  free = begin + programs_.sending(r);
  if (programs_.kept(r) != SlotPrograms::Kept::kNothing) {
    state_.set_done(r, micro_batch, begin + programs_.time_of(r));
  }
  if (!row.in_the_way) return;
  (row.kind == plan::RowKind::kHost ? clocks.on_host : clocks.exposed) += free - clocks.done;
  clocks.done = free;
}

void SlotStep::wait(std::size_t c, std::uint32_t r, Time until) {
  RankClocks& clocks = state_.clocks(c);
  if (until <= clocks.done) return;
  const bool theirs = plan_.rows[r].rank_class != c;
  (theirs ? clocks.bubble : clocks.exposed) += until - clocks.done;
  if (!theirs) clocks.waited += until - clocks.done;
  if (!theirs && clocks.forward == Time::zero()) clocks.alone += until - clocks.done;
  clocks.done = until;
}

void SlotStep::run_kernels(RankClocks& clocks, const Run& run, bool forward) {
  const Time before = clocks.done;
  clocks.done = max(before + run.work, clocks.issued + run.last);
  clocks.issued += run.issue;
  clocks.encoding += run.encoding;
  clocks.exposed += run.in_the_way;
  const Time took = clocks.done - before - run.encoding - run.in_the_way;
  (forward ? clocks.forward : clocks.backward) += took;
  clocks.launch += took - run.kernels;
}

/// `held`: what leaves for other stages waits for the pair's end.
void SlotStep::pass(const plan::Slot& slot, bool held) {
  RankClocks& clocks = state_.clocks(slot.stage);
  const bool forward = slot.kind == SlotKind::kForward;
  // Where ranks end a step together it is from zero on, and what is ready when a pass begins (gathers of weights) waits
  // for no input.
  const bool begins = !clocks.begun && !plan::ends_together(pipeline_.schedule);
  clocks.begun = true;
  const std::span<const Segment> all = program(slot);
  for (const Segment& segment : all.subspan(begins ? begin_by_itself(slot) : 0)) {
    for (const std::uint32_t r : programs_.waits(segment)) wait(slot.stage, r, state_.done(r, slot.micro_batch));
    run_kernels(clocks, segment.run, forward);
    if (held) {
      paired_[forward ? 0 : 1].kernels += segment.run.kernels;
      paired_[forward ? 0 : 1].exchanged += segment.run.exchanged;
    }
    for (const std::uint32_t r : programs_.starts(segment)) {
      const plan::Row& row = plan_.rows[r];
      if (held && row.rank_class != row.needed_by) {
        held_.push_back({r, slot.micro_batch});
      } else {
        start(clocks, r, slot.micro_batch);
      }
    }
  }
}

/// For what comes from other stages.
void SlotStep::wait_for_others(const plan::Slot& slot) {
  for (const Segment& segment : program(slot)) {
    for (const std::uint32_t r : programs_.waits(segment)) {
      if (plan_.rows[r].rank_class != slot.stage) wait(slot.stage, r, state_.done(r, slot.micro_batch));
    }
  }
}

/// How long before its input a rank begins that then never waits for what it gathers when a pass begins. `clocks.done`
/// and the gathers, in the first segments, are of a rank that begins at zero.
Time SlotStep::lead_of(const plan::Slot& slot, std::size_t first) const {
  Time lead = state_.clocks(slot.stage).done;
  Time worked;
  const std::span<const Segment> all = program(slot);
  for (const Segment& segment : all.subspan(first)) {
    for (const std::uint32_t r : programs_.waits(segment)) {
      const plan::Row& row = plan_.rows[r];
      const bool gathered = row.rank_class == slot.stage && row.ready.at == plan::Moment::kBegin;
      if (gathered) lead = max(lead, state_.done(r, slot.micro_batch) - worked);
    }
    worked += segment.run.work;
  }
  return lead;
}

/// A rank that ends a step by itself begins the next one with what it gathers for its first pass, in time for its input
/// if that comes late enough; without such, with its input. Returns how many segments it has done by then.
std::size_t SlotStep::begin_by_itself(const plan::Slot& slot) {
  RankClocks& clocks = state_.clocks(slot.stage);
  const RankClocks before = clocks;
  wait_for_others(slot);
  const Time arrival = clocks.done;
  const std::span<const Segment> all = program(slot);
  std::size_t first = 0;
  while (first < all.size() && programs_.waits(all[first]).empty()) ++first;
  if (first == all.size() || arrival == before.done) first = 0;
  const auto begin_at = [&](Time begin) {
    clocks = before;
    clocks.begun = true;
    clocks.begin = clocks.done = begin;
    for (const Segment& segment : all.first(first)) {
      for (const std::uint32_t r : programs_.starts(segment)) state_.free(programs_.resource(r)) = Time::zero();
    }
    for (const Segment& segment : all.first(first)) {
      run_kernels(clocks, segment.run, true);
      for (const std::uint32_t r : programs_.starts(segment)) start(clocks, r, slot.micro_batch);
    }
  };
  begin_at(Time::zero());
  const Time lead = first > 0 ? lead_of(slot, first) : Time::zero();
  begin_at(max(arrival - lead, Time::zero()));
  const Time gathering = max(arrival - clocks.done, Time::zero());
  clocks.done += gathering;
  clocks.exposed += gathering;
  clocks.waited += gathering;
  clocks.alone += gathering;
  return first;
}

void SlotStep::pair(const plan::Slot& forward, const plan::Slot& backward) {
  wait_for_others(forward);
  wait_for_others(backward);
  paired_[0] = paired_[1] = {};
  pass(forward, true);
  pass(backward, true);
  // All-to-alls of either run beside the kernels of the other.
  RankClocks& clocks = state_.clocks(forward.stage);
  const Time beside = min(paired_[0].exchanged, paired_[1].kernels) + min(paired_[1].exchanged, paired_[0].kernels);
  const Time hidden = min(beside, max(clocks.done - clocks.issued, Time::zero()));
  clocks.done = clocks.done - hidden;
  clocks.exposed = clocks.exposed - hidden;
  for (const Held& one : held_) start(clocks, one.row, one.micro_batch);
  held_.clear();
}

void SlotStep::update(std::size_t c) {
  RankClocks& clocks = state_.clocks(c);
  Time last;
  for (const std::uint32_t r : programs_.before_update(c)) {
    const Time before = clocks.waited;
    wait(c, r, state_.done(r, 0));
    if (clocks.waited > before) last = min(clocks.waited - before, programs_.time_of(r));
  }
  clocks.alone = min(clocks.alone + last, clocks.waited);
  clocks.done += step_.classes[c].update;
  clocks.update += step_.classes[c].update;
  for (const std::uint32_t r : programs_.after_update(c)) start(clocks, r, 0);
}

/// What collectives beside a class's kernels take from them, as a Channel has it: of their time, but for what is alone,
/// kernels have 1 - h of the GPU, and lose no more than if bytes moved beside all of them (latency gives nothing back);
/// what they lose comes out of other waiting first, for messages and for the CPU.
Time SlotStep::contention_of(std::size_t c, const Moved& moved, const RankClocks& spent) const {
  if (!(moved.beside > Time::zero())) return {};
  const double held = moved.lost / moved.beside;
  const Time kernels = spent.forward + spent.backward - spent.launch;
  const Time waited = spent.waited - spent.alone;
  const auto lost_by_all = [&](double share) { return kernels / (1 - share) * share; };
  Time lost = max(moved.beside - spent.alone, Time::zero()) * held;
  if (lost > waited + spent.launch && lost > lost_by_all(held)) {
    const auto passes = static_cast<double>(plan::passes_of(pipeline_));
    lost = min(lost, lost_by_all(std::max(held, held_by_bytes(step_, programs_, c, passes))));
  }
  return max(lost - waited - spent.launch, Time::zero());
}

/// A class's step, with what its CPU needs to issue it.
RankClocks SlotStep::whole(std::size_t c) const {
  RankClocks spent = state_.clocks(c);
  const Time issuing = spent.took() - (spent.done - spent.begin);
  spent.done += issuing;
  spent.backward += issuing;
  spent.launch += issuing;
  return spent;
}

Timeline SlotStep::answer(answer::Detail detail) const {
  const auto passes = static_cast<double>(plan::passes_of(pipeline_));
  const std::vector<Moved> moved = moved_of(step_, programs_, passes);
  RankClocks spent;
  Time last;    // of all classes
  Time slowed;  // likewise, with what collectives take
  std::size_t slowest = 0;
  for (std::size_t c = 0; c < state_.ranks(); ++c) {
    const RankClocks one = whole(c);
    last = max(last, one.done - one.begin);
    slowed = max(slowed, one.done - one.begin + contention_of(c, moved[c], one));
    if (c > 0 && one.busy() * kRounding <= spent.busy()) continue;
    slowest = c;
    spent = one;
  }
  // Whoever waits least sets the pace; it may end before others, and who loses most to collectives wait first.
  const Time waits = last - (spent.done - spent.begin);
  spent.done += waits;
  spent.bubble += waits;
  const Time contention = slowed - last;
  // Groups have a channel each, and share links.
  const Time shared = max(busiest_link(moved) - (last + contention), Time::zero());
  spent.done += shared;
  spent.exposed += shared;
  spent.waited += shared;
  const cost::PricedClass& layers = step_.classes[slowest];
  Timeline line;
  line.rank_class = slowest;
  line.forward = spent.forward;
  line.backward = spent.backward;
  line.copying = spent.encoding;
  line.update = spent.update;
  line.waiting = (spent.forward + spent.backward) * (step_.wait_for_slowest / std::sqrt(passes));
  line.contention = beyond_rounding(contention, last);
  line.host_link = step_.input * passes;
  answer::Breakdown& parts = line.parts;
  line.decoding = decoding_of(step_, passes);
  parts.compute = layers.compute * passes + line.decoding;
  parts.memory = layers.memory * passes + spent.update + spent.encoding;
  parts.launch = spent.launch;
  parts.communication_exposed = spent.exposed;
  parts.bubble = spent.bubble;
  parts.host_update = spent.on_host;
  parts.other = line.waiting + line.contention + spent.on_host;
  const Time busy = spent.done - spent.begin + line.waiting + line.contention + line.decoding;
  line.step = with_input(step_, busy, passes, line);
  drop_rounding(parts, line.step);
  line.kept_waiting =
      parts.communication_exposed - beyond_rounding(parts.communication_exposed - spent.waited, line.step);
  if (detail == answer::Detail::kTime) return line;
  parts.communication = max(busiest_communication(step_, plan::passes_of(pipeline_)), spent.exposed);
  line.critical_path = {{"decoding on the GPU", line.decoding},
                        {"forward", line.forward},
                        {"backward", line.backward},
                        {kWaiting, parts.bubble},
                        {kExposed, parts.communication_exposed},
                        {"copying gradients", spent.encoding},
                        {"kernels slowed by collectives", line.contention},
                        {"waiting for the slowest GPU", line.waiting},
                        {"weight update", line.update},
                        {"weight update on the CPU", parts.host_update},
                        {"waiting for input", parts.input_exposed}};
  return line;
}

Expected<Timeline> SlotStep::run(answer::Detail detail, Time enough) {
  const std::size_t stages = plan_.classes.size();
  Timeline longer;
  const bool limited = enough < Time::infinity();
  for (std::size_t c = 0; limited && c < stages; ++c) {
    state_.clocks(c).left = least_of(c);
    longer.step = max(longer.step, least_end(c));
    if (longer.step > enough) return longer;
  }
  std::vector<plan::RankOrder> orders;
  orders.reserve(stages);
  for (std::size_t s = 0; s < stages; ++s) orders.emplace_back(pipeline_, s);
  plan::JoinedOrder order(pipeline_, orders);
  SlotState::Mark mark;
  for (;;) {
    if (const auto again = order.again()) {
      if (again->times > 0 && state_.repeats(mark, again->micro_batches)) {
        state_.go_on(mark, *again);
        order.skip(again->times);
      } else {
        mark = state_.mark();
      }
    }
    const auto slots = order.next();
    if (!slots) return tl::unexpected<Error>(slots.error());
    if (slots->empty()) break;
    if (slots->size() == 2) {
      pair((*slots)[0], (*slots)[1]);
    } else {
      pass((*slots)[0], false);
    }
    if (!limited) continue;
    const std::size_t c = slots->front().stage;
    for (const plan::Slot& slot : *slots) {
      state_.clocks(c).left.work = state_.clocks(c).left.work - least(slot).work;
      state_.clocks(c).left.sent = state_.clocks(c).left.sent - least(slot).sent;
    }
    longer.step = least_end(c);
    if (longer.step > enough) return longer;
  }
  for (std::size_t c = 0; c < stages; ++c) update(c);
  return answer(detail);
}

}  // namespace

Time busiest_communication(const cost::PricedStep& step, std::int64_t passes) {
  const plan::StepPlan& plan = *step.plan;
  std::vector<Time> of(plan.classes.size());
  for (std::size_t r = 0; r < plan.rows.size(); ++r) {
    const plan::Row& row = plan.rows[r];
    const double times = static_cast<double>(row.count) * (row.every_pass ? static_cast<double>(passes) : 1.0);
    if (row.kind != plan::RowKind::kCollective) continue;
    of[row.rank_class] += (step.rows[r].once - step.rows[r].in_flight) * times;
  }
  return *std::max_element(of.begin(), of.end());
}

namespace {

/// The step as it would be if what stages send each other took no time.
cost::PricedStep without_sends(cost::PricedStep step) {
  for (std::size_t r = 0; r < step.rows.size(); ++r) {
    const plan::Row& row = step.plan->rows[r];
    if (row.rank_class != row.needed_by) step.rows[r] = {};
  }
  return step;
}

/// Of what a rank waits for others, what their messages are on the way for: what it would not wait, and the step not
/// take, if they took no time.
void part_sends(const Timeline& without, Timeline& line) {
  const Time bubble = max(line.parts.bubble - max(line.step - without.step, Time::zero()), without.parts.bubble);
  const Time waited = max(line.parts.bubble - bubble, Time::zero());
  line.parts.bubble = line.parts.bubble - waited;
  line.parts.communication_exposed += waited;
  line.parts.communication = max(line.parts.communication, line.parts.communication_exposed);
  line.kept_waiting += waited;
  for (answer::Segment& segment : line.critical_path) {
    if (segment.name == kWaiting) segment.time = line.parts.bubble;
    if (segment.name == kExposed) segment.time = line.parts.communication_exposed;
  }
}

}  // namespace

Expected<Timeline> schedule_slots(const cost::PricedStep& step, answer::Detail detail, Time enough) {
  const plan::Pipeline pipeline = plan::pipeline_of(*step.plan);
  if (plan::is_asynchronous(pipeline.schedule)) return schedule_asynchronous(step, pipeline, detail);
  auto line = SlotStep(step, pipeline).run(detail, enough);
  if (!line || detail == answer::Detail::kTime || line->parts.bubble == Time::zero()) return line;
  const cost::PricedStep alone = without_sends(step);
  auto without = SlotStep(alone, pipeline).run(detail, Time::infinity());
  if (!without) return without;
  part_sends(*without, *line);
  return line;
}

}  // namespace ddlsim::step
