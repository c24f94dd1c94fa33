// How `find` looks for a value: by probing, from brackets to their ends. Private to the room.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "choose/condition.h"
#include "ddlsim/answer/inverse.h"
#include "ddlsim/whatif/find.h"
#include "ddlsim/whatif/predictor.h"
#include "scenario/number_settings.h"

namespace ddlsim::whatif {

/// What one value of the variable gives.
struct Probe {
  std::string setting;
  std::optional<answer::Prediction> prediction;  // nothing: it is no job
  double metric = 0;
  bool fits = true;
  std::string refusal;
};

/// Of one variable and condition, which must outlive it. `run` is in find.cpp, the rest but words in find_search.cpp.
class FindSearch {
 public:
  FindSearch(const io::Catalog& catalog, std::span<const Override> base, const NumberSetting& variable,
             const Condition& condition)
      : catalog_(catalog.for_one_question()),
        base_(base.begin(), base.end()),
        variable_(variable),
        condition_(condition) {}

  Expected<answer::Inverse> run(const FindOptions& options);

 private:
  using Probes = std::map<double, Probe>;
  /// Neighbours of which one holds.
  struct Bracket {
    double low;
    double high;
  };

  [[nodiscard]] bool counts() const { return variable_.kind == NumberKind::kCount; }
  [[nodiscard]] int digits() const { return condition_.relation == Relation::kEqual ? 6 : 4; }
  [[nodiscard]] std::string text(double value) const { return shown_number(variable_.kind, value, digits()); }
  /// As it is written down: of a network that of each port.
  [[nodiscard]] double rounded(double value) const {
    return rounded_number(variable_.kind, value / ports(), digits()) * ports();
  }
  [[nodiscard]] double ports() const {
    return variable_.path == "network" ? static_cast<double>(scenario_->cluster.node.network_ports) : 1.0;
  }
  [[nodiscard]] std::vector<Override> changes(double value) const;
  [[nodiscard]] Expected<Scenario> with_runs(Scenario scenario) const;
  Expected<answer::Prediction> predict_with(std::span<const Override> changed);
  const Probe& probe(double value);
  [[nodiscard]] std::optional<double> value_now() const;
  [[nodiscard]] bool side(const Probe& one) const;
  [[nodiscard]] bool holds(const Probe& one) const;
  Expected<void> set_range(const FindOptions& options);
  void try_range();
  void try_all(double low, double high);
  void try_turns();
  [[nodiscard]] bool monotone() const;
  [[nodiscard]] std::vector<Bracket> brackets() const;
  [[nodiscard]] const Bracket& nearest(const std::vector<Bracket>& all) const;
  template <typename Side>
  Bracket narrowed(Bracket bracket, Side side);
  void try_largest_that_fits();
  [[nodiscard]] double middle(const Bracket& bracket) const;
  [[nodiscard]] Expected<void> check_difference() const;
  [[nodiscard]] std::vector<std::string> no_jobs() const;
  [[nodiscard]] double best() const;
  [[nodiscard]] double tightest_end() const;
  double found_end(double limit, answer::Inverse& result);
  [[nodiscard]] double off(const Probe& one) const;
  [[nodiscard]] std::string limit_text(double value) const;
  void answer_with(double value, answer::Inverse& result);
  void describe_now(double metric, answer::Inverse& result);
  void describe_tries(answer::Inverse& result) const;

  io::Catalog catalog_;
  std::vector<Override> base_;
  const NumberSetting& variable_;
  const Condition& condition_;
  std::optional<Scenario> scenario_;
  std::optional<answer::Prediction> baseline_;
  std::optional<double> now_;
  bool must_fit_ = false;
  std::optional<double> sure_;
  double low_ = 0;
  double high_ = 0;
  Predictor predictor_;
  bool complete_ = false;  // every value was tried
  Probes probes_;          // that are jobs, and those that are none
};

}  // namespace ddlsim::whatif
