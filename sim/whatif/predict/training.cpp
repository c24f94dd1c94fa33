#include "ddlsim/whatif/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/scenario.h"
#include "predict/question.h"

namespace ddlsim::whatif {
namespace {

std::int64_t ceil_of(std::int64_t whole, std::int64_t part) { return whole / part + (whole % part == 0 ? 0 : 1); }

/// The steps of an epoch at a global batch.
std::int64_t steps_of_epoch(const Scenario& scenario, const StepShape& shape) {
  const TrainingRun& run = scenario.training;
  if (run.tokens) return ceil_of(*run.tokens, shape.global_batch * shape.tokens_per_sample.value_or(1));
  const std::int64_t read = scenario.input.dataset ? scenario.input.dataset->samples : 1;
  return ceil_of(samples_of_epoch(scenario).value_or(read), shape.global_batch);
}

/// The steps of a run.
std::int64_t steps_of(const Scenario& scenario, const StepShape& shape) {
  const TrainingRun& run = scenario.training;
  if (run.steps) return *run.steps;
  const std::int64_t of_epoch = steps_of_epoch(scenario, shape);
  const double steps = std::ceil(run.epochs.value_or(1) * static_cast<double>(of_epoch));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(steps, 1e18)));
}

/// Of stated steps by the data set that they read; nothing: nobody says what an epoch is.
std::optional<double> epochs_of(const Scenario& scenario, const StepShape& shape) {
  const TrainingRun& run = scenario.training;
  if (!run.steps) return run.epochs.value_or(1);
  if (!scenario.input.dataset) return std::nullopt;
  return static_cast<double>(*run.steps) / static_cast<double>(steps_of_epoch(scenario, shape));
}

/// What reading from storage adds to a run's steps until memory has what it can hold. A server of n reads 1/n of a new
/// order every epoch, so that (1-1/n)^(k-1) of what it reads in epoch k it has not read before.
Time filling_caches(const Scenario& scenario, const StepShape& shape) {
  constexpr double kNothingNew = 1e-3;
  if (!shape.first_epoch_step) return {};
  const double n = fills_over_epochs(scenario) ? static_cast<double>(scenario.cluster.nodes) : 1.0;
  const auto of_epoch = static_cast<double>(steps_of_epoch(scenario, shape));
  auto left = static_cast<double>(steps_of(scenario, shape));
  Time all;
  for (double unread = 1; unread > kNothingNew && left > 0; unread *= 1 - 1 / n) {
    const Time more = *shape.first_epoch_step * unread - shape.step;
    if (more <= Time::zero()) break;
    all += more * std::min(of_epoch, left);
    left -= of_epoch;
  }
  return all;
}

}  // namespace

std::optional<std::int64_t> samples_of_epoch(const Scenario& scenario) {
  const TrainingRun& run = scenario.training;
  if (run.samples || run.tokens || !run.epochs || !scenario.input.dataset) return run.samples;
  return scenario.input.dataset->samples;
}

bool asks_for_training(const Scenario& scenario) {
  return scenario.training.steps || scenario.training.tokens || samples_of_epoch(scenario);
}

std::string unused_of_run(const Scenario& scenario) {
  const TrainingRun& run = scenario.training;
  std::vector<std::string> unused;
  const auto add = [&](bool stated, const char* path) {
    if (stated) unused.emplace_back(path);
  };
  if (asks_for_training(scenario)) {
    const auto none = [](const std::optional<Time>& time) { return time.value_or(Time::zero()) == Time::zero(); };
    add(none(run.evaluation) && run.evaluate_every != TrainingRun{}.evaluate_every, "training.evaluate_every");
    add(none(run.checkpoint) && run.checkpoint_every != TrainingRun{}.checkpoint_every, "training.checkpoint_every");
    return join(unused);
  }
  add(run.startup > Time::zero(), "training.startup");
  add(run.evaluation.has_value(), "training.evaluation");
  add(run.evaluate_every != TrainingRun{}.evaluate_every, "training.evaluate_every");
  add(run.checkpoint.has_value(), "training.checkpoint");
  add(run.checkpoint_every != TrainingRun{}.checkpoint_every, "training.checkpoint_every");
  add(run.carbon.has_value(), "energy.carbon");
  return join(unused);
}

std::optional<std::string> no_evaluation_note(const Scenario& scenario, const answer::Training& training) {
  const TrainingRun& run = scenario.training;
  if (run.evaluation.value_or(Time::zero()) == Time::zero() || training.evaluation > Time::zero()) return std::nullopt;
  const bool unknown = run.steps && !scenario.input.dataset;
  const std::string why = unknown ? "nobody says how many samples an epoch has (--dataset; --samples and --epochs)"
                                  : fmt::format("the run ends before the first, after {} epoch{}",
                                                significant(run.evaluate_every, 6), run.evaluate_every == 1 ? "" : "s");
  return "stated, but without effect here: training.evaluation, as " + why;
}

