// What replicas exchange, and what plans take with it.
#include <algorithm>
#include <utility>

#include "ddlsim/cost/price.h"
#include "search/plan_bound.h"

namespace ddlsim::whatif {

using plan::Moment;
using plan::PipelineSchedule;

namespace {

/// Whether replicas sum plain gradients and wait for them: what is bounded here.
bool plain_exchange(const Scenario& base) {
  return base.strategy.sync_every == 1 && !base.strategy.priority &&
         base.overlap.value_or(plan::Overlap::kBackward) != plan::Overlap::kIdeal &&
         plan::grouping_of(base.strategy) != plan::Grouping::kFusion;
}

/// The part of a class that has a layer.
std::size_t part_of(const plan::RankClass& one, std::size_t layer) {
  for (std::size_t r = 0; r < one.parts.size(); ++r) {
    if (layer >= one.parts[r].first && layer < one.parts[r].first + one.parts[r].count) return r;
  }
  return 0;
}

OtherChannel& channel_of(StageExchange& stage, std::size_t group) {
  const auto same = [&](const OtherChannel& one) { return one.group == group; };
  const auto found = std::find_if(stage.others.begin(), stage.others.end(), same);
  if (found != stage.others.end()) return *found;
  stage.others.push_back({.group = group});
  return stage.others.back();
}

/// Row `r`, of that stage.
void add_collective(const cost::PricedStep& step, std::size_t r, StageExchange& stage) {
  const plan::Row& row = step.plan->rows[r];
  const Time took = step.rows[r].once * static_cast<double>(row.count);
  const std::size_t part = part_of(step.plan->classes[row.rank_class], row.ready.layer);
  const bool sums = row.ready.at == Moment::kBackward && row.needed.at == Moment::kUpdate;
  if (!row.in_the_way && !step.plan->folds && row.op != primitives::CollectiveOp::kSendRecv) {
    const DataSize sent = step.rows[r].sent * static_cast<double>(row.count);
    (row.every_pass ? stage.held_each : stage.held_once) += took * cost::held_of_gpu(step, took, sent);
    (row.every_pass ? stage.beside_each : stage.beside_once) += took;
  }
  if (sums && row.group == 0 && !row.in_the_way) stage.last[part] += took;
  if (!row.in_the_way && row.lag == 0 && !stage.channel.empty()) {
    stage.channel[part].rows.push_back({row.ready, row.needed, took, row.every_pass, row.group});
  }
  if (row.in_the_way) {
    (row.ready.at == Moment::kUpdate ? stage.after : stage.standing) += took;
  } else if (row.group != 0) {
    OtherChannel& other = channel_of(stage, row.group);
    (row.every_pass ? other.every_pass : other.once) += took;
  } else if (row.every_pass) {
    stage.every_pass += took;
    const bool at_begin = row.ready.at == Moment::kBegin && row.needed.at == Moment::kForward;
    const bool first = stage.gathers.empty() || stage.gathers.back().before.first != row.ready.layer;
    if (at_begin && first) stage.gathers.push_back({{row.ready.layer, row.needed.layer}, took});
  } else if (sums) {
    stage.once += took;
  }
}

}  // namespace

PlanBounds::Exchange PlanBounds::make_exchange(const Split& split) {
  Exchange exchange;
  Scenario job = space_.with(split);
  job.software_of_whole = hardware::SoftwareFactor{};  // it depends on the shape: end_of
  job.gpu_time_factor.set(1);
  tools_.keep_layers_of(job);
  auto plan = tools_.lowerer.exchange(job);
  if (!plan || !plain_exchange(space_.base()) || plan->servers) return {.bounds = false, .stages = {}};
  std::erase_if(plan->rows, [](const plan::Row& row) {
    return row.rank_class != row.needed_by || (row.every_pass && row.in_the_way) || row.beside != 0;
  });
  std::vector<double> launches;
  for (plan::RankClass& one : plan->classes) {
    launches.push_back(one.updates_on_gpu ? static_cast<double>(std::exchange(one.update_launches, 0)) : 0.0);
    one.chunk.count = 0;
  }
  const auto step = priced(job, std::move(*plan), tools_);
  if (!step) return {.bounds = false, .stages = {}};
  exchange.stages.resize(step->plan->classes.size());
  for (std::size_t s = 0; s < exchange.stages.size(); ++s) {
    exchange.stages[s].update = step->classes[s].update;
    exchange.stages[s].launches = launches[s];
    const std::vector<plan::Part>& parts = step->plan->classes[s].parts;
    exchange.stages[s].last.resize(std::max<std::size_t>(parts.size(), 1));
    for (const plan::Part& part : parts) {
      exchange.stages[s].channel.push_back({{part.layer, part.layer + part.count}, {}});
    }
    // One stage has all layers, and what they exchange beside each other pass by pass.
    if (parts.empty() && !step->plan->folds) {
      exchange.stages[s].channel.push_back({{0, step->plan->model->layers.size()}, {}});
    }
  }
  for (std::size_t r = 0; r < step->rows.size(); ++r) {
    const plan::Row& row = step->plan->rows[r];
    if (row.kind == plan::RowKind::kCollective) add_collective(*step, r, exchange.stages[row.rank_class]);
  }
  return exchange;
}

Time PlanBounds::exchanged(const Split& split, std::size_t index, bool by_ranks) {
  const PlanShape* shape = this->shape(index, split.passes > 1);
  if (shape == nullptr) return Time::infinity();
  const bool alone = split.data * split.context == 1;
  if (alone || plan::is_asynchronous(split.schedule)) return laid_out(split, *shape, nullptr);
  ExchangeKey key{.shape = space_.shapes()[index], .stages = stages_of(split), .zero = split.zero};
  // Neither the order of a part's passes nor how attention's ranks share a sequence changes what replicas sum.
  if (plan::parts_of(pipeline_of(split)) == 1) std::get<1>(key.stages) = PipelineSchedule::kOneForwardOneBackward;
  key.shape.context_by = plan::ContextBy::kRing;
  // Gradients of dense layers are as large whatever the batch, where the same stages hold them, and whichever of the
  // ranks beside each other that sum them share a sequence.
  if (space_.base().model->totals.sparse_parameters > 0) {
    key.passes = split.passes;
    if (space_.timed_cuts_of(split) != nullptr) key.places = tools_.places.number_of(split, space_, tools_.lowerer);
  } else if (const std::size_t places = tools_.places.number_of(split, space_, tools_.lowerer); places > 0) {
    key.places = places;
    const plan::Parallel& stated = space_.base().parallel;
    Split plain = split;
    plain.recompute = plan::Recompute::kNone;
    const bool cut = is_split(split, stated);
    // Whole models and cut ones send other messages.
    if (is_split(plain, stated) == cut) key.shape.recompute = plan::Recompute::kNone;
    plain.context = 1;
    const bool beside = stated.order == plan::kMegatronOrder && split.expert == 1 && stated.shard_ranks == 0;
    if (beside && is_split(plain, stated) == cut) key.shape.context = 1;
    key.shape.batch = 0;
  }
  auto found = exchanges_.find(key);
  if (found == exchanges_.end()) {
    Split like = split;
    if (tools_.places.are_alike(split)) {
      like.recompute = key.shape.recompute;  // whose layers are cut already, more often than not
      like.context = key.shape.context;
      like.data = split.data * split.context / like.context;
    }
    found = exchanges_.emplace(key, make_exchange(like)).first;
  }
  const Exchange& exchange = found->second;
  const bool per_stage = static_cast<std::int64_t>(exchange.stages.size()) == split.pipeline;
  return laid_out(split, *shape, exchange.bounds && per_stage ? &exchange.stages : nullptr, by_ranks);
}

}  // namespace ddlsim::whatif
