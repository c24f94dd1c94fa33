#include "ddlsim/cost/parameter_server.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

using namespace ddlsim;
using namespace ddlsim::cost;

namespace {

/// Rates so chosen that one byte takes 1 ms at the copies, 3 ms on the wire, and next to nothing to sum.
PsFabric slow_wire() {
  PsFabric fabric;
  fabric.pcie = bytes_per_second(1000);
  fabric.node_network = bytes_per_second(1000.0 / 3);
  fabric.server_network = Bandwidth::infinity();
  fabric.server_memory = Bandwidth::infinity();
  return fabric;
}

/// The same pipeline, piece by piece.
class ByPiece {
 public:
  explicit ByPiece(const PsFabric& fabric) : path_(ps_path(fabric, fabric.servers)) {}
  Time send(Time ready, double size, int count) {
    for (int i = 0; i < count; ++i) {
      Time at = ready;
      for (std::size_t s = 0; s < kPsStations; ++s) {
        at = max(at + path_.travel[s], free_[s]) + path_.per_byte[s] * size + path_.per_message[s];
        free_[s] = at;
      }
    }
    return free_.back();
  }

 private:
  PsPath path_;
  std::array<Time, kPsStations> free_{};
};

double ms(Time time) { return time.in(milliseconds); }

}  // namespace

TEST_CASE("ps: the header's worked example", "[unit][cost]") {
  PsPipeline one(slow_wire());
  CHECK(ms(one.push_and_pull(Time::zero(), {.piece = bytes(1)})) == Approx(8));
  PsPipeline ten(slow_wire());
  CHECK(ms(ten.push_and_pull(Time::zero(), {.piece = bytes(1), .count = 10})) == Approx(35));  // 8 + 9 * 3
}

TEST_CASE("ps: folding pieces changes nothing", "[unit][cost]") {
  // Messages of different sizes and readiness, so that stations are busy from the one before.
  struct Sent {
    double ready;
    double size;
    int count;
  };
  constexpr std::array<Sent, 6> kSent{{{0, 1, 7}, {3, 2, 1}, {4, 0.5, 20}, {60, 1, 3}, {61, 4, 2}, {61, 0.1, 9}}};
  for (const double latency : {0.0, 2.5}) {
    for (const double memory : {1e9, 700.0}) {
      for (const double per_message : {0.0, 0.7}) {
        PsFabric fabric = slow_wire();
        fabric.latency = milliseconds(latency);
        fabric.server_memory = bytes_per_second(memory);
        fabric.transport.per_message = milliseconds(per_message);
        PsPipeline folded(fabric);
        ByPiece single(fabric);
        for (const Sent& m : kSent) {
          const PsLoad load{.piece = bytes(m.size), .count = static_cast<double>(m.count)};
          const Time a = folded.push_and_pull(milliseconds(m.ready), load);
          CHECK(ms(a) == Approx(ms(single.send(milliseconds(m.ready), m.size, m.count))).epsilon(1e-12));
        }
      }
    }
  }
}

TEST_CASE("ps: whole weights come back for compressed gradients", "[unit][cost]") {
  PsFabric fabric = slow_wire();
  fabric.server_memory = bytes_per_second(1000);
  fabric.update_accesses = 4;
  fabric.pulled = 100;
  const PsPath path = ps_path(fabric, 1);
  CHECK(ms(path.per_byte[0]) == Approx(1));
  CHECK(ms(path.per_byte[1]) == Approx(3));
  CHECK(ms(path.per_byte[3]) == Approx(3 + 4 * 100));  // a gradient onto the sum; every weight updated
  CHECK(ms(path.per_byte[5]) == Approx(300));
  CHECK(ms(path.per_byte[6]) == Approx(100));
  // Machines that are both: one byte of pushes and a hundred of what they serve leave by one port.
  fabric.workers = 2;
  fabric.servers = 2;
  fabric.colocated = true;
  CHECK(ms(ps_path(fabric, 2).per_byte[1]) == Approx(0.5 * 101 * 3));
}

TEST_CASE("ps: workers of a node share its port, servers share the load", "[unit][cost]") {
  PsFabric fabric{.workers = 32,
                  .workers_per_node = 8,
                  .servers = 4,
                  .pcie = gigabytes_per_second(10),
                  .node_network = gigabytes_per_second(2),
                  .server_network = gigabytes_per_second(2),
                  .server_memory = gigabytes_per_second(48),
                  .latency = microseconds(10)};
  const auto station = [&](std::size_t i) { return ps_path(fabric, fabric.servers).per_byte[i].in(nanoseconds); };
  // 8 workers on 2 GB/s: 4 ns per byte; each server carries 32 / 4 = 8 workers: the same
  CHECK(station(1) == Approx(4));
  CHECK(station(2) == Approx(4));
  // 3 x 32 accesses / 4 servers / 48 GB/s
  CHECK(station(3) == Approx(0.5));
  fabric.servers = 2;
  CHECK(station(2) == Approx(8));
  CHECK(station(1) == Approx(4));
  CHECK(station(0) == Approx(0.1));
  // A tensor on one server has that server's port alone.
  CHECK(ps_path(fabric, 1).per_byte[2].in(nanoseconds) == Approx(16));
  // Summed inside the node first, one flow per node is left: 4 nodes / 2 servers / 2 GB/s.
  fabric.local_aggregation = true;
  fabric.peer = gigabytes_per_second(70);
  CHECK(station(1) == Approx(0.5));
  CHECK(station(2) == Approx(1));
  // Its links carry what comes back as well, where both are under way.
  CHECK(station(0) == Approx(0.1 / 8 + 2 * 7.0 / 8 / 70));
  CHECK(station(6) == Approx(station(0)));
  fabric.pushes_meet_pulls = false;
  CHECK(station(0) == Approx(0.1 / 8 + 7.0 / 8 / 70));
}

