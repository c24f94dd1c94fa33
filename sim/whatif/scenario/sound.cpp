#include "scenario/sound.h"

#include <fmt/core.h>

#include <array>
#include <limits>
#include <span>
#include <string_view>

#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

constexpr double kNoMost = std::numeric_limits<double>::max();            // what is infinite is out of range
constexpr double kAboveZero = std::numeric_limits<double>::denorm_min();  // above zero
constexpr auto kMostServers = static_cast<double>(hardware::kMaxNodes);
constexpr double kMostJobs = 1000;  // of one simulation (sim/events)
constexpr auto kMostGpus = static_cast<double>(hardware::kMaxGpusPerNode);

/// A setting's value in SI units, and what is valid.
struct RangedValue {
  std::string_view path;
  double (*now)(const Scenario& scenario);
  double least;
  double most = kNoMost;
};

double as_number(std::int64_t value) { return static_cast<double>(value); }

constexpr double kUnsaid = 2010;  // of what nobody states: in every range

double seconds_of(const std::optional<Time>& time) { return time ? time->in(seconds) : kUnsaid; }
double whole_of(const std::optional<std::int64_t>& count) { return count ? as_number(*count) : kUnsaid; }
double bytes_of(const std::optional<Bandwidth>& rate) { return rate ? rate->in(bytes_per_second) : kUnsaid; }
double dollars_of(const std::optional<PriceRate>& price) { return price ? price->in(dollars_per_hour) : kUnsaid; }

constexpr auto kOfCluster = std::to_array<RangedValue>({
    {"nodes", [](const Scenario& s) { return as_number(s.cluster.nodes); }, 1, kMostServers},
    {"node: gpus", [](const Scenario& s) { return as_number(s.cluster.node.gpus); }, 1, kMostGpus},
    {"gpus_per_node", [](const Scenario& s) { return as_number(s.cluster.gpus_per_node); }, 1, kMostGpus},
    {"pcie.uplinks", [](const Scenario& s) { return as_number(s.cluster.node.pcie_uplinks); }, 1, kMostGpus},
    {"node: network ports", [](const Scenario& s) { return as_number(s.cluster.node.network_ports); }, 1},
    {"network", [](const Scenario& s) { return s.cluster.node.network.bandwidth.in(bytes_per_second); }, kAboveZero},
    {"network.latency", [](const Scenario& s) { return s.cluster.node.network.latency->in(seconds); }, 0},
    {"network.oversubscription", [](const Scenario& s) { return s.cluster.oversubscription; }, 1},
    {"pcie", [](const Scenario& s) { return s.cluster.node.pcie.bandwidth.in(bytes_per_second); }, kAboveZero},
    {"pcie.host", [](const Scenario& s) { return s.cluster.node.host_link.bandwidth.in(bytes_per_second); },
     kAboveZero},
    {"pcie.latency", [](const Scenario& s) { return s.cluster.node.pcie.latency->in(seconds); }, 0},
    {"nvlink",
     [](const Scenario& s) {
       const auto& nvlink = s.cluster.node.nvlink;
       return nvlink ? nvlink->bandwidth.in(bytes_per_second) : kNoMost;
     },
     kAboveZero},
    {"nvlink.latency",
     [](const Scenario& s) {
       const auto& nvlink = s.cluster.node.nvlink;
       return nvlink ? nvlink->latency->in(seconds) : 0.0;
     },
     0},
    {"gpu.memory_bandwidth", [](const Scenario& s) { return s.cluster.node.gpu.memory_bandwidth.in(bytes_per_second); },
     kAboveZero},
    {"gpu.memory_size", [](const Scenario& s) { return s.cluster.node.gpu.memory_size.in(bytes); }, kAboveZero},
    {"gpu: sm_count", [](const Scenario& s) { return as_number(s.cluster.node.gpu.sm_count); }, 1},
    {"gpu: tdp", [](const Scenario& s) { return s.cluster.node.gpu.tdp.in(watts); }, 0},
    {"price", [](const Scenario& s) { return dollars_of(s.cluster.node.price); }, 0},
    {"node: spot price", [](const Scenario& s) { return dollars_of(s.cluster.node.tariff.spot); }, 0},
    {"efficiency.pcie", [](const Scenario& s) { return s.efficiency.pcie.get(); }, kAboveZero, 1},
    {"efficiency.nvlink", [](const Scenario& s) { return s.efficiency.nvlink.get(); }, kAboveZero, 1},
    {"efficiency.network", [](const Scenario& s) { return s.efficiency.network.get(); }, kAboveZero, 1},
});

