#include "ddlsim/cost/mpi_collectives.h"

#include <catch2/catch.hpp>
#include <vector>

#include "unit/cost/communicators.h"

using namespace ddlsim;
using namespace ddlsim::cost;
using ddlsim::test::pascal;

namespace {

using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveLibraryKind;
using Op = primitives::CollectiveOp;

struct Expectation {
  Op op;
  Algorithm algorithm;
  double latency;   // of an empty message, us
  double per_byte;  // ns
};

Time time_of(Kind kind, const Expectation& expected, DataSize size) {
  CollectiveLibrary library;
  library.kind = kind;
  library.algorithm = expected.algorithm;
  const auto cost = CollectiveModel::create(pascal(3, 4), library).value().cost(expected.op, size);
  CHECK(cost.algorithm == expected.algorithm);
  return cost.time;
}

void check(Kind kind, const std::vector<Expectation>& expectations) {
  for (const Expectation& expected : expectations) {
    CAPTURE(name_of(primitives::kCollectiveOps, expected.op), name_of(kCollectiveAlgorithms, expected.algorithm));
    const Time empty = time_of(kind, expected, DataSize::zero());
    CHECK(empty.in(microseconds) == Approx(expected.latency).epsilon(1e-9));
    CHECK((time_of(kind, expected, gigabytes(1)) - empty).in(seconds) == Approx(expected.per_byte).epsilon(1e-9));
  }
}

}  // namespace

// Of lg 12, rounded up inside and between, two exchanges stay in a node and two leave it. Messages take 0.5 us inside a
// node and 1.1 us between nodes: a tree 2 * 0.5 + 2 * 1.1 = 3.2 us; a ring's 11 hops 9 * 0.5 + 2 * 1.1 = 6.7 us; two
// pointers are looked up in 10 us. A byte takes 1/10 ns inside, 1/12 between, 1/5 to sum, 1/12 to cross PCIe each way;
// halving 3/4 * 1/10 + 2/3 * 1/12 = 0.13056 ns; whole exchanges 2 * 1/10 + 2 * 4 * 1/12 = 0.86667 ns; 11/12 of a
// buffer are somebody else's. Twelve is no power of two: all_reduce folds with two messages and one sum more.
TEST_CASE("mpi: latency and rate of every algorithm on three nodes of four, by hand", "[unit][cost]") {
  check(
      Kind::kMpi,
      {
          {Op::kAllReduce, Algorithm::kRecursiveDoubling, 10 + 3.2 + 1, 0.8666666667 + 0.2 + 5 * 0.2 + 2.0 / 12},
          {Op::kAllReduce, Algorithm::kRabenseifner, 10 + 6.4 + 1, 2 * 0.1305555556 + 0.2 + 0.2 * 23.0 / 12 + 2.0 / 12},
          {Op::kAllReduce, Algorithm::kRing, 10 + 13.4, 0.1 * 22.0 / 12 + 0.2 * 11.0 / 12 + 2.0 / 12},
          // 2 (3 * 0.5 + 2 * 1.1) us; 3/4 summed inside, 2/3 of a quarter between
          {Op::kAllReduce, Algorithm::kHierarchical, 10 + 7.4, 2 * 0.1305555556 + 0.2 * 11.0 / 12 + 2.0 / 12},
          {Op::kAllGather, Algorithm::kRecursiveDoubling, 10 + 3.2, 0.1305555556 + 13.0 / 144},
          {Op::kAllGather, Algorithm::kRing, 10 + 6.7, 0.1 * 11.0 / 12 + 13.0 / 144},
          {Op::kReduceScatter, Algorithm::kRabenseifner, 10 + 3.2, 0.1305555556 + 0.2 * 11.0 / 12 + 13.0 / 144},
          {Op::kReduceScatter, Algorithm::kPairwise, 10 + 6.7, 0.1 * 4 * 11.0 / 12 + 0.2 * 11.0 / 12 + 13.0 / 144},
          {Op::kAllToAll, Algorithm::kBruck, 10 + 3.2, 0.8666666667 / 2 + 2.0 / 12},
          {Op::kAllToAll, Algorithm::kPairwise, 10 + 6.7, 0.1 * 4 * 11.0 / 12 + 2.0 / 12},
          {Op::kBroadcast, Algorithm::kBinomial, 10 + 3.2, 2 * 0.1 + 2.0 / 12 + 1.0 / 12},
          {Op::kBroadcast, Algorithm::kRing, 10 + 3.2 + 6.7, 0.1305555556 + 0.1 * 11.0 / 12 + 1.0 / 12},
          {Op::kReduce, Algorithm::kBinomial, 10 + 3.2, 2 * 0.1 + 2.0 / 12 + 4 * 0.2 + 1.0 / 12},
          {Op::kReduce, Algorithm::kRabenseifner, 10 + 6.4, 2 * 0.1305555556 + 0.2 * 11.0 / 12 + 1.0 / 12},
          {Op::kSendRecv, Algorithm::kDirect, 10 + 1.1, 0.1 + 2.0 / 12},
      });
}

