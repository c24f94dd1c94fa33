#include "ddlsim/hardware/topology.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/graph/connected_components.hpp>
#include <cmath>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "ddlsim/support/names.h"
#include "topology_graph.h"

namespace ddlsim::hardware {
namespace {

constexpr std::size_t kMaxIdLength = 200;

bool is_fabric(VertexKind kind) { return kind == VertexKind::kLeafSwitch || kind == VertexKind::kSpineSwitch; }
bool is_device(VertexKind kind) { return kind == VertexKind::kGpu || kind == VertexKind::kNic; }

/// The kinds a link may join, as it stands or the other way round.
bool may_join(EdgeKind kind, VertexKind a, VertexKind b) {
  const auto is = [&](VertexKind x, VertexKind y) { return (a == x && b == y) || (a == y && b == x); };
  using V = VertexKind;
  switch (kind) {
    case EdgeKind::kNvlink: return is(V::kGpu, V::kGpu) || is(V::kGpu, V::kNvswitch) || is(V::kNvswitch, V::kNvswitch);
    case EdgeKind::kPcie: {
      const auto tree = [](V v) { return v == V::kPcieSwitch || v == V::kRootComplex; };
      const bool in_tree = (tree(a) || is_device(a)) && (tree(b) || is_device(b));
      return in_tree && (tree(a) || tree(b)) && !is(V::kRootComplex, V::kRootComplex);
    }
    case EdgeKind::kHostBridge: return is(V::kRootComplex, V::kSocket);
    case EdgeKind::kSocketLink: return is(V::kSocket, V::kSocket);
    case EdgeKind::kNetwork:
      return (is_fabric(a) || is_fabric(b)) && (is_fabric(a) || a == V::kNic) && (is_fabric(b) || b == V::kNic);
  }
  return false;
}

constexpr std::string_view kMayJoin =
    "nvlink joins GPUs and NVSwitches; pcie joins GPUs, NICs, PCIe switches and root complexes; host-bridge a root "
    "complex and a socket; socket-link two sockets; network NICs and leaf or spine switches";

/// Sets that grow together.
class Sets {
 public:
  explicit Sets(std::size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }
  std::size_t find(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  /// False where both were in one set already.
  bool join(Ends ends) {
    const std::size_t a = find(ends.from);
    const std::size_t b = find(ends.to);
    parent_[std::max(a, b)] = std::min(a, b);
    return a != b;
  }

 private:
  std::vector<std::size_t> parent_;
};

class Checker {
 public:
  explicit Checker(const TopologyParts& parts) : parts_(parts) {}

  Expected<void> check() {
    if (auto sized = check_size(); !sized) return sized;
    if (auto vertices = check_vertices(); !vertices) return vertices;
    if (auto links = check_links(); !links) return links;
    if (auto trees = check_trees(); !trees) return trees;
    if (auto nics = check_nics(); !nics) return nics;
    return check_connected();
  }

 private:
  [[nodiscard]] const Vertex& at(std::size_t i) const { return parts_.vertices[i]; }
  [[nodiscard]] std::string name(std::size_t i) const {
    return fmt::format("{} '{}'", name_of(kVertexKinds, at(i).kind), at(i).id.substr(0, kMaxIdLength));
  }
  [[nodiscard]] std::string name(const DuplexLink& link) const {
    return fmt::format("the {} link of {} and {}", name_of(kEdgeKinds, link.kind), name(link.ends.from),
                       name(link.ends.to));
  }
  static tl::unexpected<Error> wrong(std::string message, std::vector<std::string> notes = {}) {
    return fail(ErrorCode::kInvalidArgument, "topology: " + std::move(message), {}, std::move(notes));
  }

  Expected<void> check_size() const {
    if (parts_.vertices.size() > kMaxTopologyVertices || parts_.links.size() > kMaxTopologyLinks) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("topology: {} vertices and {} links are more than is built ({} and {})",
                              parts_.vertices.size(), parts_.links.size(), kMaxTopologyVertices, kMaxTopologyLinks));
    }
    return {};
  }

