#include "ddlsim/cost/collective.h"

#include <catch2/catch.hpp>
#include <limits>

#include "catalog.h"
#include "ddlsim/cost/nccl.h"
#include "ddlsim/hardware/collective_table.h"
#include "unit/cost/communicators.h"

using namespace ddlsim;
using namespace ddlsim::cost;
using Catch::Matchers::Contains;
using ddlsim::test::pascal;

namespace {

Communicator volta_mesh() {
  Communicator c;
  c.gpus = 8;
  c.generation = GpuGeneration::kVolta;
  c.fabric = GpuFabric::kNvlinkMesh;
  c.intra = gigabytes_per_second(150);
  c.intra_latency = microseconds(3.4);
  c.inter_latency = microseconds(14);
  return c;
}

CollectiveLibrary library(CollectiveLibraryKind kind) {
  CollectiveLibrary l;
  l.kind = kind;
  return l;
}

std::string refusal(const Communicator& c, const CollectiveLibrary& l = {}) {
  const auto model = CollectiveModel::create(c, l);
  REQUIRE_FALSE(model);
  return model.error().message;
}

hardware::Cluster cluster_of(std::string_view node, std::int64_t nodes) {
  hardware::Cluster cluster;
  cluster.node = test::catalog().node(node).value();
  cluster.nodes = nodes;
  cluster.gpus_per_node = cluster.node.gpus;
  return cluster;
}

}  // namespace

TEST_CASE("collective: the header's worked example", "[unit][cost]") {
  const CollectiveModel model = CollectiveModel::create(volta_mesh()).value();
  const CollectiveCost cost = model.cost(primitives::CollectiveOp::kAllReduce, gigabytes(1));
  // 56 us and 1.75 GB / 138.6 GB/s = 12.626263 ms
  CHECK(cost.time.in(milliseconds) == Approx(12.682263).epsilon(1e-7));
  CHECK(cost.algorithm == CollectiveAlgorithm::kRing);
  CHECK(cost.protocol == CollectiveProtocol::kSimple);
  CHECK(cost.provenance == Provenance::kAnalytic);
  CHECK(model.bus_bandwidth_limit(primitives::CollectiveOp::kAllReduce).in(gigabytes_per_second) == Approx(138.6));
}

TEST_CASE("collective: one rank costs nothing, whatever its links", "[unit][cost]") {
  for (const auto& [name, kind] : kCollectiveLibraries) {
    const CollectiveModel model = CollectiveModel::create(Communicator{}, library(kind)).value();
    CHECK(model.cost(primitives::CollectiveOp::kAllReduce, terabytes(1)).time == Time::zero());
    CHECK(model.cost(primitives::CollectiveOp::kAllToAll, terabytes(1)).algorithm == CollectiveAlgorithm::kNone);
  }
}

TEST_CASE("collective: bus bandwidth factors are those of nccl-tests", "[unit][cost]") {
  CHECK(primitives::bus_bandwidth_factor(primitives::CollectiveOp::kAllReduce, 8) == 1.75);
  CHECK(primitives::bus_bandwidth_factor(primitives::CollectiveOp::kAllGather, 8) == 0.875);
  CHECK(primitives::bus_bandwidth_factor(primitives::CollectiveOp::kAllToAll, 4) == 0.75);
  CHECK(primitives::bus_bandwidth_factor(primitives::CollectiveOp::kBroadcast, 8) == 1.0);
}

TEST_CASE("collective: MPI's worked example", "[unit][cost]") {
  const CollectiveModel model = CollectiveModel::create(pascal(4), library(CollectiveLibraryKind::kMpi)).value();
  // queries 10 us, copies 2 * 10 ms, 4 messages of 1.1 us, 1.5 * 10 ms sent, 0.75 * 24 ms summed
  const CollectiveCost large = model.cost(primitives::CollectiveOp::kAllReduce, megabytes(120));
  CHECK(large.time.in(milliseconds) == Approx(53.0144).epsilon(1e-6));
  CHECK(large.algorithm == CollectiveAlgorithm::kRabenseifner);
  CHECK(large.provenance == Provenance::kAssumed);
  // up to 2 KiB recursive doubling: 10 + 2 * 1.1 us, 1200 B * (2 / 12 + 2 / 12 + 2 / 5) ns = 0.88 us
  const CollectiveCost small = model.cost(primitives::CollectiveOp::kAllReduce, bytes(1200));
  CHECK(small.time.in(microseconds) == Approx(13.08).epsilon(1e-4));
  CHECK(small.algorithm == CollectiveAlgorithm::kRecursiveDoubling);
  // With the cache two pointers cost 0.2 us instead of 10.
  CollectiveLibrary cached = library(CollectiveLibraryKind::kMpi);
  cached.pointer_cache = true;
  CHECK(CollectiveModel::create(pascal(4), cached)
            .value()
            .cost(primitives::CollectiveOp::kAllReduce, bytes(1200))
            .time.in(microseconds) == Approx(13.08 - 9.8).epsilon(1e-4));
}

