#include "ddlsim/plan/order.h"

#include <algorithm>
#include <string>

namespace ddlsim::plan {
namespace {

std::string name_of(const Slot& slot) {
  return (slot.forward ? "forward " : "backward ") + std::to_string(slot.micro_batch) + " of stage " +
         std::to_string(slot.stage);
}

/// What is done so far, by stage and micro-batch.
class Done {
 public:
  Done(std::size_t stages, std::int64_t micro_batches)
      : micro_batches_(static_cast<std::size_t>(micro_batches)), done_(2 * stages * micro_batches_) {}

  void add(const Slot& slot) { done_[index(slot)] = true; }
  [[nodiscard]] bool ready(const Slot& slot, std::size_t stages) const {
    if (slot.forward) return slot.stage == 0 || done_[index({slot.stage - 1, true, slot.micro_batch})];
    const bool seen = done_[index({slot.stage, true, slot.micro_batch})];
    return seen && (slot.stage + 1 == stages || done_[index({slot.stage + 1, false, slot.micro_batch})]);
  }

 private:
  [[nodiscard]] std::size_t index(const Slot& slot) const {
    return 2 * (slot.stage * micro_batches_ + static_cast<std::size_t>(slot.micro_batch)) + (slot.forward ? 0 : 1);
  }
  std::size_t micro_batches_;
  std::vector<bool> done_;
};

}  // namespace

std::vector<Slot> stage_order(PipelineSchedule schedule, std::size_t stage, std::size_t stages,
                              std::int64_t micro_batches) {
  const auto behind = static_cast<std::int64_t>(stages - stage - 1);
  const bool all_forward = schedule == PipelineSchedule::kGpipe;
  const std::int64_t ahead = all_forward ? micro_batches : std::min(micro_batches, behind);
  std::vector<Slot> order;
  order.reserve(static_cast<std::size_t>(2 * micro_batches));
  std::int64_t forward = 0;
  for (; forward < ahead; ++forward) order.push_back({stage, true, forward});
  for (std::int64_t backward = 0; backward < micro_batches; ++backward) {
    if (forward < micro_batches) order.push_back({stage, true, forward++});
    order.push_back({stage, false, backward});
  }
  return order;
}

Expected<std::vector<Slot>> order_of(std::span<const std::vector<Slot>> stages) {
  std::size_t all = 0;
  std::int64_t micro_batches = 1;
  for (const auto& stage : stages) {
    all += stage.size();
    for (const Slot& slot : stage) micro_batches = std::max(micro_batches, slot.micro_batch + 1);
  }
  Done done(stages.size(), micro_batches);
  std::vector<std::size_t> next(stages.size());
  std::vector<Slot> order;
  order.reserve(all);
  while (order.size() < all) {
    const std::size_t before = order.size();
    for (std::size_t s = 0; s < stages.size(); ++s) {
      while (next[s] < stages[s].size() && done.ready(stages[s][next[s]], stages.size())) {
        order.push_back(stages[s][next[s]++]);
        done.add(order.back());
      }
    }
    if (order.size() > before) continue;
    std::string stuck;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      if (next[s] < stages[s].size()) stuck += (stuck.empty() ? "" : ", ") + name_of(stages[s][next[s]]);
    }
    return fail(ErrorCode::kInvalidArgument, "a cyclic order: each of these waits for another: " + stuck);
  }
  return order;
}

}  // namespace ddlsim::plan
