#include <fmt/core.h>

#include <algorithm>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/property_map/function_property_map.hpp>
#include <map>
#include <utility>

#include "topology_graph.h"

namespace ddlsim::hardware {
namespace {

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();

/// Kinds are ranked, not weighed: no route has a million links of one kind.
std::int64_t cost_of(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kNvlink:
    case EdgeKind::kPcie:
    case EdgeKind::kNetwork: return 1;
    case EdgeKind::kHostBridge: return std::int64_t{1} << 20;
    case EdgeKind::kSocketLink: return std::int64_t{1} << 40;
  }
  return 1;
}

std::vector<std::size_t> joined(std::vector<std::size_t> a, const std::vector<std::size_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The other direction of a route.
std::vector<std::size_t> reversed(std::vector<std::size_t> path) {
  std::reverse(path.begin(), path.end());
  for (std::size_t& edge : path) edge ^= 1U;
  return path;
}

}  // namespace

std::vector<std::int64_t> Topology::Graph::costs_from(std::size_t vertex) const {
  const Region& place = region(vertex);
  std::vector<std::int64_t> costs(place.members.size(), kFar);
  const auto weight = boost::make_function_property_map<LocalGraph::edge_descriptor>(
      [&](const LocalGraph::edge_descriptor& edge) { return cost_of(edges[place.graph[edge]].kind); });
  boost::dijkstra_shortest_paths(place.graph, local[vertex], boost::weight_map(weight).distance_map(costs.data()));
  return costs;
}

std::vector<std::size_t> Topology::Graph::shortest(Ends ends) const {
  const Region& place = region(ends.from);
  const std::vector<std::int64_t> costs = costs_from(ends.from);
  std::vector<std::size_t> path;
  if (costs[local[ends.to]] == kFar) return path;
  for (std::size_t at = ends.to; at != ends.from;) {
    // Of the ways that cost the same, the one from the vertex that stands first.
    std::size_t best = kNone;
    for (const auto& out : boost::make_iterator_range(boost::out_edges(local[at], place.graph))) {
      const std::size_t edge = place.graph[out] ^ 1U;
      const std::size_t from = edges[edge].ends.from;
      const std::int64_t cost = costs[local[from]];
      if (cost == kFar || cost + cost_of(edges[edge].kind) != costs[local[at]]) continue;
      if (best == kNone || from < edges[best].ends.from) best = edge;
    }
    path.push_back(best);
    at = edges[best].ends.from;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<std::size_t> Topology::Graph::by_nvlink(Ends ends) const {
  const auto link_to = [&](std::size_t from, std::size_t to) {
    const auto& links = nvlinks[from];
    const auto place = std::lower_bound(links.begin(), links.end(), to,
                                        [&](std::size_t edge, std::size_t v) { return edges[edge].ends.to < v; });
    return place != links.end() && edges[*place].ends.to == to ? *place : kNone;
  };
  if (const std::size_t direct = link_to(ends.from, ends.to); direct != kNone) return {direct};
  // Breadth first through NVSwitches.
  std::map<std::size_t, std::size_t> reached;  // switch -> the edge that led there
  std::vector<std::size_t> queue{ends.from};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    if (const std::size_t last = link_to(queue[i], ends.to); last != kNone) {
      std::vector<std::size_t> path{last};
      while (edges[path.back()].ends.from != ends.from) path.push_back(reached.at(edges[path.back()].ends.from));
      std::reverse(path.begin(), path.end());
      return path;
    }
    for (const std::size_t edge : nvlinks[queue[i]]) {
      const std::size_t to = edges[edge].ends.to;
      if (vertices[to].kind == VertexKind::kNvswitch && reached.emplace(to, edge).second) queue.push_back(to);
    }
  }
  for (const std::size_t edge : nvlinks[ends.from]) {
    const std::size_t middle = edges[edge].ends.to;
    if (vertices[middle].kind != VertexKind::kGpu) continue;
    if (const std::size_t last = link_to(middle, ends.to); last != kNone) return {edge, last};
  }
  return {};
}

std::vector<std::size_t> Topology::Graph::by_network(Ends ends) const {
  // A vertex of a server reaches the network by its nearest NIC; a switch is there already.
  const auto way_up = [&](std::size_t vertex) -> std::vector<std::size_t> {
    if (vertices[vertex].server == kNoServer) return {};
    const VertexKind kind = vertices[vertex].kind;
    std::size_t nic = kind == VertexKind::kGpu ? nearest[vertex] : vertex;
    if (kind != VertexKind::kGpu && kind != VertexKind::kNic) {
      const auto costs = costs_from(vertex);
      nic = kNone;
      for (const std::size_t member : region(vertex).members) {
        if (uplink[member] != kNone && (nic == kNone || costs[local[member]] < costs[local[nic]])) nic = member;
      }
    }
    if (nic == kNone || uplink[nic] == kNone) return {};
    return joined(nic == vertex ? std::vector<std::size_t>{} : shortest({vertex, nic}), {uplink[nic]});
  };
  const auto up = way_up(ends.from);
  const auto down = way_up(ends.to);
  const bool from_switch = vertices[ends.from].server == kNoServer;
  const bool to_switch = vertices[ends.to].server == kNoServer;
  if ((up.empty() && !from_switch) || (down.empty() && !to_switch)) return {};
  const std::size_t enter = from_switch ? ends.from : edges[up.back()].ends.to;
  const std::size_t leave = to_switch ? ends.to : edges[down.back()].ends.to;
  const auto between = enter == leave ? std::vector<std::size_t>{} : shortest({enter, leave});
  if (between.empty() && enter != leave) return {};
  return joined(joined(up, between), reversed(down));
}

Route Topology::Graph::describe(Ends ends, std::vector<std::size_t> path) const {
  Route route;
  route.ends = ends;
  std::int64_t bridges = 0;
  std::int64_t switches = 0;
  bool nvlink = false;
  bool through_gpu = false;
  bool socket = false;
  bool socket_link = false;
  bool network_link = false;
  for (const std::size_t i : path) {
    const Edge& edge = edges[i];
    route.bandwidth = min(route.bandwidth, edge.bandwidth);
    route.latency = max(route.latency, edge.latency);
    nvlink = nvlink || edge.kind == EdgeKind::kNvlink;
    socket_link = socket_link || edge.kind == EdgeKind::kSocketLink;
    network_link = network_link || edge.kind == EdgeKind::kNetwork;
    const VertexKind to = vertices[edge.ends.to].kind;
    if (to == VertexKind::kRootComplex) ++bridges;
    if (to == VertexKind::kPcieSwitch) ++switches;
    socket = socket || to == VertexKind::kSocket;
    through_gpu = through_gpu || (to == VertexKind::kGpu && edge.ends.to != ends.to);
  }
  route.edges = std::move(path);
  route.path = route.edges.empty()      ? PathClass::kSelf
               : network_link           ? PathClass::kNet
               : nvlink                 ? (through_gpu ? PathClass::kNvb : PathClass::kNvl)
               : socket_link            ? PathClass::kSys
               : bridges > 1            ? PathClass::kNode
               : bridges == 1 || socket ? PathClass::kPhb
               : switches > 1           ? PathClass::kPxb
                                        : PathClass::kPix;
  return route;
}

Expected<Route> Topology::route(Ends ends) const {
  const Graph& graph = *graph_;
  if (ends.from == ends.to) return graph.describe(ends, {});
  const bool same_server = graph.vertices[ends.from].server == graph.vertices[ends.to].server &&
                           graph.vertices[ends.from].server != kNoServer;
  auto path = same_server ? graph.by_nvlink(ends) : graph.by_network(ends);
  if (path.empty() && same_server) path = graph.shortest(ends);
  if (!path.empty()) return graph.describe(ends, std::move(path));
  return fail(ErrorCode::kInfeasible,
              fmt::format("no route from '{}' to '{}'", graph.vertices[ends.from].id, graph.vertices[ends.to].id), {},
              {"GPUs and NICs pass nothing on"});
}

void Topology::Graph::choose_nics() {
  nearest.assign(vertices.size(), kNone);
  const bool wired = std::any_of(uplink.begin(), uplink.end(), [](std::size_t edge) { return edge != kNone; });
  // A server's GPUs that are equally near to the same NICs take turns, as in NCCL.
  std::map<std::vector<std::size_t>, std::size_t> turns;
  for (const std::size_t gpu : gpus) {
    const auto costs = costs_from(gpu);
    std::vector<std::size_t> best;
    for (const std::size_t nic : region(gpu).members) {
      if (vertices[nic].kind != VertexKind::kNic || (wired && uplink[nic] == kNone)) continue;
      const std::int64_t cost = costs[local[nic]];
      if (!best.empty() && cost > costs[local[best.front()]]) continue;
      if (!best.empty() && cost < costs[local[best.front()]]) best.clear();
      best.push_back(nic);
    }
    if (!best.empty()) nearest[gpu] = best[turns[best]++ % best.size()];
  }
}

std::optional<std::size_t> Topology::nearest_nic(std::size_t gpu) const {
  const std::size_t nic = graph_->nearest[gpu];
  return nic == kNone ? std::nullopt : std::optional(nic);
}

std::vector<NetworkPath> Topology::network_paths() const {
  const Graph& graph = *graph_;
  std::vector<NetworkPath> paths;
  std::vector<Route> routes;
  for (const std::size_t gpu : graph.gpus) {
    const std::size_t nic = graph.nearest[gpu];
    if (nic == kNone) continue;
    auto edges = graph.shortest({gpu, nic});
    const PathClass near = graph.describe({gpu, nic}, edges).path;
    if (graph.uplink[nic] != kNone) edges.push_back(graph.uplink[nic]);
    NetworkPath path{.gpu = gpu, .nic = nic, .route = graph.describe({gpu, nic}, std::move(edges)), .together = {}};
    path.route.path = near;
    routes.push_back(path.route);
    paths.push_back(std::move(path));
  }
  const auto shares = concurrent_bandwidth(routes);
  for (std::size_t i = 0; i < paths.size(); ++i) paths[i].together = shares[i];
  return paths;
}

std::vector<Bandwidth> Topology::concurrent_bandwidth(std::span<const Route> routes) const {
  struct Load {
    double left = 0;
    std::vector<std::size_t> flows;
    std::size_t open = 0;
  };
  std::map<std::size_t, Load> loads;
  for (std::size_t i = 0; i < routes.size(); ++i) {
    for (const std::size_t edge : routes[i].edges) {
      Load& load = loads[edge];
      load.left = graph_->edges[edge].bandwidth.in(bytes_per_second);
      load.flows.push_back(i);
      ++load.open;
    }
  }
  std::vector<Bandwidth> shares(routes.size(), Bandwidth::infinity());
  while (true) {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [edge, load] : loads) {
      if (load.open > 0) least = std::min(least, load.left / static_cast<double>(load.open));
    }
    if (least == std::numeric_limits<double>::infinity()) return shares;
    std::vector<std::size_t> filled;
    for (const auto& [edge, load] : loads) {
      if (load.open == 0 || load.left / static_cast<double>(load.open) > least) continue;
      filled.push_back(edge);
    }
    for (const std::size_t edge : filled) {
      for (const std::size_t flow : loads.at(edge).flows) {
        if (shares[flow] != Bandwidth::infinity()) continue;
        shares[flow] = bytes_per_second(least);
        for (const std::size_t other : routes[flow].edges) {
          Load& load = loads.at(other);
          load.left = std::max(0.0, load.left - least);
          --load.open;
        }
      }
    }
  }
}

}  // namespace ddlsim::hardware
