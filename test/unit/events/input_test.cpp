#include "ddlsim/events/input.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "ddlsim/cost/loader.h"

using namespace ddlsim;
using cost::BatchPipeline;

namespace {

Time simulated(const BatchPipeline& pipeline, Time consumer, std::int64_t batches = 400, std::uint64_t seed = 3) {
  return events::simulate_input(pipeline, consumer, batches, seed).value();
}

}  // namespace

TEST_CASE("input events: two workers of 6 ms and a GPU of 2 ms", "[unit][events]") {
  const BatchPipeline pipeline{.worker = milliseconds(6), .workers = 2};
  CHECK(simulated(pipeline, milliseconds(2)).in(milliseconds) == Approx(1).epsilon(1e-9));
}

TEST_CASE("input events: the closed form, where nothing varies", "[unit][events]") {
  for (const std::int64_t workers : {0, 1, 2, 3, 8}) {
    for (const double storage : {0.0, 0.7, 2.3}) {
      for (const double cpu : {0.4, 1.9}) {
        for (const double receive : {0.0, 1.1}) {
          for (const double consumer : {0.5, 1.5, 4.0}) {
            for (const bool pipelined : {false, true}) {
              BatchPipeline pipeline{.storage = milliseconds(storage),
                                     .cpu = milliseconds(cpu),
                                     .receive = milliseconds(workers == 0 ? 0 : receive),
                                     .worker = milliseconds(storage + cpu + 1.7),
                                     .workers = workers,
                                     .prefetch = 2};
              pipeline.pipelined = pipelined && workers == 1;
              if (pipeline.pipelined) pipeline.worker = milliseconds(std::max(storage, cpu));
              const Time closed = cost::wait_for_batch(pipeline, milliseconds(consumer));
              const Time found = simulated(pipeline, milliseconds(consumer));
              INFO(workers << " workers, storage " << storage << ", cpu " << cpu << ", receive " << receive << ", GPU "
                           << consumer << (pipeline.pipelined ? ", pipelined" : ""));
              CHECK(found.in(milliseconds) == Approx(closed.in(milliseconds)).epsilon(1e-9).margin(1e-9));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("input events: within 2 % of a step where workers vary", "[unit][events]") {
  for (const std::int64_t workers : {1, 4, 8}) {
    for (const double variation : {0.05, 0.15, 0.3}) {
      for (const double consumer : {1.0, 1.9, 2.0, 2.6}) {
        const BatchPipeline pipeline{
            .worker = milliseconds(2) * static_cast<double>(workers), .workers = workers, .variation = variation};
        const Time step = milliseconds(consumer) + cost::wait_for_batch(pipeline, milliseconds(consumer));
        const Time found = milliseconds(consumer) + simulated(pipeline, milliseconds(consumer), 9000);
        INFO(workers << " workers, deviation " << variation << ", GPU " << consumer);
        CHECK(found / step == Approx(1).margin(0.02));
      }
    }
  }
}

TEST_CASE("input events: a slow batch holds up those behind it", "[unit][events]") {
  const BatchPipeline steady{.worker = milliseconds(16), .workers = 8, .prefetch = 1};
  BatchPipeline varied = steady;
  varied.variation = 0.3;
  CHECK(simulated(steady, milliseconds(2)) == Time::zero());
  const Time held = simulated(varied, milliseconds(2), 4000);
  CHECK(held > milliseconds(0.2));
  varied.prefetch = 8;
  CHECK(simulated(varied, milliseconds(2), 4000) < held / 3.0);
}

TEST_CASE("input events: what cannot be simulated", "[unit][events]") {
  CHECK_FALSE(events::simulate_input({}, milliseconds(1), 0, 1));
  CHECK_FALSE(events::simulate_input({.workers = 2000}, milliseconds(1), 10, 1));
  CHECK_FALSE(events::simulate_input({.prefetch = 0}, milliseconds(1), 10, 1));
}
