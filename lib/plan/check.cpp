// What of a job contradicts its splits: refused, with what would do.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "ddlsim/plan/lower.h"
#include "splits.h"

namespace ddlsim::plan {
namespace {

/// Whether several ranks make one replica.
bool parts_replicas(const Parallel& parallel) {
  return parallel.tensor > 1 || parallel.context > 1 || parallel.expert > 1 || parallel.pipeline > 1;
}

/// What only a step that folds has (whole replicas without copies to the host), and what whole gradients have:
/// refused where the job has them not, for ignored it would be cheap.
Expected<void> check_exchange(const Job& job) {
  const auto refuse = [](std::string what, std::string note) {
    return fail(ErrorCode::kUnsupported, std::move(what), {}, {std::move(note)});
  };
  const Parallel& parallel = job.parallel;
  const bool mirrored = parallel.pipeline > 1 && directions_of(parallel.schedule) == 2;
  const bool shared = job.cluster.gpus() > parallel.tensor * parallel.pipeline || mirrored;
  const bool sharded = parallel.zero > 0;
  const bool fused = grouping_of(job.strategy) == Grouping::kFusion;
  const bool whole = folds(job);
  const bool host = !parts_replicas(parallel) && !sharded;  // what is left where nothing folds
  if (!whole && job.overlap == Overlap::kIdeal) {
    return refuse(host ? "ideal overlap is a bound of what GPUs do: beside copies to the host it is no schedule"
                       : "ideal overlap is a bound of whole models: of a split one it is no schedule",
                  "use overlap backward or none");
  }
  if (!shared) return {};
  const std::string beside = host ? "gradients beside copies to the host" : "gradients of a split model";
  if (!whole && job.strategy.priority) return refuse(beside + " by priority", "use strategy.priority no");
  if (sharded && fused) {
    return refuse(
        "a coordinator that fuses gradients (Horovod) all-reduces them whole: it has no ZeRO, whose ranks "
        "get a share each",
        "use zero 0, or another strategy (pytorch-fsdp, deepspeed), or strategy.grouping buckets");
  }
  if (!whole && fused) return refuse(beside + " fused by a coordinator's cycles", "use strategy.grouping buckets");
  if (sharded && job.strategy.compression != Compression::kNone) {
    return refuse("compressed gradients that are reduce-scattered", "use strategy.compression none, or zero 0");
  }
  return {};
}

tl::unexpected<Error> bad(std::string what, std::string note) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), {}, {std::move(note)});
}

tl::unexpected<Error> contradicts(std::string what, std::string note) {
  return fail(ErrorCode::kUnsupported, std::move(what), {}, {std::move(note)});
}

/// A straggler holds up whole replicas; others wait for it as well, but nobody here says where.
tl::unexpected<Error> two_speeds(std::string what, const std::string& otherwise) {
  const std::string all = "leave straggler out and state gpu.time_factor: every GPU that slow, an upper bound";
  return contradicts(std::move(what), all + "; or " + otherwise);
}

/// A dimension that is named twice leaves another out: its messages would go nowhere.
Expected<void> check_order(const AxisOrder& order) {
  for (const auto& [name, axis] : kAxisNames) {
    if (std::count(order.begin(), order.end(), axis) == 1) continue;
    return bad("parallel.order names " + std::string(name) + " not once",
               "every axis once, innermost first, as tp-cp-ep-dp-pp");
  }
  return {};
}