constexpr auto kOfJob = std::to_array<RangedValue>({
    {"batch", [](const Scenario& s) { return as_number(s.batch); }, 1},
    {"gpu.peak",
     [](const Scenario& s) {
       const auto peak = s.cluster.node.gpu.peak.at(s.precision);
       return peak ? peak->in(flops_per_second) : kUnsaid;
     },
     kAboveZero},
    {"software.year", [](const Scenario& s) { return s.software_year->value_or(kUnsaid); }, 2010, 2100},
    {"efficiency.compute", [](const Scenario& s) { return s.efficiency.compute.get(); }, kAboveZero, 1},
    {"efficiency.memory", [](const Scenario& s) { return s.efficiency.memory.get(); }, kAboveZero, 1},
    {"parallel.tensor", [](const Scenario& s) { return as_number(s.parallel.tensor); }, 1},
    {"parallel.context", [](const Scenario& s) { return as_number(s.parallel.context); }, 1},
    {"parallel.pipeline", [](const Scenario& s) { return as_number(s.parallel.pipeline); }, 1},
    {"strategy.bucket", [](const Scenario& s) { return s.strategy.bucket->in(bytes); }, kAboveZero},
    {"strategy.first_bucket", [](const Scenario& s) { return s.strategy.first_bucket->in(bytes); }, kAboveZero},
    {"strategy.partition", [](const Scenario& s) { return s.strategy.partition->in(bytes); }, kAboveZero},
    {"strategy.cycle", [](const Scenario& s) { return s.strategy.cycle->in(seconds); }, kAboveZero},
    {"strategy.density", [](const Scenario& s) { return s.strategy.density.get(); }, kAboveZero, 1},
    {"strategy.rank", [](const Scenario& s) { return as_number(s.strategy.rank); }, 1},
    {"strategy.accumulation", [](const Scenario& s) { return as_number(s.strategy.accumulation); }, 1},
    {"strategy.sync_every", [](const Scenario& s) { return as_number(s.strategy.sync_every); }, 1},
    {"strategy.servers", [](const Scenario& s) { return as_number(s.strategy.servers); }, 0},
    {"strategy.staleness", [](const Scenario& s) { return as_number(s.strategy.staleness); }, 0},
    {"strategy.parameter_compression", [](const Scenario& s) { return s.strategy.parameter_compression.get(); }, 1},
    {"ps.memory_bandwidth", [](const Scenario& s) { return s.server_memory->in(bytes_per_second); }, kAboveZero},
    {"input.prefetch", [](const Scenario& s) { return as_number(s.input.prefetch); }, 1},
    {"input.workers", [](const Scenario& s) { return as_number(s.input.workers->value_or(0)); }, 0},
    {"launch_interval", [](const Scenario& s) { return s.launch_interval->in(seconds); }, 0},
    {"jitter", [](const Scenario& s) { return s.jitter.get(); }, 0},
    {"gpu.time_factor", [](const Scenario& s) { return s.gpu_time_factor.get(); }, kAboveZero},
    {"straggler", [](const Scenario& s) { return s.straggler.get(); }, 1},
    {"straggler.gpus", [](const Scenario& s) { return as_number(s.stragglers); }, 1},
    {"jobs", [](const Scenario& s) { return as_number(s.jobs); }, 1, kMostJobs},
    {"jobs.offset", [](const Scenario& s) { return s.jobs_offset->in(seconds); }, 0},
});

