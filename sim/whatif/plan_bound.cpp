#include "plan_bound.h"

#include <algorithm>
#include <utility>

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/whatif/predict.h"

namespace ddlsim::whatif {
namespace {

using plan::Moment;
using plan::PipelineSchedule;

/// Rounding of sums taken in another order than the schedule takes them.
constexpr double kRounding = 1 - 1e-9;

Expected<cost::PricedStep> priced(const Scenario& job, plan::StepPlan plan) {
  auto lowered = std::make_shared<const plan::StepPlan>(std::move(plan));
  const auto layers = cost::price_layers(job, *lowered, {kInterval90Low, kInterval90High});
  if (!layers) return tl::unexpected<Error>(layers.error());
  return cost::price(job, lowered, *layers);
}

template <typename T>
std::vector<T> sums_of(const std::vector<T>& parts) {
  std::vector<T> sums(parts.size() + 1);
  for (std::size_t i = 0; i < parts.size(); ++i) sums[i + 1] = sums[i] + parts[i];
  return sums;
}

/// Stages of consecutive layers, one after the other, whose order of passes is that of plan/order.h.
bool in_order(const Split& split) {
  return split.pipeline > 1 &&
         (split.schedule == PipelineSchedule::kGpipe || split.schedule == PipelineSchedule::kOneForwardOneBackward ||
          split.schedule == PipelineSchedule::kNone);
}

/// Micro-batches in flight, over the stages: their harmonic mean bounds the fullest stage's share of activations.
double in_flight(const Split& split) {
  if (split.recompute != plan::Recompute::kNone || split.pipeline == 1) return 1;
  const auto passes = static_cast<double>(split.passes);
  if (split.schedule == PipelineSchedule::kGpipe) return passes;
  if (split.schedule != PipelineSchedule::kOneForwardOneBackward) return 1;
  double inverse = 0;
  for (std::int64_t behind = 1; behind <= split.pipeline; ++behind) {
    inverse += 1.0 / static_cast<double>(std::min(split.passes, behind));
  }
  return static_cast<double>(split.pipeline) / inverse;
}

/// Whether replicas sum plain gradients and wait for them: what is bounded here.
bool plain_exchange(const Scenario& base) {
  return !base.strategy.priority && base.overlap.value_or(plan::Overlap::kBackward) != plan::Overlap::kIdeal &&
         plan::grouping_of(base.strategy) != plan::Grouping::kFusion;
}

}  // namespace

const PlanShape* PlanBounds::shape(std::size_t index) {
  auto& known = shapes_[index];
  if (!known) known = make_shape(index);
  return *known ? &**known : nullptr;
}

std::optional<PlanShape> PlanBounds::make_shape(std::size_t index) {
  const ShapeKey& key = space_.shapes()[index];
  const Scenario job = space_.with(key);
  auto plan = plan::lower(job);
  held_[index].emplace(plan ? std::optional(plan->classes.front().memory) : std::nullopt);
  if (!plan) return std::nullopt;
  // Gradients and states are no matter of a shape.
  std::erase_if(plan->rows, [](const plan::Row& row) { return !row.every_pass || !row.in_the_way; });
  auto step = priced(job, std::move(*plan));
  if (!step) return std::nullopt;
  const std::size_t count = step->plan->classes.front().chunk.count;
  std::vector<Time> forward(count);
  std::vector<Time> backward(count);
  std::vector<Time> kernels(count);
  std::vector<double> issued(count);
  std::size_t layer = 0;
  for (const plan::RankClass& one : step->plan->classes) {
    const cost::PricedClass& times = step->classes[static_cast<std::size_t>(&one - step->plan->classes.data())];
    const std::size_t first = key.stages == 1 ? 0 : layer;
    forward.resize(std::max(forward.size(), first + one.chunk.count));
    backward.resize(forward.size());
    kernels.resize(forward.size());
    issued.resize(forward.size());
    for (std::size_t i = 0; i < one.chunk.count; ++i) {
      forward[first + i] = times.forward[i].time;
      backward[first + i] = times.backward[one.chunk.count - 1 - i].time;
      kernels[first + i] = forward[first + i] + backward[first + i];
      issued[first + i] = times.forward[i].kernels + times.backward[one.chunk.count - 1 - i].kernels;
    }
    for (std::size_t r = 0; r < step->plan->rows.size(); ++r) {
      const plan::Row& row = step->plan->rows[r];
      if (row.rank_class != static_cast<std::size_t>(&one - step->plan->classes.data())) continue;
      const Time took = step->rows[r].encoding + step->rows[r].once * static_cast<double>(row.count);
      // Of the layer that it is there for: it stays with that layer wherever stages are cut.
      const plan::Point& point =
          row.needed.at == Moment::kForward || row.needed.at == Moment::kBackward ? row.needed : row.ready;
      if (point.at == Moment::kForward) forward[first + point.layer] += took;
      if (point.at == Moment::kBackward) backward[first + point.layer] += took;
    }
    layer += one.chunk.count;
    if (key.stages == 1) break;  // GPUs of another speed have the same layers
  }
  return PlanShape{.forward = sums_of(forward),
                   .backward = sums_of(backward),
                   .kernels = sums_of(kernels),
                   .issued = sums_of(issued),
                   .launch_interval = step->launch_interval,
                   .waiting = step->wait_for_slowest};
}

/// Where the stages of a pipeline begin, as the lowering has them; they follow from the model's layers alone.
const std::vector<std::size_t>& PlanBounds::starts_of(const Candidate& candidate) {
  const Split& split = candidate.split;
  auto [found, added] = starts_.try_emplace({split.pipeline, split.schedule, split.virtual_stages});
  if (!added) return found->second;
  const auto plan = plan::lower(space_.with(split));
  if (!plan) {
    // Another plan with those stages may be legal.
    static const std::vector<std::size_t> none;
    starts_.erase(found);
    return none;
  }
  for (const plan::RankClass& one : plan->classes) found->second.push_back(one.chunk.first);
  return found->second;
}

Time PlanBounds::by_kernels(const Candidate& candidate) { return laid_out(candidate, nullptr); }

Time PlanBounds::laid_out(const Candidate& candidate, const std::vector<StageExchange>* exchange) {
  const PlanShape* shape = this->shape(candidate.shape);
  if (shape == nullptr) return Time::infinity();
  const Split& split = candidate.split;
  const auto passes = static_cast<double>(split.passes);
  const auto stages = static_cast<double>(split.pipeline);
  const std::size_t layers = shape->layers();
  const Time whole = shape->forward[layers] + shape->backward[layers];
  const auto issued = [&](double kernels) { return shape->launch_interval * (kernels * passes); };
  if (!in_order(split)) {
    // However the layers are shared, some rank has its mean share of the work, and of the kernels.
    const Time busy = max(whole * (passes / stages), issued(shape->issued[layers] / stages));
    const Time waiting = split.pipeline == 1 ? shape->kernels[layers] * (passes * shape->waiting) : Time::zero();
    Time bound = busy + waiting;
    if (exchange != nullptr && split.pipeline == 1) {
      const StageExchange& sent = exchange->front();
      const Time last = shape->backward[layers];
      bound = max(max(busy, busy - last + sent.once), sent.every_pass * passes) + sent.update + sent.after + waiting;
    }
    return bound * kRounding;
  }
  const std::vector<std::size_t>& starts = starts_of(candidate);
  if (starts.empty()) return whole * (passes / stages * kRounding);
  const bool one_by_one = split.schedule == PipelineSchedule::kNone;
  if (one_by_one) return whole * (passes * kRounding);
  Time slowest;
  Time least_kernels = Time::infinity();
  const Time update = exchange != nullptr ? exchange->front().update + exchange->front().after : Time::zero();
  for (std::size_t s = 0; s < starts.size(); ++s) {
    const std::size_t end = s + 1 < starts.size() ? starts[s + 1] : layers;
    const Time backward = shape->backward[end] - shape->backward[starts[s]];
    const Time pass = shape->forward[end] - shape->forward[starts[s]] + backward;
    const Time before = shape->forward[starts[s]];
    const Time after = shape->backward[starts[s]];
    const Time busy = max(before + pass * passes, issued(shape->issued[end] - shape->issued[starts[s]]));
    slowest = max(slowest, before + pass * passes + after + update);
    least_kernels = min(least_kernels, shape->kernels[end] - shape->kernels[starts[s]]);
    if (exchange == nullptr) {
      slowest = max(slowest, busy);
      continue;
    }
    const StageExchange& sent = (*exchange)[s];
    const Time own = max(max(busy, busy - backward + sent.once), sent.every_pass * passes);
    slowest = max(slowest, own + sent.update + sent.after);
  }
  return (slowest + least_kernels * (passes * shape->waiting)) * kRounding;
}

PlanBounds::Exchange PlanBounds::make_exchange(const Split& split) const {
  Exchange exchange;
  const Scenario job = space_.with(split);
  auto plan = plan::lower(job);
  if (!plan) return {.legal = false, .bounds = false, .stages = {}};
  if (!plain_exchange(space_.base()) || plan->servers) return {.legal = true, .bounds = false, .stages = {}};
  // What stands in the way of kernels is the shape's, what crosses stages the schedule's.
  std::erase_if(plan->rows, [](const plan::Row& row) {
    return row.rank_class != row.needed_by || (row.every_pass && row.in_the_way);
  });
  for (plan::RankClass& one : plan->classes) one.chunk.count = 0;
  const auto step = priced(job, std::move(*plan));
  if (!step) return {.legal = false, .bounds = false, .stages = {}};
  const std::vector<plan::Row>& rows = step->plan->rows;
  exchange.stages.resize(step->plan->classes.size());
  for (std::size_t s = 0; s < exchange.stages.size(); ++s) exchange.stages[s].update = step->classes[s].update;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const plan::Row& row = rows[r];
    const Time took = step->rows[r].once * static_cast<double>(row.count);
    StageExchange& stage = exchange.stages[row.rank_class];
    if (row.kind != plan::RowKind::kCollective) continue;
    if (row.in_the_way) {
      stage.after += took;
    } else if (row.group != 0) {
      continue;
    } else if (row.every_pass) {
      stage.every_pass += took;
    } else if (row.ready.at == Moment::kBackward && row.needed.at == Moment::kUpdate) {
      stage.once += took;
    }
  }
  return exchange;
}