TEST_CASE("ps: servers on the workers' machines share their ports", "[unit][cost]") {
  PsFabric fabric{.workers = 4,
                  .servers = 4,
                  .colocated = true,
                  .pcie = gigabytes_per_second(10),
                  .node_network = gigabytes_per_second(1),
                  .server_network = gigabytes_per_second(1),
                  .server_memory = gigabytes_per_second(60)};
  // 3/4 of the bytes leave the machine; pushes and what its server serves leave by the same direction.
  CHECK(ps_path(fabric, 4).per_byte[1].in(nanoseconds) == Approx(1.5));
  fabric.pushes_meet_pulls = false;
  CHECK(ps_path(fabric, 4).per_byte[1].in(nanoseconds) == Approx(0.75));
}

TEST_CASE("ps: a piece of one size is a message to one server, a tensor that is spread one to each", "[unit][cost]") {
  PsFabric fabric{.workers = 8, .servers = 4};
  fabric.transport.per_message = microseconds(20);
  CHECK(ps_path(fabric, 4).per_message[2].in(microseconds) == Approx(8 * 20));
  fabric.whole_pieces = true;
  CHECK(ps_path(fabric, 4).per_message[2].in(microseconds) == Approx(8 * 20 / 4.0));
  CHECK(ps_path(fabric, 4).per_message[1].in(microseconds) == Approx(20));
  fabric.workers_per_node = 2;  // whose messages leave one after the other
  CHECK(ps_path(fabric, 4).per_message[1].in(microseconds) == Approx(2 * 20));
}

TEST_CASE("ps: a transport's connections may be slower than the wire", "[unit][cost]") {
  PsFabric fabric{.workers = 2,
                  .servers = 1,
                  .pcie = gigabytes_per_second(10),
                  .node_network = gigabytes_per_second(10),
                  .server_network = gigabytes_per_second(10),
                  .server_memory = gigabytes_per_second(60)};
  fabric.transport = transport_cost(PsTransport::kGrpc);
  // One connection of 0.569 GB/s from each worker; the server has two of them for two workers' bytes.
  CHECK(ps_path(fabric, 1).per_byte[1].in(nanoseconds) == Approx(1 / 0.569));
  CHECK(ps_path(fabric, 1).per_byte[2].in(nanoseconds) == Approx(1 / 0.569));
  CHECK(ps_path(fabric, 1).per_message[2].in(microseconds) == Approx(100));
  // Pulls of half the bytes by connections to four servers, two workers' at a time.
  fabric.pulled = 0.5;
  fabric.workers_per_node = 2;
  CHECK(ps_path(fabric, 4).per_byte[5].in(nanoseconds) == Approx(2 * 0.5 / (0.569 * 2 * 4)));
  fabric.pulled = 1;
  fabric.workers_per_node = 1;
  fabric.transport = transport_cost(PsTransport::kGrpcGdr);
  CHECK(ps_path(fabric, 1).per_byte[0] == Time::zero());  // straight from GPU memory
}

TEST_CASE("ps: what each transport was measured or assumed to do", "[unit][cost]") {
  struct Row {
    PsTransport transport;
    double stream;   // GB/s of one connection
    double message;  // us
    bool through_host;
  };
  for (const Row& row : {Row{PsTransport::kGrpc, 0.569, 50, true}, Row{PsTransport::kGrpcMpi, 1.1, 30, true},
                         Row{PsTransport::kGrpcVerbs, 3.4, 30, true}, Row{PsTransport::kGrpcGdr, 3.4, 30, false},
                         Row{PsTransport::kTcp, 2.5, 20, true}}) {
    const PsTransportCost cost = transport_cost(row.transport);
    CHECK(cost.connection.in(gigabytes_per_second) == Approx(row.stream));
    CHECK(cost.per_message.in(microseconds) == Approx(row.message));
    CHECK(cost.through_host == row.through_host);
  }
  CHECK(transport_cost(PsTransport::kRdma).connection == Bandwidth::infinity());
  CHECK(transport_cost(PsTransport::kRdma).per_message.in(microseconds) == Approx(5));
}

