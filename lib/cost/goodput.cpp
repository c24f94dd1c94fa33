#include "ddlsim/cost/goodput.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::cost {
namespace {

constexpr double kNoHeadway = 500;  // of exponents: e^500 tries

double exp_of(double x) { return portable_exp2(x * std::numbers::log2e); }

/// e^x - 1, to a few units in the last place near zero too.
double expm1_of(double x) {
  if (std::abs(x) > 0.5) return exp_of(x) - 1;
  double sum = 0;
  for (int n = 18; n >= 1; --n) sum = x / n * (1 + sum);
  return sum;
}

/// 1 - e^-x.
double chance_of(double x) { return -expm1_of(-x); }

/// w of w e^w = -e^(-1 - a), w >= -1, by Newton on u = w + 1 of f(u) = ln(1 - u) + u + a = 0, 0 < u < 1.
double lambert_above(double a) {
  if (a <= 0) return -1;
  // ln(1 - u) + u = -u^2/2 - u^3/3 - ...; the first term gives the start, which lies below the root's side of a.
  double low = 0;
  double high = 1;
  double u = std::min(std::sqrt(2 * a), 0.5);
  const auto f = [&](double x) {
    if (x < 1e-3) return a - x * x * (0.5 + x * (1.0 / 3 + x * (0.25 + x * (0.2 + x / 6))));
    return portable_log2(1 - x) / std::numbers::log2e + x + a;
  };
  for (int step = 0; step < 200; ++step) {
    const double value = f(u);
    (value > 0 ? low : high) = u;
    double next = u + value * (1 - u) / u;  // f' = -u / (1 - u)
    if (!(next > low && next < high)) next = 0.5 * (low + high);
    if (next == u) break;
    u = next;
  }
  return u - 1;
}

/// Mean times of an interval of copies in memory, seconds.
struct Round {
  double lambda;
  double by_memory;  // q_a
  double beyond;     // q_b
  double down;
  double memory_recovery;
  double recovery;
  double period;
  std::int64_t intervals;
};

/// x_0: the mean wall time from one copy in storage to the next.
double round_time(const Round& o) {
  const double p = exp_of(-o.lambda * o.period);
  const double miss = chance_of(o.lambda * o.period);
  const double r = exp_of(-o.lambda * o.memory_recovery);
  const double broken = chance_of(o.lambda * o.memory_recovery);
  const double back = o.down + (1 / o.lambda + o.down) * expm1_of(o.lambda * o.recovery);  // y_b less x_0
  // y_a = fixed + of_j x_j + of_0 x_0
  const double again = 1 - broken * o.by_memory;
  const double fixed = (o.down + broken / o.lambda + broken * o.beyond * back) / again;
  const double of_j = r / again;
  const double of_0 = broken * o.beyond / again;
  double constant = 0;  // x_j = constant + slope x_0, from x_n = 0 on
  double slope = 0;
  for (std::int64_t j = 0; j < o.intervals; ++j) {
    const double left = 1 - miss * o.by_memory * of_j;
    constant = (miss * (1 / o.lambda + o.by_memory * fixed + o.beyond * back) + p * constant) / left;
    slope = (miss * (o.by_memory * of_0 + o.beyond) + p * slope) / left;
  }
  return constant / (1 - slope);
}

/// Seconds of a stretch of the run.
struct Stretch {
  double wall = 0;
  double worked = 0;
  double blocked = 0;  // by checkpoints that count
};

/// What of a stretch goes where.
GoodputShares shares_of(const FailingRun& run, const Stretch& stretch) {
  const auto [wall, worked, blocked] = stretch;
  const double lambda = run.failures.in(per_second);
  const double down = run.down.in(seconds);
  const double failures = lambda * wall / (1 + lambda * down);
  const auto tries = [&](double recovery) { return chance_of(lambda * recovery) / lambda; };  // mean time of one
  double recovery = failures * tries(run.recovery.in(seconds));
  if (run.mode == CheckpointMode::kMemory) {
    // Who reads storage goes on reading it, whatever fails meanwhile.
    const double broken = chance_of(lambda * run.recovery.in(seconds));
    const double by_storage = failures * run.beyond_memory / (1 - broken * (1 - run.beyond_memory));
    recovery =
        by_storage * tries(run.recovery.in(seconds)) + (failures - by_storage) * tries(run.memory_recovery.in(seconds));
  }
  GoodputShares shares;
  shares.useful = worked / wall;
  shares.checkpoints = blocked / wall;
  shares.recovery = recovery / wall;
  shares.down = failures * down / wall;
  shares.recomputed = std::max(1 - shares.useful - shares.checkpoints - shares.recovery - shares.down, 0.0);
  shares.failures = per_second(failures / wall);
  return shares;
}

}  // namespace

Time young_interval(Time blocked, Time mtbf) { return seconds(std::sqrt(2 * blocked.in(seconds)*mtbf.in(seconds))); }

Time daly_interval(Time blocked, Time mtbf) {
  if (blocked >= mtbf * 2.0) return mtbf;
  const double ratio = blocked / (mtbf * 2.0);
  return young_interval(blocked, mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - blocked;
}

Time best_interval(Time blocked, Time mtbf) { return mtbf * (1 + lambert_above(blocked / mtbf)); }

GoodputShares goodput(const FailingRun& run, Time interval) {
  const double lambda = run.failures.in(per_second);
  const double period = (interval + run.blocked).in(seconds);
  const double down = run.down.in(seconds);
  const auto rounds = static_cast<double>(run.remote_every);
  const bool in_memory = run.mode == CheckpointMode::kMemory;
  const double write = run.mode == CheckpointMode::kAsync ? run.write.in(seconds) : 0;
  const double back = run.recovery.in(seconds) + write;
  const double longest = in_memory && run.beyond_memory > 0 ? rounds * period + back : period + back;
  if (!(lambda * longest < kNoHeadway)) return {};
  if (!in_memory) {
    const double wall = exp_of(lambda * back) * expm1_of(lambda * period) * (1 / lambda + down);
    return shares_of(run, {wall, interval.in(seconds), run.blocked.in(seconds)});
  }
  const double wall = round_time({.lambda = lambda,
                                  .by_memory = 1 - run.beyond_memory,
                                  .beyond = run.beyond_memory,
                                  .down = down,
                                  .memory_recovery = run.memory_recovery.in(seconds),
                                  .recovery = run.recovery.in(seconds),
                                  .period = period,
                                  .intervals = run.remote_every});
  return shares_of(run, {wall, rounds * interval.in(seconds), rounds * run.blocked.in(seconds)});
}

SpareWait spare_wait(const SparePool& pool, Rate failures, Time down) {
  const double busy = pool.lost.in(per_second)*pool.repair.in(seconds);
  const double away = busy / (1 + failures.in(per_second)*down.in(seconds));
  SpareWait wait;
  wait.short_of = 1;
  for (std::int64_t s = 1; s <= pool.spares; ++s) {
    const double part = away * wait.short_of;
    wait.short_of = part / (static_cast<double>(s) + part);
  }
  wait.mean = pool.repair * (wait.short_of / static_cast<double>(pool.spares + 1));
  return wait;
}

}  // namespace ddlsim::cost
