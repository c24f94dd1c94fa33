// What `ddlsim find` answers with (whatif/find.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/answer/prediction.h"

namespace ddlsim::answer {

/// One value of the variable that was predicted.
struct Tried {
  std::string setting{};  // as --set takes it
  double value = 0;       // SI
  double metric = 0;      // SI
  bool fits = true;       // into the GPU's memory
  bool holds = false;     // and makes the condition hold
};

/// Neighbouring values that all hold, as far as they were tried.
struct HoldingRange {
  std::string from{};
  std::string to{};
};

/// Both ends of values that hold, beyond each of which some fail.
struct SolutionRange {
  double from = 0;  // SI
  double to = 0;
  std::string from_setting{};
  std::string to_setting{};
};

/// What RDMA would make of a network that nobody said TCP drives.
struct OverRdma {
  bool reached = false;
  std::optional<double> value{};  // SI
  std::string text{};             // "from 31.2 Gb/s on"
};

/// The end of the values that hold, or why none does.
struct Inverse {
  std::string title{};      // the job in words
  std::string variable{};   // its path
  std::string unit{};       // SI, of `value`; empty: a count or a factor
  std::string condition{};  // as it was understood
  std::string metric{};     // what the condition is on
  std::optional<double>
      sure{};  // with which probability `metric_text` and the metrics tried are kept; nothing: expected
  bool reached = false;
  std::optional<double> value{};                                // SI; nothing: not reached
  std::string setting{};                                        // of `value`, or of the nearest, as --set takes it
  std::vector<std::pair<std::string, std::string>> settings{};  // all that differs from the job: path, value
  Prediction prediction;                                        // there
  std::string metric_text{};                                    // there
  std::optional<double> probability{};                          // that it holds there; nothing: of no such metric
  std::string limit_setting{};                                  // "infinite", "1024"
  Prediction limit;                                             // the best that the variable can do
  std::string limit_text{};
  std::optional<std::string> now{};  // the variable's value in the job as it is ("by its profile"), and what that gives
  std::optional<Prediction> baseline{};  // the job as it is
  std::string now_text{};
  bool monotone = true;
  bool up = true;                        // it holds from `setting` on; false: up to it
  std::optional<SolutionRange> range{};  // nothing: it holds to an end of what was searched
  bool always = false;                   // every value that was tried holds
  std::vector<HoldingRange> holding{};   // in order
  std::optional<OverRdma> over_rdma{};   // nothing: another variable, or somebody says what drives the network
  std::vector<Tried> tried{};            // in the order of the variable
  std::size_t predictions = 0;
  std::vector<std::string> notes{};
};

}  // namespace ddlsim::answer
