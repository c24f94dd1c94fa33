#include "channel.h"

#include <algorithm>

namespace ddlsim::step {

Channel::Channel(const cost::PricedStep& step, double phase, std::vector<Sent>* sent) : step_(step), sent_(sent) {
  const plan::Exchange& exchange = step.plan->exchange;
  if (step.groups.front()) collectives_ = &*step.groups.front();
  if (step.servers) servers_.emplace(step.servers_seen_by_one ? *step.servers_seen_by_one : *step.servers);
  if (collectives_ != nullptr && exchange.fusion) fusion_.emplace(*exchange.fusion, phase);
  pulls_later_ = exchange.pull_at_start;
  by_priority_ = exchange.priority && servers_;
  if (!by_priority_) return;
  for (const plan::Row& row : step.plan->rows) largest_ = max(largest_, row.size);
}

void Channel::offer(Time ready, std::size_t number) {
  const plan::Row& row = step_.plan->rows[number];
  if (fusion_ && !row.gathered()) {
    wake_until(ready);
    fusion_->push(ready, row, number);
    return;
  }
  send_now(ready, number, static_cast<double>(row.count));
}

Time Channel::send_now(Time ready, std::size_t number, double count) {
  const plan::Row& row = step_.plan->rows[number];
  Time back = ready;
  if (servers_) {
    const cost::PsLoad load{row.size, count, row.server};
    if (sent_ != nullptr) record(row, {.last = number, .count = count, .chosen = ready - begin_});
    back = pulls_later_ ? servers_->push(ready, load) : servers_->push_and_pull(ready, load);
    if (by_priority_) free_ = servers_->free_to_send({largest_, 1, row.server});
  } else if (collectives_ != nullptr) {
    back = run_collective(ready, row, step_.rows[number], count, {.last = number, .count = count});
  }
  last_ = max(last_, back);
  return back;
}

Time Channel::run_collective(Time ready, const plan::Row& row, const cost::PricedRow& piece, double count,
                             const Sent& sent) {
  const Time start = max(free_, ready);
  const Time taken = piece.once * count + sent.copies;
  if (sent_ != nullptr) {
    Sent whole = sent;
    whole.alone = taken;
    record(row, whole);
  }
  const Time back = start + taken;
  free_ = back;
  moving_ += taken;
  busy_.push_back({start, back, 1.0 - cost::held_of_gpu(step_, taken, piece.sent * count)});
  return back;
}

void Channel::record(const plan::Row& row, Sent sent) {
  sent.size = row.size;
  sent.gathered = row.gathered();
  sent.layer = row.ready.layer;
  sent.server = row.server;
  sent_->push_back(sent);
}

Time Channel::send_fused(Time wake, const plan::FusionQueue::Fused& fused) {
  // Into the buffer and, summed, out of it: two reads, two writes.
  const Time copies = fused.alone ? Time::zero() : fused.row.size * 4.0 / step_.rates.device.memory;
  const cost::CollectiveCost once = collectives_->cost(primitives::CollectiveOp::kAllReduce, fused.row.size);
  const cost::PricedRow piece{.once = once.time,
                              .sent = once.wire.of_gpu(collectives_->communicator().gpus_per_node())};
  const Sent sent{.last = fused.last, .wait = fused.wait, .copies = copies};
  last_ = max(last_, run_collective(wake, fused.row, piece, 1, sent));
  const bool blocking = collectives_->library().kind != plan::CollectiveLibraryKind::kNccl;
  return blocking ? free_ : Time::zero();
}

Time Channel::pull(Time ready, std::size_t number) {
  const plan::Row& row = step_.plan->rows[number];
  return servers_ ? servers_->pull(ready, {row.size, static_cast<double>(row.count), row.server}) : ready;
}

void Channel::finish() {
  if (fusion_) fusion_->finish([&](Time wake, const auto& fused) { return send_fused(wake, fused); });
}

void Channel::wake_until(Time now) {
  if (fusion_) fusion_->wake_until(now, [&](Time wake, const auto& fused) { return send_fused(wake, fused); });
}

Time Channel::stretched_by_busy(Time start, Time duration) {
  if (fusion_) wake_until(start);
  const Busy* one = busy_.data() + first_busy_;
  const Busy* const end = busy_.data() + busy_.size();
  while (one != end && one->until <= start) ++one;
  first_busy_ = static_cast<std::size_t>(one - busy_.data());
  Time now = start;
  for (; one != end && duration > Time::zero(); ++one) {
    if (now < one->from) {
      const Time alone = min(one->from - now, duration);
      now += alone;
      duration -= alone;
      if (duration <= Time::zero()) break;
    }
    if (now >= one->until) continue;
    const Time shared = min(one->until - now, duration / one->pace);
    now += shared;
    duration -= shared * one->pace;
  }
  return now + max(duration, Time::zero());
}

}  // namespace ddlsim::step
