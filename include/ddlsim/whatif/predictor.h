// Predictions for who asks often.
//
// Prices of layers depend on a plan's layers and on cost::PriceInputs alone (cost/price.h), and plans of one model have
// much in common (plan/lowerer.h). A Predictor keeps what it has worked out of both, so that a changed network, node
// count or strategy costs microseconds. The answers are those of whatif/predict.h, to the bit. One Predictor serves one
// thread; it keeps `kKept` prices, the oldest going first, and as much of plans as is bounded.
#pragma once

#include <cstddef>
#include <memory>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// What a comparison of many jobs needs of each.
struct Outline {
  Time step{};
  Time kernels{};  // of a step: while they run
  std::optional<answer::PowerPart> power{};
};

class Predictor {
 public:
  static constexpr std::size_t kKept = 32;

  Predictor();
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  /// As whatif::predict, without what makes a job fit (whatif/fitting.h).
  [[nodiscard]] Expected<answer::Prediction> predict(const Scenario& scenario);
  /// The step time alone, of the same answer. Errors: as predict.
  [[nodiscard]] Expected<Time> step_time(const Scenario& scenario);

  /// The step and the time of its kernels, of the same answer. Errors: as predict.
  [[nodiscard]] Expected<Outline> outline(const Scenario& scenario);

 private:
  struct Kept;
  std::unique_ptr<Kept> kept_;
};

}  // namespace ddlsim::whatif
