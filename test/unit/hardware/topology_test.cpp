#include "ddlsim/hardware/topology.h"

#include <catch2/catch.hpp>
#include <limits>

#include "catalog.h"

using namespace ddlsim;
using namespace ddlsim::hardware;
using Catch::Matchers::Contains;

namespace {

/// The header's worked example, with a NIC on every switch and a leaf.
TopologyParts example() {
  TopologyParts parts;
  for (const char* gpu : {"GPU0", "GPU1", "GPU2", "GPU3"}) parts.vertices.push_back({gpu, VertexKind::kGpu, 0});
  parts.vertices.push_back({"NIC0", VertexKind::kNic, 0});           // 4
  parts.vertices.push_back({"NIC1", VertexKind::kNic, 0});           // 5
  parts.vertices.push_back({"PCIe0", VertexKind::kPcieSwitch, 0});   // 6
  parts.vertices.push_back({"PCIe1", VertexKind::kPcieSwitch, 0});   // 7
  parts.vertices.push_back({"root0", VertexKind::kRootComplex, 0});  // 8
  parts.vertices.push_back({"root1", VertexKind::kRootComplex, 0});  // 9
  parts.vertices.push_back({"socket0", VertexKind::kSocket, 0});     // 10
  parts.vertices.push_back({"socket1", VertexKind::kSocket, 0});     // 11
  parts.vertices.push_back({"leaf", VertexKind::kLeafSwitch, kNoServer});
  const auto link = [&](std::size_t a, std::size_t b, EdgeKind kind, double rate) {
    parts.links.push_back({{a, b}, kind, gigabytes_per_second(rate), microseconds(rate)});
  };
  for (const std::size_t gpu : {0U, 1U, 2U, 3U}) link(gpu, gpu < 2 ? 6 : 7, EdgeKind::kPcie, 16);
  link(4, 6, EdgeKind::kPcie, 16);
  link(5, 7, EdgeKind::kPcie, 16);
  link(6, 8, EdgeKind::kPcie, 16);
  link(7, 9, EdgeKind::kPcie, 16);
  link(8, 10, EdgeKind::kHostBridge, 16);
  link(9, 11, EdgeKind::kHostBridge, 16);
  link(10, 11, EdgeKind::kSocketLink, 10);
  link(4, 12, EdgeKind::kNetwork, 12.5);
  link(5, 12, EdgeKind::kNetwork, 12.5);
  return parts;
}

Topology made(TopologyParts parts) {
  auto topology = Topology::create(std::move(parts));
  if (!topology) throw std::runtime_error(to_string(topology.error()));
  return *topology;
}

void refused(TopologyParts parts, const std::string& says) {
  const auto topology = Topology::create(std::move(parts));
  REQUIRE(!topology);
  CHECK_THAT(to_string(topology.error()), Contains(says));
}

double rate(Bandwidth bandwidth) { return bandwidth.in(gigabytes_per_second); }

Cluster cluster_of(const std::string& node, std::int64_t nodes = 1) {
  Cluster cluster;
  cluster.node = test::catalog().node(node).value();
  cluster.nodes = nodes;
  cluster.gpus_per_node = cluster.node.gpus;
  return cluster;
}

}  // namespace

TEST_CASE("topology: routes and classes of the header's worked example", "[unit][hardware]") {
  const Topology topology = made(example());
  CHECK(topology.gpus().size() == 4);
  CHECK(topology.count(VertexKind::kPcieSwitch) == 2);
  const Route near = topology.route({0, 1}).value();
  CHECK(near.path == PathClass::kPix);
  CHECK(near.edges.size() == 2);
  CHECK(rate(near.bandwidth) == Approx(16));
  // GPU0, PCIe0, root0, socket0, socket1, root1, PCIe1, GPU2: 7 edges, the narrowest 10 GB/s, the slowest 16 us
  const Route far = topology.route({0, 2}).value();
  CHECK(far.path == PathClass::kSys);
  CHECK(far.edges.size() == 7);
  CHECK(rate(far.bandwidth) == Approx(10));
  CHECK(far.latency.in(microseconds) == Approx(16));
  CHECK(topology.route({0, 0}).value().path == PathClass::kSelf);
  CHECK(topology.route({0, 10}).value().path == PathClass::kPhb);  // to host memory
  CHECK(topology.route({0, 12}).value().path == PathClass::kNet);
  CHECK(topology.route({12, 3}).value().edges.size() == 3);  // NIC1, PCIe1, GPU3
}

