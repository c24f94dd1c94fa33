// The graph of a cluster: what joins its GPUs to each other and to the network.
//
//   GPU, NIC -- PCIe switch -- (PCIe switch) -- root complex -- socket == socket        GPU -- NVSwitch, GPU -- GPU
//   NIC -- leaf switch -- spine switch -- leaf switch -- NIC
//
// Links are full duplex: each is two directed edges with a bandwidth of their own, and a flow loads one direction only.
//
// Routes, in NCCL's order of preference: inside a server the route with the fewest socket links, then the fewest host
// bridges, PCIe links and NVLinks; ties go to the vertices that stand first. GPUs and NICs pass nothing on, with one
// exception: two GPUs without an NVLink between them go through a third that has one to both (NCCL's NVB) before they
// take PCIe. Between servers: to the GPU's nearest NIC, over the fewest switches, and in by the other's nearest NIC.
// The choice never depends on bandwidth, so that a faster link changes rates and nothing else.
//
// Rates. A route alone reaches its narrowest edge. Flows at the same time share every edge max-min fairly: the edge
// with the least capacity left per flow fills first, its flows keep that rate, the others share what is left
// (Bertsekas and Gallager, Data Networks, section 6.5.2).
//
// The ring. A ring visits every GPU once and every server in one piece. Over several servers, one ring per NIC is
// formed, each entering a server at another GPU. All rings run at one rate r, so
//   rate = rings * min over edges (capacity / flows of all rings on it)
// NCCL splits a collective over as many rings as fit on the NVLinks. Where GPUs are linked to each other those of a
// server are one pool, worth the rings of hardware/nvlink_mesh.h over the links that are there; it is what a
// communicator of the same GPUs has (`Node::peers`). Inside a server the order is the best of the order of GPUs, one of
// direct NVLinks and a greedy nearest-first order. `bandwidth` is what every GPU sends (bus bandwidth in nccl-tests'
// words).
//
// Latency is that of one message, software included (hardware::Link), and the software is paid once whatever the number
// of links: a route's latency is that of its slowest edge, as NCCL takes one latency per hop by the worst link in it.
//
// Sources: path classes and preference: NCCL 2.30 src/graph/{topo.h,paths.cc} and the legend of `nvidia-smi topo -m`;
// socket link: NCCL 2.30 src/graph/topo.h (QPI/UPI: Broadwell 6, Skylake 10, Sapphire Rapids 22, Emerald Rapids 40
// GB/s; AMD 16; POWER9 32; ARM 6).
// Limits: host memory and its bandwidth are not modelled; Intel CPUs' lower rate of GPU-to-GPU traffic through a root
// complex (NCCL divides it by 6/5) is not; one spine vertex stands for a layer of spines with even load; a route takes
// one path (no multipath inside a server).
//
// Worked example: 4 GPUs, two per PCIe switch, all PCIe links 16 GB/s, one host link of 16 GB/s per switch, one socket
// each, 10 GB/s between the sockets. GPU0 to GPU1 is PIX at 16 GB/s, GPU0 to GPU2 is SYS at 10 GB/s. When GPU0 and GPU1
// both send to the other socket each gets 5 GB/s. The ring 0-1-2-3 crosses the socket link once in each direction and
// every PCIe edge once, so it runs at 10 GB/s, and the socket link is what holds it back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/hardware/node.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::hardware {

enum class VertexKind { kGpu, kNic, kPcieSwitch, kRootComplex, kSocket, kNvswitch, kLeafSwitch, kSpineSwitch };

inline constexpr Choices<VertexKind, 8> kVertexKinds{{
    {"gpu", VertexKind::kGpu},
    {"nic", VertexKind::kNic},
    {"pcie-switch", VertexKind::kPcieSwitch},
    {"root-complex", VertexKind::kRootComplex},
    {"socket", VertexKind::kSocket},
    {"nvswitch", VertexKind::kNvswitch},
    {"leaf-switch", VertexKind::kLeafSwitch},
    {"spine-switch", VertexKind::kSpineSwitch},
}};

enum class EdgeKind { kNvlink, kPcie, kHostBridge, kSocketLink, kNetwork };

inline constexpr Choices<EdgeKind, 5> kEdgeKinds{{
    {"nvlink", EdgeKind::kNvlink},
    {"pcie", EdgeKind::kPcie},
    {"host-bridge", EdgeKind::kHostBridge},  // a root complex to its socket
    {"socket-link", EdgeKind::kSocketLink},
    {"network", EdgeKind::kNetwork},
}};

/// How far apart two devices are, nearest first; the names of NCCL and `nvidia-smi topo -m`.
enum class PathClass {
  kSelf,  // X
  kNvl,   // NVLink, directly or through NVSwitch
  kNvb,   // NVLink through one other GPU
  kPix,   // at most one PCIe switch
  kPxb,   // several PCIe switches, no host bridge
  kPhb,   // through one host bridge
  kNode,  // through several host bridges of a socket
  kSys,   // through the link between sockets
  kNet,   // through the network
};

inline constexpr Choices<PathClass, 9> kPathClasses{{
    {"X", PathClass::kSelf},
    {"NVL", PathClass::kNvl},
    {"NVB", PathClass::kNvb},
    {"PIX", PathClass::kPix},
    {"PXB", PathClass::kPxb},
    {"PHB", PathClass::kPhb},
    {"NODE", PathClass::kNode},
    {"SYS", PathClass::kSys},
    {"NET", PathClass::kNet},
}};

/// Of a switch of the network, which stands in no server.
inline constexpr std::int64_t kNoServer = -1;

