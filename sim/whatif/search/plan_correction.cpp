#include "search/plan_correction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "ddlsim/whatif/own_runs.h"
#include "predict/correction.h"

namespace ddlsim::whatif {
namespace {

/// Rounding of residuals that are the same.
constexpr double kResidualRounding = 1e-9;

double least_at(const OwnRuns& runs, calib::RunPoint point) {
  double least = std::numeric_limits<double>::infinity();
  for (const double communication : {0.0, 1.0}) {
    for (const double fixed : {0.0, 1.0}) {
      point.communication = communication;
      point.fixed = fixed;
      least = std::min(least, runs.posterior().at(point).residual);
    }
  }
  return std::exp(least - kResidualRounding);
}

}  // namespace

// What waits for its loader takes no longer for slower GPUs.
double PlanCorrection::most() const {
  const plan::Job& job = space_.base();
  const bool apart = job.input.dataset && !space_.base().own_runs->waited_for_input();
  return apart ? 1.0 : std::numeric_limits<double>::infinity();
}

double PlanCorrection::least(const Split& split) const {
  const auto& runs = space_.base().own_runs;
  if (!runs) return 1;
  const Scenario job = space_.with(split);
  return std::min(least_at(*runs, configuration_of(job)), most());
}

double PlanCorrection::least_of_family(const Split& split) {
  const auto& runs = space_.base().own_runs;
  if (!runs) return 1;
  const auto [found, added] = of_families_.try_emplace({split.nodes, split.batch}, 1);
  if (!added) return found->second;
  constexpr std::int64_t kNone = -1;  // as none ran
  const calib::RunSplit none{.ranks = {kNone}, .zero = kNone, .kept = {kNone}};
  std::set ranks{none.ranks};
  std::set zeros{none.zero};
  std::set kept{none.kept};
  for (const calib::RunPoint& ran : runs->ran()) {
    ranks.insert(ran.split.ranks);
    zeros.insert(ran.split.zero);
    kept.insert(ran.split.kept);
  }
  // A family has whole models and split ones, which may be of other software.
  Scenario whole = space_.base();
  whole.cluster.nodes = split.nodes;
  whole.batch = split.batch;
  whole.parallel = {};
  Scenario shared = whole;
  shared.parallel.zero = 1;
  found->second = most();
  for (calib::RunPoint point : {configuration_of(whole), configuration_of(shared)}) {
    for (const auto& one : ranks) {
      for (const std::int64_t zero : zeros) {
        for (const auto& what : kept) {
          point.split = {one, zero, what};
          found->second = std::min(found->second, least_at(*runs, point));
        }
      }
    }
  }
  return found->second;
}

Time PlanCorrection::corrected(const Scenario& job, Time step) {
  if (!job.own_runs) return step;
  const auto question = ask(job);
  if (!question) return step;
  Laid laid;
  laid.line.step = step;
  if (job.input.dataset && !job.own_runs->waited_for_input()) {
    auto again = lay_out(*question, {}, answer::Detail::kTime);
    if (!again) return step;
    laid = std::move(*again);
  }
  return corrected_step(*question, laid);
}

}  // namespace ddlsim::whatif
