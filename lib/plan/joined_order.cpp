// All ranks' passes in one order, in which nothing stands before what it waits for.
#include <string>

#include "ddlsim/plan/order.h"

namespace ddlsim::plan {
namespace {

using Slots = std::vector<Slot>;

std::string slot_words(const Slot& slot, bool parts) {
  std::string text;
  switch (slot.kind) {
    case SlotKind::kForward: text = "forward "; break;
    case SlotKind::kBackward: text = "backward "; break;
    case SlotKind::kBackwardInput: text = "backward (input) "; break;
    case SlotKind::kBackwardWeights: text = "backward (weights) "; break;
  }
  text += std::to_string(slot.micro_batch) + " of stage " + std::to_string(slot.stage);
  return parts ? text + ", part " + std::to_string(slot.part) : text;
}

/// What is done so far, by position and micro-batch.
class Done {
 public:
  Done(const Pipeline& pipeline, std::int64_t micro_batches)
      : pipeline_(pipeline),
        positions_(positions_of(pipeline)),
        micro_batches_(static_cast<std::size_t>(micro_batches)),
        done_(positions_ * micro_batches_) {}

  void add(const Slot& slot) { done_[index(position(slot), slot.micro_batch)] |= bit(slot.kind); }
  [[nodiscard]] bool ready(const Slot& slot) const {
    const std::size_t at = position(slot);
    const std::int64_t m = slot.micro_batch;
    switch (slot.kind) {
      case SlotKind::kForward: return at == 0 || (done(at - 1, m) & kForwardDone) != 0;
      case SlotKind::kBackward:
      case SlotKind::kBackwardInput:
        return (done(at, m) & kForwardDone) != 0 && (at + 1 == positions_ || (done(at + 1, m) & kInputDone) != 0);
      case SlotKind::kBackwardWeights: return (done(at, m) & kInputDone) != 0;
    }
    return false;
  }

 private:
  static constexpr unsigned char kForwardDone = 1;
  static constexpr unsigned char kInputDone = 2;
  static unsigned char bit(SlotKind kind) {
    if (kind == SlotKind::kForward) return kForwardDone;
    return kind == SlotKind::kBackwardWeights ? 0 : kInputDone;
  }
  [[nodiscard]] std::size_t position(const Slot& slot) const { return position_of(pipeline_, {slot.stage, slot.part}); }
  [[nodiscard]] std::size_t index(std::size_t at, std::int64_t micro_batch) const {
    return at * micro_batches_ + static_cast<std::size_t>(micro_batch);
  }
  [[nodiscard]] unsigned char done(std::size_t at, std::int64_t micro_batch) const {
    return done_[index(at, micro_batch)];
  }

  const Pipeline& pipeline_;
  std::size_t positions_;
  std::size_t micro_batches_;
  std::vector<unsigned char> done_;
};

}  // namespace

Expected<void> visit_in_order(const Pipeline& pipeline, std::span<const std::vector<Slot>> stages,
                              const std::function<bool(std::span<const Slot>)>& visit) {
  std::size_t left = 0;
  for (const Slots& stage : stages) left += stage.size();
  Done done(pipeline, pipeline.micro_batches);
  std::vector<std::size_t> next(stages.size());
  while (left > 0) {
    const std::size_t before = left;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const Slots& stage = stages[s];
      std::size_t& at = next[s];
      while (at < stage.size() && done.ready(stage[at])) {
        const std::size_t together = stage[at].paired ? 2 : 1;
        if (together == 2 && !done.ready(stage[at + 1])) break;
        const std::span<const Slot> slots(&stage[at], together);
        for (const Slot& slot : slots) done.add(slot);
        at += together;
        left -= together;
        if (!visit(slots)) return {};
      }
    }
    if (left < before) continue;
    std::string stuck;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      if (next[s] < stages[s].size()) {
        stuck += (stuck.empty() ? "" : ", ") + slot_words(stages[s][next[s]], parts_of(pipeline) > 1);
      }
    }
    return fail(ErrorCode::kInvalidArgument, "a cyclic order: each of these waits for another: " + stuck);
  }
  return {};
}

Expected<std::vector<Slot>> order_of(const Pipeline& pipeline, std::span<const std::vector<Slot>> stages) {
  Slots order;
  const auto visited = visit_in_order(pipeline, stages, [&](std::span<const Slot> slots) {
    order.insert(order.end(), slots.begin(), slots.end());
    return true;
  });
  if (!visited) return tl::unexpected<Error>(visited.error());
  return order;
}

}  // namespace ddlsim::plan
