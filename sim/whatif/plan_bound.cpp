#include "plan_bound.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/step/schedule.h"
#include "ddlsim/whatif/predict.h"

namespace ddlsim::whatif {
namespace {

using plan::Moment;
using plan::PipelineSchedule;

/// Rounding of sums taken in another order than the schedule takes them.
constexpr double kRounding = 1 - 1e-9;

/// `times`: of the layers of all classes.
Expected<cost::PricedStep> priced(const Scenario& job, plan::StepPlan plan, PlanTools& tools,
                                  std::vector<cost::LayerTimes>* times = nullptr) {
  auto lowered = std::make_shared<const plan::StepPlan>(std::move(plan));
  const auto layers = cost::price_layers(job, *lowered, tools.prices);
  if (!layers) return tl::unexpected<Error>(layers.error());
  if (times != nullptr) *times = layers->layers;
  return cost::price(job, lowered, *layers);
}

/// Whether replicas sum plain gradients and wait for them: what is bounded here.
bool plain_exchange(const Scenario& base) {
  return !base.strategy.priority && base.overlap.value_or(plan::Overlap::kBackward) != plan::Overlap::kIdeal &&
         plan::grouping_of(base.strategy) != plan::Grouping::kFusion;
}

/// Calls `each` with every list of two side by side.
template <typename A, typename B, typename Each>
void with_lists(A& a, B& b, Each each) {
  each(a.forward, b.forward);
  each(a.backward, b.backward);
  each(a.weights, b.weights);
  each(a.kernels, b.kernels);
  each(a.added, b.added);
  each(a.issued, b.issued);
  each(a.forward_exchanged, b.forward_exchanged);
  each(a.backward_exchanged, b.backward_exchanged);
}

/// But for `weights` and `added`.
LayerPasses passes_of(const cost::PricedStep& step, std::size_t rank_class) {
  const cost::PricedClass& times = step.classes[rank_class];
  const std::size_t count = times.forward.size();
  LayerPasses sums;
  with_lists(sums, sums, [&](auto& list, auto&) { list.resize(count); });
  for (std::size_t i = 0; i < count; ++i) {
    const cost::PricedLayer& forward = times.forward[i];
    const cost::PricedLayer& backward = times.backward[count - 1 - i];
    sums.forward[i] = forward.time;
    sums.backward[i] = backward.time;
    sums.kernels[i] = forward.time + backward.time;
    sums.issued[i] = forward.kernels + backward.kernels;
  }
  for (std::size_t r = 0; r < step.plan->rows.size(); ++r) {
    const plan::Row& row = step.plan->rows[r];
    if (row.rank_class != rank_class) continue;
    const Time alone = step.rows[r].once * static_cast<double>(row.count);
    const Time took = step.rows[r].encoding + max(alone - step.rows[r].hidden, Time::zero());
    // Of the layer that it is there for: it stays with that layer wherever stages are cut.
    const bool for_layer = row.needed.at == Moment::kForward || row.needed.at == Moment::kBackward;
    const plan::Point& point = for_layer ? row.needed : row.ready;
    const Time exchanged = row.op == primitives::CollectiveOp::kAllToAll ? took : Time::zero();
    if (point.at == Moment::kForward) {
      sums.forward[point.layer] += took;
      sums.forward_exchanged[point.layer] += exchanged;
    } else if (point.at == Moment::kBackward) {
      sums.backward[point.layer] += took;
      sums.backward_exchanged[point.layer] += exchanged;
    }
  }
  return sums;
}

}  // namespace

Expected<Time> step_of(const Scenario& job, std::shared_ptr<const plan::StepPlan> plan, PlanTools& tools, Time enough) {
  const auto layers = cost::price_layers(job, *plan, tools.prices);
  if (!layers) return tl::unexpected<Error>(layers.error());
  const auto step = cost::price(job, std::move(plan), *layers);
  if (!step) return tl::unexpected<Error>(step.error());
  return step::step_time(*step, enough);
}

PlanBounds::PlanBounds(const PlanSpace& space, PlanTools& tools)
    : space_(space), tools_(tools), shapes_(space.shapes().size()) {}

Scenario PlanBounds::short_job(const ShapeKey& key) const {
  Scenario job = space_.with(key);
  // The software's factor is that of the whole model.
  job.software_of_whole = plan::software_factor(job);
  if (tools_.shorter && key.stages == 1) job.model = tools_.shorter->model;
  return job;
}

const PlanShape* PlanBounds::shape(std::size_t index) {
  auto& known = shapes_[index];
  if (!known) {
    known.emplace(make_shape(space_.shapes()[index]));
  }
  return *known ? &**known : nullptr;
}

std::optional<PlanShape> PlanBounds::make_shape(const ShapeKey& key) {
  const Scenario job = short_job(key);
  auto plan = tools_.lowerer.lower(job);
  if (!plan) return std::nullopt;
  // Gradients and states are no matter of a shape.
  std::erase_if(plan->rows, [](const plan::Row& row) {
    return !row.every_pass || !row.in_the_way || row.rank_class != row.needed_by;
  });
  std::vector<cost::LayerTimes> times;
  const auto step = priced(job, std::move(*plan), tools_, &times);
  if (!step) return std::nullopt;
  Scenario again = job;
  again.strategy.accumulation.set(2);
  const auto adding = cost::price_layers(again, *step->plan, tools_.prices);
  if (!adding) return std::nullopt;
  const auto longer = cost::price(again, step->plan, *adding);
  if (!longer) return std::nullopt;
  PlanShape made{.layers = {},
                 .launch_interval = step->launch_interval,
                 .waiting = step->wait_for_slowest,
                 .held = step->sm_share};
  LayerPasses& all = made.layers;
  const hardware::SoftwareFactor factor = plan::gpu_time_factor_of(job);
  const std::size_t classes = key.stages == 1 ? 1 : step->plan->classes.size();  // one kind of GPUs has the same layers
  for (std::size_t c = 0; c < classes; ++c) {
    LayerPasses one = passes_of(*step, c);
    // What goes beside kernels hides the better, the longer they take.
    const LayerPasses added = passes_of(*longer, c);
    for (std::size_t i = 0; i < one.weights.size(); ++i) {
      const cost::LayerTime& weights = times[all.weights.size() + i].weights;
      one.weights[i] = weights.compute * factor.compute + weights.memory * factor.memory;
      one.added[i] = max(added.backward[i] - one.backward[i], Time::zero());
    }
    with_lists(all, one, [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); });
  }
  made.shortened = tools_.shorter && key.stages == 1;
  if (made.shortened && all.forward.size() != tools_.shorter->model->layers.size()) return std::nullopt;
  const auto add = [&](std::size_t i) {
    made.whole += all.forward[i] + all.backward[i];
    made.exchanged += all.forward_exchanged[i] + all.backward_exchanged[i];
  };
  if (made.shortened) {
    for (const std::size_t i : tools_.shorter->source) add(i);
  } else {
    for (std::size_t i = 0; i < all.forward.size(); ++i) add(i);
  }
  return made;
}

