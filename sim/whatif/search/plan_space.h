// The ways to split a job that whatif/plan_search.h compares. Private to the room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ddlsim/answer/plan_choice.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/plan/lowerer.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/plan/parallel.h"
#include "ddlsim/plan/stage_cuts.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/plan_search.h"
#include "ddlsim/whatif/scenario.h"
#include "predict/stage_times.h"

namespace ddlsim::whatif {

/// Where stages begin, unless somebody stated it.
enum class StageCut : std::uint8_t {
  kUsual,          // as the lowering has them (plan/stage_cuts.h)
  kLighter,        // cuts with a lighter heaviest part, where these are as many blocks each
  kLighterIfAgain  // the same of blocks that are computed again
};

/// What the search chooses.
struct Split {
  std::int64_t nodes = 1;
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  bool whole_experts = false;  // not cut over the tensor group
  std::int64_t pipeline = 1;
  std::int64_t data = 1;
  std::int64_t batch = 1;   // the micro-batch
  std::int64_t passes = 1;  // of it in a step
  std::int64_t virtual_stages = 1;
  plan::PipelineSchedule schedule = plan::PipelineSchedule::kOneForwardOneBackward;
  StageCut cut = StageCut::kUsual;
  plan::Recompute recompute = plan::Recompute::kNone;
  plan::ContextBy context_by = plan::ContextBy::kRing;
  int zero = 0;
  bool sequence = false;
};

[[nodiscard]] inline plan::Pipeline pipeline_of(const Split& split) {
  return {.schedule = split.schedule,
          .stages = split.pipeline,
          .virtual_stages = split.virtual_stages,
          .micro_batches = split.passes};
}

/// What kernels' times depend on.
struct ShapeKey {
  std::int64_t nodes = 1;
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  bool whole_experts = false;
  std::int64_t batch = 1;
  std::int64_t stages = 1;  // 1 unless where ranks stand depends on them
  plan::Recompute recompute = plan::Recompute::kNone;
  plan::ContextBy context_by = plan::ContextBy::kRing;
  bool sequence = false;

  friend auto operator<=>(const ShapeKey&, const ShapeKey&) = default;
};

/// Plans that differ in their schedule, its chunks and `zero` alone.
struct PlanFamily {
  Split split;
  std::size_t shape = 0;   // of PlanSpace::shapes
  std::size_t simple = 0;  // the shape that computes nothing again: it takes no longer, and holds no less
  std::int64_t members = 1;
  std::size_t variants = 0;  // of PlanSpace: its pipelines
};

/// A way to run a pipeline.
struct PipelineVariant {
  plan::PipelineSchedule schedule = plan::PipelineSchedule::kOneForwardOneBackward;
  std::int64_t virtual_stages = 1;
  StageCut cut = StageCut::kUsual;
};

/// A plan: a family and a member of it, in an order in which plans are numbered.
struct PlanId {
  std::uint32_t family = 0;
  std::uint32_t member = 0;

  friend auto operator<=>(const PlanId&, const PlanId&) = default;
};

/// The values among which plans choose; one of each that is stated.
struct PlanRange {
  std::vector<plan::PipelineSchedule> schedules;
  std::vector<std::int64_t> virtual_stages;  // stated; empty: by the model's blocks
  std::vector<plan::Recompute> recomputes;
  std::vector<plan::ContextBy> context_ways;
  std::vector<int> zeros;
  std::vector<bool> sequences;
  std::vector<bool> whole_experts;
  std::optional<std::int64_t> tensor, context, expert, pipeline, data, batch;
};

/// Whether that share of a question's time for the list of plans is over.
using IsOver = std::function<bool(double share)>;

/// The settings without those that name several values, "1f1b,interleaved": a plan's own say which.
[[nodiscard]] std::vector<Override> without_lists(std::span<const Override> stated);

class PlanSpace {
 public:
  /// Errors: of resolve; kUnsupported for a job that has no plan to search.
  [[nodiscard]] static Expected<PlanSpace> create(const io::Catalog& catalog, std::span<const Override> stated,
                                                  const PlanOptions& options, const IsOver& is_over = {});