Expected<void> check_values(const Parallel& parallel) {
  if (auto order = check_order(parallel.order); !order) return order;
  struct Count {
    std::string_view name;
    std::int64_t value;
    std::int64_t least;
  };
  for (const Count& one :
       {Count{"tensor", parallel.tensor, 1}, Count{"context", parallel.context, 1}, Count{"expert", parallel.expert, 1},
        Count{"expert_tensor", parallel.expert_tensor, 0}, Count{"pipeline", parallel.pipeline, 1},
        Count{"virtual_stages", parallel.virtual_stages, 1}, Count{"shard_ranks", parallel.shard_ranks, 0},
        Count{"prefetch", parallel.prefetch, 0}, Count{"recompute_every", parallel.recompute_every, 1},
        Count{"recompute_first", parallel.recompute_first, 1}, Count{"lora_rank", parallel.lora_rank, 0},
        Count{"expert_servers", parallel.expert_servers, 0}}) {
    if (one.value >= one.least) continue;
    return bad("parallel." + std::string(one.name) + " " + std::to_string(one.value),
               "valid: " + std::to_string(one.least) + " and more");
  }
  if (parallel.recompute_first > parallel.recompute_every) {
    return bad("parallel.recompute_first " + std::to_string(parallel.recompute_first) + " of every " +
                   std::to_string(parallel.recompute_every) + " blocks",
               "valid: 1 to " + std::to_string(parallel.recompute_every) +
                   ", or more where parallel.recompute_every is as many");
  }
  if (parallel.zero < 0 || parallel.zero > 3) return bad("zero " + std::to_string(parallel.zero), "valid: 0, 1, 2, 3");
  if (parallel.frozen_bits != 0 && parallel.frozen_bits != 4 && parallel.frozen_bits != 8) {
    return bad("parallel.frozen_bits " + std::to_string(parallel.frozen_bits), "valid: 4, 8, 0 (as all others)");
  }
  if (parallel.frozen_bits > 0 && parallel.lora_rank == 0) {
    return bad("parallel.frozen_bits of a model whose weights are trained",
               "state parallel.lora_rank, or leave it out");
  }
  if (!(parallel.expert_capacity >= 0)) return bad("a negative parallel.expert_capacity", "valid: 0 (all) and more");
  if (!(parallel.expert_imbalance >= 1)) return bad("a parallel.expert_imbalance below one", "valid: 1 and more");
  return {};
}

template <typename Kind>
const workload::Layer* first_of(const workload::Model& model) {
  for (const workload::Layer& layer : model.layers) {
    if (layer.op && std::holds_alternative<Kind>(*layer.op)) return &layer;
  }
  return nullptr;
}

/// What a model must have for a split of it to mean something.
Expected<void> check_model(const Job& job) {
  const Parallel& parallel = job.parallel;
  const workload::Model& model = *job.model;
  const auto attends = [&] { return std::any_of(model.layers.begin(), model.layers.end(), workload::is_attention); };
  const workload::Layer* uncut = nullptr;
  if (parallel.tensor > 1 && !attends()) {
    uncut = first_of<workload::Convolution>(model);
    if (uncut == nullptr) uncut = first_of<workload::Lstm>(model);
  }
  if (uncut != nullptr) {
    return contradicts("layer '" + uncut->name + "' of " + model.id +
                           " cannot be cut over a tensor group: only products of transformers and MLPs are",
                       "split it by parallel.pipeline, or share states by parallel.zero");
  }
  if (parallel.expert > 1 && first_of<workload::Experts>(model) == nullptr) {
    return contradicts(model.id + " has no experts to spread over " + std::to_string(parallel.expert) + " ranks",
                       "use parallel.expert 1");
  }
  const auto* layer = first_of<workload::Experts>(model);
  if (layer != nullptr && parallel.expert > 1) {
    const auto& experts = std::get<workload::Experts>(*layer->op);
    // All rows choose experts of one rank, as far as a rank has so many.
    const std::int64_t here = experts.experts / parallel.expert;
    const double most = static_cast<double>(parallel.expert) *
                        std::min(1.0, static_cast<double>(here) / static_cast<double>(experts.active));
    if (here > 0 && parallel.expert_imbalance > most) {  // a rank without experts is refused where they are cut
      return bad(fmt::format("parallel.expert_imbalance {:g}", parallel.expert_imbalance),
                 fmt::format("at most {:g}: all rows on one of {} ranks with {} of {} experts, of which a row takes {}",
                             most, parallel.expert, here, experts.experts, experts.active));
    }
  }
  return {};
}

/// Beside a product an adapter is of lower rank (Hu et al. 2021).
Expected<void> check_adapters(const Job& job) {
  const std::int64_t rank = job.parallel.lora_rank;
  if (rank == 0) return {};
  const std::vector<workload::Layer>& layers = job.model->layers;
  const std::vector<bool> adapted = workload::adapted_products(layers, job.parallel.lora_products);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (adapted[i]) most = std::max(most, std::min(layers[i].in.back(), std::get<workload::Linear>(*layers[i].op).out));
  }
  if (most == 0 || rank <= most) return {};  // without a product to adapt it is refused where adapters are added
  return bad("parallel.lora_rank " + std::to_string(rank),
             "valid: up to " + std::to_string(most) + ", the rank of the widest product that has an adapter");
}

