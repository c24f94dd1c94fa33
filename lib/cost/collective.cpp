#include "ddlsim/cost/collective.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "ddlsim/cost/gloo_collectives.h"
#include "ddlsim/cost/mpi_collectives.h"
#include "ddlsim/cost/nccl.h"
#include "ddlsim/hardware/collective_table.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/portable_math.h"

namespace ddlsim::cost {
namespace {

constexpr double kGrowthStart = 4.0 * 1024 * 1024;  // bytes: cost/nccl.h

GpuFabric fabric_of(const hardware::Node& node, const hardware::PeerPath& peers) {
  if (!peers.by_nvlink()) return peers.through_host ? GpuFabric::kHostMemory : GpuFabric::kPcie;
  if (node.gpu.form == hardware::Form::kPcie) return GpuFabric::kNvlinkBridge;
  return peers.by == hardware::Interconnect::kNvlinkMesh ? GpuFabric::kNvlinkMesh : GpuFabric::kNvswitch;
}

/// `busy` GPUs of a node send at once.
Communicator communicator_over(const hardware::Cluster& cluster, std::int64_t nodes, std::int64_t per_node,
                               const hardware::PeerPath& peers, std::int64_t busy) {
  const hardware::Node& node = cluster.node;
  Communicator c;
  c.nodes = nodes;
  c.gpus = nodes * per_node;
  c.generation = node.gpu.nccl_tuning.value_or(GpuGeneration::kPascal);
  c.tuning_assumed = !node.gpu.nccl_tuning;
  c.fabric = fabric_of(node, peers);
  c.transport = node.network.transport->value_or(assumed_transport(node));
  c.transport_assumed = !hardware::says_transport(node.network);
  c.intra = peers.bandwidth;
  c.network_ports = node.ports_near(per_node);
  c.inter =
      cluster.network_bandwidth() * (static_cast<double>(c.network_ports) / static_cast<double>(node.network_ports));
  c.pcie = node.pcie.bandwidth;
  c.host_share = node.host_link.bandwidth / static_cast<double>(node.most_on_one_uplink(busy));
  c.memory = node.gpu.memory_bandwidth;
  c.crosses_sockets = peers.crosses_switches;
  c.intra_latency = peers.latency;
  c.inter_latency = node.network.latency;
  // Outside of a placement group: Amazon EC2 User Guide, instance network bandwidth.
  if (!node.tariff.provider.empty() && fold_name(node.tariff.provider) == fold_name("AWS")) {
    c.connection = gigabits_per_second(5);
  }
  return c;
}

bool within_unit(const std::optional<double>& share) {
  return !share || (std::isfinite(*share) && *share > 0.0 && *share <= 1.0);
}

bool usable(Bandwidth rate) { return rate > Bandwidth{} && std::isfinite(rate.in(bytes_per_second)); }
bool usable(Time latency) { return latency >= Time::zero() && std::isfinite(latency.in(seconds)); }

Expected<void> check(const Communicator& c, const CollectiveLibrary& library) {
  const auto bad = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  if (c.gpus < 1 || c.nodes < 1) return bad("a communicator needs at least one GPU and one node");
  if (c.gpus % c.nodes != 0) {
    return bad(std::to_string(c.gpus) + " GPUs do not fill " + std::to_string(c.nodes) + " nodes evenly");
  }
  if (c.network_ports < 1) return bad("a node needs at least one network port");
  if (c.gpus_per_node() > 1 && !usable(c.intra)) return bad("the bandwidth between the GPUs of a node is not positive");
  if (c.nodes > 1 && !usable(c.inter)) return bad("the bandwidth of the network is not positive");
  if (c.nodes > 1 && !usable(c.pcie)) return bad("the bandwidth of PCIe is not positive");
  const bool stages = plan::stages_in_host(library.kind);
  if (c.gpus > 1 && stages && !usable(c.pcie)) return bad("the bandwidth of PCIe is not positive");
  const bool kernels = library.kind == CollectiveLibraryKind::kMpiOpt || library.kind == CollectiveLibraryKind::kBaidu;
  if (c.gpus > 1 && kernels && !usable(c.memory)) return bad("the bandwidth of the GPU's memory is not positive");
  if (library.kind == CollectiveLibraryKind::kMpi && library.sums_on == plan::SumsOn::kGpu) {
    return bad("mpi copies to the host and sums there; mpi-opt sums on the GPU");
  }
  if (!usable(c.intra_latency) || !usable(c.inter_latency)) return bad("a latency is negative or not finite");
  if (!within_unit(library.intra_efficiency) || !within_unit(library.inter_efficiency)) {
    return bad("an efficiency must be above 0 and at most 1");
  }
  return {};
}

std::vector<CollectiveLine> lines_of(const Communicator& c, const CollectiveLibrary& library,
                                     primitives::CollectiveOp op) {
  switch (library.kind) {
    case CollectiveLibraryKind::kNccl: return nccl_lines(c, library, op);
    case CollectiveLibraryKind::kGloo: return gloo_lines(c, library, op);
    case CollectiveLibraryKind::kMpi:
    case CollectiveLibraryKind::kMpiOpt:
    case CollectiveLibraryKind::kBaidu: break;
  }
  return mpi_lines(c, library, op);
}

/// Whether the library has the algorithm and protocol for any operation.
bool has_any(const Communicator& c, const CollectiveLibrary& library) {
  return std::any_of(primitives::kAllCollectiveOps.begin(), primitives::kAllCollectiveOps.end(),
                     [&](primitives::CollectiveOp op) { return !lines_of(c, library, op).empty(); });
}

/// What a library could be asked for on this communicator, in reading order.
std::vector<std::string> algorithms_of(const Communicator& c, CollectiveLibrary library) {
  std::vector<std::string> names;
  library.protocol.reset();
  for (const auto& [name, algorithm] : kCollectiveAlgorithms) {
    library.algorithm = algorithm;
    if (has_any(c, library)) names.emplace_back(name);
  }
  return names;
}

}  // namespace

Communicator communicator_of(const hardware::Cluster& cluster) { return communicator_of(cluster, cluster.gpus()); }

Communicator communicator_of(const hardware::Cluster& cluster, std::int64_t gpus) {
  const std::int64_t per_node = std::min(gpus, cluster.gpus_per_node);
  return communicator_over(cluster, gpus / per_node, per_node, cluster.node.peers(per_node), per_node);
}

Communicator communicator_of(const hardware::Cluster& cluster, std::int64_t nodes, std::int64_t per_node) {
  return communicator_over(cluster, nodes, per_node, cluster.node.peers(per_node), per_node);
}

Communicator communicator_of(const hardware::Cluster& cluster, std::int64_t nodes, const PlacedRanks& placed) {
  const hardware::Node& node = cluster.node;
  const std::int64_t span = std::min(placed.count * placed.between, node.gpus);
  const hardware::PeerPath apart = node.peers(span);
  if (placed.between == 1 || placed.count == 1 || apart.by_nvlink()) {
    return communicator_of(cluster, nodes, placed.count);
  }
  Communicator c = communicator_over(cluster, nodes, placed.count, apart, span);
  if (c.fabric == GpuFabric::kPcie && c.crosses_sockets) c.intra = c.intra / static_cast<double>(placed.between);
  return c;
}

Expected<Communicator> communicator_of(const hardware::Cluster& cluster, std::int64_t nodes,
                                       std::span<const std::int64_t> places) {
  if (nodes < 1 || nodes > cluster.nodes) {
    return fail(ErrorCode::kInvalidArgument,
                std::to_string(nodes) + " nodes of a cluster of " + std::to_string(cluster.nodes), {},
                {"valid: 1 to " + std::to_string(cluster.nodes)});
  }
  const auto peers = cluster.node.peers(places);
  if (!peers) return tl::unexpected<Error>(peers.error());
  return communicator_over(cluster, nodes, static_cast<std::int64_t>(places.size()), *peers,
                           static_cast<std::int64_t>(places.size()));
}

NetworkTransport assumed_transport(const hardware::Node& node) {
  const auto& kept = node.network.transport;
  if (kept.get() && !hardware::says_transport(node.network)) return *kept.get();
  const bool module = node.gpu.form != hardware::Form::kPcie;
  const bool recent = node.gpu.nccl_tuning.value_or(GpuGeneration::kPascal) >= GpuGeneration::kHopper;
  return module && recent ? NetworkTransport::kRoce : NetworkTransport::kTcp;
}

Communicator driven_by(Communicator communicator, NetworkTransport transport) {
  if (communicator.transport_assumed) communicator.transport = transport;
  return communicator;
}

double CollectiveLine::doublings(DataSize size) { return portable_log2(1.0 + size.in(bytes) / kGrowthStart); }

Time CollectiveLine::time(DataSize size, double doublings_of_size) const {
  Time sent = per_byte * size.in(bytes);
  if (tree_corrected) sent = sent / tree_correction(protocol, size);
  return latency + sent + growth_per_doubling * doublings_of_size;
}

Expected<CollectiveModel> CollectiveModel::create(const Communicator& communicator, const CollectiveLibrary& library,
                                                  std::shared_ptr<const CollectiveTable> table,
                                                  std::span<const primitives::CollectiveOp> ops) {
  if (auto sound = check(communicator, library); !sound) return tl::unexpected<Error>(sound.error());
  CollectiveModel model;
  model.communicator_ = communicator;
  model.library_ = library;
  model.table_ = std::move(table);
  if (communicator.gpus == 1) return model;
  bool any = false;
  for (const primitives::CollectiveOp op : ops) {
    auto& lines = model.lines_[static_cast<std::size_t>(op)];
    lines = lines_of(communicator, library, op);
    any = any || !lines.empty();
    if (!lines.empty()) continue;
    // A forced algorithm is one of all_reduce, say; the other operations keep the library's choice.
    CollectiveLibrary free = library;
    free.algorithm.reset();
    lines = lines_of(communicator, free, op);
    if (!lines.empty()) continue;
    free.protocol.reset();
    lines = lines_of(communicator, free, op);
  }
  if (any || has_any(communicator, library)) return model;
  return fail(
      ErrorCode::kUnsupported,
      std::string(name_of(kCollectiveLibraries, library.kind.get())) + " has no such algorithm and protocol here", {},
      {"algorithms: " + join(algorithms_of(communicator, library))});
}

CollectiveCost CollectiveModel::cost(primitives::CollectiveOp op, DataSize size) const {
  if (communicator_.gpus == 1) return {};
  if (table_ != nullptr) {
    if (const auto measured = table_->time(op, communicator_.gpus, communicator_.nodes, size)) {
      const DataSize sent = size * ring_volume(op, static_cast<double>(communicator_.gpus));
      const bool inside = communicator_.gpus > communicator_.nodes;
      const WireBytes wire{.intra = inside ? sent : DataSize{}, .inter = communicator_.nodes > 1 ? sent : DataSize{}};
      return {measured->time, CollectiveAlgorithm::kTable, CollectiveProtocol::kNone, measured->provenance, wire};
    }
  }
  const auto [best, time] = cheapest(op, size);
  if (best == nullptr) return {.time = Time::infinity()};
  const WireBytes wire{.intra = size * best->wire_intra, .inter = size * best->wire_inter};
  return {time, best->algorithm, best->protocol, best->provenance, wire};
}

std::pair<const CollectiveLine*, Time> CollectiveModel::cheapest(primitives::CollectiveOp op, DataSize size) const {
  std::pair<const CollectiveLine*, Time> best{nullptr, Time::infinity()};
  std::optional<double> doublings;  // of the size, once a line asks
  for (const CollectiveLine& candidate : candidates(op)) {
    if (!(size > candidate.above && size <= candidate.up_to)) continue;
    if (candidate.growth_per_doubling > Time::zero() && !doublings) doublings = CollectiveLine::doublings(size);
    const Time time = candidate.time(size, doublings.value_or(0.0));
    if (time < best.second) best = {&candidate, time};
  }
  return best;
}

Bandwidth CollectiveModel::bus_bandwidth_limit(primitives::CollectiveOp op) const {
  Bandwidth limit{};
  for (const CollectiveLine& candidate : candidates(op)) {
    if (candidate.up_to < DataSize::infinity()) continue;
    const double share = candidate.tree_corrected ? tree_correction(candidate.protocol, terabytes(1)) : 1.0;
    limit =
        max(limit, bytes(1) / candidate.per_byte * (share * primitives::bus_bandwidth_factor(op, communicator_.gpus)));
  }
  return limit;
}

}  // namespace ddlsim::cost
