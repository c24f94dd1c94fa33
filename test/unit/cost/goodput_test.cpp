#include "ddlsim/cost/goodput.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace ddlsim;
using namespace ddlsim::cost;

namespace {

constexpr Time minutes(double number) { return seconds(60 * number); }
Rate every(Time mtbf) { return per_second(1 / mtbf.in(seconds)); }

}  // namespace

TEST_CASE("goodput: intervals as Daly's figures 3 to 5 print them", "[unit][cost]") {
  // M 24 h, 6 h and 15 min, delta 5 min: "The new model predicts" 117, 57 and 9.1 min.
  CHECK(daly_interval(minutes(5), hours(24)).in(seconds) / 60 == Approx(117).margin(0.5));
  CHECK(daly_interval(minutes(5), hours(6)).in(seconds) / 60 == Approx(57).margin(0.5));
  CHECK(daly_interval(minutes(5), minutes(15)).in(seconds) / 60 == Approx(9.1).margin(0.05));
  // sqrt(2 x 5 x 360) = 60.
  CHECK(young_interval(minutes(5), hours(6)).in(seconds) == Approx(3600));
  CHECK(daly_interval(minutes(40), minutes(15)) == minutes(15));
  // From delta = 2M on it is M; just below, sqrt(2 x 29 x 15) (1 + sqrt(29/30) / 3 + 29/30 / 9) - 29 = 13.33 min.
  CHECK(daly_interval(minutes(31), minutes(15)) == minutes(15));
  CHECK(daly_interval(minutes(29), minutes(15)).in(seconds) / 60 == Approx(13.3305).epsilon(1e-4));
  // The series is of the exact one: nearer the shorter a checkpoint is against M.
  CHECK(best_interval(minutes(5), hours(24)).in(seconds) ==
        Approx(daly_interval(minutes(5), hours(24)).in(seconds)).epsilon(1e-3));
  CHECK(best_interval(minutes(5), minutes(15)).in(seconds) == Approx(9.1 * 60).epsilon(0.02));
  CHECK(best_interval(Time::zero(), hours(1)) == Time::zero());
  // A checkpoint of many M: tau tends to M.
  CHECK(best_interval(hours(20), hours(1)).in(hours) == Approx(1).epsilon(1e-6));
  // Of u = tau/M the blocked time is M (-ln(1 - u) - u) = M (u^2/2 + u^3/3 + ...), however short it is.
  CHECK(best_interval(hours(std::log(2.0) - 0.5), hours(1)).in(hours) == Approx(0.5).epsilon(1e-12));
  const double u = 9e-4;
  double blocked = 0;
  for (int n = 9; n >= 2; --n) blocked += std::pow(u, n) / n;
  CHECK(best_interval(hours(blocked), hours(1)).in(hours) == Approx(u).epsilon(3e-14));
}

TEST_CASE("goodput: the worked example of the header", "[unit][cost]") {
  const FailingRun run{.failures = every(hours(6)), .blocked = minutes(5), .recovery = minutes(10)};
  // e^(10/360) (e^(62/360) - 1) 360 = 69.57 min.
  const double wall = std::exp(10 / 360.0) * std::expm1(62 / 360.0) * 360;
  const GoodputShares shares = goodput(run, minutes(57));
  CHECK(shares.useful == Approx(57 / wall).epsilon(1e-12));
  CHECK(shares.useful == Approx(0.819).epsilon(1e-3));
  // Of 10 h more than half is lost: e^(605/360) - 1 tries.
  CHECK(goodput(run, hours(10)).useful ==
        Approx(600 / (std::exp(10 / 360.0) * std::expm1(605 / 360.0) * 360)).epsilon(1e-12));
  CHECK(shares.checkpoints == Approx(5 / wall).epsilon(1e-12));
  CHECK(shares.down == 0);
  // A failure every 360 min, after which reading lasts until it is done or the next one: 360 (1 - e^(-10/360)).
  CHECK(shares.recovery == Approx(1 - std::exp(-10 / 360.0)).epsilon(1e-12));
  // Nothing stands still: all the wall time is exposed, and failures come every 6 h of it.
  CHECK(shares.failures.in(per_second) == Approx(1 / (6 * 3600.0)));
  CHECK(shares.useful + shares.checkpoints + shares.recomputed + shares.recovery + shares.down == Approx(1));
}

