// What the ranks of each class hold: states as the split shares them, activations as the schedule keeps them.
#include <algorithm>
#include <variant>

#include "ddlsim/plan/lowerer.h"
#include "ddlsim/plan/software.h"
#include "memo.h"
#include "splits.h"

namespace ddlsim::plan {
namespace {

/// Layers of the model that follow each other on a rank, with their micro-batches in flight.
struct HeldPart {
  std::size_t model_layer = 0;  // of the model
  std::size_t count = 0;
  double in_flight = 1;
};

std::vector<HeldPart> held_parts(const RankClass& one) {
  if (one.parts.empty()) return {{one.chunk.first, one.chunk.count, 1}};
  std::vector<HeldPart> held;
  for (const Part& part : one.parts) {
    held.push_back({part.layer, part.count, static_cast<double>(part.in_flight)});
  }
  return held;
}

bool is_expert(const workload::Layer& layer) {
  return layer.op && std::holds_alternative<workload::Experts>(*layer.op);
}

Owned owned_by(const workload::Layer& layer) {
  Owned owned;
  for (const std::int64_t tensor : layer.parameters) {
    owned.all += static_cast<double>(tensor);
    owned.largest = std::max(owned.largest, static_cast<double>(tensor));
  }
  owned.trained = owned.all;
  owned.all += static_cast<double>(layer.frozen_elements);
  owned.quantised = static_cast<double>(layer.quantised_elements);
  return owned;
}

const std::vector<Owned>& owned_in(const SplitModel& split, Memo& memo) {
  const auto [found, added] = memo.owned.try_emplace(split.layers.get());
  if (!added) return found->second;
  for (const workload::Layer& layer : *split.layers) {
    Owned owned = owned_by(layer);
    owned.experts = is_expert(layer);
    owned.looked_up = layer.sparse_gradient ? layer.sparse_elements : 0;
    owned.measured = layer.measured.has_value();
    found->second.push_back(owned);
  }
  return found->second;
}

/// Sums over a class's states. Experts' states are shared by the ranks that have the same ones.
class StateSums {
 public:
  StateSums(const Job& job, const StepPlan& plan) : job_(job) {
    const States formats = job.parallel.states.value_or(States::kFp32);
    sizes_ = state_sizes(formats, plan.model->optimizer);
    sixteen_ = formats == States::kMixedSixteen || formats == States::kAdam8bit;
    const int values = state_values(plan.model->optimizer);
    const bool lists = job.software_optimizer == UpdateKernels::kForeach && values > 0;
    if (lists) listed_ = sizes_.optimizer / static_cast<double>(values);
    frozen_ = frozen_weight(job, sizes_.weight);
    gathered_ = gathered_weight(job, true);
    share_ = 1.0 / static_cast<double>(sharing_ranks(plan, false));
    expert_share_ = parts_experts(job.parallel) ? 1.0 / static_cast<double>(sharing_ranks(plan, true)) : share_;
    at_servers_ = job.strategy.kind == StrategyKind::kPs && job.strategy.servers_update && job.cluster.gpus() > 1;
  }

  void add(const Owned& owned, MemoryFootprint& memory) {
    const int zero = job_.parallel.zero;
    const double share = owned.experts ? expert_share_ : share_;
    const double here = zero >= 3 ? share : 1.0;
    if (job_.parallel.offload_weights) {
      // The host updates weights of 4 bytes, counted below; those of fewer are copies.
      const DataSize copied = sizes_.weight < bytes(4) ? sizes_.weight : DataSize::zero();
      memory.host += weights(owned, copied, frozen_) * here;
    } else if (!at_servers_ || owned.looked_up == 0) {  // rows of a server's table are asked for one by one
      memory.weights += weights(owned, sizes_.weight, frozen_) * here;
    }
    memory.gradients += gradients(owned);
    if (at_servers_) return;  // which have the states and update the weights
    const double kept = owned.trained * (zero >= 1 ? share : 1.0);
    if (job_.parallel.offload_optimizer) {
      memory.host += (bytes(4) + bytes(4) + sizes_.optimizer) * kept;  // weight, gradient, states
      return;
    }
    memory.master += sizes_.master * kept;
    memory.optimizer_state += sizes_.optimizer * kept;
    // Gradients of 16 bits are made fp32 for the update.
    const double updated = made(owned) * (zero >= 1 ? share : 1.0);
    if (sixteen_) at_update_ += bytes(4) * updated;
    // A kernel for every operation on all tensors makes one value of each parameter that is no state.
    at_update_ += listed_ * updated;
  }

