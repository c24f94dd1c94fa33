// What holds of runs that fail, whatever fails how often.
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "ddlsim/cost/goodput.h"
#include "ddlsim/events/failures.h"

using namespace ddlsim;
using namespace ddlsim::cost;

namespace {

Time between(int low, int high) { return seconds(*rc::gen::inRange(low, high)); }

/// Some failures in a few intervals, as those that are worth a formula.
FailingRun random_run() {
  FailingRun run;
  run.mode = *rc::gen::element(CheckpointMode::kBlocking, CheckpointMode::kAsync, CheckpointMode::kMemory);
  run.failures = per_second(1.0 / *rc::gen::inRange(1000, 100'000));
  run.blocked = between(0, 300);
  run.down = between(0, 1000);
  run.recovery = between(0, 1000);
  if (run.mode == CheckpointMode::kAsync) run.write = between(0, 500);
  if (run.mode == CheckpointMode::kMemory) {
    run.beyond_memory = *rc::gen::inRange(0, 101) / 100.0;
    run.remote_every = *rc::gen::inRange(1, 8);
    run.memory_recovery = between(0, 300);
  }
  return run;
}

}  // namespace

TEST_CASE("law: a run that fails, simulated, has the goodput of the formula", "[property]") {
  CHECK(rc::check("within its confidence interval", [] {
    const FailingRun run = random_run();
    const Time interval = between(500, 5000);
    const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
    const auto simulated =
        events::simulate_failures({.run = run, .interval = interval, .intervals = 42, .runs = 60, .seed = seed});
    const double formula = goodput(run, interval).useful;
    // Thousands of cases are tried: seven standard errors instead of two.
    const double mean = 1 / simulated.goodput;
    const double half = (1 / simulated.low - 1 / simulated.high) / 2;
    RC_LOG() << formula << " simulated " << simulated.goodput << "\n";
    RC_ASSERT(std::abs(mean - 1 / formula) <= 3.6 * half + 1e-9);
  }));
}

TEST_CASE("law: shares of a run that fails", "[property]") {
  CHECK(rc::check("add up, and fall with what goes wrong", [] {
    const FailingRun run = random_run();
    const Time interval = between(500, 5000);
    const GoodputShares shares = goodput(run, interval);
    RC_ASSERT(std::abs(shares.useful + shares.checkpoints + shares.recomputed + shares.recovery + shares.down - 1) <
              1e-9);
    for (const double share : {shares.useful, shares.checkpoints, shares.recomputed, shares.recovery, shares.down}) {
      RC_ASSERT(share >= 0 && share <= 1);
    }
    const auto worse = [&](auto change) {
      FailingRun other = run;
      change(other);
      RC_ASSERT(goodput(other, interval).useful <= shares.useful * (1 + 1e-12));
    };
    worse([](FailingRun& r) { r.failures = r.failures * 1.1; });
    worse([](FailingRun& r) { r.down += seconds(10); });
    worse([](FailingRun& r) { r.recovery += seconds(10); });
    worse([](FailingRun& r) { r.blocked += seconds(10); });
    worse([](FailingRun& r) { r.write += seconds(10); });
  }));
}

TEST_CASE("law: no interval beats the best one", "[property]") {
  CHECK(rc::check("blocking and asynchronous", [] {
    FailingRun run = random_run();
    if (run.mode == CheckpointMode::kMemory) run.mode = CheckpointMode::kBlocking;
    run.blocked = between(1, 1000);
    const Time mtbf = seconds(1 / run.failures.in(per_second));
    const Time best = best_interval(run.blocked, mtbf);
    const double most = goodput(run, best).useful;
    for (const double factor : {0.1, 0.5, 0.9, 0.99, 1.01, 1.1, 2.0, 10.0}) {
      RC_ASSERT(goodput(run, best * factor).useful <= most * (1 + 1e-9));
    }
    RC_ASSERT(best <= young_interval(run.blocked, mtbf));
  }));
}

TEST_CASE("law: more spares never wait longer", "[property]") {
  CHECK(rc::check("and shorter repairs neither", [] {
    SparePool pool{.lost = per_second(1.0 / *rc::gen::inRange(100, 1'000'000)),
                   .repair = between(1, 1'000'000),
                   .spares = *rc::gen::inRange(0, 50)};
    const SpareWait wait = spare_wait(pool, pool.lost, seconds(60));
    RC_ASSERT(wait.short_of >= 0 && wait.short_of <= 1);
    SparePool shorter = pool;
    shorter.repair = pool.repair / 2.0;
    RC_ASSERT(spare_wait(shorter, pool.lost, seconds(60)).mean <= wait.mean);
    ++pool.spares;
    RC_ASSERT(spare_wait(pool, pool.lost, seconds(60)).mean <= wait.mean);
  }));
}
