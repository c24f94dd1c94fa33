#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/memory.h"
#include "ddlsim/plan/partition.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/stage_partition.h"
#include "scenario/stated_runs.h"

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
  std::vector<std::string> gpus;     // names of the kinds
  std::vector<DataSize> capacities;  // of the kinds
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
    chain.capacities.push_back(job.cluster.node.gpu.memory_size);
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

/// Micro-batches on their way from a stage on, and so versions of its weights: as many as keep all workers busy, shared
/// by its replicas (NOAM; PipeDream, section 3.2).
std::int64_t versions_of(const std::vector<plan::ReplicatedStage>& stages, std::size_t stage) {
  std::int64_t workers = 0;
  for (std::size_t s = stage; s < stages.size(); ++s) workers += stages[s].replicas;
  return (workers + stages[stage].replicas - 1) / stages[stage].replicas;
}

/// What a GPU of each stage needs: the ledger of a straight pipeline of these stages, one GPU each, with as many
/// versions of weights and as many micro-batches' activations as their replicas leave in flight.
Expected<std::vector<plan::Needed>> needed_by_stages(const Scenario& base,
                                                     const std::vector<plan::ReplicatedStage>& stages) {
  plan::Job job = static_cast<const plan::Job&>(base);
  job.strategy.kind = plan::StrategyKind::kAllReduce;
  job.overlap.reset();
  const auto count = static_cast<std::int64_t>(stages.size());
  job.cluster.nodes = 1;
  job.cluster.gpus_per_node = count > 1 ? count : stages.front().replicas;
  if (count > 1) {
    job.parallel.pipeline = count;
    job.parallel.schedule = plan::PipelineSchedule::kPipeDream;
    job.strategy.accumulation.set(2 * count);  // the pipeline is full
    for (std::size_t s = 1; s < stages.size(); ++s) job.parallel.cuts.push_back(stages[s].first);
  }
  const auto plan = plan::lower(job);
  if (!plan) return tl::unexpected<Error>(plan.error());
  std::vector<plan::Needed> all;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const plan::RankClass& one = plan->classes[s];
    plan::MemoryFootprint held = one.memory;
    if (count > 1) {
      const auto versions = static_cast<double>(versions_of(stages, s));
      held.weights = held.weights * (versions / static_cast<double>(one.weight_versions));
      held.activations = held.activations * (versions / static_cast<double>(one.parts.front().in_flight));
    }
    all.push_back(plan::needed_by(job, held));
  }
  return all;
}

/// What each stage holds, and a note where that is too much.
void add_memory_of_stages(const Scenario& base, const std::vector<plan::ReplicatedStage>& stages,
                          answer::PartitionChoice& choice) {
  auto needed = needed_by_stages(base, stages);
  if (!needed) {
    choice.notes.push_back("memory is not counted: " + needed.error().message);
    return;
  }
  std::size_t most = 0;
  std::size_t too_large = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    answer::PartitionStage& stage = choice.stages[s];
    plan::Needed& one = (*needed)[s];
    one.capacity = stage.capacity;
    stage.versions = versions_of(stages, s);
    stage.held = one.all();
    if (!one.gpu_fits() || one.tensors.complete) stage.fits = one.gpu_fits();
    if (!one.gpu_fits()) ++too_large;
    if (one.times() > (*needed)[most].times()) most = s;
  }
  if (too_large == 0) return;
  const plan::Needed& one = (*needed)[most];
  choice.notes.push_back(fmt::format(
      "does not fit: {} of {} stages; stage {} needs {} of its GPU's {}: {} of weights ({} version{}), {} of "
      "gradients, "
      "{} of optimizer states, {} of activations",
      too_large, stages.size(), most + 1, to_text(one.all()), to_text(one.capacity), to_text(one.tensors.weights),
      choice.stages[most].versions, choice.stages[most].versions == 1 ? "" : "s", to_text(one.tensors.gradients),
      to_text(one.tensors.optimizer_state), to_text(one.tensors.activations)));
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
                               .weights = {},
                               .held = {},
                               .capacity = DataSize::infinity(),
                               .fits = {}};
    for (std::size_t i = 0; i < stage.count; ++i) row.weights += chain->layers[stage.first + i].weights;
    std::vector<std::size_t> named;
    for (std::int64_t r = 0; r < stage.replicas; ++r, ++worker) {
      const std::size_t kind = best->kinds[worker];
      if (std::find(named.begin(), named.end(), kind) != named.end()) continue;
      named.push_back(kind);
      row.capacity = min(row.capacity, chain->capacities[kind]);
      row.gpu += (row.gpu.empty() ? "" : " and ") + chain->gpus[kind];
    }
    choice.stages.push_back(std::move(row));
  }
  add_memory_of_stages(*base, best->partition.stages, choice);
  choice.notes.emplace_back(
      "by PipeDream's equation: the pipeline never empties, old weights are stashed, sends between "
      "stages are free; sums of replicas come on top of their work");
  return choice;
}

}  // namespace ddlsim::whatif