  /// Of all that a layer's ranks train.
  [[nodiscard]] DataSize gradients(const Owned& owned) const {
    const double share = owned.experts ? expert_share_ : share_;
    const bool shared = job_.parallel.zero >= 2 && !keeps_gradients_whole(job_.parallel, job_.strategy.accumulation);
    return sizes_.gradient * (made(owned) * (shared ? share : 1.0));
  }
  /// Of one weight; of quantised ones what they are made before a use.
  [[nodiscard]] DataSize gradient(const Owned& owned) const {
    const DataSize element = std::min(sizes_.weight, activation_size(job_.precision));
    return element * ((owned.looked_up == 0 ? owned.largest : made(owned)) + owned.quantised);
  }
  [[nodiscard]] DataSize gathered(const Owned& owned) const { return weights(owned, gathered_, gathered_); }
  [[nodiscard]] DataSize gathered_gradients(const Owned& owned) const { return gathered_ * owned.trained; }
  [[nodiscard]] DataSize at_update() const { return at_update_; }
  /// Whether several ranks share what one has.
  [[nodiscard]] bool shares() const { return share_ < 1 || expert_share_ < 1; }

 private:
  /// `trained`, `frozen`: of one that is not quantised.
  [[nodiscard]] DataSize weights(const Owned& owned, DataSize trained, DataSize frozen) const {
    return trained * owned.trained + frozen * (owned.all - owned.trained - owned.quantised) +
           workload::quantised_weight(job_.parallel.frozen_bits) * owned.quantised;
  }
  /// Elements of a gradient: of a table's the rows that a step's samples touch.
  [[nodiscard]] double made(const Owned& owned) const {
    if (owned.looked_up == 0) return owned.trained;
    const workload::SparseTable table{static_cast<std::int64_t>(owned.trained), owned.looked_up};
    return workload::touched_elements(table, job_.batch * job_.strategy.accumulation);
  }

