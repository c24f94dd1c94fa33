#include "search/plan_rank.h"

#include <algorithm>

namespace ddlsim::whatif {

using plan::Moment;
using plan::SlotKind;

/// What is in the way of a layer may stand before its kernels or behind them: of a layer that starts a row nothing is
/// taken to be before it, of one that needs a row everything.
std::vector<RankAlone::Event> RankAlone::events_of(const PartChannel& part, SlotKind kind) {
  const bool forward = kind == SlotKind::kForward;
  std::vector<Event> events;
  for (std::size_t r = 0; r < part.rows.size(); ++r) {
    const auto& [ready, needed, time, every_pass] = part.rows[r];
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
  free_ = max(free_, now_.done) + row.time;
  sent.end = free_;
  sent.micro_batch = slot.micro_batch;
  if (row.needed.at == Moment::kUpdate) now_.sent = free_;
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

RankEnd RankAlone::run(std::size_t stage, Time arrival) {
  arrival_ = arrival;
  for (const plan::Slot& slot : plan::stage_order(pipeline_, stage)) {
    pass(slot);
    if (slot.kind == SlotKind::kBackward || slot.kind == SlotKind::kBackwardInput) now_.passes = now_.done;
  }
  now_.sent = max(now_.sent, now_.done);
  return now_;
}

}  // namespace ddlsim::whatif
