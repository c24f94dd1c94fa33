#include "search/plan_bound.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "ddlsim/cost/layer_time.h"
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

/// Of a layer's backward, where the model is in stages: there a tied head has weights of its own.
double weights_share_of(const workload::Layer& layer) {
  const auto* head = layer.op ? std::get_if<workload::Linear>(&*layer.op) : nullptr;
  if (head == nullptr || !head->tied || !layer.parameters.empty()) return cost::weights_share(layer).work;
  workload::Layer own = layer;
  own.parameters.push_back(1);
  return cost::weights_share(own).work;
}

/// But for `weights` and `added`.
std::vector<LayerPass> passes_of(const cost::PricedStep& step, std::size_t rank_class) {
  const cost::PricedClass& times = step.classes[rank_class];
  const std::size_t count = times.forward.size();
  std::vector<LayerPass> passes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const cost::PricedLayer& forward = times.forward[i];
    const cost::PricedLayer& backward = times.backward[count - 1 - i];
    passes[i] = {.forward = forward.time,
                 .backward = backward.time,
                 .kernels = forward.time + backward.time,
                 .issued = static_cast<double>(forward.kernels + backward.kernels)};
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
      passes[point.layer].forward += took;
      passes[point.layer].forward_exchanged += exchanged;
    } else if (point.at == Moment::kBackward) {
      passes[point.layer].backward += took;
      passes[point.layer].backward_exchanged += exchanged;
    }
  }
  return passes;
}

}  // namespace

Expected<cost::PricedStep> priced(const Scenario& job, plan::StepPlan plan, PlanTools& tools,
                                  std::vector<cost::LayerTimes>* times) {
  auto lowered = std::make_shared<const plan::StepPlan>(std::move(plan));
  const auto layers = cost::price_layers(job, *lowered, tools.prices);
  if (!layers) return tl::unexpected<Error>(layers.error());
  if (times != nullptr) *times = layers->layers;
  return cost::price(job, lowered, *layers);
}

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
  send_plainly(job);
  // The software's factor is that of the whole model.
  job.software_of_whole = plan::software_factor(job);
  if (tools_.shorter && key.stages == 1) {
    job.model = tools_.shorter->model;
    job.stands_for = tools_.shorter->stands_for;
  }
  return job;
}

const PlanShape* PlanBounds::shape(std::size_t index, bool adds) {
  auto& known = shapes_[index];
  if (!known || (adds && *known && !(*known)->adds)) known.emplace(make_shape(space_.shapes()[index], adds));
  return *known ? &**known : nullptr;
}

std::optional<PlanBounds::PricedShape> PlanBounds::priced_shape(const Scenario& job, bool adds) {
  tools_.keep_layers_of(job);
  auto plan = tools_.lowerer.passes(job);
  if (!plan) return std::nullopt;
  std::erase_if(plan->rows, [](const plan::Row& row) {
    return !row.every_pass || !row.in_the_way || row.rank_class != row.needed_by;
  });
  std::vector<cost::LayerTimes> times;
  auto step = priced(job, std::move(*plan), tools_, &times);
  if (!step) return std::nullopt;
  PricedShape made{.step = std::move(*step), .times = std::move(times), .adding = {}, .adding_times = {}};
  if (!adds) return made;
  Scenario again = job;
  again.strategy.accumulation.set(2);
  const auto layers = cost::price_layers(again, *made.step.plan, tools_.prices);
  if (!layers) return std::nullopt;
  auto adding = cost::price(again, made.step.plan, *layers);
  if (!adding) return std::nullopt;
  made.adding = std::move(*adding);
  made.adding_times = layers->layers;
  return made;
}

