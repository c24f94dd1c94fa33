#include "ddlsim/cost/nccl.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "unit/cost/communicators.h"

using namespace ddlsim;
using namespace ddlsim::cost;
using ddlsim::test::ampere;

namespace {

/// What calls over eight Ampere GPUs take beside the tuner's latencies: 1.1 + 0.44 us for each of 14 local steps; of 7.
constexpr double kWall = 7.26;
constexpr double kWallOnce = 4.18;
// And of one server: 1.1 + 14 * 1.34, 1.1 + 7 * 1.34.
constexpr double kAlone = 19.86;
constexpr double kAloneOnce = 10.48;

CollectiveLibrary forced(CollectiveAlgorithm algorithm, CollectiveProtocol protocol) {
  CollectiveLibrary library;
  library.algorithm = algorithm;
  library.protocol = protocol;
  return library;
}

double time_us(const Communicator& c, const CollectiveLibrary& library, primitives::CollectiveOp op, DataSize size) {
  return CollectiveModel::create(c, library).value().cost(op, size).time.in(microseconds);
}

}  // namespace

TEST_CASE("nccl: a Simple ring of one node", "[unit][cost]") {
  const auto ring = forced(CollectiveAlgorithm::kRing, CollectiveProtocol::kSimple);
  // 8.4 + 14 * 3.4 = 56 us; 12 MiB * 14/8 / 240 GB/s = 91.7504 us; growth 18 * log2(1 + 3) = 36 us
  CHECK(time_us(ampere(), ring, primitives::CollectiveOp::kAllReduce, mebibytes(12)) ==
        Approx(kAlone + 56 + 91.7504 + 36));
  // 8.4 + 7 * 3.4 = 32.2 us; half of the volume
  CHECK(time_us(ampere(), ring, primitives::CollectiveOp::kAllGather, mebibytes(12)) ==
        Approx(kAloneOnce + 32.2 + 45.8752 + 36));
  // broadcast: everything once, 12 MiB / 240 GB/s = 52.4288 us
  CHECK(time_us(ampere(), ring, primitives::CollectiveOp::kBroadcast, mebibytes(12)) ==
        Approx(kAloneOnce + 32.2 + 52.4288 + 36));
  // The local pass: 3 * 12 MiB / 8 / 1 TB/s = 4.718592 us
  Communicator with_memory = ampere();
  with_memory.memory = terabytes_per_second(1);
  CHECK(time_us(with_memory, ring, primitives::CollectiveOp::kAllReduce, mebibytes(12)) ==
        Approx(kAlone + 56 + 91.7504 + 36 + 4.718592));
}

TEST_CASE("nccl: LL of one node is capped", "[unit][cost]") {
  // 6.6 + 14 * 0.6 = 15 us; min(240 / 2, 87.7) GB/s: 1 MiB * 14/8 / 87.7 GB/s = 20.9236 us
  CHECK(time_us(ampere(), forced(CollectiveAlgorithm::kRing, CollectiveProtocol::kLl),
                primitives::CollectiveOp::kAllReduce, mebibytes(1)) == Approx(kAlone + 15 + 20.9236).epsilon(1e-5));
}

TEST_CASE("nccl: a tree over four nodes", "[unit][cost]") {
  // 6.8 + 2 (7 * 0.6 + log2(4) * 5) = 35.2 us, and next to nothing for 8 bytes
  CHECK(time_us(ampere(4), {}, primitives::CollectiveOp::kAllReduce, bytes(8)) == Approx(kWall + 35.2).epsilon(1e-3));
  const auto cost = CollectiveModel::create(ampere(4)).value().cost(primitives::CollectiveOp::kAllReduce, bytes(8));
  CHECK(cost.algorithm == CollectiveAlgorithm::kDoubleTree);
  CHECK(cost.protocol == CollectiveProtocol::kLl);
  // EFA adds 75 us to each of the 2 * log2(2) messages: 6.8 + 2 (4.2 + 5 + 75) = 175.2 us
  Communicator efa = ampere(2);
  efa.transport = NetworkTransport::kEfa;
  CHECK(time_us(efa, {}, primitives::CollectiveOp::kAllReduce, bytes(8)) == Approx(kWall + 175.2).epsilon(1e-3));
}

