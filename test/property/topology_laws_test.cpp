// Laws of topologies, on random clusters.
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "ddlsim/hardware/topology.h"

using namespace ddlsim;
using namespace ddlsim::hardware;

namespace {

double positive() { return std::exp(*rc::gen::inRange(-3000, 5000) / 1000.0); }

Link random_link(LinkKind kind) {
  Link link;
  link.kind = kind;
  link.bandwidth = gigabytes_per_second(positive());
  link.latency = microseconds(positive());
  return link;
}

struct Case {
  Cluster cluster;
  TopologyOptions options;
};

Case random_case() {
  Case made;
  Node& node = made.cluster.node;
  node.gpus = *rc::gen::inRange<std::int64_t>(1, 10);
  node.gpu_interconnect = (*rc::gen::elementOf(kInterconnects)).second;
  if (node.gpu_interconnect != Interconnect::kPcie) node.nvlink = random_link(LinkKind::kNvlink);
  node.pcie = random_link(LinkKind::kPcie);
  node.host_link = random_link(LinkKind::kPcie);
  node.pcie_uplinks = *rc::gen::inRange<std::int64_t>(1, 6);
  node.network = random_link(LinkKind::kNetwork);
  node.network_ports = *rc::gen::inRange<std::int64_t>(1, 6);
  made.cluster.nodes = *rc::gen::inRange<std::int64_t>(1, 6);
  made.cluster.gpus_per_node = *rc::gen::inRange<std::int64_t>(1, node.gpus + 1);
  made.options.socket_link = gigabytes_per_second(positive());
  made.options.fabric.nodes_per_leaf = *rc::gen::inRange<std::int64_t>(0, 4);
  made.options.fabric.oversubscription = 1.0 + positive();
  return made;
}

Topology topology_of_case(const Case& made) {
  const auto topology = topology_of(made.cluster, made.options);
  RC_ASSERT(topology.has_value());
  return *topology;
}

Ends random_pair(const Topology& topology) {
  return {*rc::gen::elementOf(std::vector<std::size_t>(topology.gpus().begin(), topology.gpus().end())),
          *rc::gen::elementOf(std::vector<std::size_t>(topology.gpus().begin(), topology.gpus().end()))};
}

/// The parts a topology was made of.
TopologyParts parts_of(const Topology& topology) {
  TopologyParts parts;
  parts.vertices.assign(topology.vertices().begin(), topology.vertices().end());
  for (std::size_t i = 0; i < topology.edges().size(); i += 2) {
    const Edge& edge = topology.edges()[i];
    parts.links.push_back({edge.ends, edge.kind, edge.bandwidth, edge.latency});
  }
  return parts;
}

}  // namespace

TEST_CASE("law: every two GPUs of a cluster have a route, no wider than any edge on it", "[property]") {
  CHECK(rc::check("routes", [] {
    const Topology topology = topology_of_case(random_case());
    const Ends ends = random_pair(topology);
    const auto route = topology.route(ends);
    RC_ASSERT(route.has_value());
    RC_ASSERT((route->path == PathClass::kSelf) == (ends.from == ends.to));
    std::size_t at = ends.from;
    for (const std::size_t i : route->edges) {
      const Edge& edge = topology.edges()[i];
      RC_ASSERT(edge.ends.from == at);
      RC_ASSERT(route->bandwidth <= edge.bandwidth);
      RC_ASSERT(route->latency >= edge.latency);
      at = edge.ends.to;
    }
    RC_ASSERT(at == ends.to);
    const auto back = topology.route({ends.to, ends.from});
    RC_ASSERT(back.has_value());
    RC_ASSERT(back->path == route->path);
    RC_ASSERT(back->bandwidth == route->bandwidth);
  }));
}

