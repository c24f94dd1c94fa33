// Reads models/fleet/*.yaml: the published marginals of a population of jobs, and what its study found.
//
//   population: pai-2019
//   name: ...
//   setting: pai-2019                     # hardware/clusters
//   architectures: {1w1g: 59 %, ...}      # shares of jobs; they must add up to 100 %
//   cnodes:                               # of a job, by architecture: share of jobs at or below -> cNodes
//     ps-worker: {0 %: 1, 50 %: 8, 100 %: 400}
//   features:                             # of one step of one cNode: log-uniform between the two
//     flops: {from: 105.8 GFLOP, to: 7.9 TFLOP}
//     memory_access, input, weight_traffic: likewise
//   weights: {0 %: 1 MB, 90 %: 10 GB, 100 %: 300 GB}
//   headlines:
//     - {metric: ..., text: ..., value: 62 %, status: verified, difference: "why ours differs"}
//   sources: {architectures: ..., cnodes: ..., features: ..., weights: ..., headlines: ...}
//
// A quantile table is piecewise log-linear between its knots.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ddlsim/io/yaml.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/source.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::io {

/// Share of jobs at or below, and the value there, rising in both. Values are counts or bytes.
using QuantileTable = std::vector<std::pair<double, double>>;

/// Bounds of a log-uniform draw, in SI base units.
struct LogRange {
  double from = 1;
  double to = 1;
};

struct Headline {
  std::string metric;
  std::string text;
  double value = 0;
  std::string status;      // verified or recalled
  std::string difference;  // why a model of this population may say something else
};

struct PopulationFile {
  std::string id;
  std::string name;
  std::string setting;
  std::vector<std::pair<workload::Architecture, double>> architectures;  // share of jobs
  std::vector<std::pair<workload::Architecture, QuantileTable>> cnodes;
  LogRange flops;
  LogRange memory_access;
  LogRange input;
  LogRange weight_traffic;
  QuantileTable weights;
  std::vector<Headline> headlines;
  Sources sources;
  std::string notes;
};

[[nodiscard]] Expected<PopulationFile> read_population(const Node& document);

}  // namespace ddlsim::io