TEST_CASE("nccl: a ring over nodes goes at the slower of links and network", "[unit][cost]") {
  const EffectiveRates rates = effective_rates(ampere(2), {});
  CHECK(rates.intra.in(gigabytes_per_second) == Approx(240));  // 20 of 25
  CHECK(rates.inter.in(gigabytes_per_second) == Approx(192));  // 12 of 12.5; PCIe feeds 8 * 24 = 192
  // 30 hops, of which 2 cross: (28 * 3.4 + 2 * 14) * 1.4 + 8.4 = 180.88 us; 12 MiB * 30/16 / 192 GB/s = 122.88 us
  CHECK(time_us(ampere(2), forced(CollectiveAlgorithm::kRing, CollectiveProtocol::kSimple),
                primitives::CollectiveOp::kAllReduce, mebibytes(12)) == Approx(kWall + 180.88 + 122.88 + 36));
}

TEST_CASE("nccl: a step of a ring over nodes waits for the network's work", "[unit][cost]") {
  // 28 of LL's 30 hops stay inside; 0.6 us there, but 1 us of work per step: 6.6 + 28 * 1 + 2 * 2.7 = 40 us
  CHECK(time_us(ampere(2), forced(CollectiveAlgorithm::kRing, CollectiveProtocol::kLl),
                primitives::CollectiveOp::kAllReduce, bytes(0)) == Approx(kWall + 40));
  // LL128 takes longer than that inside: 14 + 28 * 1.9 + 2 * 4 = 75.2 us
  CHECK(time_us(ampere(2), forced(CollectiveAlgorithm::kRing, CollectiveProtocol::kLl128),
                primitives::CollectiveOp::kAllReduce, bytes(0)) == Approx(kWall + 75.2));
  // Simple has three times the work, seen where links take no time: (28 * 3 + 2 * 14) * 1.4 + 8.4 = 165.2 us; half of
  // the steps, none repeated, for a gather: 14 * 3 + 14 + 8.4 = 64.4 us
  Communicator prompt = ampere(2);
  prompt.intra_latency = Time::zero();
  const auto simple = forced(CollectiveAlgorithm::kRing, CollectiveProtocol::kSimple);
  CHECK(time_us(prompt, simple, primitives::CollectiveOp::kAllReduce, bytes(0)) == Approx(kWall + 165.2));
  CHECK(time_us(prompt, simple, primitives::CollectiveOp::kAllGather, bytes(0)) == Approx(kWallOnce + 64.4));
  // Before Ampere a Simple ring between nodes takes 1.9 times its hops: 112 * 1.9 + 8.4 = 221.2 us
  prompt.generation = GpuGeneration::kVolta;
  CHECK(time_us(prompt, simple, primitives::CollectiveOp::kAllReduce, bytes(0)) == Approx(221.2));
}

TEST_CASE("nccl: what reaches over PCIe, between sockets and through the host", "[unit][cost]") {
  Communicator c = ampere();
  c.fabric = GpuFabric::kPcie;
  c.intra = gigabytes_per_second(15.754);
  const auto intra = [&] { return effective_rates(c, {}).intra.in(gigabytes_per_second); };
  CHECK(intra() == Approx(12));
  CHECK(effective_rates(c, {}).provenance == Provenance::kAnalytic);
  c.crosses_sockets = true;
  CHECK(intra() == Approx(10));
  CHECK(effective_rates(c, {}).provenance == Provenance::kAssumed);
  c.fabric = GpuFabric::kHostMemory;
  CHECK(intra() == Approx(5));  // half of 12, at most 5
  c.intra = gigabytes_per_second(7.877);
  CHECK(intra() == Approx(3));
  const Bandwidth third = c.pcie;
  c.intra = c.pcie = gigabytes_per_second(63.015);
  CHECK(intra() == Approx(24).epsilon(1e-3));  // half of PCIe 5.0's 48, whose hosts are not held to 5
  c.pcie = third;
  // Eight GPUs on one host link of 15.754: 12 / 8, in what is said of the terms, too.
  c.intra = gigabytes_per_second(15.754);
  c.host_share = gigabytes_per_second(15.754 / 8);
  CHECK(intra() == Approx(1.5));
  const auto ring = forced(CollectiveAlgorithm::kRing, CollectiveProtocol::kSimple);
  const auto slope = time_us(c, ring, primitives::CollectiveOp::kAllReduce, gigabytes(2)) -
                     time_us(c, ring, primitives::CollectiveOp::kAllReduce, gigabytes(1));
  CHECK(slope == Approx(1.75 / 1.5e9 * 1e15).epsilon(0.02));  // 2 x 7/8 GB at 1.5 GB/s, and a local pass
  // What is stated is of PCIe's rate: of a GPU's part of the host link, half of its own way, at most the memory's 5.
  CollectiveLibrary stated;
  stated.intra_efficiency = 0.5;
  const auto as_stated = [&] { return effective_rates(c, stated).intra.in(gigabytes_per_second); };
  CHECK(as_stated() == Approx(15.754 / 8 / 2));
  c.host_share = Bandwidth::infinity();
  CHECK(as_stated() == Approx(15.754 / 4));
  stated.intra_efficiency = 0.95;
  CHECK(as_stated() == Approx(5));
  c.staging_speed = 2;
  CHECK(as_stated() == Approx(15.754 * 0.95 / 2));
  // GPUs that reach each other do not go over the host link.
  c.fabric = GpuFabric::kPcie;
  CHECK(intra() == Approx(10));
}

