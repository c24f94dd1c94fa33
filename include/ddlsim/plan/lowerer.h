// lower() of plan/lower.h for many jobs that have something in common.
#pragma once

#include <memory>
#include <vector>

#include "ddlsim/plan/job.h"
#include "ddlsim/plan/stage_cuts.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::plan {

struct Memo;

/// What replicas may share: of experts fewer ranks have the same.
struct Shareable {
  DataSize dense{};
  DataSize experts{};

  friend Shareable operator+(const Shareable& a, const Shareable& b) {
    return {a.dense + b.dense, a.experts + b.experts};
  }
  friend Shareable operator-(const Shareable& a, const Shareable& b) {
    return {a.dense - b.dense, a.experts - b.experts};
  }
};

/// What each layer holds on a rank that shares nothing with replicas.
struct HeldLayers {
  std::vector<Shareable> weights;
  std::vector<Shareable> gradients;
  std::vector<Shareable> states;  // of the optimizer, and master copies
  std::vector<DataSize> kept;     // of a micro-batch until its backward
  std::vector<DataSize> casts;    // of weights, until its backward
  std::vector<double> saved;      // elements of a sample, by which orders are said to keep the most (Part::in_flight)
  // While its backward runs:
  std::vector<DataSize> loss;                // of a micro-batch
  std::vector<DataSize> working;             // of a micro-batch
  std::vector<DataSize> weight_gradient;     // of its largest tensor
  std::vector<DataSize> gathered;            // its weights, where ranks share them and gather them block by block
  std::vector<DataSize> gathered_gradients;  // of those that are trained
  std::vector<DataSize> edge;                // of a micro-batch, what the layer passes on, where a stage ends with it
};

/// What a layer's backward needs besides its loss, of what it needs in all: where single operations make the loss, the
/// gradients of weight and input are made when of the logits' three tensors in fp32 one is left, in a product's format.
[[nodiscard]] DataSize beside_loss(const Job& job, DataSize loss, DataSize working);

/// lower() for many jobs: how layers are cut, where stages begin, what layers keep and what their gradients are sent as
/// are worked out once for all jobs that share them, most of all those of one model. The results are those of lower().
/// It keeps all that it has worked out, and the models.
class Lowerer {
 public:
  Lowerer();
  ~Lowerer();
  Lowerer(Lowerer&&) noexcept;
  Lowerer& operator=(Lowerer&&) noexcept;

  [[nodiscard]] Expected<StepPlan> lower(const Job& job);
  /// All that decides a step's time: without what its classes hold. The errors are those of lower().
  [[nodiscard]] Expected<StepPlan> timed(const Job& job);
  /// Its classes with what they hold, without rows, updates and exchange. The errors are those of lower().
  [[nodiscard]] Expected<StepPlan> outline(const Job& job);
  /// Its classes with what ranks send each other around their layers, without what they hold, updates and all other
  /// rows. The errors are those of lower().
  [[nodiscard]] Expected<StepPlan> passes(const Job& job);
  /// Its classes with what replicas send each other and the updates, without what they hold and all other rows.
  [[nodiscard]] Expected<StepPlan> exchange(const Job& job);
  /// Of a job with stages. The errors are among those of lower(), which may have more.
  [[nodiscard]] Expected<StageStarts> starts(const Job& job);
  /// Of the layers as a job cuts them. The errors are among those of lower(), which may have more.
  [[nodiscard]] Expected<LayerLoads> loads(const Job& job);
  /// Of a job without stages and zero. The errors are those of lower().
  [[nodiscard]] Expected<HeldLayers> held(const Job& job);

  /// How many lists, of a model's layers or stages each, are kept.
  [[nodiscard]] std::size_t kept() const;

 private:
  std::unique_ptr<Memo> memo_;
};

}  // namespace ddlsim::plan
