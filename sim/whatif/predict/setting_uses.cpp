#include "predict/setting_uses.h"

#include <algorithm>
#include <array>
#include <optional>
#include <variant>

#include "ddlsim/cost/power.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/workload/fusion.h"
#include "ddlsim/workload/shard.h"
#include "scenario/settings.h"

namespace ddlsim::whatif {

using answer::Fidelity;

bool by_servers(const Question& q) {
  return plan::sends_to_servers(q.scenario.strategy, q.scenario.cluster.nodes) && q.gpus() > 1;
}
bool by_collectives(const Question& q) { return !by_servers(q) && q.gpus() > 1; }
bool by_driven_servers(const Question& q) {
  const auto& transport = q.scenario.ps_transport.get();
  const bool sockets = transport == plan::PsTransport::kTcp || transport == plan::PsTransport::kGrpc;
  return by_servers(q) && q.scenario.cluster.nodes > 1 && !sockets && !q.scenario.efficiency.network.stated();
}

namespace {

/// Where a setting of the strategy, the collectives or the servers has an effect.
struct Use {
  std::string_view path;
  bool (*used)(const Question&);
};

constexpr auto kPeakPaths = std::to_array<std::pair<Precision, std::string_view>>({
    {Precision::kFp32, "gpu.peak.fp32"},
    {Precision::kTf32, "gpu.peak.tf32"},
    {Precision::kFp16, "gpu.peak.fp16"},
    {Precision::kBf16, "gpu.peak.bf16"},
    {Precision::kFp8, "gpu.peak.fp8"},
    {Precision::kFp4, "gpu.peak.fp4"},
});

bool asks_for_pointers(const Question& q) {
  using plan::CollectiveLibraryKind;
  const CollectiveLibraryKind kind = q.scenario.collective.kind;
  return by_collectives(q) && kind != CollectiveLibraryKind::kNccl && kind != CollectiveLibraryKind::kGloo;
}
bool by_mpi_opt(const Question& q) {
  return by_collectives(q) && q.scenario.collective.kind == plan::CollectiveLibraryKind::kMpiOpt;
}
/// Whether gradients are grouped into messages: with zero 3 every block sends its own.
bool by_messages(const Question& q) { return q.gpus() > 1 && q.scenario.parallel.zero < 3; }
bool by_grouping(const Question& q, plan::Grouping a, plan::Grouping b) {
  const plan::Grouping grouping = plan::grouping_of(q.scenario.strategy);
  return by_messages(q) && (grouping == a || grouping == b);
}
/// Whether anything is summed over ranks that all get the sum: NCCL has one way for every other operation.
bool by_algorithms(const Question& q) {
  if (!by_collectives(q) || q.plan == nullptr) return by_collectives(q);
  if (q.scenario.collective.kind != plan::CollectiveLibraryKind::kNccl) return true;
  return std::any_of(q.plan->rows.begin(), q.plan->rows.end(), [](const plan::Row& row) {
    return row.kind == plan::RowKind::kCollective && row.op == primitives::CollectiveOp::kAllReduce;
  });
}
/// Whether somebody measured what all of the model's products draw in their precisions.
bool by_power(const Question& q) {
  const auto& layers = q.scenario.model->layers;
  return cost::limited_by_power(q.scenario) && std::all_of(layers.begin(), layers.end(), [&](const auto& layer) {
           return cost::drawn_per_flop(layer, q.scenario.cluster.node.gpu, q.scenario.precision).has_value();
         });
}
bool by_several_nodes(const Question& q) { return q.scenario.cluster.nodes > 1; }
bool by_several_of_a_server(const Question& q) { return q.scenario.cluster.gpus_per_node > 1; }
/// Whether collectives pass over the PCIe of a server: GPUs of one switched NVLink do not.
bool by_pcie_switches(const Question& q) {
  return by_collectives(q) && by_several_of_a_server(q) &&
         q.scenario.cluster.node.gpu_interconnect != hardware::Interconnect::kNvlink;
}
/// Whether collectives hop from GPU to GPU over it.
bool by_pcie_hops(const Question& q) {
  return by_collectives(q) && by_several_of_a_server(q) &&
         !q.scenario.cluster.node.peers(q.scenario.cluster.gpus_per_node).by_nvlink();
}
bool by_remote_servers(const Question& q) { return by_servers(q) && q.scenario.cluster.nodes > 1; }
bool by_one_process(const Question& q) {
  return q.gpus() > 1 && q.scenario.strategy.kind == plan::StrategyKind::kDataParallel;
}
bool by_several_gpus(const Question& q) { return q.gpus() > 1; }
bool by_loader(const Question& q) { return q.scenario.input.dataset != nullptr; }
bool by_host_memory(const Question& q) {
  const plan::Parallel& split = q.scenario.parallel;
  return by_servers(q) || split.offload_optimizer || split.offload_activations;
}
/// The processors say what their memory moves (plan::host_memory_rate), unless somebody states it.
bool by_host(const Question& q) {
  const plan::Parallel& split = q.scenario.parallel;
  const bool waits = split.offload_optimizer || split.offload_activations;
  const bool serves = by_servers(q) && (q.scenario.strategy.colocated || q.scenario.cluster.nodes == 1);
  return by_loader(q) || ((waits || serves) && !q.scenario.server_memory.stated());
}
bool by_workers(const Question& q) { return by_loader(q) && q.scenario.input.workers->value_or(1) > 0; }
bool by_cache(const Question& q) { return by_loader(q) && q.scenario.input.epoch.get() == plan::Epoch::kLater; }
template <plan::Compression kKind>
bool by_compression(const Question& q) {
  return q.gpus() > 1 && q.scenario.strategy.compression == kKind;
}
bool by_fused_blocks(const Question& q) {
  const auto& layers = q.scenario.model->layers;
  const bool single = q.scenario.fusion.single && !q.scenario.fusion.pointwise;
  return plan::software_factor_range(q.scenario).has_value() ||
         (single && std::any_of(layers.begin(), layers.end(), workload::has_single_operations));
}

bool has_gates(const workload::Model& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [](const workload::Layer& layer) {
    if (!layer.op) return false;
    const auto* product = std::get_if<workload::Combine>(&*layer.op);
    const auto* experts = std::get_if<workload::Experts>(&*layer.op);
    return (product != nullptr && product->gated) || (experts != nullptr && experts->gated);
  });
}

/// What is not listed always has one, in the analytic fidelity.
constexpr auto kUses = std::to_array<Use>({
    {"strategy.grouping", by_messages},
    {"strategy.first_bucket",
     [](const Question& q) { return by_grouping(q, plan::Grouping::kBuckets, plan::Grouping::kBuckets); }},
    {"strategy.bucket",
     [](const Question& q) { return by_grouping(q, plan::Grouping::kBuckets, plan::Grouping::kFusion); }},
    {"strategy.cycle",
     [](const Question& q) { return by_grouping(q, plan::Grouping::kFusion, plan::Grouping::kFusion); }},
    {"strategy.partition",
     [](const Question& q) { return by_grouping(q, plan::Grouping::kPartitions, plan::Grouping::kPartitions); }},
    {"strategy.priority", by_several_gpus},
    {"strategy.gradients", by_several_gpus},
    {"strategy.compression", by_several_gpus},
    {"strategy.density", by_compression<plan::Compression::kTopK>},
    {"strategy.rank", by_compression<plan::Compression::kPowerSgd>},
    {"strategy.accumulation", [](const Question&) { return true; }},
    {"strategy.sync_every", by_collectives},
    {"strategy.spread_from",
     [](const Question& q) { return plan::spreads_tables(q.scenario) && q.fidelity != Fidelity::kAggregate; }},
    {"strategy.split_on_host", by_one_process},
    {"strategy.preload", by_one_process},
    {"strategy.parameter_compression", by_one_process},
    {"strategy.servers", by_remote_servers},
    {"strategy.colocated", by_remote_servers},
    {"strategy.placement", by_remote_servers},
    {"strategy.local_aggregation", by_servers},
    {"strategy.servers_update",
     [](const Question& q) { return plan::has_servers(q.scenario.strategy) && q.gpus() > 1; }},
    {"strategy.pull_at_start", by_servers},
    {"strategy.consistency", by_servers},
    {"strategy.staleness",
     [](const Question& q) { return by_servers(q) && q.scenario.strategy.consistency == plan::Consistency::kStale; }},
    {"collective.library", by_collectives},
    {"collective.algorithm", by_algorithms},
    {"collective.pointer_cache", asks_for_pointers},
    {"collective.sums_on", by_mpi_opt},
    {"collective.table", by_collectives},
    {"ps.transport", by_remote_servers},
    {"ps.memory_bandwidth", by_host_memory},
    {"network.uplink", by_several_nodes},
    {"network.transport",
     [](const Question& q) { return (by_collectives(q) && q.scenario.cluster.nodes > 1) || by_driven_servers(q); }},
    {"network.latency", by_several_nodes},
    {"nvlink.latency", by_collectives},
    {"pcie.latency", by_pcie_hops},
    {"gpu_interconnect", by_several_of_a_server},
    {"peer_to_peer", by_pcie_switches},
    {"input.loader", by_loader},
    {"input.workers", by_loader},
    {"input.prefetch", by_workers},
    {"input.cache", by_cache},
    {"input.cache_size",
     [](const Question& q) {
       const plan::CachePolicy cache = q.scenario.input.cache;
       return by_cache(q) && cache != plan::CachePolicy::kNone && cache != plan::CachePolicy::kAll;
     }},
    {"input.epoch", by_loader},
    {"input.decode", by_loader},
    {"input.gpu_decode",
     [](const Question& q) { return by_loader(q) && q.scenario.input.decode.get() == plan::DecodeOn::kGpu; }},
    {"input.contention", by_workers},
    {"input.variation", by_workers},
    {"input.pinned", [](const Question&) { return true; }},
    {"input.storage", by_loader},
    {"input.storage.bandwidth", by_loader},
    {"input.storage.iops", by_loader},
    {"input.storage.latency", by_loader},
    {"input.storage.capacity", by_loader},
    {"input.cpu", by_host},
    {"input.threads", by_host},
    {"jitter", by_several_gpus},
    {"launch_interval", [](const Question&) { return true; }},
    {"launch_blocking", [](const Question& q) { return !q.scenario.cuda_graphs; }},
    {"software.year", [](const Question& q) { return q.scenario.software != nullptr; }},
    {"software.fused", by_fused_blocks},
    {"software.attention",
     [](const Question& q) {
       return q.calibrated() != nullptr &&
              (q.scenario.fusion.attention || stays_one_kernel(*q.scenario.model, plan::fusion_as_run(q.scenario)));
     }},
    {"software.optimizer",
     [](const Question& q) { return q.plan != nullptr && q.plan->classes.front().updates_on_gpu; }},
    {"model.optimizer", [](const Question& q) { return q.plan != nullptr; }},
    {"software.operators",
     [](const Question& q) {
       const auto& layers = q.scenario.model->layers;
       const workload::Fusion& fusion = q.scenario.fusion;
       if (q.scenario.software_operators == plan::OperatorKernels::kAutocast) {
         return fusion.autocast && !fusion.pointwise;
       }
       return !fusion.pointwise && std::any_of(layers.begin(), layers.end(), workload::is_composite);
     }},
    {"software.layout",
     [](const Question& q) {
       return q.scenario.model->totals.convolutional && plan::layout_matters(q.scenario) &&
              (q.calibrated() != nullptr || !plan::turns_by_profile(q.scenario));
     }},
    {"gpu.time_factor", [](const Question&) { return true; }},
    {"jobs", by_several_nodes},
    {"jobs.offset", [](const Question& q) { return q.scenario.cluster.nodes > 1 && q.scenario.jobs > 1; }},
    {"straggler.gpus", [](const Question& q) { return q.scenario.straggler > 1; }},
});

/// The ranks that share a layer's experts; nothing: none do.
std::optional<plan::RankGroup> group_of_experts(const Question& q) {
  if (q.plan == nullptr || q.scenario.parallel.expert == 1 || !workload::has_experts(*q.scenario.model)) return {};
  for (const plan::RankGroup& group : q.plan->groups) {
    if (group.role == plan::GroupRole::kExperts && group.ranks > 1) return group;
  }
  return std::nullopt;
}

/// Whether a row has several of its experts in one place: on a server, or on a rank where all are on one server.
bool sends_rows_once(const Question& q) {
  const auto group = group_of_experts(q);
  if (!group) return false;
  const std::int64_t places = group->nodes > 1 ? group->nodes : group->ranks;
  for (const workload::Layer& layer : q.scenario.model->layers) {
    const auto* experts = layer.op ? std::get_if<workload::Experts>(&*layer.op) : nullptr;
    if (experts == nullptr || experts->experts % places != 0) continue;
    if (workload::places_of_a_row({experts->experts, experts->active}, places) <
        static_cast<double>(experts->active) * (1 - 1e-9)) {
      return true;
    }
  }
  return false;
}

/// Of a split: who changed it, and where that counts.
struct SplitUse {
  std::string_view path;
  bool (*changed)(const plan::Parallel&);
  bool (*used)(const Question&);
};

constexpr auto kSplitUses = std::to_array<SplitUse>({
    {"parallel.sequence", [](const plan::Parallel& p) { return p.sequence; },
     [](const Question& q) { return q.scenario.parallel.tensor > 1; }},
    {"parallel.overlap_tensor", [](const plan::Parallel& p) { return p.overlap_tensor; },
     [](const Question& q) { return q.scenario.parallel.tensor > 1; }},
    {"parallel.context_by", [](const plan::Parallel& p) { return p.context_by != plan::Parallel{}.context_by; },
     [](const Question& q) { return q.scenario.parallel.context > 1; }},
    {"parallel.schedule", [](const plan::Parallel& p) { return p.schedule != plan::Parallel{}.schedule; },
     [](const Question& q) { return q.scenario.parallel.pipeline > 1; }},
    {"parallel.overlap_p2p", [](const plan::Parallel& p) { return !p.overlap_p2p; },
     [](const Question& q) { return q.scenario.parallel.pipeline > 1; }},
    {"parallel.scatter_gather", [](const plan::Parallel& p) { return p.scatter_gather; },
     [](const Question& q) {
       const plan::Parallel& p = q.scenario.parallel;
       return p.pipeline > 1 && p.tensor > 1 && !p.sequence;
     }},
    {"parallel.shard_ranks", [](const plan::Parallel& p) { return p.shard_ranks > 0; },
     [](const Question& q) { return q.scenario.parallel.zero > 0; }},
    {"parallel.prefetch", [](const plan::Parallel& p) { return p.prefetch != plan::Parallel{}.prefetch; },
     [](const Question& q) { return q.scenario.parallel.zero == 3; }},
    {"parallel.reshard", [](const plan::Parallel& p) { return !p.reshard; },
     [](const Question& q) { return q.scenario.parallel.zero == 3; }},
    {"parallel.no_sync", [](const plan::Parallel& p) { return p.no_sync; },
     [](const Question& q) { return q.scenario.parallel.zero == 3; }},
    {"parallel.overlap_gather", [](const plan::Parallel& p) { return p.overlap_gather; },
     [](const Question& q) { return q.scenario.parallel.zero == 1 || q.scenario.parallel.zero == 2; }},
    {"parallel.gather_fp8", [](const plan::Parallel& p) { return p.gather_fp8; },
     [](const Question& q) { return q.scenario.parallel.zero > 0; }},
    {"parallel.recompute_stops", [](const plan::Parallel& p) { return p.recompute_stops; },
     [](const Question& q) {
       return q.scenario.parallel.recompute == plan::Recompute::kFull ||
              q.scenario.parallel.recompute == plan::Recompute::kPerOp;
     }},
    {"parallel.lora_products",
     [](const plan::Parallel& p) { return p.lora_products != plan::Parallel{}.lora_products; },
     [](const Question& q) { return q.scenario.parallel.lora_rank > 0; }},
    {"parallel.gated_fp8", [](const plan::Parallel& p) { return p.gated_fp8; },
     [](const Question& q) { return has_gates(*q.scenario.model); }},
    {"parallel.recompute_every", [](const plan::Parallel& p) { return p.recompute_every > 1; },
     [](const Question& q) { return q.scenario.parallel.recompute == plan::Recompute::kFull; }},
    {"parallel.recompute_first", [](const plan::Parallel& p) { return p.recompute_first > 1; },
     [](const Question& q) { return q.scenario.parallel.recompute == plan::Recompute::kFull; }},
    {"parallel.expert_capacity", [](const plan::Parallel& p) { return p.expert_capacity > 0; },
     [](const Question& q) {
       plan::Parallel all = q.scenario.parallel;
       all.expert_capacity = 0;
       const bool drops = plan::expert_share(q.scenario.parallel) < 1;
       const bool levels = plan::expert_load(q.scenario.parallel) < plan::expert_load(all);
       return workload::has_experts(*q.scenario.model) && (drops || levels);
     }},
    {"parallel.expert_imbalance", [](const plan::Parallel& p) { return p.expert_imbalance > 1; },
     [](const Question& q) { return q.scenario.parallel.expert > 1 && workload::has_experts(*q.scenario.model); }},
    {"parallel.expert_tensor",
     [](const plan::Parallel& p) { return p.expert_tensor > 1 || (p.expert_tensor == 1 && p.tensor > 1); },
     [](const Question& q) { return q.scenario.parallel.tensor > 1 && workload::has_experts(*q.scenario.model); }},
    {"parallel.expert_dispatch",
     [](const plan::Parallel& p) { return p.expert_dispatch != plan::ExpertDispatch::kCopies; }, sends_rows_once},
    {"parallel.expert_servers", [](const plan::Parallel& p) { return p.expert_servers > 0; },
     [](const Question& q) {
       const auto group = group_of_experts(q);
       return group && q.scenario.parallel.expert_dispatch == plan::ExpertDispatch::kOnce &&
              q.scenario.parallel.expert_servers < group->nodes;
     }},
    {"parallel.order", [](const plan::Parallel& p) { return p.order != plan::kMegatronOrder; },
     [](const Question& q) {
       const plan::Parallel& p = q.scenario.parallel;
       const auto axes = {p.tensor, p.context, p.expert, p.pipeline, plan::replicas_of(q.scenario)};
       return std::count_if(axes.begin(), axes.end(), [](std::int64_t degree) { return degree > 1; }) > 1;
     }},
    {"parallel.layers_per_stage", [](const plan::Parallel& p) { return !p.cuts.empty(); },
     [](const Question& q) { return q.scenario.parallel.pipeline > 1; }},
});

}  // namespace

