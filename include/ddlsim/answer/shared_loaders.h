// What `ddlsim loader` answers with (whatif/shared_loaders.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddlsim/support/units.h"

namespace ddlsim::answer {

/// A job runs with one grant, or waits for its loader to start anew.
struct LoaderStretch {
  std::size_t job = 0;
  std::int64_t server = 0;  // of several the first
  Time start{};
  Time end{};
  bool restart = false;
  std::int64_t cores = 0;  // of each server
  Bandwidth storage{};     // likewise
  Rate rate{};             // of the job
};

struct LoaderJobTimes {
  Time start{};  // it has its GPUs
  Time end{};
  std::int64_t server = 0;
  std::int64_t restarts = 0;  // of its loader
};

/// When the jobs ran under one policy.
struct LoaderTimes {
  std::vector<LoaderJobTimes> jobs;
  std::vector<LoaderStretch> stretches;  // in the order in which they ended
};

/// A job as every policy sees it.
struct SharedJob {
  std::string name;
  std::string model;   // in words; empty: known by its measured rates alone
  std::string sample;  // what one is
  std::int64_t gpus = 1;
  Time arrival{};
  double samples = 0;
  Rate full{};  // GPUs that wait for nothing
  Rate fair{};  // with its GPUs' share of a server
};

struct LoaderPolicy {
  std::string name;
  LoaderTimes times;
  Time makespan{};         // from the first arrival to the last end
  Time mean_completion{};  // from a job's arrival to its end
  Rate aggregate{};        // samples of all jobs over the time in which any has GPUs
  Rate throughput{};       // mean over jobs of samples over the time with GPUs
  double full_speed = 0;   // mean over jobs: that over its rate at full speed
  double gpu_idle = 0;     // of the time in which jobs hold GPUs
  std::int64_t restarts = 0;
  // Over even.
  std::optional<double> aggregate_gain;
  std::optional<double> throughput_gain;  // mean over jobs of one's throughput over that under even, less 1
  std::optional<double> completion_gain;  // the mean is shorter by
  std::optional<double> makespan_gain;    // likewise
};

struct SharedLoaders {
  std::string title;
  std::vector<SharedJob> jobs;
  std::vector<LoaderPolicy> policies;
  std::vector<std::string> notes;
};

}  // namespace ddlsim::answer