std::optional<PlanShape> PlanBounds::make_shape(const ShapeKey& key, bool adds) {
  const Scenario job = short_job(key);
  const auto priced = priced_shape(job, adds);
  if (!priced) return std::nullopt;
  const cost::PricedStep& step = priced->step;
  const hardware::SoftwareFactor factor = plan::gpu_time_factor_of(job);
  PlanShape made{.sums = std::vector<LayerPass>(1),
                 .runs = {},
                 .adds = adds,
                 .updating = factor.update,
                 .launch_interval = step.launch_interval,
                 .waiting = step.wait_for_slowest,
                 .held = step.sm_share};
  std::vector<LayerPass>& sums = made.sums;
  const bool by_profiles = cost::by_profiles(job);
  const std::size_t classes = key.stages == 1 ? 1 : step.plan->classes.size();  // one kind of GPUs has the same layers
  for (std::size_t c = 0; c < classes; ++c) {
    const std::vector<LayerPass> one = passes_of(step, c);
    const plan::Chunk& chunk = step.plan->classes[c].chunk;
    // What goes beside kernels hides the better, the longer they take.
    const std::vector<LayerPass> added = adds ? passes_of(*priced->adding, c) : one;
    const auto put_off = [&](const cost::PricedStep& of, std::span<const cost::LayerTimes> layers, std::size_t i) {
      const cost::LayerTime& weights = layers[sums.size() - 1].weights;
      return by_profiles ? weights.compute * factor.compute + weights.memory * factor.memory
                         : of.classes[c].backward[one.size() - 1 - i].time * weights_share_of(chunk[i]);
    };
    for (std::size_t i = 0; i < one.size(); ++i) {
      LayerPass pass = one[i];
      pass.weights = put_off(step, priced->times, i);
      pass.put_off = adds ? put_off(*priced->adding, priced->adding_times, i) : pass.weights;
      pass.added = added[i].backward - one[i].backward;  // less where another layer's backward hides a message
      sums.push_back(sums.back() + pass);
    }
  }
  const std::size_t layers = sums.size() - 1;
  const bool is_short = tools_.shorter && key.stages == 1;
  if (is_short && layers != tools_.shorter->model->layers.size()) return std::nullopt;
  if (is_short) add_runs(made);
  made.whole = before(made, is_short ? tools_.shorter->source.size() : layers);
  return made;
}

void PlanBounds::add_runs(PlanShape& shape) const {
  LayerPass more;
  for (const ShortModel::Repeated& run : tools_.shorter->runs) {
    shape.runs.push_back({.before = more, .block = shape.sums[run.end] - shape.sums[run.first]});
    more = more + shape.runs.back().block * run.times;
  }
}

LayerPass PlanBounds::before(const PlanShape& shape, std::size_t layer) const {
  if (shape.runs.empty()) return shape.sums[layer];
  const ShortModel::Place& place = tools_.shorter->places[layer];
  const PlanShape::Run& run = shape.runs[place.run];
  return shape.sums[place.layer] + run.before + run.block * place.repeats;
}

/// While it waits for its first micro-batch it may gather them.
Time PlanBounds::gathered(const PlanShape& shape, const std::vector<StageExchange>& sent, double runs) const {
  Time least = Time::infinity();
  for (const StageExchange& stage : sent) {
    Time each;
    Time longest;
    for (const FirstGather& one : stage.gathers) {
      const Time beside = before(shape, one.before.end).forward - before(shape, one.before.first).forward;
      const Time still = max(one.time - beside, Time::zero());
      each += still;
      longest = max(longest, still);
    }
    least = min(least, each * runs - longest);
  }
  return max(least, Time::zero());
}

namespace {

/// What stands in the way of passes and may be beside another pass: DualPipe's pairs hide no more of it than the other
/// pass's kernels take (step/slots.cpp).
Time hidden(Time exchanged, Time beside) { return min(exchanged, beside); }

/// However the layers are shared, some rank has its mean share of the work. `hides`: all-to-alls, in pairs.
Time by_share(const Split& split, const PlanShape& shape, bool hides) {
  const LayerPass& all = shape.whole;
  Time work = all.forward + all.backward;
  if (hides) {
    work = work - hidden(all.forward_exchanged, all.backward - all.backward_exchanged) -
           hidden(all.backward_exchanged, all.forward - all.forward_exchanged);
  }
  return work * (static_cast<double>(split.passes) / static_cast<double>(split.pipeline) * kRounding);
}

/// The busiest of the channels beside that of all replicas.
Time busiest_other(const StageExchange& sent, double runs) {
  Time longest;
  for (const OtherChannel& one : sent.others) longest = max(longest, one.every_pass * runs + one.once);
  return longest;
}

/// A stage's update, and what is in the way after it.
Time end_of(const StageExchange& sent, const PlanShape& shape) {
  return max(sent.update * shape.updating, shape.launch_interval * sent.launches) + sent.after;
}

/// A rank's last pass is a backward one (of weights alone, where they come apart): what that makes ready is sent before
/// the update.
Time with_last(const plan::Pipeline& pipeline, const std::vector<plan::PartTime>& parts,
               const std::vector<StageExchange>& sent, const std::vector<Time>& ends) {
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
    bound = max(bound, max(work + sent[s].standing, work - longest + least) + ends[s]);
  }
  return bound;
}

