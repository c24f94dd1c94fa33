#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ddlsim/hardware/topology.h"

namespace ddlsim::hardware {
namespace {

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

class Builder {
 public:
  Builder(const Cluster& cluster, const TopologyOptions& options)
      : cluster_(cluster), options_(options), places_(options.gpus) {
    for (std::int64_t i = 0; options.gpus.empty() && i < cluster.gpus_per_node; ++i) places_.push_back(i);
  }

  TopologyParts build() {
    const std::int64_t per_leaf = options_.fabric.nodes_per_leaf == 0 ? cluster_.nodes : options_.fabric.nodes_per_leaf;
    const std::int64_t leaves = (cluster_.nodes + per_leaf - 1) / per_leaf;
    for (std::int64_t server = 0; server < cluster_.nodes; ++server) add_server(server);
    std::vector<std::size_t> leaf;
    for (std::int64_t i = 0; i < leaves; ++i) {
      leaf.push_back(add(fmt::format("leaf{}", i), VertexKind::kLeafSwitch, kNoServer));
    }
    for (const std::size_t nic : nics_) {
      const std::int64_t server = parts_.vertices[nic].server;
      link({nic, leaf[size(server / per_leaf)]}, EdgeKind::kNetwork, cluster_.node.network.bandwidth,
           cluster_.node.network.latency);
    }
    if (leaves == 1) return std::move(parts_);
    const std::size_t spine = add("spine", VertexKind::kSpineSwitch, kNoServer);
    for (std::int64_t i = 0; i < leaves; ++i) {
      const auto servers = static_cast<double>(std::min(per_leaf, cluster_.nodes - i * per_leaf));
      const Bandwidth up = cluster_.node.network_bandwidth() * (servers / options_.fabric.oversubscription);
      link({leaf[size(i)], spine}, EdgeKind::kNetwork, up, cluster_.node.network.latency);
    }
    return std::move(parts_);
  }

 private:
  std::size_t add(std::string id, VertexKind kind, std::int64_t server) {
    if (server != kNoServer && cluster_.nodes > 1) id = fmt::format("node{}/{}", server, id);
    parts_.vertices.push_back({std::move(id), kind, server});
    return parts_.vertices.size() - 1;
  }
  void link(Ends ends, EdgeKind kind, Bandwidth bandwidth, Time latency) {
    parts_.links.push_back({ends, kind, bandwidth, latency});
  }

  void add_server(std::int64_t server) {
    const Node& node = cluster_.node;
    const std::int64_t switches = node.pcie_uplinks;
    std::vector<std::size_t> gpus;
    std::vector<std::size_t> nics;
    std::vector<std::size_t> pcie;
    for (const std::int64_t place : places_) {
      gpus.push_back(add(fmt::format("GPU{}", place), VertexKind::kGpu, server));
    }
    for (std::int64_t i = 0; i < node.network_ports; ++i) {
      nics.push_back(add(fmt::format("NIC{}", i), VertexKind::kNic, server));
    }
    for (std::int64_t i = 0; i < switches; ++i) {
      pcie.push_back(add(fmt::format("PCIe{}", i), VertexKind::kPcieSwitch, server));
    }
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const std::int64_t at = node.switch_of(places_[i]);
      link({gpus[i], pcie[size(at)]}, EdgeKind::kPcie, node.pcie.bandwidth, node.pcie.latency);
    }
    for (std::size_t i = 0; i < nics.size(); ++i) {
      const std::int64_t at = node.switch_of_port(static_cast<std::int64_t>(i));
      link({nics[i], pcie[size(at)]}, EdgeKind::kPcie, max(node.pcie.bandwidth, node.network.bandwidth),
           node.pcie.latency);
      nics_.push_back(nics[i]);
    }
    add_sockets(server, pcie);
    if (node.nvlink && gpus.size() > 1) add_nvlink(server, gpus);
  }

  void add_sockets(std::int64_t server, const std::vector<std::size_t>& pcie) {
    const Node& node = cluster_.node;
    const std::size_t sockets = pcie.size() >= 2 ? 2 : 1;
    std::vector<std::size_t> ends;
    for (std::size_t k = 0; k < sockets; ++k) {
      const std::size_t root = add(fmt::format("root{}", k), VertexKind::kRootComplex, server);
      ends.push_back(add(fmt::format("socket{}", k), VertexKind::kSocket, server));
      double links = 0;
      for (std::size_t i = 0; i < pcie.size(); ++i) {
        if (i * sockets / pcie.size() != k) continue;
        link({pcie[i], root}, EdgeKind::kPcie, node.host_link.bandwidth, node.host_link.latency);
        ++links;
      }
      link({root, ends.back()}, EdgeKind::kHostBridge, node.host_link.bandwidth * links, node.host_link.latency);
    }
    if (sockets == 2) {
      link({ends[0], ends[1]}, EdgeKind::kSocketLink, options_.socket_link, node.host_link.latency);
    }
  }

