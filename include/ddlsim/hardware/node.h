// Links, servers, and the cluster a job runs on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ddlsim/hardware/gpu.h"
#include "ddlsim/hardware/host.h"
#include "ddlsim/hardware/nvlink_mesh.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/stated.h"
#include "ddlsim/support/units.h"

namespace ddlsim::hardware {

enum class LinkKind { kPcie, kNvlink, kNetwork };

inline constexpr Choices<LinkKind, 3> kLinkKinds{{
    {"pcie", LinkKind::kPcie},
    {"nvlink", LinkKind::kNvlink},
    {"network", LinkKind::kNetwork},
}};

/// What the network's software makes of its wire.
enum class NetworkTransport : std::uint8_t { kInfiniband, kRoce, kOmniPath, kEfa, kTcpx, kTcp };

inline constexpr Choices<NetworkTransport, 6> kNetworkTransports{{
    {"infiniband", NetworkTransport::kInfiniband},
    {"roce", NetworkTransport::kRoce},
    {"omni-path", NetworkTransport::kOmniPath},
    {"efa", NetworkTransport::kEfa},
    {"tcpx", NetworkTransport::kTcpx},
    {"tcp", NetworkTransport::kTcp},
}};

struct Link {
  std::string id;
  std::string name;
  LinkKind kind = LinkKind::kNetwork;
  Stated<std::optional<NetworkTransport>> transport;    // of a network; nothing, or by default: nobody says it
  Bandwidth bandwidth{};                                // per direction, full duplex
  Stated<Time> latency = from_datasheet(Time::zero());  // one hop of a collective, software included
  Sources sources;
  std::string notes;
};

/// Whether somebody says what drives a network; a default that is set is an assumption kept from elsewhere.
[[nodiscard]] constexpr bool says_transport(const Link& network) {
  return network.transport->has_value() && network.transport.origin() != Origin::kDefault;
}

/// What joins the GPUs of a server: NVLink through a switch, NVLink from GPU to GPU (`Node::nvlink_mesh`), or their
/// PCIe links, with NVLink bridges between some pairs of them where `Node::nvlink_mesh` has any.
enum class Interconnect { kNvlink, kNvlinkMesh, kPcie };

inline constexpr Choices<Interconnect, 3> kInterconnects{{
    {"nvlink", Interconnect::kNvlink},
    {"nvlink-mesh", Interconnect::kNvlinkMesh},
    {"pcie", Interconnect::kPcie},
}};

/// How some GPUs of a server reach each other.
struct PeerPath {
  Interconnect by = Interconnect::kPcie;  // the slowest hop of their rings
  Bandwidth bandwidth{};                  // what each sends to the others, one direction, all its rings
  Time latency{};                         // of one hop
  bool crosses_switches = false;          // they hang on several host links
  bool through_host = false;              // over PCIe, and they meet in the host's memory

  [[nodiscard]] bool by_nvlink() const { return by != Interconnect::kPcie; }
};

/// What a cloud asks for a server by the hour, in one region on one day.
struct Tariff {
  std::string provider;
  std::string region;
  std::string date;               // "2026-01-21", "2023-06" or "2024"
  std::optional<PriceRate> spot;  // on demand: Node::price
};

/// A server with its parts resolved.
struct Node {
  std::string id;
  std::string name;
  Gpu gpu;
  std::int64_t gpus = 1;
  Stated<Interconnect> gpu_interconnect = by_default(Interconnect::kPcie);
  std::optional<Link> nvlink;  // bandwidth: of one GPU, all its links, one direction
  // Without a switch: the links of each pair, each worth 1/links_per_gpu of `nvlink`.
  std::optional<NvlinkMesh> nvlink_mesh;
  Link pcie;                      // of one GPU to its switch
  Link host_link;                 // of one switch to the host
  bool host_link_stated = false;  // false: as the GPU's own
  std::int64_t pcie_uplinks = 1;  // host links, shared by all GPUs
  /// Over PCIe, where the GPU can: no in virtual machines that hide the switches, in which libraries stage in the host.
  Stated<bool> peer_to_peer = by_default(true);
  Link network;  // of one port
  std::int64_t network_ports = 1;
  /// Of one port, where the link's rate lasts minutes ("up to 25 Gb/s"), and what lasts is less. A run whose length is
  /// stated has it as its `network.bandwidth`, and the other as `network_burst`.
  std::optional<Bandwidth> network_sustained;
  std::optional<Bandwidth> network_burst;
  Host host;  // beside the GPUs
  Tariff tariff;
  std::optional<PriceRate> price;  // of the whole server: on demand, or as somebody stated
  Sources sources;
  std::string notes;

  /// The rate that lasts instead of what a port reaches for minutes, which becomes `network_burst`.
  void sustain_network();
  /// Takes that back.
  void burst_network();
  /// All GPUs of the server. A mesh or bridges join them if rings over all of them fit on NVLinks.
  [[nodiscard]] bool joined_by_nvlink() const { return peers(gpus).by_nvlink(); }
  /// The first `used` GPUs of the server. One GPU alone is told as the whole server.
  [[nodiscard]] PeerPath peers(std::int64_t used) const;
  /// Some GPUs, by their places in the server. Errors: kInvalidArgument for none, one the server does not have, and one
  /// that stands twice.
  [[nodiscard]] Expected<PeerPath> peers(std::span<const std::int64_t> places) const;
  /// The PCIe switch (one per host link) on which a GPU hangs: the GPUs are spread over the switches in order.
  [[nodiscard]] std::int64_t switch_of(std::int64_t place) const { return place * pcie_uplinks / gpus; }
  /// Of the first `used` GPUs, those that share the fullest host link.
  [[nodiscard]] std::int64_t most_on_one_uplink(std::int64_t used) const {
    return (used + pcie_uplinks - 1) / pcie_uplinks;
  }
  /// Likewise of a network port.
  [[nodiscard]] std::int64_t switch_of_port(std::int64_t port) const { return port * pcie_uplinks / network_ports; }
  /// Of its network ports, those near `used` of its GPUs: each has its share of them, or one that it shares. NCCL gives
  /// a GPU no others (on GH200 servers each superchip has its own).
  [[nodiscard]] std::int64_t ports_near(std::int64_t used) const {
    return std::min(network_ports, used * std::max<std::int64_t>(1, network_ports / gpus));
  }
  /// All ports of the server together, one direction.
  [[nodiscard]] Bandwidth network_bandwidth() const { return network.bandwidth * static_cast<double>(network_ports); }
};

/// Alike servers joined by a leaf and spine network.
struct Cluster {
  Node node;
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;  // used by the job; at most node.gpus
  /// What the servers of a leaf may send over what its links to the spine carry; 1: full bisection. A job is taken to
  /// cross the spine with everything it sends between servers, which is so when its servers are on different leaves.
  double oversubscription = 1;

  /// Of one server to the others, one direction.
  [[nodiscard]] Bandwidth network_bandwidth() const { return node.network_bandwidth() / oversubscription; }

  [[nodiscard]] std::int64_t gpus() const { return nodes * gpus_per_node; }
};

/// Largest cluster the closed forms accept; its products stay far from the limits of 64 bits.
inline constexpr std::int64_t kMaxNodes = 1'000'000'000;
inline constexpr std::int64_t kMaxGpusPerNode = 1024;

}  // namespace ddlsim::hardware