bool stays_one_kernel(const workload::Model& model, const workload::Fusion& fusion) {
  return std::any_of(model.layers.begin(), model.layers.end(), [&](const workload::Layer& layer) {
    const bool is = layer.op && std::holds_alternative<workload::GroupedAttention>(*layer.op);
    return is && !(fusion.apart && workload::comes_apart(layer));
  });
}

std::string unused_settings(const Question& question) {
  std::string unused;
  const std::vector<std::string>& of_host = question.scenario.host_stated;
  for (const Use& use : kUses) {
    const bool stated = origin_of(question.scenario, use.path) == Origin::kStated ||
                        std::find(of_host.begin(), of_host.end(), use.path) != of_host.end();
    if (!stated) continue;
    if (question.fidelity != Fidelity::kAggregate && use.used(question)) continue;
    unused += (unused.empty() ? "" : ", ") + std::string(use.path);
  }
  const std::vector<std::string>& own = question.scenario.own_stated;
  const auto is_stated = [&](std::string_view path) { return std::find(own.begin(), own.end(), path) != own.end(); };
  for (const SplitUse& use : kSplitUses) {
    const bool stated = use.changed(question.scenario.parallel) || is_stated(use.path);
    if (!stated || use.used(question)) continue;
    unused += (unused.empty() ? "" : ", ") + std::string(use.path);
  }
  for (const std::string& path : own) {
    // A share of a rate may be stated with all others at once; what C++ sets leaves no trace of having been stated.
    constexpr auto kElsewhere =
        std::to_array<std::string_view>({"parallel.", "model.", "efficiency.", "network.oversubscription"});
    const auto begins = [&](std::string_view room) { return path.starts_with(room); };
    if (std::any_of(kElsewhere.begin(), kElsewhere.end(), begins) || has_use(question, path)) continue;
    unused += (unused.empty() ? "" : ", ") + path;
  }
  return unused;
}