TEST_CASE("goodput: standing still is paid once for each failure", "[unit][cost]") {
  FailingRun run{.failures = every(hours(6)), .blocked = minutes(5), .recovery = minutes(10)};
  const double before = 57 / goodput(run, minutes(57)).useful;  // min of an interval
  run.down = minutes(30);
  const GoodputShares shares = goodput(run, minutes(57));
  // E (1/lambda + D) / (1/lambda): 30 min more for every 360.
  CHECK(57 / shares.useful == Approx(before * 390 / 360));
  CHECK(shares.down == Approx(30.0 / 390));
}

TEST_CASE("goodput: of a write beside training, the whole interval before it may be lost", "[unit][cost]") {
  FailingRun run{.mode = CheckpointMode::kAsync,
                 .failures = every(hours(6)),
                 .blocked = seconds(30),
                 .write = minutes(5),
                 .down = minutes(3),
                 .recovery = minutes(10)};
  // First steps: A of an interval whose checkpoint is safe, B of one whose is not, minutes.
  const double l = 1 / 360.0;
  const double p = 40.5;
  const double q = 3 + (1 / l + 3) * std::expm1(10 * l);
  const double a = std::expm1(p * l) * (1 / l + q);
  const double b = std::exp(5 * l) * -std::expm1(-p * l) * (1 / l + q + a);
  CHECK(goodput(run, minutes(40)).useful == Approx(40 / b).epsilon(1e-12));
  // Without a write it is a blocking one.
  run.write = Time::zero();
  const double safe = goodput(run, minutes(40)).useful;
  run.mode = CheckpointMode::kBlocking;
  CHECK(goodput(run, minutes(40)).useful == safe);
}

TEST_CASE("goodput: copies in memory", "[unit][cost]") {
  FailingRun run{.mode = CheckpointMode::kMemory,
                 .failures = every(hours(6)),
                 .blocked = seconds(30),
                 .remote_every = 4,
                 .down = minutes(3),
                 .recovery = minutes(10),
                 .memory_recovery = minutes(2)};
  // Nothing takes copies along: a run that recovers from each of them.
  FailingRun blocking = run;
  blocking.mode = CheckpointMode::kBlocking;
  blocking.recovery = minutes(2);
  CHECK(goodput(run, minutes(20)).useful == Approx(goodput(blocking, minutes(20)).useful).epsilon(1e-12));
  // Everything does: one that takes a checkpoint every four intervals, and stops four times for it.
  run.beyond_memory = 1;
  blocking.recovery = minutes(10);
  blocking.blocked = minutes(2);
  CHECK(goodput(run, minutes(20)).useful == Approx(goodput(blocking, minutes(80)).useful).epsilon(1e-12));
  // Some do: between the two.
  run.beyond_memory = 0.3;
  const GoodputShares shares = goodput(run, minutes(20));
  CHECK(shares.useful <
        goodput(FailingRun{.failures = run.failures, .blocked = run.blocked, .down = run.down, .recovery = minutes(2)},
                minutes(20))
            .useful);
  CHECK(shares.useful > goodput(blocking, minutes(80)).useful);
  CHECK(shares.useful + shares.checkpoints + shares.recomputed + shares.recovery + shares.down == Approx(1));
}

