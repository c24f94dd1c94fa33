#include "search/plan_correction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "ddlsim/whatif/own_runs.h"
#include "predict/correction.h"
#include "predict/question.h"

namespace ddlsim::whatif {
namespace {

/// Rounding of residuals that are the same.
constexpr double kResidualRounding = 1e-9;

/// Where all of the step is GPU time, and where none is.
void add_residuals(const OwnRuns& runs, calib::RunPoint point, std::vector<std::pair<double, double>>& residuals) {
  for (const double communication : {0.0, 1.0}) {
    point.communication = communication;
    point.fixed = 0;
    const double without = runs.posterior().residual_at(point);
    point.fixed = 1;
    residuals.emplace_back(without, runs.posterior().residual_at(point));
  }
}

}  // namespace

// What waits for its loader takes no longer for slower GPUs.
double PlanCorrection::most() const {
  const plan::Job& job = space_.base();
  const bool apart = job.input.dataset && !space_.base().own_runs->waited_for_input();
  return apart ? 1.0 : std::numeric_limits<double>::infinity();
}

double PlanCorrection::factor(const std::vector<Ends>& residuals, double most_fixed) const {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [without, with] : residuals) {
    least = std::min({least, without, std::lerp(without, with, most_fixed)});
  }
  return std::min(std::exp(least - kResidualRounding), most());
}

double PlanCorrection::least(const Split& split, double most_fixed) const {
  std::vector<Ends> residuals;
  add_residuals(*space_.base().own_runs, configuration_of(space_.with(split)), residuals);
  return factor(residuals, most_fixed);
}

double PlanCorrection::least_of_family(const Split& split, double most_fixed) {
  const OwnRuns& runs = *space_.base().own_runs;
  Scenario job = space_.with(split);
  job.parallel.zero = 0;
  const calib::RunPoint plain = configuration_of(job);
  job.parallel.zero = 1;
  const calib::RunPoint shared = configuration_of(job);  // may be of other software
  const auto [found, added] = of_families_.try_emplace({split.nodes, split.batch, plain.split});
  std::vector<Ends>& residuals = found->second;
  if (!added) return factor(residuals, most_fixed);
  // What plans of a family differ by is as in a run, or as in none.
  constexpr std::int64_t kNone = -1;
  const auto family_of = [](calib::RunSplit one) {
    one.zero = kNone;
    if (one.ranks != std::array<std::int64_t, 8>{}) one.ranks[6] = one.ranks[7] = kNone;
    return one;
  };
  const calib::RunSplit none = family_of(plain.split);
  std::set ranks{none.ranks};
  std::set zeros{kNone};
  for (const calib::RunPoint& ran : runs.ran()) {
    zeros.insert(ran.split.zero);
    if (family_of(ran.split).ranks == none.ranks) ranks.insert(ran.split.ranks);
  }
  for (calib::RunPoint point : {plain, shared}) {
    for (const auto& one : ranks) {
      for (const std::int64_t zero : zeros) {
        point.split = {one, zero, plain.split.kept};
        add_residuals(runs, point, residuals);
      }
    }
  }
  return factor(residuals, most_fixed);
}

namespace {

class ToolsShelf : public Shelf {
 public:
  explicit ToolsShelf(PlanTools& tools) : tools_(tools) {}
  Expected<plan::StepPlan> plan(const plan::Job& job, Wanted /*wanted*/) override { return tools_.lowerer.lower(job); }
  Expected<std::shared_ptr<const cost::LayerPrices>> prices(const plan::Job& job, const plan::StepPlan& plan) override {
    return cost::price_layers(job, plan, tools_.prices).map([](cost::LayerPrices&& prices) {
      return std::make_shared<const cost::LayerPrices>(std::move(prices));
    });
  }

 private:
  PlanTools& tools_;
};

}  // namespace

Time PlanCorrection::corrected(const Scenario& job, Time step, PlanTools& tools) {
  if (!job.own_runs) return step;
  ToolsShelf shelf(tools);
  const auto question = ask(job, shelf, Wanted::kTimes);
  if (!question) return step;
  const auto laid = lay_out(*question, {}, answer::Detail::kParts);
  return laid ? corrected_step(*question, *laid) : step;
}

}  // namespace ddlsim::whatif
