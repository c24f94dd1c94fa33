#include "search/plan_ranking.h"

#include <algorithm>

namespace ddlsim::whatif {
namespace {

/// No slower, no larger, no dearer, but for what rounding leaves.
bool is_covered(const Tried& one, const Tried& by) {
  constexpr double kSame = 1 + 1e-9;
  return by.step <= one.step * kSame && by.memory <= one.memory * kSame && by.cost <= one.cost * kSame;
}

}  // namespace

bool one_choice_apart(const Split& a, const Split& b) {
  const bool same_ranks =
      a.nodes == b.nodes && a.tensor == b.tensor && a.context == b.context && a.pipeline == b.pipeline;
  if (!same_ranks) {
    return false;
  }
  int apart = 0;
  const auto count = [&](bool differ) { apart += differ ? 1 : 0; };
  count(a.expert != b.expert);
  count(a.whole_experts != b.whole_experts);
  count(a.batch != b.batch);
  count(a.schedule != b.schedule || a.virtual_stages != b.virtual_stages);
  count((a.cut == StageCut::kUsual) != (b.cut == StageCut::kUsual));
  count(a.recompute != b.recompute);
  count(a.zero != b.zero);
  count(a.sequence != b.sequence);
  count(a.context_by != b.context_by);
  return apart == 1;
}

bool megatron_has(plan::PipelineSchedule schedule) {
  return schedule == plan::PipelineSchedule::kOneForwardOneBackward || schedule == plan::PipelineSchedule::kInterleaved;
}

void PlanRanking::keep(const Tried& tried) {
  if (tried_.size() < most() || tried < tried_.back()) {
    tried_.insert(std::upper_bound(tried_.begin(), tried_.end(), tried), tried);
    if (tried_.size() > most()) {
      tried_.pop_back();
    }
    leave_out_covered();
  }
  if (megatron_has(tried.split.schedule) && (!megatron_ || tried < *megatron_)) {
    megatron_ = tried;
  }
  const auto covers = [](const Tried& a, const Tried& b) {
    return a.step <= b.step && a.memory <= b.memory && a.cost <= b.cost;
  };
  if (std::any_of(front_.begin(), front_.end(), [&](const Tried& other) { return covers(other, tried); })) {
    return;
  }
  std::erase_if(front_, [&](const Tried& other) { return covers(tried, other); });
  front_.push_back(tried);
}

void PlanRanking::leave_out_covered() {
  best_.clear();
  for (std::size_t i = 0; i < tried_.size() && best_.size() <= next_; ++i) {
    const Tried& one = tried_[i];
    const bool copy = std::any_of(
        tried_.begin(), tried_.begin() + static_cast<std::ptrdiff_t>(i),
        [&](const Tried& other) { return is_covered(one, other) && one_choice_apart(one.split, other.split); });
    if (!copy) {
      best_.push_back(one);
    }
  }
}

std::vector<Tried> PlanRanking::front_until(Time longest) const {
  std::vector<Tried> sorted = front_;
  std::erase_if(sorted, [&](const Tried& one) { return one.step > longest; });
  std::sort(sorted.begin(), sorted.end(), [](const Tried& a, const Tried& b) {
    return std::tie(a.step, a.memory, a.id) < std::tie(b.step, b.memory, b.id);
  });
  return sorted;
}

const Tried* PlanRanking::last() const {
  if (best_.size() > next_) {
    return &best_.back();
  }
  return tried_.size() == most() ? &tried_.back() : nullptr;
}

}  // namespace ddlsim::whatif
