#include "sound.h"

#include <fmt/core.h>

#include <array>
#include <limits>
#include <span>
#include <string_view>

#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

constexpr double kNoMost = std::numeric_limits<double>::infinity();
constexpr double kAboveZero = std::numeric_limits<double>::denorm_min();  // above zero
constexpr auto kMostServers = static_cast<double>(hardware::kMaxNodes);
constexpr auto kMostGpus = static_cast<double>(hardware::kMaxGpusPerNode);

/// A setting's value in SI units, and what is valid.
struct RangedValue {
  std::string_view path;
  double (*now)(const Scenario& scenario);
  double least;
  double most = kNoMost;
};

double as_number(std::int64_t value) { return static_cast<double>(value); }

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
    {"efficiency.pcie", [](const Scenario& s) { return s.efficiency.pcie.get(); }, kAboveZero, 1},
    {"efficiency.nvlink", [](const Scenario& s) { return s.efficiency.nvlink.get(); }, kAboveZero, 1},
    {"efficiency.network", [](const Scenario& s) { return s.efficiency.network.get(); }, kAboveZero, 1},
});

constexpr auto kOfJob = std::to_array<RangedValue>({
    {"batch", [](const Scenario& s) { return as_number(s.batch); }, 1},
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
    {"jobs", [](const Scenario& s) { return as_number(s.jobs); }, 1},
    {"jobs.offset", [](const Scenario& s) { return s.jobs_offset->in(seconds); }, 0},
});

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
  if (auto sound = check_cluster_values(scenario); !sound) return sound;
  return check_ranges(scenario, kOfJob);
}

}  // namespace ddlsim::whatif
