// Links, servers, and the cluster a job runs on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddlsim/hardware/gpu.h"
#include "ddlsim/support/choices.h"
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
enum class NetworkTransport : std::uint8_t { kInfiniband, kRoce, kEfa, kTcpx, kTcp };

inline constexpr Choices<NetworkTransport, 5> kNetworkTransports{{
    {"infiniband", NetworkTransport::kInfiniband},
    {"roce", NetworkTransport::kRoce},
    {"efa", NetworkTransport::kEfa},
    {"tcpx", NetworkTransport::kTcpx},
    {"tcp", NetworkTransport::kTcp},
}};

struct Link {
  std::string id;
  std::string name;
  LinkKind kind = LinkKind::kNetwork;
  Stated<std::optional<NetworkTransport>> transport;  // of a network; nothing: nobody says what drives it
  Bandwidth bandwidth{};                      // per direction, full duplex
  Stated<Time> latency = from_datasheet(Time::zero());                             // one hop of a collective, software included
  Sources sources;
  std::string notes;
};

/// What joins the GPUs of a server: NVLink through a switch, NVLink from GPU to GPU, or their PCIe links.
enum class Interconnect { kNvlink, kNvlinkMesh, kPcie };

inline constexpr Choices<Interconnect, 3> kInterconnects{{
    {"nvlink", Interconnect::kNvlink},
    {"nvlink-mesh", Interconnect::kNvlinkMesh},
    {"pcie", Interconnect::kPcie},
}};

/// A server with its parts resolved.
struct Node {
  std::string id;
  std::string name;
  Gpu gpu;
  std::int64_t gpus = 1;
  Interconnect gpu_interconnect = Interconnect::kPcie;
  std::optional<Link> nvlink;     // bandwidth: of one GPU, all its links, one direction
  Link pcie;                      // of one GPU to its switch
  Link host_link;                 // of one switch to the host
  bool host_link_stated = false;  // false: as the GPU's own
  std::int64_t pcie_uplinks = 1;  // host links, shared by all GPUs
  Link network;                   // of one port
  std::int64_t network_ports = 1;
  std::string provider;
  std::optional<PriceRate> price;  // on demand, the whole server
  Sources sources;
  std::string notes;

  [[nodiscard]] bool joined_by_nvlink() const { return gpu_interconnect != Interconnect::kPcie && nvlink.has_value(); }
  /// The link that joins the GPUs of this server.
  [[nodiscard]] const Link& peer_link() const { return joined_by_nvlink() ? *nvlink : pcie; }
  /// What one of `used` GPUs can send to the others, one direction. In a mesh only (used-1)/(gpus-1) of its links lead
  /// to one of them, taking the links to be spread evenly.
  [[nodiscard]] Bandwidth peer_bandwidth(std::int64_t used) const {
    const Bandwidth all = peer_link().bandwidth;
    if (!joined_by_nvlink() || gpu_interconnect != Interconnect::kNvlinkMesh || used <= 1 || gpus <= 1) return all;
    return all * (static_cast<double>(used - 1) / static_cast<double>(gpus - 1));
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