TEST_CASE("collective: MPI folds ranks into a power of two", "[unit][cost]") {
  // 3 ranks: 2 * 2 + 2 messages of 1.1 us; 2 * (2/3) + 2 sizes sent at 12 GB/s, 2/3 + 1 summed at 5 GB/s; copies 2 / 12
  const double sent = 120.0 / 12 * (4.0 / 3 + 2 + 2);
  const double summed = 120.0 / 5 * (5.0 / 3);
  CHECK(CollectiveModel::create(pascal(3), library(CollectiveLibraryKind::kMpi))
            .value()
            .cost(primitives::CollectiveOp::kAllReduce, megabytes(120))
            .time.in(milliseconds) == Approx(sent + summed + 0.0166).epsilon(1e-6));
}

TEST_CASE("collective: mpi-opt sums where it is told to", "[unit][cost]") {
  const auto time = [](std::optional<plan::SumsOn> where, DataSize size) {
    CollectiveLibrary one = library(CollectiveLibraryKind::kMpiOpt);
    one.sums_on = where;
    const auto model = CollectiveModel::create(pascal(4), one).value();
    return model.cost(primitives::CollectiveOp::kAllReduce, size).time.in(microseconds);
  };
  // As mpi's worked example, with the cache: 9.8 us less.
  CHECK(time(plan::SumsOn::kCpu, megabytes(120)) == Approx(53014.4 - 9.8).epsilon(1e-6));
  CHECK(time(plan::SumsOn::kGpu, megabytes(120)) == time({}, megabytes(120)));
  // Small ones: through the host 0.2 us and two messages of 1.1; through the mapped window 0.2 and two of 1.9; two
  // kernels of 6 us more where the GPU sums.
  CHECK(time(plan::SumsOn::kCpu, bytes(64)) == Approx(2.4).epsilon(0.05));
  CHECK(time({}, bytes(64)) == Approx(4.0).epsilon(0.05));
  CHECK(time(plan::SumsOn::kGpu, bytes(64)) == Approx(16.0).epsilon(0.01));
  CollectiveLibrary staged = library(CollectiveLibraryKind::kMpi);
  staged.sums_on = plan::SumsOn::kGpu;
  const auto refused = CollectiveModel::create(pascal(4), staged);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("collective: reducing on the GPU saves the copies and the CPU", "[unit][cost]") {
  const CollectiveModel model = CollectiveModel::create(pascal(4), library(CollectiveLibraryKind::kMpiOpt)).value();
  // 0.2 us, 4 messages of 1.9 us, 2 kernels of 6 us, 15 ms sent, 0.75 * 120 MB * 3 / 720 GB/s = 0.375 ms
  const CollectiveCost large = model.cost(primitives::CollectiveOp::kAllReduce, megabytes(120));
  CHECK(large.time.in(milliseconds) == Approx(15.3948).epsilon(1e-6));
  CHECK(large.algorithm == CollectiveAlgorithm::kRabenseifner);
  // Small: 0.2 + 2 * 1.9 us, no kernel
  CHECK(model.cost(primitives::CollectiveOp::kAllReduce, bytes(8)).time.in(microseconds) == Approx(4.0).epsilon(0.01));
}

TEST_CASE("collective: Baidu's ring pays each message and each sum", "[unit][cost]") {
  // 10 us; 6 messages of 1.9 + 10 us; 3 kernels of 6 us; 15 ms sent; 0.375 ms summed
  const CollectiveCost cost = CollectiveModel::create(pascal(4), library(CollectiveLibraryKind::kBaidu))
                                  .value()
                                  .cost(primitives::CollectiveOp::kAllReduce, megabytes(120));
  CHECK(cost.time.in(milliseconds) == Approx(15 + 0.375 + 0.010 + 0.0714 + 0.018).epsilon(1e-6));
  CHECK(cost.algorithm == CollectiveAlgorithm::kPerTensorRing);
}

TEST_CASE("collective: a table answers where it has the ranks", "[unit][cost]") {
  const auto points = std::vector<primitives::CollectiveMeasurement>{
      {primitives::CollectiveOp::kAllReduce, 8, 1, megabytes(1), microseconds(60), {}},
      {primitives::CollectiveOp::kAllReduce, 8, 1, megabytes(2), microseconds(90), {}}};
  const auto table = std::make_shared<const CollectiveTable>(CollectiveTable::create(points).value());
  const CollectiveModel model = CollectiveModel::create(volta_mesh(), {}, table).value();
  const CollectiveCost known = model.cost(primitives::CollectiveOp::kAllReduce, megabytes(2));
  CHECK(known.time.in(microseconds) == Approx(90));
  CHECK(known.algorithm == CollectiveAlgorithm::kTable);
  CHECK(known.provenance == Provenance::kMeasured);
  CHECK(model.cost(primitives::CollectiveOp::kAllReduce, megabytes(3)).provenance == Provenance::kExtrapolated);
  CHECK(model.cost(primitives::CollectiveOp::kBroadcast, megabytes(2)).algorithm == CollectiveAlgorithm::kRing);
}

TEST_CASE("collective: communicators of the catalog", "[unit][cost]") {
  const Communicator dgx = communicator_of(cluster_of("dgx-a100", 4));
  CHECK(dgx.gpus == 32);
  CHECK(dgx.nodes == 4);
  CHECK(dgx.fabric == GpuFabric::kNvswitch);
  CHECK(dgx.generation == GpuGeneration::kAmpere);
  CHECK(dgx.transport == NetworkTransport::kInfiniband);
  CHECK(dgx.intra == gigabytes_per_second(300));
  CHECK(dgx.inter == gigabits_per_second(1600));
  const Communicator few = communicator_of(cluster_of("dgx-a100", 4), 2);
  CHECK(few.gpus == 2);
  CHECK(few.nodes == 1);
  CHECK(communicator_of(cluster_of("dgx1-v100", 1)).fabric == GpuFabric::kNvlinkMesh);
  CHECK(communicator_of(cluster_of("p4d.24xlarge", 2)).transport == NetworkTransport::kEfa);
  CHECK(communicator_of(cluster_of("p3.8xlarge", 2)).transport == NetworkTransport::kTcp);
  CHECK_FALSE(communicator_of(cluster_of("p3.8xlarge", 2)).transport_assumed);
  CHECK_FALSE(dgx.tuning_assumed);
  const Communicator pcie = communicator_of(cluster_of("pcie-8xv100", 1));
  CHECK(pcie.fabric == GpuFabric::kPcie);
  CHECK(pcie.crosses_sockets);
}

TEST_CASE("collective: GPUs have the network ports that are near them", "[unit][cost]") {
  // Each superchip has its own; of a server with fewer ports than GPUs, a GPU has one.
  const auto at = [](const char* node, std::int64_t gpus) {
    const Communicator c = communicator_of(cluster_of(node, 2), 2, gpus);
    CHECK(c.inter.in(gigabits_per_second) == Approx(cluster_of(node, 2).node.network.bandwidth.in(gigabits_per_second) *
                                                    static_cast<double>(c.network_ports)));
    return c.network_ports;
  };
  CHECK(at("gh200-quad", 1) == 1);
  CHECK(at("gh200-quad", 2) == 2);
  CHECK(at("gh200-quad", 4) == 4);
  CHECK(at("dgx1-v100", 1) == 1);
  CHECK(at("dgx1-v100", 4) == 4);
  CHECK(at("dgx1-v100", 8) == 4);
}

TEST_CASE("collective: rings of xGMI reach what its slowest link leaves", "[unit][cost]") {
  // AMD's own figure of 310 to 330 GB/s for eight MI300X, of 448: seven links of 45.2 of 64 GB/s.
  const hardware::Cluster amd = cluster_of("mi300x-8gpu", 1);
  CHECK(effective_rates(communicator_of(amd), {}).intra.in(gigabytes_per_second) == Approx(7 * 45.2));
  hardware::Cluster tuned = amd;
  tuned.node.gpu.nccl_tuning = GpuGeneration::kHopper;
  CHECK(effective_rates(communicator_of(tuned), {}).intra.in(gigabytes_per_second) == Approx(448 * 20.6 / 25));
}

TEST_CASE("collective: groups in each other's gaps share the ways between PCIe switches", "[unit][cost]") {
  const hardware::Cluster cards = cluster_of("pcie-8xa100-80gb", 1);  // two on each switch
  const Communicator pair = communicator_of(cards, 1, 2);
  CHECK_FALSE(pair.crosses_sockets);
  // GPU 0 and 4, four such pairs side by side.
  const Communicator apart = communicator_of(cards, 1, PlacedRanks{2, 4});
  CHECK(apart.crosses_sockets);
  CHECK(apart.gpus == 2);
  CHECK(apart.intra.in(gigabytes_per_second) == Approx(pair.intra.in(gigabytes_per_second) / 4));
  const Communicator four = communicator_of(cards, 1, PlacedRanks{4, 2});
  CHECK(four.intra.in(gigabytes_per_second) == Approx(pair.intra.in(gigabytes_per_second) / 2));
  const hardware::Cluster dgx = cluster_of("dgx-a100", 1);
  CHECK(communicator_of(dgx, 1, PlacedRanks{2, 4}).intra == communicator_of(dgx, 1, 2).intra);
}

TEST_CASE("collective: what hardware does follows from its fields, never from its names", "[unit][cost]") {
  hardware::Cluster renamed = cluster_of("dgx-a100", 4);
  renamed.node.id = renamed.node.network.id = renamed.node.gpu.id = "rtx-tcp";
  renamed.node.gpu.architecture = "CDNA Kepler";
  const Communicator dgx = communicator_of(renamed);
  CHECK(dgx.generation == GpuGeneration::kAmpere);
  CHECK(dgx.transport == NetworkTransport::kInfiniband);
  CHECK_FALSE(dgx.tuning_assumed);
  // Left open: TCP and Pascal's constants, both assumed, at any rate.
  renamed.node.network.transport.set(std::nullopt);
  renamed.node.gpu.nccl_tuning.reset();
  for (const double rate : {1.0, 99.0, 100.0, 800.0}) {
    renamed.node.network.bandwidth = gigabits_per_second(rate);
    const Communicator open = communicator_of(renamed);
    CHECK(open.transport == NetworkTransport::kTcp);
    CHECK(open.transport_assumed);
    CHECK(open.generation == GpuGeneration::kPascal);
    CHECK(open.tuning_assumed);
  }
  hardware::Cluster cards = cluster_of("pcie-8x4090", 1);
  CHECK(communicator_of(cards).fabric == GpuFabric::kHostMemory);
  cards.node.gpu.peer_to_peer = true;
  CHECK(communicator_of(cards).fabric == GpuFabric::kPcie);
  // Nor does a server that hides its switches let them; NVLink goes past it.
  cards.node.peer_to_peer = false;
  CHECK(communicator_of(cards).fabric == GpuFabric::kHostMemory);
  cards.node.pcie_uplinks = 2;
  cards.node.host_link.bandwidth = gigabytes_per_second(24);
  CHECK(communicator_of(cards).host_share.in(gigabytes_per_second) == Approx(6));      // four GPUs on each
  CHECK(communicator_of(cards, 3).host_share.in(gigabytes_per_second) == Approx(12));  // two of three on one
  hardware::Cluster linked = cluster_of("dgx-a100", 1);
  linked.node.peer_to_peer = false;
  CHECK(communicator_of(linked).fabric == GpuFabric::kNvswitch);
  // RCCL is none of NCCL's generations.
  CHECK(communicator_of(cluster_of("mi300x-8gpu", 1)).tuning_assumed);
}

TEST_CASE("collective: the communicator of some GPUs of each server", "[unit][cost]") {
  const hardware::Cluster dgx1 = cluster_of("dgx1-v100", 4);
  using Places = std::vector<std::int64_t>;
  const auto intra = [&](const Places& places) {
    return communicator_of(dgx1, 1, places).value().intra.in(gigabytes_per_second);
  };
  CHECK(intra({0, 1}) == Approx(25));
  CHECK(intra({3, 0}) == Approx(50));
  CHECK(intra({4, 5, 6, 7}) == Approx(100));
  CHECK(intra({0, 1, 2, 3, 4, 5, 6, 7}) == Approx(150));
  CHECK(communicator_of(dgx1, 8).intra == communicator_of(dgx1, 1, Places{0, 1, 2, 3, 4, 5, 6, 7}).value().intra);
  // GPU 0 and GPU 5 have no link, and nobody of the job between them: PCIe, over both sockets.
  const Communicator apart = communicator_of(dgx1, 2, Places{0, 5}).value();
  CHECK(apart.fabric == GpuFabric::kPcie);
  CHECK(apart.crosses_sockets);
  CHECK(apart.gpus == 4);
  CHECK(apart.nodes == 2);
  CHECK_FALSE(communicator_of(dgx1, 1, Places{0, 1}).value().crosses_sockets);
  const auto refused = [&](std::int64_t nodes, const Places& places) {
    const auto made = communicator_of(dgx1, nodes, places);
    REQUIRE_FALSE(made);
    return to_string(made.error());
  };
  CHECK_THAT(refused(1, {0, 8}), Contains("no GPU 8: the server has 8") && Contains("valid: 0 to 7"));
  CHECK_THAT(refused(1, {-1}), Contains("no GPU -1"));
  CHECK_THAT(refused(1, {2, 2}), Contains("GPU 2 stands twice"));
  CHECK_THAT(refused(1, {}), Contains("no GPU of the server is named"));
  CHECK_THAT(refused(5, {0}), Contains("5 nodes of a cluster of 4"));
}

TEST_CASE("collective: bridges between PCIe cards", "[unit][cost]") {
  hardware::Cluster cluster = cluster_of("standard-nc96ads-a100-v4", 1);
  const Communicator four = communicator_of(cluster);
  CHECK(four.fabric == GpuFabric::kPcie);
  CHECK(four.intra == cluster.node.pcie.bandwidth);
  cluster.gpus_per_node = 2;
  const Communicator pair = communicator_of(cluster);
  CHECK(pair.fabric == GpuFabric::kNvlinkBridge);
  CHECK(pair.intra == gigabytes_per_second(300));
  CHECK(pair.intra_latency == cluster.node.nvlink->latency);
}

TEST_CASE("collective: what cannot be is refused", "[unit][cost]") {
  Communicator c = volta_mesh();
  c.intra = Bandwidth{};
  CHECK_THAT(refusal(c), Contains("not positive"));
  c.intra = bytes_per_second(std::numeric_limits<double>::quiet_NaN());
  CHECK_THAT(refusal(c), Contains("not positive"));
  c = pascal(2);
  c.inter = gigabytes_per_second(-1);
  CHECK_THAT(refusal(c), Contains("network is not positive"));
  c = volta_mesh();
  c.nodes = 3;
  CHECK_THAT(refusal(c), Contains("do not fill"));
  c = volta_mesh();
  c.intra_latency = microseconds(-1);
  CHECK_THAT(refusal(c), Contains("latency"));
  CollectiveLibrary l;
  l.intra_efficiency = 1.5;
  CHECK_THAT(refusal(volta_mesh(), l), Contains("efficiency"));
  l = {};
  l.algorithm = CollectiveAlgorithm::kRabenseifner;
  CHECK_THAT(refusal(volta_mesh(), l), Contains("no such algorithm"));
}

TEST_CASE("collective: billions of ranks and terabytes stay finite", "[unit][cost]") {
  for (const auto& [name, kind] : kCollectiveLibraries) {
    const CollectiveModel model = CollectiveModel::create(pascal(1'000'000'000), library(kind)).value();
    for (const auto& [op_name, op] : primitives::kCollectiveOps) {
      CAPTURE(name, op_name);
      const Time time = model.cost(op, bytes(1e13)).time;
      CHECK(time > Time::zero());
      CHECK(time < Time::infinity());
    }
  }
}
