// Laws of the collectives' cost models, on random communicators.
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "ddlsim/cost/collective.h"
#include "ddlsim/cost/nccl.h"
#include "ddlsim/hardware/collective_table.h"

using namespace ddlsim;
using namespace ddlsim::cost;

namespace {

/// 1.2e-4 to 8e3, evenly in its logarithm.
double positive() { return std::exp(*rc::gen::inRange(-9000, 9000) / 1000.0); }

template <typename Enum>
Enum any(int count) {
  return static_cast<Enum>(*rc::gen::inRange(0, count));
}

Communicator random_communicator() {
  Communicator c;
  c.nodes = *rc::gen::inRange<std::int64_t>(1, 5000);
  c.gpus = c.nodes * *rc::gen::inRange<std::int64_t>(1, 17);
  c.generation = any<GpuGeneration>(5);
  c.fabric = any<GpuFabric>(5);
  c.transport = any<NetworkTransport>(5);
  c.intra = gigabytes_per_second(positive());
  c.inter = gigabytes_per_second(positive());
  c.network_ports = *rc::gen::inRange<std::int64_t>(1, 9);
  c.pcie = gigabytes_per_second(positive());
  c.memory = gigabytes_per_second(positive());
  c.crosses_sockets = *rc::gen::arbitrary<bool>();
  c.intra_latency = microseconds(positive());
  c.inter_latency = microseconds(positive());
  return c;
}

CollectiveLibrary random_library() {
  CollectiveLibrary library;
  library.kind = any<CollectiveLibraryKind>(4);
  return library;
}

primitives::CollectiveOp random_op() {
  return any<primitives::CollectiveOp>(static_cast<int>(primitives::kCollectiveOpCount));
}
DataSize random_size() { return bytes(std::exp(*rc::gen::inRange(0, 29000) / 1000.0)); }

Time time_of(const Communicator& c, const CollectiveLibrary& library, primitives::CollectiveOp op, DataSize size) {
  return CollectiveModel::create(c, library).value().cost(op, size).time;
}

constexpr double kRounding = 1 + 1e-12;

}  // namespace

TEST_CASE("law: no price is below its bytes at the rate of their wires", "[property]") {
  CHECK(rc::check("wires", [] {
    const Communicator c = random_communicator();
    const CollectiveLibrary library = random_library();
    const CollectiveModel model = CollectiveModel::create(c, library).value();
    const EffectiveRates rates = effective_rates(c, library);
    const auto op = random_op();
    for (const CollectiveLine& line : model.candidates(op)) {
      RC_ASSERT(line.wire_inter == 0 || c.nodes > 1);
      if (c.nodes > 1) {
        RC_ASSERT(line.wire_inter > 0);
        RC_ASSERT(bytes(line.wire_inter) / rates.inter <= line.per_byte * kRounding);
      }
      if (library.kind != CollectiveLibraryKind::kNccl) continue;
      RC_ASSERT((line.wire_intra > 0) == (c.gpus > c.nodes));
      if (c.gpus > c.nodes) RC_ASSERT(bytes(line.wire_intra) / rates.intra <= line.per_byte * kRounding);
    }
  }));
}

TEST_CASE("law: every algorithm takes longer for more bytes", "[property]") {
  CHECK(rc::check("size", [] {
    const CollectiveModel model = CollectiveModel::create(random_communicator(), random_library()).value();
    const DataSize size = random_size();
    const DataSize larger = size * (1 + positive() / 1000);
    for (const CollectiveLine& line : model.candidates(random_op())) {
      RC_ASSERT(line.time(size) <= line.time(larger) * kRounding);
    }
  }));
}

TEST_CASE("law: NCCL as a whole takes longer for more bytes", "[property]") {
  CHECK(rc::check("choice", [] {
    const CollectiveModel model = CollectiveModel::create(random_communicator()).value();
    const primitives::CollectiveOp op = random_op();
    const DataSize size = random_size();
    RC_ASSERT(model.cost(op, size).time <= model.cost(op, size * (1 + positive())).time * kRounding);
  }));
}

TEST_CASE("law: faster links, memory and shorter latencies never cost time", "[property]") {
  CHECK(rc::check("rates", [] {
    const Communicator base = random_communicator();
    const CollectiveLibrary library = random_library();
    const primitives::CollectiveOp op = random_op();
    const DataSize size = random_size();
    const double factor = 1 + positive();
    Communicator better = base;
    switch (*rc::gen::inRange(0, 6)) {
      case 0: better.intra = better.intra * factor; break;
      case 1: better.inter = better.inter * factor; break;
      case 2: better.pcie = better.pcie * factor; break;
      case 3: better.memory = better.memory * factor; break;
      case 4: better.intra_latency = better.intra_latency / factor; break;
      default: better.inter_latency = better.inter_latency / factor; break;
    }
    RC_ASSERT(time_of(better, library, op, size) <= time_of(base, library, op, size) * kRounding);
  }));
}

TEST_CASE("law: a library's own choice is no worse than one forced upon NCCL", "[property]") {
  CHECK(rc::check("forced", [] {
    const Communicator c = random_communicator();
    RC_PRE(c.gpus > 1);
    const DataSize size = random_size();
    CollectiveLibrary forced;
    forced.algorithm = CollectiveAlgorithm::kRing;
    RC_ASSERT(time_of(c, {}, primitives::CollectiveOp::kAllReduce, size) <=
              time_of(c, forced, primitives::CollectiveOp::kAllReduce, size));
  }));
}

TEST_CASE("law: bus bandwidth never passes its limit", "[property]") {
  CHECK(rc::check("limit", [] {
    const Communicator c = random_communicator();
    RC_PRE(c.gpus > 1);
    const CollectiveModel model = CollectiveModel::create(c).value();
    const primitives::CollectiveOp op = random_op();
    const DataSize size = random_size() * 1e3;
    RC_ASSERT(size / model.cost(op, size).time * primitives::bus_bandwidth_factor(op, c.gpus) <=
              model.bus_bandwidth_limit(op) * (1 / 0.9));  // a tree's correction peaks 1/0.9 above its limit
  }));
}

TEST_CASE("law: a table stays between its neighbouring measurements", "[property]") {
  CHECK(rc::check("table", [] {
    std::vector<primitives::CollectiveMeasurement> points;
    DataSize size = random_size();
    const int count = *rc::gen::inRange(2, 12);
    for (int i = 0; i < count; ++i) {
      points.push_back({primitives::CollectiveOp::kAllReduce, 8, 1, size, microseconds(positive()), {}});
      size = size * (1.001 + positive());
    }
    const CollectiveTable table = CollectiveTable::create(points).value();
    const auto k = static_cast<std::size_t>(*rc::gen::inRange(0, count - 1));
    const double share = *rc::gen::inRange(0, 1001) / 1000.0;
    const DataSize between = points[k].size + (points[k + 1].size - points[k].size) * share;
    const Time time = table.time(primitives::CollectiveOp::kAllReduce, 8, 1, between)->time;
    RC_ASSERT(time >= min(points[k].time, points[k + 1].time) * (1 - 1e-12));
    RC_ASSERT(time <= max(points[k].time, points[k + 1].time) * kRounding);
    const Time beyond = table.time(primitives::CollectiveOp::kAllReduce, 8, 1, points.back().size * 2)->time;
    RC_ASSERT(beyond > points.back().time);
  }));
}
