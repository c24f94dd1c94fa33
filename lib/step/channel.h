// The gradients of one step: rows in, the times they are back out. Private to the room.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/messages.h"

namespace ddlsim::step {

/// First-in-first-out communication of the data group, or with servers, with fusion where the plan has it.
class Channel {
 public:
  using Sent = answer::Timeline::Sent;

  /// Writes what it sends into `sent`, where there is one. A coordinator wakes first at `phase` cycles.
  Channel(const cost::PricedStep& step, double phase, std::vector<Sent>* sent = nullptr);

  /// Row `number` of the plan is ready now; ready times must not fall.
  void offer(Time ready, std::size_t number);
  /// Sends what is still waiting to be fused.
  void finish();
  /// When everything that was sent is back (with pull at start: when the servers have all of it).
  [[nodiscard]] Time last() const { return last_; }
  /// How long collectives ran, in the groups that were sent.
  [[nodiscard]] Time moving() const { return moving_; }
  /// When work of `duration` that starts at `start` ends, if running collectives slow it.
  [[nodiscard]] Time stretched(Time start, Time duration) {
    const bool idle = !fusion_ && first_busy_ == busy_.size();
    return idle ? start + duration : stretched_by_busy(start, duration);
  }

  /// Sends `count` pieces of a row and returns when they are back. For schedules that order rows themselves.
  Time send_now(Time ready, std::size_t number, double count);
  /// When the channel could take another piece.
  [[nodiscard]] Time free() const { return free_; }
  /// From when on pieces are said to have been chosen.
  void begin(Time at) { begin_ = at; }
  /// Pulls a row's weights; pull at start alone.
  Time pull(Time ready, std::size_t number);

 private:
  Time run_collective(Time ready, const plan::Row& row, const cost::PricedRow& piece, double count, const Sent& sent);
  Time send_fused(Time wake, const plan::FusionQueue::Fused& fused);
  void wake_until(Time now);
  [[nodiscard]] Time stretched_by_busy(Time start, Time duration);
  void record(const plan::Row& row, Sent sent);

  const cost::PricedStep& step_;
  const cost::CollectiveModel* collectives_ = nullptr;
  std::optional<cost::PsPipeline> servers_;
  std::optional<plan::FusionQueue> fusion_;
  bool pulls_later_ = false;
  bool by_priority_ = false;  // at servers
  DataSize largest_;          // piece, by priority
  Time begin_;
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
  std::vector<Sent>* sent_;
};

}  // namespace ddlsim::step
