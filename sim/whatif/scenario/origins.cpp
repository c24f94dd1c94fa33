// Where each setting's value came from, as the value itself says.
#include <algorithm>
#include <array>

#include "scenario/settings.h"

namespace ddlsim::whatif {
namespace {

struct Access {
  std::string_view path;
  Origin (*get)(const Scenario&);
  void (*set)(Scenario&, Origin);
};

/// Of a Stated<T> that `Member` finds in a scenario.
template <typename Member>
constexpr Access stated(std::string_view path, Member) {
  return {path, [](const Scenario& s) { return Member{}(s).origin(); },
          [](Scenario& s, Origin origin) { Member{}(s).set_origin(origin); }};
}
/// Of a part that is there when somebody says so.
template <typename Member>
constexpr Access optional(std::string_view path, Member) {
  return {path, [](const Scenario& s) { return Member{}(s) ? Origin::kStated : Origin::kDefault; },
          [](Scenario&, Origin) {}};
}

constexpr auto kOrigins = std::to_array<Access>({
    stated(
        "strategy.grouping", [](auto& s) -> auto& { return s.strategy.grouping; }),
    stated(
        "strategy.first_bucket", [](auto& s) -> auto& { return s.strategy.first_bucket; }),
    stated(
        "strategy.bucket", [](auto& s) -> auto& { return s.strategy.bucket; }),
    stated(
        "strategy.cycle", [](auto& s) -> auto& { return s.strategy.cycle; }),
    stated(
        "strategy.partition", [](auto& s) -> auto& { return s.strategy.partition; }),
    stated(
        "strategy.priority", [](auto& s) -> auto& { return s.strategy.priority; }),
    stated(
        "strategy.gradients", [](auto& s) -> auto& { return s.strategy.gradients; }),
    stated(
        "strategy.compression", [](auto& s) -> auto& { return s.strategy.compression; }),
    stated(
        "strategy.density", [](auto& s) -> auto& { return s.strategy.density; }),
    stated(
        "strategy.rank", [](auto& s) -> auto& { return s.strategy.rank; }),
    stated(
        "strategy.accumulation", [](auto& s) -> auto& { return s.strategy.accumulation; }),
    stated(
        "strategy.sync_every", [](auto& s) -> auto& { return s.strategy.sync_every; }),
    stated(
        "strategy.spread_from", [](auto& s) -> auto& { return s.strategy.spread_from; }),
    stated(
        "strategy.split_on_host", [](auto& s) -> auto& { return s.strategy.split_on_host; }),
    stated(
        "strategy.preload", [](auto& s) -> auto& { return s.strategy.preload; }),
    stated(
        "strategy.parameter_compression", [](auto& s) -> auto& { return s.strategy.parameter_compression; }),
    stated(
        "strategy.servers", [](auto& s) -> auto& { return s.strategy.servers; }),
    stated(
        "strategy.colocated", [](auto& s) -> auto& { return s.strategy.colocated; }),
    stated(
        "strategy.placement", [](auto& s) -> auto& { return s.strategy.placement; }),
    stated(
        "strategy.local_aggregation", [](auto& s) -> auto& { return s.strategy.local_aggregation; }),
    stated(
        "strategy.servers_update", [](auto& s) -> auto& { return s.strategy.servers_update; }),
    stated(
        "strategy.pull_at_start", [](auto& s) -> auto& { return s.strategy.pull_at_start; }),
    stated(
        "strategy.consistency", [](auto& s) -> auto& { return s.strategy.consistency; }),
    stated(
        "strategy.staleness", [](auto& s) -> auto& { return s.strategy.staleness; }),
    stated(
        "collective.library", [](auto& s) -> auto& { return s.collective.kind; }),
    optional(
        "collective.algorithm", [](auto& s) -> auto& { return s.collective.algorithm; }),
    optional(
        "collective.pointer_cache", [](auto& s) -> auto& { return s.collective.pointer_cache; }),
    optional(
        "collective.sums_on", [](auto& s) -> auto& { return s.collective.sums_on; }),
    optional(
        "collective.table", [](auto& s) -> auto& { return s.collective_table; }),
    stated(
        "ps.transport", [](auto& s) -> auto& { return s.ps_transport; }),
    stated(
        "ps.memory_bandwidth", [](auto& s) -> auto& { return s.server_memory; }),
    stated(
        "network.transport", [](auto& s) -> auto& { return s.cluster.node.network.transport; }),
    stated(
        "network.uplink", [](auto& s) -> auto& { return s.leaf_uplink; }),
    stated(
        "network.latency", [](auto& s) -> auto& { return s.cluster.node.network.latency; }),
    {"nvlink.latency",
     [](const Scenario& s) {
       const auto& nvlink = s.cluster.node.nvlink;
       return nvlink ? nvlink->latency.origin() : Origin::kDefault;
     },
     [](Scenario& s, Origin origin) {
       if (s.cluster.node.nvlink) s.cluster.node.nvlink->latency.set_origin(origin);
     }},
    stated(
        "pcie.latency", [](auto& s) -> auto& { return s.cluster.node.pcie.latency; }),
    stated(
        "gpu_interconnect", [](auto& s) -> auto& { return s.cluster.node.gpu_interconnect; }),
    stated(
        "peer_to_peer", [](auto& s) -> auto& { return s.cluster.node.peer_to_peer; }),
    stated(
        "input.loader", [](auto& s) -> auto& { return s.input.loader; }),
    stated(
        "input.workers", [](auto& s) -> auto& { return s.input.workers; }),
    stated(
        "input.prefetch", [](auto& s) -> auto& { return s.input.prefetch; }),
    stated(
        "input.cache", [](auto& s) -> auto& { return s.input.cache; }),
    stated(
        "input.cache_size", [](auto& s) -> auto& { return s.input.cache_size; }),
    stated(
        "input.epoch", [](auto& s) -> auto& { return s.input.epoch; }),
    stated(
        "input.decode", [](auto& s) -> auto& { return s.input.decode; }),
    stated(
        "input.gpu_decode", [](auto& s) -> auto& { return s.input.gpu_decode; }),
    stated(
        "input.contention", [](auto& s) -> auto& { return s.input.contention; }),
    stated(
        "input.variation", [](auto& s) -> auto& { return s.input.variation; }),
    stated(
        "input.pinned", [](auto& s) -> auto& { return s.input.pinned; }),
    stated(
        "jitter", [](auto& s) -> auto& { return s.jitter; }),
    stated(
        "launch_interval", [](auto& s) -> auto& { return s.launch_interval; }),
    stated(
        "gpu.time_factor", [](auto& s) -> auto& { return s.gpu_time_factor; }),
    stated(
        "software.year", [](auto& s) -> auto& { return s.software_year; }),
    stated(
        "software.fused", [](auto& s) -> auto& { return s.software_fused; }),
    stated(
        "software.attention", [](auto& s) -> auto& { return s.software_attention; }),
    stated(
        "software.optimizer", [](auto& s) -> auto& { return s.software_optimizer; }),
    stated(
        "software.operators", [](auto& s) -> auto& { return s.software_operators; }),
    stated(
        "software.layout", [](auto& s) -> auto& { return s.software_layout; }),
    stated(
        "jobs", [](auto& s) -> auto& { return s.jobs; }),
    stated(
        "jobs.offset", [](auto& s) -> auto& { return s.jobs_offset; }),
    stated(
        "straggler", [](auto& s) -> auto& { return s.straggler; }),
    stated(
        "straggler.gpus", [](auto& s) -> auto& { return s.stragglers; }),
});

const Access* access_to(std::string_view path) {
  const auto found = std::find_if(kOrigins.begin(), kOrigins.end(), [&](const Access& a) { return a.path == path; });
  return found == kOrigins.end() ? nullptr : &*found;
}

}  // namespace

std::optional<Origin> origin_of(const Scenario& scenario, std::string_view path) {
  const Access* access = access_to(path);
  return access == nullptr ? std::nullopt : std::optional(access->get(scenario));
}

void set_origin(Scenario& scenario, std::string_view path, Origin origin) {
  if (const Access* access = access_to(path)) access->set(scenario, origin);
}

}  // namespace ddlsim::whatif
