// The search behind `recommend`: types of servers, what each can do, and the answer. Private to the room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "choose/recommend_plans.h"
#include "choose/recommend_reasons.h"
#include "choose/recommend_types.h"
#include "choose/recommend_ways.h"
#include "ddlsim/answer/recommendation.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/whatif/predictor.h"
#include "ddlsim/whatif/recommend.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

using answer::NoChoice;
using answer::ServerChoice;

/// A type of server with its price; the job resolved on it.
struct Candidate {
  Scenario scenario;
  std::string node;
  std::string name;  // as `--node` has it: a file of one's own by its path
};

/// A choice, and what makes its job again.
struct Trial {
  ServerChoice choice;
  std::size_t candidate = 0;
  Way way;
};

/// A cluster that a GPU's memory is too small for without a plan.
struct PlanTask {
  std::size_t candidate = 0;
  std::int64_t nodes = 1;
  io::EpochsAtBatch batch;
};

class Recommender {
 public:
  Recommender(const io::Catalog& catalog, Asked asked, const RecommendOptions& options)
      : catalog_(catalog), asked_(std::move(asked)), options_(options) {}

  Expected<void> gather();
  Expected<answer::Recommendation> answer();

 private:
  [[nodiscard]] Expected<std::vector<std::string>> names() const;
  Expected<void> add_candidate(const std::string& name);
  void try_type(std::size_t number);
  bool try_way(std::size_t candidate, Scenario& scenario, const Way& way, std::int64_t global_batch, Miss& miss);
  void ask_for_plans(const PlanTask& task, const plan::MemoryFootprint& whole);
  [[nodiscard]] ClusterQuestion question_of(const PlanTask& task) const;
  void miss_plans(const PlanTask& task, const Miss& miss);
  void search_plans();
  bool take_plans(const PlanTask& task, Expected<ClusterPlans> plans);
  [[nodiscard]] std::vector<std::int64_t> counts(const Scenario& scenario) const;
  [[nodiscard]] std::vector<io::EpochsAtBatch> batches(const Scenario& scenario) const;
  void judge(const std::vector<ServerChoice>& all, answer::Recommendation& result);
  Expected<void> predict_best(answer::Recommendation& result);
  std::optional<ServerChoice> faster_on_more(const answer::Recommendation& result);
  std::optional<ServerChoice> faster_plan_on(std::int64_t nodes, std::size_t candidate, const ServerChoice& than);
  void add_faster_plans(answer::Recommendation& result);
  void add_notes_of_plans(answer::Recommendation& result) const;
  [[nodiscard]] Scenario scenario_of(const Trial& tried) const;

  const io::Catalog& catalog_;
  Asked asked_;
  const RecommendOptions& options_;
  Predictor predictor_;
  std::vector<Candidate> candidates_;
  std::vector<Miss> missed_;  // by candidate
  std::vector<PlanTask> plan_tasks_;
  std::vector<ClusterQuestion> plan_questions_;  // of these
  std::int64_t cut_short_ = 0;                   // searches that the limit of time ended
  std::vector<Trial> runnable_;                  // the cheapest first, once they are judged
  std::vector<std::size_t> inside_;              // of them, those inside the limits
  std::vector<NoChoice> infeasible_;
  std::optional<Error> refused_;  // the first type's that does not take the settings
  std::size_t priceless_ = 0;     // of `infeasible_`, those that nobody says the price of
  bool spot_ = false;
};

}  // namespace ddlsim::whatif