TEST_CASE("goodput: copies in memory, every second one in storage, by the header's lines", "[unit][cost]") {
  const FailingRun run{.mode = CheckpointMode::kMemory,
                       .failures = every(hours(6)),
                       .beyond_memory = 0.3,
                       .blocked = seconds(30),
                       .remote_every = 2,
                       .down = minutes(3),
                       .recovery = minutes(60),
                       .memory_recovery = minutes(20)};
  // Minutes; the lines are put into each other until nothing changes.
  const double l = 1 / 360.0;
  const double p = std::exp(-100.5 * l);
  const double r = std::exp(-20 * l);
  double x[3] = {};
  double y[2] = {};
  for (int times = 0; times < 1000; ++times) {
    const double y_b = 3 + (1 / l + 3) * std::expm1(60 * l) + x[0];
    for (int j : {1, 0}) {
      x[j] = (1 - p) * (1 / l + 0.7 * y[j] + 0.3 * y_b) + p * x[j + 1];
      y[j] = 3 + (1 - r) / l + r * x[j] + (1 - r) * (0.7 * y[j] + 0.3 * y_b);
    }
  }
  const GoodputShares shares = goodput(run, minutes(100));
  CHECK(shares.useful == Approx(2 * 100 / x[0]).epsilon(1e-9));
  CHECK(shares.checkpoints == Approx(2 * 0.5 / x[0]).epsilon(1e-9));
  // A failure in 363 min. Who reads storage goes on with it, so S of F failures do, S = 0.3 (F - b S) + b S with b = 1
  // - e^(-60/360) = 0.15352 of them broken off: S = 0.3 F / (1 - 0.7 b) = 0.33612 F. A try lasts 360 b = 55.267 min,
  // one of memory 360 (1 - e^(-20/360)) = 19.455 min: (0.33612 x 55.267 + 0.66388 x 19.455) / 363.
  CHECK(shares.recovery == Approx(0.086754).epsilon(1e-4));
  CHECK(shares.failures.in(per_second) == Approx(1 / (363 * 60.0)));
}

TEST_CASE("goodput: a run that makes no headway has none", "[unit][cost]") {
  FailingRun run{.failures = every(seconds(1)), .blocked = minutes(5), .recovery = minutes(10)};
  const auto none = [&](Time interval) {
    const GoodputShares shares = goodput(run, interval);
    return shares.useful == 0 && shares.checkpoints == 0 && shares.recomputed == 0 && shares.recovery == 0 &&
           shares.failures == Rate{};
  };
  CHECK(none(hours(1)));
  // Ten intervals of 100 s to the storage's next copy, where one by itself would do (e^100 tries).
  run = {.mode = CheckpointMode::kMemory, .failures = every(seconds(1)), .beyond_memory = 0.5, .remote_every = 10};
  CHECK(none(seconds(100)));
  run.remote_every = 1;
  CHECK_FALSE(none(seconds(100)));
}

TEST_CASE("goodput: waiting for spares, by Erlang's formula", "[unit][cost]") {
  // One server in repair on average (a failure every 10 h, repairs of 10 h): B(0) = 1, B(1) = 1/2, B(2) = 1/5, B(3) =
  // 1/16 (Erlang's table).
  SparePool pool{.lost = every(hours(10)), .repair = hours(10), .spares = 0};
  const auto wait = [&](std::int64_t spares) {
    pool.spares = spares;
    return spare_wait(pool, pool.lost, Time::zero());
  };
  CHECK(wait(0).short_of == 1);
  CHECK(wait(0).mean.in(hours) == Approx(10));
  CHECK(wait(1).short_of == Approx(0.5));
  CHECK(wait(1).mean.in(hours) == Approx(2.5));
  CHECK(wait(2).short_of == Approx(0.2));
  CHECK(wait(3).short_of == Approx(1 / 16.0));
  CHECK(wait(3).mean.in(hours) == Approx(10 / 4.0 / 16));
  // While the run stands 10 h after each failure, half as many come.
  CHECK(spare_wait(pool, pool.lost, hours(10)).short_of < wait(3).short_of);
}
