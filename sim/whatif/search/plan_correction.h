// What a job's own runs make of the steps of its plans (whatif/own_runs.h). Private to the room.
//
// A plan's step is P exp(r): P what the model says at the GPU speed of the runs, r the residual at its batch, its
// split, its share of communication and of fixed time. r is affine in either share, so that its least for any is that
// where both are 0 or 1, and P' exp(that) bounds the step where P' bounds P. Where a loader works apart
// (whatif/own_runs.h) it is at most 1: r is not of the wait for it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "ddlsim/support/units.h"
#include "search/plan_space.h"

namespace ddlsim::whatif {

class PlanCorrection {
 public:
  explicit PlanCorrection(const PlanSpace& space) : space_(space) {}

  /// The least factor on the step of a plan. Without runs 1, as of what follows.
  [[nodiscard]] double least(const Split& split) const;
  /// Of all plans of a family.
  [[nodiscard]] double least_of_family(const Split& split);
  /// The step of a job that is a plan, as `step` is without runs.
  [[nodiscard]] static Time corrected(const Scenario& job, Time step);

 private:
  /// Requires runs.
  [[nodiscard]] double most() const;

  const PlanSpace& space_;
  std::map<std::pair<std::int64_t, std::int64_t>, double> of_families_;  // by servers and batch
};

}  // namespace ddlsim::whatif