TEST_CASE("nccl: switches of two servers are no faster than those of one", "[unit][cost]") {
  Communicator one = ddlsim::test::hopper(1);
  Communicator two = ddlsim::test::hopper(2);
  one.memory = two.memory = gigabytes_per_second(3350);
  CollectiveLibrary switches;
  switches.algorithm = CollectiveAlgorithm::kNvls;
  CollectiveLibrary trees;
  trees.algorithm = CollectiveAlgorithm::kNvlsTree;
  for (const double size : {1.0, 4.0, 16.0, 64.0}) {
    CHECK(time_us(two, trees, primitives::CollectiveOp::kAllReduce, gigabytes(size)) >=
          time_us(one, switches, primitives::CollectiveOp::kAllReduce, gigabytes(size)));
  }
}

TEST_CASE("nccl: the switch of a Hopper node reduces", "[unit][cost]") {
  Communicator c = ampere();
  c.generation = GpuGeneration::kHopper;
  c.intra = gigabytes_per_second(450);
  // 450 * 20.6/25 * 0.85 = 315.18 GB/s; 1020 MiB * 9/8 / 315.18 GB/s = 3817.631 us, 25 us, growth 8 * log2(256) = 64 us
  const auto cost = CollectiveModel::create(c).value().cost(primitives::CollectiveOp::kAllReduce, mebibytes(1020));
  CHECK(cost.algorithm == CollectiveAlgorithm::kNvls);
  CHECK(cost.time.in(microseconds) == Approx(0.86 + 3817.631 + 25 + 64).epsilon(1e-6));
  // At most B * 0.85 * 2 (n-1)/(n+1) = 315.18 * 14/9 GB/s of bus bandwidth
  CHECK(CollectiveModel::create(c)
            .value()
            .bus_bandwidth_limit(primitives::CollectiveOp::kAllReduce)
            .in(gigabytes_per_second) == Approx(490.28).epsilon(1e-4));
  // Blackwell: 900 * 40.1/50 * 0.74 = 534.132 GB/s; 2252.7029 us
  Communicator blackwell = c;
  blackwell.generation = GpuGeneration::kBlackwell;
  blackwell.intra = gigabytes_per_second(900);
  CHECK(time_us(blackwell, {}, primitives::CollectiveOp::kAllReduce, mebibytes(1020)) ==
        Approx(9.92 + 2252.7029 + 25 + 64).epsilon(1e-6));
  // The switches of older nodes do not.
  CHECK_FALSE(CollectiveModel::create(ampere(), forced(CollectiveAlgorithm::kNvls, CollectiveProtocol::kSimple)));
  CollectiveLibrary without;
  without.nvls = false;
  CHECK(CollectiveModel::create(c, without)
            .value()
            .cost(primitives::CollectiveOp::kAllReduce, mebibytes(1020))
            .algorithm == CollectiveAlgorithm::kRing);
}

