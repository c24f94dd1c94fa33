#include "ddlsim/sim/step.h"

#include <optional>
#include <utility>

namespace ddlsim::sim {
namespace {

/// The GPU and the CPU that feeds it.
class Clocks {
 public:
  explicit Clocks(Time launch_interval) : interval_(launch_interval) {}

  Time run(Time duration, int kernels) {
    if (kernels == 0) return done_;
    const auto count = static_cast<double>(kernels);
    issued_ += interval_ * count;
    done_ = max(done_ + duration, issued_ + duration / count);
    return done_;
  }
  [[nodiscard]] Time now() const { return done_; }

 private:
  Time interval_;
  Time issued_;
  Time done_;
};

/// First-in-first-out communication over whatever joins the GPUs.
class Channel {
 public:
  explicit Channel(const Fabric& fabric) : fabric_(fabric) {
    if (const auto* servers = std::get_if<cost::PsFabric>(&fabric)) pipeline_.emplace(cost::ps_path(*servers));
  }

  void send(Time ready, const plan::Message& message) {
    if (pipeline_) {
      last_ = pipeline_->send(ready, message.size, static_cast<double>(message.count));
    } else if (const auto* ring = std::get_if<cost::Ring>(&fabric_)) {
      const Time once =
          message.gathered ? cost::ring_all_gather(message.size, *ring) : cost::ring_all_reduce(message.size, *ring);
      last_ = max(last_, ready) + once * static_cast<double>(message.count);
    }
  }
  [[nodiscard]] Time last() const { return last_; }

 private:
  const Fabric& fabric_;
  std::optional<cost::PsPipeline> pipeline_;
  Time last_;
};

/// When every message is back if all may start at `start`.
Time send_all(std::span<const plan::Message> messages, const Fabric& fabric, Time start) {
  Channel channel(fabric);
  for (const plan::Message& message : messages) channel.send(start, message);
  return max(channel.last(), start);
}

}  // namespace

StepTimeline run_step(const workload::Model& model, std::span<const plan::Message> messages,
                      const StepSetting& setting) {
  StepTimeline line;
  Clocks clocks(setting.launch_interval);
  Channel channel(setting.fabric);
  const auto run = [&](const workload::Layer& layer, cost::Pass pass) {
    const cost::LayerTime time = cost::layer_time(layer, pass, setting.batch, setting.activation, setting.device);
    line.compute += time.compute;
    line.memory += time.memory;
    return clocks.run(time.total(), pass == cost::Pass::kForward ? layer.forward_kernels : layer.backward_kernels);
  };
  for (const workload::Layer& layer : model.layers) run(layer, cost::Pass::kForward);
  line.forward = clocks.now();

  const bool overlapped = setting.overlap == plan::Overlap::kBackward;
  auto next = messages.begin();
  for (std::size_t i = model.layers.size(); i-- > 0;) {
    const Time done = run(model.layers[i], cost::Pass::kBackward);
    for (; overlapped && next != messages.end() && next->after == i; ++next) channel.send(done, *next);
  }
  const Time backward_done = clocks.now();
  for (; overlapped && next != messages.end(); ++next) channel.send(backward_done, *next);
  line.backward = backward_done - line.forward;
  line.launch = max(backward_done - line.compute - line.memory, Time::zero());
  if (setting.communication_alone || setting.overlap == plan::Overlap::kIdeal) {
    line.communication = send_all(messages, setting.fabric, Time::zero());
  }
  line.update = setting.update;
  line.memory += setting.update;

  const Time host_link = setting.input + [&] {
    const auto* servers = std::get_if<cost::PsFabric>(&setting.fabric);
    return servers == nullptr ? Time::zero() : setting.pulled / servers->pcie;
  }();
  if (setting.overlap == plan::Overlap::kIdeal) {
    const Time calculation = backward_done + setting.update;
    line.communication_exposed = max(line.communication - calculation, Time::zero());
    const Time longest = calculation + line.communication_exposed;
    line.input_exposed = max(host_link - longest, Time::zero());
    line.step = longest + line.input_exposed;
    return line;
  }
  const Time all_back = overlapped ? channel.last() : send_all(messages, setting.fabric, backward_done);
  line.communication_exposed = max(all_back - backward_done, Time::zero());
  const Time busy = backward_done + line.communication_exposed + setting.update;
  line.input_exposed = max(host_link - busy, Time::zero());
  line.step = busy + line.input_exposed;
  return line;
}

}  // namespace ddlsim::sim