/// What stages send to their replicas, beside the passes of `parts` and after them.
Time with_sent(const plan::Pipeline& pipeline, bool in_order, const std::vector<plan::PartTime>& parts,
               const std::vector<StageExchange>& sent, const std::vector<Time>& ends) {
  const auto runs = static_cast<double>(plan::passes_of(pipeline));
  Time bound = with_last(pipeline, parts, sent, ends);
  for (std::size_t s = 0; s < sent.size(); ++s) {
    bound = max(bound, max(sent[s].every_pass * runs, busiest_other(sent[s], runs)) + ends[s]);
  }
  if (!in_order) return bound;
  Time before;
  Time after;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const plan::PartTime& part = parts[s];
    const Time busy = before + (part.forward + part.backward) * runs;
    bound = max(bound, max(busy + sent[s].standing, busy - part.backward + sent[s].once) + ends[s]);
    bound = max(bound, busy + after + sent[0].standing + ends[0]);
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

double PlanBounds::most_issued(const Split& split, std::size_t index) {
  constexpr double kOfUnevenStages = 2;
  constexpr double kOfBothDirections = 2;
  const PlanShape* shape = this->shape(index);
  if (shape == nullptr || shape->whole.kernels == Time::zero()) return 1;
  double share = shape->launch_interval * shape->whole.issued / shape->whole.kernels;
  if (split.pipeline > 1) share *= kOfUnevenStages;
  if (split.schedule == PipelineSchedule::kDualPipe) share *= kOfBothDirections;
  return std::min(share / kRounding, 1.0);
}

Time PlanBounds::by_kernels(const Split& split, std::size_t index) {
  const PlanShape* shape = this->shape(index);
  if (shape == nullptr) return Time::infinity();
  const KernelsKey key{index, {split.pipeline, split.schedule, split.virtual_stages, split.cut}, split.passes};
  if (last_key_ != key) {
    last_key_ = key;
    last_ = laid_out(split, *shape, nullptr);
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
Time one_stage(const Split& split, const PlanShape& shape, const LayerPass& all,
               const std::vector<StageExchange>* exchange, double adding) {
  const auto passes = static_cast<double>(split.passes);
  const Time backward = all.backward + all.added * adding;
  const Time busy = (all.forward + backward) * passes;
  const Time issuing = shape.launch_interval * (all.issued * passes);
  const Time waiting = (all.kernels + all.added * adding) * (std::sqrt(passes) * shape.waiting);
  if (exchange == nullptr) return max(busy, issuing) + waiting;
  const StageExchange& sent = exchange->front();
  const Time kernels = (all.kernels + all.added * adding) * passes;
  const Time working = busy + sent.standing + contention(sent, passes, kernels, shape.held);
  const Time own =
      max(max(working, busy - backward + sent.once), max(sent.every_pass * passes, busiest_other(sent, passes)));
  return max(own + end_of(sent, shape), issuing) + waiting;
}

}  // namespace

/// What pairs hide of DualPipe's parts, beside the kernels of whichever direction takes longer.
void PlanBounds::hide_in_pairs(const std::vector<LayerRange>& places) {
  const auto share = [](Time hidden, Time exchanged) { return exchanged > Time::zero() ? hidden / exchanged : 0.0; };
  for (std::size_t q = 0; q < places.size(); ++q) {
    const LayerPass& own = passes_[q];
    const LayerPass& other = passes_[places.size() - 1 - q];
    const Time forward = max(own.forward - own.forward_exchanged, other.forward - other.forward_exchanged);
    const Time backward = max(own.backward - own.backward_exchanged, other.backward - other.backward_exchanged);
    const Time of_forward = hidden(own.forward_exchanged, backward);
    const Time of_backward = hidden(own.backward_exchanged, forward);
    parts_[q].forward = parts_[q].forward - of_forward;
    parts_[q].backward = parts_[q].backward - of_backward;
    hidden_.push_back({.end = places[q].end,
                       .forward = share(of_forward, own.forward_exchanged),
                       .backward = share(of_backward, own.backward_exchanged)});
  }
}

/// By ranks whose neighbours never keep them waiting: the last one, whose first pass waits for the longest, and one in
/// the middle, where no embedding or head is.
Time PlanBounds::ranks_alone(const plan::Pipeline& pipeline, const PlanShape& shape,
                             const std::vector<StageExchange>& exchange, double adding) const {
  const auto work = [&](plan::SlotKind kind, const LayerRange& layers) {
    const LayerPass pass = before(shape, layers.end) - before(shape, layers.first);
    const auto part = std::upper_bound(hidden_.begin(), hidden_.end(), layers.first,
                                       [](std::size_t layer, const Hidden& one) { return layer < one.end; });
    const Hidden hides = part == hidden_.end() ? Hidden{} : *part;
    if (kind == plan::SlotKind::kForward) return pass.forward - pass.forward_exchanged * hides.forward;
    const Time weights = pass.weights + pass.added * adding;
    if (kind == plan::SlotKind::kBackwardWeights) return weights;
    const Time all = pass.backward + pass.added * adding - pass.backward_exchanged * hides.backward;
    // Small kernels that take longer gain less from that: of what is added less is in all of backward than in weights.
    return kind == plan::SlotKind::kBackward ? all : all - max(weights, pass.put_off);
  };
  const auto runs = static_cast<double>(plan::passes_of(pipeline));
  const bool together = plan::ends_together(pipeline.schedule);
  const std::size_t middle = exchange.size() / 2;
  const std::size_t last = exchange.size() - 1;
  // Of one or two ranks it is the same one.
  const std::size_t apart = std::max<std::size_t>(last - middle, 1);
  Time bound;
  for (std::size_t s = middle; s <= last; s += apart) {
    const StageExchange& sent = exchange[s];
    std::size_t nearest = parts_.size();
    for (std::size_t r = 0; r < sent.channel.size(); ++r) {
      nearest = std::min(nearest, plan::position_of(pipeline, {s, r}));
    }
    Time arrival;
    Time behind;  // of other ranks, after its last pass
    for (std::size_t q = 0; q < nearest; ++q) {
      arrival += parts_[q].forward;
      behind += parts_[q].backward - parts_[q].weights;
    }
    // Where ranks begin a step by themselves it is from then on.
    const RankEnd end = RankAlone(pipeline, sent.channel, work).run(s, together ? arrival : Time::zero());
    const Time beside = sent.beside_each * runs + sent.beside_once;
    const Time lost = sent.held_each * runs + sent.held_once;
    const double held = beside > Time::zero() ? lost / beside : 0.0;
    // What kernels lose to collectives beside them comes out of other waiting first (step/slots.cpp).
    const Time taken = min(beside, rank_kernels_[s] / (1 - held)) * held;
    const Time contention = max(taken - end.waited - (end.sent - end.done), Time::zero());
    bound = max(bound, max(end.sent, end.done + sent.standing) + contention + ends_[s]);
    // DualPipe's other direction begins on the last rank.
    const bool dual = pipeline.schedule == PipelineSchedule::kDualPipe;
    const Time end_of_first = dual ? min(ends_.front(), ends_.back()) : ends_.front();
    if (together) bound = max(bound, end.passes + behind + parts_[0].weights + end_of_first);
  }
  return bound;
}

/// The same of the only stage.
Time PlanBounds::one_rank(const Split& split, const PlanShape& shape, const std::vector<StageExchange>& exchange,
                          double adding) {
  const auto passes = static_cast<double>(split.passes);
  const LayerPass& all = shape.whole;
  const Time added = all.added * adding;
  hidden_.clear();
  parts_.assign(1, {all.forward, all.backward + added, Time::zero()});
  rank_kernels_.assign(1, (all.kernels + added) * passes);
  ends_.assign(1, end_of(exchange.front(), shape));
  const Time waiting = rank_kernels_.front() * (shape.waiting / std::sqrt(passes));
  return ranks_alone({.micro_batches = split.passes}, shape, exchange, adding) + waiting;
}

Time PlanBounds::with_stages_sent(const Split& split, const plan::Pipeline& pipeline, const PlanShape& shape,
                                  const std::vector<StageExchange>& exchange, Time bound) {
  const auto runs = static_cast<double>(plan::passes_of(pipeline));
  ends_.clear();
  for (const StageExchange& stage : exchange) ends_.push_back(end_of(stage, shape));
  // Whoever ends its passes last has its update before it, and what is in the way after that.
  bound = max(bound + gathered(shape, exchange, runs) + *std::min_element(ends_.begin(), ends_.end()),
              with_sent(pipeline, in_order(split), parts_, exchange, ends_));
  for (std::size_t s = 0; s < exchange.size(); ++s) {  // bubbles apart
    const Time lost = contention(exchange[s], runs, rank_kernels_[s], shape.held);
    bound = max(bound, rank_work_[s] + exchange[s].standing + lost + ends_[s]);
  }
  return bound;
}

Time PlanBounds::laid_out(const Split& split, const PlanShape& shape, const std::vector<StageExchange>* exchange,
                          bool by_ranks) {
  // By kernels alone a bound is that of all ways to share states.
  const double adding = exchange != nullptr ? share_added(split) : 0.0;
  if (split.pipeline == 1) {
    Time bound = one_stage(split, shape, shape.whole, exchange, adding);
    const bool in_passes = exchange != nullptr && !exchange->front().channel.empty();
    if (by_ranks && in_passes) bound = max(bound, one_rank(split, shape, *exchange, adding));
    return bound * kRounding;
  }
  const std::vector<LayerRange>& places = tools_.places.of(split, space_, tools_.lowerer);
  const auto stages = static_cast<std::size_t>(split.pipeline);
  const bool hides = split.schedule == PipelineSchedule::kDualPipe;
  if (places.empty()) return by_share(split, shape, hides);
  const plan::Pipeline pipeline = pipeline_of(split);
  const bool in_two = plan::splits_backward(split.schedule);
  const auto runs = static_cast<double>(plan::passes_of(pipeline));
  std::vector<plan::PartTime>& parts = parts_;
  std::vector<Time>& work = rank_work_;
  std::vector<Time>& kernels = rank_kernels_;
  std::vector<double>& issued = rank_issued_;
  parts.clear();
  passes_.clear();
  hidden_.clear();
  work.assign(stages, Time::zero());
  kernels.assign(stages, Time::zero());
  issued.assign(stages, 0);
  LayerPass begin = before(shape, places.front().first);
  for (const LayerRange& place : places) {
    const LayerPass end = before(shape, place.end);
    LayerPass part = end - begin;
    begin = end;
    const Time added = part.added * adding;
    part.backward += added;
    part.kernels += added;
    parts.push_back({part.forward, part.backward, in_two ? part.weights + added : Time::zero()});
    passes_.push_back(part);
  }
  if (split.schedule == PipelineSchedule::kDualPipe) hide_in_pairs(places);
  for (std::size_t q = 0; q < places.size(); ++q) {
    for (std::int64_t direction = 0; direction < plan::directions_of(split.schedule); ++direction) {
      const std::size_t rank = plan::place_of(pipeline, q, direction).stage;
      work[rank] += (parts[q].forward + parts[q].backward) * runs;
      kernels[rank] += passes_[q].kernels * runs;
      issued[rank] += passes_[q].issued * runs;
    }
  }
  Time bound = plan::least_step(pipeline, parts);
  if (exchange != nullptr) {
    bound = with_stages_sent(split, pipeline, shape, *exchange, bound);
    if (by_ranks) bound = max(bound, ranks_alone(pipeline, shape, *exchange, adding));
  }
  bound = max(bound, shape.launch_interval * *std::max_element(issued.begin(), issued.end()));
  const double waiting = shape.waiting / std::sqrt(runs);
  return (bound + *std::min_element(kernels.begin(), kernels.end()) * waiting) * kRounding;
}

}  // namespace ddlsim::whatif
