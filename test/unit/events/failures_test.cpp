#include "ddlsim/events/failures.h"

#include <catch2/catch.hpp>

using namespace ddlsim;
using namespace ddlsim::events;
using cost::CheckpointMode;

namespace {

Rate every(Time mtbf) { return per_second(1 / mtbf.in(seconds)); }

/// So many standard errors that formula and simulation are apart.
double apart(const answer::SimulatedGoodput& simulated, double formula) {
  const double error = (1 / simulated.low - 1 / simulated.high) / 2 / 1.959964;
  return std::abs(1 / simulated.goodput - 1 / formula) / error;
}

}  // namespace

TEST_CASE("failures: nothing fails", "[unit][events]") {
  const auto result = simulate_failures({.run = {.failures = every(hours(1e12)), .blocked = seconds(10)},
                                         .interval = seconds(50),
                                         .intervals = 10,
                                         .runs = 3});
  CHECK(result.goodput == Approx(50.0 / 60));  // 500 s of 600 s
  CHECK(result.low == Approx(result.goodput));
  CHECK(result.failures == 0);
}

TEST_CASE("failures: a seed is a run, on every machine", "[unit][events]") {
  FailureOptions options{.run = {.failures = every(hours(6)), .blocked = seconds(300), .recovery = seconds(600)},
                         .interval = seconds(3420),
                         .intervals = 100,
                         .runs = 10,
                         .seed = 7};
  const auto first = simulate_failures(options);
  const auto again = simulate_failures(options);
  CHECK(first.goodput == again.goodput);
  CHECK(first.failures == again.failures);
  options.seed = 8;
  CHECK(simulate_failures(options).goodput != first.goodput);
}

TEST_CASE("failures: simulations agree with the formulas", "[unit][events]") {
  // 400 runs of 500 intervals: the mean is known to a few tenths of a percent.
  const auto check = [](const cost::FailingRun& run, Time interval) {
    const auto simulated = simulate_failures({.run = run, .interval = interval, .intervals = 500, .runs = 400});
    const double formula = cost::goodput(run, interval).useful;
    INFO(formula << " against " << simulated.goodput);
    CHECK(apart(simulated, formula) < 3);
    CHECK(simulated.high - simulated.low < 0.02);
  };
  cost::FailingRun run{
      .failures = every(hours(6)), .blocked = seconds(300), .down = seconds(200), .recovery = seconds(600)};
  check(run, seconds(3420));
  run.failures = every(hours(0.5));  // more than one failure an interval
  check(run, seconds(3420));
  run.mode = CheckpointMode::kAsync;
  run.blocked = seconds(20);
  run.write = seconds(900);
  check(run, seconds(1200));
  run.mode = CheckpointMode::kMemory;
  run.memory_recovery = seconds(60);
  run.beyond_memory = 0.3;
  run.remote_every = 5;
  check(run, seconds(600));
}

TEST_CASE("failures: simulated spares run out as Erlang says", "[unit][events]") {
  for (const std::int64_t spares : {0, 1, 3}) {
    cost::FailingRun run{
        .failures = every(hours(6)), .blocked = seconds(60), .down = seconds(600), .recovery = seconds(300)};
    const cost::SparePool pool{.lost = every(hours(7)), .repair = hours(12), .spares = spares};
    const auto simulated =
        simulate_failures({.run = run, .pool = pool, .interval = hours(1), .intervals = 2000, .runs = 100});
    run.down += cost::spare_wait(pool, run.failures, run.down).mean * (pool.lost / run.failures);
    const double formula = cost::goodput(run, hours(1)).useful;
    INFO(spares << " spares: " << formula << " against " << simulated.goodput);
    CHECK(apart(simulated, formula) < 3.5);
  }
}

// Spares that are rarely short, and then for long: a warm-up that ends by the clock ends in such a wait, and what is
// timed begins with no spare (94.1 % for 95.1 %).
TEST_CASE("failures: a run is not timed from the end of a wait on", "[unit][events]") {
  cost::FailingRun run{
      .failures = every(hours(20)), .blocked = seconds(60), .down = seconds(600), .recovery = seconds(300)};
  const cost::SparePool pool{.lost = every(hours(20)), .repair = hours(48), .spares = 2};
  const auto simulated =
      simulate_failures({.run = run, .pool = pool, .interval = hours(1), .intervals = 100, .runs = 20000});
  run.down += cost::spare_wait(pool, run.failures, run.down).mean;
  const double formula = cost::goodput(run, hours(1)).useful;
  INFO(formula << " against " << simulated.goodput);
  CHECK(apart(simulated, formula) < 3.5);
}

// 1e9 intervals without a failure are one step of the simulation.
TEST_CASE("failures: what does not fail takes no time to simulate", "[unit][events]") {
  for (const auto mode : {CheckpointMode::kBlocking, CheckpointMode::kAsync, CheckpointMode::kMemory}) {
    cost::FailingRun run{.mode = mode, .failures = every(hours(1e6)), .blocked = seconds(1)};
    run.write = seconds(1);
    run.remote_every = 10;
    const auto result = simulate_failures({.run = run, .interval = seconds(9), .intervals = 1'000'000'000, .runs = 3});
    CHECK(result.goodput == Approx(0.9).epsilon(1e-4));
  }
}
