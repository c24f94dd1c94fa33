// Lower bounds of what a plan takes and holds (whatif/plan_search.h has the equations). Private to the room.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ddlsim/cost/price_memo.h"
#include "ddlsim/plan/lowerer.h"
#include "ddlsim/plan/memory.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/model.h"
#include "plan_space.h"

namespace ddlsim::whatif {

/// What a search works out once for all plans that share it.
struct PlanTools {
  plan::Lowerer lowerer;  // first: prices are named by its lists
  cost::PriceMemo prices;
};

/// The step of a lowered job.
[[nodiscard]] Expected<Time> step_of(const Scenario& job, std::shared_ptr<const plan::StepPlan> plan, PlanTools& tools);

/// One pass of a whole model, cut for its ranks but in one stage: sums over the layers before each.
struct PlanShape {
  std::vector<Time> forward;  // kernels, and what stands in their way
  std::vector<Time> backward;
  std::vector<Time> weights;   // of backward: what schedules may put off
  std::vector<Time> kernels;   // forward and backward, kernels alone
  std::vector<double> issued;  // kernels that the CPU issues
  Time launch_interval{};
  double waiting = 0;  // for the slowest GPU, as a share of kernels' time

  [[nodiscard]] std::size_t layers() const { return forward.size() - 1; }
  [[nodiscard]] Time whole() const { return forward.back() + backward.back(); }
};

/// What a stage sends to its replicas, and its update.
struct StageExchange {
  Time every_pass{};  // on the channel of its replicas, up to the update
  Time once{};        // that a backward pass of the last micro-batch makes ready
  Time after{};       // in the way after the update
  Time update{};
};

/// A model that stands for one with more of the same blocks: prices of a layer depend on its shape and neighbours
/// alone.
struct ShortModel {
  std::shared_ptr<const workload::Model> model;
  std::vector<std::size_t> source;  // of each layer of the whole model: its like here
};

class PlanBounds {
 public:
  PlanBounds(const PlanSpace& space, PlanTools& tools);

  // `index` is that of the shape.
  /// Of every plan with that shape and so many stages and passes. Infinite where the lowering refuses the shape.
  [[nodiscard]] Time by_mean(const Split& split, std::size_t index);
  /// By kernels and stages.
  [[nodiscard]] Time by_kernels(const Split& split, std::size_t index);
  /// With what replicas exchange.
  [[nodiscard]] Time with_exchange(const Split& split, std::size_t index);
  /// Of the fullest GPU's memory. Infinite where the lowering refuses the shape.
  [[nodiscard]] DataSize memory(const Split& split, std::size_t index);
  /// The same of all plans with that shape, so many stages, and so many parts per rank at most.
  [[nodiscard]] DataSize least_memory(const Split& split, std::size_t index, std::int64_t parts);
  /// Shapes that were priced.
  [[nodiscard]] std::int64_t priced_shapes() const { return priced_; }

 private:
  using StagesKey = std::tuple<std::int64_t, plan::PipelineSchedule, std::int64_t>;  // stages, schedule, chunks
  struct ExchangeKey {
    ShapeKey shape;
    StagesKey stages{};
    int zero = 0;
    std::int64_t passes = 0;  // 0: makes no difference
    friend auto operator<=>(const ExchangeKey&, const ExchangeKey&) = default;
  };
  struct Exchange {
    bool bounds = true;  // false: of another kind than is bounded here, or refused
    std::vector<StageExchange> stages;
  };

  /// The layers of a position of the pipeline.
  struct Place {
    std::size_t first = 0;
    std::size_t end = 0;
  };

  const PlanShape* shape(std::size_t index);
  [[nodiscard]] std::optional<PlanShape> make_shape(const ShapeKey& key);
  [[nodiscard]] Exchange make_exchange(const Split& split);
  /// The job of a shape, of the short model where it stands for the whole.
  [[nodiscard]] Scenario short_job(const ShapeKey& key) const;
  const std::vector<Place>& places_of(const Split& split);
  const std::optional<plan::HeldSums>& held(const ShapeKey& shape);
  /// Micro-batches that the ranks keep of each of their parts, at least.
  const std::vector<double>& in_flight(const Split& split);
  /// What a stage does between the first micro-batch's arrival and the last one's departure, and around that.
  Time laid_out(const Split& split, const PlanShape& shape, const std::vector<StageExchange>* exchange);

  const PlanSpace& space_;
  PlanTools& tools_;
  std::optional<ShortModel> short_;
  std::vector<std::optional<std::optional<PlanShape>>> shapes_;  // outer: worked out yet
  std::map<ShapeKey, std::optional<plan::HeldSums>> held_;       // nothing: refused
  std::vector<const std::optional<plan::HeldSums>*> held_of_;    // by shape; null: not asked for yet
  std::map<StagesKey, std::vector<Place>> places_;
  std::map<std::pair<StagesKey, std::int64_t>, std::vector<double>> in_flight_;  // by passes
  std::map<ExchangeKey, Exchange> exchanges_;
  std::int64_t priced_ = 0;
};

}  // namespace ddlsim::whatif