TEST_CASE("nccl: on Hopper a scatter and a gather take longer than a sum that the switch reduces", "[unit][cost]") {
  // Eight H100, NCCL 2.27 (aiconfigurator), microseconds at 32, 128 and 512 MiB.
  struct Measured {
    double mebibytes, gather, scatter, sum, within;
  };
  Communicator c = ampere();
  c.generation = GpuGeneration::kHopper;
  c.intra = gigabytes_per_second(450);
  c.memory = gigabytes_per_second(3352);
  for (const Measured& row : {Measured{32, 122.3, 112.8, 198.7, 0.25}, Measured{128, 389.3, 381.2, 579.0, 0.1},
                              Measured{512, 1398.9, 1399.4, 2111.7, 0.1}}) {
    const DataSize size = mebibytes(row.mebibytes);
    const double gather = time_us(c, {}, primitives::CollectiveOp::kAllGather, size);
    const double scatter = time_us(c, {}, primitives::CollectiveOp::kReduceScatter, size);
    const double sum = time_us(c, {}, primitives::CollectiveOp::kAllReduce, size);
    CHECK(gather == Approx(row.gather).epsilon(row.within));
    CHECK(scatter == Approx(row.scatter).epsilon(row.within));
    CHECK(sum == Approx(row.sum).epsilon(row.within));
    CHECK(gather + scatter > 1.1 * sum);
  }
}

TEST_CASE("nccl: a hierarchy of rings when asked for", "[unit][cost]") {
  const auto asked = forced(CollectiveAlgorithm::kHierarchical, CollectiveProtocol::kSimple);
  // 3 * 8.4 + 14 * 3.4 = 72.8 us; inside 12 MiB * 14/8 / 240 GB/s = 91.7504 us
  Communicator alone = ampere();
  alone.inter = Bandwidth{};
  CHECK(time_us(alone, asked, primitives::CollectiveOp::kAllReduce, mebibytes(12)) ==
        Approx(kAlone + 72.8 + 91.7504 + 36));
  // Between two nodes 2 * 14 us more, and 12 MiB * 2/2 / 192 GB/s = 65.536 us
  CHECK(time_us(ampere(2), asked, primitives::CollectiveOp::kAllReduce, mebibytes(12)) ==
        Approx(kWall + 72.8 + 28 + 91.7504 + 65.536 + 36));
}

TEST_CASE("nccl: latency settings shift every hop and never below nothing", "[unit][cost]") {
  Communicator c = ampere();
  c.intra_latency = microseconds(4.4);
  // LL's 0.6 us and 1 us more, 14 times
  CHECK(time_us(c, forced(CollectiveAlgorithm::kRing, CollectiveProtocol::kLl), primitives::CollectiveOp::kAllReduce,
                bytes(0)) == Approx(kAlone + 6.6 + 14 * 1.6));
  c.intra_latency = Time::zero();
  CHECK(time_us(c, forced(CollectiveAlgorithm::kRing, CollectiveProtocol::kLl), primitives::CollectiveOp::kAllReduce,
                bytes(0)) == Approx(kAlone + 6.6));
}

TEST_CASE("nccl: all_to_all leaves a node through its network", "[unit][cost]") {
  // A GPU sends 8/16 of 16 MiB away, eight do: 64 MiB / 192 GB/s = 349.525 us. One message to 7 near and 8 far peers,
  // eight at a time: 8.4 + 7/8 * 3.4 + 8/8 * 14 = 25.375 us; growth 18 * log2(5) = 41.7947 us
  CHECK(time_us(ampere(2), forced(CollectiveAlgorithm::kDirect, CollectiveProtocol::kSimple),
                primitives::CollectiveOp::kAllToAll,
                mebibytes(16)) == Approx(kWallOnce + 349.5253 + 25.375 + 41.7947).epsilon(1e-6));
}

TEST_CASE("nccl: the tree's correction is NCCL's table at powers of two and straight between", "[unit][cost]") {
  CHECK(tree_correction(CollectiveProtocol::kLl, bytes(1)) == 1.0);
  CHECK(tree_correction(CollectiveProtocol::kLl, bytes(64 * 4096)) == Approx(0.4));    // 2^12 units
  CHECK(tree_correction(CollectiveProtocol::kLl, bytes(64 * 16384)) == Approx(0.5));   // 2^14
  CHECK(tree_correction(CollectiveProtocol::kLl, bytes(64 * 6144)) == Approx(0.4));    // 0.4 on both sides
  CHECK(tree_correction(CollectiveProtocol::kLl, bytes(64 * 24576)) == Approx(0.55));  // between 0.5 and 0.6
  CHECK(tree_correction(CollectiveProtocol::kSimple, terabytes(1)) == 0.9);
}