Time PlanBounds::with_exchange(const Candidate& candidate) {
  const Split& split = candidate.split;
  ExchangeKey key{.shape = space_.shapes()[candidate.shape], .stages = split.pipeline, .zero = split.zero};
  // Gradients of dense layers are as large whatever the batch.
  if (space_.base().model->totals.sparse_parameters > 0) {
    key.passes = split.passes;
  } else {
    key.shape.batch = 0;
    key.shape.recompute = plan::Recompute::kNone;
  }
  if (split.pipeline > 1 && !in_order(split)) return laid_out(candidate, nullptr);
  const auto [found, added] = exchanges_.try_emplace(key);
  if (added) found->second = make_exchange(split);
  const Exchange& exchange = found->second;
  if (!exchange.legal) {
    exchanges_.erase(found);  // another plan of this exchange may be legal
    return laid_out(candidate, nullptr);
  }
  const bool per_stage = static_cast<std::int64_t>(exchange.stages.size()) == split.pipeline;
  return laid_out(candidate, exchange.bounds && per_stage ? &exchange.stages : nullptr);
}

DataSize PlanBounds::memory(const Candidate& candidate) {
  auto& held = held_[candidate.shape];
  if (!held) {
    const auto plan = plan::lower(space_.with(space_.shapes()[candidate.shape]));
    held.emplace(plan ? std::optional(plan->classes.front().memory) : std::nullopt);
  }
  if (!*held) return DataSize::infinity();
  const Split& split = candidate.split;
  const auto share = [&](int from) {
    const auto ranks = static_cast<double>(split.data * split.context);
    return (split.zero >= from ? 1.0 / ranks : 1.0) / static_cast<double>(split.pipeline);
  };
  const plan::MemoryFootprint& whole = **held;
  const DataSize activations = whole.activations * (in_flight(split) / static_cast<double>(split.pipeline));
  return (whole.weights * share(3) + whole.gradients * share(2) + whole.optimizer_state * share(1) + activations) *
         kRounding;
}

}  // namespace ddlsim::whatif
