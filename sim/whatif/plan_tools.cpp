#include "plan_tools.h"

namespace ddlsim::whatif {

using plan::PipelineSchedule;

bool in_order(const Split& split) {
  return split.pipeline > 1 &&
         (split.schedule == PipelineSchedule::kGpipe || split.schedule == PipelineSchedule::kOneForwardOneBackward ||
          split.schedule == PipelineSchedule::kNone);
}

StagesKey stages_of(const Split& split) {
  return {split.pipeline, in_order(split) ? PipelineSchedule::kOneForwardOneBackward : split.schedule,
          split.virtual_stages};
}

const std::vector<LayerRange>& PipelinePlaces::of(const Split& split, const PlanSpace& space, plan::Lowerer& lowerer) {
  static const std::vector<LayerRange> none;
  const std::size_t positions = plan::positions_of(pipeline_of(split));
  if (const auto found = alike_.find(positions); found != alike_.end()) return found->second;
  const ShapeKey shape{.tensor = split.tensor,
                       .context = split.context,
                       .expert = split.expert,
                       .batch = split.batch,
                       .stages = split.pipeline > 1 ? 2 : 1,  // a tied head has weights of its own on another stage
                       .recompute = split.recompute,
                       .context_by = split.context_by,
                       .sequence = split.sequence};
  if (const auto found = places_.find({positions, shape}); found != places_.end()) return found->second;
  const auto starts = lowerer.starts(space.with(split));
  if (!starts) return none;  // another plan with those stages may be legal
  std::vector<LayerRange>& places = starts->anyhow ? alike_[positions] : places_[{positions, shape}];
  for (std::size_t q = 0; q < positions; ++q) places.push_back({starts->first[q], starts->first[q + 1]});
  return places;
}

}  // namespace ddlsim::whatif
