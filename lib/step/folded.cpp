#include "folded.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "channel.h"
#include "clocks.h"
#include "ddlsim/step/input_wait.h"
#include "rounding.h"

namespace ddlsim::step {
namespace {

using answer::Detail;
using answer::Timeline;

/// What a row waits in a priority schedule: the layer nearest to the input first, then the order of readiness.
struct Waiting {
  Time ready;
  std::size_t number = 0;
  std::int64_t pieces = 0;  // not sent yet
};

class FoldedStep {
 public:
  FoldedStep(const cost::PricedStep& step, Detail detail, double phase)
      : step_(step), plan_(*step.plan), detail_(detail), phase_(phase), count_(step.classes.front().forward.size()) {
    // Synchronous replicas go at the pace of the slowest.
    const auto slowest = std::max_element(plan_.classes.begin(), plan_.classes.end(),
                                          [](const auto& a, const auto& b) { return a.slowness < b.slowness; });
    const auto at = static_cast<std::size_t>(slowest - plan_.classes.begin());
    if (slowest->slowness == 1) {
      layers_ = &step.classes[at];
      return;
    }
    slowness_ = slowest->slowness;
    slowed_ = step.classes[at];
    for (cost::PricedLayers* pass : {&slowed_.forward, &slowed_.backward}) {
      std::vector<cost::PricedLayer> layers(pass->begin(), pass->end());
      for (cost::PricedLayer& layer : layers) {
        layer.time = layer.time * slowness_;
        layer.last = layer.last * slowness_;
      }
      *pass = std::move(layers);
    }
    for (Time* sum : {&slowed_.compute, &slowed_.memory, &slowed_.update}) *sum = *sum * slowness_;
    layers_ = &slowed_;
  }

  Timeline run();

 private:
  [[nodiscard]] bool recorded() const { return detail_ == Detail::kWork; }
  [[nodiscard]] std::vector<Timeline::Sent>* sent() { return recorded() ? &line_.sent : nullptr; }
  [[nodiscard]] Time encoding_of(std::size_t row) const { return step_.rows[row].encoding * slowness_; }
  [[nodiscard]] Time encoding_of_all() const;
  [[nodiscard]] Time nominal_pass() const;
  void run_forward();
  void run_backward();
  void passed(const Clocks& clocks);
  void record_layers();
  void send_in_backward();
  Time send_by_priority(const std::vector<Time>& ready);
  Time forward_waiting(const std::vector<Time>& back, Time start);
  void pull_in_forward();
  [[nodiscard]] Time all_sent_at(Time start, std::vector<Timeline::Sent>* sent = nullptr) const;
  void finish(Time exposed);
  void add_path();

