// What a rank of a pipeline takes whose neighbours never keep it waiting: a lower bound of a step that ranks spend on
// their channels. Private to the room.
//
// A rank takes its passes in the order of plan/order.h. With done(t) its kernels' clock and free(t) that of a channel
// among replicas, of which experts have one of their own:
//   a row that starts after a layer   free = max(free, done) + time of the row
//   a layer that needs a row          done = max(done, end of the row)
//   layers in between                 done = done + their kernels, and what stands in their way
// which is the recurrence of step/slots.cpp without the CPU and without what other stages send: to wait for them makes
// nothing earlier, for rows keep their order. Rows that a pass needs of an earlier one are there if a later micro-batch
// has begun its own since. Periods in the middle of a long step that only repeat themselves are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ddlsim/plan/order.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/units.h"
#include "search/plan_tools.h"

namespace ddlsim::whatif {

/// What a rank sends its replicas beside its kernels; points are of the model's layers.
struct ChannelRow {
  plan::Point ready;
  plan::Point needed;
  Time time{};
  bool every_pass = false;  // else once, with the first micro-batch or with the last
  std::size_t channel = 0;  // rows of another one go beside it
};

/// The rows of one part of a rank, in their order.
struct PartChannel {
  LayerRange layers;
  std::vector<ChannelRow> rows;
};

/// When a rank has done what.
struct RankEnd {
  Time passes{};  // its last pass but for weights' gradients
  Time done{};    // all of them
  Time sent{};    // and what it sends before the update
  Time waited{};  // of `done`, for rows
};

/// The passes of a rank's parts, as one plan has them.
class RankAlone {
 public:
  /// `work(kind, layers)`: of those layers in a pass.
  template <typename Work>
  RankAlone(const plan::Pipeline& pipeline, std::span<const PartChannel> parts, const Work& work)
      : pipeline_(pipeline) {
    const bool apart = plan::splits_backward(pipeline.schedule);
    const bool whole = !apart || pipeline.schedule == plan::PipelineSchedule::kDualPipe;
    ends_.resize(parts.size() * kKinds);
    between_.resize(parts.size() * kKinds);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::size_t first_row = rows_.size();
      for (const ChannelRow& row : parts[p].rows) {
        rows_.push_back({.row = row});
        if (row.channel >= free_.size()) free_.resize(row.channel + 1);
        const bool begins = row.needed.at == plan::Moment::kForward;
        rows_.back().once = begins ? plan::first_micro_batch(pipeline, p) : plan::last_micro_batch(pipeline, p);
      }
      passes_.push_back({plan::first_micro_batch(pipeline, p), plan::last_micro_batch(pipeline, p)});
      const auto add = [&](plan::SlotKind kind) {
        const std::size_t at = p * kKinds + static_cast<std::size_t>(kind);
        add_steps({parts[p], kind, first_row, false}, work, ends_[at]);
        add_steps({parts[p], kind, first_row, true}, work, between_[at]);
      };
      add(plan::SlotKind::kForward);
      if (whole) add(plan::SlotKind::kBackward);
      if (!apart) continue;
      add(plan::SlotKind::kBackwardInput);
      add(plan::SlotKind::kBackwardWeights);
    }
  }

  /// `arrival`: of what its first pass needs.
  [[nodiscard]] RankEnd run(std::size_t stage, Time arrival);

 private:
  static constexpr std::size_t kKinds = 4;
  /// Kernels, then a row that starts or is needed.
  struct Step {
    Time work{};
    std::size_t row = plan::kNoRow;
    bool starts = false;
  };
  struct Event {
    std::size_t layer = 0;  // a forward pass has done those before it, a backward pass those from it on
    std::size_t row = 0;    // of the part
    bool starts = false;    // else is needed
  };
  struct Sent {
    ChannelRow row;
    std::int64_t once = 0;  // whose passes start it, unless all do
    Time end{};
    std::int64_t micro_batch = -1;  // of `end`
  };

  struct Pass {
    const PartChannel& part;
    plan::SlotKind kind;
    std::size_t first_row;
    bool between;  // neither the first nor the last micro-batch's: rows of every pass alone
  };

  template <typename Work>
  static void add_steps(const Pass& pass, const Work& work, std::vector<Step>& steps) {
    const auto& [part, kind, first_row, between] = pass;
    const bool forward = kind == plan::SlotKind::kForward;
    std::size_t done = forward ? part.layers.first : part.layers.end;
    const auto up_to = [&](std::size_t layer) {
      const std::size_t from = std::exchange(done, layer);
      return from == layer ? Time::zero() : work(kind, forward ? LayerRange{from, layer} : LayerRange{layer, from});
    };
    for (const Event& event : events_of(part, kind)) {
      if (between && !part.rows[event.row].every_pass) continue;
      steps.push_back({up_to(event.layer), first_row + event.row, event.starts});
    }
    steps.push_back({up_to(forward ? part.layers.end : part.layers.first)});
  }
  /// In the order of a pass.
  [[nodiscard]] static std::vector<Event> events_of(const PartChannel& part, plan::SlotKind kind);
  void pass(const plan::Slot& slot);
  void start(Sent& sent, const plan::Slot& slot);
  /// What a period later is compared with.
  struct Mark {
    RankEnd now{};
    std::vector<Time> free;  // by channel
    std::vector<Time> ends;  // of rows
  };
  [[nodiscard]] Mark mark() const;
  /// Whether periods can only go on as the one since then was: the rules of step/slot_state.h for one rank.
  [[nodiscard]] bool repeats(const Mark& was) const;
  void go_on(const Mark& was, std::int64_t times);

  const plan::Pipeline& pipeline_;
  std::vector<std::vector<Step>> ends_;  // by part and kind: of its first and its last micro-batch
  std::vector<std::vector<Step>> between_;
  std::vector<std::pair<std::int64_t, std::int64_t>> passes_;  // by part, the first and the last micro-batch
  std::vector<Sent> rows_;
  Time arrival_;
  std::vector<Time> free_;  // by channel
  bool begun_ = false;
  RankEnd now_;
};

}  // namespace ddlsim::whatif
