#include "ddlsim/whatif/recommend.h"

#include "choose/recommender.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "choose/condition.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/stalls.h"
#include "predict/prediction.h"

namespace ddlsim::whatif {

namespace {

/// The cheapest, the fastest, and the front; the choices are sorted by cost, then time.
void mark_best(answer::Recommendation& result) {
  const auto& choices = result.choices;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].time() < choices[result.fastest].time()) result.fastest = i;
    if (result.pareto.empty() || choices[i].time() < choices[result.pareto.back()].time()) result.pareto.push_back(i);
  }
}

}  // namespace

Expected<answer::Recommendation> Recommender::answer() {
  answer::Recommendation result;
  missed_.resize(candidates_.size());
  for (std::size_t i = 0; i < candidates_.size(); ++i) try_type(i);
  search_plans();
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const bool runs =
        std::any_of(runnable_.begin(), runnable_.end(), [&](const Trial& tried) { return tried.candidate == i; });
    if (!runs) infeasible_.push_back({candidates_[i].node, missed_[i].words});
  }
  if (!candidates_.empty()) result.title = title_of(candidates_.front().scenario, options_.epochs_by_batch.empty());
  std::sort(runnable_.begin(), runnable_.end(), [](const Trial& one, const Trial& other) {
    const ServerChoice& a = one.choice;
    const ServerChoice& b = other.choice;
    return std::tuple(a.cost(), a.time(), a.node, a.nodes, a.batch, a.strategy) <
           std::tuple(b.cost(), b.time(), b.node, b.nodes, b.batch, b.strategy);
  });
  std::vector<ServerChoice> all;
  for (const Trial& tried : runnable_) all.push_back(tried.choice);
  judge(all, result);
  if (result.choices.empty()) {
    const bool planned = std::any_of(missed_.begin(), missed_.end(), [](const Miss& miss) { return miss.of_plans; });
    return no_choice(all, infeasible_, {options_.deadline, options_.budget}, planned);
  }
  mark_best(result);
  result.would_help = would_help(result, all, options_.max_nodes.value_or(kMostNodes), faster_on_more(result));
  result.notes = notes_of(candidates_.front().scenario, asked_.precision, result);
  add_notes_of_plans(result);
  add_faster_plans(result);
  if (auto predicted = predict_best(result); !predicted) return tl::unexpected<Error>(predicted.error());
  add_notes_of_best(result);
  // Without --node every server that has a price is among the candidates.
  if (auto note = other_prices_note(candidates_.front().scenario); note && asked_.node) {
    result.notes.push_back(std::move(*note));
  }
  return result;
}

void Recommender::add_notes_of_plans(answer::Recommendation& result) const {
  const auto planned = [&](std::size_t choice) { return runnable_[inside_[choice]].way.plan.has_value(); };
  if (planned(result.cheapest) || planned(result.fastest)) {
    result.notes.emplace_back(
        "plans: the fastest legal one of each cluster whose GPUs do not hold the model; --schedule 1f1b,interleaved "
        "--zero 0,1 keep to what Megatron-LM has, and `ddlsim plan` says why one wins, and the next best");
  }
  if (cut_short_ == 0) return;
  result.notes.push_back(
      fmt::format("plans: {} of {} searches were ended by the limit of {}: a faster plan may exist "
                  "(--limit gives them more)",
                  cut_short_, plan_questions_.size(), to_text(options_.limit)));
}

/// Of models that fit whole: what splitting them would gain on the servers that are chosen.
void Recommender::add_faster_plans(answer::Recommendation& result) {
  constexpr double kWorthSaying = 0.9;
  const bool reads_tokens = tokens_of(*candidates_.front().scenario.model).has_value();
  if (!reads_tokens || asked_.strategy || options_.plan_all) return;
  for (const std::size_t i : {result.cheapest, result.fastest}) {
    const Trial trial = runnable_[inside_[i]];
    if (trial.way.plan) continue;
    const auto faster = faster_plan_on(trial.choice.nodes, trial.candidate, trial.choice);
    if (!faster || faster->step > trial.choice.step * kWorthSaying) continue;
    result.notes.push_back(
        fmt::format("plans: {} x {} would take {} instead of {} a step by {} (micro-batch {}); --plans compares plans "
                    "of all servers",
                    trial.choice.nodes, trial.choice.node, to_text(faster->step), to_text(trial.choice.step),
                    faster->strategy, faster->micro_batch));
    if (result.fastest == result.cheapest) break;
  }
}