  const cost::PricedStep& step_;
  const plan::StepPlan& plan_;
  cost::PricedClass slowed_;
  double slowness_ = 1;
  const cost::PricedClass* layers_ = nullptr;
  Detail detail_;
  double phase_;  // of a coordinator's cycle
  std::size_t count_;
  Timeline line_;
  std::optional<Clocks> after_forward_;
  Time launch_;
  Time communication_;
  Time exposed_;
  Time all_back_;
  Time backward_end_;
};

/// Forward with nothing in its way.
void FoldedStep::run_forward() {
  Clocks clocks(step_.launch_interval);
  for (const cost::PricedLayer& layer : layers_->forward) clocks.run(layer);
  line_.forward = clocks.now();
  after_forward_ = clocks;
  if (recorded()) record_layers();
}

/// Backward with nothing in its way.
void FoldedStep::run_backward() {
  Clocks clocks = *after_forward_;
  for (const cost::PricedLayer& layer : layers_->backward) clocks.run(layer);
  passed(clocks);
}

/// `clocks` have run a pass with nothing in its way.
void FoldedStep::passed(const Clocks& clocks) {
  line_.backward = clocks.now() - line_.forward;
  launch_ = max(clocks.now() - layers_->compute - layers_->memory, Time::zero());
}

void FoldedStep::record_layers() {
  const auto copy = [](const cost::PricedLayers& from, std::vector<Timeline::Kernels>& to) {
    to.reserve(from.size());
    for (const cost::PricedLayer& layer : from) {
      to.push_back({layer.time, Time::zero(), static_cast<int>(layer.kernels)});
    }
  };
  copy(layers_->forward, line_.forward_kernels);
  copy(layers_->backward, line_.backward_kernels);
  line_.launch_interval = step_.launch_interval;
}

/// Of a GPU that is not one of the slower ones: what varies from step to step is counted on it.
Time FoldedStep::nominal_pass() const {
  if (slowness_ == 1) return line_.forward + line_.backward;
  Clocks clocks(step_.launch_interval);
  for (const cost::PricedLayer& layer : step_.classes.front().forward) clocks.run(layer);
  for (const cost::PricedLayer& layer : step_.classes.front().backward) clocks.run(layer);
  return clocks.now();
}

Time FoldedStep::encoding_of_all() const {
  Time sum;
  for (std::size_t row = 0; row < step_.rows.size(); ++row) sum += encoding_of(row);
  return sum;
}

/// Backward with messages and what they take from it; and beside it, in the same loop, what it takes alone.
void FoldedStep::send_in_backward() {
  const bool ordered = plan_.exchange.priority;
  Channel channel(step_, phase_, ordered ? nullptr : sent());
  Clocks clocks = *after_forward_;
  Clocks plain = clocks;
  const Time start = line_.forward;
  std::vector<Time> ready;
  std::size_t next = 0;
  std::size_t layers = 0;
  const auto offer = [&](Time done) {
    const Time encoding = encoding_of(next);
    if (recorded()) line_.ready.push_back({layers, encoding});
    if (encoding > Time::zero()) {
      clocks.wait_until(clocks.now() + encoding);
      done = clocks.now();
    }
    if (ordered) {
      ready.push_back(done);
    } else {
      channel.offer(done, next);
    }
    ++next;
  };
  for (std::size_t i = count_; i-- > 0;) {
    const cost::PricedLayer& layer = layers_->backward[layers];
    plain.run(layer);
    clocks.run(layer, [&](Time from, Time work) {
      const Time end = ordered ? from + work : channel.stretched(from, work);
      if (recorded()) line_.backward_kernels[layers].slowed = max(end - from - work, Time::zero());
      return end;
    });
    ++layers;
    while (next < plan_.rows.size() && plan_.rows[next].ready.layer == i) offer(clocks.now());
  }
  while (next < plan_.rows.size()) offer(clocks.now());
  channel.finish();
  passed(plain);
  // What is fused in backward is fused in smaller groups than what is all ready at once, and takes longer.
  if (plan_.exchange.fusion) communication_ = max(communication_, channel.moving());
  backward_end_ = clocks.now();
  const Time longer = max(backward_end_ - start - line_.backward, Time::zero());
  line_.copying = min(line_.copying, longer);
  line_.contention = longer - line_.copying;
  all_back_ = ordered ? send_by_priority(ready) : channel.last();
}

/// Serves waiting pieces by layer; returns when the last is back, and stretches the next forward pass to wait for them.
Time FoldedStep::send_by_priority(const std::vector<Time>& ready) {
  Channel channel(step_, phase_, sent());
  channel.begin(line_.forward);
  std::vector<Time> back(count_);
  std::vector<Waiting> waiting;
  std::size_t arrived = 0;
  const auto layer_of = [&](const Waiting& one) { return plan_.rows[one.number].ready.layer; };
  const auto later = [&](const Waiting& a, const Waiting& b) { return layer_of(a) > layer_of(b); };
  while (arrived < ready.size() || !waiting.empty()) {
    Time now = channel.free();
    if (waiting.empty()) now = max(now, ready[arrived]);
    for (; arrived < ready.size() && ready[arrived] <= now; ++arrived) {
      waiting.push_back({ready[arrived], arrived, plan_.rows[arrived].count});
      std::push_heap(waiting.begin(), waiting.end(), later);
    }
    Waiting& first = waiting.front();
    // Nothing else can come in between: the rest goes as one.
    const bool last_arrival = arrived == ready.size();
    const std::int64_t pieces = last_arrival ? first.pieces : 1;
    const Time done = channel.send_now(max(now, first.ready), first.number, static_cast<double>(pieces));
    back[layer_of(first)] = max(back[layer_of(first)], done);
    first.pieces -= pieces;
    if (first.pieces == 0) {
      std::pop_heap(waiting.begin(), waiting.end(), later);
      waiting.pop_back();
    }
  }
  const Time waited = forward_waiting(back, backward_end_) - line_.forward;
  return backward_end_ + max(waited, Time::zero());
}

/// How long a forward pass takes that starts at `start` and whose layers wait for their weights.
Time FoldedStep::forward_waiting(const std::vector<Time>& back, Time start) {
  Clocks clocks(step_.launch_interval, start);
  Timeline::NextForward last;
  for (std::size_t i = 0; i < count_; ++i) {
    if (back[i] > clocks.now()) last = {i, back[i] - start, Time::zero()};
    clocks.wait_until(back[i]);
    clocks.run(layers_->forward[i]);
  }
  const Time took = clocks.now() - start;
  last.rest = took - last.back;
  if (recorded()) line_.next_forward = last;
  return took;
}

/// The servers have all gradients at `all_back_`; the next forward pass pulls in the model's order.
void FoldedStep::pull_in_forward() {
  Channel channel(step_, phase_);
  std::vector<Time> back(count_);
  line_.all_summed = all_back_;
  for (std::size_t i = plan_.rows.size(); i-- > 0;) {
    Time& layer = back[plan_.rows[i].ready.layer];
    layer = max(layer, channel.pull(Time::zero(), i));
  }
  exposed_ += max(forward_waiting(back, Time::zero()) - line_.forward, Time::zero());
}

/// When every message is back if all may start at `start`.
Time FoldedStep::all_sent_at(Time start, std::vector<Timeline::Sent>* sent) const {
  Channel channel(step_, phase_, sent);
  for (std::size_t i = 0; i < plan_.rows.size(); ++i) channel.offer(start, i);
  channel.finish();
  const Time pushed = max(channel.last(), start);
  if (!plan_.exchange.pull_at_start) return pushed;
  Time pulled = start;
  for (std::size_t i = plan_.rows.size(); i-- > 0;) pulled = max(pulled, channel.pull(pushed, i));
  return pulled;
}

void FoldedStep::finish(Time exposed) {
  exposed_ += exposed;
  const auto passes = static_cast<double>(plan_.micro_batches);
  const Time pass = line_.forward + line_.backward;
  line_.earlier_passes = pass * (passes - 1.0);
  line_.waiting = nominal_pass() * (std::sqrt(passes) * step_.wait_for_slowest);  // cost/straggler.h
  line_.update = layers_->update;
  line_.host_link = step_.input * passes + (step_.servers ? step_.pulled / step_.servers->pcie : Time::zero());
  line_.decoding = decoding_of(step_, passes) * slowness_;
  const Time busy = line_.earlier_passes + pass + line_.copying + line_.contention + line_.waiting + exposed_ +
                    line_.update + line_.decoding;
  answer::Breakdown& parts = line_.parts;
  parts.compute = layers_->compute * passes + line_.decoding;
  parts.memory = layers_->memory * passes + line_.update + line_.copying;
  parts.launch = launch_ * passes;
  parts.communication = communication_;
  parts.communication_exposed = exposed_;
  line_.step = with_input(step_, busy, passes, line_);
  relax(step_, line_);
  drop_rounding(parts, line_.step);
  parts.other = line_.contention + line_.waiting;
  if (detail_ != Detail::kTime) add_path();
}

void FoldedStep::add_path() {
  const auto add = [&](const char* name, Time time, bool always) {
    if (always || time > Time::zero()) line_.critical_path.push_back({name, time});
  };
  add("decoding on the GPU", line_.decoding, false);
  add("earlier passes", line_.earlier_passes, false);
  add("forward", line_.forward, true);
  add("backward", line_.backward, true);
  add("copying gradients", line_.copying, false);
  add("kernels slowed by collectives", line_.contention, false);
  add("waiting for the slowest GPU", line_.waiting, false);
  add(step_.servers ? "push and pull, exposed" : "all-reduce, exposed", line_.parts.communication_exposed, true);
  add("weight update", line_.update, true);
  add("waiting for input", line_.parts.input_exposed, true);
}

Timeline FoldedStep::run() {
  run_forward();
  const bool alone = !step_.groups.front() && !step_.servers;
  const plan::Overlap overlap = plan_.exchange.overlap;
  if (alone || overlap != plan::Overlap::kBackward) run_backward();
  if (alone) {
    finish(Time::zero());
    return std::move(line_);
  }
  line_.copying = encoding_of_all();
  if (detail_ != Detail::kTime || overlap == plan::Overlap::kIdeal) communication_ = all_sent_at(Time::zero());
  const Time pass = line_.forward + line_.backward;
  switch (overlap) {
    case plan::Overlap::kIdeal: {
      line_.copying = Time::zero();  // hidden as well
      const Time hidden_by = pass * static_cast<double>(plan_.micro_batches) + layers_->update;
      finish(max(communication_ - hidden_by, Time::zero()));
      break;
    }
    case plan::Overlap::kNone:
      if (recorded() && !plan_.rows.empty()) {
        // Copying goes before the first of them.
        line_.ready.assign(plan_.rows.size(), {count_, Time::zero()});
        line_.ready.front().encoding = line_.copying;
      }
      finish(max(all_sent_at(pass, sent()) - pass, Time::zero()));
      break;
    case plan::Overlap::kBackward:
      send_in_backward();
      if (plan_.exchange.pull_at_start) pull_in_forward();
      finish(max(all_back_ - backward_end_, Time::zero()));
      break;
  }
  return std::move(line_);
}

}  // namespace

Timeline schedule_folded(const cost::PricedStep& step, Detail detail, double phase) {
  return FoldedStep(step, detail, phase).run();
}

}  // namespace ddlsim::step