// From GPU memory: 1.9 us a message anywhere, so a tree takes 7.6 us and a ring 20.9 us; 0.2 us for both pointers; 6 us
// to launch each sum. A byte takes 1/12 ns everywhere and 3/720 ns to sum, and crosses no PCIe on the way to the host:
// halving 1/12 * (3/4 + 2/3) = 0.11806 ns.
TEST_CASE("mpi-opt: latency and rate of every algorithm that sums, by hand", "[unit][cost]") {
  const double halving = (0.75 + 2.0 / 3) / 12;
  const double sum = 3.0 / 720;
  check(
      Kind::kMpiOpt,
      {
          {Op::kAllReduce, Algorithm::kRabenseifner, 0.2 + 15.2 + 3.8 + 5 * 6, 2 * halving + 2.0 / 12 + sum * 23 / 12},
          {Op::kAllReduce, Algorithm::kRing, 0.2 + 41.8 + 11 * 6, 22.0 / 144 + sum * 11 / 12},
          {Op::kAllReduce, Algorithm::kHierarchical, 0.2 + 2 * 5 * 1.9 + 5 * 6, 2 * halving + sum * 11 / 12},
          {Op::kReduceScatter, Algorithm::kRabenseifner, 0.2 + 7.6 + 4 * 6, halving + sum * 11 / 12},
          {Op::kReduceScatter, Algorithm::kPairwise, 0.2 + 20.9 + 11 * 6, 4 * 11.0 / 144 + sum * 11 / 12},
          {Op::kReduce, Algorithm::kBinomial, 0.2 + 7.6 + 4 * 6, 4.0 / 12 + sum * 4},
          {Op::kReduce, Algorithm::kRabenseifner, 0.2 + 15.2 + 4 * 6, 2 * halving + sum * 11 / 12},
      });
}

TEST_CASE("mpi-opt: a ring where ranks have no halves", "[unit][cost]") {
  const auto takes = [](int gpus, std::optional<Algorithm> algorithm) {
    Communicator c = pascal(gpus, 1);
    CollectiveLibrary library;
    library.kind = Kind::kMpiOpt;
    library.algorithm = algorithm;
    return CollectiveModel::create(c, library).value().cost(Op::kAllReduce, megabytes(64)).time;
  };
  for (const int gpus : {3, 5, 6, 7}) {
    CAPTURE(gpus);
    CHECK(takes(gpus, {}) == takes(gpus, Algorithm::kRing));
    CHECK(takes(gpus, {}) < takes(gpus, Algorithm::kRabenseifner));
  }
}

// One node of four: three quarters of a buffer are somebody else's, at 1/10 ns a byte, and cross PCIe each way.
TEST_CASE("mpi: pairwise exchanges inside a node do not wait for a network", "[unit][cost]") {
  Communicator c = pascal(3, 4);
  c.gpus = 4;
  c.nodes = 1;
  CollectiveLibrary library;
  library.kind = Kind::kMpi;
  library.algorithm = Algorithm::kPairwise;
  const auto model = CollectiveModel::create(c, library).value();
  const Time empty = model.cost(Op::kAllToAll, DataSize::zero()).time;
  const auto full = model.cost(Op::kAllToAll, gigabytes(1));
  CHECK((full.time - empty).in(seconds) == Approx(0.1 * 3.0 / 4 + 2.0 / 12));
  CHECK(full.wire.inter == DataSize::zero());
}

TEST_CASE("mpi: nodes of one GPU send nothing inside them", "[unit][cost]") {
  Communicator c = pascal(3, 4);
  c.gpus = 3;
  CollectiveLibrary library;
  library.kind = Kind::kMpiOpt;  // nothing is staged in the host's memory, which would count
  library.algorithm = Algorithm::kRing;
  const auto cost = CollectiveModel::create(c, library).value().cost(Op::kAllGather, megabytes(3));
  CHECK(cost.wire.intra == DataSize::zero());
  CHECK(cost.wire.inter.in(megabytes) == Approx(2));
}

// Four GPUs whose copies share one host link of 15.754 GB/s have 3 of its 12 GB/s each: 1/3 ns a byte each way, not
// 1/12.
TEST_CASE("mpi: what a server's GPUs copy to the host at once shares its link", "[unit][cost]") {
  Communicator c = pascal(3, 4);
  CollectiveLibrary library;
  library.kind = Kind::kMpi;
  library.algorithm = Algorithm::kRabenseifner;
  const auto slope = [&] {
    const auto model = CollectiveModel::create(c, library).value();
    const Time empty = model.cost(Op::kAllReduce, DataSize::zero()).time;
    return (model.cost(Op::kAllReduce, gigabytes(1)).time - empty).in(seconds);
  };
  const double alone = slope();
  c.host_share = c.pcie;
  CHECK(slope() == Approx(alone));
  c.host_share = c.pcie / 4.0;
  CHECK(slope() == Approx(alone + 2.0 / 3 - 2.0 / 12));
}