TEST_CASE("law: shares fit every edge, and every flow has a full edge where nobody gets more", "[property]") {
  CHECK(rc::check("max-min", [] {
    const Topology topology = topology_of_case(random_case());
    std::vector<Route> routes;
    const int flows = *rc::gen::inRange(1, 12);
    for (int i = 0; i < flows; ++i) routes.push_back(topology.route(random_pair(topology)).value());
    const auto shares = topology.concurrent_bandwidth(routes);
    std::map<std::size_t, double> used;
    std::map<std::size_t, double> most;
    for (std::size_t i = 0; i < routes.size(); ++i) {
      for (const std::size_t edge : routes[i].edges) {
        used[edge] += shares[i].in(bytes_per_second);
        most[edge] = std::max(most[edge], shares[i].in(bytes_per_second));
      }
    }
    for (const auto& [edge, sum] : used) {
      RC_ASSERT(sum <= topology.edges()[edge].bandwidth.in(bytes_per_second) * (1 + 1e-9));
    }
    for (std::size_t i = 0; i < routes.size(); ++i) {
      if (routes[i].edges.empty()) continue;
      bool held = false;
      for (const std::size_t edge : routes[i].edges) {
        const bool full = used[edge] >= topology.edges()[edge].bandwidth.in(bytes_per_second) * (1 - 1e-9);
        held = held || (full && shares[i].in(bytes_per_second) >= most[edge] * (1 - 1e-9));
      }
      RC_ASSERT(held);
    }
  }));
}

TEST_CASE("law: a faster link never slows the ring", "[property]") {
  CHECK(rc::check("ring", [] {
    const Topology topology = topology_of_case(random_case());
    const auto ring = topology.ring();
    RC_ASSERT(ring.has_value() == (topology.gpus().size() > 1));
    if (!ring) return;
    TopologyParts parts = parts_of(topology);
    DuplexLink& link = parts.links[*rc::gen::inRange<std::size_t>(0, parts.links.size())];
    link.bandwidth = link.bandwidth * (1.0 + positive());
    const auto faster = Topology::create(std::move(parts));
    RC_ASSERT(faster.has_value());
    RC_ASSERT(faster->ring()->bandwidth >= ring->bandwidth);
  }));
}

TEST_CASE("law: a ring visits every GPU once, over routes that follow each other", "[property]") {
  CHECK(rc::check("ring", [] {
    const Topology topology = topology_of_case(random_case());
    const auto ring = topology.ring();
    if (!ring) return;
    std::vector<std::size_t> sorted = ring->order;
    std::sort(sorted.begin(), sorted.end());
    RC_ASSERT(sorted == std::vector<std::size_t>(topology.gpus().begin(), topology.gpus().end()));
    RC_ASSERT(ring->hops.size() == ring->order.size());
    for (std::size_t i = 0; i < ring->hops.size(); ++i) {
      RC_ASSERT(ring->hops[i].ends.from == ring->order[i]);
      RC_ASSERT(ring->hops[i].ends.to == ring->order[(i + 1) % ring->order.size()]);
    }
    if (ring->edge) {
      const double share = topology.edges()[*ring->edge].bandwidth.in(bytes_per_second) *
                           static_cast<double>(ring->rings) / static_cast<double>(ring->flows);
      RC_ASSERT(std::abs(ring->bandwidth.in(bytes_per_second)-share) <= 1e-9 * share);
    }
  }));
}

TEST_CASE("law: twice every rate is twice the ring and twice every share", "[property]") {
  CHECK(rc::check("scale", [] {
    const Topology topology = topology_of_case(random_case());
    TopologyParts parts = parts_of(topology);
    for (DuplexLink& link : parts.links) link.bandwidth = link.bandwidth * 2.0;
    const auto twice = Topology::create(std::move(parts)).value();
    const auto ring = topology.ring();
    if (ring) RC_ASSERT(twice.ring()->bandwidth == ring->bandwidth * 2.0);
    const auto paths = topology.network_paths();
    const auto faster = twice.network_paths();
    RC_ASSERT(paths.size() == topology.gpus().size());
    for (std::size_t i = 0; i < paths.size(); ++i) {
      RC_ASSERT(faster[i].together == paths[i].together * 2.0);
      RC_ASSERT(paths[i].together <= paths[i].route.bandwidth);
    }
  }));
}
