// Laws of topologies, on random clusters.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "catalog.h"
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

NvlinkMesh random_mesh(std::int64_t gpus, std::int64_t most = 3) {
  NvlinkMeshParts parts{gpus, most * gpus, {}};
  for (std::int64_t i = 0; i < gpus; ++i) {
    for (std::int64_t k = i + 1; k < gpus; ++k) {
      if (const auto links = *rc::gen::inRange<std::int64_t>(0, most + 1); links > 0)
        parts.pairs.push_back({i, k, links});
    }
  }
  return NvlinkMesh::create(std::move(parts)).value();
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
  if (node.gpu_interconnect == Interconnect::kNvlink || *rc::gen::arbitrary<bool>()) {
    node.nvlink = random_link(LinkKind::kNvlink);
    node.nvlink_mesh = random_mesh(node.gpus);
  }
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
    RC_ASSERT(faster->ring()->bandwidth >= ring->bandwidth * (1 - 1e-9));
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

namespace {

/// Links from the GPUs of `inside`, a set of bits, to the others of the mesh's first `used`.
std::int64_t cut(const NvlinkMesh& mesh, std::int64_t used, std::uint32_t inside) {
  std::int64_t links = 0;
  for (std::int64_t i = 0; i < used; ++i) {
    for (std::int64_t k = 0; k < used; ++k) {
      if ((inside >> i & 1U) != 0 && (inside >> k & 1U) == 0) links += mesh.links(i, k);
    }
  }
  return links;
}

void check_cuts(const NvlinkMesh& mesh, std::int64_t used) {
  // Every ring leaves and enters every part of its GPUs at least once.
  for (std::uint32_t inside = 1; inside + 1 < (1U << used); ++inside) {
    RC_ASSERT(mesh.rings(used) <= static_cast<double>(cut(mesh, used, inside)) + 1e-9);
  }
}

/// Of four GPUs with links between every two: the three ways round, each in halves of a link, all combinations.
double most_of_four(const NvlinkMesh& mesh) {
  const auto halves = [&](std::int64_t a, std::int64_t b) { return 2 * mesh.links(a, b); };
  std::int64_t best = 0;
  for (std::int64_t x = 0; x <= halves(0, 1); ++x) {
    for (std::int64_t y = 0; x + y <= halves(0, 1) && y <= halves(0, 2); ++y) {
      for (std::int64_t z = 0; y + z <= halves(0, 2) && x + z <= halves(0, 3); ++z) {
        // x: 0-1-2-3, y: 0-1-3-2, z: 0-2-1-3
        const bool fits = x + z <= halves(1, 2) && y + z <= halves(1, 3) && x + y <= halves(2, 3);
        if (fits) best = std::max(best, x + y + z);
      }
    }
  }
  return static_cast<double>(best);  // halves of a link, twice for the two directions
}

}  // namespace

TEST_CASE("law: rings never need more NVLinks than are there", "[property]") {
  for (const char* id : {"dgx1-v100", "dgx1-p100", "p3.8xlarge", "c4140-4xv100", "hgx-a100-4gpu-40gb", "mi300x-8gpu"}) {
    const Node node = test::catalog().node(id).value();
    for (std::int64_t used = 2; used <= node.gpus; ++used) {
      CHECK(rc::check("cuts", [&] { check_cuts(*node.nvlink_mesh, used); }));
    }
  }
  CHECK(rc::check("cuts of random meshes", [] {
    const auto gpus = *rc::gen::inRange<std::int64_t>(2, 8);
    check_cuts(random_mesh(gpus), gpus);
  }));
}

TEST_CASE("law: rings over three and four GPUs are those of trying everything", "[property]") {
  CHECK(rc::check("brute force", [] {
    const NvlinkMesh mesh = random_mesh(4, 5);
    const std::int64_t narrowest = std::min({mesh.links(0, 1), mesh.links(1, 2), mesh.links(0, 2)});
    if (narrowest > 0) RC_ASSERT(mesh.rings(3) == 2.0 * static_cast<double>(narrowest));
    RC_ASSERT(mesh.rings(2) == static_cast<double>(mesh.links(0, 1)));
    if (mesh.pairs().size() == 6) RC_ASSERT(mesh.rings(4) == most_of_four(mesh));
  }));
}

TEST_CASE("law: one more NVLink between linked GPUs never costs a ring, nor does another numbering", "[property]") {
  CHECK(rc::check("more links", [] {
    const auto gpus = *rc::gen::inRange<std::int64_t>(2, 7);
    const NvlinkMesh mesh = random_mesh(gpus);
    if (mesh.pairs().empty()) return;
    NvlinkMeshParts more{gpus, 1000, {mesh.pairs().begin(), mesh.pairs().end()}};
    more.pairs[*rc::gen::inRange<std::size_t>(0, more.pairs.size())].links += 1;
    RC_ASSERT(NvlinkMesh::create(std::move(more)).value().rings(gpus) >= mesh.rings(gpus) - 1e-9);
    NvlinkMeshParts turned{gpus, 1000, {}};
    for (const auto& [from, to, links] : mesh.pairs())
      turned.pairs.push_back({(from + 1) % gpus, (to + 1) % gpus, links});
    RC_ASSERT(std::abs(NvlinkMesh::create(std::move(turned)).value().rings(gpus) - mesh.rings(gpus)) <= 1e-9);
  }));
}

TEST_CASE("law: what a communicator gets is the ring of its GPUs' topology", "[property]") {
  CHECK(rc::check("one network", [] {
    Case made = random_case();
    made.cluster.nodes = 1;
    const PeerPath peers = made.cluster.node.peers(made.cluster.gpus_per_node);
    if (made.cluster.gpus_per_node < 2 || !peers.by_nvlink()) return;
    const double ring = topology_of_case(made).ring()->bandwidth.in(bytes_per_second);
    RC_ASSERT(std::abs(ring / peers.bandwidth.in(bytes_per_second)-1) <= 1e-9);
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