  Expected<void> check_vertices() {
    std::unordered_set<std::string_view> ids;
    std::int64_t gpus = 0;
    for (std::size_t i = 0; i < parts_.vertices.size(); ++i) {
      const Vertex& vertex = at(i);
      if (vertex.id.empty()) return wrong(fmt::format("vertex {} has no id", i));
      if (!ids.insert(vertex.id).second) return wrong(name(i) + " stands twice");
      const bool fabric = is_fabric(vertex.kind);
      if (fabric ? vertex.server != kNoServer : vertex.server < 0 || vertex.server >= kMaxTopologyNodes) {
        return wrong(fmt::format("{} stands in server {}", name(i), vertex.server),
                     {fabric ? "leaf and spine switches stand in none (-1)"
                             : fmt::format("valid: 0 to {}", kMaxTopologyNodes - 1)});
      }
      if (vertex.kind == VertexKind::kGpu) ++gpus;
      servers_ = std::max(servers_, vertex.server + 1);
    }
    if (gpus == 0) return wrong("no GPU in it");
    return {};
  }

  Expected<void> check_links() const {
    std::unordered_set<std::uint64_t> pairs;
    for (const DuplexLink& link : parts_.links) {
      const auto [a, b] = link.ends;
      if (std::max(a, b) >= parts_.vertices.size()) return wrong("a link names a vertex that is not there");
      if (a == b) return wrong(name(a) + " is linked to itself");
      if (!may_join(link.kind, at(a).kind, at(b).kind)) {
        return wrong(fmt::format("{} cannot be", name(link)), {std::string(kMayJoin)});
      }
      const double rate = link.bandwidth.in(bytes_per_second);
      if (!std::isfinite(rate) || rate <= 0) {
        return wrong(fmt::format("{} has a bandwidth of {} bytes/s", name(link), rate), {"it takes more than zero"});
      }
      const double latency = link.latency.in(seconds);
      if (!std::isfinite(latency) || latency < 0) {
        return wrong(fmt::format("{} has a latency of {} s", name(link), latency), {"it takes zero or more"});
      }
      if (link.kind != EdgeKind::kNetwork && at(a).server != at(b).server) {
        return wrong(name(link) + " leaves a server", {"only network links do"});
      }
      if (!pairs.insert(static_cast<std::uint64_t>(std::min(a, b)) << 32U | std::max(a, b)).second) {
        return wrong(name(link) + " stands twice", {"give one link with the bandwidth of both"});
      }
    }
    return {};
  }

  /// PCIe is a forest per root complex, and a GPU or NIC hangs on it by one link.
  Expected<void> check_trees() const {
    Sets trees(parts_.vertices.size());
    std::vector<int> plugs(parts_.vertices.size(), 0);
    std::vector<int> wires(parts_.vertices.size(), 0);
    for (const DuplexLink& link : parts_.links) {
      if (link.kind == EdgeKind::kNetwork) {
        for (const std::size_t end : {link.ends.from, link.ends.to}) {
          if (at(end).kind == VertexKind::kNic && ++wires[end] > 1) {
            return wrong(name(end) + " has two network links", {"one vertex per port"});
          }
        }
      }
      if (link.kind != EdgeKind::kPcie && link.kind != EdgeKind::kHostBridge) continue;
      if (!trees.join(link.ends)) {
        return wrong(name(link) + " closes a cycle", {"PCI is a tree: one parent for every device and switch"});
      }
      for (const std::size_t end : {link.ends.from, link.ends.to}) {
        if (is_device(at(end).kind) && ++plugs[end] > 1) return wrong(name(end) + " has two PCIe links");
      }
    }
    return {};
  }

  /// Every server by its PCIe and socket links, then everything.
  Expected<void> check_connected() const {
    Sets inside(parts_.vertices.size());
    boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS> all(parts_.vertices.size());
    for (const DuplexLink& link : parts_.links) {
      boost::add_edge(link.ends.from, link.ends.to, all);
      if (link.kind != EdgeKind::kNetwork && link.kind != EdgeKind::kNvlink) inside.join(link.ends);
    }
    std::vector<std::size_t> first(static_cast<std::size_t>(servers_), kNone);
    for (std::size_t i = 0; i < parts_.vertices.size(); ++i) {
      if (at(i).server == kNoServer || at(i).kind == VertexKind::kNvswitch) continue;
      std::size_t& other = first[static_cast<std::size_t>(at(i).server)];
      if (other == kNone) other = i;
      if (inside.find(i) == inside.find(other)) continue;
      return wrong(fmt::format("disconnected: no PCIe or socket link leads from {} to {}", name(other), name(i)));
    }
    std::vector<std::size_t> component(parts_.vertices.size());
    if (boost::connected_components(all, component.data()) == 1) return {};
    const auto far = std::find_if(component.begin(), component.end(), [&](std::size_t c) { return c != component[0]; });
    return wrong(fmt::format("disconnected: no link leads from {} to {}", name(0),
                             name(static_cast<std::size_t>(far - component.begin()))));
  }