const LayerPasses& PlanBounds::sums(std::size_t index, const PlanShape& shape) {
  if (sums_index_ == index) return sums_;
  sums_index_ = index;
  with_lists(sums_, shape.layers, [&](auto& sums, const auto& layers) {
    const std::size_t count = shape.shortened ? tools_.shorter->source.size() : layers.size();
    sums.assign(count + 1, {});
    for (std::size_t i = 0; i < count; ++i) {
      sums[i + 1] = sums[i] + layers[shape.shortened ? tools_.shorter->source[i] : i];
    }
  });
  return sums_;
}

namespace {

/// However the layers are shared, some rank has its mean share of the work. `hides`: all-to-alls, at best all of them.
Time by_share(const Split& split, const PlanShape& shape, bool hides) {
  return (shape.whole - (hides ? shape.exchanged : Time::zero())) *
         (static_cast<double>(split.passes) / static_cast<double>(split.pipeline) * kRounding);
}

/// For how long every rank stands still for the weights with which passes of its parts begin. While it waits for its
/// first micro-batch it may gather them.
Time with_gathered(const LayerPasses& sums, const std::vector<StageExchange>& sent, double runs) {
  Time least = Time::infinity();
  for (const StageExchange& stage : sent) {
    Time each;
    Time longest;
    for (const FirstGather& one : stage.gathers) {
      const Time beside = sums.forward[one.before.end] - sums.forward[one.before.first];
      const Time still = max(one.time - beside, Time::zero());
      each += still;
      longest = max(longest, still);
    }
    least = min(least, each * runs - longest);
  }
  return max(least, Time::zero());
}

/// Whoever ends its passes last has its update before it, and what is in the way after that.
Time least_after(const std::vector<StageExchange>& sent) {
  Time least = Time::infinity();
  for (const StageExchange& stage : sent) least = min(least, stage.update + stage.after);
  return least;
}

/// A rank's last pass is a backward one (of weights alone, where they come apart): what that makes ready is sent before
/// the update.
Time with_last(const plan::Pipeline& pipeline, const std::vector<plan::PartTime>& parts,
               const std::vector<StageExchange>& sent) {
  const bool apart = plan::splits_backward(pipeline.schedule) && pipeline.schedule != PipelineSchedule::kDualPipe;
  const auto runs = static_cast<double>(plan::passes_of(pipeline));
  Time bound;
  for (std::size_t s = 0; s < sent.size(); ++s) {
    Time work;
    Time longest;                   // of last passes
    Time least = Time::infinity();  // of what they send
    for (std::size_t r = 0; r < sent[s].last.size(); ++r) {
      const plan::PartTime& part = parts[plan::position_of(pipeline, {s, r})];
      work += (part.forward + part.backward) * runs;
      longest = max(longest, apart ? part.weights : part.backward);
      least = min(least, sent[s].last[r]);
    }
    bound = max(bound, max(work + sent[s].standing, work - longest + least) + sent[s].update + sent[s].after);
  }
  return bound;
}

/// What stages send to their replicas, beside the passes of `parts` and after them.
Time with_sent(const plan::Pipeline& pipeline, bool in_order, const std::vector<plan::PartTime>& parts,
               const std::vector<StageExchange>& sent) {
  const auto runs = static_cast<double>(plan::passes_of(pipeline));
  Time bound = with_last(pipeline, parts, sent);
  for (const StageExchange& stage : sent) bound = max(bound, stage.every_pass * runs + stage.update + stage.after);
  if (!in_order) return bound;
  Time before;
  Time after;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const plan::PartTime& part = parts[s];
    const Time busy = before + (part.forward + part.backward) * runs;
    bound =
        max(bound, max(busy + sent[s].standing, busy - part.backward + sent[s].once) + sent[s].update + sent[s].after);
    bound = max(bound, busy + after + sent[0].standing + sent[0].update + sent[0].after);
    before += part.forward;
    after += part.backward;
  }
  return bound;
}

}  // namespace

