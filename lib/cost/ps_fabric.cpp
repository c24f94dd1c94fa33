#include "ps_fabric.h"

#include "ddlsim/plan/software.h"
#include "nccl_tuning.h"

namespace ddlsim::cost {
namespace {

/// What drives the ports for servers' messages: sockets, or verbs, which a network of sockets has as RoCE.
NetworkTransport driven_for(PsTransport transport, NetworkTransport network) {
  switch (transport) {
    case PsTransport::kGrpc:
    case PsTransport::kTcp: return NetworkTransport::kTcp;
    case PsTransport::kGrpcMpi: return network;
    case PsTransport::kGrpcVerbs:
    case PsTransport::kGrpcGdr:
    case PsTransport::kRdma: break;
  }
  return network == NetworkTransport::kTcp ? NetworkTransport::kRoce : network;
}

/// Servers are reached by what drives the network, as ranks of a collective are, unless somebody states a share of its
/// rate or what carries their messages.
Bandwidth rate_to_servers(const plan::Job& job, const ReachedRates& rates, const Variation& variation) {
  if (job.efficiency.network.stated()) return rates.server_network;
  Communicator c = communicator_of(job.cluster);
  c.inter = c.inter * variation.network;
  c.transport_speed = variation.transport;
  if (variation.open_network) c = driven_by(c, *variation.open_network);
  const auto& transport = job.ps_transport.get();
  if (transport) c.transport = driven_for(*transport, c.transport);
  // TensorFlow's jobs at Alibaba reached 70 % of their links (Wang et al. 2019): gRPC frames, copies and waits.
  return transport == PsTransport::kGrpc ? min(transport_rate(c), rates.server_network) : transport_rate(c);
}

/// Likewise the GPUs of a node by each other, where their gradients are summed before they leave it.
Bandwidth rate_to_peers(const plan::Job& job, const ReachedRates& rates, const Variation& variation) {
  const CollectiveLibrary library = collective_library_of(job);
  if (job.cluster.gpus_per_node < 2 || library.intra_efficiency) return rates.peer;
  Communicator c = communicator_of(job.cluster, 1, job.cluster.gpus_per_node);
  const bool nvlink = job.cluster.node.peers(job.cluster.gpus_per_node).by_nvlink();
  c.intra = c.intra * (nvlink ? variation.nvlink : variation.pcie);
  c.host_share = c.host_share * variation.pcie;
  c.staging_speed = variation.staging;
  return effective_rates(c, library).intra;
}

}  // namespace

PsFabric servers_of(const plan::Job& job, const plan::StepPlan& plan, const ReachedRates& rates,
                    const Variation& variation) {
  const plan::Servers& servers = *plan.servers;
  const Bandwidth network = rate_to_servers(job, rates, variation);
  PsFabric fabric{.workers = job.cluster.gpus(),
                  .workers_per_node = job.cluster.gpus_per_node,
                  .servers = servers.count,
                  .local = servers.local,
                  .colocated = servers.colocated,
                  .local_aggregation = servers.local_aggregation,
                  .whole_pieces = plan::grouping_of(job.strategy) == plan::Grouping::kPartitions,
                  .pushes_meet_pulls = !plan.exchange.pull_at_start,
                  .pcie = rates.pcie_share,
                  .peer = rate_to_peers(job, rates, variation),
                  .node_network = min(network, rates.from_slots),
                  .server_network = network,
                  .server_memory = plan::host_memory_rate(job) * variation.server_memory,
                  .update_accesses = servers.update ? static_cast<double>(update_accesses(plan.model->optimizer)) : 0.0,
                  .pulled = servers.pulled,
                  .latency = job.cluster.node.network.latency / variation.latency};
  if (const auto& transport = job.ps_transport.get()) fabric.transport = transport_cost(*transport);
  fabric.transport.connection = fabric.transport.connection * variation.transport;
  fabric.transport.per_message = fabric.transport.per_message / variation.transport;
  return fabric;
}

}  // namespace ddlsim::cost