  Expected<void> check_nics() const {
    std::vector<bool> wired(static_cast<std::size_t>(servers_), false);
    for (const DuplexLink& link : parts_.links) {
      if (link.kind != EdgeKind::kNetwork) continue;
      for (const std::size_t end : {link.ends.from, link.ends.to}) {
        if (at(end).server != kNoServer) wired[static_cast<std::size_t>(at(end).server)] = true;
      }
    }
    if (servers_ == 1) return {};
    for (std::size_t i = 0; i < parts_.vertices.size(); ++i) {
      if (at(i).kind != VertexKind::kGpu || wired[static_cast<std::size_t>(at(i).server)]) continue;
      return wrong(fmt::format("{} has no route to a NIC on the network", name(i)),
                   {fmt::format("server {} needs a NIC with a network link", at(i).server)});
    }
    return {};
  }

  const TopologyParts& parts_;
  std::int64_t servers_ = 1;
};

}  // namespace

Expected<Topology> Topology::create(TopologyParts parts) {
  if (auto checked = Checker(parts).check(); !checked) return tl::unexpected<Error>(checked.error());
  auto graph = std::make_shared<Graph>();
  graph->vertices = std::move(parts.vertices);
  graph->edges.reserve(2 * parts.links.size());
  for (const DuplexLink& link : parts.links) {
    graph->edges.push_back({link.ends, link.kind, link.bandwidth, link.latency});
    graph->edges.push_back({{link.ends.to, link.ends.from}, link.kind, link.bandwidth, link.latency});
  }
  graph->index();
  graph->choose_nics();
  return Topology(std::move(graph));
}

void Topology::Graph::index() {
  local.resize(vertices.size());
  nvlinks.resize(vertices.size());
  uplink.assign(vertices.size(), kNone);
  const auto region_of = [&](std::size_t vertex) -> Region& {
    const std::int64_t server = vertices[vertex].server;
    return server == kNoServer ? network : servers[static_cast<std::size_t>(server)];
  };
  for (std::size_t i = 0; i < vertices.size(); ++i) {
    const Vertex& vertex = vertices[i];
    by_id.emplace(vertex.id, i);
    if (vertex.kind == VertexKind::kGpu) gpus.push_back(i);
    if (vertex.kind == VertexKind::kNic) nics.push_back(i);
    if (vertex.server >= static_cast<std::int64_t>(servers.size())) {
      servers.resize(static_cast<std::size_t>(vertex.server) + 1);
    }
    Region& region = region_of(i);
    local[i] = region.members.size();
    region.members.push_back(i);
    boost::add_vertex(region.graph);
  }
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    const auto [from, to] = edge.ends;
    if (edge.kind == EdgeKind::kNvlink) {
      nvlinks[from].push_back(i);
    } else if (vertices[from].server == vertices[to].server) {
      boost::add_edge(local[from], local[to], i, region_of(from).graph);
    } else if (vertices[from].kind == VertexKind::kNic) {
      uplink[from] = i;
    }
  }
  for (auto& links : nvlinks) {
    std::sort(links.begin(), links.end(),
              [&](std::size_t a, std::size_t b) { return edges[a].ends.to < edges[b].ends.to; });
  }
}

std::span<const Vertex> Topology::vertices() const { return graph_->vertices; }
std::span<const Edge> Topology::edges() const { return graph_->edges; }
std::span<const std::size_t> Topology::gpus() const { return graph_->gpus; }
std::span<const std::size_t> Topology::nics() const { return graph_->nics; }
std::int64_t Topology::servers() const { return static_cast<std::int64_t>(graph_->servers.size()); }

std::int64_t Topology::count(VertexKind kind) const {
  return std::count_if(graph_->vertices.begin(), graph_->vertices.end(),
                       [&](const Vertex& vertex) { return vertex.kind == kind; });
}

Expected<std::size_t> Topology::find(std::string_view id) const {
  const auto found = graph_->by_id.find(std::string(id));
  if (found != graph_->by_id.end()) return found->second;
  std::vector<std::string> ids;
  for (const Vertex& vertex : graph_->vertices) ids.push_back(vertex.id);
  return fail(ErrorCode::kNotFound, fmt::format("no vertex '{}' in the topology", id.substr(0, kMaxIdLength)), {},
              {suggestion(id, ids)});
}

}  // namespace ddlsim::hardware
