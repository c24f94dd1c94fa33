// What a job's own runs make of the steps of its plans (whatif/own_runs.h). Private to the room.
//
// A plan's step is P exp(r): P what the model says at the GPU speed of the runs, r the residual at its batch, its
// split, its share of communication and of fixed time. r is affine in either share, so that its least for any is that
// where both are none or the most, and P' exp(that) bounds the step where P' bounds P. Where a loader works apart
// (whatif/own_runs.h) it is at most 1: r is not of the wait for it.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "ddlsim/calib/run_point.h"
#include "ddlsim/support/units.h"
#include "search/plan_space.h"
#include "search/plan_tools.h"

namespace ddlsim::whatif {

class PlanCorrection {
 public:
  explicit PlanCorrection(const PlanSpace& space) : space_(space) {}

  /// The least factor on the step of a plan whose share of fixed time is no more than that. Requires runs, as what
  /// follows.
  [[nodiscard]] double least(const Split& split, double most_fixed) const;
  /// Of all plans of a family.
  [[nodiscard]] double least_of_family(const Split& split, double most_fixed);
  /// The step of a job that is a plan, as `step` is without runs.
  [[nodiscard]] static Time corrected(const Scenario& job, Time step, PlanTools& tools);

 private:
  /// Residuals without fixed time, and with nothing else.
  using Ends = std::pair<double, double>;

  [[nodiscard]] double most() const;
  [[nodiscard]] double factor(const std::vector<Ends>& residuals, double most_fixed) const;

  const PlanSpace& space_;
  std::map<std::tuple<std::int64_t, std::int64_t, calib::RunSplit>, std::vector<Ends>>
      of_families_;  // by servers, batch
};

}  // namespace ddlsim::whatif
