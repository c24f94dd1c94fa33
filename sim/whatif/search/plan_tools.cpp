#include "search/plan_tools.h"

#include <utility>

namespace ddlsim::whatif {

using plan::PipelineSchedule;

bool is_split(const Split& split, plan::Parallel stated) {
  if (split.pipeline > 1) return true;
  stated.pipeline = 1;
  stated.tensor = split.tensor;
  stated.context = split.context;
  stated.expert = split.expert;
  if (split.whole_experts) stated.expert_tensor = 1;
  stated.zero = split.zero;
  stated.recompute = split.recompute;
  return plan::splits_model(stated);
}

void send_plainly(Scenario& job) {
  if (plan::grouping_of(job.strategy) == plan::Grouping::kFusion) job.strategy.grouping = plan::Grouping::kBuckets;
  job.strategy.priority = false;
}

bool in_order(const Split& split) {
  return split.pipeline > 1 &&
         (split.schedule == PipelineSchedule::kGpipe || split.schedule == PipelineSchedule::kOneForwardOneBackward ||
          split.schedule == PipelineSchedule::kNone);
}

StagesKey stages_of(const Split& split) {
  return {split.pipeline, in_order(split) ? PipelineSchedule::kOneForwardOneBackward : split.schedule,
          split.virtual_stages, split.cut};
}

PipelinePlaces::PipelinePlaces(const Scenario& base, const std::optional<ShortModel>& shorter)
    : shorter_(shorter && base.parallel.cuts.empty() && base.parallel.lora_rank == 0 ? &*shorter : nullptr),
      same_for_all_(base.parallel.recompute_every == 1 && !base.fusion.pointwise && base.parallel.lora_rank == 0) {
  if (shorter_ != nullptr) blocks_ = workload::blocks_of(base.model->layers);
}

const std::vector<LayerRange>& PipelinePlaces::of(const Split& split, const PlanSpace& space, plan::Lowerer& lowerer) {
  static const std::vector<LayerRange> none;
  const std::size_t positions = plan::positions_of(pipeline_of(split));
  if (const std::vector<std::size_t>* cuts = space.timed_cuts_of(split)) {
    std::vector<LayerRange>& places = timed_[*cuts];
    if (!places.empty()) return places;
    std::size_t first = 0;
    for (const std::size_t cut : *cuts) places.push_back({std::exchange(first, cut), cut});
    places.push_back({first, space.base().model->layers.size()});
    return places;
  }
  if (const auto found = alike_.find({positions, split.cut}); found != alike_.end()) return found->second;
  const ShapeKey shape{.tensor = split.tensor,
                       .context = split.context,
                       .expert = split.expert,
                       .whole_experts = split.whole_experts,
                       .batch = split.batch,
                       .stages = split.pipeline > 1 ? 2 : 1,  // a tied head has weights of its own on another stage
                       .recompute = split.recompute,
                       .context_by = split.context_by,
                       .sequence = split.sequence};
  if (last_ == nullptr || last_->first != shape) last_ = &*places_.try_emplace(shape).first;
  OfShape& of_shape = last_->second;
  const auto found = of_shape.find(positions);
  if (split.cut == StageCut::kUsual && found != of_shape.end()) return found->second;
  const auto starts = starts_of(split, shape, positions, space, lowerer);
  if (!starts) return none;  // another plan with those stages may be legal
  const bool alike = split.cut != StageCut::kUsual || (starts->anyhow && same_for_all_);
  std::vector<LayerRange>& places = alike ? alike_[{positions, split.cut}] : of_shape[positions];
  places.reserve(positions);
  for (std::size_t q = 0; q < positions; ++q) places.push_back({starts->first[q], starts->first[q + 1]});
  return places;
}

std::size_t PipelinePlaces::number_of(const Split& split, const PlanSpace& space, plan::Lowerer& lowerer) {
  if (split.cut == StageCut::kUsual && !same_for_all_ && space.timed_cuts_of(split) == nullptr) return 0;
  std::vector<std::size_t> ends;
  if (split.pipeline > 1) {
    for (const LayerRange& place : of(split, space, lowerer)) ends.push_back(place.end);
    if (ends.empty()) return 0;
  }
  return numbers_.try_emplace(std::move(ends), numbers_.size() + 1).first->second;
}

std::optional<plan::StageStarts> PipelinePlaces::starts_of(const Split& split, const ShapeKey& shape,
                                                           std::size_t positions, const PlanSpace& space,
                                                           plan::Lowerer& lowerer) {
  if (split.cut != StageCut::kUsual) {
    plan::StageStarts starts{.first = {0}, .anyhow = true};
    const std::vector<std::size_t>& cuts = space.cuts_of(split);
    starts.first.insert(starts.first.end(), cuts.begin(), cuts.end());
    starts.first.push_back(space.base().model->layers.size());
    return starts;
  }
  if (shorter_ == nullptr) {
    auto starts = lowerer.starts(space.with(split));
    return starts ? std::optional(std::move(*starts)) : std::nullopt;
  }
  if (positions > space.base().model->layers.size()) return std::nullopt;
  std::optional<Cut>& cut = cut_of(split, shape, space, lowerer);
  if (!cut) return std::nullopt;
  return plan::balanced_starts(cut->points, cut->loads, static_cast<double>(split.batch), positions,
                               cut->weights[split.batch]);
}

std::optional<PipelinePlaces::Cut>& PipelinePlaces::cut_of(const Split& split, ShapeKey shape, const PlanSpace& space,
                                                           plan::Lowerer& lowerer) {
  shape.batch = 1;
  const auto [found, added] = cuts_.try_emplace(shape);
  if (!added) return found->second;
  shape.nodes = split.nodes;
  shape.stages = split.pipeline;
  Scenario job = space.with(shape);
  job.model = shorter_->model;
  const auto loads = lowerer.loads(job);
  if (!loads) return found->second;
  Cut cut{.loads = {.work = shorter_->whole(loads->work),
                    .elements = shorter_->whole(loads->elements),
                    .weights = shorter_->whole(loads->weights),
                    .per_element = loads->per_element},
          .points = {},
          .weights = {}};
  cut.points = plan::cut_points_of(blocks_, cut.loads);
  found->second = std::move(cut);
  return found->second;
}

}  // namespace ddlsim::whatif