struct Vertex {
  std::string id;
  VertexKind kind = VertexKind::kGpu;
  std::int64_t server = 0;  // from 0; kNoServer for leaf and spine switches
};

/// Two vertices of a topology, by index.
struct Ends {
  std::size_t from = 0;
  std::size_t to = 0;

  friend bool operator==(const Ends&, const Ends&) = default;
};

/// A full-duplex link: `bandwidth` in each direction.
struct DuplexLink {
  Ends ends;
  EdgeKind kind = EdgeKind::kPcie;
  Bandwidth bandwidth{};
  Time latency{};
};

/// One direction of a link. Link i is edges 2i (from its `from`) and 2i+1.
struct Edge {
  Ends ends;
  EdgeKind kind = EdgeKind::kPcie;
  Bandwidth bandwidth{};
  Time latency{};
};

struct Route {
  Ends ends;
  std::vector<std::size_t> edges;  // in order
  PathClass path = PathClass::kSelf;
  Bandwidth bandwidth = Bandwidth::infinity();  // of its narrowest edge; infinite without any
  Time latency{};
};

/// A GPU's way to the network: to its nearest NIC and, where the NIC is on a switch, onto the wire.
struct NetworkPath {
  std::size_t gpu = 0;
  std::size_t nic = 0;
  Route route;
  Bandwidth together{};  // when every GPU sends; `route.bandwidth` is alone
};

struct Ring {
  std::vector<std::size_t> order;
  std::vector<Route> hops;          // of the first ring: from order[i] to the next
  std::int64_t rings = 1;           // at the same time, one per NIC
  Bandwidth bandwidth{};            // what every GPU sends, all rings together
  std::optional<std::size_t> edge;  // what holds it back; none: the NVLinks between GPUs, all together
  std::int64_t flows = 0;           // of all rings, on that edge
  Time latency{};                   // of the slowest hop
};

/// What `Topology::create` checks.
struct TopologyParts {
  std::vector<Vertex> vertices;
  std::vector<DuplexLink> links;
};

/// Most vertices and links of one topology.
inline constexpr std::size_t kMaxTopologyVertices = std::size_t{1} << 17;
inline constexpr std::size_t kMaxTopologyLinks = std::size_t{1} << 20;

/// A checked graph: connected, ids unique, at least one GPU, every rate positive and finite, the PCIe links of a server
/// free of cycles, a link inside one server unless it is of the network, and with several servers a NIC in reach of
/// every GPU. Immutable and cheap to copy; vertices and edges are named by index, and an index that a function takes
/// must be one of this topology's.
class Topology {
 public:
  [[nodiscard]] static Expected<Topology> create(TopologyParts parts);

  [[nodiscard]] std::span<const Vertex> vertices() const;
  [[nodiscard]] std::span<const Edge> edges() const;
  /// In the order of vertices.
  [[nodiscard]] std::span<const std::size_t> gpus() const;
  [[nodiscard]] std::span<const std::size_t> nics() const;
  [[nodiscard]] std::int64_t servers() const;
  [[nodiscard]] std::int64_t count(VertexKind kind) const;
  /// A vertex by its id. Errors: kNotFound with the nearest ids.
  [[nodiscard]] Expected<std::size_t> find(std::string_view id) const;

  /// The route between two vertices. Errors: kInfeasible where nothing may pass (a GPU stands between them).
  [[nodiscard]] Expected<Route> route(Ends ends) const;
  /// The NIC of the same server that is nearest to a GPU; GPUs that are equally near to several take turns.
  [[nodiscard]] std::optional<std::size_t> nearest_nic(std::size_t gpu) const;
  /// Of every GPU that reaches a NIC, with the GPUs of all servers sending at once.
  [[nodiscard]] std::vector<NetworkPath> network_paths() const;
  /// What each of these routes gets when all are in use at once.
  [[nodiscard]] std::vector<Bandwidth> concurrent_bandwidth(std::span<const Route> routes) const;
  /// The ring over all GPUs; none over a single one.
  [[nodiscard]] std::optional<Ring> ring() const;

 private:
  struct Graph;
  explicit Topology(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {}

  std::shared_ptr<const Graph> graph_;
};

/// The switches between servers: leaves, and a layer of spines where there are several.
struct FabricShape {
  std::int64_t nodes_per_leaf = 0;  // 0: one leaf for all
  double oversubscription = 1.0;    // what a leaf takes in from its servers over what it passes up; at least 1
};

/// What a node file does not say.
struct TopologyOptions {
  Bandwidth socket_link = gigabytes_per_second(10);  // NCCL's rate of Intel Skylake's UPI
  FabricShape fabric;
  std::vector<std::int64_t> gpus;  // used in each server, by their places in it; empty: the first gpus_per_node
};

/// Most servers a topology is built of.
inline constexpr std::int64_t kMaxTopologyNodes = 4096;

/// The graph of a cluster. GPUs and NICs are spread over the PCIe switches in order, one switch per `pcie_uplinks` with
/// a host link of its own; two sockets with a root complex each where there are two or more switches; NVLink through
/// one NVSwitch vertex, or between the pairs of `Node::nvlink_mesh`; NICs on leaf switches. Of a server's GPUs only
/// those the job uses are built. A NIC's slot is no narrower than its port. The link from a root
/// complex to its socket carries all its host links. GPUs of the first server stand first.
[[nodiscard]] Expected<Topology> topology_of(const Cluster& cluster, const TopologyOptions& options = {});

}  // namespace ddlsim::hardware
