#include "ddlsim/whatif/find.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "choose/find_search.h"
#include "choose/find_start.h"
#include "choose/find_transport.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

constexpr double kSameStep = 1e-3;

}  // namespace

std::vector<std::string> FindSearch::no_jobs() const {
  const auto is_none = [](const auto& tried) { return !tried.second.prediction; };
  const auto first = std::find_if(probes_.begin(), probes_.end(), is_none);
  if (first == probes_.end()) return {};
  return {fmt::format("{} of the tried values are no job; the first: {}",
                      std::count_if(probes_.begin(), probes_.end(), is_none), first->second.refusal)};
}

/// A rate at its upper end is as good as infinite.
std::string FindSearch::limit_text(double value) const {
  const bool endless = variable_.role == NumberRole::kRate && value >= variable_.highest;
  return endless ? "infinite" : text(value);
}

void FindSearch::describe_tries(answer::Inverse& result) const {
  bool too_large = false;
  const Probe* last = nullptr;
  for (const auto& [value, one] : probes_) {
    if (!one.prediction) continue;
    too_large = too_large || !one.fits;
    result.tried.push_back({one.setting, value, one.metric, one.fits, holds(one)});
    if (holds(one)) {
      if (last == nullptr || !holds(*last)) result.holding.push_back({one.setting, one.setting});
      result.holding.back().to = one.setting;
    }
    last = &one;
  }
  if (result.always) {
    result.notes.push_back(fmt::format("it holds at every value that was tried, {} to {}",
                                       limit_text(result.tried.front().value), limit_text(result.tried.back().value)));
  }
  for (std::string& note : no_jobs()) result.notes.push_back(std::move(note));
  if (!result.monotone) {
    result.notes.emplace_back(complete_ ? "not monotone: every value was tried"
                                        : "not monotone: between values that were tried there may be others that hold");
  }
  if (too_large && must_fit_) result.notes.emplace_back("values whose job does not fit the GPU's memory do not hold");
  if (too_large && !must_fit_ && baseline_->fits == false) {
    result.notes.emplace_back("the job does not fit the GPU's memory as it is: whether values fit was not asked");
  }
}

void FindSearch::answer_with(double value, answer::Inverse& result) {
  const Probe& one = probe(value);
  result.setting = one.setting;
  result.prediction = *one.prediction;
  result.probability = probability_of(condition_, *one.prediction);
  result.metric_text = measured_text(condition_, one.metric, baseline_->sample);
  for (const Override& setting : changes(value)) result.settings.emplace_back(setting.path, setting.value);
}

/// An efficiency that nobody states may have no part in the job as it is: then no value gives what the job gives.
void FindSearch::describe_now(double metric, answer::Inverse& result) {
  result.now_text = measured_text(condition_, metric, baseline_->sample);
  if (!now_) return;
  const auto stated = changes(*now_);
  result.now = stated.front().value;
  if (!variable_.path.starts_with("efficiency.")) return;
  const auto same = predict_with(stated);
  if (!same || std::abs(same->step_time / baseline_->step_time - 1) < kSameStep) return;
  const bool kernels = variable_.path == "efficiency.compute" || variable_.path == "efficiency.memory";
  const bool profile = kernels && cost::by_profiles(*scenario_);
  result.now = profile ? "by its profile" : "as modelled";
  result.notes.push_back(fmt::format("{}: nobody states it now; stated, it takes the place of {}", variable_.path,
                                     profile ? "the GPU's profile" : "what the model has there"));
}

Expected<answer::Inverse> FindSearch::run(const FindOptions& options) {
  auto start = start_of_search(catalog_, base_, variable_, predictor_);
  if (!start) return tl::unexpected<Error>(start.error());
  scenario_ = std::move(start->scenario);
  baseline_ = std::move(start->prediction);
  now_ = value_now();
  if (start->instead) base_.push_back(*start->instead);
  std::erase_if(base_, [](const Override& s) { return s.path.starts_with("measured."); });
  sure_ = options.sure;
  const auto now = sure_ ? measure(condition_, *baseline_, *sure_) : measure(condition_, *baseline_);
  if (!now) return tl::unexpected<Error>(now.error());
  must_fit_ =
      baseline_->fits != false && condition_.metric != Metric::kMemory && condition_.metric != Metric::kDeviceMemory;
  if (auto range = set_range(options); !range) return tl::unexpected<Error>(range.error());
  try_range();
  if (counts() && must_fit_) try_largest_that_fits();
  if (auto sound = check_difference(); !sound) return tl::unexpected<Error>(sound.error());

  answer::Inverse result;
  result.title = describe(*scenario_);
  result.variable = variable_.path;
  result.unit = si_unit(variable_.kind);
  result.condition = words_of(condition_);
  result.sure = sure_;
  if (sure_) result.condition += fmt::format(" with {} %", significant(100 * *sure_));
  result.metric = name_of(kMetrics, condition_.metric);
  const double limit = best();
  const double found = found_end(limit, result);
  result.monotone = monotone();
  result.reached = holds(probes_.at(found));
  if (result.reached) result.value = found;
  answer_with(found, result);
  const Probe& at_limit = probes_.at(best());
  result.limit_setting = limit_text(best());
  result.limit = *at_limit.prediction;
  result.limit_text = measured_text(condition_, at_limit.metric, baseline_->sample);
  result.baseline = baseline_;
  result.notes = notes_of_answer(catalog_, base_, *scenario_, result);
  if (sure_) {
    result.notes.push_back(fmt::format("{} is what is kept with {} %; steps and what else is shown are expected",
                                       result.metric, significant(100 * *sure_)));
  }
  describe_now(*now, result);
  describe_tries(result);
  result.predictions = probes_.size() + 1;
  if (start->instead) {
    const bool counted = variable_.kind == NumberKind::kCount;
    result.notes.push_back(fmt::format("{}: {} {}", variable_.path,
                                       counted ? "the job is none as it is stated; the search begins with the fewest "
                                                 "that make it one,"
                                               : "nobody says it; the search begins with",
                                       start->instead->value));
  }
  for (const std::string& note : result.prediction.notes) result.notes.push_back(note);
  return result;
}

Expected<answer::Inverse> find(const io::Catalog& catalog, std::span<const Override> base, std::string_view variable,
                               const Condition& condition, const FindOptions& options) {
  const auto number = number_setting(variable);
  if (!number) return tl::unexpected<Error>(number.error());
  auto answer = FindSearch(catalog, base, *number, condition).run(options);
  if (!answer) return answer;
  const auto ask = [&](std::span<const Override> other) {
    return FindSearch(catalog, other, *number, condition).run(options);
  };
  add_over_rdma(catalog, base, ask, *answer);
  return answer;
}

}  // namespace ddlsim::whatif
