// In which order the stages of a pipeline take the passes of their micro-batches.
//
// p ranks, m micro-batches; a forward pass of a rank's layers takes F, backward I for the input's gradient and W for
// the weights', B = I + W. Stages that are equal, and nothing to send:
// ```
//   schedule       order of rank s                                               bubble              micro-batches kept
//   none           F0 B0 F1 B1 ...: one is back before the next one starts       (p-1) m (F+B)       1
//   gpipe          F0 ... Fm-1 B0 ... Bm-1                                       (p-1)(F+B)          m
//   1f1b           p-s-1 forward passes, then one forward and one backward       (p-1)(F+B)          p-s
//                  in turn
//   interleaved    v parts a rank, in turns of p micro-batches;                  (p-1)(F+B)/v        1 + (p-1)/(pv) of
//                  2(p-s-1) + (v-1)p forward passes of a part first                                  p at s = 0
//   zb-h1          1f1b with B in two: W of a micro-batch after I of the s-th    (p-1)(F+I-W)        p
//                  behind it
//   zb-h2          2(p-s)-1 forward passes first, W 2s behind                    (p-1)(F+I-2W)       2p-1
//   zbv            two parts a rank, there and back; F+I+W in turn               0                   p
//   dualpipe       two parts a rank, one of each direction; a forward of one     (p/2-1)(F&B +       p+1
//                  direction with a backward of the other, F&B                   B - 3W)
//   pipedream      1f1b without end: the step is m times the slowest rank's F+B  none                p-s
//   pipedream-2bw  the same, and gradients are summed over the step              none                p-s
// ```
// `stage_order` is one rank's sequence. `order_of` joins them so that nothing stands before what it waits for: forward
// after forward of the position before, backward after backward of the position behind, W after I. Who schedules or
// simulates takes the slots one by one and always finds what a slot needs. `RankOrder` and `JoinedOrder` are the same
// without writing all of it down; the latter says where all ranks repeat themselves.
//
// A pair (Slot::paired): DualPipe's F&B. Both inputs come before it starts, both outputs leave when both are done.
// Steps that do not end together: zb-h2 and zbv let a rank go on to the next step by itself, with the optimizer's
// checks afterwards (Qi et al. 2024, section 4): a step is, as there, the longest time from a rank's first pass, or
// what it gathers for that, to its end of the step. All ranks can repeat themselves after that time; where stages are
// unequal they might a little sooner. PipeDream never empties: `ends_together`, `is_asynchronous`.
//
// Where the published bubbles are not what these orders take, equal stages (tests hold both):
//   zb-h1     I < W: (p-1) F, as the last rank starts so late and must do all its work.
//   zb-h2     never below 0; the published (p-1)(F+I-2W) where F + I >= 2W.
//   zbv       0 where F = I = W; else a part of a pass per rank.
//   dualpipe  the published one where F = I = W and F&B = F+B (half of the ranks run fewer pairs than the others).
// Sources: Huang et al., GPipe, NeurIPS 2019; Narayanan et al., PipeDream, SOSP 2019, PipeDream-2BW, ICML 2021, and
// Megatron-LM, SC 2021, section 2.2; Qi et al., zero bubble, ICLR 2024 (H1, H2) and its V schedule as
// torch.distributed.pipelining has it (ScheduleZBVZeroBubble); DeepSeek's dualpipe/dualpipe.py, `step`.
//
// Worked example: 2 stages, 4 micro-batches, 1F1B: stage 0: F0 F1 B0 F2 B1 F3 B2 B3; stage 1: F0 B0 F1 B1 F2 B2 F3 B3.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ddlsim/plan/parallel.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"

namespace ddlsim::plan {

/// Ranks in a row, and what goes through them.
struct Pipeline {
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  std::int64_t stages = 1;
  std::int64_t virtual_stages = 1;  // interleaved
  std::int64_t micro_batches = 1;
};

/// Of a plan whose classes are stages; of one class F0 B0 F1 B1 ..., whatever the schedule.
[[nodiscard]] Pipeline pipeline_of(const StepPlan& plan);

/// Errors: kInvalidArgument, with what would do, for numbers of stages and micro-batches that a schedule does not have.
[[nodiscard]] Expected<void> check(const Pipeline& pipeline);

/// Parts of one rank.
[[nodiscard]] std::int64_t parts_of(const Pipeline& pipeline);
/// Parts that a micro-batch goes through.
[[nodiscard]] std::size_t positions_of(const Pipeline& pipeline);
/// In how many directions micro-batches go: DualPipe has two, and sends the first half of them in one.
[[nodiscard]] constexpr std::int64_t directions_of(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::kDualPipe ? 2 : 1;
}
/// A rank's part.
struct Place {
  std::size_t stage = 0;
  std::size_t part = 0;

