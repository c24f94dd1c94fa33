// What a job's hardware reaches: rates of a GPU and its links, and the network among a group of them.
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "ddlsim/cost/price.h"

namespace ddlsim::cost {
namespace {

Expected<ComputeRate> peak_of(const plan::Job& job) {
  const hardware::Gpu& gpu = job.cluster.node.gpu;
  if (const auto peak = gpu.peak.at(job.precision)) return *peak;
  std::string has;
  for (const auto& [name, precision] : kPrecisions) {
    if (gpu.peak.at(precision) && name != "amp") has += (has.empty() ? "" : ", ") + std::string(name);
  }
  const auto wanted = name_of(kPrecisions, job.precision);
  return fail(ErrorCode::kUnsupported, fmt::format("no {} rate is known for {}", wanted, gpu.name), {},
              {"it has: " + has, fmt::format("or state one: --set gpu.peak.{}=...", wanted)});
}

/// From where the model's layers were measured to here. The share of the peak that was reached there is reached here.
WaveScaling measured_scaling(const plan::Job& job, ComputeRate peak, const Variation& variation) {
  const auto& on = job.model->measured;
  if (!on) return {};
  return {.memory = on->memory / job.cluster.node.gpu.memory_bandwidth / variation.memory,
          .compute = on->peak / peak / variation.compute,
          .batch = static_cast<double>(job.batch) / static_cast<double>(job.model->batch)};
}

double share_reached(const plan::Job& job, Precision precision) {
  const Stated<double>& assumed = job.efficiency.compute;
  const hardware::Gpu& gpu = job.cluster.node.gpu;
  const auto sustained = hardware::sustained_share(gpu, multiplied_in(gpu, precision));
  return assumed.stated() || !sustained ? assumed.get() : std::min(assumed.get(), *sustained);
}

}  // namespace

double compute_share(const plan::Job& job) { return share_reached(job, job.precision); }

Expected<DeviceRates> device_rates(const plan::Job& job, const Variation& variation) {
  const auto peak = peak_of(job);
  if (!peak) return tl::unexpected<Error>(peak.error());
  const hardware::Gpu& gpu = job.cluster.node.gpu;
  const ComputeRate multiplied = gpu.peak.at(multiplied_in(gpu, job.precision)).value_or(*peak);
  return DeviceRates{
      multiplied * (compute_share(job) * variation.compute),
      job.cluster.node.gpu.memory_bandwidth * (job.efficiency.memory * variation.memory),
      measured_scaling(job, *peak, variation),
      gpu.peak.bf16.value_or(ComputeRate{}) * (share_reached(job, Precision::kBf16) * variation.compute)};
}

Expected<ReachedRates> reached_rates(const plan::Job& job, const Variation& variation) {
  return reached_rates(job, variation, job.cluster.gpus_per_node);
}

Expected<ReachedRates> reached_rates(const plan::Job& job, const Variation& variation, std::int64_t gpus_per_node) {
  const auto device = device_rates(job, variation);
  if (!device) return tl::unexpected<Error>(device.error());
  const hardware::Cluster& cluster = job.cluster;
  const hardware::Node& node = cluster.node;
  const plan::Efficiency& share = job.efficiency;
  const double pcie = share.pcie * variation.pcie;
  ReachedRates rates;
  rates.device = *device;
  rates.on_one_uplink = static_cast<double>(node.most_on_one_uplink(gpus_per_node));
  rates.host_link = node.host_link.bandwidth * pcie;
  rates.pcie_share = min(rates.host_link / rates.on_one_uplink, node.pcie.bandwidth * pcie);
  const hardware::PeerPath peers = node.peers(gpus_per_node);
  rates.peer = peers.bandwidth * (peers.by_nvlink() ? share.nvlink * variation.nvlink : pcie);
  rates.server_network = cluster.network_bandwidth() * (share.network * variation.network);
  rates.from_slots = node.pcie.bandwidth * (pcie * static_cast<double>(gpus_per_node));
  rates.network = min(rates.server_network, rates.from_slots);
  return rates;
}

CollectiveLibrary collective_library_of(const plan::Job& job) {
  CollectiveLibrary library = job.collective;
  const plan::Efficiency& share = job.efficiency;
  const Stated<double>& inside =
      job.cluster.node.peers(job.cluster.gpus_per_node).by_nvlink() ? share.nvlink : share.pcie;
  if (inside.stated()) library.intra_efficiency = inside.get();
  if (share.network.stated()) library.inter_efficiency = share.network.get();
  return library;
}

Communicator communicator_of(const plan::Job& job, const plan::RankGroup& group, const Variation& variation) {
  Communicator c = communicator_of(job.cluster, group.nodes, PlacedRanks{group.per_node(), group.between});
  const double siblings = group.nodes > 1 ? static_cast<double>(group.siblings) : 1.0;
  c.intra = c.intra * (job.cluster.node.peers(group.per_node()).by_nvlink() ? variation.nvlink : variation.pcie);
  c.pcie = c.pcie * variation.pcie;
  c.host_share = c.host_share * variation.pcie;
  // Siblings have ports of their own where there are enough; else each a part of one.
  const auto sending = static_cast<std::int64_t>(siblings) * group.per_node();
  const double ports = static_cast<double>(job.cluster.node.ports_near(sending)) / siblings;
  c.inter = c.inter * (variation.network * ports / static_cast<double>(c.network_ports));
  c.network_ports = std::max<std::int64_t>(1, static_cast<std::int64_t>(ports));
  c.intra_latency = c.intra_latency / variation.latency;
  c.inter_latency = c.inter_latency / variation.latency;
  c.transport_speed = variation.transport * (ports / static_cast<double>(c.network_ports));
  c.connection = c.connection * variation.transport;
  c.staging_speed = variation.staging;
  return variation.open_network ? driven_by(c, *variation.open_network) : c;
}

Communicator communicator_of(const plan::Job& job) {
  return communicator_of(job.cluster, job.cluster.nodes, job.cluster.gpus_per_node);
}

}  // namespace ddlsim::cost
