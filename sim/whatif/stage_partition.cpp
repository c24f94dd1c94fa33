#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/partition.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/stage_partition.h"
#include "stated_runs.h"

namespace ddlsim::whatif {
namespace {

/// Times of the layers on one GPU by itself.
Expected<std::vector<Time>> times_on(Scenario job) {
  job.cluster.nodes = 1;
  job.cluster.gpus_per_node = 1;
  job.parallel = {};
  const auto plan = plan::lower(job);
  if (!plan) return tl::unexpected<Error>(plan.error());
  const auto prices = cost::price_layers(job, *plan, {kInterval90Low, kInterval90High});
  if (!prices) return tl::unexpected<Error>(prices.error());
  const cost::PricedClass& one = prices->classes.front();
  const std::size_t count = one.forward.size();
  std::vector<Time> times;
  for (std::size_t i = 0; i < count; ++i) times.push_back(one.forward[i].time + one.backward[count - 1 - i].time);
  return times;
}

Expected<Bandwidth> bandwidth_of(const Scenario& job) {
  const auto rates = cost::reached_rates(job);
  if (!rates) return tl::unexpected<Error>(rates.error());
  if (job.cluster.nodes == 1) return rates->peer;
  return rates->network / static_cast<double>(job.cluster.gpus_per_node);
}

/// The chain, and which layers of the model it has.
struct PricedChain {
  std::vector<plan::ChainLayer> layers;
  std::vector<std::string> gpus;  // names of the kinds
  DataSize least_memory = DataSize::infinity();
};

Expected<PricedChain> chain_on(const io::Catalog& catalog, std::span<const Override> stated, const Scenario& base,
                               std::span<const GpuShare> mixed) {
  PricedChain chain;
  const auto add = [&](const Scenario& job) -> Expected<void> {
    const auto times = times_on(job);
    if (!times) return tl::unexpected<Error>(times.error());
    chain.layers.resize(times->size());
    for (std::size_t i = 0; i < times->size(); ++i) chain.layers[i].times.push_back((*times)[i]);
    chain.gpus.push_back(job.cluster.node.gpu.name);
    chain.least_memory = min(chain.least_memory, job.cluster.node.gpu.memory_size);
    return {};
  };
  if (mixed.empty()) {
    if (auto added = add(base); !added) return tl::unexpected<Error>(added.error());
  }
  for (const GpuShare& share : mixed) {
    std::vector<Override> settings(stated.begin(), stated.end());
    settings.push_back({"gpu", share.gpu, {}});
    const auto job = resolve(catalog, settings);
    if (!job) return tl::unexpected<Error>(job.error());
    if (auto added = add(*job); !added) return tl::unexpected<Error>(added.error());
  }
  const auto model = plan::model_as_run(base);
  if (!model) return tl::unexpected<Error>(model.error());
  const DataSize element = gradient_size(base.strategy.gradients);
  for (std::size_t i = 0; i < chain.layers.size(); ++i) {
    double elements = 0;
    for (const std::int64_t tensor : (*model)->layers[i].parameters) elements += static_cast<double>(tensor);
    chain.layers[i].weights = element * elements;
  }
  return chain;
}

/// Weights, gradients and states alone; activations and stashed weights come on top.
void add_what_does_not_fit(const Scenario& base, DataSize capacity, answer::PartitionChoice& choice) {
  const double values = 2.0 + workload::state_values(base.model->optimizer);
  const auto fullest = std::max_element(choice.stages.begin(), choice.stages.end(),
                                        [](const auto& a, const auto& b) { return a.weights < b.weights; });
  const DataSize held = fullest->weights * (bytes(4) / gradient_size(base.strategy.gradients)) * values;
  if (held <= capacity) return;
  choice.notes.push_back(fmt::format(
      "does not fit: weights, gradients and states of stage {} are {} in fp32, and a GPU has {}; memory is not "
      "counted further",
      fullest - choice.stages.begin() + 1, to_text(held), to_text(capacity)));
}

struct BestOrder {
  plan::StagePartition partition;
  std::vector<std::size_t> kinds;
};

/// The kinds of GPUs in the order that makes the fastest pipeline; of equal ones the first.
Expected<BestOrder> best_order(const PricedChain& chain, std::span<const std::int64_t> counts, Bandwidth bandwidth) {
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::optional<BestOrder> best;
  do {
    plan::Workers workers{.kinds = {}, .bandwidth = bandwidth};
    for (const std::size_t kind : order) {
      workers.kinds.insert(workers.kinds.end(), static_cast<std::size_t>(counts[kind]), kind);
    }
    auto result = plan::partition(chain.layers, workers);
    if (!result) return tl::unexpected<Error>(result.error());
    if (!best || result->slowest < best->partition.slowest) best = {std::move(*result), workers.kinds};
  } while (std::next_permutation(order.begin(), order.end()));
  return std::move(*best);
}

}  // namespace

Expected<answer::PartitionChoice> partition_stages(const io::Catalog& catalog, std::span<const Override> stated,
                                                   std::span<const GpuShare> mixed) {
  constexpr std::size_t kMostKinds = 4;  // 24 orders
  if (mixed.size() > kMostKinds) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} kinds of GPUs", mixed.size()), {}, {"valid: up to 4"});
  }
  if (states_runs(stated)) {
    return fail(ErrorCode::kUnsupported, "measured runs are of whole steps, and a partition is of layers", {},
                {"state the GPU's speed instead: --set gpu.time_factor=..., as predict says with runs on one GPU"});
  }
  const auto base = resolve(catalog, stated);
  if (!base) return tl::unexpected<Error>(base.error());
  if (!base->model->has_layers()) {
    return fail(ErrorCode::kUnsupported,
                base->model->id + " is known by the features of a whole step: it has no layers to share");
  }
  if (plan::splits_model(base->parallel)) {
    return fail(ErrorCode::kUnsupported, "a partition has stages and replicas alone, which it chooses itself", {},
                {"leave parallel.* out (--tp, --pp, --zero, --recompute, ...)"});
  }
  const auto chain = chain_on(catalog, stated, *base, mixed);
  if (!chain) return tl::unexpected<Error>(chain.error());
  const auto bandwidth = bandwidth_of(*base);
  if (!bandwidth) return tl::unexpected<Error>(bandwidth.error());
  std::vector<std::int64_t> counts;
  for (const GpuShare& share : mixed) counts.push_back(share.count);
  if (counts.empty()) counts.push_back(base->cluster.gpus());
  std::int64_t all = 0;
  for (const std::int64_t count : counts) all += count;
  constexpr std::int64_t kMostWorkers = 4096;
  if (all > kMostWorkers) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} GPUs are too many partitions to compare", to_text(all)),
                {}, {"valid: up to 4,096, of short models"});
  }
  const auto best = best_order(*chain, counts, *bandwidth);
  if (!best) return tl::unexpected<Error>(best.error());
  answer::PartitionChoice choice;
  choice.title = fmt::format("{}, micro-batches of {} {}, {}, on {} GPUs of {} each", base->model->name,
                             to_text(base->batch), in_number(base->batch, base->model->sample),
                             name_of(kPrecisions, base->precision), to_text(all), to_text(*bandwidth));
  choice.batch = base->batch;
  choice.sample = base->model->sample;
  choice.slowest = best->partition.slowest;
  choice.data_parallel = best->partition.data_parallel;
  choice.alone = best->partition.alone;
  const auto& layers = base->model->layers;
  std::size_t worker = 0;
  for (const plan::ReplicatedStage& stage : best->partition.stages) {
    answer::PartitionStage row{.first = layers[stage.first].name,
                               .last = layers[stage.first + stage.count - 1].name,
                               .layers = static_cast<std::int64_t>(stage.count),
                               .replicas = stage.replicas,
                               .gpu = {},
                               .time = stage.time,
                               .weights = {}};
    for (std::size_t i = 0; i < stage.count; ++i) row.weights += chain->layers[stage.first + i].weights;
    std::vector<std::size_t> named;
    for (std::int64_t r = 0; r < stage.replicas; ++r, ++worker) {
      const std::size_t kind = best->kinds[worker];
      if (std::find(named.begin(), named.end(), kind) != named.end()) continue;
      named.push_back(kind);
      row.gpu += (row.gpu.empty() ? "" : " and ") + chain->gpus[kind];
    }
    choice.stages.push_back(std::move(row));
  }
  add_what_does_not_fit(*base, chain->least_memory, choice);
  choice.notes.emplace_back(
      "by PipeDream's equation: the pipeline never empties, old weights are stashed, sends between "
      "stages are free; sums of replicas come on top of their work");
  return choice;
}

}  // namespace ddlsim::whatif
