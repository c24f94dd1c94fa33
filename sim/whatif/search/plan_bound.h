// Lower bounds of what a plan takes (whatif/plan_search.h has the equations). Private to the room.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "search/plan_rank.h"
#include "search/plan_space.h"
#include "search/plan_tools.h"

namespace ddlsim::whatif {

/// The step of a lowered job; where that is above `enough`, any time above it.
[[nodiscard]] Expected<Time> step_of(const Scenario& job, std::shared_ptr<const plan::StepPlan> plan, PlanTools& tools,
                                     Time enough);

/// A lowered job. `times`: of the layers of all classes.
[[nodiscard]] Expected<cost::PricedStep> priced(const Scenario& job, plan::StepPlan plan, PlanTools& tools,
                                                std::vector<cost::LayerTimes>* times = nullptr);

/// A pass of a layer; or sums over the layers before one.
struct LayerPass {
  Time forward{};  // kernels, and what stands in their way
  Time backward{};
  Time weights{};  // of backward: what schedules may put off
  Time put_off{};  // the same, and all of what adding gradients up from pass to pass has of it
  Time kernels{};  // forward and backward, kernels alone
  Time added{};    // besides, to add gradients up from pass to pass, where ranks keep them whole and that is asked for
  double issued = 0;  // kernels that the CPU issues
  // All-to-alls, of `forward` and `backward`: DualPipe may hide some.
  Time forward_exchanged{};
  Time backward_exchanged{};

  friend LayerPass operator+(const LayerPass& a, const LayerPass& b) {
    return {a.forward + b.forward,
            a.backward + b.backward,
            a.weights + b.weights,
            a.put_off + b.put_off,
            a.kernels + b.kernels,
            a.added + b.added,
            a.issued + b.issued,
            a.forward_exchanged + b.forward_exchanged,
            a.backward_exchanged + b.backward_exchanged};
  }
  friend LayerPass operator*(const LayerPass& a, double times) {
    return {a.forward * times, a.backward * times,          a.weights * times,
            a.put_off * times, a.kernels * times,           a.added * times,
            a.issued * times,  a.forward_exchanged * times, a.backward_exchanged * times};
  }
  friend LayerPass operator-(const LayerPass& a, const LayerPass& b) {
    return {a.forward - b.forward,
            a.backward - b.backward,
            a.weights - b.weights,
            a.put_off - b.put_off,
            a.kernels - b.kernels,
            a.added - b.added,
            a.issued - b.issued,
            a.forward_exchanged - b.forward_exchanged,
            a.backward_exchanged - b.backward_exchanged};
  }
};

/// One pass of a whole model, cut for its ranks but in one stage.
struct PlanShape {
  /// Sums over the layers before each, from none to all; of the short model where that stands for the whole.
  std::vector<LayerPass> sums;
  struct Run {
    LayerPass before{};  // what earlier runs have more in the whole model
    LayerPass block{};   // of the block that stands for several
  };
  std::vector<Run> runs;  // of the short model; empty: `sums` are of the whole one
  bool adds = false;      // `added` is known
  LayerPass whole{};      // of all layers
  double updating = 1;    // what the software multiplies the update's time by
  Time launch_interval{};
  double waiting = 0;  // for the slowest GPU, as a share of kernels' time
  double held = 0;     // of the GPU, by a running collective at least
};

/// Weights that a part gathers when a pass of it begins.
struct FirstGather {
  LayerRange before;  // layers of the part that do not need them
  Time time{};
};

/// What another group than all replicas has on its channel up to the update: of experts.
struct OtherChannel {
  std::size_t group = 0;
  Time every_pass{};
  Time once{};
};

/// What a stage sends to its replicas, and its update.
struct StageExchange {
  Time every_pass{};                 // on the channel of its replicas, up to the update
  Time once{};                       // that a backward pass of the last micro-batch makes ready
  Time standing{};                   // likewise, in the way of kernels
  Time after{};                      // in the way after the update
  Time update{};                     // its memory, by kernels alone
  double launches = 0;               // of the update, by the CPU
  Time held_each{};                  // of kernels beside them, by the replicas' collectives: of those of every pass,
  Time held_once{};                  // and of those of the last one
  std::vector<FirstGather> gathers;  // one per part
  std::vector<Time> last;            // that the last backward pass of each part makes ready
  Time beside_each{};                // collectives beside kernels, of every pass, and of the last one
  Time beside_once{};
  std::vector<PartChannel> channel;  // by part
  std::vector<OtherChannel> others;
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
  [[nodiscard]] Time with_exchange(const Split& split, std::size_t index) { return exchanged(split, index, false); }
  /// And with what ranks wait for of it, pass by pass. Takes longer than any other bound.
  [[nodiscard]] Time by_ranks(const Split& split, std::size_t index) { return exchanged(split, index, true); }
  /// What issuing a pass's kernels takes, as a share of the kernels' time: of a rank of several stages no more than
  /// twice that of the whole model, of DualPipe's, which has layers of two, four times: so of the plans of
  /// plan_bound_test.cpp, not proved.
  [[nodiscard]] double most_issued(const Split& split, std::size_t index);

