// lower() of plan/lower.h for many jobs that have a model and a cluster in common.
#pragma once

#include <memory>
#include <vector>

#include "ddlsim/plan/job.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::plan {

struct Memo;

/// What layers hold on a rank that shares nothing with replicas: sums over those before each, from none to all.
struct HeldSums {
  std::vector<DataSize> weights;
  std::vector<DataSize> gradients;
  std::vector<DataSize> states;  // of the optimizer, and master copies
  std::vector<DataSize> kept;    // of a micro-batch until its backward
  DataSize working{};            // the most that a layer works with
};

/// lower() for many jobs that differ in their splits, micro-batch, passes and servers alone: how layers are cut, where
/// stages begin and what layers keep are worked out once for all jobs that share them. The results are those of
/// lower().
class Lowerer {
 public:
  Lowerer();
  ~Lowerer();
  Lowerer(Lowerer&&) noexcept;
  Lowerer& operator=(Lowerer&&) noexcept;

  [[nodiscard]] Expected<StepPlan> lower(const Job& job);
  /// Its classes with what they hold, without rows, updates and exchange. The errors are those of lower().
  [[nodiscard]] Expected<StepPlan> outline(const Job& job);
  /// Of a job without stages and zero. The errors are those of lower().
  [[nodiscard]] Expected<HeldSums> held(const Job& job);

 private:
  std::unique_ptr<Memo> memo_;
};

}  // namespace ddlsim::plan
