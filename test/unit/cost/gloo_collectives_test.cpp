#include "ddlsim/cost/gloo_collectives.h"

#include <catch2/catch.hpp>
#include <vector>

#include "ddlsim/hardware/node.h"

using namespace ddlsim;
using namespace ddlsim::cost;

namespace {

using Algorithm = CollectiveAlgorithm;
using Op = primitives::CollectiveOp;

/// Servers of one kind: PCIe 3.0, of which 12 GB/s carry data, and a network that carries what it says.
Communicator servers(std::int64_t nodes, std::int64_t per_node, Bandwidth network) {
  Communicator c;
  c.gpus = nodes * per_node;
  c.nodes = nodes;
  c.intra = c.pcie = gigabytes_per_second(15.754);
  c.inter = network;
  c.intra_latency = microseconds(5.7);
  c.inter_latency = microseconds(14);
  return c;
}

CollectiveLibrary gloo() {
  CollectiveLibrary library;
  library.kind = CollectiveLibraryKind::kGloo;
  library.inter_efficiency = 1;
  return library;
}

Time time_of(const Communicator& c, Op op, DataSize size, const CollectiveLibrary& library = gloo()) {
  return CollectiveModel::create(c, library).value().cost(op, size).time;
}

}  // namespace

TEST_CASE("gloo: the header's broadcast at 1 Gb/s and 10 ms", "[unit][cost]") {
  Communicator c = servers(8, 1, gigabits_per_second(1));
  c.inter_latency += milliseconds(10) - microseconds(30);
  const Time copies = megabytes(134.217728) / gigabytes_per_second(6);
  const Time time = time_of(c, Op::kBroadcast, megabytes(134.217728));
  CHECK((time - copies).in(seconds) == Approx(6 * 1.073741824 + 0.060));
}

// A message takes 30 us one way, a byte 0.4 ns through a connection (2.5 GB/s, the loopback's) and 1/12 ns through the
// ports, which four ranks share; a second of 12 GB/s each to the host and back is 1/6 ns. A segment of 1 MiB waits 30
// us more: 0.4 + 0.028610 ns. Twelve ranks: 11/12 of a buffer are somebody else's, a tree of four levels.
TEST_CASE("gloo: latency and rate of every operation on three servers of four, by hand", "[unit][cost]") {
  const Communicator c = servers(3, 4, gigabytes_per_second(12));
  const double copies = 1.0 / 6;
  const double rest = 11.0 / 12;
  const double segment = 0.4 + 30e3 / 1048576;
  struct Expectation {
    Op op;
    Algorithm algorithm;
    double latency;  // us
    double small;    // ns per byte
    double large;    // beyond 24 MiB
  };
  const double tree = 0.4 + 8.0 / 12 + 12.0 / 12 + 16.0 / 12;
  const std::vector<Expectation> expectations{
      {Op::kAllReduce, Algorithm::kRing, 44 * 30, 2 * rest * 0.4, 2 * rest * segment},
      {Op::kReduceScatter, Algorithm::kRing, 22 * 30, rest * 0.4, rest * segment},
      {Op::kReduce, Algorithm::kRing, 22 * 30, rest * 0.8, rest * (segment + 0.4)},
      {Op::kAllGather, Algorithm::kRing, 22 * 30, rest * 0.4, rest * 0.4},
      {Op::kBroadcast, Algorithm::kBinomial, 8 * 30, tree, tree},
      {Op::kAllToAll, Algorithm::kPairwise, 2 * 30, rest * 0.4, rest * 0.4},
      {Op::kSendRecv, Algorithm::kDirect, 2 * 30, 0.4, 0.4},
  };
  for (const Expectation& expected : expectations) {
    CAPTURE(name_of(primitives::kCollectiveOps, expected.op));
    const auto model = CollectiveModel::create(c, gloo()).value();
    const CollectiveCost cost = model.cost(expected.op, mebibytes(24));
    CHECK(cost.algorithm == expected.algorithm);
    CHECK(cost.provenance == Provenance::kAssumed);
    const Time empty = time_of(c, expected.op, DataSize::zero());
    CHECK(empty.in(microseconds) == Approx(expected.latency));
    CHECK((time_of(c, expected.op, megabytes(10)) - empty).in(milliseconds) == Approx(10 * (expected.small + copies)));
    const Time between = time_of(c, expected.op, gigabytes(2)) - time_of(c, expected.op, gigabytes(1));
    CHECK(between.in(seconds) == Approx(expected.large + copies));
  }
  // Both lines of a ring meet where segments become shorter than 1 MiB.
  CHECK(time_of(c, Op::kAllReduce, mebibytes(24)).in(seconds) ==
        Approx(time_of(c, Op::kAllReduce, mebibytes(24) + bytes(1)).in(seconds)).epsilon(1e-6));
}

