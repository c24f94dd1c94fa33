#include "ddlsim/events/shared_loaders.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace ddlsim;
using namespace ddlsim::cost;
using events::ArrivingJob;
using events::run_shared_loaders;

namespace {

/// `per_core` samples/s of each core, up to `most`.
ArrivingJob job(double per_core, double most, double samples, double arrival, std::int64_t gpus = 1) {
  ArrivingJob one;
  one.samples = samples;
  one.arrival = seconds(arrival);
  for (std::int64_t i = 1; i <= 16; ++i) {
    one.demand.options.push_back({i, {}, per_second(std::min(per_core * static_cast<double>(i), most))});
  }
  one.demand.options = useful_options(std::move(one.demand.options));
  one.demand.gpus = gpus;
  return one;
}

std::vector<double> ends(const answer::LoaderTimes& times) {
  std::vector<double> all;
  for (const auto& one : times.jobs) all.push_back(one.end.in(seconds));
  return all;
}

const LoaderSupply kSmall{4, {}, Bandwidth::infinity(), 2};

}  // namespace

TEST_CASE("shared loaders: the worked example", "[unit][shared_loaders]") {
  const events::SharingRules even{SharePolicy::kEven, seconds(1), 0};
  const std::vector<ArrivingJob> together{job(10, 30, 1000, 0), job(10, 30, 1000, 0)};
  CHECK(ends(run_shared_loaders(kSmall, 1, together, even).value()) == std::vector<double>{50, 50});
  const std::vector<ArrivingJob> apart{job(10, 30, 1000, 0), job(10, 30, 1000, 10)};
  const auto times = run_shared_loaders(kSmall, 1, apart, even).value();
  CHECK(times.jobs[0].end.in(seconds) == Approx(46));
  CHECK(times.jobs[1].end.in(seconds) == Approx(47 + 280.0 / 30));
  CHECK(times.jobs[0].restarts == 1);
  CHECK(times.jobs[1].restarts == 1);
  // Every sample stands in a stretch, and no stretch overlaps another of its job.
  double samples = 0;
  for (const answer::LoaderStretch& one : times.stretches) samples += one.rate * (one.end - one.start);
  CHECK(samples == Approx(2000));
  CHECK(times.stretches.front().cores == 4);
  CHECK(times.stretches[1].restart);
}

TEST_CASE("shared loaders: a line in which nobody overtakes", "[unit][shared_loaders]") {
  const events::SharingRules rules{SharePolicy::kGpuProportional, {}, 0};
  // 20/s of two cores. The second waits for both GPUs, the third, which would fit, behind it.
  const std::vector<ArrivingJob> jobs{job(10, 20, 200, 0), job(10, 40, 400, 1, 2), job(10, 20, 200, 2)};
  const auto times = run_shared_loaders(kSmall, 1, jobs, rules).value();
  CHECK(times.jobs[1].start == seconds(10));
  CHECK(times.jobs[2].start == seconds(20));
  CHECK(ends(times) == std::vector<double>{10, 20, 30});
  // On two servers all of them start when they come; the single ones share one.
  const auto two = run_shared_loaders(kSmall, 2, jobs, rules).value();
  CHECK(two.jobs[1].server == 1);
  CHECK(two.jobs[2].server == 0);
  CHECK(two.jobs[2].start == seconds(2));
}

TEST_CASE("shared loaders: whole servers", "[unit][shared_loaders]") {
  const events::SharingRules rules{SharePolicy::kADloader, {}, 0};
  std::vector<ArrivingJob> jobs{job(10, 40, 400, 0, 2), job(10, 20, 200, 0)};
  jobs[0].servers = 2;
  const auto times = run_shared_loaders(kSmall, 2, jobs, rules).value();
  CHECK(times.jobs[0].end == seconds(10));
  CHECK(times.jobs[1].start == seconds(10));
  CHECK(times.stretches.front().rate == per_second(80));
  jobs[0].servers = 3;
  const auto never = run_shared_loaders(kSmall, 2, jobs, rules);
  REQUIRE_FALSE(never);
  CHECK(never.error().message.find("job 1 would never start") != std::string::npos);
}

// The first job has 3 of 4 cores at 30/s, 3000 samples. One that gains 12/s a core comes at 10 s with 100 samples: on
// the free core it takes 8.33 s; 2 + 2 would be worth 20 + 24 instead of 30 + 12, 4.8 % more.
TEST_CASE("shared loaders: what does not pay is left", "[unit][shared_loaders]") {
  const std::vector<ArrivingJob> jobs{job(10, 30, 3000, 0), job(12, 24, 100, 10)};
  const auto run = [&](Time restart, double hysteresis) {
    return run_shared_loaders(kSmall, 1, jobs, {SharePolicy::kADloader, restart, hysteresis}).value();
  };
  CHECK(run({}, 0.04).jobs[0].restarts == 2);  // to 2 cores, and back
  CHECK(run({}, 0.05).jobs[0].restarts == 0);
  // 2/s more over the 4.17 s of the second job: 8.3 samples; a restart loses 20 of each second.
  CHECK(run(seconds(0.40), 0.04).jobs[0].restarts == 2);
  CHECK(run(seconds(0.45), 0.04).jobs[0].restarts == 0);
  CHECK(run({}, 0.04).jobs[1].end.in(seconds) == Approx(10 + 100.0 / 24));
  CHECK(run({}, 0.05).jobs[1].end.in(seconds) == Approx(10 + 100.0 / 12));
}