/// Sorts what runs into what is inside the limits and types that are not.
void Recommender::judge(const std::vector<ServerChoice>& all, answer::Recommendation& result) {
  result.deadline = options_.deadline;
  result.budget = options_.budget;
  result.compared = static_cast<std::int64_t>(all.size());
  const Limits limits{options_.deadline, options_.budget};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!limits.allow(all[i])) continue;
    inside_.push_back(i);
    result.choices.push_back(all[i]);
  }
  for (const Candidate& candidate : candidates_) {
    const auto is_it = [&](const ServerChoice& choice) { return choice.node == candidate.node; };
    if (std::any_of(result.choices.begin(), result.choices.end(), is_it)) continue;
    std::vector<ServerChoice> own;
    std::copy_if(all.begin(), all.end(), std::back_inserter(own), is_it);
    if (!own.empty()) infeasible_.push_back({candidate.node, outside(own, limits)});
  }
  std::sort(infeasible_.begin(), infeasible_.end(),
            [](const NoChoice& a, const NoChoice& b) { return a.node < b.node; });
  result.infeasible = infeasible_;
}

/// The fastest choice on more servers than are allowed, where that is faster: of the next counts that it spreads over,
/// up to twice as many. Nothing where somebody states how many.
std::optional<ServerChoice> Recommender::faster_on_more(const answer::Recommendation& result) {
  constexpr int kTried = 3;
  const Trial best = runnable_[inside_[result.fastest]];
  const std::int64_t most = options_.max_nodes.value_or(kMostNodes);
  if (asked_.nodes || best.choice.nodes != most) return std::nullopt;
  const std::int64_t end = std::min<std::int64_t>(2 * most, hardware::kMaxNodes);
  if (best.way.plan) return faster_plan_on(end, best.candidate, best.choice);
  for (std::int64_t nodes = most + 1, tried = 0; nodes <= end && tried < kTried; ++nodes) {
    Scenario scenario = candidates_[best.candidate].scenario;
    scenario.cluster.nodes = nodes;
    if (best.choice.training.epochs) scenario.training.epochs = best.choice.training.epochs;
    Miss miss;
    if (!try_way(best.candidate, scenario, best.way, best.choice.batch, miss)) continue;
    ServerChoice more = std::move(runnable_.back().choice);
    runnable_.pop_back();
    ++tried;
    if (more.time() < best.choice.time()) return more;
  }
  return std::nullopt;
}

/// The same of plans.
std::optional<ServerChoice> Recommender::faster_plan_on(std::int64_t nodes, std::size_t candidate,
                                                        const ServerChoice& than) {
  const PlanTask task{candidate, nodes, {than.batch, than.training.epochs.value_or(1)}};
  RecommendOptions options = options_;
  options.limit = options_.limit / 4.0;
  options.progress = {};
  std::optional<ServerChoice> more;
  search_clusters(catalog_, std::array{question_of(task)}, options, [&](std::size_t, Expected<ClusterPlans> plans) {
    if (!take_plans(task, std::move(plans))) return;
    more = std::move(runnable_.back().choice);
    runnable_.pop_back();
  });
  return more && more->time() < than.time() ? more : std::nullopt;
}

/// The job of a choice, as it was tried.
Scenario Recommender::scenario_of(const Trial& tried) const {
  Scenario scenario = candidates_[tried.candidate].scenario;
  scenario.cluster.nodes = tried.choice.nodes;
  scenario.batch = tried.choice.micro_batch;
  scenario.strategy.accumulation = tried.choice.passes;
  if (tried.choice.training.epochs) scenario.training.epochs = tried.choice.training.epochs;
  share_by(tried.way, scenario);
  return scenario;
}

Expected<void> Recommender::predict_best(answer::Recommendation& result) {
  for (std::size_t i = 0; i < result.choices.size(); ++i) {
    const bool best = i == result.cheapest || i == result.fastest ||
                      std::find(result.pareto.begin(), result.pareto.end(), i) != result.pareto.end();
    if (!best && !options_.predict_all) continue;
    const Scenario scenario = scenario_of(runnable_[inside_[i]]);
    auto prediction = predictor_.predict(scenario);
    if (!prediction) return tl::unexpected<Error>(prediction.error());
    ServerChoice& choice = result.choices[i];
    if (options_.deadline) {
      const Condition in_time{.metric = Metric::kTimeToTrain, .target = options_.deadline->in(seconds)};
      choice.in_deadline = probability_of(in_time, *prediction);
    }
    choice.stalls = stalls_of(scenario, predictor_, first_epoch_share(scenario, choice));
    choice.prediction = std::move(*prediction);
  }
  return {};
}

Expected<answer::Recommendation> recommend(const io::Catalog& catalog, std::span<const Override> stated,
                                           const RecommendOptions& options) {
  auto asked = take_apart(stated);
  if (!asked) return tl::unexpected<Error>(asked.error());
  if (auto agree = check_epochs(*asked, stated, options); !agree) return tl::unexpected<Error>(agree.error());
  if (auto known = check_providers(catalog, options); !known) return tl::unexpected<Error>(known.error());
  if (auto sound = check_choice(catalog, stated, options); !sound) return tl::unexpected<Error>(sound.error());
  Recommender recommender(catalog, std::move(*asked), options);
  if (auto gathered = recommender.gather(); !gathered) return tl::unexpected<Error>(gathered.error());
  return recommender.answer();
}

}  // namespace ddlsim::whatif