  friend bool operator==(const Place&, const Place&) = default;
};
[[nodiscard]] std::size_t position_of(const Pipeline& pipeline, Place place);
/// Who has a position. `direction`: 0, or with DualPipe 0 or 1.
[[nodiscard]] Place place_of(const Pipeline& pipeline, std::size_t position, std::int64_t direction = 0);

/// Passes that a part makes in a step, its first micro-batch, and its last: sums of gradients leave with it.
[[nodiscard]] std::int64_t passes_of(const Pipeline& pipeline);
[[nodiscard]] std::int64_t first_micro_batch(const Pipeline& pipeline, std::size_t part);
[[nodiscard]] std::int64_t last_micro_batch(const Pipeline& pipeline, std::size_t part);
/// The part whose backward a rank does last.
[[nodiscard]] std::size_t last_part(const Pipeline& pipeline, std::size_t stage);

/// Whether backward comes in two, or may.
[[nodiscard]] bool splits_backward(PipelineSchedule schedule);
/// Whether all ranks end a step before any of them starts the next one.
[[nodiscard]] bool ends_together(PipelineSchedule schedule);
/// Whether the pipeline never empties, and weights are updated while older micro-batches are on their way.
[[nodiscard]] bool is_asynchronous(PipelineSchedule schedule);

enum class SlotKind : std::uint8_t {
  kForward,
  kBackward,         // all of it
  kBackwardInput,    // the input's gradient
  kBackwardWeights,  // the weights' gradients
};

/// One pass of one micro-batch through one part.
struct Slot {
  std::uint32_t stage = 0;
  std::uint16_t part = 0;
  SlotKind kind = SlotKind::kForward;
  bool paired = false;  // a forward pass that runs with the backward pass behind it
  std::int64_t micro_batch = 0;

  friend bool operator==(const Slot&, const Slot&) = default;
};

/// Whether a row that is ready with a layer's backward starts in a slot of this kind: gradients that the update needs
/// are there after the weights' pass, all else after the input's.
[[nodiscard]] constexpr bool starts_in(const Row& row, SlotKind kind) {
  const bool of_weights = row.needed.at == Moment::kUpdate;
  if (kind == SlotKind::kBackwardInput) return !of_weights;
  return kind != SlotKind::kBackwardWeights || of_weights;
}

/// What one rank does, in its order.
[[nodiscard]] std::vector<Slot> stage_order(const Pipeline& pipeline, std::size_t stage);

/// What a rank's order repeats in its middle: so many slots, of micro-batches so much later each time. No slots:
/// nothing (none, gpipe, and what never empties).
struct Period {
  std::size_t slots = 0;
  std::int64_t micro_batches = 0;
};
[[nodiscard]] Period period_of(const Pipeline& pipeline);

/// The middle of a rank's order: slots [first, end) are of no part's first or last micro-batch, and each but the first
/// period's is the slot a period before it.
struct Middle {
  std::size_t first = 0;
  std::size_t end = 0;
};

/// stage_order with what repeats itself written once: it takes as long as for a few micro-batches per rank, however
/// many there are.
class RankOrder {
 public:
  RankOrder(const Pipeline& pipeline, std::size_t stage);
  /// Any other sequence, in which every part takes its micro-batches in their order.
  RankOrder(const Pipeline& pipeline, std::vector<Slot> slots);

  [[nodiscard]] std::size_t size() const { return slots_.size() + left_out_; }
  [[nodiscard]] Slot operator[](std::size_t i) const;
  [[nodiscard]] const Middle& middle() const { return middle_; }

