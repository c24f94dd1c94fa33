#include "choose/recommender.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "ddlsim/plan/lower.h"
#include "ddlsim/support/quantity_io.h"
#include "predict/prediction.h"
#include "scenario/setting_values.h"

namespace ddlsim::whatif {

std::vector<std::int64_t> Recommender::counts(const Scenario& scenario) const {
  if (asked_.nodes) return {*asked_.nodes};
  const std::int64_t most = options_.max_nodes.value_or(kMostNodes);
  const auto table = batches(scenario);
  std::vector<std::int64_t> counts;
  for (std::int64_t n = 1; n <= most; ++n) {
    const bool whole =
        std::any_of(table.begin(), table.end(), [n](const auto& row) { return row.global_batch % n == 0; });
    if (whole || n == most || std::has_single_bit(static_cast<std::uint64_t>(n))) counts.push_back(n);
  }
  return counts;
}

std::vector<io::EpochsAtBatch> Recommender::batches(const Scenario& scenario) const {
  const double epochs = scenario.training.epochs.value_or(1);
  if (options_.epochs_by_batch.empty()) {
    const std::int64_t own = scenario.model->global_batch.value_or(scenario.model->batch);
    return {{asked_.global_batch.value_or(own), epochs}};
  }
  std::vector<io::EpochsAtBatch> table = options_.epochs_by_batch;
  if (asked_.global_batch) {
    std::erase_if(table, [&](const auto& row) { return row.global_batch != *asked_.global_batch; });
  }
  return table;
}

/// Whether a choice came of it; `miss` says why none did.
bool Recommender::try_way(std::size_t candidate, Scenario& scenario, const Way& way, std::int64_t global_batch,
                          Miss& miss) {
  share_by(way, scenario);
  const std::int64_t replicas = std::max<std::int64_t>(plan::replicas_of(scenario), 1);
  if (global_batch % replicas != 0) {
    miss = {Lack::kBatch,
            fmt::format("batch: {} samples do not spread evenly over {} replicas", to_text(global_batch), replicas)};
    return false;
  }
  const auto batch =
      way.plan ? way.plan->batch : largest_pass(scenario, global_batch / replicas, asked_.micro_batch, miss);
  if (!batch) return false;
  if (way.plan) {
    scenario.batch = way.plan->batch;
    scenario.strategy.accumulation = way.plan->passes;
  }
  const auto outline = predictor_.outline(scenario);
  if (!outline) {
    miss = {Lack::kRefused, outline.error().message};
    return false;
  }
  StepShape shape{.step = outline->step,
                  .kernels = outline->kernels,
                  .global_batch = global_batch,
                  .tokens_per_sample = tokens_of(*scenario.model),
                  .power = outline->power};
  if (const auto first_epoch = in_first_epoch(scenario)) {
    const auto first = predictor_.outline(*first_epoch);
    if (!first) {
      miss = {Lack::kRefused, first.error().message};
      return false;
    }
    shape.first_epoch_step = first->step;
  }
  if (scenario.failures.stated()) {
    auto lasting = check_goodput(scenario).and_then([&] { return goodput(scenario); });
    if (!lasting) {
      miss = {Lack::kRefused, lasting.error().message};
      return false;
    }
    shape.goodput = std::move(*lasting);
  }
  const hardware::Cluster& cluster = scenario.cluster;
  ServerChoice choice{.node = cluster.node.id,
                      .nodes = cluster.nodes,
                      .spares = shape.goodput ? shape.goodput->spares : 0,
                      .gpus = cluster.gpus(),
                      .batch = global_batch,
                      .micro_batch = *batch,
                      .passes = scenario.strategy.accumulation,
                      .strategy = cluster.gpus() == 1 && !way.plan ? "one GPU" : way.words,
                      .price = *price_of_cluster(scenario, shape.goodput),
                      .price_region = scenario.price_stated ? "" : cluster.node.tariff.region,
                      .price_date = scenario.price_stated ? "" : cluster.node.tariff.date,
                      .step = outline->step,
                      .training = train(scenario, shape),
                      .prediction = {},
                      .in_deadline = {},
                      .stalls = {}};
  choice.settings = settings_of(candidates_[candidate].name, way, choice);
  if (!options_.epochs_by_batch.empty()) {
    choice.settings.emplace_back("training.epochs", significant(scenario.training.epochs.value_or(1), 17));
  }
  runnable_.push_back({std::move(choice), candidate, way});
  return true;
}

/// Everything one type of server can do without a plan; what it may do with one is searched after that.
void Recommender::try_type(std::size_t number) {
  const Candidate& candidate = candidates_[number];
  const bool own = asked_.strategy || !candidate.scenario.model->has_layers();
  for (const std::int64_t nodes : counts(candidate.scenario)) {
    for (const io::EpochsAtBatch& batch : batches(candidate.scenario)) {
      Scenario scenario = candidate.scenario;
      scenario.cluster.nodes = nodes;
      if (!options_.epochs_by_batch.empty()) scenario.training.epochs = batch.epochs;
      Miss miss;
      const auto attempt = [&](const Way& way) {
        Scenario tried = scenario;
        if (try_way(number, tried, way, batch.global_batch, miss)) return true;
        if (tells_more(miss, missed_[number])) missed_[number] = miss;
        return false;
      };
      const bool whole = attempt(own ? Way{.words = "as stated", .as_stated = true} : Way{.words = "all-reduce"});
      const bool too_large = !whole && miss.of_memory();
      const bool tables = !own && plan::has_tables(scenario) && scenario.cluster.gpus() > 1;
      const bool spread = tables && attempt({.words = "pearl", .kind = plan::StrategyKind::kPearl});
      const bool all = options_.plan_all && !asked_.strategy && candidate.scenario.model->has_layers();
      if ((too_large && !spread) || all) ask_for_plans({number, nodes, batch}, miss.whole);
    }
  }
}

/// Unless what its GPUs hold in whatever plan is too much: their share of weights, gradients and states.
void Recommender::ask_for_plans(const PlanTask& task, const plan::MemoryFootprint& whole) {
  Scenario scenario = candidates_[task.candidate].scenario;
  scenario.cluster.nodes = task.nodes;
  const DataSize least = (whole.weights + whole.master + whole.optimizer_state + whole.gradients) /
                         static_cast<double>(scenario.cluster.gpus());
  if (least > scenario.cluster.node.gpu.memory_size) {
    return miss_plans(task, no_plan({.fastest = {}, .least_held = least}, scenario));
  }
  plan_tasks_.push_back(task);
  plan_questions_.push_back(question_of(task));
}

ClusterQuestion Recommender::question_of(const PlanTask& task) const {
  const Candidate& type = candidates_[task.candidate];
  std::vector<Override> stated = asked_.settings;
  std::erase_if(stated, [](const Override& setting) { return setting.path == "price.spot"; });
  stated.push_back({"node", type.name, {}});
  stated.push_back({"nodes", std::to_string(task.nodes), {}});
  stated.push_back({"global_batch", std::to_string(task.batch.global_batch), {}});
  if (asked_.micro_batch) stated.push_back({"batch", std::to_string(*asked_.micro_batch), {}});
  stated.push_back({"precision", std::string(name_of(kPrecisions, type.scenario.precision)), {}});
  const hardware::Node& node = type.scenario.cluster.node;
  const ComputeRate peak = node.gpu.peak.at(type.scenario.precision).value_or(node.gpu.peak.fp32);
  const double rate = peak.in(flops_per_second) * static_cast<double>(node.gpus);
  return {std::move(stated), price_of(type.scenario)->in(dollars_per_hour) / rate};
}

void Recommender::miss_plans(const PlanTask& task, const Miss& miss) {
  Miss& told = missed_[task.candidate];
  if (!told.of_plans || tells_more(miss, told)) told = miss;
}

void Recommender::search_plans() {
  search_clusters(catalog_, plan_questions_, options_, [&](std::size_t number, Expected<ClusterPlans> plans) {
    take_plans(plan_tasks_[number], std::move(plans));
  });
}

/// Whether a choice came of it.
bool Recommender::take_plans(const PlanTask& task, Expected<ClusterPlans> plans) {
  // Of a job that no plan is for (parameter servers, a straggler), or whose host's memory is too small, what was tried
  // says why.
  if (!plans && plans.error().code == ErrorCode::kUnsupported) return false;
  if (!plans) {
    miss_plans(task, {.lack = Lack::kRefused, .words = plans.error().message, .of_plans = true});
    return false;
  }
  if (!plans->to_the_end) ++cut_short_;
  Scenario scenario = candidates_[task.candidate].scenario;
  scenario.cluster.nodes = task.nodes;
  if (!plans->fastest) {
    if (!plans->to_the_end || plans->least_held != DataSize::infinity()) miss_plans(task, no_plan(*plans, scenario));
    return false;
  }
  if (!options_.epochs_by_batch.empty()) scenario.training.epochs = task.batch.epochs;
  Miss miss;
  const bool runs =
      try_way(task.candidate, scenario, way_of(std::move(*plans->fastest)), task.batch.global_batch, miss);
  if (!runs) miss_plans(task, miss);
  return runs;
}

}  // namespace ddlsim::whatif
