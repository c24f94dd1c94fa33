#include "ddlsim/cost/ring.h"

#include <catch2/catch.hpp>

#include "ddlsim/cost/layer_time.h"

using namespace ddlsim;
using namespace ddlsim::cost;

namespace {

Ring one_node() {
  return {.gpus = 4,
          .nodes = 1,
          .intra = gigabytes_per_second(10),
          .inter = gigabytes_per_second(1),
          .intra_latency = microseconds(5),
          .inter_latency = microseconds(20)};
}

}  // namespace

TEST_CASE("ring: the header's worked example", "[unit][cost]") {
  // 2 * 3/4 * 100 MB / 10 GB/s = 15 ms, and 6 hops of 5 us
  CHECK(ring_all_reduce(megabytes(100), one_node()).in(milliseconds) == Approx(15.03).epsilon(1e-12));
}

TEST_CASE("ring: several nodes go at the slower link's rate", "[unit][cost]") {
  Ring ring = one_node();
  ring.gpus = 8;
  ring.nodes = 2;
  // 2 * 7/8 * 0.1 GB / 1 GB/s = 175 ms; 14 hops, of which 2 cross the network: 12 * 5 + 2 * 20 us
  CHECK(ring_all_reduce(megabytes(100), ring).in(milliseconds) == Approx(175.1).epsilon(1e-12));
  ring.inter = gigabytes_per_second(100);
  CHECK(ring_all_reduce(megabytes(100), ring).in(milliseconds) == Approx(17.5 + 0.1).epsilon(1e-12));
}

TEST_CASE("ring: one GPU per node never uses the link inside", "[unit][cost]") {
  Ring ring = one_node();
  ring.nodes = 4;
  ring.intra = bytes_per_second(1);
  ring.intra_latency = seconds(1);
  // 150 MB over 1 GB/s and 6 network hops
  CHECK(ring_all_reduce(megabytes(100), ring).in(milliseconds) == Approx(150.12).epsilon(1e-12));
}

TEST_CASE("ring: one GPU communicates nothing", "[unit][cost]") {
  CHECK(ring_all_reduce(gigabytes(1), Ring{}) == Time::zero());
}

TEST_CASE("ring: a billion nodes neither overflow nor round to nothing", "[unit][cost]") {
  Ring ring = one_node();
  ring.nodes = 1'000'000'000;
  ring.gpus = 8 * ring.nodes;
  // 2 * 1e9 network hops of 20 us and 14e9 inside of 5 us: 110,000 s; the 0.2 s of data is behind them
  CHECK(ring_all_reduce(megabytes(100), ring).in(seconds) == Approx(110'000.2).epsilon(1e-8));
}

TEST_CASE("layer: the larger of compute and memory time says what it is bound by", "[unit][cost]") {
  workload::Layer layer;
  layer.forward_work = gigaflops(1);
  layer.forward_elements = 1'000'000;
  const DeviceRates device{.compute = teraflops_per_second(1), .memory = gigabytes_per_second(100)};
  // 1 ms of work against 4 MB / 100 GB/s = 40 us
  const LayerTime compute = layer_time(layer, Pass::kForward, 1, bytes(4), device);
  CHECK(compute.compute.in(milliseconds) == Approx(1));
  CHECK(compute.memory == Time::zero());
  layer.forward_elements = 100'000'000;  // 4 ms
  const LayerTime memory = layer_time(layer, Pass::kForward, 1, bytes(4), device);
  CHECK(memory.compute == Time::zero());
  CHECK(memory.memory.in(milliseconds) == Approx(4));
  // Weights are read once, whatever the batch.
  layer.forward_weight_elements = 50'000'000;  // 2 ms
  CHECK(layer_time(layer, Pass::kForward, 2, bytes(4), device).memory.in(milliseconds) == Approx(2 * 4 + 2));
}

TEST_CASE("ring: a gather sends every share once around", "[unit][cost]") {
  // 3 * 100 MB / 10 GB/s = 30 ms, and 3 hops of 5 us
  CHECK(ring_all_gather(megabytes(100), one_node()).in(milliseconds) == Approx(30.015).epsilon(1e-12));
  CHECK(ring_all_gather(megabytes(100), Ring{}) == Time::zero());
}
