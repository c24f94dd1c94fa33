// Jobs that share servers: the input of `ddlsim loader`. A file names its jobs, or says how to draw them.
//
//   server: {node: dgx1-v100, nodes: 16, cores: 24, memory: 500 GB, storage: sata-ssd, storage_bandwidth: 500 MB/s}
//                                   # cores: whole ones, a worker each; without it a worker for each hardware thread
//   policies: [even, a-dloader]     # all of them
//   objective: fair-share           # what a sample/s is worth: fair-share, full-speed, samples
//   fair: yes                       # nobody gets less than his GPUs' share
//   restart: 10 s                   # of a loader whose workers change
//   hysteresis: 5 %
//   jobs:
//     - name: vision                # of a model and a data set: both rates are predicted
//       model: resnet18
//       dataset: imagenet
//       batch: 256                  # a GPU's; the model's
//       gpus: 4                     # 1
//       arrival: 30 min             # 0 s
//       epochs: 10                  # or samples: 1e6, or steps: 5000, or time: 2 h (at full speed)
//       most_workers: 16            # of the job; as many as the server has
//       set: {precision: fp16, input.loader: dali}      # any setting of a scenario
//     - name: measured              # or of measured rates, by loader workers (of the whole job)
//       batch: 512
//       samples_per_s: {1: 256, 2: 563, 3: 853, 12: 2509}
//       stored: 110 kB              # of a sample, read from storage; nothing
//       samples: 2e6
//   draw:                           # instead of jobs
//     jobs: 1000
//     seed: 1
//     per_hour: 9                   # arrivals, Poisson
//     gpus: {1: 70, 2: 10, 4: 15, 8: 5}                 # weights
//     time: [10 min, 10 h]          # at full speed, drawn evenly over its logarithm
//     kinds:
//       - {name: vision, weight: 3, model: resnet18, dataset: imagenet}
//
// Between two measured counts of workers the lower one's rate stands; below the first the rate falls in proportion;
// above the last nothing is gained. Rates at several sizes of a cache are a list: `samples_per_s: [{memory: 62.5 GB,
// workers: {...}}, ...]`; memory is then granted too. Drawn kinds are measured on one GPU: on g GPUs g times the
// workers and memory give g times the rate. Every fault is reported with its place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/io/yaml.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::io {

struct TextAt {
  std::string text;
  SourceLocation where;
};

/// Rates by workers, ascending, at one size of a cache.
struct RatesByWorkers {
  DataSize memory{};
  std::vector<std::pair<std::int64_t, Rate>> points;
};

struct JobEntry {
  std::string name;
  SourceLocation where;
  std::optional<TextAt> model;
  std::optional<TextAt> dataset;
  std::vector<RatesByWorkers> rates;  // empty: predicted
  SourceLocation rates_where;
  DataSize stored{};
  std::vector<std::pair<std::string, TextAt>> settings;
  std::optional<std::int64_t> batch;
  std::int64_t gpus = 1;
  SourceLocation gpus_where;
  std::optional<std::int64_t> most_workers;
  SourceLocation workers_where;
  Time arrival{};
  // One of these.
  std::optional<double> epochs;
  std::optional<std::int64_t> samples;
  std::optional<std::int64_t> steps;
  std::optional<Time> time;
  double weight = 1;  // of a kind that is drawn
};

struct JobsDraw {
  std::int64_t jobs = 100;
  std::uint64_t seed = 1;
  double per_hour = 1;
  std::vector<std::pair<std::int64_t, double>> gpus;  // number, weight
  Time shortest{};
  Time longest{};
  std::vector<JobEntry> kinds;
};

struct JobsServer {
  TextAt node;
  std::int64_t nodes = 1;
  std::optional<std::int64_t> cores;  // whole ones, with all their hardware threads; nothing: a worker for each thread
  std::optional<DataSize> memory;
  std::optional<TextAt> storage;
  std::optional<TextAt> storage_bandwidth;  // a bandwidth
  SourceLocation where;
};

enum class ShareObjective { kFairShare, kFullSpeed, kSamples };

inline constexpr Choices<ShareObjective, 3> kShareObjectives{{
    {"fair-share", ShareObjective::kFairShare},
    {"full-speed", ShareObjective::kFullSpeed},
    {"samples", ShareObjective::kSamples},
}};

struct JobsFile {
  std::string file;
  JobsServer server;
  std::vector<TextAt> policies;  // empty: all
  ShareObjective objective = ShareObjective::kFairShare;
  bool fair = true;
  std::optional<Time> restart;
  std::optional<double> hysteresis;
  std::vector<JobEntry> jobs;
  std::optional<JobsDraw> draw;
  std::vector<std::string> notes;
};

inline constexpr std::int64_t kMostJobs = 100'000;
inline constexpr std::int64_t kMostServers = 100'000;

[[nodiscard]] Expected<JobsFile> read_jobs(const Node& document, const std::string& file);
[[nodiscard]] Expected<JobsFile> load_jobs(const std::filesystem::path& path);

}  // namespace ddlsim::io
