#include "ddlsim/whatif/predictor.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "correction.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/whatif/predict.h"
#include "prediction.h"
#include "question.h"

namespace ddlsim::whatif {
namespace {

/// What prices of layers depend on. The model and the profiles are kept alive, so that their addresses stay theirs.
struct Key {
  std::shared_ptr<const workload::Model> model;
  workload::Fusion fusion;
  plan::Parallel parallel;
  std::vector<hardware::MeasuredProfile> profiles;
  std::string gpu;
  hardware::PeakRates peak;
  Bandwidth memory{};
  DataSize l2{};
  std::int64_t multiprocessors = 0;
  double compute_share = 0;
  double memory_share = 0;
  bool by_profiles = false;
  std::int64_t batch = 0;
  std::int64_t accumulation = 0;
  std::int64_t data_ranks = 0;            // share the update of a model that is split
  std::optional<DataSize> spread_from{};  // tables are spread
  primitives::AttentionKernel attention = primitives::AttentionKernel::kBest;
  plan::UpdateKernels optimizer = plan::UpdateKernels::kFused;
  Precision precision = Precision::kFp32;
};

std::optional<DataSize> spread_from(const plan::Job& job) {
  return plan::spreads_tables(job) ? std::optional(job.strategy.spread_from.get()) : std::nullopt;
}

bool answers(const Key& key, const plan::Job& job, const plan::StepPlan& plan) {
  const hardware::Gpu& gpu = job.cluster.node.gpu;
  const auto& profiles = gpu.profiles.get();
  const auto same_profile = [](const auto& a, const auto& b) { return a.profile == b.profile; };
  return key.model == job.model && key.batch == job.batch && key.precision == job.precision && key.gpu == gpu.id &&
         key.peak == gpu.peak && key.memory == gpu.memory_bandwidth && key.multiprocessors == gpu.sm_count &&
         key.l2 == gpu.l2.value_or(DataSize{}) && key.compute_share == cost::compute_share(job) &&
         key.memory_share == job.efficiency.memory.get() && key.by_profiles == cost::by_profiles(job) &&
         key.accumulation == job.strategy.accumulation.get() && key.fusion == job.fusion &&
         key.attention == job.software_attention && key.optimizer == job.software_optimizer &&
         key.parallel == job.parallel && key.spread_from == spread_from(job) &&
         (!(plan::splits_model(key.parallel) || key.spread_from) || key.data_ranks == plan.groups.front().ranks) &&
         std::equal(profiles.begin(), profiles.end(), key.profiles.begin(), key.profiles.end(), same_profile);
}

Key key_of(const plan::Job& job, const plan::StepPlan& plan) {
  const hardware::Gpu& gpu = job.cluster.node.gpu;
  return {.model = job.model,
          .fusion = job.fusion,
          .parallel = job.parallel,
          .profiles = gpu.profiles.get(),
          .gpu = gpu.id,
          .peak = gpu.peak,
          .memory = gpu.memory_bandwidth,
          .l2 = gpu.l2.value_or(DataSize{}),
          .multiprocessors = gpu.sm_count,
          .compute_share = cost::compute_share(job),
          .memory_share = job.efficiency.memory,
          .by_profiles = cost::by_profiles(job),
          .batch = job.batch,
          .accumulation = job.strategy.accumulation,
          .data_ranks = plan.groups.front().ranks,
          .spread_from = spread_from(job),
          .attention = job.software_attention,
          .optimizer = job.software_optimizer,
          .precision = job.precision};
}

}  // namespace

struct Predictor::Kept final : PriceShelf {
  Expected<std::shared_ptr<const cost::LayerPrices>> prices(const plan::Job& job, const plan::StepPlan& plan) override {
    for (const auto& [key, prices] : shelf) {
      if (answers(key, job, plan)) return prices;
    }
    auto priced = cost::price_layers(job, plan, {kInterval90Low, kInterval90High});
    if (!priced) return tl::unexpected<Error>(priced.error());
    if (shelf.size() == kKept) shelf.pop_back();
    shelf.emplace_front(key_of(job, plan), std::make_shared<const cost::LayerPrices>(std::move(*priced)));
    return shelf.front().second;
  }

  std::deque<std::pair<Key, std::shared_ptr<const cost::LayerPrices>>> shelf;
};

Predictor::Predictor() : kept_(std::make_unique<Kept>()) {}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

Expected<answer::Prediction> Predictor::predict(const Scenario& scenario) {
  const auto question = ask(scenario, kept_.get());
  if (!question) return tl::unexpected<Error>(question.error());
  return prediction_of(*question);
}

Expected<Time> Predictor::step_time(const Scenario& scenario) {
  const auto question = ask(scenario, kept_.get());
  if (!question) return tl::unexpected<Error>(question.error());
  const auto laid = lay_out(*question, {}, answer::Detail::kTime);
  if (!laid) return tl::unexpected<Error>(laid.error());
  const Time step = corrected_step(*question, laid->line.step);
  if (auto sane = check_answer(*question, laid->line.step, step); !sane) return tl::unexpected<Error>(sane.error());
  return step;
}

Expected<Outline> Predictor::outline(const Scenario& scenario) {
  const auto question = ask(scenario, kept_.get());
  if (!question) return tl::unexpected<Error>(question.error());
  const auto laid = lay_out(*question, {}, answer::Detail::kParts);
  if (!laid) return tl::unexpected<Error>(laid.error());
  const Time step = corrected_step(*question, laid->line.step);
  if (auto sane = check_answer(*question, laid->line.step, step); !sane) return tl::unexpected<Error>(sane.error());
  const double longer = step / laid->line.step;
  return Outline{.step = step, .kernels = (laid->line.parts.compute + laid->line.parts.memory) * longer};
}

}  // namespace ddlsim::whatif
