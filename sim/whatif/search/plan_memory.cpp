#include "search/plan_memory.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/workload/blocks.h"

namespace ddlsim::whatif {
namespace {

using plan::PipelineSchedule;

/// Of what so many replicas share, each holds this part.
struct Shares {
  double dense = 1;
  double experts = 1;
  friend bool operator==(const Shares&, const Shares&) = default;
};

/// From a stage of zero on. Tensor ranks that have the same whole experts share them as well.
Shares shares_of(const Split& split, int from) {
  if (split.zero < from) return {};
  // DualPipe's other direction has a copy of every stage, which shares as well.
  const std::int64_t copies = split.pipeline > 1 ? plan::directions_of(split.schedule) : 1;
  const auto replicas = static_cast<double>(split.data * split.context * copies);
  const auto alike = static_cast<double>(split.whole_experts ? split.tensor : 1);
  const double of_experts = replicas * alike / static_cast<double>(split.expert);
  return {1.0 / replicas, 1.0 / std::max(of_experts, 1.0)};
}

/// Likewise of gradients: those that are made in turn may all be there when little else is.
Shares gradient_shares_of(const Split& split, const PlanSpace& space) {
  const bool whole = split.tensor * split.context * split.expert * split.pipeline == 1;
  if (space.base().parallel.offload_optimizer && split.zero >= 2) return {0.0, 0.0};  // they leave for the host
  if (whole && plan::makes_gradients_in_turn(space.base(), split.zero, split.passes)) return {0.0, 0.0};
  // As plan::keeps_gradients_whole has it of the split, without a copy.
  const bool kept = space.base().parallel.no_sync && split.zero == 3 && split.passes > 1;
  return kept ? Shares{} : shares_of(split, 2);
}

Shares weight_shares_of(const Split& split, const PlanSpace& space) {
  if (space.base().parallel.offload_weights) return {0.0, 0.0};  // they wait on the host
  return shares_of(split, 3);
}

DataSize operator*(const plan::Shareable& all, const Shares& shares) {
  return all.dense * shares.dense + all.experts * shares.experts;
}

template <typename T>
T between(const std::vector<T>& sums, const LayerRange& layers) {
  return sums[layers.end] - sums[layers.first];
}

DataSize largest(const std::vector<DataSize>& all) {
  return all.empty() ? DataSize::zero() : *std::max_element(all.begin(), all.end());
}

DataSize smallest(const std::vector<DataSize>& all) {
  return all.empty() ? DataSize::zero() : *std::min_element(all.begin(), all.end());
}

}  // namespace

PlanMemory::PlanMemory(const PlanSpace& space, PlanTools& tools)
    : space_(space), tools_(tools), held_of_(space.shapes().size()) {
  const auto model = plan::model_as_run(space.base());
  if (!model) return;  // nor has it a plan
  for (const workload::Block& block : workload::blocks_of((*model)->layers)) block_starts_.push_back(block.first);
  block_starts_.push_back((*model)->layers.size());
}

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
  send_plainly(job);
  // In one stage other orders of axes may stand unevenly on servers: where ranks stand is no matter of what they hold.
  job.cluster.gpus_per_node = job.cluster.gpus();
  job.cluster.nodes = 1;
  tools_.keep_layers_of(space_.base());
  const auto layers = tools_.lowerer.held(job);
  if (!layers) return std::nullopt;
  const auto whole = [&](const auto& by_layer) { return shorter != nullptr ? shorter->whole(by_layer) : by_layer; };
  const bool by_stage = key.recompute == plan::Recompute::kStage;
  std::vector<DataSize> casts = whole(layers->casts);
  if (by_stage) casts.assign(casts.size(), DataSize::zero());
  return Held{.inputs_alone = by_stage,
              .input = job.model->input_per_sample,
              .weights = sums_of(whole(layers->weights)),
              .gradients = sums_of(whole(layers->gradients)),
              .states = sums_of(whole(layers->states)),
              .kept = sums_of(whole(layers->kept)),
              .casts = sums_of(casts),
              .gathered = sums_of(whole(layers->gathered)),
              .gathered_gradients = sums_of(whole(layers->gathered_gradients)),
              .saved = sums_of(whole(layers->saved)),
              .loss = whole(layers->loss),
              .working = whole(layers->working),
              .weight_gradient = whole(layers->weight_gradient),
              .edge = whole(layers->edge),
              .most_working = largest(layers->working),
              .most_gradient = largest(layers->weight_gradient),
              .least_edge = smallest(layers->edge)};
}

