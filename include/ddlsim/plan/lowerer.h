// lower() of plan/lower.h for many jobs that have a model and a cluster in common.
#pragma once

#include <memory>

#include "ddlsim/plan/job.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"

namespace ddlsim::plan {

struct Memo;

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

 private:
  std::unique_ptr<Memo> memo_;
};

}  // namespace ddlsim::plan
