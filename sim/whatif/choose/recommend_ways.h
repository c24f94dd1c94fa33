// How a job that `recommend` tries shares gradients, and where needed the model. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "choose/recommend_reasons.h"
#include "ddlsim/answer/recommendation.h"
#include "ddlsim/whatif/scenario.h"
#include "search/best_plan.h"

namespace ddlsim::whatif {

struct Way {
  std::string words;
  plan::StrategyKind kind = plan::StrategyKind::kAllReduce;  // of a plan the job's own
  bool as_stated = false;                                    // as the job has it
  std::optional<FastestPlan> plan{};                         // that splits the model
};

/// The way of a plan, its words those of the plan but for what a choice has of its own (servers, batches).
[[nodiscard]] Way way_of(FastestPlan plan);

/// Of servers none: `ps` is their ideal, which would rank before what anybody runs; who states them has them as stated.
void share_by(const Way& way, Scenario& scenario);

/// The same and the rest of a choice, as settings of the job that was stated; `node` as `--node` has it.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> settings_of(const std::string& node, const Way& way,
                                                                           const answer::ServerChoice& choice);

/// The largest divisor of a replica's share, or what is stated, whose pass fits: `scenario` then has it. Nothing: not
/// even a pass of one sample does; `miss` says by how much.
[[nodiscard]] std::optional<std::int64_t> largest_pass(Scenario& scenario, std::int64_t share,
                                                       const std::optional<std::int64_t>& stated, Miss& miss);

/// An epoch is the data set's.
void read_data_set(Scenario& scenario);

/// Of a run's steps those of its first epoch, where that reads what later ones may have in memory.
[[nodiscard]] std::optional<double> first_epoch_share(const Scenario& scenario, const answer::ServerChoice& choice);

}  // namespace ddlsim::whatif
