// How a job that `recommend` tries shares gradients, and where needed the model. Private to the room.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/answer/recommendation.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

struct Way {
  std::string words;
  plan::StrategyKind kind = plan::StrategyKind::kAllReduce;
  int zero = 0;
  bool recompute = false;
  std::int64_t tensor = 1;
  bool as_stated = false;  // as the job has it
};

/// Of servers none: `ps` is their ideal, which would rank before what anybody runs; who states them has them as stated.
void share_by(const Way& way, Scenario& scenario);

/// The same and the rest of a choice, as settings of the job that was stated; `node` as `--node` has it.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> settings_of(const std::string& node, const Way& way,
                                                                           const answer::ServerChoice& choice);

}  // namespace ddlsim::whatif
