// What `ddlsim explain` answers with (whatif/explain.h).
#pragma once

#include <string>
#include <vector>

#include "ddlsim/answer/prediction.h"

namespace ddlsim::answer {

/// A number that stands in an equation.
struct ExplainedValue {
  std::string symbol{};
  std::string meaning{};
  double value = 0;          // SI
  std::string unit{};        // SI; empty: a number
  std::string provenance{};  // "stated", "datasheet", "assumed", ...; "above" for the result of another part
  std::string source{};
};

/// One equation: its symbols, the numbers put in, and what the model computed, which is not taken from the equation.
struct ExplainedPart {
  std::string name{};    // what --part asks for; several parts may share one
  std::string title{};   // in words
  std::string symbol{};  // of the result
  std::string equation{};
  std::vector<ExplainedValue> values{};
  double result = 0;  // SI
  std::string unit{};
  std::string note{};
};

struct Explanation {
  std::string title{};  // the job in words
  Prediction prediction;
  std::vector<ExplainedPart> parts{};
};

}  // namespace ddlsim::answer
