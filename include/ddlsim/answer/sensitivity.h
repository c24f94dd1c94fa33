// What `ddlsim what-if --elasticities` answers with (whatif/elasticity.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddlsim/answer/prediction.h"

namespace ddlsim::answer {

/// How the step answers to one setting.
struct Elasticity {
  std::string setting{};  // its path
  std::string role{};     // "rate", "fixed time", "size"
  std::string now{};      // as --set takes it
  double value = 0;       // SI
  std::string unit{};     // SI
  double elasticity = 0;  // d ln(step) / d ln(setting)
  Time halved{};          // the step with half of it
  Time doubled{};
};

/// A constant of the model, and what the step would be at the ends of what is known of it.
struct Swing {
  std::string name{};
  std::string low{};  // its ends
  std::string high{};
  std::optional<double> low_value{};  // the same in SI units; nothing: words
  std::optional<double> high_value{};
  std::string unit{};  // SI; empty: a factor, a share, a word
  Time step_low{};     // with the low end
  Time step_high{};
  bool measured = false;  // the ends are measured; else a convention
  std::string spread{};   // what the ends rest on

  [[nodiscard]] Time width() const { return max(step_low, step_high) - min(step_low, step_high); }
};

struct Sensitivity {
  std::string title{};
  Prediction baseline;
  std::vector<Elasticity> elasticities{};  // largest first
  double own_constants = 0;                // what the doubling law leaves to constants that nobody can set
  std::vector<std::string> without_effect{};
  std::vector<Swing> swings{};  // widest first
};

}  // namespace ddlsim::answer
