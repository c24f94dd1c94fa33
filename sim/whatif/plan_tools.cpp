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
  auto [found, added] = places_.try_emplace(stages_of(split));
  if (!added) return found->second;
  const auto plan = lowerer.outline(space.with(split));
  if (!plan) {
    // Another plan with those stages may be legal.
    places_.erase(found);
    return none;
  }
  std::vector<LayerRange>& places = found->second;
  places.resize(plan::positions_of(pipeline_of(split)));
  for (std::size_t c = 0; c < plan->classes.size(); ++c) {
    const plan::RankClass& one = plan->classes[c];
    if (one.parts.empty()) places[c] = {one.chunk.first, one.chunk.first + one.chunk.count};
    for (const plan::Part& part : one.parts) places[part.position] = {part.layer, part.layer + part.count};
  }
  return places;
}

}  // namespace ddlsim::whatif
