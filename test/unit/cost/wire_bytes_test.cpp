// What each algorithm puts on the wires, worked by hand, and that its price is made of it.
#include <catch2/catch.hpp>

#include "ddlsim/cost/collective.h"
#include "ddlsim/cost/nccl.h"
#include "ddlsim/hardware/collective_table.h"
#include "unit/cost/communicators.h"

using namespace ddlsim;
using namespace ddlsim::cost;
using ddlsim::test::hopper;
using primitives::CollectiveOp;
using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveLibraryKind;

namespace {

struct Gigabytes {
  double intra = 0;
  double inter = 0;
};

/// Of 1 GB.
Gigabytes sent(const Communicator& c, Kind kind, std::optional<Algorithm> algorithm, CollectiveOp op,
               DataSize size = gigabytes(1)) {
  CollectiveLibrary library;
  library.kind = kind;
  library.algorithm = algorithm;
  const WireBytes wires = CollectiveModel::create(c, library).value().cost(op, size).wire;
  return {wires.intra / size, wires.inter / size};
}

void check(const Gigabytes& is, const Gigabytes& must) {
  CHECK(is.intra == Approx(must.intra));
  CHECK(is.inter == Approx(must.inter));
}

}  // namespace

TEST_CASE("wire bytes: NCCL's all_reduce by algorithm", "[unit][cost]") {
  const auto of = [](std::int64_t nodes, Algorithm algorithm) {
    return sent(hopper(nodes), Kind::kNccl, algorithm, CollectiveOp::kAllReduce);
  };
  check(of(1, Algorithm::kRing), {2 * 7.0 / 8, 0});
  check(of(4, Algorithm::kRing), {2 * 31.0 / 32, 2 * 31.0 / 32});
  check(of(1, Algorithm::kDoubleTree), {2, 0});
  check(of(2, Algorithm::kDoubleTree), {2, 1});  // each node is the root of one tree and a leaf of the other
  check(of(4, Algorithm::kDoubleTree), {2, 2});
  check(of(2, Algorithm::kTree), {3, 1.5});
  check(of(4, Algorithm::kTree), {3, 3});
  check(of(1, Algorithm::kNvls), {1 + 1.0 / 8, 0});
  check(of(2, Algorithm::kNvlsTree), {1 + 1.0 / 8, 1});
  check(of(4, Algorithm::kNvlsTree), {1 + 1.0 / 8, 2});
  check(of(4, Algorithm::kHierarchical), {2 * 7.0 / 8, 2 * 3.0 / 4});
}

