#include "search/plan_rank.h"

#include <algorithm>

#include "ddlsim/step/rounds.h"

namespace ddlsim::whatif {

using plan::Moment;
using plan::SlotKind;
using step::alike;
using step::later;

/// What is in the way of a layer may stand before its kernels or behind them: of a layer that starts a row nothing is
/// taken to be before it, of one that needs a row everything.
std::vector<RankAlone::Event> RankAlone::events_of(const PartChannel& part, SlotKind kind) {
  const bool forward = kind == SlotKind::kForward;
  std::vector<Event> events;
  for (std::size_t r = 0; r < part.rows.size(); ++r) {
    const auto& [ready, needed, time, every_pass, channel] = part.rows[r];
    const bool summed = needed.at == Moment::kUpdate;
    if (kind == SlotKind::kBackwardInput && summed) continue;
    if (kind == SlotKind::kBackwardWeights && !summed) continue;
    if (forward) {
      if (ready.at == Moment::kBegin) events.push_back({part.layers.first, r, true});
      if (ready.at == Moment::kForward) events.push_back({ready.layer, r, true});
      if (needed.at == Moment::kForward) events.push_back({needed.layer + 1, r, false});
    } else {
      if (ready.at == Moment::kBackward) events.push_back({ready.layer + 1, r, true});
      if (needed.at == Moment::kBackward) events.push_back({needed.layer, r, false});
    }
  }
  std::stable_sort(events.begin(), events.end(), [&](const Event& a, const Event& b) {
    if (a.layer != b.layer) return forward == (a.layer < b.layer);
    return a.starts < b.starts;
  });
  return events;
}

void RankAlone::start(Sent& sent, const plan::Slot& slot) {
  const ChannelRow& row = sent.row;
  if (!row.every_pass && slot.micro_batch != sent.once) return;
  Time& free = free_[row.channel];
  free = max(free, now_.done) + row.time;
  sent.end = free;
  sent.micro_batch = slot.micro_batch;
  if (row.needed.at == Moment::kUpdate) now_.sent = max(now_.sent, free);
}

void RankAlone::pass(const plan::Slot& slot) {
  const auto& [first, last] = passes_[slot.part];
  const bool between = slot.micro_batch != first && slot.micro_batch != last;
  for (const Step& step : (between ? between_ : ends_)[slot.part * kKinds + static_cast<std::size_t>(slot.kind)]) {
    if (step.work > Time::zero()) {
      if (!begun_) now_.done = max(now_.done, arrival_);
      begun_ = true;
      now_.done += step.work;
    }
    if (step.row == plan::kNoRow) continue;
    Sent& sent = rows_[step.row];
    if (step.starts) {
      start(sent, slot);
    } else if (sent.micro_batch == slot.micro_batch && sent.end > now_.done) {
      now_.waited += sent.end - now_.done;
      now_.done = sent.end;
    }
  }
}

namespace {

/// Periods at whose end it is asked whether they repeat themselves; a rank that has not come to it by then rarely does.
constexpr std::size_t kPeriodsAsked = 8;

}  // namespace

RankAlone::Mark RankAlone::mark() const {
  Mark now{now_, free_, {}};
  now.ends.reserve(rows_.size());
  for (const Sent& one : rows_) now.ends.push_back(one.end);
  return now;
}

bool RankAlone::repeats(const Mark& was) const {
  const Time round = now_.done - was.now.done;
  if (!(round > Time::zero())) return false;
  std::vector<Time> carried(free_.size());
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const ChannelRow& row = rows_[r].row;
    if (!row.every_pass) continue;
    carried[row.channel] += row.time * static_cast<double>(plan::period_of(pipeline_).micro_batches);
    if (row.needed.at == Moment::kUpdate) continue;
    const Time end = rows_[r].end - was.ends[r];
    if (end > round && !alike(end, round)) return false;
  }
  for (std::size_t c = 0; c < free_.size(); ++c) {
    const Time free = free_[c] - was.free[c];
    if (free >= round && !alike(free, round) && !alike(free, carried[c])) return false;
  }
  return true;
}

void RankAlone::go_on(const Mark& was, std::int64_t times) {
  const auto often = static_cast<double>(times);
  const std::int64_t micro_batches = plan::period_of(pipeline_).micro_batches * times;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (!rows_[r].row.every_pass) continue;
    rows_[r].end = later(rows_[r].end, was.ends[r], often);
    rows_[r].micro_batch += micro_batches;
  }
  for (std::size_t c = 0; c < free_.size(); ++c) free_[c] = later(free_[c], was.free[c], often);
  for (Time RankEnd::*const time : {&RankEnd::passes, &RankEnd::done, &RankEnd::sent, &RankEnd::waited}) {
    now_.*time = later(now_.*time, was.now.*time, often);
  }
}

RankEnd RankAlone::run(std::size_t stage, Time arrival) {
  arrival_ = arrival;
  const plan::RankOrder order(pipeline_, stage);
  const std::size_t period = plan::period_of(pipeline_).slots;
  const plan::Middle& middle = order.middle();
  Mark mark;
  std::size_t ask = middle.first;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == ask && i + period < middle.end && ask < middle.first + kPeriodsAsked * period) {
      const std::size_t times = (middle.end - i) / period;
      if (ask > middle.first && repeats(mark)) {
        go_on(mark, static_cast<std::int64_t>(times));
        i += times * period;
      } else {
        mark = this->mark();
        ask += period;
      }
    }
    const plan::Slot slot = order[i];
    pass(slot);
    if (slot.kind == SlotKind::kBackward || slot.kind == SlotKind::kBackwardInput) now_.passes = now_.done;
  }
  now_.sent = max(now_.sent, now_.done);
  return now_;
}

}  // namespace ddlsim::whatif