Time PlanBounds::by_mean(const Split& split, std::size_t index) {
  const PlanShape* shape = this->shape(index);
  const bool hides = split.pipeline > 1 && space_.compares(PipelineSchedule::kDualPipe);
  return shape == nullptr ? Time::infinity() : by_share(split, *shape, hides);
}

Time PlanBounds::by_kernels(const Split& split, std::size_t index) {
  const PlanShape* shape = this->shape(index);
  if (shape == nullptr) return Time::infinity();
  const KernelsKey key{index, {split.pipeline, split.schedule, split.virtual_stages}, split.passes};
  if (last_key_ != key) {
    last_key_ = key;
    last_ = laid_out(split, index, *shape, nullptr);
  }
  return last_;
}

namespace {

/// Whether all of what adding gradients up takes is in the bound: not where ranks keep a share each (zero 2 and 3).
double share_added(const Split& split) { return split.passes > 1 && split.zero < 2 ? 1.0 : 0.0; }

/// What collectives take from the kernels of a rank beside them, or for how long it stands still instead.
Time contention(const StageExchange& sent, double runs, Time kernels, double held) {
  return min(sent.held_each * runs + sent.held_once, kernels * (held / (1 - held)));
}

/// One stage: passes follow each other. While the CPU is behind, updates and messages cost nothing.
Time one_stage(const Split& split, const PlanShape& shape, const LayerPasses& sums,
               const std::vector<StageExchange>* exchange, double adding) {
  const auto passes = static_cast<double>(split.passes);
  const Time backward = sums.backward.back() + sums.added.back() * adding;
  const Time busy = (sums.forward.back() + backward) * passes;
  const Time issuing = shape.launch_interval * (sums.issued.back() * passes);
  const Time waiting = (sums.kernels.back() + sums.added.back() * adding) * (std::sqrt(passes) * shape.waiting);
  if (exchange == nullptr) return max(busy, issuing) + waiting;
  const StageExchange& sent = exchange->front();
  const Time kernels = (sums.kernels.back() + sums.added.back() * adding) * passes;
  const Time working = busy + sent.standing + contention(sent, passes, kernels, shape.held);
  const Time own = max(max(working, busy - backward + sent.once), sent.every_pass * passes);
  return max(own + sent.update + sent.after, issuing) + waiting;
}

}  // namespace

