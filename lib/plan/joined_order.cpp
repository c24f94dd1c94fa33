// All ranks' passes in one order, in which nothing stands before what it waits for.
#include <algorithm>
#include <string>
#include <utility>

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

constexpr unsigned char kForwardDone = 1;
constexpr unsigned char kInputDone = 2;

unsigned char bit(SlotKind kind) {
  if (kind == SlotKind::kForward) return kForwardDone;
  return kind == SlotKind::kBackwardWeights ? 0 : kInputDone;
}

}  // namespace

Period period_of(const Pipeline& pipeline) {
  switch (pipeline.schedule) {
    case PipelineSchedule::kOneForwardOneBackward: return {2, 1};
    case PipelineSchedule::kInterleaved:
      return {static_cast<std::size_t>(2 * pipeline.stages * pipeline.virtual_stages), pipeline.stages};
    case PipelineSchedule::kZeroBubbleH1:
    case PipelineSchedule::kZeroBubbleH2: return {3, 1};
    case PipelineSchedule::kZeroBubbleV: return {6, 1};
    case PipelineSchedule::kDualPipe: return {4, 1};
    case PipelineSchedule::kNone:
    case PipelineSchedule::kGpipe:
    case PipelineSchedule::kPipeDream:
    case PipelineSchedule::kPipeDream2Bw: break;
  }
  return {};
}

Middle middle_of(const Pipeline& pipeline, std::span<const Slot> order) {
  const auto [slots, later] = period_of(pipeline);
  if (slots == 0) return {};
  std::vector<std::pair<std::int64_t, std::int64_t>> passes;  // by part, the first and the last
  for (std::size_t part = 0; part < static_cast<std::size_t>(parts_of(pipeline)); ++part) {
    passes.emplace_back(first_micro_batch(pipeline, part), last_micro_batch(pipeline, part));
  }
  const auto between = [&](const Slot& slot) {
    const auto& [first, last] = passes[slot.part];
    return slot.micro_batch != first && slot.micro_batch != last;
  };
  Middle longest;
  std::size_t first = 0;  // of slots that are all between
  std::size_t like = 0;   // likewise, and from a period behind it on like those before them
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!between(order[i])) {
      first = like = i + 1;
    } else if (i >= first + slots) {
      Slot before = order[i - slots];
      before.micro_batch += later;
      if (before != order[i]) like = i + 1 - slots;
    }
    if (i + 1 - like > longest.end - longest.first) longest = {like, i + 1};
  }
  return longest;
}

JoinedOrder::JoinedOrder(const Pipeline& pipeline, std::span<const Slots> stages)
    : pipeline_(pipeline),
      stages_(stages),
      positions_(positions_of(pipeline)),
      done_(positions_ * static_cast<std::size_t>(pipeline.micro_batches)),
      next_(stages.size()),
      period_(period_of(pipeline)),
      reach_(period_.slots) {
  if (period_.slots == 0) return;
  for (const Slots& stage : stages) middles_.push_back(middle_of(pipeline, stage));
}

bool JoinedOrder::ready(const Slot& slot) const {
  const std::size_t at = position_of(pipeline_, {slot.stage, slot.part});
  const auto done = [&](std::size_t position) { return done_[index(position, slot.micro_batch)]; };
  switch (slot.kind) {
    case SlotKind::kForward: return at == 0 || (done(at - 1) & kForwardDone) != 0;
    case SlotKind::kBackward:
    case SlotKind::kBackwardInput:
      return (done(at) & kForwardDone) != 0 && (at + 1 == positions_ || (done(at + 1) & kInputDone) != 0);
    case SlotKind::kBackwardWeights: return (done(at) & kInputDone) != 0;
  }
  return false;
}

bool JoinedOrder::ready_at(std::size_t stage) const {
  const Slots& slots = stages_[stage];
  const std::size_t at = next_[stage];
  return at < slots.size() && ready(slots[at]) && (!slots[at].paired || ready(slots[at + 1]));
}

void JoinedOrder::take(const Slot& slot) {
  done_[index(position_of(pipeline_, {slot.stage, slot.part}), slot.micro_batch)] |= bit(slot.kind);
}

bool JoinedOrder::seek() {
  for (;;) {
    for (; stage_ < stages_.size(); ++stage_) {
      if (ready_at(stage_)) return true;
    }
    if (!took_) return false;
    stage_ = 0;
    took_ = false;
  }
}

Expected<std::span<const Slot>> JoinedOrder::next() {
  if (!seek()) {
    std::string stuck;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (next_[s] == stages_[s].size()) continue;
      stuck += (stuck.empty() ? "" : ", ") + slot_words(stages_[s][next_[s]], parts_of(pipeline_) > 1);
    }
    if (stuck.empty()) return std::span<const Slot>{};
    return fail(ErrorCode::kInvalidArgument, "a cyclic order: each of these waits for another: " + stuck);
  }
  std::size_t& at = next_[stage_];
  const std::span<const Slot> slots(&stages_[stage_][at], stages_[stage_][at].paired ? 2 : 1);
  for (const Slot& slot : slots) take(slot);
  at += slots.size();
  took_ = true;
  return slots;
}

std::optional<JoinedOrder::Again> JoinedOrder::again() {
  if (middles_.empty() || !seek() || took_) return {};
  if (mark_.empty()) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (next_[s] < middles_[s].first) return {};
    }
    mark_ = next_;
    return Again{};
  }
  went_ = next_[0] - mark_[0];
  bool alike = went_ > 0 && went_ % period_.slots == 0;
  std::size_t left = middles_[0].end - middles_[0].first;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    alike = alike && next_[s] - mark_[s] == went_;
    left = std::min(left, middles_[s].end - std::min(next_[s], middles_[s].end));
  }
  if (left == 0) {
    middles_.clear();
    return {};
  }
  // Brent's search for a cycle: what is compared with moves on, each time after twice as long.
  if (!alike && went_ < reach_) return {};
  mark_ = next_;
  reach_ *= alike ? 1 : 2;
  if (!alike) return Again{};
  return Again{static_cast<std::int64_t>(left / went_),
               static_cast<std::int64_t>(went_ / period_.slots) * period_.micro_batches};
}

void JoinedOrder::skip(std::int64_t times) {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const std::size_t end = next_[s] + static_cast<std::size_t>(times) * went_;
    while (next_[s] < end) take(stages_[s][next_[s]++]);
  }
  stage_ = 0;
  middles_.clear();
}

Expected<Slots> order_of(const Pipeline& pipeline, std::span<const Slots> stages) {
  JoinedOrder joined(pipeline, stages);
  Slots order;
  for (;;) {
    const auto slots = joined.next();
    if (!slots) return tl::unexpected<Error>(slots.error());
    if (slots->empty()) return order;
    order.insert(order.end(), slots->begin(), slots->end());
  }
}

}  // namespace ddlsim::plan