/// However layers are shared, some rank has its mean share, and one micro-batch of it.
DataSize PlanMemory::least(const Split& split, std::size_t index, std::int64_t parts) {
  const auto& known = held(index);
  if (!known) return DataSize::infinity();
  const Held& sums = *known;
  const auto batch = static_cast<double>(split.batch);
  const DataSize states = sums.weights.back() * weight_shares_of(split, space_) +
                          sums.gradients.back() * gradient_shares_of(split, space_) +
                          sums.states.back() * shares_of(split, 1);
  const DataSize casts = split.zero >= 3 ? DataSize::zero() : sums.casts.back();
  // Of parts that keep their input alone one at a time is computed again.
  const double once = sums.inputs_alone ? batch / static_cast<double>(parts) : batch;
  const DataSize all = states + casts + sums.kept.back() * once;
  // Of several parts of a rank all but one may hold less when it holds most: by what a layer works with.
  const DataSize working = sums.most_working * batch + sums.most_gradient;
  const DataSize mean = all / static_cast<double>(split.pipeline) - working * static_cast<double>(parts - 1);
  // Each rank but the first and the last has a neighbour on either side of every part.
  const DataSize edges =
      sums.least_edge * (batch * 2.0 * static_cast<double>(split.pipeline - 1) / static_cast<double>(split.pipeline));
  return max(mean + edges, DataSize::zero()) * kMemoryRounding;
}

PlanMemory::PartHeld PlanMemory::part_of(const LayerRange& layers, double batch, const Held& sums) {
  PartHeld part{.layers = layers, .saved = std::max(between(sums.saved, layers), 1.0)};
  const DataSize input = (layers.first > 0 ? sums.edge[layers.first - 1] : sums.input) * batch;
  part.kept = sums.inputs_alone ? input : between(sums.kept, layers) * batch;
  units_.clear();
  for (auto start = std::upper_bound(block_starts_.begin(), block_starts_.end(), layers.first);
       start != block_starts_.end(); ++start) {
    const LayerRange block{std::max(*(start - 1), layers.first), std::min(*start, layers.end)};
    units_.push_back({between(sums.gathered, block), between(sums.gathered_gradients, block)});
    if (*start >= layers.end) break;
  }
  part.gathered = plan::most_gathered(units_, space_.base().parallel.prefetch);
  const ShortModel* shorter = tools_.shorter ? &*tools_.shorter : nullptr;
  // Of equals, as far as rounding tells, that which works with the most: rounding of the ledger's may choose any, and
  // of what several parts work with the largest counts alone.
  const auto keep_more = [](const Most& here, Most& most) {
    const bool more = here.all() * kMemoryRounding > most.all();
    if (more || (here.all() > most.all() * kMemoryRounding && here.working > most.working)) most = here;
  };
  for (std::size_t i = layers.end; i-- > layers.first;) {
    if (shorter != nullptr && shorter->next[i] < layers.end) continue;  // its like has more below it
    const DataSize kept = between(sums.kept, {layers.first, i + 1}) * batch;
    const DataSize again = sums.inputs_alone ? kept : DataSize::zero();
    Most here{.activations = sums.inputs_alone ? input : kept, .loss = sums.loss[i] * batch};
    here.working =
        plan::beside_loss(space_.base(), here.loss, again + sums.working[i] * batch + sums.weight_gradient[i]);
    keep_more(here, part.gathering);
    here.casts = between(sums.casts, {layers.first, i + 1});
    keep_more(here, part.casting);
  }
  const bool receives = layers.first > 0;
  const bool returns = layers.end < sums.edge.size();
  part.edges = sums.edge[receives ? layers.first - 1 : layers.end - 1] *
               (batch * ((receives ? 1.0 : 0.0) + (returns ? 1.0 : 0.0)));
  return part;
}

std::uint32_t PlanMemory::part_at(std::size_t position, const Held& sums) {
  std::uint32_t& number = numbers_[asked_->numbers].of_parts[position];
  if (number == 0) {
    parts_.push_back(part_of((*asked_->places)[position], asked_->batch, sums));
    number = static_cast<std::uint32_t>(parts_.size());
  }
  return number - 1;
}

/// By what its first part keeps where every rank keeps as many micro-batches as there are ranks from it on.
std::size_t PlanMemory::likely_fullest(const std::vector<LayerRange>& places, const Split& split, const Held& sums) {
  std::size_t fullest = 0;
  DataSize most;
  for (std::size_t s = 0; s < static_cast<std::size_t>(split.pipeline); ++s) {
    const auto from_here = std::min(split.passes, split.pipeline - static_cast<std::int64_t>(s));
    const DataSize all = between(sums.kept, places[s]) * static_cast<double>(split.batch * from_here);
    if (all <= most) continue;
    most = all;
    fullest = s;
  }
  return fullest;
}

/// By its first part, whatever replicas share.
std::size_t PlanMemory::with_most_states(const std::vector<LayerRange>& places, const Split& split, const Held& sums) {
  std::size_t fullest = 0;
  DataSize most;
  for (std::size_t s = 0; s < static_cast<std::size_t>(split.pipeline); ++s) {
    const DataSize all = between(sums.weights, places[s]) * Shares{};
    if (all <= most) continue;
    most = all;
    fullest = s;
  }
  return fullest;
}

std::size_t PlanMemory::FlyingHash::operator()(const FlyingKey& key) const {
  std::size_t hash = 0;
  const auto add = [&](auto value) { hash = hash * 31 + std::hash<decltype(value)>()(value); };
  const auto& [stages, schedule, virtual_stages, cut] = key.stages;
  add(stages);
  add(schedule);
  add(virtual_stages);
  add(cut);
  add(key.passes);
  add(key.rank);
  for (const double one : key.saved) add(one);
  return hash;
}