constexpr auto kOfRun = std::to_array<RangedValue>({
    {"training.epochs", [](const Scenario& s) { return s.training.epochs.value_or(kUnsaid); }, kAboveZero},
    {"training.samples", [](const Scenario& s) { return whole_of(s.training.samples); }, 1},
    {"training.tokens", [](const Scenario& s) { return whole_of(s.training.tokens); }, 1},
    {"training.steps", [](const Scenario& s) { return whole_of(s.training.steps); }, 1},
    {"training.startup", [](const Scenario& s) { return s.training.startup.in(seconds); }, 0},
    {"training.evaluation", [](const Scenario& s) { return seconds_of(s.training.evaluation); }, 0},
    {"training.evaluate_every", [](const Scenario& s) { return s.training.evaluate_every; }, kAboveZero},
    {"training.checkpoint", [](const Scenario& s) { return seconds_of(s.training.checkpoint); }, 0},
    {"training.checkpoint_every", [](const Scenario& s) { return s.training.checkpoint_every.in(seconds); },
     kAboveZero},
    {"training.carbon",
     [](const Scenario& s) { return s.training.carbon ? s.training.carbon->in(grams_per_kilowatt_hour) : kUnsaid; }, 0,
     5000},
    {"failures.mtbf_gpu", [](const Scenario& s) { return seconds_of(s.failures.gpu); }, kAboveZero},
    {"failures.mtbf_node", [](const Scenario& s) { return seconds_of(s.failures.node); }, kAboveZero},
    {"failures.mtbf_switch", [](const Scenario& s) { return seconds_of(s.failures.network); }, kAboveZero},
    {"failures.nodes_per_switch", [](const Scenario& s) { return whole_of(s.failures.nodes_per_switch); }, 1},
    {"failures.restart", [](const Scenario& s) { return s.failures.restart.in(seconds); }, 0},
    {"failures.warmup", [](const Scenario& s) { return s.failures.warmup.in(seconds); }, 0},
    {"failures.spares", [](const Scenario& s) { return as_number(s.failures.spares); }, 0},
    {"failures.repair", [](const Scenario& s) { return seconds_of(s.failures.repair); }, 0},
    {"failures.runs", [](const Scenario& s) { return as_number(s.failures.simulated_runs); }, 0},
    {"checkpoint.interval", [](const Scenario& s) { return seconds_of(s.checkpoints.interval); }, kAboveZero},
    {"checkpoint.bandwidth", [](const Scenario& s) { return bytes_of(s.checkpoints.bandwidth); }, kAboveZero},
    {"checkpoint.node_bandwidth", [](const Scenario& s) { return bytes_of(s.checkpoints.node_bandwidth); }, kAboveZero},
    {"checkpoint.size", [](const Scenario& s) { return s.checkpoints.size ? s.checkpoints.size->in(bytes) : kUnsaid; },
     kAboveZero},
    {"checkpoint.writers", [](const Scenario& s) { return whole_of(s.checkpoints.writers); }, 1},
    {"checkpoint.write", [](const Scenario& s) { return seconds_of(s.checkpoints.write); }, 0},
    {"checkpoint.snapshot", [](const Scenario& s) { return seconds_of(s.checkpoints.snapshot); }, 0},
    {"checkpoint.remote_every", [](const Scenario& s) { return whole_of(s.checkpoints.remote_every); }, 1},
});

/// A setting whose value is one of a table's.
struct ChosenValue {
  std::string_view path;
  bool (*known)(const Scenario& scenario);
};

template <typename Enum, std::size_t N>
bool is_choice(const Choices<Enum, N>& choices, Enum value) {
  return !name_of(choices, value).empty();
}