  [[nodiscard]] const Scenario& base() const { return base_; }
  [[nodiscard]] std::int64_t global_batch() const { return global_batch_; }
  [[nodiscard]] const std::vector<PlanFamily>& families() const { return families_; }
  [[nodiscard]] bool compares_clusters() const { return node_counts_.size() > 1; }
  [[nodiscard]] bool compares(plan::PipelineSchedule schedule) const {
    return std::find(range_.schedules.begin(), range_.schedules.end(), schedule) != range_.schedules.end();
  }
  [[nodiscard]] std::int64_t plans() const { return plans_; }
  /// False: time was over before all plans were listed.
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  [[nodiscard]] std::vector<Split> members(const PlanFamily& family) const;
  [[nodiscard]] Split split(PlanId id) const;
  [[nodiscard]] const std::vector<ShapeKey>& shapes() const { return shapes_; }
  /// Of a rank, in any plan with so many stages.
  [[nodiscard]] std::int64_t most_parts(std::int64_t stages) const { return most_parts_.at(stages); }
  /// As Parallel::cuts, where a model that may be cut anywhere is cut as usual (predict/stage_times.h); null: stages
  /// are stated, or as the lowering has them.
  [[nodiscard]] const std::vector<std::size_t>* timed_cuts_of(const Split& split) const;
  /// As Parallel::cuts, of a split that is not cut as usual; empty: there are none.
  [[nodiscard]] const std::vector<std::size_t>& cuts_of(const Split& split) const;
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  /// The job with that split.
  [[nodiscard]] Scenario with(const Split& split) const;
  /// A job of that shape in one stage and one pass.
  [[nodiscard]] Scenario with(const ShapeKey& shape) const;
  /// What a scenario must be told to be that job, but for what was stated.
  [[nodiscard]] answer::PlanSettings settings_of(const Split& split) const;
  /// Why there is no candidate: the stated values that no plan can have, with those that one can.
  [[nodiscard]] Error nothing_legal() const;
  /// The same space on another number of servers.
  [[nodiscard]] PlanSpace on(std::int64_t nodes, plan::Lowerer& lowerer, const IsOver& is_over) const;

 private:
  /// How far the model can be cut.
  void read_model();
  /// Samples of a step. Errors: a count that is none; passes, which follow.
  [[nodiscard]] Expected<void> read_batch(std::span<const Override> stated);
  void enumerate(plan::Lowerer& lowerer, const IsOver& is_over = {});
  void enumerate_ranks(Split split, const IsOver& is_over);
  void enumerate_experts(Split split);
  void enumerate_passes(Split split);
  void enumerate_shapes(Split split);
  [[nodiscard]] std::span<const int> zeros_for(const Split& split) const;
  [[nodiscard]] std::vector<PipelineVariant> variants_of(const Split& split);
  [[nodiscard]] bool has_lighter_cuts(const Split& split);
  void cut_by_times(const Split& split, StageTimes& times);
  void strike_unsupported(plan::Lowerer& lowerer);
  [[nodiscard]] bool supports(const Split& split, plan::Lowerer& lowerer) const;
  [[nodiscard]] bool takes_positions(std::int64_t positions) const {
    return positions <= most_stages_ || positions == blocks_with_ends_;
  }
  [[nodiscard]] std::vector<std::int64_t> chunks_for(std::int64_t stages) const;
  [[nodiscard]] std::vector<std::string> legal_values(PlanRange without, std::string_view path) const;

  Scenario base_;
  PlanRange range_;
  std::vector<std::int64_t> node_counts_;
  std::int64_t global_batch_ = 1;
  std::int64_t most_stages_ = 0;
  std::int64_t blocks_ = 0;            // of the model, alike: as many as it has attentions
  std::int64_t blocks_with_ends_ = 0;  // these, and what stands before and behind them; 0: they count for nothing
  plan::CutPoints cut_points_;         // of the model; none: it has no blocks, or cuts are stated
  plan::LayerLoads loads_, loads_again_;
  std::map<std::pair<std::size_t, StageCut>, std::vector<std::size_t>> lighter_cuts_;  // by parts
  using TimedKey = std::tuple<std::int64_t, plan::PipelineSchedule, std::int64_t, std::int64_t, std::int64_t,
                              std::int64_t, plan::Recompute>;
  [[nodiscard]] static TimedKey timed_key(const Split& split);
  std::map<TimedKey, std::vector<std::size_t>> timed_cuts_;  // of models that are cut anywhere
  bool has_experts_ = false;
  bool cuts_tensors_ = false;  // of convolutions and recurrent layers a rank of a group would do all
  std::vector<PlanFamily> families_;
  std::vector<std::vector<PipelineVariant>> variants_;
  std::map<std::int64_t, std::int64_t> most_parts_;  // by stages
  std::int64_t plans_ = 0;
  bool is_whole_ = true;
  std::vector<ShapeKey> shapes_;
  std::vector<std::string> notes_;
  std::vector<std::string> stated_;  // paths
};

}  // namespace ddlsim::whatif
