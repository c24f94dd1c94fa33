#include "ddlsim/events/failures.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <queue>
#include <vector>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::events {
namespace {

constexpr double kWarmRepairs = 5;  // so long it works before it is timed: the pool is in balance
constexpr double kNormal95 = 1.959964;

/// splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}

  /// In (0, 1).
  double uniform() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    z ^= z >> 31U;
    return (static_cast<double>(z >> 11U) + 0.5) * 0x1p-53;
  }
  double exponential(double mean) { return -mean * std::numbers::ln2 * portable_log2(uniform()); }

 private:
  std::uint64_t state_;
};

/// One run: where it stands, and what has happened to it.
class FailingJob {
 public:
  FailingJob(const FailureOptions& options, std::uint64_t seed) : o_(options), draws_(seed) {
    mean_ = 1 / o_.run.failures.in(per_second);
    next_ = draws_.exponential(mean_);
  }

  /// Wall time of so many intervals from where it stands.
  double work(std::int64_t intervals) {
    const double start = now_;
    done_ = 0;
    saved_ = -1;  // the checkpoint it begins with is not in storage yet: as after every other interval
    in_memory_ = 0;
    if (o_.run.mode != cost::CheckpointMode::kAsync) saved_ = 0;
    written_ = now_ + o_.run.write.in(seconds);
    while (done_ < intervals) step(intervals - done_);
    return now_ - start;
  }
  [[nodiscard]] std::int64_t failures() const { return failures_; }

 private:
  /// Runs for so long unless something fails before: whether it got through.
  bool runs_for(double time) {
    if (next_ >= time) {
      next_ -= time;
      now_ += time;
      return true;
    }
    now_ += next_;
    next_ = draws_.exponential(mean_);
    ++failures_;
    return false;
  }

  /// Intervals and their checkpoints until something fails, at most so many.
  void step(std::int64_t most) {
    const double period = (o_.interval + o_.run.blocked).in(seconds);
    const double until_failure = next_ / period;
    if (until_failure < 1 || most == 1) return one_interval(period);
    const std::int64_t whole =
        until_failure < static_cast<double>(most) ? static_cast<std::int64_t>(until_failure) : most;
    const double time = period * static_cast<double>(whole);
    next_ = std::max(next_ - time, 0.0);
    now_ += time;
    done_ += whole;
    in_memory_ = done_;
    if (o_.run.mode == cost::CheckpointMode::kBlocking) saved_ = done_;
    if (o_.run.mode == cost::CheckpointMode::kMemory) saved_ = done_ / o_.run.remote_every * o_.run.remote_every;
    if (o_.run.mode != cost::CheckpointMode::kAsync) return;
    saved_ = done_ - 1;
    written_ = now_ + o_.run.write.in(seconds);
  }

  void one_interval(double period) {
    if (!runs_for(period)) return recover();
    const bool pending = o_.run.mode == cost::CheckpointMode::kAsync;
    if (pending) saved_ = done_;  // one write at a time: that of the interval's start is through
    ++done_;
    if (pending) {
      written_ = now_ + o_.run.write.in(seconds);
    } else if (o_.run.mode == cost::CheckpointMode::kBlocking || done_ % o_.run.remote_every == 0) {
      saved_ = done_;
    }
    in_memory_ = done_;
  }

  /// Back to the last checkpoint that counts, after a failure. Whether copies in memory are there is drawn by the
  /// failure's class; who has begun to read storage has none.
  void recover() {
    const bool in_memory = o_.run.mode == cost::CheckpointMode::kMemory;
    if (o_.run.mode == cost::CheckpointMode::kAsync && now_ >= written_) saved_ = done_;
    bool from_memory = in_memory;
    double time = 0;
    do {
      const double of = draws_.uniform();
      const bool beyond = of < o_.run.beyond_memory;
      from_memory = from_memory && !beyond;
      stand(of);
      time = (from_memory ? o_.run.memory_recovery : o_.run.recovery).in(seconds);
    } while (!runs_for(time));
    done_ = from_memory ? in_memory_ : saved_;
    written_ = 0;  // what it was restored from is in storage
    if (in_memory) in_memory_ = done_;
  }

  /// From a failure to the restart; a server goes to repair unless a switch failed.
  void stand(double drawn) {
    const double lost = o_.pool.lost / o_.run.failures;
    // The last of the unit interval is servers': switches have the first, as `beyond_memory` has.
    if (o_.pool.repair > Time::zero() && drawn >= 1 - lost) take_spare();
    now_ += o_.run.down.in(seconds);
  }

  void take_spare() {
    while (!away_.empty() && away_.top() <= now_) away_.pop();
    away_.push(now_ + draws_.exponential(o_.pool.repair.in(seconds)));
    if (static_cast<std::int64_t>(away_.size()) <= o_.pool.spares) return;
    now_ = std::max(now_, away_.top());
    away_.pop();
  }

  const FailureOptions& o_;
  Draws draws_;
  double mean_ = 0;
  double next_ = 0;  // of running time, until something fails
  double now_ = 0;
  double written_ = 0;  // when the write beside the interval ends
  std::int64_t done_ = 0;
  std::int64_t saved_ = 0;
  std::int64_t in_memory_ = 0;
  std::int64_t failures_ = 0;
  std::priority_queue<double, std::vector<double>, std::greater<>> away_;
};

std::int64_t in_rounds(std::int64_t intervals, std::int64_t round) { return (intervals + round - 1) / round * round; }

/// Counted by work: who ended by the clock would most likely do so within a long wait for a spare, and start after it.
std::int64_t warming_intervals(const FailureOptions& o, std::int64_t round) {
  return in_rounds(static_cast<std::int64_t>(std::ceil(o.pool.repair * kWarmRepairs / (o.interval + o.run.blocked))),
                   round);
}

}  // namespace

answer::SimulatedGoodput simulate_failures(const FailureOptions& o) {
  const std::int64_t round = o.run.mode == cost::CheckpointMode::kMemory ? o.run.remote_every : 1;
  const std::int64_t intervals = in_rounds(std::max<std::int64_t>(o.intervals, 1), round);
  const std::int64_t warm = warming_intervals(o, round);
  answer::SimulatedGoodput result;
  result.runs = std::max<std::int64_t>(o.runs, 2);
  double sum = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < result.runs; ++i) {
    FailingJob job(o, o.seed + static_cast<std::uint64_t>(i) * 0xd1342543de82ef95ULL);
    if (warm > 0) job.work(warm);
    const std::int64_t before = job.failures();
    const double wall = job.work(intervals);
    result.failures += static_cast<double>(job.failures() - before);
    sum += wall;
    squares += wall * wall;
  }
  const auto n = static_cast<double>(result.runs);
  const double mean = sum / n;
  const double spread = std::sqrt(std::max(squares / n - mean * mean, 0.0) * n / (n - 1));
  const double half = kNormal95 * spread / std::sqrt(n);
  const double worked = o.interval.in(seconds) * static_cast<double>(intervals);
  result.goodput = worked / mean;
  result.low = worked / (mean + half);
  result.high = worked / std::max(mean - half, worked);
  return result;
}

}  // namespace ddlsim::events