TEST_CASE("nccl: measured sweeps of 8 GPUs from 1 MiB on, without a table, to 10 % in the mean", "[unit][cost]") {
  for (const bool is_ampere : {true, false}) {
    const std::string path = std::string(DDLSIM_SOURCE_DATA) + "/../shared/data/collectives/all_reduce_" +
                             (is_ampere ? "a100" : "v100") + "_8gpu.csv";
    std::ifstream stream(path);
    if (!stream) {
      WARN("skipped: " << path << " is not there");
      continue;
    }
    Communicator c = ampere();
    c.memory = gigabytes_per_second(1555);
    if (!is_ampere) {
      c.generation = GpuGeneration::kVolta;
      c.fabric = GpuFabric::kNvlinkMesh;
      c.intra = gigabytes_per_second(150);
      c.memory = gigabytes_per_second(900);
    }
    const CollectiveModel model = CollectiveModel::create(c).value();
    std::string line;
    std::getline(stream, line);
    double sum = 0;
    double count = 0;
    while (std::getline(stream, line)) {
      std::istringstream cells(line);
      double size = 0;
      double time = 0;
      char comma = 0;
      REQUIRE(cells >> size >> comma >> time);
      sum += std::abs(model.cost(primitives::CollectiveOp::kAllReduce, bytes(size)).time / nanoseconds(time) - 1.0);
      count += 1;
    }
    INFO(path);
    REQUIRE(count > 1000);
    CHECK(sum / count <= 0.10);
  }
}

TEST_CASE("nccl: LL of a tree moves a share of the wire, until it is capped", "[unit][cost]") {
  const auto tree = forced(CollectiveAlgorithm::kDoubleTree, CollectiveProtocol::kLl);
  const auto slope = [&](double network) {
    Communicator c = ampere(4);
    c.inter = gigabytes_per_second(network);
    return time_us(c, tree, primitives::CollectiveOp::kAllReduce, gibibytes(2)) -
           time_us(c, tree, primitives::CollectiveOp::kAllReduce, gibibytes(1));
  };
  // 12 of 12.5 of 10 GB/s, by 3.8: 2.526316 GB/s; a GiB twice: 850.0456 ms
  CHECK(slope(10) == Approx(850045.6).epsilon(1e-6));
  // 200 GB/s would give 50.5; four nodes move 20.4 at most: 105.2688 ms
  CHECK(slope(200) == Approx(105268.8).epsilon(1e-6));
}

TEST_CASE("nccl: one tree alone has two thirds of two trees' bandwidth", "[unit][cost]") {
  const auto of = [](CollectiveAlgorithm algorithm, DataSize size) {
    return time_us(ampere(4), forced(algorithm, CollectiveProtocol::kSimple), primitives::CollectiveOp::kAllReduce,
                   size);
  };
  const auto slope = [&](CollectiveAlgorithm algorithm) {
    return of(algorithm, gigabytes(8)) - of(algorithm, gigabytes(4));
  };
  // The growth of Simple is by the same doublings for both and is small beside 4 GB.
  CHECK(slope(CollectiveAlgorithm::kTree) / slope(CollectiveAlgorithm::kDoubleTree) == Approx(1.5).epsilon(0.01));
}

TEST_CASE("nccl: calls take what they were measured to, whatever the tuner thinks", "[unit][cost]") {
  // 6.6 + 14 * 0.6 = 15 us by the tuner. H100 15.6, B200 25.4 us are measured (aiconfigurator), A100
  // 22.4 there, 35 and 44 elsewhere.
  const auto call = [](GpuGeneration generation) {
    Communicator c = ampere();
    c.generation = generation;
    return time_us(c, {}, primitives::CollectiveOp::kAllReduce, bytes(8));
  };
  CHECK(call(GpuGeneration::kVolta) == Approx(15).epsilon(1e-3));
  CHECK(call(GpuGeneration::kAmpere) == Approx(15 + 1.1 + 14 * 1.34).epsilon(1e-3));
  CHECK(call(GpuGeneration::kHopper) == Approx(15 - 1.8 + 14 * 0.19).epsilon(1e-3));
  CHECK(call(GpuGeneration::kBlackwell) == Approx(15 + 1.1 + 14 * 0.63).epsilon(1e-3));
  // Over PCIe nobody measured otherwise: 6.6 + 14 * 1.0.
  Communicator pcie = ampere();
  pcie.fabric = GpuFabric::kPcie;
  pcie.intra_latency = microseconds(5.7);
  CHECK(time_us(pcie, {}, primitives::CollectiveOp::kAllReduce, bytes(8)) == Approx(20.6).epsilon(1e-3));
}