TEST_CASE("ps: on one node the network falls away", "[unit][cost]") {
  const PsFabric fabric{.workers = 8,
                        .workers_per_node = 8,
                        .local = true,
                        .pcie = gigabytes_per_second(10),
                        .server_memory = gigabytes_per_second(60),
                        .update_accesses = 6};
  PsPipeline pipeline(fabric);
  // out and in, and (3 x 8 + 6) accesses at 60 GB/s
  CHECK(pipeline.push_and_pull(Time::zero(), {.piece = gigabytes(1)}).in(seconds) == Approx(0.2 + 0.5));
}

TEST_CASE("ps: a piece travels to the server and back", "[unit][cost]") {
  const PsFabric fabric{.pcie = gigabytes_per_second(1),
                        .node_network = gigabytes_per_second(1),
                        .server_network = gigabytes_per_second(1),
                        .server_memory = Bandwidth::infinity(),
                        .latency = microseconds(10)};
  PsPipeline pipeline(fabric);
  // One byte: six stations of 1 ns, and the network twice.
  CHECK(pipeline.push_and_pull(Time::zero(), {.piece = bytes(1)}).in(microseconds) == Approx(20.006));
}

TEST_CASE("ps: when the next piece waits nowhere", "[unit][cost]") {
  PsFabric fabric = slow_wire();
  fabric.pulled = 2;
  fabric.latency = milliseconds(1);
  PsPipeline pipeline(fabric);
  // Copied at 1 ms, at the server at 4 + 1; back over the wire in 6 ms, seen 1 ms later, and copied by 14.
  CHECK(ms(pipeline.push_and_pull(Time::zero(), {.piece = bytes(1)})) == Approx(14));
  // Pulls are off the wire at 12, which the next piece reaches after 1 + 3 ms and both latencies.
  CHECK(ms(pipeline.free_to_send({.piece = bytes(1)})) == Approx(6));
  CHECK(ms(pipeline.free_to_send({.piece = bytes(2)})) == Approx(12 - (2 + 6 + 2)));
  CHECK(ms(pipeline.free_to_send({.piece = bytes(1), .server = 0})) == Approx(6));
  // A server that is busy holds up who sends to all of them, and nobody whose next piece may go elsewhere.
  fabric = slow_wire();
  fabric.pcie = fabric.node_network = Bandwidth::infinity();
  fabric.server_network = bytes_per_second(100);
  PsPipeline busy(fabric);
  CHECK(ms(busy.push(Time::zero(), {.piece = bytes(1)})) == Approx(10));
  CHECK(ms(busy.free_to_send({.piece = bytes(1)})) == Approx(10));
  CHECK(ms(busy.free_to_send({.piece = bytes(1), .server = 0})) == Approx(0));
}

TEST_CASE("ps: tensors of different servers do not wait for each other there", "[unit][cost]") {
  PsFabric fabric = slow_wire();
  fabric.workers = 3;
  fabric.pcie = fabric.node_network = Bandwidth::infinity();
  fabric.server_network = bytes_per_second(1000);  // 3 workers: 3 ms per byte
  PsPipeline pipeline(fabric);
  CHECK(ms(pipeline.push(Time::zero(), {.piece = bytes(1), .server = 0})) == Approx(3));
  CHECK(ms(pipeline.push(Time::zero(), {.piece = bytes(1), .server = 1})) == Approx(3));
  CHECK(ms(pipeline.push(Time::zero(), {.piece = bytes(1), .server = 0})) == Approx(6));
  CHECK(ms(pipeline.pull(milliseconds(10), {.piece = bytes(1), .server = 0})) == Approx(13));
}

TEST_CASE("ps: asynchronous workers cannot outrun the busiest station", "[unit][cost]") {
  PsFabric fabric{.workers = 10,
                  .servers = 2,
                  .pcie = gigabytes_per_second(10),
                  .node_network = gigabytes_per_second(10),
                  .server_network = gigabytes_per_second(1),
                  .server_memory = gigabytes_per_second(1000)};
  const std::vector<PsLoad> spread{{.piece = megabytes(10), .count = 10}};
  // Each server takes 10 / 2 workers at 1 GB/s: 5 ms per MB a worker sends.
  CHECK(ms(async_bound(fabric, spread)) == Approx(500));
  // The same bytes on one server, or on two.
  CHECK(ms(async_bound(fabric, std::vector<PsLoad>{{.piece = megabytes(100), .server = 0}})) == Approx(1000));
  CHECK(ms(async_bound(fabric, std::vector<PsLoad>{{.piece = megabytes(60), .server = 0},
                                                   {.piece = megabytes(40), .server = 1}})) == Approx(600));
  // What a worker sends goes through its own port one after the other: 2 x 100 MB at 0.1 GB/s.
  fabric.node_network = gigabytes_per_second(0.1);
  CHECK(ms(async_bound(fabric, std::vector<PsLoad>{{.piece = megabytes(100), .server = 0},
                                                   {.piece = megabytes(100), .server = 1}})) == Approx(2000));
  fabric.node_network = gigabytes_per_second(10);
  // 10 messages of 10 workers, 1 ms each at the server.
  fabric.transport.per_message = milliseconds(1);
  CHECK(ms(async_bound(fabric, spread)) == Approx(600));
}