/// The first rank, the last, and before them those that are likely the fullest.
void PlanMemory::ask(const Split& split, std::size_t index, const Held& sums) {
  const RanksKey key{index, {split.pipeline, split.schedule, split.virtual_stages, split.cut}, split.passes};
  if (asked_ && asked_->key == key) return;
  if (!asked_ || std::get<0>(asked_->key) != index) {
    numbers_.clear();
    parts_.clear();
  }
  // Enough for any order to keep as many as it ever does.
  Split shortened = split;
  if (split.schedule != PipelineSchedule::kGpipe) shortened.passes = std::min(split.passes, 4 * split.pipeline);
  const std::vector<LayerRange>& places = tools_.places.of(split, space_, tools_.lowerer);
  asked_ = {.key = key,
            .pipeline = pipeline_of(shortened),
            .batch = static_cast<double>(split.batch),
            .places = &places,
            .ranks = {},
            .held = {}};
  if (places.size() != plan::positions_of(asked_->pipeline)) return;
  const auto same = [&](const Numbers& one) { return one.places == &places; };
  const auto found = std::find_if(numbers_.begin(), numbers_.end(), same);
  asked_->numbers = static_cast<std::size_t>(found - numbers_.begin());
  if (found == numbers_.end()) numbers_.push_back({&places, std::vector<std::uint32_t>(places.size())});
  for (const std::size_t rank : {likely_fullest(places, split, sums), with_most_states(places, split, sums),
                                 std::size_t{0}, static_cast<std::size_t>(split.pipeline - 1)}) {
    look_at(rank);
  }
}

void PlanMemory::look_at(std::size_t rank) {
  std::vector<std::size_t>& ranks = asked_->ranks;
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
}

DataSize PlanMemory::of_every_rank(const Split& split, std::size_t index) {
  const DataSize some = of(split, index);
  if (some == DataSize::infinity() || !is_split(split, space_.base().parallel) || asked_->ranks.empty()) return some;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(split.pipeline); ++rank) look_at(rank);
  return of(split, index);
}

PlanMemory::RankHeld PlanMemory::rank_of(std::size_t rank, const Held& sums) {
  const plan::Pipeline& pipeline = asked_->pipeline;
  const auto of_rank = static_cast<std::size_t>(plan::parts_of(pipeline));
  std::vector<std::uint32_t> parts(of_rank);
  std::vector<double> saved(of_rank);
  for (std::size_t r = 0; r < of_rank; ++r) {
    parts[r] = part_at(plan::position_of(pipeline, {rank, r}), sums);
    saved[r] = parts_[parts[r]].saved / parts_[parts[0]].saved;
  }
  const auto [found, added] =
      flying_.try_emplace({std::get<1>(asked_->key), pipeline.micro_batches, rank, std::move(saved)});
  if (added) found->second = plan::in_flight(pipeline, rank, found->first.saved);
  const Flying& micro_batches = found->second;
  RankHeld held;
  DataSize gathering;  // what layers work with
  DataSize casting;
  for (std::size_t r = 0; r < of_rank; ++r) {
    const PartHeld& part = parts_[parts[r]];
    held.weights = held.weights + between(sums.weights, part.layers);
    held.gradients = held.gradients + between(sums.gradients, part.layers);
    held.states = held.states + between(sums.states, part.layers);
    const DataSize flying = part.kept * static_cast<double>(micro_batches[r] - 1) + part.edges;
    held.gathering += flying + part.gathering.activations + part.gathering.loss;
    held.casting += flying + part.casting.activations + part.casting.loss + part.casting.casts;
    held.gathered = max(held.gathered, part.gathered);
    gathering = max(gathering, part.gathering.working);
    casting = max(casting, part.casting.working);
  }
  held.gathering += gathering;
  held.casting += casting;
  return held;
}

DataSize PlanMemory::of(const Split& split, std::size_t index, DataSize enough) {
  DataSize fullest = least(split, index, plan::parts_of(pipeline_of(split)));
  if (fullest == DataSize::infinity() || !is_split(split, space_.base().parallel)) return fullest;
  const Held& sums = *held(index);
  ask(split, index, sums);
  const bool gathers = split.zero >= 3;
  const bool shares = shares_of(split, 3) != Shares{};
  for (std::size_t n = 0; n < asked_->ranks.size() && fullest <= enough; ++n) {
    if (n == asked_->held.size()) asked_->held.push_back(rank_of(asked_->ranks[n], sums));
    const RankHeld& rank = asked_->held[n];
    const DataSize all = rank.weights * weight_shares_of(split, space_) +
                         rank.gradients * gradient_shares_of(split, space_) + rank.states * shares_of(split, 1) +
                         (gathers ? rank.gathering : rank.casting) +
                         (gathers && shares ? rank.gathered : DataSize::zero());
    fullest = max(fullest, all * kMemoryRounding);
  }
  return fullest;
}

}  // namespace ddlsim::whatif
