#include "ddlsim/step/step.h"

#include <algorithm>
#include <vector>

#include "channel.h"

namespace ddlsim::step {
namespace {

/// The GPU and the CPU that feeds it.
class Clocks {
 public:
  explicit Clocks(Time launch_interval, Time start = Time::zero())
      : interval_(launch_interval), issued_(start), done_(start) {}

  /// A layer's kernels. `stretch(start, duration)` says when work ends that starts then.
  template <typename Stretch>
  Time run(Time duration, int kernels, Stretch stretch) {
    if (kernels == 0) return done_;
    const auto count = static_cast<double>(kernels);
    issued_ += interval_ * count;
    done_ = max(stretch(done_, duration), issued_ + duration / count);
    return done_;
  }
  Time run(Time duration, int kernels) {
    return run(duration, kernels, [](Time start, Time work) { return start + work; });
  }
  /// The GPU starts nothing before `time`; the CPU goes on issuing.
  void wait_until(Time time) { done_ = max(done_, time); }
  [[nodiscard]] Time now() const { return done_; }

 private:
  Time interval_;
  Time issued_;
  Time done_;
};

/// What a message waits in a priority schedule: the layer nearest to the input first, then the order of readiness.
struct Waiting {
  Time ready;
  const plan::Message* message;
  std::int64_t left;
};

class StepRun {
 public:
  StepRun(const workload::Model& model, std::span<const plan::Message> messages, const StepSetting& setting,
          StepRecord* record)
      : model_(model), messages_(messages), setting_(setting), record_(record) {}

  StepTimeline run();

 private:
  [[nodiscard]] cost::LayerTime layer_time(std::size_t layer, cost::Pass pass) const {
    cost::LayerTime time = nominal_time(layer, pass);
    time.compute = time.compute * setting_.gpu_time_factor;
    time.memory = time.memory * setting_.gpu_time_factor;
    return time;
  }
  [[nodiscard]] cost::LayerTime nominal_time(std::size_t layer, cost::Pass pass) const {
    if (setting_.layers.empty()) {
      return cost::layer_time(model_.layers[layer], pass, setting_.batch, setting_.activation, setting_.device);
    }
    const cost::LayerTimes& times = setting_.layers[layer];
    return pass == cost::Pass::kForward ? times.forward : times.backward;
  }
  void add(const cost::LayerTime& time) {
    line_.compute += time.compute;
    line_.memory += time.memory;
  }
  [[nodiscard]] Time interval() const { return setting_.launch_interval * setting_.gpu_time_factor; }

  [[nodiscard]] Time coding_of_all() const {
    Time sum;
    for (const plan::Message& message : messages_) sum += coding_time(message, setting_);
    return sum;
  }
  void plain_pass();
  void send_in_backward();
  Time send_by_priority(const std::vector<Time>& ready);
  Time forward_waiting(const std::vector<Time>& back, Time start);
  void pull_in_forward();
  [[nodiscard]] Time all_sent_at(Time start, std::vector<StepRecord::Sent>* sent = nullptr) const;
  [[nodiscard]] std::vector<StepRecord::Sent>* sent() const { return record_ == nullptr ? nullptr : &record_->sent; }
  void finish_step(Time exposed);

