#include "ddlsim/whatif/predictor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/lowerer.h"
#include "ddlsim/whatif/predict.h"
#include "predict/correction.h"
#include "predict/prediction.h"
#include "predict/question.h"
#include "predict/stage_times.h"

namespace ddlsim::whatif {
namespace {

/// What a class of a plan's ranks runs and updates.
struct KeptClass {
  std::size_t first = 0;  // of the layers
  std::size_t count = 0;
  DataSize updated{};
  std::shared_ptr<const std::vector<std::size_t>> which{};  // of a rank's several parts
};

/// What prices of layers depend on: cost's inputs, and what makes the plan's layers. What is shared is kept alive, so
/// that addresses stay theirs.
struct Key {
  std::shared_ptr<const hardware::Gpu> gpu;  // that the inputs refer to
  cost::PriceInputs inputs;
  std::shared_ptr<const workload::Model> model;
  workload::Fusion fusion;
  plan::Parallel parallel;
  std::optional<DataSize> spread_from{};  // tables are spread
  std::int64_t gpus = 0;                  // that they are spread over
  std::vector<KeptClass> classes;
};

std::optional<DataSize> spread_from(const plan::Job& job) {
  return plan::spreads_tables(job) ? std::optional(job.strategy.spread_from.get()) : std::nullopt;
}

bool runs_the_same(const plan::RankClass& one, const KeptClass& kept) {
  const auto& which = one.chunk.which;
  const bool alike = which == kept.which || (which && kept.which && *which == *kept.which);
  return alike && one.chunk.first == kept.first && one.chunk.count == kept.count && one.updated == kept.updated;
}

bool answers(const Key& key, const cost::PriceInputs& inputs, const plan::Job& job, const plan::StepPlan& plan) {
  return key.model == job.model && key.inputs == inputs && key.fusion == job.fusion && key.parallel == job.parallel &&
         key.spread_from == spread_from(job) && (!key.spread_from || key.gpus == job.cluster.gpus()) &&
         std::equal(plan.classes.begin(), plan.classes.end(), key.classes.begin(), key.classes.end(), runs_the_same);
}

Key key_of(const cost::PriceInputs& inputs, const plan::Job& job, const plan::StepPlan& plan) {
  Key key{.gpu = std::make_shared<const hardware::Gpu>(*inputs.gpu),
          .inputs = inputs,
          .model = job.model,
          .fusion = job.fusion,
          .parallel = job.parallel,
          .spread_from = spread_from(job),
          .gpus = job.cluster.gpus(),
          .classes = {}};
  key.inputs.gpu = key.gpu.get();
  for (const plan::RankClass& one : plan.classes) {
    key.classes.push_back(
        {.first = one.chunk.first, .count = one.chunk.count, .updated = one.updated, .which = one.chunk.which});
  }
  return key;
}

}  // namespace

struct Predictor::Kept final : Shelf {
  Expected<plan::StepPlan> plan(const plan::Job& job, Wanted wanted) override {
    constexpr std::size_t kLists = 128;  // a bound of memory
    if (lowerer.kept() > kLists) lowerer = {};
    return stages.lowered(
        job, [&](const plan::Job& cut) { return wanted == Wanted::kAll ? lowerer.lower(cut) : lowerer.timed(cut); });
  }

  Expected<std::shared_ptr<const cost::LayerPrices>> prices(const plan::Job& job, const plan::StepPlan& plan) override {
    const auto inputs = cost::price_inputs(job);
    if (!inputs) return tl::unexpected<Error>(inputs.error());
    for (const auto& [key, prices] : shelf) {
      if (answers(key, *inputs, job, plan)) return prices;
    }
    auto priced = cost::price_layers(job, plan, {kInterval90Low, kInterval90High});
    if (!priced) return tl::unexpected<Error>(priced.error());
    if (shelf.size() == kKept) shelf.pop_back();
    shelf.emplace_front(key_of(*inputs, job, plan), std::make_shared<const cost::LayerPrices>(std::move(*priced)));
    return shelf.front().second;
  }

  plan::Lowerer lowerer;
  StageTimes stages;
  std::deque<std::pair<Key, std::shared_ptr<const cost::LayerPrices>>> shelf;
};

Predictor::Predictor() : kept_(std::make_unique<Kept>()) {}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

Expected<answer::Prediction> Predictor::predict(const Scenario& scenario) {
  const auto question = ask(scenario, *kept_, Wanted::kAll);
  if (!question) return tl::unexpected<Error>(question.error());
  return prediction_of(*question);
}

Expected<Time> Predictor::step_time(const Scenario& scenario) {
  const auto question = ask(scenario, *kept_, Wanted::kTimes);
  if (!question) return tl::unexpected<Error>(question.error());
  const auto laid = lay_out(*question, {}, answer::Detail::kTime);
  if (!laid) return tl::unexpected<Error>(laid.error());
  const Time step = corrected_step(*question, *laid);
  if (auto sane = check_answer(*question, laid->line.step, step); !sane) return tl::unexpected<Error>(sane.error());
  return step;
}

Expected<Outline> Predictor::outline(const Scenario& scenario) {
  const auto question = ask(scenario, *kept_, Wanted::kTimes);
  if (!question) return tl::unexpected<Error>(question.error());
  const auto laid = lay_out(*question, {}, answer::Detail::kParts);
  if (!laid) return tl::unexpected<Error>(laid.error());
  const RunCorrection runs = scenario.own_runs ? correction_of(*question, *laid) : RunCorrection{};
  const Time step = scenario.own_runs ? runs.step : laid->line.step;
  if (auto sane = check_answer(*question, laid->line.step, step); !sane) return tl::unexpected<Error>(sane.error());
  return Outline{.step = step,
                 .kernels = (laid->line.parts.compute + laid->line.parts.memory) * runs.parts,
                 .power = power_of(*question, *laid)};
}

}  // namespace ddlsim::whatif
