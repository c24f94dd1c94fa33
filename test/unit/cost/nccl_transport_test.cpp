// What drives the network between servers, and what NCCL makes of it.
#include "ddlsim/cost/nccl.h"

#include <catch2/catch.hpp>

#include "unit/cost/communicators.h"

using namespace ddlsim;
using namespace ddlsim::cost;
using ddlsim::test::ampere;

TEST_CASE("nccl: what nobody says is assumed", "[unit][cost]") {
  Communicator c = ampere(2);
  CHECK(effective_rates(c, {}).provenance == Provenance::kAnalytic);
  CHECK(driven_by(c, NetworkTransport::kRoce).transport == NetworkTransport::kInfiniband);  // as stated
  c.transport = NetworkTransport::kTcp;
  CHECK(driven_by(c, NetworkTransport::kRoce).transport == NetworkTransport::kTcp);
  c.transport_assumed = true;
  CHECK(driven_by(c, NetworkTransport::kRoce).transport == NetworkTransport::kRoce);
  CollectiveLibrary stated;
  stated.inter_efficiency = 0.5;
  CHECK(effective_rates(c, stated).provenance == Provenance::kAssumed);  // TCP's latency still is
  Communicator alone = ampere(1);
  alone.transport_assumed = true;
  CHECK(effective_rates(alone, {}).provenance == Provenance::kAnalytic);
  alone.tuning_assumed = true;
  CHECK(effective_rates(alone, {}).provenance == Provenance::kAssumed);
}

TEST_CASE("nccl: TCP sockets reach at most 32 Gb/s of a port", "[unit][cost]") {
  Communicator c = ampere(2);
  c.transport = NetworkTransport::kTcp;
  c.network_ports = 1;
  c.inter = gigabits_per_second(100);
  CHECK(effective_rates(c, {}).inter.in(gigabits_per_second) == Approx(32));
  CHECK(effective_rates(c, {}).provenance == Provenance::kAssumed);
  c.inter = gigabits_per_second(10);
  CHECK(effective_rates(c, {}).inter.in(gigabits_per_second) == Approx(9.4));
  CollectiveLibrary stated;
  stated.inter_efficiency = 0.5;
  CHECK(effective_rates(c, stated).inter.in(gigabits_per_second) == Approx(5));
  CHECK(effective_rates(c, stated).provenance == Provenance::kAnalytic);
}

TEST_CASE("nccl: large messages between nodes take more by EFA, and by RDMA from Hopper on", "[unit][cost]") {
  const auto time = [&](GpuGeneration generation, NetworkTransport transport) {
    Communicator c = ampere(2);
    c.generation = generation;
    c.transport = transport;
    // Rates alike, so that the growth is the difference: 12 MiB are two doublings from 4 MiB.
    CollectiveLibrary alike;
    alike.algorithm = CollectiveAlgorithm::kRing;
    alike.protocol = CollectiveProtocol::kSimple;
    alike.inter_efficiency = 0.9;
    alike.intra_efficiency = 0.8;
    const auto model = CollectiveModel::create(c, alike).value();
    return model.cost(primitives::CollectiveOp::kAllReduce, mebibytes(12)).time.in(microseconds);
  };
  const double ampere_ib = time(GpuGeneration::kAmpere, NetworkTransport::kInfiniband);
  CHECK(time(GpuGeneration::kAmpere, NetworkTransport::kRoce) == Approx(ampere_ib));
  // EFA's 75 us on two hops of the network, 1.4 times, and 45 us twice.
  CHECK(time(GpuGeneration::kAmpere, NetworkTransport::kEfa) == Approx(ampere_ib + 1.4 * 2 * 75 + 90));
  const double hopper_ib = time(GpuGeneration::kHopper, NetworkTransport::kInfiniband);
  // Growth inside 8 us instead of 18, 12 us between nodes; wall clock 0.86 instead of 7.26.
  CHECK(hopper_ib == Approx(ampere_ib + 2 * (8 + 12 - 18) + 0.86 - 7.26));
  CHECK(time(GpuGeneration::kHopper, NetworkTransport::kEfa) == Approx(hopper_ib + 1.4 * 2 * 20 + 2 * (45 - 12)));
}

TEST_CASE("nccl: RDMA over Ethernet is not slower than TCP on any port", "[unit][cost]") {
  Communicator c{.gpus = 2, .nodes = 2, .generation = GpuGeneration::kVolta, .fabric = GpuFabric::kNvswitch};
  c.pcie = Bandwidth::infinity();
  const auto share = [&](NetworkTransport transport, double gigabits) {
    c.transport = transport;
    c.inter = gigabits_per_second(gigabits);
    return effective_rates(c, {}).inter / c.inter;
  };
  CHECK(share(NetworkTransport::kTcp, 25) == Approx(0.94));
  CHECK(share(NetworkTransport::kRoce, 25) == Approx(0.94));
  // TCP moves 32 Gb/s of a port at most, and 12 / 12.5 * 0.92 is what RDMA leaves of a fast one.
  CHECK(share(NetworkTransport::kTcp, 100) == Approx(0.32));
  CHECK(share(NetworkTransport::kRoce, 35) == Approx(32.0 / 35));
  CHECK(share(NetworkTransport::kRoce, 100) == Approx(0.8832));
  CHECK(share(NetworkTransport::kEfa, 100) == Approx(0.8832));
  CHECK(share(NetworkTransport::kTcpx, 100) == Approx(0.71));
}

TEST_CASE("nccl: Omni-Path's verbs drive one port of two, MPI all", "[unit][cost]") {
  Communicator c{.gpus = 16, .nodes = 2, .generation = GpuGeneration::kVolta, .fabric = GpuFabric::kNvswitch};
  c.pcie = Bandwidth::infinity();
  c.transport = NetworkTransport::kOmniPath;
  const auto reached = [&](std::int64_t ports, CollectiveLibraryKind by) {
    c.network_ports = ports;
    c.inter = gigabits_per_second(100) * static_cast<double>(ports);
    CollectiveLibrary library;
    library.kind = by;
    return effective_rates(c, library).inter.in(gigabits_per_second);
  };
  CHECK(reached(1, CollectiveLibraryKind::kNccl) == Approx(42));
  CHECK(reached(2, CollectiveLibraryKind::kNccl) == Approx(42));
  CHECK(reached(4, CollectiveLibraryKind::kNccl) == Approx(84));  // Jean Zay's four V100 a server: 84.7
  CHECK(reached(4, CollectiveLibraryKind::kMpi) == Approx(384));
  CHECK(effective_rates(c, {}).provenance == Provenance::kAssumed);
}

TEST_CASE("nccl: what drives a network of which nobody says it", "[unit][cost]") {
  hardware::Node node;
  CHECK(assumed_transport(node) == NetworkTransport::kTcp);
  node.gpu.form = hardware::Form::kSxm;
  node.gpu.nccl_tuning = GpuGeneration::kVolta;
  CHECK(assumed_transport(node) == NetworkTransport::kTcp);
  node.gpu.nccl_tuning = GpuGeneration::kHopper;
  CHECK(assumed_transport(node) == NetworkTransport::kRoce);
  node.gpu.form = hardware::Form::kPcie;
  CHECK(assumed_transport(node) == NetworkTransport::kTcp);
  // What was assumed elsewhere is kept, and stays an assumption.
  node.network.transport.set(NetworkTransport::kRoce);
  CHECK(assumed_transport(node) == NetworkTransport::kRoce);
  CHECK_FALSE(hardware::says_transport(node.network));
  node.network.transport = std::optional(NetworkTransport::kTcp);
  CHECK(hardware::says_transport(node.network));
}
