#include "ddlsim/cost/parameter_server.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

using namespace ddlsim;
using namespace ddlsim::cost;

namespace {

PsPath path(std::array<double, 4> ms_per_byte, double latency_ms = 0) {
  PsPath path;
  for (std::size_t i = 0; i < 4; ++i) path.per_byte[i] = milliseconds(ms_per_byte[i]);
  path.latency_before[1] = path.latency_before[3] = milliseconds(latency_ms);
  return path;
}

/// The same pipeline, piece by piece.
class ByPiece {
 public:
  explicit ByPiece(const PsPath& p) : path_(p) {}
  Time send(Time ready, double size, int count) {
    for (int i = 0; i < count; ++i) {
      Time at = ready;
      for (std::size_t s = 0; s < 4; ++s) {
        at = max(at + path_.latency_before[s], free_[s]) + path_.per_byte[s] * size;
        free_[s] = at;
      }
    }
    return free_[3];
  }

 private:
  PsPath path_;
  std::array<Time, 4> free_{};
};

}  // namespace

TEST_CASE("ps: the header's worked example", "[unit][cost]") {
  PsPipeline one(path({1, 3, 3, 1}));
  CHECK(one.send(Time::zero(), bytes(1), 1).in(milliseconds) == Approx(8));
  PsPipeline ten(path({1, 3, 3, 1}));
  CHECK(ten.send(Time::zero(), bytes(1), 10).in(milliseconds) == Approx(35));  // 8 + 9 * 3
}

TEST_CASE("ps: folding pieces changes nothing", "[unit][cost]") {
  // Messages of different sizes and readiness, so that stations are busy from the one before.
  struct Message {
    double ready;
    double size;
    int count;
  };
  constexpr std::array<Message, 6> kMessages{
      {{0, 1, 7}, {3, 2, 1}, {4, 0.5, 20}, {60, 1, 3}, {61, 4, 2}, {61, 0.1, 9}}};
  for (const double latency : {0.0, 2.5}) {
    for (const auto& rates : {std::array{1.0, 3.0, 3.0, 1.0}, std::array{3.0, 1.0, 1.0, 3.0},
                              std::array{1.0, 0.0, 0.0, 2.0}, std::array{2.0, 5.0, 1.0, 4.0}}) {
      PsPipeline folded(path(rates, latency));
      ByPiece single(path(rates, latency));
      for (const Message& m : kMessages) {
        const Time a = folded.send(milliseconds(m.ready), bytes(m.size), m.count);
        const Time b = single.send(milliseconds(m.ready), m.size, m.count);
        CHECK(a.in(milliseconds) == Approx(b.in(milliseconds)).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("ps: workers of a node share its port, servers share the load", "[unit][cost]") {
  PsFabric fabric{.workers = 32,
                  .workers_per_node = 8,
                  .servers = 4,
                  .local = false,
                  .pcie = gigabytes_per_second(10),
                  .node_network = gigabytes_per_second(2),
                  .server_network = gigabytes_per_second(2),
                  .latency = microseconds(10)};
  // 8 workers on 2 GB/s: 4 ns per byte; the servers carry 32 / 4 = 8 workers each: the same
  CHECK(ps_path(fabric).per_byte[1].in(nanoseconds) == Approx(4));
  fabric.servers = 2;
  CHECK(ps_path(fabric).per_byte[1].in(nanoseconds) == Approx(8));
  fabric.servers = 100;
  CHECK(ps_path(fabric).per_byte[1].in(nanoseconds) == Approx(4));
  CHECK(ps_path(fabric).per_byte[0].in(nanoseconds) == Approx(0.1));
}

TEST_CASE("ps: on one node the network falls away", "[unit][cost]") {
  const PsFabric fabric{.workers = 8, .workers_per_node = 8, .local = true, .pcie = gigabytes_per_second(10)};
  PsPipeline pipeline(ps_path(fabric));
  CHECK(pipeline.send(Time::zero(), gigabytes(1), 1).in(seconds) == Approx(0.2));  // out and in
}

TEST_CASE("ps: a piece travels to the server and back", "[unit][cost]") {
  const PsFabric fabric{.workers = 1,
                        .pcie = gigabytes_per_second(1),
                        .node_network = gigabytes_per_second(1),
                        .server_network = gigabytes_per_second(1),
                        .latency = microseconds(10)};
  PsPipeline pipeline(ps_path(fabric));
  // One byte: four stations of 1 ns, and the network twice.
  CHECK(pipeline.send(Time::zero(), bytes(1), 1).in(microseconds) == Approx(20.004));
}
