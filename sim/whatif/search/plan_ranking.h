// Which of the plans that were predicted are shown. Private to the room.
#pragma once

#include <cstddef>
#include <optional>
#include <tuple>
#include <vector>

#include "ddlsim/support/units.h"
#include "search/plan_space.h"

namespace ddlsim::whatif {

/// A plan whose step is known.
struct Tried {
  PlanId id;
  Split split;
  Time step{};
  DataSize memory{};
  Money cost{};
  double value = 0;   // of the objective
  double second = 0;  // among equals

  friend bool operator<(const Tried& a, const Tried& b) {
    return std::tie(a.value, a.second, a.id) < std::tie(b.value, b.second, b.id);
  }
};

/// Whether `one` is no other choice than `better`: the same servers and tensor, pipeline, context and expert ranks (so
/// as many replicas), but for 0.5 % no faster and no cheaper, and but for 2 % no smaller.
[[nodiscard]] bool is_like(const Tried& one, const Tried& better);

/// Whether Megatron-LM has the schedule: 1f1b and interleaved (no pipeline is 1f1b of one stage).
[[nodiscard]] bool megatron_has(plan::PipelineSchedule schedule);

/// The best of the plans that were tried, and the front of step time, memory and money; the same in whatever order they
/// come. Of the best are left out those that are like a better one that is shown.
class PlanRanking {
 public:
  /// `next` beside the best.
  explicit PlanRanking(std::size_t next) : next_(next) {}

  void keep(const Tried& tried);

  [[nodiscard]] const std::vector<Tried>& best() const { return best_; }
  [[nodiscard]] const std::vector<Tried>& front() const { return front_; }
  /// Of those that take no longer, fastest first.
  [[nodiscard]] std::vector<Tried> front_until(Time longest) const;
  /// The best of those whose schedule Megatron-LM has.
  [[nodiscard]] const std::optional<Tried>& megatron() const { return megatron_; }
  /// None that comes after it is shown; null: any may be. A plan that several are like makes it another, later one.
  [[nodiscard]] const Tried* last() const;

 private:
  /// So many are looked through: fewer than are asked for may differ.
  [[nodiscard]] std::size_t most() const { return (next_ + 1) * 8; }
  void leave_out_alike();

  std::size_t next_;
  std::vector<Tried> tried_;  // sorted, the first of them
  std::vector<Tried> best_;   // of those, that are like no better one: as many as are shown
  std::vector<Tried> front_;  // dominated by none
  std::optional<Tried> megatron_;
};

}  // namespace ddlsim::whatif