/// Micro-batches and stages that the schedule has, and what does not go with it.
Expected<void> check_schedule(const Job& job) {
  const Parallel& parallel = job.parallel;
  const auto named = [&] { return "schedule " + std::string(name_of(kPipelineSchedules, parallel.schedule)); };
  if (parallel.pipeline == 1) {
    if (parallel.virtual_stages == 1) return {};
    return bad("parts of a rank without a pipeline",
               "use parallel.pipeline of 2 and more, or parallel.virtual_stages 1");
  }
  if (auto sound = check(pipeline_of(job)); !sound) return sound;
  if (splits_backward(parallel.schedule) && job.model->measured) {
    return contradicts(named() + ": measured layers do not say how much of their backward is the weights'",
                       "use schedule 1f1b or interleaved");
  }
  if (is_asynchronous(parallel.schedule) && parallel.zero > 0) {
    return contradicts(named() + " keeps versions of whole weights, and zero shares them",
                       "use zero 0, or schedule 1f1b");
  }
  if (is_asynchronous(parallel.schedule) && parallel.offload_optimizer) {
    return contradicts(named() + " with an optimizer on the host", "use schedule 1f1b");
  }
  return {};
}

/// What waits on the host, and for whom.
Expected<void> check_offload(const Parallel& parallel) {
  if (parallel.offload_weights && (parallel.zero < 3 || !parallel.offload_optimizer)) {
    return contradicts(
        "parallel.offload_weights: weights wait on the host where every use gathers them, and are "
        "updated there",
        "use zero 3 and parallel.offload_optimizer yes with it");
  }
  if (parallel.recompute == Recompute::kStage && parallel.offload_activations) {
    return contradicts("parallel.recompute stage keeps what enters a stage alone, and offload_activations takes blocks",
                       "use recompute full, or offload_activations no");
  }
  return {};
}

/// Replicas that train by themselves for some steps have whole models, and average them.
Expected<void> check_local_steps(const Job& job) {
  const Strategy& strategy = job.strategy;
  if (strategy.sync_every == 1) return {};
  if (strategy.sync_every < 1) return bad("strategy.sync_every below 1", "1: every step");
  if (strategy.kind != StrategyKind::kAllReduce) {
    return contradicts(
        "replicas average their weights by all-reduce every " + std::to_string(strategy.sync_every) + " steps",
        "use strategy allreduce, or strategy.sync_every 1");
  }
  const Parallel& parallel = job.parallel;
  const std::string otherwise = ", or strategy.sync_every 1";
  if (parallel.zero > 0) {
    return contradicts("replicas that train by themselves need their whole states: zero shares them",
                       "use zero 0" + otherwise);
  }
  if (parallel.tensor * parallel.context * parallel.expert * parallel.pipeline > 1) {
    return contradicts("replicas of several GPUs that train by themselves are not modelled",
                       "leave tensor, context, expert and pipeline ranks out" + otherwise);
  }
  if (parallel.offload_optimizer) {
    return contradicts("averages of weights that the host updates are not modelled",
                       "use parallel.offload_optimizer no" + otherwise);
  }
  if (strategy.compression != Compression::kNone || strategy.priority) {
    return contradicts("weights are averaged whole and when all are updated; compression and priority are of gradients",
                       "use strategy.sync_every 1, or leave them out");
  }
  if (job.overlap && *job.overlap != Overlap::kNone) {
    return contradicts("weights are averaged when they are updated, beside nothing", "leave overlap out");
  }
  return {};
}

/// Tables stand among whole replicas, all as fast.
Expected<void> check_tables(const Job& job) {
  if (job.strategy.kind != StrategyKind::kPearl) return {};
  if (job.model->has_layers() && !has_tables(job)) {
    return contradicts(job.model->id + " has no table with a sparse gradient to spread", "use strategy allreduce");
  }
  if (splits_model(job.parallel)) {
    return contradicts("PEARL spreads tables over whole replicas of the other weights", "leave parallel.* out");
  }
  if (job.cluster.gpus() == 1) return {};
  if (job.straggler > 1) return two_speeds("tables spread over GPUs of two speeds", "use strategy allreduce");
  if (job.overlap == Overlap::kIdeal) {
    return contradicts("ideal overlap is a bound of whole models: with tables spread it is no schedule",
                       "use overlap backward or none");
  }
  if (job.strategy.priority || grouping_of(job.strategy) == Grouping::kFusion) {
    return contradicts("PEARL with gradients by priority, or fused by a coordinator's cycles",
                       "use strategy.priority no and strategy.grouping buckets or flat");
  }
  return {};
}

