// How wrong predictions are: measured cases beside what was predicted for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/support/provenance.h"

namespace ddlsim::answer {

/// One measured case. Values are in the case's own metric.
struct CaseResult {
  std::string id;
  std::string group;
  std::string metric;
  bool rate = true;  // whether more is faster
  double measured = 0;
  double predicted = 0;
  double error = 0;  // predicted / measured - 1
  std::pair<double, double> interval_90;
  Provenance provenance = Provenance::kAssumed;
  std::optional<double> perfect{};       // what perfect linear scaling of the given cases gives
  std::optional<double> amdahl{};        // Amdahl's law through them
  std::optional<double> power_law{};     // a power of the GPUs through them
  std::string job{};                     // cases of one job are plans for it; empty: no other plan was measured
  bool fits = true;                      // what was predicted, into its memory
  double memory_times = 0;               // what it needs of a GPU, over what is there; 0: nobody knows
  std::vector<std::string> unread{};     // what of its words counted for nothing
  std::vector<std::string> open{};       // conditions that nobody states, over which its interval is stretched
  std::optional<double> memory_error{};  // of the bytes per GPU that the source printed: predicted / measured - 1
  bool collective = false;               // by itself, not a step
};

/// One case in full: what it was taken to mean, and what was predicted for that.
struct CaseReading {
  CaseResult result;
  std::string title;                                          // the job in words
  std::vector<std::pair<std::string, std::string>> settings;  // paths and values, in the order in which they were set
  std::optional<Prediction> prediction;                       // nothing: a collective by itself
};

/// What choosing by predictions costs, where several plans of a job were measured: the measured time of the plan that
/// is predicted to be fastest, over that of the fastest, minus 1.
struct Regret {
  std::int64_t jobs = 0;
  double mean = 0;
  double worst = 0;
};

struct UnsupportedCase {
  std::string id;
  std::string why;
  std::string group{};
  std::string metric{};
  double measured = 0;
  std::size_t after = 0;  // how many of the set's predicted cases stand before it
  bool collective = false;
};

/// Absolute relative errors of some cases, as shares.
struct ErrorSummary {
  std::int64_t cases = 0;
  double mean = 0;
  double median = 0;
  double p90 = 0;
  double worst = 0;
};

/// The cases of one file, or of all of them together.
struct ValidationSet {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t anchors = 0;    // rows that were given and not predicted
  std::int64_t not_asked = 0;  // rows of groups in which nothing would be given, or nothing predicted
  ErrorSummary errors;
  /// Measured over predicted time, 5th and 95th percentile: the ends an interval should have had.
  std::pair<double, double> time_ratio_90{1, 1};
  double coverage_90 = 0;               // share of measured values inside the 90 % interval
  std::int64_t slower = 0;              // cases that took longer than their interval says
  std::int64_t faster = 0;              // or less
  double interval_ratio = 1;            // median of the interval's high end over its low one
  double median_time_bias = 0;          // median of predicted / measured time - 1
  std::optional<ErrorSummary> perfect;  // of perfect linear scaling, on the same rows
  std::optional<ErrorSummary> amdahl;   // of Amdahl's law, likewise
  std::optional<ErrorSummary> power_law;
  std::optional<ErrorSummary> memory;  // of memory per GPU, where a source printed it
  double time_bias = 0;                // mean of predicted / measured time - 1
  std::optional<Regret> regret;
  std::vector<UnsupportedCase> unsupported;
  std::vector<CaseResult> cases;
};

struct Validation {
  std::string anchor;  // as the command line names it
  std::vector<ValidationSet> sets;
  ValidationSet all;
  std::vector<ValidationSet> kinds{};  // steps and collectives of them; empty where all are of one kind
};

}  // namespace ddlsim::answer
