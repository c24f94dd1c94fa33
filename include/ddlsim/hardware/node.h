// Links, servers, and the cluster a job runs on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddlsim/hardware/gpu.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/units.h"

namespace ddlsim::hardware {

enum class LinkKind { kPcie, kNvlink, kNetwork };

inline constexpr Choices<LinkKind, 3> kLinkKinds{{
    {"pcie", LinkKind::kPcie},
    {"nvlink", LinkKind::kNvlink},
    {"network", LinkKind::kNetwork},
}};

struct Link {
  std::string id;
  std::string name;
  LinkKind kind = LinkKind::kNetwork;
  Bandwidth bandwidth{};  // per direction, full duplex
  Time latency{};         // one hop of a collective, software included
  Sources sources;
  std::string notes;
};

enum class Interconnect { kNvlink, kPcie };

inline constexpr Choices<Interconnect, 2> kInterconnects{{
    {"nvlink", Interconnect::kNvlink},
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

  /// The link that joins the GPUs of this server, and what one GPU can send over it.
  [[nodiscard]] const Link& peer_link() const {
    return gpu_interconnect == Interconnect::kNvlink && nvlink ? *nvlink : pcie;
  }
  /// All ports of the server together, one direction.
  [[nodiscard]] Bandwidth network_bandwidth() const { return network.bandwidth * static_cast<double>(network_ports); }
};

/// Alike servers joined by a network without a bottleneck inside it (full bisection).
struct Cluster {
  Node node;
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;  // used by the job; at most node.gpus

  [[nodiscard]] std::int64_t gpus() const { return nodes * gpus_per_node; }
};

/// Largest cluster the closed forms accept; its products stay far from the limits of 64 bits.
inline constexpr std::int64_t kMaxNodes = 1'000'000'000;
inline constexpr std::int64_t kMaxGpusPerNode = 1024;

}  // namespace ddlsim::hardware