/// Who has whole models at one process or at servers: what is computed again, adapters and formats leave them whole.
Expected<void> check_whole_models(const Job& job) {
  const Parallel& parallel = job.parallel;
  const bool process = job.strategy.kind == StrategyKind::kDataParallel;
  const bool servers = job.strategy.kind == StrategyKind::kPs && job.cluster.gpus() > 1;
  if (!process && !servers) return {};
  const std::string_view other = "use strategy allreduce";
  if (parts_replicas(parallel)) {
    return contradicts(process ? "one process holds whole models: no part of one can be split"
                               : "parameter servers hold whole models: no part of one can be split",
                       std::string(other));
  }
  const std::string stay = ", or leave it out";
  if (parallel.zero > 0) {
    return contradicts(process ? "one process sums gradients and updates on GPU 0: no ranks share states by zero"
                       : job.strategy.servers_update
                           ? "parameter servers have the optimizer's states: workers have none to share by zero"
                           : "servers send every worker whole sums of gradients: zero has ranks get a share each",
                       std::string(other) + ", or zero 0");
  }
  if (parallel.offload_optimizer) {
    return contradicts(process ? "an optimizer on the host behind gradients that GPU 0 sums is not modelled"
                       : job.strategy.servers_update
                           ? "parameter servers update the weights: workers have no optimizer to put on the host"
                           : "an optimizer on the host beside servers that sum gradients is not modelled",
                       std::string(other) + stay);
  }
  if (servers && parallel.offload_activations) {
    return contradicts("activations that go to the host beside pushes and pulls of servers are not modelled",
                       std::string(other) + ", or parallel.recompute full instead");
  }
  return {};
}

Expected<void> check_together(const Job& job) {
  const Parallel& parallel = job.parallel;
  const bool sequence = parallel.sequence && parallel.tensor > 1;
  const bool experts = parts_experts(parallel) && workload::has_experts(*job.model);
  if (experts && parallel.tensor > 1 && !sequence) {
    return contradicts("experts and tensors are split together with the rows alone, as in Megatron-LM",
                       "set parallel.sequence yes");
  }
  if (parallel.overlap_tensor && !sequence) {
    return contradicts("products run beside gathers and scatters of rows: there are none",
                       "set parallel.sequence yes and parallel.tensor above 1, or parallel.overlap_tensor no");
  }
  if (parallel.gather_fp8 && job.precision != Precision::kFp8) {
    return contradicts(
        "weights are gathered in 8 bits, but products take " + std::string(name_of(kPrecisions, job.precision)),
        "--precision fp8, or parallel.gather_fp8 no");
  }
  const bool eight_bits = job.precision == Precision::kFp8 || job.precision == Precision::kFp4;
  if ((parallel.states == States::kFp8 || parallel.states == States::kFp8Primary) && !eight_bits) {
    return contradicts(
        "weights are kept in 8 bits, but products take " + std::string(name_of(kPrecisions, job.precision)),
        "--precision fp8, or parallel.states mixed");
  }
  if (parallel.shard_ranks > 0 && parallel.zero == 0) {
    return contradicts("shard ranks without anything to share", "set parallel.zero, or parallel.shard_ranks 0");
  }
  return {};
}

}  // namespace

Expected<void> check_splits(const Job& job) {
  const Parallel& parallel = job.parallel;
  if (job.model == nullptr) return bad("model: there is none", "name one (`ddlsim list models`)");
  if (auto sound = check_values(parallel); !sound) return sound;
  if (auto schedule = check_schedule(job); !schedule) return schedule;
  if (auto host = check_offload(parallel); !host) return host;
  if (auto local = check_local_steps(job); !local) return local;
  if (auto tables = check_tables(job); !tables) return tables;
  if (!splits_model(parallel)) return {};
  if (auto models = check_whole_models(job); !models) return models;
  if (auto exchange = check_exchange(job); !exchange) return exchange;
  if (job.straggler > 1 && !folds(job)) {
    const bool copies = parallel.offload_optimizer || parallel.offload_activations;
    const bool whole = !parts_replicas(parallel) && parallel.zero == 0;
    return whole && copies
               ? two_speeds("copies to the host of GPUs of two speeds", "leave offload out")
               : two_speeds("a split model on GPUs of two speeds", "leave the splits and parallel.zero out");
  }
  if (auto parts = check_parts(job); !parts) return parts;
  if (auto degrees = check_degrees(job); !degrees) return degrees;
  if (auto model = check_model(job); !model) return model;
  if (auto adapters = check_adapters(job); !adapters) return adapters;
  return check_together(job);
}

}  // namespace ddlsim::plan