 private:
  std::vector<Slot> slots_;  // of fewer micro-batches
  Period period_;
  std::size_t left_out_ = 0;        // slots, whole periods before the end of the middle
  std::int64_t later_ = 0;          // micro-batches of what comes behind those
  std::int64_t second_begins_ = 0;  // so many micro-batches later: DualPipe's other direction
  Middle middle_;
};

/// All ranks' sequences as one; the passes of a pair stand side by side. Errors: kInvalidArgument, naming the slots
/// that wait for each other, where the sequences cannot be joined: a cyclic order.
[[nodiscard]] Expected<std::vector<Slot>> order_of(const Pipeline& pipeline, std::span<const RankOrder> stages);

/// order_of a slot at a time, those of a pair together. Where all ranks have come back to the same point of their
/// orders' middles, and will again, whoever takes the slots may leave whole rounds of that out:
/// ```
///   for (;;) {
///     if (const auto again = order.again()) { ... order.skip(n) ... }   // n of again->times
///     const auto slots = order.next();
///     if (!slots || slots->empty()) break;
///     ...
///   }
/// ```
class JoinedOrder {
 public:
  /// Both must outlive it.
  JoinedOrder(const Pipeline& pipeline, std::span<const RankOrder> stages);
  JoinedOrder(const JoinedOrder&) = delete;
  JoinedOrder& operator=(const JoinedOrder&) = delete;

  /// Nothing at the end; they stay until it is asked again. Errors: as order_of.
  [[nodiscard]] Expected<std::span<const Slot>> next();

  /// All ranks will take what they took since again() last said so `times` times more, of micro-batches so much later;
  /// 0: the first time that it says so.
  struct Again {
    std::int64_t times = 0;
    std::int64_t micro_batches = 0;
  };
  [[nodiscard]] std::optional<Again> again();
  void skip(std::int64_t times);

 private:
  /// A rank's part: whose passes its own wait for, and the micro-batches that its passes are done with, up to these.
  struct Part {
    const Part* before = nullptr;
    const Part* behind = nullptr;
    std::int64_t forward = 0;
    std::int64_t input = 0;
  };
  [[nodiscard]] Part& part_of(const Slot& slot) { return parts_[slot.stage * each_ + slot.part]; }
  [[nodiscard]] const Part& part_of(const Slot& slot) const { return parts_[slot.stage * each_ + slot.part]; }
  [[nodiscard]] bool ready(const Slot& slot) const;
  [[nodiscard]] bool ready_at(std::size_t stage) const;
  /// Goes on to a rank that has a slot ready. False: all wait, or have ended.
  bool seek();
  [[nodiscard]] std::int64_t later() const {  // micro-batches of a round
    return static_cast<std::int64_t>(went_ / period_.slots) * period_.micro_batches;
  }

  const Pipeline& pipeline_;
  std::span<const RankOrder> stages_;
  std::size_t each_;         // parts of a rank
  std::vector<Part> parts_;  // by rank and part
  std::array<Slot, 2> taken_;
  std::vector<std::size_t> next_;  // by rank
  std::size_t stage_ = 0;
  bool took_ = false;  // a slot since the round of all ranks began
  Period period_;
  bool repeats_;                   // no longer at the end
  std::vector<std::size_t> mark_;  // next_ when again() last said something
  std::size_t went_ = 0;           // slots of the first rank since then
  std::size_t reach_ = 0;          // how many until something else is remembered
};

/// Micro-batches of each part that a rank keeps for backward, when it keeps the most. `kept` is what one of each part
/// takes, in any unit.
[[nodiscard]] std::vector<std::int64_t> in_flight(const Pipeline& pipeline, std::size_t stage,
                                                  std::span<const double> kept);
/// Versions of its weights that a rank keeps: PipeDream one for every micro-batch on its way, PipeDream-2BW two.
[[nodiscard]] std::int64_t weight_versions(const Pipeline& pipeline, std::size_t stage);

/// What one micro-batch takes at a position, everything that is in the way included.
struct PartTime {
  Time forward{};
  Time backward{};  // all of it
  Time weights{};   // of backward; zero where backward is one
};

/// A bound that no schedule of these parts is below, in closed form: the step's least time, sends for nothing. Equal
/// stages of none, gpipe, 1f1b, interleaved, zb-h1 and zb-h2 reach it; dualpipe, zbv and unequal stages may take
/// longer. `positions` are positions_of(pipeline). It never exceeds what step/schedule.h makes of the same times.
[[nodiscard]] Time least_step(const Pipeline& pipeline, std::span<const PartTime> positions);

}  // namespace ddlsim::plan
