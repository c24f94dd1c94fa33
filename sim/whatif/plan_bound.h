// Lower bounds of what a plan takes and holds (whatif/plan_search.h has the equations). Private to the room.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "ddlsim/plan/memory.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "plan_space.h"

namespace ddlsim::whatif {

/// One pass of a whole model, cut for its ranks but in one stage: sums over the layers before each.
struct PlanShape {
  std::vector<Time> forward;  // kernels, and what stands in their way
  std::vector<Time> backward;
  std::vector<Time> kernels;   // forward and backward, kernels alone
  std::vector<double> issued;  // kernels that the CPU issues
  Time launch_interval{};
  double waiting = 0;  // for the slowest GPU, as a share of kernels' time

  [[nodiscard]] std::size_t layers() const { return forward.size() - 1; }
};

/// What a stage sends to its replicas, and its update.
struct StageExchange {
  Time every_pass{};  // on the channel of its replicas, up to the update
  Time once{};        // that a backward pass of the last micro-batch makes ready
  Time after{};       // in the way after the update
  Time update{};
};

class PlanBounds {
 public:
  explicit PlanBounds(const PlanSpace& space)
      : space_(space), shapes_(space.shapes().size()), held_(space.shapes().size()) {}

  /// Null: the lowering refuses it.
  [[nodiscard]] const PlanShape* shape(std::size_t index);
  /// By kernels and stages alone. Infinite where the lowering refuses the shape.
  [[nodiscard]] Time by_kernels(const Candidate& candidate);
  /// With what replicas exchange. Infinite where the lowering refuses the plan.
  [[nodiscard]] Time with_exchange(const Candidate& candidate);
  /// Of the fullest GPU's memory.
  [[nodiscard]] DataSize memory(const Candidate& candidate);

 private:
  using StagesKey = std::tuple<std::int64_t, plan::PipelineSchedule, std::int64_t>;  // stages, schedule, chunks
  struct ExchangeKey {
    ShapeKey shape;
    std::int64_t stages = 1;
    int zero = 0;
    std::int64_t passes = 0;  // 0: makes no difference
    friend auto operator<=>(const ExchangeKey&, const ExchangeKey&) = default;
  };
  struct Exchange {
    bool legal = true;
    bool bounds = true;  // false: of another kind than is bounded here
    std::vector<StageExchange> stages;
  };

  std::optional<PlanShape> make_shape(std::size_t index);
  Exchange make_exchange(const Split& split) const;
  const std::vector<std::size_t>& starts_of(const Candidate& candidate);
  /// What a stage does between the first micro-batch's arrival and the last one's departure, and around that.
  Time laid_out(const Candidate& candidate, const std::vector<StageExchange>* exchange);

  const PlanSpace& space_;
  std::vector<std::optional<std::optional<PlanShape>>> shapes_;  // outer: worked out yet
  /// With all states, one micro-batch in flight; nothing: refused.
  std::vector<std::optional<std::optional<plan::MemoryFootprint>>> held_;
  std::map<StagesKey, std::vector<std::size_t>> starts_;
  std::map<ExchangeKey, Exchange> exchanges_;
};

}  // namespace ddlsim::whatif
