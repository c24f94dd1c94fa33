#include "predict/bottleneck.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "ddlsim/cost/loader.h"
#include "predict/setting_uses.h"

namespace ddlsim::whatif {
namespace {

constexpr double kFaster = 1.1;
constexpr double kAtMost = 1.0 - 1.0 / kFaster;

struct Resource {
  std::string_view name;
  Time busy;  // what it takes of a step by itself: faster by f, it gives busy * (1 - 1 / f) at most
  double cost::Variation::*speed;
};

Time time_on(std::string_view link, const Laid& laid) {
  Time sum;
  for (const answer::LinkTraffic& traffic : laid.traffic) {
    if (traffic.link.starts_with(link)) sum += traffic.time;
  }
  return sum;
}

/// Whether a loader's workers spend most of their time waiting until storage answers: a rate that is no part's.
bool waits_for_answers(const Scenario& scenario) {
  const cost::LoaderShare share = cost::loader_share(scenario);
  const cost::LoaderWork work = cost::loader_work(scenario.input, scenario.cluster.node.host);
  const cost::LoaderRates rates = cost::loader_rates(work, share);
  if (rates.slowest() != cost::LoaderStage::kWorkers) return false;
  const Time of_sample = seconds(std::max(share.workers, 1.0) / rates.workers.in(per_second));
  return work.latency * share.from.storage > of_sample / 2.0;
}

/// The most that each resource could give first.
std::array<Resource, 12> resources_of(const Question& question, const Laid& laid) {
  const answer::Breakdown& parts = laid.line.parts;
  const Time on_network = time_on("network", laid);
  const Time on_nvlink = time_on("nvlink", laid);
  const Time on_pcie = time_on("pcie", laid);
  const hardware::Cluster& cluster = question.scenario.cluster;
  const plan::Efficiency& share = question.scenario.efficiency;
  const bool pcie_feeds_network =
      cluster.node.pcie.bandwidth * (share.pcie * static_cast<double>(cluster.gpus_per_node)) <
      cluster.node.network_bandwidth() * (share.network * kFaster);
  // Weights cross PCIe both ways, and PCIe may be what bounds a node's network port.
  const Time pcie = on_pcie * 2.0 + (pcie_feeds_network ? on_network : Time::zero());
  // GPUs without peer access meet in the host's memory.
  const hardware::PeerPath peers = cluster.node.peers(cluster.gpus_per_node);
  const bool staged = !peers.by_nvlink() && peers.through_host && by_collectives(question);
  // Stations of servers that no link's traffic shows.
  const bool servers = laid.step && laid.step->servers;
  const plan::Parallel& split = question.scenario.parallel;
  const bool in_host = servers || split.offload_optimizer || split.offload_activations;
  const Time at_servers = in_host ? parts.communication + parts.host_update : Time::zero();
  const auto transport = cluster.node.network.transport->value_or(cost::assumed_transport(cluster.node));
  const bool by_tcp = transport == hardware::NetworkTransport::kTcp ||
                      question.scenario.collective.kind == plan::CollectiveLibraryKind::kGloo;
  Time at_transport = by_tcp ? on_network : Time::zero();
  if (servers && question.scenario.ps_transport.get()) at_transport = at_servers;
  using Varied = cost::Variation;
  const Time loading = laid.line.loading + laid.line.starved;
  const bool loads = laid.step && laid.step->loader;
  const bool reads = loads && laid.step->loader->storage > Time::zero();
  // Faster processors or storage give little then; more workers do.
  const bool waits = loads && waits_for_answers(question.scenario);
  const bool through_port = loads && laid.step->loader->network > Time::zero();
  const Time busiest_link = max(on_network, max(on_nvlink, on_pcie));
  std::array<Resource, 12> resources{{
      {"gpu compute", parts.compute, &Varied::compute},
      {"gpu memory bandwidth", parts.memory, &Varied::memory},
      {"kernel launches", parts.launch, &Varied::launch},
      {"network", on_network + (through_port ? loading : Time::zero()), &Varied::network},
      {"nvlink", on_nvlink, &Varied::nvlink},
      {"pcie", pcie, &Varied::pcie},
      {"host memory", staged ? on_pcie : Time::zero(), &Varied::staging},
      {"server memory", at_servers, &Varied::server_memory},
      {"transport", at_transport, &Varied::transport},
      {waits ? "loader workers" : "storage", reads ? loading : Time::zero(), &Varied::storage},
      {waits ? "loader workers" : "cpu", loads ? loading : Time::zero(), &Varied::cpu},
      {"latency", max(parts.communication - busiest_link, Time::zero()), &Varied::latency},
  }};
  std::sort(resources.begin(), resources.end(), [](const Resource& a, const Resource& b) { return b.busy < a.busy; });
  return resources;
}

/// What of its step a job loses no more where something is faster; zero where it loses more.
Time gain_by(const cost::Variation& faster, const Question& question, const Laid& laid, const RunCorrection* runs) {
  const auto varied = lay_out(question, faster, answer::Detail::kTime);
  if (!varied) return {};
  if (runs == nullptr) return max(laid.line.step - varied->line.step, Time::zero());
  const Time besides = spoken_of(laid, true) * (runs->factor - runs->parts);
  const Time step = step_beside_loader(*varied, spoken_of(*varied, true) * runs->parts + besides);
  return max(runs->step - step, Time::zero()) / runs->parts;
}

}  // namespace

Time gain_of_faster(Time part) { return part * kAtMost; }

Bottleneck bottleneck_of(const Question& question, const Laid& laid, const RunCorrection* runs) {
  const Time step = laid.line.step;
  if (runs != nullptr && !runs->apart) runs = nullptr;
  // A loader's gain over that share of the rest may be more than its own.
  const double at_most = kAtMost * (runs != nullptr ? std::max(1.0, 1 / runs->parts) : 1.0);
  const answer::Breakdown& parts = laid.line.parts;
  if (parts.bubble > step / 2.0) return {"pipeline bubble", gain_of_faster(parts.bubble)};
  const auto resources = resources_of(question, laid);
  std::string_view best = resources.front().name;
  Time most;
  for (const Resource& resource : resources) {
    if (resource.busy * at_most <= most) break;
    cost::Variation faster;
    faster.*resource.speed = kFaster;
    const Time gain = gain_by(faster, question, laid, runs);
    if (gain > most) {
      most = gain;
      best = resource.name;
    }
  }
  const Time on_network = time_on("network", laid);
  const Time on_nvlink = time_on("nvlink", laid);
  const Time on_pcie = time_on("pcie", laid);
  // Cards and the slots that feed them are bought to match: where neither alone helps, both may.
  if (on_network * kAtMost > most) {
    cost::Variation both;
    both.network = both.pcie = kFaster;
    if (const Time gain = gain_by(both, question, laid, runs); gain > most) return {"network", gain};
  }
  constexpr double kAlmostNothing = 0.25;
  if (parts.communication_exposed > step / 2.0 && most < step * (kAtMost * kAlmostNothing)) {
    const Time busiest = max(on_network, max(on_nvlink, on_pcie));
    if (busiest > Time::zero()) {
      return {busiest == on_network  ? "network"
              : on_nvlink >= on_pcie ? "nvlink"
                                     : "pcie",
              gain_of_faster(parts.communication_exposed)};
    }
  }
  return {std::string(best), most};
}

}  // namespace ddlsim::whatif
