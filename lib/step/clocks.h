// The GPU and the CPU that feeds it. Private to the room.
#pragma once

#include "ddlsim/cost/price.h"
#include "ddlsim/support/units.h"

namespace ddlsim::step {

class Clocks {
 public:
  explicit Clocks(Time launch_interval, Time start = Time::zero())
      : interval_(launch_interval), issued_(start), done_(start) {}

  /// A layer's kernels. `stretch(start, duration)` says when work ends that starts then.
  template <typename Stretch>
  Time run(const cost::PricedLayer& layer, Stretch stretch) {
    if (layer.kernels == 0) return done_;
    issued_ += interval_ * layer.kernels;
    done_ = max(stretch(done_, layer.time), issued_ + layer.last);
    return done_;
  }
  Time run(const cost::PricedLayer& layer) {
    return run(layer, [](Time start, Time work) { return start + work; });
  }
  /// The GPU starts nothing before `time`; the CPU goes on issuing.
  void wait_until(Time time) { done_ = max(done_, time); }
  [[nodiscard]] Time now() const { return done_; }

 private:
  Time interval_;
  Time issued_;
  Time done_;
};

}  // namespace ddlsim::step