constexpr auto kOfChoice = std::to_array<ChosenValue>({
    {"precision", [](const Scenario& s) { return is_choice(kPrecisions, s.precision); }},
    {"strategy", [](const Scenario& s) { return is_choice(plan::kStrategies, s.strategy.kind); }},
    {"strategy.grouping",
     [](const Scenario& s) {
       return !s.strategy.grouping.get() || is_choice(plan::kGroupings, *s.strategy.grouping.get());
     }},
    {"strategy.gradients", [](const Scenario& s) { return is_choice(kPrecisions, s.strategy.gradients.get()); }},
    {"strategy.compression",
     [](const Scenario& s) { return is_choice(plan::kCompressions, s.strategy.compression.get()); }},
    {"strategy.placement", [](const Scenario& s) { return is_choice(plan::kPlacements, s.strategy.placement.get()); }},
    {"strategy.consistency",
     [](const Scenario& s) { return is_choice(plan::kConsistencies, s.strategy.consistency.get()); }},
    {"parallel.schedule", [](const Scenario& s) { return is_choice(plan::kPipelineSchedules, s.parallel.schedule); }},
    {"parallel.context_by", [](const Scenario& s) { return is_choice(plan::kContextWays, s.parallel.context_by); }},
    {"parallel.recompute", [](const Scenario& s) { return is_choice(plan::kRecomputes, s.parallel.recompute); }},
    {"parallel.states",
     [](const Scenario& s) { return !s.parallel.states || is_choice(plan::kStates, *s.parallel.states); }},
    {"overlap", [](const Scenario& s) { return !s.overlap || is_choice(plan::kOverlaps, *s.overlap); }},
    {"collective.library",
     [](const Scenario& s) { return is_choice(plan::kCollectiveLibraries, s.collective.kind.get()); }},
    {"fidelity", [](const Scenario& s) { return !s.fidelity || is_choice(answer::kFidelities, *s.fidelity); }},
    {"checkpoint.mode", [](const Scenario& s) { return is_choice(cost::kCheckpointModes, s.checkpoints.mode); }},
});

Expected<void> check_choices(const Scenario& scenario) {
  for (const ChosenValue& value : kOfChoice) {
    if (value.known(scenario)) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: a number that is none of its values", value.path), {},
                {"`ddlsim list settings` shows them"});
  }
  return {};
}

Expected<void> check_ranges(const Scenario& scenario, std::span<const RangedValue> values) {
  for (const RangedValue& value : values) {
    const double now = value.now(scenario);
    if (now >= value.least && now <= value.most) continue;  // and what is no number is neither
    const std::string least = value.least == kAboveZero ? "above 0" : fmt::format("{:g} and more", value.least);
    return fail(
        ErrorCode::kInvalidArgument, fmt::format("{}: {:g} is out of range", value.path, now), {},
        {fmt::format("valid: {}{}", least, value.most < kNoMost ? fmt::format(", up to {:g}", value.most) : "")});
  }
  return {};
}

}  // namespace

Expected<void> check_cluster_values(const Scenario& scenario) {
  if (auto sound = check_ranges(scenario, kOfCluster); !sound) return sound;
  const hardware::Cluster& cluster = scenario.cluster;
  if (cluster.gpus_per_node <= cluster.node.gpus) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("gpus_per_node: {} of a server that has {}", to_text(cluster.gpus_per_node),
                          to_text(cluster.node.gpus)),
              {}, {"valid: at most as many as the server has"});
}

Expected<void> check_values(const Scenario& scenario) {
  if (scenario.model == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "model: there is none", {}, {"name one (`ddlsim list models`)"});
  }
  if (!scenario.model->has_layers() && !scenario.model->features) {
    return fail(ErrorCode::kInvalidArgument, "model: it has neither layers nor the features of a whole step", {},
                {"load one of a file (models/README.md), or name one (`ddlsim list models`)"});
  }
  if (auto named = check_choices(scenario); !named) return named;
  if (auto sound = check_cluster_values(scenario); !sound) return sound;
  if (auto sound = check_ranges(scenario, kOfJob); !sound) return sound;
  return check_ranges(scenario, kOfRun);
}

}  // namespace ddlsim::whatif
