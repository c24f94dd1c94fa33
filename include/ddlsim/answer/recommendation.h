// What `recommend` answers with. Values only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/answer/stalls.h"
#include "ddlsim/answer/training.h"
#include "ddlsim/support/units.h"

namespace ddlsim::answer {

/// A type of server, how many of them, a batch and a strategy; and the run on them.
struct ServerChoice {
  std::string node;
  std::int64_t nodes = 1;
  std::int64_t spares = 0;       // servers beside them that stand by; paid for
  std::int64_t gpus = 1;         // of all servers
  std::int64_t batch = 1;        // samples of a step over all replicas
  std::int64_t micro_batch = 1;  // samples of a replica and pass
  std::int64_t passes = 1;       // of a step
  std::string strategy;
  PriceRate price{};         // of all servers and spares
  std::string price_region;  // of the price; empty: stated
  std::string price_date;    // "2026-01-21", "2023-06" or "2024"; empty: stated, or of a price list, which has none
  Time step{};
  Training training;                     // its cost is known
  std::optional<Prediction> prediction;  // the whole answer, where somebody wants it
  std::optional<double> in_deadline;     // probability, of choices with a prediction and a deadline
  std::optional<Stalls> stalls;          // of choices with a prediction (whatif/stalls.h)
  /// What `predict` is told beside the job as stated, so that it says this step: path, value.
  std::vector<std::pair<std::string, std::string>> settings{};

  [[nodiscard]] Time time() const { return training.time(); }
  [[nodiscard]] Money cost() const { return training.cost.value_or(Money::infinity()); }
};

/// A type of server that is no answer, and which limit says so.
struct NoChoice {
  std::string node;
  std::string why;
};

struct Recommendation {
  std::string title;
  std::optional<Time> deadline;
  std::optional<Money> budget;
  std::vector<ServerChoice> choices;  // inside every limit, the cheapest first
  std::size_t cheapest = 0;           // of `choices`
  std::size_t fastest = 0;
  std::vector<std::size_t> pareto;      // neither faster nor cheaper by any other: cheapest first
  std::vector<NoChoice> infeasible;     // types of which no choice is inside the limits
  std::vector<std::string> would_help;  // what would change the answer
  std::int64_t compared = 0;            // choices whose memory suffices, inside the limits or not
  std::vector<std::string> notes;
};

}  // namespace ddlsim::answer
