#include "plan_memory.h"

#include <algorithm>

#include "ddlsim/plan/order.h"

namespace ddlsim::whatif {
namespace {

using plan::PipelineSchedule;

/// Rounding of sums taken in another order than the ledger takes them.
constexpr double kMemoryRounding = 1 - 1e-9;

/// Of what replicas share each holds a part, from a stage of zero on.
double share_of(const Split& split, int from) {
  return split.zero >= from ? 1.0 / static_cast<double>(split.data * split.context) : 1.0;
}

template <typename T>
T between(const std::vector<T>& sums, const LayerRange& layers) {
  return sums[layers.end] - sums[layers.first];
}

DataSize largest(const std::vector<DataSize>& all) {
  return all.empty() ? DataSize::zero() : *std::max_element(all.begin(), all.end());
}

}  // namespace

PlanMemory::PlanMemory(const PlanSpace& space, PlanTools& tools)
    : space_(space), tools_(tools), held_of_(space.shapes().size()) {}

const std::optional<PlanMemory::Held>& PlanMemory::held(std::size_t index) {
  const auto*& known = held_of_[index];
  if (known != nullptr) return *known;
  ShapeKey key = space_.shapes()[index];
  key.stages = 1;
  key.batch = 1;  // all of it but weights' gradients grows with the micro-batch
  auto found = held_.find(key);
  if (found == held_.end()) found = held_.emplace(key, make_held(key)).first;
  known = &found->second;
  return *known;
}

std::optional<PlanMemory::Held> PlanMemory::make_held(const ShapeKey& key) {
  const ShortModel* shorter = tools_.shorter ? &*tools_.shorter : nullptr;
  Scenario job = space_.with(key);
  if (shorter != nullptr) job.model = shorter->model;
  const auto layers = tools_.lowerer.held(job);
  if (!layers) return std::nullopt;
  const auto whole = [&](const auto& by_layer) { return shorter != nullptr ? shorter->whole(by_layer) : by_layer; };
  return Held{.weights = sums_of(whole(layers->weights)),
              .gradients = sums_of(whole(layers->gradients)),
              .states = sums_of(whole(layers->states)),
              .kept = sums_of(whole(layers->kept)),
              .saved = sums_of(whole(layers->saved)),
              .loss = whole(layers->loss),
              .working = whole(layers->working),
              .weight_gradient = whole(layers->weight_gradient),
              .most_working = largest(layers->working),
              .most_gradient = largest(layers->weight_gradient)};
}

DataSize PlanMemory::states_of(const Held& sums, const Split& split, const LayerRange& layers) {
  return between(sums.weights, layers) * share_of(split, 3) + between(sums.gradients, layers) * share_of(split, 2) +
         between(sums.states, layers) * share_of(split, 1);
}

/// However layers are shared, some rank has its mean share, and one micro-batch of it.
DataSize PlanMemory::least(const Split& split, std::size_t index, std::int64_t parts) {
  const auto& known = held(index);
  if (!known) return DataSize::infinity();
  const Held& sums = *known;
  const auto batch = static_cast<double>(split.batch);
  const DataSize all = states_of(sums, split, {0, sums.kept.size() - 1}) + sums.kept.back() * batch;
  // Of several parts of a rank all but one may hold less when it holds most: by what a layer works with.
  const DataSize working = sums.most_working * batch + sums.most_gradient;
  const DataSize mean = all / static_cast<double>(split.pipeline) - working * static_cast<double>(parts - 1);
  return max(mean, DataSize::zero()) * kMemoryRounding;
}

const std::vector<PlanMemory::PartHeld>& PlanMemory::parts_of(const Split& split, const Held& sums) {
  const auto batch = static_cast<double>(split.batch);
  std::vector<PartHeld>& parts = parts_[{&sums, split.batch, stages_of(split)}];
  if (!parts.empty()) return parts;
  for (const LayerRange& layers : tools_.places.of(split, space_, tools_.lowerer)) {
    PartHeld part{.layers = layers, .saved = std::max(between(sums.saved, layers), 1.0)};
    part.kept = between(sums.kept, layers) * batch;
    DataSize most;
    for (std::size_t i = layers.first; i < layers.end; ++i) {
      const DataSize below = between(sums.kept, {layers.first, i + 1}) * batch;
      const DataSize loss = sums.loss[i] * batch;
      const DataSize working = sums.working[i] * batch + sums.weight_gradient[i];
      if (below + loss + working <= most) continue;
      most = below + loss + working;
      part.activations = below;
      part.loss = loss;
      part.working = working;
    }
    parts.push_back(part);
  }
  return parts;
}

const std::vector<PlanMemory::Flying>& PlanMemory::in_flight(const Split& split, const Held& sums,
                                                             const std::vector<PartHeld>& parts) {
  // Enough for any order to keep as many as it ever does.
  Split shortened = split;
  if (split.schedule != PipelineSchedule::kGpipe) shortened.passes = std::min(split.passes, 4 * split.pipeline);
  const StagesKey schedule{split.pipeline, split.schedule, split.virtual_stages};
  std::vector<Flying>& all = flying_[{&sums, schedule, shortened.passes}];
  if (!all.empty()) return all;
  const plan::Pipeline pipeline = pipeline_of(shortened);
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(split.pipeline); ++stage) {
    std::vector<double> saved;
    for (std::int64_t part = 0; part < plan::parts_of(pipeline); ++part) {
      saved.push_back(parts[plan::position_of(pipeline, {stage, static_cast<std::size_t>(part)})].saved);
    }
    // Most ranks of most shapes have parts that are alike.
    for (std::size_t part = saved.size(); part-- > 0;) saved[part] /= saved.front();
    Flying& one = flying_of_[{schedule, shortened.passes, stage, saved}];
    if (one.empty()) one = plan::in_flight(pipeline, stage, saved);
    all.push_back(one);
  }
  return all;
}

DataSize PlanMemory::of(const Split& split, std::size_t index) {
  const DataSize least = this->least(split, index, plan::parts_of(pipeline_of(split)));
  if (least == DataSize::infinity() || split.pipeline == 1) return least;
  const Held& sums = *held(index);
  const std::vector<PartHeld>& parts = parts_of(split, sums);
  const plan::Pipeline pipeline = pipeline_of(split);
  if (parts.size() != plan::positions_of(pipeline)) return least;
  const std::vector<Flying>& in_flight = this->in_flight(split, sums, parts);
  DataSize fullest = least;
  for (std::size_t s = 0; s < static_cast<std::size_t>(split.pipeline); ++s) {
    const Flying& flying = in_flight[s];
    DataSize all;
    DataSize working;
    for (std::size_t r = 0; r < flying.size(); ++r) {
      const PartHeld& part = parts[plan::position_of(pipeline, {s, r})];
      all += states_of(sums, split, part.layers) + part.kept * static_cast<double>(flying[r] - 1) + part.activations +
             part.loss;
      working = max(working, part.working);
    }
    fullest = max(fullest, (all + working) * kMemoryRounding);
  }
  return fullest;
}

}  // namespace ddlsim::whatif
