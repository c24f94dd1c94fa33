// What a sweep answers with, point by point. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/answer/training.h"
#include "ddlsim/support/provenance.h"
#include "ddlsim/support/units.h"

namespace ddlsim::answer {

/// How much of a prediction a sweep keeps.
enum class SweepDetail { kTime, kFull };

/// What a prediction says beside its time.
struct SweepPrediction {
  Fidelity fidelity = Fidelity::kAnalytic;
  double scaling_efficiency = 1;
  std::string bottleneck;
  std::pair<Time, Time> interval_90;
  Breakdown breakdown;
  DataSize memory_per_gpu{};
  std::optional<bool> fits;
  double mfu = 0;
  std::optional<PriceRate> price;    // of the whole cluster
  std::optional<Training> training;  // where a run's length is stated
  std::optional<double> goodput{};   // share of the time, where somebody says how often something fails
  Provenance provenance = Provenance::kAssumed;
};

struct SweepAnswer {
  std::int64_t gpus = 1;
  Time step{};
  double throughput_samples_per_second = 0;
  std::optional<SweepPrediction> full;
};

/// A point and its answer, or the reason why it has none.
struct SweepRow {
  std::int64_t point = 0;           // its number on the grid
  std::vector<std::string> values;  // of what varies
  std::optional<SweepAnswer> answer;
  std::string why;  // on one line; empty where there is an answer
};

}  // namespace ddlsim::answer