TEST_CASE("topology: flows share the socket link max-min fairly", "[unit][hardware]") {
  const Topology topology = made(example());
  const std::vector<Route> routes{topology.route({0, 2}).value(), topology.route({1, 3}).value(),
                                  topology.route({2, 3}).value(), topology.route({2, 0}).value()};
  const auto shares = topology.concurrent_bandwidth(routes);
  // Two flows from socket0 to socket1: 5 GB/s each. GPU2 to GPU3 and GPU2 to GPU0 share GPU2's PCIe link up (8 each),
  // and PCIe1 to GPU3 carries GPU1's 5 as well: 16 - 5 = 11 is more than 8.
  CHECK(rate(shares[0]) == Approx(5));
  CHECK(rate(shares[1]) == Approx(5));
  CHECK(rate(shares[2]) == Approx(8));
  CHECK(rate(shares[3]) == Approx(8));
}

TEST_CASE("topology: the ring crosses the socket link once each way", "[unit][hardware]") {
  const Topology topology = made(example());
  const Ring ring = topology.ring().value();
  CHECK(ring.order == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(rate(ring.bandwidth) == Approx(10));
  REQUIRE(ring.edge);
  CHECK(topology.edges()[*ring.edge].kind == EdgeKind::kSocketLink);
  CHECK(ring.flows == 1);
}

TEST_CASE("topology: GPUs at one NIC share its port", "[unit][hardware]") {
  const Topology topology = made(example());
  const auto paths = topology.network_paths();
  REQUIRE(paths.size() == 4);
  CHECK(topology.nearest_nic(1) == 4);
  CHECK(topology.nearest_nic(2) == 5);
  CHECK(paths[0].route.path == PathClass::kPix);
  CHECK(rate(paths[0].route.bandwidth) == Approx(12.5));
  CHECK(rate(paths[0].together) == Approx(6.25));  // 12.5 GB/s for two
}

TEST_CASE("topology: NVLink before PCIe, and through a third GPU", "[unit][hardware]") {
  TopologyParts parts = example();
  parts.links.push_back({{0, 1}, EdgeKind::kNvlink, gigabytes_per_second(50), microseconds(3)});
  parts.links.push_back({{1, 2}, EdgeKind::kNvlink, gigabytes_per_second(25), microseconds(3)});
  const Topology topology = made(parts);
  CHECK(topology.route({0, 1}).value().path == PathClass::kNvl);
  const Route route = topology.route({0, 2}).value();
  CHECK(route.path == PathClass::kNvb);
  CHECK(rate(route.bandwidth) == Approx(25));
  CHECK(topology.route({0, 3}).value().path == PathClass::kSys);  // NVLink is no help to PCIe
}

TEST_CASE("topology: a ring looks for NVLinks", "[unit][hardware]") {
  TopologyParts parts = example();
  // A square 0-2-1-3-0: the order of GPUs would take PCIe from 0 to 1.
  for (const Ends ends : {Ends{0, 2}, Ends{2, 1}, Ends{1, 3}, Ends{3, 0}}) {
    parts.links.push_back({ends, EdgeKind::kNvlink, gigabytes_per_second(20), microseconds(3)});
  }
  const Topology topology = made(parts);
  const Ring ring = topology.ring().value();
  CHECK(ring.order == std::vector<std::size_t>{0, 2, 1, 3});
  CHECK(rate(ring.bandwidth) == Approx(40));  // a ring each way
  CHECK(!ring.edge);
}

TEST_CASE("topology: what is refused", "[unit][hardware]") {
  TopologyParts zero = example();
  zero.links[0].bandwidth = Bandwidth::zero();
  refused(zero, "bandwidth of 0");
  TopologyParts nan = example();
  nan.links[0].bandwidth = gigabytes_per_second(std::numeric_limits<double>::quiet_NaN());
  refused(nan, "bandwidth of nan");
  TopologyParts twice = example();
  twice.vertices[1].id = "GPU0";
  refused(twice, "gpu 'GPU0' stands twice");
  TopologyParts cut = example();
  cut.links.erase(cut.links.begin() + 10);  // the socket link
  refused(cut, "disconnected");
  TopologyParts cycle = example();
  cycle.links.push_back({{6, 7}, EdgeKind::kPcie, gigabytes_per_second(1), microseconds(1)});
  cycle.links.push_back({{7, 8}, EdgeKind::kPcie, gigabytes_per_second(1), microseconds(1)});
  refused(cycle, "closes a cycle");
  TopologyParts self = example();
  self.links.push_back({{6, 6}, EdgeKind::kPcie, gigabytes_per_second(1), microseconds(1)});
  refused(self, "linked to itself");
  TopologyParts wild = example();
  wild.links.push_back({{0, 12}, EdgeKind::kNetwork, gigabytes_per_second(1), microseconds(1)});
  refused(wild, "cannot be");
  TopologyParts outside = example();
  outside.links.push_back({{0, 99}, EdgeKind::kPcie, gigabytes_per_second(1), microseconds(1)});
  refused(outside, "not there");
  refused({}, "no GPU");
}

TEST_CASE("topology: a GPU of several servers needs a NIC", "[unit][hardware]") {
  TopologyParts parts = example();
  for (const auto& [id, kind] :
       {std::pair("b/GPU0", VertexKind::kGpu), std::pair("b/root", VertexKind::kRootComplex)}) {
    parts.vertices.push_back({id, kind, 1});
  }
  parts.links.push_back({{13, 14}, EdgeKind::kPcie, gigabytes_per_second(16), microseconds(1)});
  const auto alone = Topology::create(parts);
  REQUIRE(!alone);
  CHECK_THAT(to_string(alone.error()), Contains("gpu 'b/GPU0' has no route to a NIC"));
  parts.vertices.push_back({"b/NIC0", VertexKind::kNic, 1});
  parts.links.push_back({{15, 14}, EdgeKind::kPcie, gigabytes_per_second(16), microseconds(1)});
  parts.links.push_back({{15, 12}, EdgeKind::kNetwork, gigabytes_per_second(12.5), microseconds(1)});
  const Topology topology = made(parts);
  // GPU0, PCIe0, NIC0, leaf, b/NIC0, b/root, b/GPU0
  const Route route = topology.route({0, 13}).value();
  CHECK(route.edges.size() == 6);
  CHECK(route.path == PathClass::kNet);
  CHECK(rate(route.bandwidth) == Approx(12.5));
}

TEST_CASE("topology of a cluster: 8 GPUs on two PCIe switches", "[unit][hardware]") {
  const Cluster cluster = cluster_of("pcie-8xv100");
  const Topology topology = topology_of(cluster).value();
  CHECK(topology.count(VertexKind::kGpu) == 8);
  CHECK(topology.count(VertexKind::kSocket) == 2);
  CHECK(topology.route({0, 3}).value().path == PathClass::kPix);
  CHECK(topology.route({3, 4}).value().path == PathClass::kSys);
  // PCIe 3.0 x16 gives 15.754 GB/s, the sockets 10: once each way.
  CHECK(rate(topology.ring().value().bandwidth) == Approx(10));
  TopologyOptions wide;
  wide.socket_link = gigabytes_per_second(40);
  CHECK(rate(topology_of(cluster, wide).value().ring().value().bandwidth) == Approx(15.754));
}

TEST_CASE("topology of a cluster: NVLink as the cost models take it", "[unit][hardware]") {
  // The hybrid cube mesh: one to two links of 25 GB/s between neighbours, none from GPU 0 to GPU 5.
  const Cluster mesh = cluster_of("dgx1-v100");
  const Topology dgx1 = topology_of(mesh).value();
  CHECK(rate(dgx1.route({0, 1}).value().bandwidth) == Approx(25));
  CHECK(rate(dgx1.route({0, 4}).value().bandwidth) == Approx(50));
  CHECK(dgx1.route({0, 5}).value().path == PathClass::kNvb);
  CHECK(dgx1.route({0, 7}).value().path == PathClass::kNvb);
  CHECK(rate(dgx1.ring().value().bandwidth) == Approx(150));
  for (const char* node : {"dgx1-v100", "dgx1-p100", "p3.8xlarge", "jean-zay-v100", "hgx-a100-4gpu-80gb", "mi300x-8gpu",
                           "standard-nc96ads-a100-v4"}) {
    Cluster some = cluster_of(node);
    for (some.gpus_per_node = 2; some.gpus_per_node <= some.node.gpus; ++some.gpus_per_node) {
      CAPTURE(node, some.gpus_per_node);
      const PeerPath peers = some.node.peers(some.gpus_per_node);
      if (!peers.by_nvlink()) continue;
      CHECK(rate(topology_of(some).value().ring().value().bandwidth) == Approx(rate(peers.bandwidth)));
    }
  }
  const Topology a100 = topology_of(cluster_of("dgx-a100")).value();
  CHECK(a100.count(VertexKind::kNvswitch) == 1);
  CHECK(rate(a100.ring().value().bandwidth) == Approx(300));
}

TEST_CASE("topology of a cluster: some GPUs of the server", "[unit][hardware]") {
  const Cluster mesh = cluster_of("dgx1-v100");
  TopologyOptions options;
  options.gpus = {0, 3};
  const Topology pair = topology_of(mesh, options).value();
  CHECK(pair.count(VertexKind::kGpu) == 2);
  CHECK(pair.vertices()[pair.gpus()[1]].id == "GPU3");
  CHECK(rate(pair.ring().value().bandwidth) == Approx(50));
  options.gpus = {0, 5};  // no link, and the GPUs between them are not the job's
  CHECK(topology_of(mesh, options).value().route({0, 1}).value().path == PathClass::kSys);
  options.gpus = {0, 8};
  CHECK_THAT(to_string(topology_of(mesh, options).error()), Contains("no GPU 8: the server has 8"));
  options.gpus = {1, 1};
  CHECK_THAT(to_string(topology_of(mesh, options).error()), Contains("GPU 1 stands twice"));
}

TEST_CASE("topology of a cluster: bridges join pairs, and the slowest hop is PCIe", "[unit][hardware]") {
  Cluster cluster = cluster_of("standard-nc96ads-a100-v4");
  const Topology four = topology_of(cluster).value();
  CHECK(four.route({0, 1}).value().path == PathClass::kNvl);
  CHECK(four.route({1, 2}).value().path == PathClass::kSys);
  CHECK(rate(four.ring().value().bandwidth) == Approx(10));  // between the sockets, as assumed
  cluster.gpus_per_node = 2;
  CHECK(rate(topology_of(cluster).value().ring().value().bandwidth) == Approx(300));
}

TEST_CASE("topology of a cluster: servers on leaf and spine", "[unit][hardware]") {
  const Cluster cluster = cluster_of("dgx1-v100", 4);
  const Topology one = topology_of(cluster).value();
  CHECK(one.count(VertexKind::kLeafSwitch) == 1);
  CHECK(one.count(VertexKind::kSpineSwitch) == 0);
  // Four rings, one per 12.5 GB/s port.
  const Ring ring = one.ring().value();
  CHECK(ring.rings == 4);
  CHECK(ring.order.size() == 32);
  CHECK(ring.hops.size() == 32);
  CHECK(rate(ring.bandwidth) == Approx(50));
  TopologyOptions options;
  options.fabric = {.nodes_per_leaf = 2, .oversubscription = 4};
  const Topology two = topology_of(cluster, options).value();
  CHECK(two.count(VertexKind::kLeafSwitch) == 2);
  CHECK(two.count(VertexKind::kSpineSwitch) == 1);
  // A leaf takes in 2 * 50 GB/s and passes up 25, which the four rings share: 25 in all.
  const Ring narrow = two.ring().value();
  CHECK(rate(narrow.bandwidth) == Approx(25));
  CHECK(two.edges()[narrow.edge.value()].kind == EdgeKind::kNetwork);
  CHECK(narrow.flows == 4);
}

TEST_CASE("topology of a cluster: limits", "[unit][hardware]") {
  const auto huge = topology_of(cluster_of("dgx1-v100", kMaxTopologyNodes + 1));
  REQUIRE(!huge);
  CHECK_THAT(to_string(huge.error()), Contains("valid: 1 to 4096"));
  Cluster cluster = cluster_of("dgx1-v100");
  cluster.gpus_per_node = 9;
  CHECK_THAT(to_string(topology_of(cluster).error()), Contains("9 GPUs used") && Contains("1 to 8"));
  TopologyOptions options;
  options.fabric.oversubscription = 0.5;
  CHECK_THAT(to_string(topology_of(cluster_of("dgx1-v100"), options).error()), Contains("oversubscription of 0.5"));
  options = {};
  options.socket_link = Bandwidth::zero();
  CHECK_THAT(to_string(topology_of(cluster_of("dgx1-v100"), options).error()), Contains("bandwidth of 0"));
}

TEST_CASE("topology: an unknown vertex offers near names", "[unit][hardware]") {
  const auto found = made(example()).find("GPU9");
  REQUIRE(!found);
  CHECK_THAT(to_string(found.error()), Contains("GPU0"));
  CHECK(made(example()).find("NIC1").value() == 5);
}
