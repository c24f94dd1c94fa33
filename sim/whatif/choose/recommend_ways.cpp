#include "choose/recommend_ways.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "ddlsim/answer/plan_words.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/whatif/predict.h"
#include "predict/prediction.h"

namespace ddlsim::whatif {
namespace {

/// Of a plan's settings those that a choice has of its own, or the job.
bool says_choice(const std::string& path) {
  constexpr std::array<std::string_view, 4> kOfChoice{"nodes", "batch", "global_batch", "precision"};
  return std::find(kOfChoice.begin(), kOfChoice.end(), path) != kOfChoice.end();
}

/// A degree that cuts nothing is what a job has anyhow; how many replicas there are follows.
bool follows(const std::string& path, const std::string& value) {
  constexpr std::array<std::string_view, 4> kDegrees{"parallel.tensor", "parallel.pipeline", "parallel.context",
                                                     "parallel.expert"};
  return path == "parallel.data" ||
         (value == "1" && std::find(kDegrees.begin(), kDegrees.end(), path) != kDegrees.end());
}

}  // namespace

Way way_of(FastestPlan plan) {
  std::erase_if(plan.settings, [](const auto& one) { return says_choice(one.first); });
  std::string words = answer::words_for(plan.settings);
  if (words.empty()) words = "one GPU";
  return {.words = std::move(words), .plan = std::move(plan)};
}

void share_by(const Way& way, Scenario& scenario) {
  if (way.as_stated) return;
  if (way.plan) {
    scenario.parallel = way.plan->parallel;
  } else {
    scenario.strategy.kind = way.kind;
  }
}

std::vector<std::pair<std::string, std::string>> settings_of(const std::string& node, const Way& way,
                                                             const answer::ServerChoice& choice) {
  std::vector<std::pair<std::string, std::string>> settings{{"node", node},
                                                            {"nodes", std::to_string(choice.nodes)},
                                                            {"batch", std::to_string(choice.micro_batch)},
                                                            {"global_batch", std::to_string(choice.batch)}};
  if (way.as_stated) return settings;
  if (!way.plan) {
    settings.emplace_back("strategy", name_of(plan::kStrategies, way.kind));
    return settings;
  }
  for (const auto& [path, value] : way.plan->settings) {
    if (!follows(path, value)) settings.emplace_back(path, value);
  }
  return settings;
}

std::optional<std::int64_t> largest_pass(Scenario& scenario, std::int64_t share,
                                         const std::optional<std::int64_t>& stated, Miss& miss) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d * d <= share; ++d) {
    if (share % d != 0) continue;
    divisors.push_back(d);
    if (d * d != share) divisors.push_back(share / d);
  }
  std::sort(divisors.begin(), divisors.end());
  if (stated) {
    if (share % *stated != 0) {
      miss = {Lack::kBatch,
              fmt::format("batch: a replica's share of {} samples is no multiple of the {} of a pass", share, *stated)};
      return std::nullopt;
    }
    divisors = {*stated};
  }
  const auto fits = [&](std::int64_t batch) {
    scenario.batch = batch;
    scenario.strategy.accumulation = share / batch;
    const auto needed = needed_by(scenario);
    if (!needed) {
      miss = {Lack::kRefused, needed.error().message};
    } else if (!needed->fits()) {
      miss = missing_memory(*needed, batch, scenario);
    }
    return needed && needed->fits();
  };
  if (fits(divisors.back())) return divisors.back();
  std::size_t low = 0;
  std::size_t high = divisors.size() - 1;
  if (high == 0 || !fits(divisors[low])) return std::nullopt;
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    (fits(divisors[middle]) ? low : high) = middle;
  }
  static_cast<void>(fits(divisors[low]));
  return divisors[low];
}

void read_data_set(Scenario& scenario) {
  const auto& data = scenario.input.dataset;
  TrainingRun& run = scenario.training;
  if (data && !run.samples && !run.tokens && !run.steps) run.samples = data->samples;
  if (asks_for_training(scenario)) scenario.cluster.node.sustain_network();
}

std::optional<double> first_epoch_share(const Scenario& scenario, const answer::ServerChoice& choice) {
  if (!in_first_epoch(scenario)) return std::nullopt;
  const StepShape shape{.step = choice.step,
                        .kernels = choice.step,
                        .global_batch = choice.batch,
                        .tokens_per_sample = tokens_of(*scenario.model)};
  return static_cast<double>(first_epoch_steps(scenario, shape)) / static_cast<double>(choice.training.steps);
}

}  // namespace ddlsim::whatif
