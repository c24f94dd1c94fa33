#include "ddlsim/plan/memory.h"

#include <algorithm>

#include "ddlsim/plan/job.h"
#include "ddlsim/plan/step_plan.h"

namespace ddlsim::plan {

TableShare table_share(const workload::Model& model, const Strategy& strategy, std::int64_t ranks,
                       std::int64_t samples) {
  TableShare share;
  for (const workload::SparseTable& table : model.totals.sparse_tables) {
    const auto elements = static_cast<double>(table.elements);
    const auto among = static_cast<double>(ranks);
    if (ranks > 1 && spreads(strategy, table.elements)) {
      share.held += elements / among;
      share.touched += workload::touched_elements(table, samples * ranks) / among;
    } else {
      share.held += elements;
      share.touched += workload::touched_elements(table, samples);
    }
  }
  return share;
}

MemoryFootprint memory_footprint(const workload::Model& model, const Strategy& strategy, std::int64_t gpus,
                                 std::int64_t batch, Precision precision) {
  const bool alone = gpus == 1;
  const bool servers = strategy.kind == StrategyKind::kPs && strategy.servers_update && !alone;  // hold the states
  const double share = strategy.kind == StrategyKind::kPearl ? 1.0 / static_cast<double>(gpus) : servers ? 0.0 : 1.0;
  MemoryFootprint footprint;
  footprint.micro_batches = 1;
  if (model.features) {
    footprint.weights = model.features->dense_weights + model.features->embedding_weights * share;
    footprint.complete = false;
    return footprint;
  }
  const workload::Totals& totals = model.totals;
  const DataSize fp32 = bytes(4);
  const double dense = static_cast<double>(totals.dense_parameters);
  const TableShare tables = table_share(model, strategy, gpus, batch);
  const double sparse = servers ? 0.0 : tables.held;
  footprint.weights = fp32 * (dense + sparse + static_cast<double>(totals.frozen_parameters));
  footprint.gradients = fp32 * (dense + tables.touched);
  if (!servers) footprint.optimizer_state = fp32 * ((dense + sparse) * state_values(model.optimizer));
  footprint.activations =
      activation_size(precision) * (static_cast<double>(totals.saved_elements) * static_cast<double>(batch));
  footprint.complete = !model.measured;
  return footprint;
}

DataSize most_gathered(std::span<const GatheredUnit> units, std::int64_t prefetch) {
  DataSize most;
  for (std::size_t i = 0; i < units.size(); ++i) {
    // Backward asks for those before it; forward holds as much, and no gradients.
    DataSize here = units[i].gradients;
    for (std::size_t k = 0; k <= static_cast<std::size_t>(prefetch) && k <= i; ++k) here += units[i - k].weights;
    most = max(most, here);
    DataSize ahead;
    for (std::size_t k = i; k < units.size() && k <= i + static_cast<std::size_t>(prefetch); ++k) {
      ahead += units[k].weights;
    }
    most = max(most, ahead);
  }
  return most;
}

StateSizes state_sizes(States states, workload::Optimizer optimizer) {
  const double values = state_values(optimizer);
  switch (states) {
    case States::kFp32: return {bytes(4), bytes(4), {}, bytes(4 * values)};
    case States::kMixed: return {bytes(2), bytes(4), bytes(4), bytes(4 * values)};
    case States::kMixedSixteen: return {bytes(2), bytes(2), bytes(4), bytes(4 * values)};
    case States::kPureSixteen: return {bytes(2), bytes(2), {}, bytes(2 * values)};
    case States::kFp8: return {bytes(3), bytes(4), bytes(4), bytes(4 * values)};
    case States::kFp8Primary: return {bytes(1), bytes(4), bytes(4), bytes(4 * values)};
    case States::kAdam8bit: return {bytes(2), bytes(2), bytes(4), bytes(values)};
  }
  return {};
}

DataSize frozen_weight(const Job& job, DataSize trained) {
  return job.parallel.lora_rank > 0 && !job.parallel.states ? min(trained, activation_size(job.precision)) : trained;
}

namespace {

/// Whether replicas sum gradients where they stand, in buffers that are there from the start (Megatron's; DDP's buckets
/// are copies).
bool sums_in_buffers(const Job& job, States states) {
  const bool ranks = job.parallel.offload_optimizer || job.parallel.offload_activations || states != States::kFp32;
  return ranks && job.cluster.gpus() > 1 && sums_gradients(job.strategy.kind) &&
         grouping_of(job.strategy) == Grouping::kBuckets;
}

}  // namespace

bool makes_gradients_in_turn(const Job& job, int zero, std::int64_t passes) {
  constexpr double kNoneLeft = 2023.2;  // PyTorch 2.0
  if (job.software_year.get().value_or(kNoneLeft) < kNoneLeft) return false;
  const Parallel& parallel = job.parallel;
  const States states = parallel.states.value_or(States::kFp32);
  const bool whole = parallel.tensor * parallel.context * parallel.expert * parallel.pipeline == 1;
  const bool own = zero == 3 || (zero == 0 && !sums_in_buffers(job, states));
  return whole && own && passes == 1 && (states == States::kFp32 || states == States::kPureSixteen);
}

DeviceOverhead device_overhead(const MemoryFootprint& footprint, std::int64_t gpus, bool split, DataSize context,
                               DataSize room) {
  const DataSize tensors = footprint.total();
  DeviceOverhead overhead{.context = context, .slack = tensors * kAllocatorSlack};
  if (gpus > 1) overhead.context += kCommunicators * (split ? 1.0 : kOneOfCommunicators);
  const DataSize left = room - overhead.context - tensors;
  overhead.slack = max(tensors * kLeastSlack, min(overhead.slack, left));
  return overhead;
}

namespace {

DataSize host_memory(const Job& job, const StepPlan& plan) {
  DataSize most;
  DataSize sum;
  double ranks = 0;
  for (const RankClass& one : plan.classes) {
    most = max(most, one.memory.host);
    sum += one.memory.host * static_cast<double>(one.ranks);
    ranks += static_cast<double>(one.ranks);
  }
  // One server has the ranks of every class; of several some may have those of the fullest alone.
  if (job.cluster.nodes == 1) most = sum / ranks;
  return most * static_cast<double>(job.cluster.gpus_per_node);
}

}  // namespace

Needed needed_by(const Job& job, const MemoryFootprint& held) {
  return {.tensors = held,
          .overhead = device_overhead(held, job),
          .rank = "replica",
          .capacity = job.cluster.node.gpu.memory_size,
          .host_capacity = job.cluster.node.host.memory};
}

Needed needed_by(const Job& job, const StepPlan& plan) {
  const auto fullest = std::max_element(plan.classes.begin(), plan.classes.end(), [](const auto& a, const auto& b) {
    return a.memory.total() < b.memory.total();
  });
  Needed needed = needed_by(job, fullest->memory);
  needed.rank = fullest->role;
  needed.host = host_memory(job, plan);
  return needed;
}

DeviceOverhead device_overhead(const MemoryFootprint& footprint, const Job& job) {
  const bool lazily = job.software_year.get().value_or(kLoadsLazily) >= kLoadsLazily;
  const Parallel& parallel = job.parallel;
  const bool split = parallel.tensor * parallel.context * parallel.expert * parallel.pipeline > 1;
  return device_overhead(footprint, job.cluster.gpus(), split, lazily ? kCudaContext : kCudaContextBefore,
                         job.cluster.node.gpu.memory_size);
}

Bandwidth assumed_host_memory(const hardware::Node& node) {
  constexpr double kSockets = 2;
  const Bandwidth link = node.pcie.bandwidth;
  if (link > gigabytes_per_second(200)) return gigabytes_per_second(256) * static_cast<double>(node.gpus);
  if (link > gigabytes_per_second(45)) return gigabytes_per_second(8 * 38.4) * kSockets;
  if (link > gigabytes_per_second(22)) return gigabytes_per_second(8 * 25.6) * kSockets;
  return gigabytes_per_second(6 * 21.328) * kSockets;
}

Bandwidth host_memory_rate(const Job& job) {
  const bool waits = job.parallel.offload_optimizer || job.parallel.offload_activations;
  const bool serves = job.strategy.kind == StrategyKind::kPs && (job.strategy.colocated || job.cluster.nodes == 1);
  if (job.server_memory.stated() || !(waits || serves)) return job.server_memory;
  if (const auto datasheet = job.cluster.node.host.memory_bandwidth()) return *datasheet * kDefaultEfficiency;
  return waits ? assumed_host_memory(job.cluster.node) * kDefaultEfficiency : job.server_memory.get();
}

}  // namespace ddlsim::plan