TEST_CASE("wire bytes: NCCL's other operations", "[unit][cost]") {
  const auto of = [](std::int64_t nodes, CollectiveOp op) {
    return sent(hopper(nodes), Kind::kNccl, std::nullopt, op);
  };
  for (const CollectiveOp op : {CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
    check(of(1, op), {7.0 / 8, 0});
    check(of(4, op), {31.0 / 32, 31.0 / 32});
  }
  for (const CollectiveOp op : {CollectiveOp::kBroadcast, CollectiveOp::kReduce}) {
    check(of(1, op), {1, 0});
    check(of(4, op), {1, 1});
  }
  // Every GPU sends 1/32 to each other: 7 stay in the node, 24 leave it, of all 8 GPUs.
  check(of(1, CollectiveOp::kAllToAll), {7.0 / 8, 0});
  check(of(4, CollectiveOp::kAllToAll), {7.0 / 32, 8 * 24.0 / 32});
  check(of(1, CollectiveOp::kSendRecv), {1, 0});
  check(of(4, CollectiveOp::kSendRecv), {1, 1});
}

TEST_CASE("wire bytes: one GPU per node has the network alone, one rank nothing", "[unit][cost]") {
  Communicator alone = hopper(4);
  alone.gpus = 4;
  check(sent(alone, Kind::kNccl, Algorithm::kRing, CollectiveOp::kAllReduce), {0, 1.5});
  alone.gpus = alone.nodes = 1;
  check(sent(alone, Kind::kNccl, std::nullopt, CollectiveOp::kAllReduce), {0, 0});
}

TEST_CASE("wire bytes: MPI by algorithm", "[unit][cost]") {
  Communicator c = hopper(4);
  c.memory = gigabytes_per_second(3000);
  const auto opt = [&](std::optional<Algorithm> algorithm, CollectiveOp op, DataSize size = gigabytes(1)) {
    return sent(c, Kind::kMpiOpt, algorithm, op, size);
  };
  // lg 8 = 3 exchanges inside, lg 4 = 2 between nodes, of all 8 ranks of a node.
  CollectiveLibrary exchanges;
  exchanges.kind = Kind::kMpiOpt;
  exchanges.algorithm = Algorithm::kRecursiveDoubling;
  const CollectiveModel doubling = CollectiveModel::create(c, exchanges).value();
  const auto& lines = doubling.candidates(CollectiveOp::kAllReduce);
  REQUIRE(lines.size() == 2);
  check({lines[0].wire_intra, lines[0].wire_inter}, {1, 16});  // by the CPU, through the mapped window
  check({lines[1].wire_intra, lines[1].wire_inter}, {3, 16});
  check(opt(Algorithm::kRabenseifner, CollectiveOp::kAllReduce), {2 * 7.0 / 8, 2 * 3.0 / 4});
  check(opt(Algorithm::kRing, CollectiveOp::kAllReduce), {2 * 31.0 / 32, 2 * 31.0 / 32});
  check(opt(Algorithm::kHierarchical, CollectiveOp::kAllReduce), {2 * 7.0 / 8, 2 * 3.0 / 4});
  check(sent(c, Kind::kBaidu, std::nullopt, CollectiveOp::kAllReduce), {2 * 31.0 / 32, 2 * 31.0 / 32});
  // Small messages by halving or trees, large ones by rings and pairs.
  check(opt(std::nullopt, CollectiveOp::kAllGather, bytes(1024)), {7.0 / 8, 3.0 / 4});
  check(opt(std::nullopt, CollectiveOp::kAllGather), {31.0 / 32, 31.0 / 32});
  check(opt(std::nullopt, CollectiveOp::kReduceScatter, bytes(1024)), {7.0 / 8, 3.0 / 4});
  check(opt(std::nullopt, CollectiveOp::kReduceScatter), {8 * 31.0 / 32, 8 * 31.0 / 32});
  check(opt(std::nullopt, CollectiveOp::kAllToAll, bytes(1024)), {3.0 / 2, 16.0 / 2});
  check(opt(std::nullopt, CollectiveOp::kAllToAll), {8 * 31.0 / 32, 8 * 31.0 / 32});
  check(opt(std::nullopt, CollectiveOp::kBroadcast, bytes(1024)), {3, 2});
  check(opt(std::nullopt, CollectiveOp::kBroadcast), {7.0 / 8 + 31.0 / 32, 3.0 / 4 + 31.0 / 32});
  check(opt(std::nullopt, CollectiveOp::kReduce, bytes(1024)), {3, 2});
  check(opt(std::nullopt, CollectiveOp::kReduce), {2 * 7.0 / 8, 2 * 3.0 / 4});
  check(opt(std::nullopt, CollectiveOp::kSendRecv), {1, 1});
  // Not a power of two: folded into the power below, and back.
  c.gpus = 24;
  c.nodes = 3;
  check(sent(c, Kind::kMpiOpt, Algorithm::kRabenseifner, CollectiveOp::kAllReduce), {2 * 7.0 / 8 + 2, 2 * 2.0 / 3 + 2});
}

TEST_CASE("wire bytes: staged in the host, a GPU's own link carries the buffer once each way", "[unit][cost]") {
  const Communicator c = hopper(4);
  check(sent(c, Kind::kMpi, std::nullopt, CollectiveOp::kAllReduce), {1, 2 * 3.0 / 4});
  check(sent(c, Kind::kMpi, std::nullopt, CollectiveOp::kAllGather), {1, 31.0 / 32});
}

TEST_CASE("wire bytes: a measured table is taken for a ring", "[unit][cost]") {
  std::vector<primitives::CollectiveMeasurement> points(2);
  for (std::size_t i = 0; i < 2; ++i) {
    points[i].gpus = 32;
    points[i].nodes = 4;
    points[i].size = megabytes(static_cast<double>(i + 1));
    points[i].time = milliseconds(1);
  }
  const auto table = CollectiveTable::create(points);
  REQUIRE(table);
  CollectiveLibrary tree;
  tree.algorithm = Algorithm::kDoubleTree;
  const auto model = CollectiveModel::create(hopper(4), tree, std::make_shared<const CollectiveTable>(*table)).value();
  const WireBytes measured = model.cost(CollectiveOp::kAllReduce, megabytes(1)).wire;
  CHECK(measured.intra.in(megabytes) == Approx(2 * 31.0 / 32));
  CHECK(measured.inter.in(megabytes) == Approx(2 * 31.0 / 32));
  CHECK(model.cost(CollectiveOp::kBroadcast, megabytes(1)).wire.inter.in(megabytes) == Approx(1));
  // One GPU in each of four servers has no wire inside; four in one server have none between.
  const auto of_four = [&](std::int64_t nodes) {
    for (primitives::CollectiveMeasurement& one : points) {
      one.gpus = 4;
      one.nodes = nodes;
    }
    Communicator four = hopper(nodes);
    four.gpus = 4;
    const auto made = std::make_shared<const CollectiveTable>(CollectiveTable::create(points).value());
    const WireBytes wires =
        CollectiveModel::create(four, {}, made).value().cost(CollectiveOp::kAllReduce, megabytes(1)).wire;
    return Gigabytes{wires.intra.in(megabytes), wires.inter.in(megabytes)};
  };
  check(of_four(4), {0, 1.5});
  check(of_four(1), {1.5, 0});
}

TEST_CASE("wire bytes: a Simple ring's price is its bytes at the slower wire's rate", "[unit][cost]") {
  for (const double gigabytes_out : {40.0, 400.0, 4000.0}) {
    Communicator c = hopper(4);
    c.inter = gigabytes_per_second(gigabytes_out);
    const EffectiveRates rates = effective_rates(c, {});
    CollectiveLibrary library;
    library.algorithm = Algorithm::kRing;
    library.protocol = CollectiveProtocol::kSimple;
    const auto model = CollectiveModel::create(c, library).value();
    const CollectiveLine& ring = model.candidates(CollectiveOp::kAllReduce).front();
    const Time slower = max(bytes(ring.wire_intra) / rates.intra, bytes(ring.wire_inter) / rates.inter);
    CHECK(ring.per_byte / slower == Approx(1).epsilon(1e-12));
  }
}
