// A scenario lowered and ready to be asked, at any fidelity: what predict.cpp asks again and again. Private to the
// room.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/answer/timeline.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/events/step.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// Of what a plan says.
enum class Wanted {
  kAll,
  kTimes,  // not what ranks hold
};

/// What plans have in common, and prices of layers, that somebody keeps.
class Shelf {
 public:
  virtual ~Shelf() = default;
  /// A job lowered. Errors: as plan::lower.
  virtual Expected<plan::StepPlan> plan(const plan::Job& job, Wanted wanted) = 0;
  /// The prices of a job's plan, worked out if they are not kept.
  virtual Expected<std::shared_ptr<const cost::LayerPrices>> prices(const plan::Job& job,
                                                                    const plan::StepPlan& plan) = 0;
};

struct Question {
  const Scenario& scenario;
  answer::Fidelity fidelity;
  std::shared_ptr<const plan::StepPlan> plan{};       // of nominal GPUs; null: from totals, without a plan
  std::shared_ptr<const plan::StepPlan> kinds{};      // of GPUs of several speeds; null: none
  std::shared_ptr<const cost::LayerPrices> layers{};  // null: as plan

  [[nodiscard]] std::int64_t gpus() const { return scenario.cluster.gpus(); }
  [[nodiscard]] const cost::CalibratedTimes* calibrated() const {
    return layers && layers->calibrated ? &*layers->calibrated : nullptr;
  }
};

/// Of a model's FLOPs those of layers that no framework runs in fp8 or fp4: convolutions and recurrences.
[[nodiscard]] double share_without_cast(const workload::Model& model);

/// Errors: of whatif/predict.h.
[[nodiscard]] Expected<Question> ask(const Scenario& scenario);
/// The same from what somebody keeps.
[[nodiscard]] Expected<Question> ask(const Scenario& scenario, Shelf& shelf, Wanted wanted);

/// A question's answer, the priced step it comes from, and what it sends.
struct Laid {
  answer::Timeline line;
  std::optional<cost::PricedStep> step{};
  std::vector<answer::LinkTraffic> traffic{};  // from answer::Detail::kParts on
};

/// The question with a job that is varied. Errors: of the event fidelity, which cannot simulate every schedule, or not
/// in time; of the collective library.
[[nodiscard]] Expected<Laid> lay_out(const Question& question, const cost::Variation& variation, answer::Detail detail);

/// What the job's CPU takes to issue the kernels of a step's passes, casts and pieces of layers apart; its plan is
/// known.
[[nodiscard]] Time issuing_of(const Question& question);

/// What the event fidelity simulates, its tasks named after the model's layers.
[[nodiscard]] Expected<events::EventStep> simulate(const Question& question);

}  // namespace ddlsim::whatif
