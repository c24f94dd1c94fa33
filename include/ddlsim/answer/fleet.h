// What a study of many jobs answers with.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddlsim::answer {

/// Where the time of a group of jobs goes: shares that add up to 1.
struct TimeShares {
  double input = 0;
  double compute = 0;  // compute-bound operators
  double memory = 0;   // memory-bound operators
  double communication = 0;
};

struct FleetGroup {
  std::string architecture;  // "all", or one of Wang et al.
  std::int64_t jobs = 0;
  std::int64_t cnodes = 0;
  TimeShares by_job;    // mean over jobs
  TimeShares by_cnode;  // mean over cNodes
};

/// Speedups of the jobs of one group under one change. Quantiles are exact to 0.2 %; all are NaN without jobs.
struct SpeedupRow {
  std::string change;          // "network = 100 Gb/s"
  std::string architecture;    // "all", or one of Wang et al.
  std::int64_t jobs = 0;       // that the change applies to and that fit
  std::int64_t too_large = 0;  // whose weights exceed a GPU: they cannot change
  double faster = 0;           // share of `jobs` + `too_large` with a speedup above 1
  double mean = 1;
  double mean_by_cnode = 1;
  double p10 = 1;
  double median = 1;
  double p90 = 1;
  double largest = 1;
  std::vector<double> percentiles;  // 1 %, 2 %, ..., 100 %: the CDF
};

/// A figure of a study beside ours.
struct HeadlineRow {
  std::string text;
  double published = 0;
  double computed = 0;
  bool percent = true;
  std::string status;
  std::string difference;
};

struct FleetReport {
  std::string title;
  std::string setting;
  std::int64_t jobs = 0;
  std::vector<FleetGroup> groups;  // "all" first
  std::vector<SpeedupRow> speedups;
  std::vector<HeadlineRow> headlines;
  std::vector<std::string> notes;
};

}  // namespace ddlsim::answer
