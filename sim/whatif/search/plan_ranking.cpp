#include "search/plan_ranking.h"

#include <algorithm>

namespace ddlsim::whatif {
namespace {

/// What a plan of the same degrees must save to be worth a line of its own.
constexpr double kWorthTime = 0.995;
constexpr double kWorthMemory = 0.98;

bool same_degrees(const Split& a, const Split& b) {
  return a.nodes == b.nodes && a.tensor == b.tensor && a.context == b.context && a.pipeline == b.pipeline &&
         a.expert == b.expert && a.whole_experts == b.whole_experts;
}

}  // namespace

bool is_like(const Tried& one, const Tried& better) {
  return same_degrees(one.split, better.split) && one.step >= better.step * kWorthTime &&
         one.memory >= better.memory * kWorthMemory && one.cost >= better.cost * kWorthTime;
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
    leave_out_alike();
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

void PlanRanking::leave_out_alike() {
  best_.clear();
  for (std::size_t i = 0; i < tried_.size() && best_.size() <= next_; ++i) {
    const auto alike = [&](const Tried& better) { return is_like(tried_[i], better); };
    if (std::none_of(best_.begin(), best_.end(), alike)) {
      best_.push_back(tried_[i]);
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
