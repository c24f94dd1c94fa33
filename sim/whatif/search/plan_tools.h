// What a search over plans works out once for all plans that share it. Private to the room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "ddlsim/cost/price_memo.h"
#include "ddlsim/plan/lowerer.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/plan/stage_cuts.h"
#include "ddlsim/workload/blocks.h"
#include "search/plan_space.h"
#include "search/short_model.h"

namespace ddlsim::whatif {

/// The layers of a position of a pipeline.
struct LayerRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

/// Whether the lowering cuts the model, or shares its states, whatever else of the job is stated.
[[nodiscard]] bool is_split(const Split& split, plan::Parallel stated);

/// A coordinator's cycles, which some splits refuse, change nothing of what a shape computes and holds.
void send_plainly(Scenario& job);

/// Stages of consecutive layers, one after the other, whose order of passes is that of plan/order.h.
[[nodiscard]] bool in_order(const Split& split);

/// What decides the order of a pipeline's passes, and where its parts begin: stages, schedule, chunks, cut.
using StagesKey = std::tuple<std::int64_t, plan::PipelineSchedule, std::int64_t, StageCut>;
/// Where passes of the same stages go one after the other the same way, one for all.
[[nodiscard]] StagesKey stages_of(const Split& split);

/// Where the parts of pipelines are, as the lowering has them: where a model's blocks are alike they follow from the
/// number of parts alone, else from what each layer of a shape has to do.
class PipelinePlaces {
 public:
  PipelinePlaces(const Scenario& base, const std::optional<ShortModel>& shorter);

  /// By position. Empty where the lowering refuses the plan.
  const std::vector<LayerRange>& of(const Split& split, const PlanSpace& space, plan::Lowerer& lowerer);
  /// Whether those of a plan that was asked for are those of all with as many.
  [[nodiscard]] bool are_alike(const Split& split) const {
    return alike_.contains({plan::positions_of(pipeline_of(split)), split.cut});
  }
  /// The same for plans whose parts are in the same places, where what layers are follows from these and the shape;
  /// 0: it does not.
  [[nodiscard]] std::size_t number_of(const Split& split, const PlanSpace& space, plan::Lowerer& lowerer);

 private:
  /// Of the whole model as a shape cuts it.
  struct Cut {
    plan::LayerLoads loads;
    plan::CutPoints points;
    std::map<std::int64_t, plan::PieceWeights> weights;  // by micro-batch
  };
  [[nodiscard]] std::optional<plan::StageStarts> starts_of(const Split& split, const ShapeKey& shape,
                                                           std::size_t positions, const PlanSpace& space,
                                                           plan::Lowerer& lowerer);
  std::optional<Cut>& cut_of(const Split& split, ShapeKey shape, const PlanSpace& space, plan::Lowerer& lowerer);

  const ShortModel* shorter_;  // null: cuts are stated, or no model stands for the whole
  bool same_for_all_;          // where parts begin does not depend on how layers are cut and joined
  std::vector<workload::Block> blocks_;
  std::map<std::pair<std::size_t, StageCut>, std::vector<LayerRange>> alike_;  // by positions
  using OfShape = std::map<std::size_t, std::vector<LayerRange>>;              // likewise
  std::map<ShapeKey, OfShape> places_;
  std::map<std::vector<std::size_t>, std::vector<LayerRange>> timed_;  // by cuts (PlanSpace::timed_cuts_of)
  std::pair<const ShapeKey, OfShape>* last_ = nullptr;                 // of these, that was asked for last
  std::map<std::vector<std::size_t>, std::size_t> numbers_;            // of places, by where each ends
  std::map<ShapeKey, std::optional<Cut>> cuts_;                        // nothing: refused
};

/// Over those before each, from none to all.
template <typename T>
[[nodiscard]] std::vector<T> sums_of(const std::vector<T>& parts) {
  std::vector<T> sums(parts.size() + 1);
  for (std::size_t i = 0; i < parts.size(); ++i) sums[i + 1] = sums[i] + parts[i];
  return sums;
}

struct PlanTools {
  plan::Lowerer lowerer;  // first: prices are named by its lists
  cost::PriceMemo prices;
  std::optional<ShortModel> shorter;
  PipelinePlaces places;
  StageTimes stages;
  std::size_t kept_layers = 0;  // that were cut and priced: memory grows with them

  void keep_layers_of(const Scenario& job) { kept_layers += job.model->layers.size(); }

  explicit PlanTools(const Scenario& base) : shorter(short_model_of(base)), places(base, shorter) {}
};

}  // namespace ddlsim::whatif
