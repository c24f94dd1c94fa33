#include "cases/case_summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

namespace ddlsim::whatif {
namespace {

using answer::CaseResult;
using answer::ErrorSummary;
using answer::ValidationSet;

/// Linear interpolation between ranks; `values` sorted and not empty.
double quantile(const std::vector<double>& values, double share) {
  const double rank = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (rank - static_cast<double>(below));
}

ErrorSummary summary_of(std::vector<double> errors) {
  ErrorSummary summary;
  if (errors.empty()) return summary;
  std::sort(errors.begin(), errors.end());
  double sum = 0;
  for (const double error : errors) sum += error;
  summary.cases = static_cast<std::int64_t>(errors.size());
  summary.mean = sum / static_cast<double>(errors.size());
  summary.median = quantile(errors, 0.5);
  summary.p90 = quantile(errors, 0.9);
  summary.worst = errors.back();
  return summary;
}

std::optional<answer::Regret> regret_of(const std::vector<CaseResult>& cases) {
  struct Best {
    double predicted = 0;  // times, or one over rates
    double then = 0;       // measured of the plan that is predicted to be best
    double measured = 0;
    std::int64_t plans = 0;
  };
  std::map<std::string, Best> jobs;
  for (const CaseResult& one : cases) {
    if (one.job.empty()) continue;
    const double predicted = one.rate ? 1 / one.predicted : one.predicted;
    const double measured = one.rate ? 1 / one.measured : one.measured;
    Best& best = jobs[one.job];
    if (best.plans == 0 || predicted < best.predicted) {
      best.predicted = predicted;
      best.then = measured;
    }
    if (best.plans == 0 || measured < best.measured) best.measured = measured;
    ++best.plans;
  }
  answer::Regret regret;
  for (const auto& [name, best] : jobs) {
    if (best.plans < 2) continue;
    const double lost = best.then / best.measured - 1.0;
    ++regret.jobs;
    regret.mean += lost;
    regret.worst = std::max(regret.worst, lost);
  }
  if (regret.jobs == 0) return std::nullopt;
  regret.mean /= static_cast<double>(regret.jobs);
  return regret;
}

}  // namespace

void summarise(ValidationSet& set) {
  std::vector<double> errors;
  std::vector<double> perfect;
  std::vector<double> amdahl;
  std::vector<double> power_law;
  std::vector<double> ratios;
  std::vector<double> widths;
  for (const CaseResult& one : set.cases) {
    errors.push_back(std::abs(one.error));
    ratios.push_back(one.rate ? one.predicted / one.measured : one.measured / one.predicted);
    if (one.perfect) perfect.push_back(std::abs(*one.perfect / one.measured - 1.0));
    if (one.amdahl) amdahl.push_back(std::abs(*one.amdahl / one.measured - 1.0));
    if (one.power_law) power_law.push_back(std::abs(*one.power_law / one.measured - 1.0));
    const bool below = one.measured < one.interval_90.first;
    const bool above = one.measured > one.interval_90.second;
    if (below || above) ++(above != one.rate ? set.slower : set.faster);
    widths.push_back(one.interval_90.second / one.interval_90.first);
  }
  set.errors = summary_of(std::move(errors));
  std::sort(ratios.begin(), ratios.end());
  std::sort(widths.begin(), widths.end());
  if (!ratios.empty()) {
    set.coverage_90 = 1 - static_cast<double>(set.slower + set.faster) / static_cast<double>(set.cases.size());
    set.interval_ratio = quantile(widths, 0.5);
    set.time_ratio_90 = {quantile(ratios, 0.05), quantile(ratios, 0.95)};
    set.median_time_bias = 1 / quantile(ratios, 0.5) - 1;
  }
  if (!perfect.empty()) set.perfect = summary_of(std::move(perfect));
  if (!amdahl.empty()) set.amdahl = summary_of(std::move(amdahl));
  if (!power_law.empty()) set.power_law = summary_of(std::move(power_law));
  std::vector<double> memory;
  double bias = 0;
  for (const CaseResult& one : set.cases) {
    if (one.memory_error) memory.push_back(std::abs(*one.memory_error));
    bias += one.rate ? one.measured / one.predicted - 1.0 : one.error;
  }
  if (!set.cases.empty()) set.time_bias = bias / static_cast<double>(set.cases.size());
  if (!memory.empty()) set.memory = summary_of(std::move(memory));
  set.regret = regret_of(set.cases);
}

std::vector<ValidationSet> kinds_of(const ValidationSet& all) {
  ValidationSet steps;
  ValidationSet collectives;
  steps.name = "all steps";
  collectives.name = "all collectives";
  const auto kind = [&](const auto& one) -> ValidationSet& { return one.collective ? collectives : steps; };
  for (const CaseResult& one : all.cases) kind(one).cases.push_back(one);
  for (const answer::UnsupportedCase& one : all.unsupported) kind(one).unsupported.push_back(one);
  steps.anchors = all.anchors;  // collectives are neither given nor left out
  steps.not_asked = all.not_asked;
  std::vector<ValidationSet> kinds;
  for (ValidationSet* set : {&steps, &collectives}) {
    set->rows = set->anchors + set->not_asked + std::ssize(set->cases) + std::ssize(set->unsupported);
    if (set->rows == 0) return {};
    summarise(*set);
    kinds.push_back(std::move(*set));
  }
  return kinds;
}

}  // namespace ddlsim::whatif