  void add_nvlink(std::int64_t server, const std::vector<std::size_t>& gpus) {
    const Link& nvlink = *cluster_.node.nvlink;
    if (cluster_.node.gpu_interconnect != Interconnect::kNvlink) {
      const auto& mesh = cluster_.node.nvlink_mesh;
      for (std::size_t i = 0; mesh && i < gpus.size(); ++i) {
        for (std::size_t k = i + 1; k < gpus.size(); ++k) {
          const std::int64_t links = mesh->links(places_[i], places_[k]);
          if (links == 0) continue;
          const Bandwidth bandwidth =
              nvlink.bandwidth * static_cast<double>(links) / static_cast<double>(mesh->links_per_gpu());
          link({gpus[i], gpus[k]}, EdgeKind::kNvlink, bandwidth, nvlink.latency);
        }
      }
      return;
    }
    const std::size_t hub = add("NVSwitch", VertexKind::kNvswitch, server);
    for (const std::size_t gpu : gpus) link({gpu, hub}, EdgeKind::kNvlink, nvlink.bandwidth, nvlink.latency);
  }

  const Cluster& cluster_;
  const TopologyOptions& options_;
  std::vector<std::int64_t> places_;  // of the GPUs of a server
  TopologyParts parts_;
  std::vector<std::size_t> nics_;  // of all servers
};

struct Bound {
  std::string_view what;
  std::int64_t value = 0;
  std::int64_t lowest = 1;
  std::int64_t highest = 1;
};

Expected<void> check_counts(const Cluster& cluster, const TopologyOptions& options) {
  const Node& node = cluster.node;
  for (const Bound& bound :
       {Bound{"nodes", cluster.nodes, 1, kMaxTopologyNodes}, Bound{"GPUs in a server", node.gpus, 1, kMaxGpusPerNode},
        Bound{"GPUs used in a server", cluster.gpus_per_node, 1, node.gpus},
        Bound{"PCIe uplinks", node.pcie_uplinks, 1, kMaxGpusPerNode},
        Bound{"network ports", node.network_ports, 1, kMaxGpusPerNode},
        Bound{"nodes on a leaf switch", options.fabric.nodes_per_leaf, 0, kMaxNodes}}) {
    if (bound.value >= bound.lowest && bound.value <= bound.highest) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("topology: {} {}", bound.value, bound.what), {},
                {fmt::format("valid: {} to {}", bound.lowest, bound.highest)});
  }
  if (!std::isfinite(options.fabric.oversubscription) || options.fabric.oversubscription < 1.0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("topology: an oversubscription of {}", options.fabric.oversubscription), {},
                {"valid: 1 (full bisection) or more"});
  }
  return {};
}

/// Counted before it is built, so that a huge request costs nothing.
Expected<void> check_size(const Cluster& cluster, std::int64_t gpus) {
  const Node& node = cluster.node;
  // Two sockets and root complexes, an NVSwitch, a leaf.
  const std::int64_t vertices = gpus + node.network_ports + node.pcie_uplinks + 6;
  const std::int64_t nvlinks = node.nvlink_mesh ? static_cast<std::int64_t>(node.nvlink_mesh->pairs().size()) : gpus;
  const std::int64_t links = vertices + node.network_ports + nvlinks;
  if (size(cluster.nodes * vertices) <= kMaxTopologyVertices && size(cluster.nodes * links) <= kMaxTopologyLinks) {
    return {};
  }
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("topology: {} nodes of {} vertices and {} links are more than is drawn", cluster.nodes, vertices,
                  links),
      {},
      {fmt::format("at most {} vertices and {} links; ask for fewer nodes", kMaxTopologyVertices, kMaxTopologyLinks)});
}

}  // namespace

Expected<Topology> topology_of(const Cluster& cluster, const TopologyOptions& options) {
  if (auto counts = check_counts(cluster, options); !counts) return tl::unexpected<Error>(counts.error());
  if (!options.gpus.empty()) {
    if (auto there = cluster.node.peers(options.gpus); !there) return tl::unexpected<Error>(there.error());
  }
  const std::int64_t gpus =
      options.gpus.empty() ? cluster.gpus_per_node : static_cast<std::int64_t>(options.gpus.size());
  if (auto sized = check_size(cluster, gpus); !sized) return tl::unexpected<Error>(sized.error());
  return Topology::create(Builder(cluster, options).build());
}

}  // namespace ddlsim::hardware