std::vector<std::string> assumed_shares(const Question& question) {
  const plan::Efficiency& share = question.scenario.efficiency;
  bool kernels = !question.scenario.model->measured;
  bool pcie = true;
  // A profile knows what its kernels reach; the host link then matters to servers alone.
  if (const cost::CalibratedTimes* times = question.calibrated()) {
    kernels = times->assumed > Time::zero();
    pcie = by_servers(question);
  }
  // A collective library knows what it reaches, and servers are reached at its rate.
  const bool links = question.fidelity == Fidelity::kAggregate || by_servers(question);
  const bool grpc = links && question.scenario.ps_transport.get() == plan::PsTransport::kGrpc;
  const bool network = question.fidelity == Fidelity::kAggregate || (grpc && question.scenario.cluster.nodes > 1);
  std::vector<std::string> used;
  const auto add = [&](bool matters, const Stated<double>& value, std::string_view name) {
    if (matters && !value.stated()) used.emplace_back(name);
  };
  add(kernels, share.compute, "compute");
  add(kernels, share.memory, "memory");
  add(pcie, share.pcie, "pcie");
  add(links, share.nvlink, "nvlink");
  add(network, share.network, "network");
  return used;
}

bool has_use(const Question& question, std::string_view path) {
  constexpr std::string_view kShare = "efficiency.";
  if (path.starts_with(kShare)) {
    const auto shares = assumed_shares(question);
    return std::find(shares.begin(), shares.end(), path.substr(kShare.size())) != shares.end();
  }
  const auto* use = std::find_if(kUses.begin(), kUses.end(), [&](const Use& one) { return one.path == path; });
  if (use != kUses.end()) return question.fidelity != Fidelity::kAggregate && use->used(question);
  if (path.starts_with("network")) return by_several_nodes(question);
  if (path.starts_with("nvlink")) return by_several_gpus(question) && question.scenario.cluster.node.nvlink.has_value();
  if (path.starts_with("input.")) return by_loader(question);
  if (path.starts_with("strategy") || path.starts_with("overlap")) return by_several_gpus(question);
  if (path == "straggler") return question.scenario.straggler > 1;
  if (path == "gpu.power_limit") return by_power(question);
  for (const auto& [precision, rate] : kPeakPaths) {
    if (path == rate) return question.scenario.precision == precision;
  }
  return true;
}

}  // namespace ddlsim::whatif