Time PlanBounds::laid_out(const Split& split, std::size_t index, const PlanShape& shape,
                          const std::vector<StageExchange>* exchange) {
  // By kernels alone a bound is that of all ways to share states.
  const double adding = exchange != nullptr ? share_added(split) : 0.0;
  if (split.pipeline == 1) return one_stage(split, shape, sums(index, shape), exchange, adding) * kRounding;
  const std::vector<LayerRange>& places = tools_.places.of(split, space_, tools_.lowerer);
  const auto stages = static_cast<std::size_t>(split.pipeline);
  const bool hides = split.schedule == PipelineSchedule::kDualPipe;
  if (places.empty()) return by_share(split, shape, hides);
  const LayerPasses& sums = this->sums(index, shape);
  const plan::Pipeline pipeline = pipeline_of(split);
  const auto sum = [](const std::vector<Time>& of, const LayerRange& place) { return of[place.end] - of[place.first]; };
  const bool in_two = plan::splits_backward(split.schedule);
  const auto runs = static_cast<double>(plan::passes_of(pipeline));
  std::vector<plan::PartTime>& parts = parts_;
  std::vector<Time>& work = rank_work_;
  std::vector<Time>& kernels = rank_kernels_;
  std::vector<double>& issued = rank_issued_;
  parts.clear();
  work.assign(stages, Time::zero());
  kernels.assign(stages, Time::zero());
  issued.assign(stages, 0);
  for (std::size_t q = 0; q < places.size(); ++q) {
    const LayerRange& place = places[q];
    const Time added = sum(sums.added, place) * adding;
    parts.push_back({sum(sums.forward, place), sum(sums.backward, place) + added,
                     in_two ? sum(sums.weights, place) + added : Time::zero()});
    if (hides) {
      parts.back().forward = parts.back().forward - sum(sums.forward_exchanged, place);
      parts.back().backward = parts.back().backward - sum(sums.backward_exchanged, place);
    }
    for (std::int64_t direction = 0; direction < plan::directions_of(split.schedule); ++direction) {
      const std::size_t rank = plan::place_of(pipeline, q, direction).stage;
      work[rank] += (parts.back().forward + parts.back().backward) * runs;
      kernels[rank] += (sum(sums.kernels, place) + added) * runs;
      issued[rank] += (sums.issued[place.end] - sums.issued[place.first]) * runs;
    }
  }
  Time bound = plan::least_step(pipeline, parts);
  if (exchange != nullptr) {
    bound = max(bound + with_gathered(sums, *exchange, runs) + least_after(*exchange),
                with_sent(pipeline, in_order(split), parts, *exchange));
    for (std::size_t s = 0; s < stages; ++s) {  // bubbles apart
      const StageExchange& sent = (*exchange)[s];
      const Time lost = contention(sent, runs, kernels[s], shape.held);
      bound = max(bound, work[s] + sent.standing + lost + sent.update + sent.after);
    }
  }
  bound = max(bound, shape.launch_interval * *std::max_element(issued.begin(), issued.end()));
  const double waiting = shape.waiting / std::sqrt(runs);
  return (bound + *std::min_element(kernels.begin(), kernels.end()) * waiting) * kRounding;
}

namespace {

/// The part of a class that has a layer.
std::size_t part_of(const plan::RankClass& one, std::size_t layer) {
  for (std::size_t r = 0; r < one.parts.size(); ++r) {
    if (layer >= one.parts[r].first && layer < one.parts[r].first + one.parts[r].count) return r;
  }
  return 0;
}

}  // namespace

