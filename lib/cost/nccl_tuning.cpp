#include "nccl_tuning.h"

#include <algorithm>
#include <cmath>

namespace ddlsim::cost {
namespace {

struct Hop {
  PerProtocol tree;
  PerProtocol ring;
};
constexpr Hop kNvlinkHop{{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}};
constexpr Hop kPcieHop{{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}};
constexpr Hop kNetworkHop{{5.0, 8.5, 14.0}, {2.7, 4.0, 14.0}};
constexpr double kNetworkOverhead = 1.0;  // of a step in a ring that has a network hop; three times for Simple

constexpr double kUsualNvlinkHop = 3.4;  // what a link's file says when it says what NCCL does
constexpr double kUsualPcieHop = 5.7;

constexpr std::array<double, 5> kGrowthMicroseconds{0, 0, 18, 8, 8};

/// What calls take above or below the tuner's latencies of LL on NVLink, microseconds: once, and for each local step,
/// of one server's GPUs and of several servers'.
struct WallClock {
  double base = 0;
  double hop_alone = 0;
  double hop = 0;
};
constexpr std::array<WallClock, 5> kWallClock{{{}, {}, {1.1, 1.34, 0.44}, {-1.8, 0.19, 0.19}, {1.1, 0.63, 0.63}}};
constexpr double kFewestChannels = 4;
constexpr double kBridgedChannels = 12;
constexpr std::array<double, 5> kChannelsInside{8, 12, 24, 24, 24};
/// Microseconds per doubling, that large messages take besides between nodes: by EFA; by RDMA from Hopper on.
constexpr double kEfaGrowth = 45.0;
constexpr double kRdmaGrowth = 12.0;

constexpr std::array<double, 24> kCorrectionLl{1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                                               .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1,  1};
constexpr std::array<double, 24> kCorrectionLl128{1,  1,  1,  1,  1,  .9, .8, .8, .8, .7, .6, .6,
                                                  .6, .6, .6, .6, .8, .9, .9, .9, .9, 1,  1,  1};
constexpr std::array<double, 24> kCorrectionSimple{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                                                   .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9};

double nvlink_share(GpuGeneration generation) {
  switch (generation) {
    case GpuGeneration::kPascal: return 18.0 / 20.0;
    case GpuGeneration::kVolta: return 23.1 / 25.0;
    case GpuGeneration::kAmpere: return 20.0 / 25.0;
    case GpuGeneration::kHopper: return 20.6 / 25.0;
    case GpuGeneration::kBlackwell: return 40.1 / 50.0;
  }
  return 0.8;
}

/// Of AMD's xGMI, where CRC and protocol leave 45 to 48 of 64 GB/s, and the slowest of a GPU's links bounds RCCL
/// (rocm.blogs.amd.com, "Understanding RCCL Bandwidth and xGMI Performance on AMD Instinct MI300X", March 2025, whose
/// TransferBench has 45.2 GB/s there; rings of MI300X reach 310 to 330 of 448 GB/s).
constexpr double kXgmiShare = 45.2 / 64;
constexpr double kSocketShare = 10.0 / 15.754;         // between two sockets of PCIe 3.0's day; later ones keep pace
constexpr double kHostMemoryShare = kPcieShare / 2.0;  // in and out again over the host's links (assumed)
constexpr double kInfinibandShare = 12.0 / 12.5;
constexpr double kRoceShare = kInfinibandShare * 0.92;
constexpr double kTcpxShare = 0.71;
constexpr double kOmniPathShare = 0.42;  // of the ports that NCCL drives: one of two
constexpr double kTcpShare = 0.94;

}  // namespace

double nvls_share(GpuGeneration generation) {
  if (generation == GpuGeneration::kHopper) return 0.85;
  return generation == GpuGeneration::kBlackwell ? 0.74 : 0.0;
}

bool by_nvlink(GpuFabric fabric) {
  return fabric == GpuFabric::kNvswitch || fabric == GpuFabric::kNvlinkMesh || fabric == GpuFabric::kNvlinkBridge;
}

double intra_share(const Communicator& c) {
  switch (c.fabric) {
    case GpuFabric::kNvswitch:
    case GpuFabric::kNvlinkMesh:
    case GpuFabric::kNvlinkBridge: return c.tuning_assumed ? kXgmiShare : nvlink_share(c.generation);
    case GpuFabric::kPcie: return c.crosses_sockets ? kSocketShare : kPcieShare;
    case GpuFabric::kHostMemory: return kHostMemoryShare;
  }
  return kPcieShare;
}

Bandwidth transport_rate(const Communicator& c, CollectiveLibraryKind by) {
  const auto ports = static_cast<double>(c.network_ports);
  switch (c.transport) {
    case NetworkTransport::kInfiniband: return c.inter * kInfinibandShare;
    // What TCP reaches on a slow port, RDMA reaches too.
    case NetworkTransport::kRoce: return max(c.inter * kRoceShare, min(c.inter * kTcpShare, kTcpPortLimit * ports));
    case NetworkTransport::kOmniPath:
      if (by != CollectiveLibraryKind::kNccl) return c.inter * kInfinibandShare;
      return c.inter * (kOmniPathShare * std::ceil(ports / 2) / ports);
    case NetworkTransport::kEfa: return c.inter * kRoceShare;
    case NetworkTransport::kTcpx: return c.inter * kTcpxShare;
    case NetworkTransport::kTcp: return min(c.inter * kTcpShare, kTcpPortLimit * (ports * c.transport_speed));
  }
  return c.inter;
}

Time shifted(double usual, Time by) { return max(microseconds(usual) + by, Time::zero()); }

Latencies latencies_of(const Communicator& c, std::size_t p) {
  const bool nvlink = by_nvlink(c.fabric);
  const Hop& hop = nvlink ? kNvlinkHop : kPcieHop;
  const Time intra = c.intra_latency - microseconds(nvlink ? kUsualNvlinkHop : kUsualPcieHop);
  const Time inter = c.inter_latency - microseconds(kUsualNetworkHop) + transport_latency(c);
  Latencies l;
  l.intra_ring = shifted(hop.ring[p], intra);
  l.intra_tree = shifted(hop.tree[p], intra);
  // NCCL takes the tree's network latency for rings of one GPU per node.
  l.inter_ring = shifted(c.gpus == c.nodes ? kNetworkHop.tree[p] : kNetworkHop.ring[p], inter);
  l.inter_tree = shifted(kNetworkHop.tree[p], inter);
  l.overhead = microseconds(kProtocols[p] == Protocol::kSimple ? 3 * kNetworkOverhead : kNetworkOverhead);
  return l;
}

Time wall_clock_of(const Communicator& c, primitives::CollectiveOp op) {
  if (!by_nvlink(c.fabric) || c.gpus_per_node() == 1) return Time::zero();
  const WallClock& measured = kWallClock[static_cast<std::size_t>(c.generation)];
  const double rounds = op == primitives::CollectiveOp::kAllReduce ? 2.0 : 1.0;
  const double hop = c.nodes == 1 ? measured.hop_alone : measured.hop;
  return microseconds(measured.base + hop * rounds * static_cast<double>(c.gpus_per_node() - 1));
}

Time taken_beside(const Communicator& c, const CollectiveLibrary& library, bool narrow) {
  constexpr double kByStaging = 0.8;
  constexpr double kByNetwork = 0.4;
  if (library.kind != CollectiveLibraryKind::kNccl) return Time::zero();
  const EffectiveRates rates = effective_rates(c, library);
  if (c.fabric == GpuFabric::kHostMemory) return bytes(kByStaging) / rates.intra;
  const bool seen = c.nodes > 1 && narrow && !c.tuning_assumed && c.generation < GpuGeneration::kHopper;
  return seen ? bytes(kByNetwork) / rates.inter : Time::zero();
}

Time growth_of(const Communicator& c) {
  double growth = by_nvlink(c.fabric) ? kGrowthMicroseconds[static_cast<std::size_t>(c.generation)] : 0.0;
  if (c.nodes > 1 && c.transport == NetworkTransport::kEfa) growth += kEfaGrowth;
  const bool rdma = c.transport == NetworkTransport::kInfiniband || c.transport == NetworkTransport::kRoce;
  if (c.nodes > 1 && rdma && c.generation >= GpuGeneration::kHopper) growth += kRdmaGrowth;
  return microseconds(growth);
}

double nccl_channels(const Communicator& c) {
  double inside = kFewestChannels;
  if (c.gpus_per_node() > 1 && by_nvlink(c.fabric)) {
    inside = c.fabric == GpuFabric::kNvlinkBridge ? kBridgedChannels
                                                  : kChannelsInside[static_cast<std::size_t>(c.generation)];
  }
  if (c.nodes == 1) return inside;
  const auto cards = static_cast<double>(std::min(c.network_ports, c.gpus_per_node()));
  return std::min(inside, std::max(2 * cards, kFewestChannels));
}

Time transport_latency(const Communicator& c) {
  switch (c.transport) {
    case NetworkTransport::kInfiniband:
    case NetworkTransport::kRoce:
    case NetworkTransport::kOmniPath: return Time::zero();
    case NetworkTransport::kEfa: return microseconds(c.generation >= GpuGeneration::kHopper ? 20 : 75);
    case NetworkTransport::kTcpx:
    case NetworkTransport::kTcp: return microseconds(30);
  }
  return Time::zero();
}

double tree_correction(CollectiveProtocol protocol, DataSize size) {
  const auto& table = protocol == Protocol::kLl      ? kCorrectionLl
                      : protocol == Protocol::kLl128 ? kCorrectionLl128
                                                     : kCorrectionSimple;
  const double units = size.in(bytes) / 64.0;
  if (units <= 1.0) return table.front();
  int exponent = 0;
  const double mantissa = std::frexp(units, &exponent);  // in [0.5, 1): units = 2 mantissa * 2^(exponent-1)
  const auto k = static_cast<std::size_t>(exponent - 1);
  if (k + 1 >= table.size()) return table.back();
  return table[k] + (table[k + 1] - table[k]) * (2.0 * mantissa - 1.0);
}

}  // namespace ddlsim::cost