Expected<void> check_training(const Scenario& scenario) {
  const TrainingRun& run = scenario.training;
  const auto bad = [](std::string what, std::string note) {
    return fail(ErrorCode::kInvalidArgument, std::move(what), {}, {std::move(note)});
  };
  if (run.samples && run.tokens) return bad("training.samples and training.tokens", "state one of them");
  if (run.steps && (run.samples || run.tokens || run.epochs)) {
    return bad("training.steps and the length of an epoch", "state the steps, or samples (tokens) and epochs");
  }
  if (run.epochs && !asks_for_training(scenario)) {
    return bad(fmt::format("training.epochs: {} epoch{} of how many samples?", significant(*run.epochs, 6),
                           *run.epochs == 1 ? "" : "s"),
               "state --samples (or --tokens), what an epoch has");
  }
  if (run.tokens && scenario.model && !tokens_of(*scenario.model)) {
    return bad(fmt::format("training.tokens: a sample of {} is {} {}, and no sequence of tokens", scenario.model->id,
                           scenario.model->sample.starts_with('i') ? "an" : "a", scenario.model->sample),
               "state --samples");
  }
  if (run.spot && !price_of(scenario)) {
    return bad(fmt::format("nobody knows the spot price of {}", scenario.cluster.node.id),
               "state it: --price \"" + scenario.cluster.node.id + "=12 $/h\", or leave --spot out");
  }
  return {};
}

std::optional<PriceRate> price_of(const Scenario& scenario) {
  const hardware::Node& node = scenario.cluster.node;
  if (scenario.training.spot && !scenario.price_stated) return node.tariff.spot;
  return node.price;
}

std::optional<std::string> other_prices_note(const Scenario& scenario) {
  if (scenario.price_stated || scenario.prices_elsewhere.empty()) return std::nullopt;
  return fmt::format("stated, but without effect here: the price of {}; the job's servers are {}",
                     join(scenario.prices_elsewhere), scenario.cluster.node.id);
}

std::optional<PriceRate> price_of_cluster(const Scenario& scenario, const std::optional<answer::Goodput>& goodput) {
  const auto price = price_of(scenario);
  if (!price) return std::nullopt;
  return *price * static_cast<double>(scenario.cluster.nodes + (goodput ? goodput->spares : 0));
}

std::optional<Scenario> in_first_epoch(const Scenario& scenario) {
  const plan::Input& input = scenario.input;
  if (!input.dataset || input.epoch.stated() || !asks_for_training(scenario)) return std::nullopt;
  Scenario first = scenario;
  first.input.epoch = plan::Epoch::kFirst;
  return first;
}

bool fills_over_epochs(const Scenario& scenario) {
  return scenario.cluster.nodes > 1 && scenario.input.cache.get() == plan::CachePolicy::kPage;
}

std::int64_t first_epoch_steps(const Scenario& scenario, const StepShape& shape) {
  return std::min(steps_of_epoch(scenario, shape), steps_of(scenario, shape));
}

answer::Training train(const Scenario& scenario, const StepShape& shape) {
  const TrainingRun& run = scenario.training;
  const hardware::Cluster& cluster = scenario.cluster;
  answer::Training training;
  training.steps = steps_of(scenario, shape);
  if (!run.steps) training.epochs = run.epochs.value_or(1);
  training.stepping = shape.step * static_cast<double>(training.steps);
  training.stepping += filling_caches(scenario, shape);
  training.startup = run.startup;
  if (const auto epochs = epochs_of(scenario, shape); run.evaluation && epochs) {
    training.evaluation = *run.evaluation * std::floor(*epochs / run.evaluate_every);
  }
  if (run.checkpoint) {
    training.checkpoints = *run.checkpoint * std::floor(training.stepping / run.checkpoint_every);
  }
  if (shape.goodput) {
    const Time worked = training.stepping + training.evaluation;
    const Time wall = worked / shape.goodput->share;
    training.checkpoints = wall * shape.goodput->checkpoints;
    training.failures = max(wall - worked - training.checkpoints, Time::zero());
  }
  // A step that waits for storage runs no more kernels than one that does not.
  const Time kernels = min(shape.kernels, shape.step) * static_cast<double>(training.steps);
  // What is lost was worked as well.
  const double again = shape.goodput ? 1 + shape.goodput->recomputed / shape.goodput->share : 1;
  const auto gpus = static_cast<double>(cluster.gpus());
  const Power drawn = shape.power ? shape.power->working : cluster.node.gpu.tdp;
  const Power idle = shape.power ? shape.power->idle : Power::zero();
  const Time working = (kernels + training.evaluation) * again;
  training.utilisation = working / training.time();
  training.energy = (drawn * working + idle * max(training.time() - working, Time::zero())) * gpus;
  if (run.carbon) training.carbon = *run.carbon * training.energy;
  if (const auto price = price_of_cluster(scenario, shape.goodput)) training.cost = *price * training.time();
  return training;
}

}  // namespace ddlsim::whatif