TEST_CASE("nccl: before Ampere two nodes take rings for large messages and trees for small ones", "[unit][cost]") {
  const auto chosen = [](GpuGeneration generation, std::int64_t nodes) {
    Communicator c = ampere(nodes);
    c.generation = generation;
    return CollectiveModel::create(c).value().cost(primitives::CollectiveOp::kAllReduce, gibibytes(1)).algorithm;
  };
  CHECK(chosen(GpuGeneration::kVolta, 2) == CollectiveAlgorithm::kRing);
  CHECK(chosen(GpuGeneration::kAmpere, 2) == CollectiveAlgorithm::kDoubleTree);
  const auto small = [](std::int64_t nodes) {
    Communicator c = ampere(nodes);
    c.generation = GpuGeneration::kVolta;
    return CollectiveModel::create(c).value().cost(primitives::CollectiveOp::kAllReduce, kibibytes(1)).algorithm;
  };
  CHECK(small(2) == CollectiveAlgorithm::kDoubleTree);
  CHECK(small(4) == CollectiveAlgorithm::kDoubleTree);
  // Asked for, a tree's large messages have half the network: twice the 192 GB/s' time of Ampere's.
  Communicator c = ampere(2);
  const auto slope = [&](GpuGeneration generation) {
    c.generation = generation;
    const auto tree = forced(CollectiveAlgorithm::kDoubleTree, CollectiveProtocol::kSimple);
    c.intra = terabytes_per_second(9);
    return time_us(c, tree, primitives::CollectiveOp::kAllReduce, gigabytes(8)) -
           time_us(c, tree, primitives::CollectiveOp::kAllReduce, gigabytes(4));
  };
  // 4 GB over 192 GB/s and 0.9 of NCCL's table: 23.148 ms; Ampere's one more doubling takes 18 us besides.
  CHECK(slope(GpuGeneration::kVolta) == Approx(2 * 4e6 / 192 / 0.9));
  CHECK(slope(GpuGeneration::kAmpere) == Approx(4e6 / 192 / 0.9 + 18).epsilon(1e-4));
}

TEST_CASE("nccl: two servers sum small messages no slower than three", "[unit][cost]") {
  for (const auto& [name, generation] : hardware::kGpuGenerations) {
    CAPTURE(name);
    for (double size = 8; size <= 65536; size *= 2) {
      const auto time = [&, generation = generation](std::int64_t nodes) {
        Communicator c = ampere(nodes);
        c.generation = generation;
        return time_us(c, {}, primitives::CollectiveOp::kAllReduce, bytes(size));
      };
      CAPTURE(size);
      CHECK(time(2) <= time(3) * (1 + 1e-9));
    }
  }
}

TEST_CASE("nccl: channels by what joins GPUs, and by a server's cards between servers", "[unit][cost]") {
  const auto channels = [](GpuGeneration generation, GpuFabric fabric, std::int64_t nodes, std::int64_t per_node,
                           std::int64_t ports) {
    Communicator c = ampere(nodes);
    c.gpus = nodes * per_node;
    c.generation = generation;
    c.fabric = fabric;
    c.network_ports = ports;
    return nccl_channels(c);
  };
  using Gpu = GpuGeneration;
  CHECK(channels(Gpu::kVolta, GpuFabric::kNvlinkMesh, 1, 8, 1) == 12);
  CHECK(channels(Gpu::kVolta, GpuFabric::kNvswitch, 1, 16, 8) == 12);
  CHECK(channels(Gpu::kAmpere, GpuFabric::kNvswitch, 1, 8, 8) == 24);
  CHECK(channels(Gpu::kAmpere, GpuFabric::kPcie, 1, 8, 8) == 4);
  CHECK(channels(Gpu::kAmpere, GpuFabric::kNvlinkBridge, 1, 2, 1) == 12);
  CHECK(channels(Gpu::kHopper, GpuFabric::kNvswitch, 4, 8, 8) == 16);
  CHECK(channels(Gpu::kVolta, GpuFabric::kNvlinkMesh, 4, 8, 8) == 12);
  // One card: whatever joins the GPUs. One GPU: it has one card.
  for (const GpuFabric fabric : {GpuFabric::kNvswitch, GpuFabric::kNvlinkMesh, GpuFabric::kNvlinkBridge,
                                 GpuFabric::kPcie, GpuFabric::kHostMemory}) {
    CHECK(channels(Gpu::kAmpere, fabric, 4, 8, 1) == 4);
    CHECK(channels(Gpu::kAmpere, fabric, 4, 1, 8) == 4);
  }
}