TEST_CASE("gloo: where the CPU sums slower than bytes come, no size is a cliff", "[unit][cost]") {
  // Two servers of one GPU at 400 Gb/s: below 4 MiB a buffer jumped from the wire's time to the CPU's, at 5 GB/s.
  const Communicator c = servers(2, 1, gigabits_per_second(400));
  Time before = time_of(c, Op::kAllReduce, kibibytes(128));
  for (double size = 128 * 1.05; size < 16384; size *= 1.05) {
    const Time now = time_of(c, Op::kAllReduce, kibibytes(size));
    CHECK(now >= before);
    CHECK(now < before * 1.06);
    before = now;
  }
}

TEST_CASE("gloo: one server has no network, and waits for its loopback", "[unit][cost]") {
  const Communicator c = servers(1, 4, Bandwidth::zero());
  CHECK(time_of(c, Op::kBroadcast, DataSize::zero()).in(microseconds) == Approx(4 * 30));
  CHECK(time_of(c, Op::kBroadcast, gigabytes(1)).in(seconds) == Approx(2 * 0.4 + 1.0 / 6 + 120e-6));
  const auto model = CollectiveModel::create(c, gloo()).value();
  CHECK(model.cost(Op::kBroadcast, gigabytes(1)).wire.inter == DataSize::zero());
}

TEST_CASE("gloo: a connection is bounded by its window and by what the cloud lets it carry", "[unit][cost]") {
  Communicator c = servers(2, 1, gigabits_per_second(100));
  const auto rate = [&] {
    const Time time = time_of(c, Op::kSendRecv, gigabytes(2)) - time_of(c, Op::kSendRecv, gigabytes(1));
    return gigabytes(1) / (time - gigabytes(1) / gigabytes_per_second(6));
  };
  CHECK(rate().in(gigabytes_per_second) == Approx(12));  // the card's PCIe
  c.connection = gigabits_per_second(5);
  CHECK(rate().in(gigabits_per_second) == Approx(5));
  c.inter_latency += milliseconds(10) - microseconds(30);
  CHECK(rate().in(gigabytes_per_second) == Approx(mebibytes(3) / milliseconds(20) / gigabytes_per_second(1)));
}

TEST_CASE("gloo: EC2's limit comes with the instance", "[unit][cost]") {
  hardware::Cluster cluster;
  cluster.nodes = 2;
  CHECK(communicator_of(cluster).connection == Bandwidth::infinity());
  cluster.node.tariff.provider = "AWS";
  CHECK(communicator_of(cluster).connection.in(gigabits_per_second) == Approx(5));
  cluster.node.tariff.provider = "aws";
  CHECK(communicator_of(cluster).connection.in(gigabits_per_second) == Approx(5));
  cluster.node.tariff.provider = "GCP";
  CHECK(communicator_of(cluster).connection == Bandwidth::infinity());
}

TEST_CASE("gloo: an algorithm that it does not have, and NCCL's protocols, are refused", "[unit][cost]") {
  const Communicator c = servers(2, 2, gigabits_per_second(10));
  CollectiveLibrary library = gloo();
  library.algorithm = Algorithm::kTree;
  CHECK(CollectiveModel::create(c, library).error().code == ErrorCode::kUnsupported);
  library.algorithm = Algorithm::kRing;
  CHECK(time_of(c, Op::kAllReduce, mebibytes(8), library) == time_of(c, Op::kAllReduce, mebibytes(8)));
  library.protocol = CollectiveProtocol::kSimple;
  CHECK(CollectiveModel::create(c, library).error().code == ErrorCode::kUnsupported);
}
