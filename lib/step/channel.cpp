#include "channel.h"

#include <algorithm>
#include <cmath>

namespace ddlsim::step {
namespace {

/// A collective leaves kernels some of the GPU, however fast its links.
constexpr double kMostHeld = 0.9;

}  // namespace

Time coding_time(const plan::Message& message, const StepSetting& setting) {
  double gpus = 1;
  if (const auto* fabric = std::get_if<CollectiveFabric>(&setting.fabric)) {
    gpus = static_cast<double>(fabric->model->communicator().gpus);
  }
  return (message.coded + message.coded_per_gpu * gpus) / setting.device.memory +
         message.coding / setting.device.compute;
}

Channel::Channel(const StepSetting& setting, std::vector<StepRecord::Sent>* sent) : setting_(setting), sent_(sent) {
  if (const auto* fabric = std::get_if<CollectiveFabric>(&setting.fabric)) collectives_ = fabric->model;
  if (const auto* fabric = std::get_if<cost::PsFabric>(&setting.fabric)) servers_.emplace(*fabric);
  if (setting.cycle) next_wake_ = *setting.cycle;
}

void Channel::offer(Time ready, const plan::Message& message) {
  const std::size_t index = offered_++;
  if (collectives_ != nullptr && setting_.cycle && !message.gathered) {
    wake_until(ready);
    waiting_.push_back({ready, message, index});
    return;
  }
  name_next(index, Time::zero());
  send_now(ready, message, static_cast<double>(message.count));
}

Time Channel::send_now(Time ready, const plan::Message& message, double count, Time around) {
  Time back = ready;
  if (servers_) {
    const cost::PsLoad load{message.size, count, message.server};
    record(message, count, Time::zero(), Time::zero());
    back = setting_.pull_at_start ? servers_->push(ready, load) : servers_->push_and_pull(ready, load);
    free_ = servers_->free_to_send();
  } else if (collectives_ != nullptr) {
    const auto gpus = static_cast<double>(collectives_->communicator().gpus);
    const Time once = message.gathered
                          ? collectives_->cost(primitives::CollectiveOp::kAllGather, message.size * gpus).time
                          : collectives_->cost(primitives::CollectiveOp::kAllReduce, message.size).time;
    const Time start = max(free_, ready);
    record(message, count, once * count + around, around);
    back = start + once * count + around;
    free_ = back;
    moving_ += back - start;
    const DataSize wire = message.gathered ? message.size * (gpus - 1.0) : message.size * (2.0 * (gpus - 1.0) / gpus);
    const Time memory = setting_.held_memory * (wire.in(bytes)*count);
    const double held = back > start ? setting_.held + memory / (back - start) : 0.0;
    busy_.push_back({start, back, 1.0 - std::min(held, kMostHeld)});
  }
  last_ = max(last_, back);
  return back;
}

void Channel::record(const plan::Message& message, double count, Time alone, Time copies) {
  if (sent_ == nullptr) return;
  next_sent_.alone = alone;
  next_sent_.copies = copies;
  next_sent_.count = count;
  next_sent_.message = message;
  sent_->push_back(next_sent_);
}

Time Channel::pull(Time ready, const plan::Message& message) {
  return servers_ ? servers_->pull(ready, {message.size, static_cast<double>(message.count), message.server}) : ready;
}

void Channel::finish() {
  while (next_waiting_ < waiting_.size()) {
    // Wakes at which nothing is ready change nothing.
    const Time ready = waiting_[next_waiting_].ready;
    if (next_wake_ < ready) next_wake_ += *setting_.cycle * std::ceil((ready - next_wake_) / *setting_.cycle);
    fuse(next_wake_);
  }
}

void Channel::wake_until(Time now) {
  while (next_waiting_ < waiting_.size() && next_wake_ < now) {
    const Time ready = waiting_[next_waiting_].ready;
    if (next_wake_ < ready) next_wake_ += *setting_.cycle * std::ceil((ready - next_wake_) / *setting_.cycle);
    if (next_wake_ < now) fuse(next_wake_);
  }
}

/// One wake of the coordinator: everything ready goes out, in buffers.
void Channel::fuse(Time now) {
  const auto in_and_out = [&](DataSize size) { return size * 4.0 / setting_.device.memory; };
  bool sent = false;
  while (next_waiting_ < waiting_.size() && waiting_[next_waiting_].ready <= now) {
    plan::Message fused = waiting_[next_waiting_++].message;
    fused.size = fused.size * static_cast<double>(fused.count);
    fused.count = 1;
    bool alone = true;
    while (next_waiting_ < waiting_.size() && waiting_[next_waiting_].ready <= now) {
      const plan::Message& next = waiting_[next_waiting_].message;
      const DataSize more = next.size * static_cast<double>(next.count);
      if (fused.size + more > setting_.fusion_buffer) break;
      fused.size += more;
      fused.after = next.after;
      alone = false;
      ++next_waiting_;
    }
    const Waiting& last = waiting_[next_waiting_ - 1];
    name_next(last.index, now - last.ready);
    send_now(now, fused, 1, alone ? Time::zero() : in_and_out(fused.size));
    sent = true;
  }
  const bool blocking = collectives_->library().kind != cost::CollectiveLibraryKind::kNccl;
  next_wake_ = max(now + *setting_.cycle, sent && blocking ? free_ : Time::zero());
}

Time Channel::stretched(Time start, Time duration) {
  if (setting_.cycle) wake_until(start);
  Time now = start;
  while (first_busy_ < busy_.size() && busy_[first_busy_].until <= now) ++first_busy_;
  for (std::size_t i = first_busy_; i < busy_.size() && duration > Time::zero(); ++i) {
    const auto& [from, until, pace] = busy_[i];
    if (now < from) {
      const Time alone = min(from - now, duration);
      now += alone;
      duration -= alone;
    }
    if (now >= until || duration <= Time::zero()) continue;
    const Time shared = min(until - now, duration / pace);
    now += shared;
    duration -= shared * pace;
  }
  return now + max(duration, Time::zero());
}

}  // namespace ddlsim::step
