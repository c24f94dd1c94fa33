// The communication of one step: messages in, the times they are back out. Private to the room.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "ddlsim/step/step.h"

namespace ddlsim::step {

/// GPU time of encoding and decoding a message.
[[nodiscard]] Time coding_time(const plan::Message& message, const StepSetting& setting);

/// First-in-first-out communication over whatever joins the GPUs, with fusion where the strategy has it.
class Channel {
 public:
  /// Writes what it sends into `sent`, where there is one; messages are numbered as they are offered.
  explicit Channel(const StepSetting& setting, std::vector<StepRecord::Sent>* sent = nullptr);

  /// A message that is ready now; ready times must not fall.
  void offer(Time ready, const plan::Message& message);
  /// Sends what is still waiting to be fused.
  void finish();
  /// When everything that was sent is back (with pull_at_start: when the servers have all of it).
  [[nodiscard]] Time last() const { return last_; }
  /// How long collectives ran, in the groups that were sent.
  [[nodiscard]] Time moving() const { return moving_; }
  /// When work of `duration` that starts at `start` ends, if running collectives slow it.
  [[nodiscard]] Time stretched(Time start, Time duration);

  /// Sends `count` pieces and returns when they are back; copies of `around` go before and after a collective. For
  /// schedules that order messages themselves.
  Time send_now(Time ready, const plan::Message& message, double count, Time around = Time::zero());
  /// Says which message the next that is sent ends with, and how long that one has waited.
  void name_next(std::size_t last, Time wait) { next_sent_ = {.last = last, .wait = wait}; }
  /// When the channel could take another piece.
  [[nodiscard]] Time free() const { return free_; }
  /// Pulls a message's weights; pull_at_start alone.
  Time pull(Time ready, const plan::Message& message);

 private:
  void wake_until(Time now);
  void fuse(Time now);

  const StepSetting& setting_;
  const cost::CollectiveModel* collectives_ = nullptr;
  std::optional<cost::PsPipeline> servers_;
  void record(const plan::Message& message, double count, Time alone, Time copies);

  /// To be fused.
  struct Waiting {
    Time ready;
    plan::Message message;
    std::size_t index = 0;
  };
  std::vector<Waiting> waiting_;
  std::size_t next_waiting_ = 0;
  Time next_wake_;
  Time free_;
  Time last_;
  Time moving_;
  /// A running collective, and the pace it leaves to kernels.
  struct Busy {
    Time from;
    Time until;
    double pace = 1;
  };
  std::vector<Busy> busy_;      // in order
  std::size_t first_busy_ = 0;  // the first that may still overlap
  std::vector<StepRecord::Sent>* sent_;
  StepRecord::Sent next_sent_;
  std::size_t offered_ = 0;
};

}  // namespace ddlsim::step