PlanBounds::Exchange PlanBounds::make_exchange(const Split& split) {
  Exchange exchange;
  const Scenario job = space_.with(split);
  auto plan = tools_.lowerer.exchange(job);
  if (!plan || !plain_exchange(space_.base()) || plan->servers) return {.bounds = false, .stages = {}};
  std::erase_if(plan->rows, [](const plan::Row& row) {
    return row.rank_class != row.needed_by || (row.every_pass && row.in_the_way) || row.beside != 0;
  });
  for (plan::RankClass& one : plan->classes) one.chunk.count = 0;
  const auto step = priced(job, std::move(*plan), tools_);
  if (!step) return {.bounds = false, .stages = {}};
  const std::vector<plan::Row>& rows = step->plan->rows;
  exchange.stages.resize(step->plan->classes.size());
  for (std::size_t s = 0; s < exchange.stages.size(); ++s) {
    exchange.stages[s].update = step->classes[s].update;
    exchange.stages[s].last.resize(std::max<std::size_t>(step->plan->classes[s].parts.size(), 1));
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const plan::Row& row = rows[r];
    const Time took = step->rows[r].once * static_cast<double>(row.count);
    StageExchange& stage = exchange.stages[row.rank_class];
    if (row.kind != plan::RowKind::kCollective) continue;
    if (!row.in_the_way && !step->plan->folds && row.op != primitives::CollectiveOp::kSendRecv) {
      const DataSize sent = step->rows[r].sent * static_cast<double>(row.count);
      (row.every_pass ? stage.held_each : stage.held_once) += took * cost::held_of_gpu(*step, took, sent);
    }
    if (row.ready.at == Moment::kBackward && row.needed.at == Moment::kUpdate && row.group == 0 && !row.in_the_way) {
      stage.last[part_of(step->plan->classes[row.rank_class], row.ready.layer)] += took;
    }
    if (row.in_the_way) {
      (row.ready.at == Moment::kUpdate ? stage.after : stage.standing) += took;
    } else if (row.group != 0) {
      continue;
    } else if (row.every_pass) {
      stage.every_pass += took;
      const bool at_begin = row.ready.at == Moment::kBegin && row.needed.at == Moment::kForward;
      const bool first = stage.gathers.empty() || stage.gathers.back().before.first != row.ready.layer;
      if (at_begin && first) stage.gathers.push_back({{row.ready.layer, row.needed.layer}, took});
    } else if (row.ready.at == Moment::kBackward && row.needed.at == Moment::kUpdate) {
      stage.once += took;
    }
  }
  return exchange;
}

Time PlanBounds::with_exchange(const Split& split, std::size_t index) {
  const PlanShape* shape = this->shape(index);
  if (shape == nullptr) return Time::infinity();
  const bool alone = split.data * split.context == 1;
  if (alone || plan::is_asynchronous(split.schedule)) return laid_out(split, index, *shape, nullptr);
  ExchangeKey key{.shape = space_.shapes()[index], .stages = stages_of(split), .zero = split.zero};
  // Neither the order of a part's passes nor how attention's ranks share a sequence changes what replicas sum.
  if (plan::parts_of(pipeline_of(split)) == 1) std::get<1>(key.stages) = PipelineSchedule::kOneForwardOneBackward;
  key.shape.context_by = plan::ContextBy::kRing;
  // Gradients of dense layers are as large whatever the batch, where the same stages hold them.
  if (space_.base().model->totals.sparse_parameters > 0) {
    key.passes = split.passes;
  } else if (tools_.places.are_alike(split)) {
    key.shape.batch = 0;
    key.shape.recompute = plan::Recompute::kNone;
  }
  auto found = exchanges_.find(key);
  if (found == exchanges_.end()) {
    Split like = split;
    like.recompute = key.shape.recompute;  // whose layers are cut already, more often than not
    found = exchanges_.emplace(key, make_exchange(like)).first;
  }
  const Exchange& exchange = found->second;
  const bool per_stage = static_cast<std::int64_t>(exchange.stages.size()) == split.pipeline;
  return laid_out(split, index, *shape, exchange.bounds && per_stage ? &exchange.stages : nullptr);
}

}  // namespace ddlsim::whatif
