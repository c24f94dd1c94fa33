// All ranks' passes in one order, in which nothing stands before what it waits for.
#include <algorithm>
#include <string>
#include <utility>

#include "ddlsim/plan/order.h"

namespace ddlsim::plan {
namespace {

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

}  // namespace

JoinedOrder::JoinedOrder(const Pipeline& pipeline, std::span<const RankOrder> stages)
    : pipeline_(pipeline),
      stages_(stages),
      each_(static_cast<std::size_t>(parts_of(pipeline))),
      parts_(stages.size() * each_),
      next_(stages.size()),
      period_(period_of(pipeline)),
      repeats_(period_.slots > 0),
      reach_(period_.slots) {
  const std::size_t positions = positions_of(pipeline);
  const auto at = [&](std::size_t position, std::int64_t direction) -> Part& {
    const Place place = place_of(pipeline, position, direction);
    return parts_[place.stage * each_ + place.part];
  };
  for (std::int64_t direction = 0; direction < directions_of(pipeline.schedule); ++direction) {
    for (std::size_t position = 1; position < positions; ++position) {
      at(position, direction).before = &at(position - 1, direction);
      at(position - 1, direction).behind = &at(position, direction);
    }
  }
}

bool JoinedOrder::ready(const Slot& slot) const {
  const Part& part = part_of(slot);
  switch (slot.kind) {
    case SlotKind::kForward: return part.before == nullptr || part.before->forward > slot.micro_batch;
    case SlotKind::kBackward:
    case SlotKind::kBackwardInput:
      return part.forward > slot.micro_batch && (part.behind == nullptr || part.behind->input > slot.micro_batch);
    case SlotKind::kBackwardWeights: return part.input > slot.micro_batch;
  }
  return false;
}

bool JoinedOrder::ready_at(std::size_t stage) const {
  const RankOrder& order = stages_[stage];
  const std::size_t at = next_[stage];
  if (at == order.size()) return false;
  const Slot slot = order[at];
  return ready(slot) && (!slot.paired || ready(order[at + 1]));
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
  std::size_t count = 0;
  do {
    const Slot& slot = taken_[count++] = stages_[stage_][next_[stage_]++];
    Part& part = part_of(slot);
    if (slot.kind == SlotKind::kForward) part.forward = slot.micro_batch + 1;
    if (slot.kind == SlotKind::kBackward || slot.kind == SlotKind::kBackwardInput) part.input = slot.micro_batch + 1;
  } while (taken_[count - 1].paired);
  took_ = true;
  return std::span<const Slot>(taken_).first(count);
}

std::optional<JoinedOrder::Again> JoinedOrder::again() {
  if (!repeats_ || !seek() || took_) return {};
  if (mark_.empty()) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (next_[s] < stages_[s].middle().first) return {};
    }
    mark_ = next_;
    return Again{};
  }
  went_ = next_[0] - mark_[0];
  bool alike = went_ > 0 && went_ % period_.slots == 0;
  std::size_t left = stages_[0].middle().end - stages_[0].middle().first;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    alike = alike && next_[s] - mark_[s] == went_;
    const std::size_t end = stages_[s].middle().end;
    left = std::min(left, end - std::min(next_[s], end));
  }
  if (left == 0) {
    repeats_ = false;
    return {};
  }
  // Brent's search for a cycle: what is compared with moves on, each time after twice as long.
  if (!alike && went_ < reach_) return {};
  mark_ = next_;
  reach_ *= alike ? 1 : 2;
  if (!alike) return Again{};
  return Again{static_cast<std::int64_t>(left / went_), later()};
}

void JoinedOrder::skip(std::int64_t times) {
  for (std::size_t& next : next_) next += static_cast<std::size_t>(times) * went_;
  for (Part& part : parts_) {
    part.forward += times * later();
    part.input += times * later();
  }
  stage_ = 0;
  repeats_ = false;
}

Expected<std::vector<Slot>> order_of(const Pipeline& pipeline, std::span<const RankOrder> stages) {
  JoinedOrder joined(pipeline, stages);
  std::vector<Slot> order;
  for (;;) {
    const auto slots = joined.next();
    if (!slots) return tl::unexpected<Error>(slots.error());
    if (slots->empty()) return order;
    order.insert(order.end(), slots->begin(), slots->end());
  }
}

}  // namespace ddlsim::plan