 private:
  struct ExchangeKey {
    ShapeKey shape;
    StagesKey stages{};
    int zero = 0;
    std::int64_t passes = 0;  // 0: makes no difference
    std::size_t places = 0;   // where parts are, of what depends on them alone
    friend auto operator<=>(const ExchangeKey&, const ExchangeKey&) = default;
  };
  struct Exchange {
    bool bounds = true;  // false: of another kind than is bounded here, or refused
    std::vector<StageExchange> stages;
  };

  /// `adds`: with what adding gradients up takes.
  const PlanShape* shape(std::size_t index, bool adds = false);
  /// Of all layers of the whole model before one.
  [[nodiscard]] LayerPass before(const PlanShape& shape, std::size_t layer) const;
  /// A pass by itself; and one that adds its gradients to another's, where that is asked for.
  struct PricedShape {
    cost::PricedStep step;
    std::vector<cost::LayerTimes> times;
    std::optional<cost::PricedStep> adding;
    std::vector<cost::LayerTimes> adding_times;
  };
  [[nodiscard]] std::optional<PricedShape> priced_shape(const Scenario& job, bool adds);
  [[nodiscard]] std::optional<PlanShape> make_shape(const ShapeKey& key, bool adds);
  /// What the short model's blocks stand for.
  void add_runs(PlanShape& shape) const;
  [[nodiscard]] Exchange make_exchange(const Split& split);
  /// The job of a shape, of the short model where it stands for the whole.
  [[nodiscard]] Scenario short_job(const ShapeKey& key) const;
  /// What a stage does between the first micro-batch's arrival and the last one's departure, and around that.
  Time laid_out(const Split& split, const PlanShape& shape, const std::vector<StageExchange>* exchange,
                bool by_ranks = false);
  /// A bound of the stages' passes with what they send; parts_, rank_work_ and rank_kernels_ are theirs.
  [[nodiscard]] Time with_stages_sent(const Split& split, const plan::Pipeline& pipeline, const PlanShape& shape,
                                      const std::vector<StageExchange>& exchange, Time bound);
  [[nodiscard]] Time exchanged(const Split& split, std::size_t index, bool by_ranks);
  [[nodiscard]] Time ranks_alone(const plan::Pipeline& pipeline, const PlanShape& shape,
                                 const std::vector<StageExchange>& exchange, double adding) const;
  [[nodiscard]] Time one_rank(const Split& split, const PlanShape& shape, const std::vector<StageExchange>& exchange,
                              double adding);
  void hide_in_pairs(const std::vector<LayerRange>& places);
  /// For how long every rank stands still for the weights with which passes of its parts begin.
  [[nodiscard]] Time gathered(const PlanShape& shape, const std::vector<StageExchange>& sent, double runs) const;

  const PlanSpace& space_;
  PlanTools& tools_;
  std::vector<std::optional<std::optional<PlanShape>>> shapes_;  // outer: worked out yet
  std::map<ExchangeKey, Exchange> exchanges_;
  using KernelsKey = std::tuple<std::size_t, StagesKey, std::int64_t>;  // by passes
  /// The shares of all-to-alls that pairs hide, of a part whose layers end there.
  struct Hidden {
    std::size_t end = 0;
    double forward = 0;
    double backward = 0;
  };
  std::vector<plan::PartTime> parts_;  // of the pipeline that is laid out, and its ranks' kernels
  std::vector<LayerPass> passes_;      // of each part, with all of what it exchanges
  std::vector<Hidden> hidden_;         // by part; none but of DualPipe
  std::vector<Time> rank_work_;
  std::vector<Time> rank_kernels_;
  std::vector<double> rank_issued_;
  std::vector<Time> ends_;              // of stages, after their last pass
  std::optional<KernelsKey> last_key_;  // what was asked for last: plans that differ in `zero` alone follow each other
  Time last_{};
};

}  // namespace ddlsim::whatif