  const Job& job_;
  StateSizes sizes_;
  bool sixteen_ = false;
  DataSize listed_;  // of a parameter
  DataSize frozen_;  // of a weight that is not trained
  DataSize gathered_;
  double share_ = 1;
  double expert_share_ = 1;
  bool at_servers_ = false;
  DataSize at_update_;
};

/// Whether a layer is the first of a block.
std::vector<bool> starts_of(const std::vector<workload::Block>& blocks, std::size_t layers) {
  std::vector<bool> starts(layers);
  for (const workload::Block& block : blocks) starts[block.first] = true;
  return starts;
}

/// Adds what a part's activations come to, when they and what its layers work with are most. `made`: gradients that
/// layers leave behind, none where they stand from the start; returns those of that moment.
DataSize add_activations(const Job& job, const HeldPart& part, const Plainly& plain, const std::vector<bool>& starts,
                         const std::vector<DataSize>& weight_gradients, const std::vector<DataSize>& made,
                         MemoryFootprint& memory) {
  DataSize below;  // of the oldest micro-batch
  DataSize casts;
  for (std::size_t i = 0; i < part.count; ++i) {
    below += plain.kept[part.model_layer + i];
    casts += plain.casts[part.model_layer + i];
  }
  DataSize others = below * (part.in_flight - 1);
  DataSize on_gpu = DataSize::infinity();
  if (job.parallel.offload_activations) {
    // All but the last block, which is needed at once; two are on their way at most.
    DataSize largest;
    DataSize block;
    for (std::size_t i = 0; i < part.count; ++i) {
      if (starts[part.model_layer + i]) block = DataSize::zero();
      block += plain.kept[part.model_layer + i];
      largest = max(largest, block);
    }
    on_gpu = largest * 2.0;
    memory.host += others + below - block;
    others = DataSize::zero();
  }
  struct Most {
    DataSize casts{}, activations{}, loss{}, working{}, made{};
    [[nodiscard]] DataSize sum() const { return casts + activations + loss + working + made; }
  } most;
  DataSize above;
  for (std::size_t i = part.count; i-- > 0;) {
    const std::size_t layer = part.model_layer + i;
    const DataSize working = plain.again[layer] + plain.gradients[layer] + weight_gradients[i];
    const DataSize loss = plain.loss[layer];
    const Most here{casts, others + min(below, on_gpu), loss, beside_loss(job, loss, working), above};
    if (here.sum() > most.sum()) most = here;
    if (!made.empty()) above += made[i];
    below -= plain.kept[layer];
    casts -= plain.casts[layer];
  }
  memory.weight_casts += most.casts;
  memory.activations += most.activations;
  memory.loss += most.loss;
  memory.working = max(memory.working, most.working);
  return most.made;
}

/// Copies of gradients, where they are sent in pieces.
DataSize buckets_of(const Job& job, const MemoryFootprint& memory) {
  if (job.cluster.gpus() == 1 || !sums_gradients(job.strategy.kind)) return {};
  switch (grouping_of(job.strategy)) {
    // Sparse gradients travel by themselves.
    case Grouping::kBuckets:
      return min(memory.gradients, bytes(4) * static_cast<double>(job.model->totals.dense_parameters));
    case Grouping::kFusion: return min(memory.gradients, job.strategy.bucket.get());
    case Grouping::kPerTensor:
    case Grouping::kFlat:
    case Grouping::kPartitions: break;
  }
  return {};
}

/// Of gradients that are made in turn, those that count: beside activations, or before the update, when all are there.
void take_turns(MemoryFootprint& memory, DataSize at_update, DataSize beside) {
  const DataSize all = memory.gradients;
  memory.gradients = min(all, max(beside, all + at_update - memory.passing()));
  memory.gradients_later = all - memory.gradients;
}

/// What a rank receives of a layer's output at the edge of a stage.
DataSize edge_of(const Job& job, const workload::Layer& layer) {
  return between_layers(job, static_cast<double>(layer.output_elements));
}

/// As a part keeps it that is computed again whole.
Plainly kept_by_stage(const Job& job, const StepPlan& plan, const HeldPart& part, Plainly plain) {
  const std::size_t first = part.model_layer;
  const DataSize input = first > 0 ? edge_of(job, plan.model->layers[first - 1])
                                   : plan.model->input_per_sample * static_cast<double>(job.batch);
  keep_input(plain, first, first + part.count, input);
  return plain;
}

/// Of a class that the job's splits have cut.
MemoryFootprint memory_of_class(const Job& job, const StepPlan& plan, const RankClass& one,
                                const std::vector<Owned>& owned, const std::vector<bool>& starts,
                                const Plainly& plain) {
  MemoryFootprint memory;
  StateSums states(job, plan);
  DataSize in_turn;  // gathered weights, and gradients of one block
  DataSize whole;
  DataSize largest_gradients;
  double layers = 0;
  const bool as_made =
      !leave_for_host(job.parallel) && makes_gradients_in_turn(job, job.parallel.zero, job.strategy.accumulation);
  DataSize largest_made;
  DataSize beside;  // gradients, when activations and the rest are most
  for (const HeldPart& part : held_parts(one)) {
    std::vector<DataSize> weight_gradients;
    std::vector<DataSize> made;
    std::vector<GatheredUnit> units;
    for (std::size_t i = 0; i < part.count; ++i) {
      const Owned& layer = owned[part.model_layer + i];
      states.add(layer, memory);
      largest_made = max(largest_made, states.gradients(layer));
      if (as_made) made.push_back(states.gradients(layer));
      weight_gradients.push_back(states.gradient(layer));
      if (i == 0 || starts[part.model_layer + i]) units.emplace_back();
      units.back().weights += states.gathered(layer);
      units.back().gradients += states.gathered_gradients(layer);
      whole += states.gathered(layer);
      largest_gradients = max(largest_gradients, units.back().gradients);
      memory.complete = memory.complete && !layer.measured;
    }
    in_turn = max(in_turn, most_gathered(units, job.parallel.prefetch));
    const auto hold = [&](const Plainly& kept) {
      return add_activations(job, part, kept, starts, weight_gradients, made, memory);
    };
    beside += job.parallel.recompute == Recompute::kStage ? hold(kept_by_stage(job, plan, part, plain)) : hold(plain);
    memory.micro_batches += part.in_flight * static_cast<double>(part.count);
    layers += static_cast<double>(part.count);
  }
  if (layers > 0) memory.micro_batches /= layers;
  memory.weights = memory.weights * static_cast<double>(one.weight_versions);
  if (job.parallel.zero >= 3 && (states.shares() || job.parallel.offload_weights)) {
    // Gathered once and kept until backward, beside the gradients of one unit.
    memory.buffers += job.parallel.reshard ? in_turn : max(in_turn, whole + largest_gradients);
  }
  // Of what leaves for the host one layer's is made while another's is copied.
  if (leave_for_host(job.parallel)) memory.gradients = min(memory.gradients, largest_made * 2.0);
  // Whole models whose replicas share nothing are DDP's; others' gradients are their own buckets, and Horovod's go
  // through its buffer.
  const bool fuses = plan.folds && grouping_of(job.strategy) == Grouping::kFusion;
  if (!takes_ranks(job.parallel) || fuses) memory.buffers += buckets_of(job, memory);
  if (as_made) take_turns(memory, states.at_update(), beside);
  // The update comes when activations are gone.
  const DataSize more = states.at_update() - memory.passing();
  if (more > DataSize::zero()) memory.working += more;
  return memory;
}

/// What a stage receives and has not used, of activations and of gradients: one of each from every neighbour.
void add_boundaries(const Job& job, StepPlan& plan) {
  if (job.parallel.pipeline == 1) return;
  for (RankClass& one : plan.classes) {
    for (const HeldPart& part : held_parts(one)) {
      const bool receives = part.model_layer > 0;
      const bool returns = part.model_layer + part.count < plan.model->layers.size();
      const workload::Layer& edge =
          plan.model->layers[receives ? part.model_layer - 1 : part.model_layer + part.count - 1];
      one.memory.buffers += edge_of(job, edge) * ((receives ? 1.0 : 0.0) + (returns ? 1.0 : 0.0));
    }
  }
}

}  // namespace

DataSize beside_loss(const Job& job, DataSize loss, DataSize working) {
  constexpr double kGone = 2.0 / 3;
  return in_single_operations(job) ? max(working - loss * kGone, DataSize::zero()) : working;
}

const BlockStarts& blocks_in(const std::shared_ptr<const workload::Model>& model, Memo& memo) {
  const auto [found, added] = memo.blocks.try_emplace(model.get());
  if (added) {
    found->second.blocks = workload::blocks_of(model->layers);
    found->second.starts = starts_of(found->second.blocks, model->layers.size());
  }
  return found->second;
}

HeldLayers held_layers(const Job& job, const SplitModel& split, const StepPlan& plan, Memo& memo) {
  const std::vector<Owned>& owned = owned_in(split, memo);
  const Plainly& plain = kept_by(job, plan, memo);
  HeldLayers all;
  StateSums states(job, plan);
  for (std::size_t i = 0; i < owned.size(); ++i) {
    const workload::Layer& layer = plan.model->layers[i];
    MemoryFootprint held;
    states.add(owned[i], held);
    const auto shareable = [&](DataSize size) {
      return owned[i].experts ? Shareable{.experts = size} : Shareable{.dense = size};
    };
    all.weights.push_back(shareable(held.weights));
    all.gradients.push_back(shareable(layer.sparse_gradient ? DataSize::zero() : held.gradients));
    all.states.push_back(shareable(held.master + held.optimizer_state));
    all.kept.push_back(job.parallel.offload_activations ? DataSize::zero() : plain.kept[i]);
    all.casts.push_back(plain.casts[i]);
    all.saved.push_back(static_cast<double>((*split.layers)[i].saved_elements));
    all.loss.push_back(plain.loss[i]);
    all.working.push_back(plain.again[i] + plain.gradients[i]);
    all.weight_gradient.push_back(states.gradient(owned[i]));
    all.gathered.push_back(states.gathered(owned[i]));
    all.gathered_gradients.push_back(states.gathered_gradients(owned[i]));
    all.edge.push_back(edge_of(job, layer));
  }
  return all;
}

namespace {

/// While a layer's backward runs, in the format of its kernels: of its largest weight, as of a split model's layers.
std::vector<DataSize> largest_gradients(const Job& job, const StepPlan& plan, const std::vector<Owned>& owned) {
  const StateSums states(job, plan);
  std::vector<DataSize> gradients;
  for (const Owned& layer : owned) gradients.push_back(states.gradient(layer));
  return gradients;
}

/// In fp32, of layers that are not shared; a table's few rows aside.
std::vector<DataSize> gradients_of_layers(const workload::Model& model) {
  std::vector<DataSize> gradients;
  for (const workload::Layer& layer : model.layers) {
    double elements = 0;
    for (const std::int64_t tensor : layer.parameters) elements += static_cast<double>(tensor);
    gradients.push_back(bytes(4) * (layer.sparse_gradient ? 0.0 : elements));
  }
  return gradients;
}

}  // namespace

void add_memory(const Job& job, const SplitModel& split, StepPlan& plan, Memo& memo) {
  const bool splits = splits_model(job.parallel);
  const bool walked = splits || plan.model->has_layers();
  static const std::vector<bool> no_starts;
  static const Plainly nothing;
  const std::vector<bool>& starts = walked ? blocks_in(plan.model, memo).starts : no_starts;
  const Plainly& plain = walked ? kept_by(job, plan, memo) : nothing;
  for (RankClass& one : plan.classes) {
    if (splits) {
      one.memory = memory_of_class(job, plan, one, owned_in(split, memo), starts, plain);
      continue;
    }
    one.memory = memory_footprint(*plan.model, job.strategy, job.cluster.gpus(), job.batch, job.precision);
    one.memory.buffers = buckets_of(job, one.memory);
    if (!walked) continue;
    one.memory.activations = {};
    const std::vector<DataSize> largest = largest_gradients(job, plan, owned_in(split, memo));
    const std::vector<DataSize> made = makes_gradients_in_turn(job, job.parallel.zero, job.strategy.accumulation)
                                           ? gradients_of_layers(*plan.model)
                                           : std::vector<DataSize>{};
    const DataSize beside =
        add_activations(job, {0, plan.model->layers.size(), 1}, plain, starts, largest, made, one.memory);
    DataSize listed;  // of an optimizer's lists
    if (job.software_optimizer == UpdateKernels::kForeach && state_values(plan.model->optimizer) > 0) {
      listed = bytes(4) * static_cast<double>(plan.model->totals.dense_parameters);
    }
    if (!made.empty()) take_turns(one.memory, listed, beside);
    const DataSize more = listed - one.memory.passing();
    if (more > DataSize::zero()) one.memory.working += more;
  }
  add_boundaries(job, plan);
}

}  // namespace ddlsim::plan