  const workload::Model& model_;
  std::span<const plan::Message> messages_;
  const StepSetting& setting_;
  StepRecord* record_;
  StepTimeline line_;
  std::optional<Clocks> after_forward_;
  std::vector<Time> backward_times_;  // of the layers, in backward's order
  Time all_back_;
  Time backward_end_;
};

/// Forward and backward of one pass with nothing in their way.
void StepRun::plain_pass() {
  Clocks clocks(interval());
  for (std::size_t i = 0; i < model_.layers.size(); ++i) {
    const cost::LayerTime time = layer_time(i, cost::Pass::kForward);
    const int kernels = model_.layers[i].forward_kernels;
    add(time);
    clocks.run(time.total(), kernels);
    if (record_ != nullptr) record_->forward.push_back({time.total(), Time::zero(), kernels});
  }
  line_.forward = clocks.now();
  after_forward_ = clocks;
  backward_times_.reserve(model_.layers.size());
  for (std::size_t i = model_.layers.size(); i-- > 0;) {
    const cost::LayerTime time = layer_time(i, cost::Pass::kBackward);
    add(time);
    backward_times_.push_back(time.total());
    clocks.run(time.total(), model_.layers[i].backward_kernels);
    if (record_ != nullptr) {
      record_->backward.push_back({time.total(), Time::zero(), model_.layers[i].backward_kernels});
    }
  }
  line_.backward = clocks.now() - line_.forward;
  line_.launch = max(clocks.now() - line_.compute - line_.memory, Time::zero());
}

/// Backward again, this time with messages and what they take from it.
void StepRun::send_in_backward() {
  Channel channel(setting_, setting_.priority ? nullptr : sent());
  Clocks clocks = *after_forward_;
  const Time start = line_.forward;
  const bool ordered = setting_.priority;
  std::vector<Time> ready;
  auto next = messages_.begin();
  std::size_t layers = 0;
  const auto offer = [&](Time done) {
    const Time coded = coding_time(*next, setting_);
    if (record_ != nullptr) record_->ready.push_back({layers, coded});
    if (coded > Time::zero()) {
      clocks.wait_until(clocks.now() + coded);
      done = clocks.now();
    }
    if (ordered) {
      ready.push_back(done);
    } else {
      channel.offer(done, *next);
    }
    ++next;
  };
  auto time = backward_times_.begin();
  for (std::size_t i = model_.layers.size(); i-- > 0; ++time) {
    clocks.run(*time, model_.layers[i].backward_kernels, [&](Time from, Time work) {
      const Time end = ordered ? from + work : channel.stretched(from, work);
      if (record_ != nullptr) record_->backward[layers].slowed = max(end - from - work, Time::zero());
      return end;
    });
    ++layers;
    while (next != messages_.end() && next->after == i) offer(clocks.now());
  }
  while (next != messages_.end()) offer(clocks.now());
  channel.finish();
  // What is fused in backward is fused in smaller groups than what is all ready at once, and takes longer.
  if (setting_.cycle) line_.communication = max(line_.communication, channel.moving());
  backward_end_ = clocks.now();
  const Time longer = max(backward_end_ - start - line_.backward, Time::zero());
  line_.copying = min(line_.copying, longer);
  line_.contention = longer - line_.copying;
  all_back_ = ordered ? send_by_priority(ready) : channel.last();
}

/// Serves waiting pieces by layer; returns when the last is back, and stretches the next forward pass to wait for them.
Time StepRun::send_by_priority(const std::vector<Time>& ready) {
  Channel channel(setting_, sent());
  std::vector<Time> back(model_.layers.size());
  std::vector<Waiting> waiting;
  std::size_t arrived = 0;
  Time last;
  const auto later = [](const Waiting& a, const Waiting& b) { return a.message->after > b.message->after; };
  while (arrived < ready.size() || !waiting.empty()) {
    Time now = channel.free();
    if (waiting.empty()) now = max(now, ready[arrived]);
    for (; arrived < ready.size() && ready[arrived] <= now; ++arrived) {
      waiting.push_back({ready[arrived], &messages_[arrived], messages_[arrived].count});
      std::push_heap(waiting.begin(), waiting.end(), later);
    }
    Waiting& first = waiting.front();
    // Nothing else can come in between: the rest goes as one.
    const bool last_arrival = arrived == ready.size();
    const std::int64_t pieces = last_arrival ? first.left : 1;
    channel.name_next(static_cast<std::size_t>(first.message - messages_.data()), Time::zero());
    const Time done = channel.send_now(max(now, first.ready), *first.message, static_cast<double>(pieces));
    back[first.message->after] = max(back[first.message->after], done);
    last = max(last, done);
    first.left -= pieces;
    if (first.left == 0) {
      std::pop_heap(waiting.begin(), waiting.end(), later);
      waiting.pop_back();
    }
  }
  const Time waited = forward_waiting(back, backward_end_) - line_.forward;
  return backward_end_ + max(waited, Time::zero());
}

/// How long a forward pass takes that starts at `start` and whose layers wait for their weights.
Time StepRun::forward_waiting(const std::vector<Time>& back, Time start) {
  Clocks clocks(interval(), start);
  for (std::size_t i = 0; i < model_.layers.size(); ++i) {
    clocks.wait_until(back[i]);
    clocks.run(layer_time(i, cost::Pass::kForward).total(), model_.layers[i].forward_kernels);
  }
  return clocks.now() - start;
}

/// The servers have all gradients at `all_back_`; the next forward pass pulls in the model's order.
void StepRun::pull_in_forward() {
  Channel channel(setting_);
  std::vector<Time> back(model_.layers.size());
  for (auto message = messages_.rbegin(); message != messages_.rend(); ++message) {
    back[message->after] = max(back[message->after], channel.pull(Time::zero(), *message));
  }
  line_.communication_exposed += max(forward_waiting(back, Time::zero()) - line_.forward, Time::zero());
}

/// When every message is back if all may start at `start`.
Time StepRun::all_sent_at(Time start, std::vector<StepRecord::Sent>* sent) const {
  Channel channel(setting_, sent);
  Time pulled = start;
  for (const plan::Message& message : messages_) channel.offer(start, message);
  channel.finish();
  if (!setting_.pull_at_start) return max(channel.last(), start);
  const Time pushed = max(channel.last(), start);
  for (auto message = messages_.rbegin(); message != messages_.rend(); ++message) {
    pulled = max(pulled, channel.pull(pushed, *message));
  }
  return pulled;
}

void StepRun::finish_step(Time exposed) {
  line_.communication_exposed += exposed;
  const auto passes = static_cast<double>(setting_.accumulation);
  const Time pass = line_.forward + line_.backward;
  line_.earlier_passes = pass * (passes - 1.0);
  line_.compute = line_.compute * passes;
  line_.memory = line_.memory * passes;
  line_.launch = line_.launch * passes;
  line_.waiting = pass * (passes * setting_.wait);
  line_.update = setting_.update * setting_.gpu_time_factor;
  line_.memory += line_.update;
  const auto* servers = std::get_if<cost::PsFabric>(&setting_.fabric);
  const Time host_link =
      setting_.input * passes + (servers == nullptr ? Time::zero() : setting_.pulled / servers->pcie);
  line_.memory += line_.copying;
  const Time busy = line_.earlier_passes + pass + line_.copying + line_.contention + line_.waiting +
                    line_.communication_exposed + line_.update;
  line_.input_exposed = max(host_link - busy, Time::zero());
  line_.step = busy + line_.input_exposed;
  if (record_ == nullptr) return;
  record_->launch_interval = interval();
  record_->waiting = line_.waiting;
  record_->update = line_.update;
  record_->host_link = host_link;
}

StepTimeline StepRun::run() {
  plain_pass();
  const Time pass = line_.forward + line_.backward;
  if (std::holds_alternative<std::monostate>(setting_.fabric)) {
    finish_step(Time::zero());
    return line_;
  }
  line_.copying = coding_of_all();
  if (setting_.communication_alone || setting_.overlap == plan::Overlap::kIdeal) {
    line_.communication = all_sent_at(Time::zero());
  }
  switch (setting_.overlap) {
    case plan::Overlap::kIdeal: {
      line_.copying = Time::zero();  // hidden as well
      const Time hidden_by =
          pass * static_cast<double>(setting_.accumulation) + setting_.update * setting_.gpu_time_factor;
      finish_step(max(line_.communication - hidden_by, Time::zero()));
      break;
    }
    case plan::Overlap::kNone:
      if (record_ != nullptr && !messages_.empty()) {
        // Copying goes before the first of them.
        record_->ready.assign(messages_.size(), {model_.layers.size(), Time::zero()});
        record_->ready.front().coding = line_.copying;
      }
      finish_step(max(all_sent_at(pass, sent()) - pass, Time::zero()));
      break;
    case plan::Overlap::kBackward:
      send_in_backward();
      if (setting_.pull_at_start) pull_in_forward();
      finish_step(max(all_back_ - backward_end_, Time::zero()));
      break;
  }
  return line_;
}

}  // namespace

StepTimeline run_step(const workload::Model& model, std::span<const plan::Message> messages, const StepSetting& setting,
                      StepRecord* record) {
  return StepRun(model, messages, setting, record).run();
}

}  // namespace ddlsim::step
