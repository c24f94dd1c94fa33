#include "plan_bound.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
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

/// What decides where the stages of a pipeline are.
std::tuple<std::int64_t, plan::PipelineSchedule, std::int64_t> stages_of(const Split& split) {
  return {split.pipeline, in_order(split) ? PipelineSchedule::kOneForwardOneBackward : split.schedule,
          split.virtual_stages};
}

/// Whether replicas sum plain gradients and wait for them: what is bounded here.
bool plain_exchange(const Scenario& base) {
  return !base.strategy.priority && base.overlap.value_or(plan::Overlap::kBackward) != plan::Overlap::kIdeal &&
         plan::grouping_of(base.strategy) != plan::Grouping::kFusion;
}

bool alike(const workload::Layer& a, const workload::Layer& b) {
  const bool op = a.op.has_value() == b.op.has_value() && (!a.op || a.op->index() == b.op->index());
  return op && !a.measured && !b.measured && a.in == b.in && a.parameters == b.parameters &&
         a.forward_work == b.forward_work && a.backward_work == b.backward_work &&
         a.forward_elements == b.forward_elements && a.backward_elements == b.backward_elements &&
         a.output_elements == b.output_elements && a.saved_elements == b.saved_elements &&
         a.forward_kernels == b.forward_kernels && a.backward_kernels == b.backward_kernels;
}

/// How layers are cut depends on their neighbours: of a run the first blocks and the last one stay.
constexpr std::size_t kBlocksKept = 3;

/// Blocks of a model that stand one after the other and are alike.
struct Run {
  std::size_t first = 0;   // layer
  std::size_t length = 0;  // of a block
  std::size_t times = 1;
};

/// How often the `length` layers at `first` stand there one after the other.
std::size_t times_at(const std::vector<workload::Layer>& layers, std::size_t first, std::size_t length) {
  std::size_t same = 0;
  while (first + length + same < layers.size() && alike(layers[first + same], layers[first + length + same])) ++same;
  return 1 + same / length;
}

/// Every layer is in one; of several ways to repeat what follows, the one over the most layers, then the shortest.
std::vector<Run> runs_of(const std::vector<workload::Layer>& layers) {
  constexpr std::size_t kLongest = 64;  // layers of a block; DeepSeek-V3's has 21
  std::vector<Run> runs;
  for (std::size_t first = 0; first < layers.size();) {
    Run best{first, 1, 1};
    for (std::size_t length = 1; length <= std::min(kLongest, (layers.size() - first) / 2); ++length) {
      const std::size_t times = times_at(layers, first, length);
      if (times > kBlocksKept && times * length > best.times * best.length) best = {first, length, times};
    }
    runs.push_back(best);
    first += best.times * best.length;
  }
  return runs;
}

std::shared_ptr<const workload::Model> with_blocks(const workload::Model& model, const std::vector<Run>& runs,
                                                   std::vector<std::size_t>& source) {
  auto made = std::make_shared<workload::Model>(model);
  made->layers.clear();
  for (const Run& run : runs) {
    const std::size_t kept = std::min(run.times, kBlocksKept);
    const std::size_t start = made->layers.size();
    for (std::size_t block = 0; block < run.times; ++block) {
      // Blocks 0, 1, ... and the last one; those between are like the second.
      const bool last = block + 1 == run.times;
      const std::size_t like = last ? kept - 1 : std::min(block, kept < 3 ? 0 : kept - 2);
      const bool stands = last || block + 1 < kept;
      for (std::size_t i = 0; i < run.length; ++i) {
        if (stands) made->layers.push_back(model.layers[run.first + block * run.length + i]);
        source.push_back(start + like * run.length + i);
      }
    }
  }
  auto totals = workload::total(made->layers);
  if (!totals) return nullptr;
  made->totals = std::move(*totals);
  return made;
}

/// Nothing where a model is no shorter for it, or its layers do not stay what they are.
std::optional<ShortModel> short_model_of(const Scenario& base) {
  const workload::Model& model = *base.model;
  const bool every_nth = base.parallel.recompute_every > 1;
  if (model.measured || base.fusion.pointwise || base.fusion.attention || every_nth) return std::nullopt;
  const std::vector<Run> runs = runs_of(model.layers);
  ShortModel made;
  made.model = with_blocks(model, runs, made.source);
  if (made.model == nullptr || made.model->layers.size() == model.layers.size()) return std::nullopt;
  return made;
}

/// What a layer's pass takes and how many kernels it has, by layer of the lowered model.
struct LayerSums {
  std::vector<Time> forward, backward, weights, kernels;
  std::vector<double> issued;

  explicit LayerSums(std::size_t layers)
      : forward(layers), backward(layers), weights(layers), kernels(layers), issued(layers) {}
};

LayerSums layer_sums(const cost::PricedStep& step, std::size_t rank_class) {
  const cost::PricedClass& times = step.classes[rank_class];
  const std::size_t count = times.forward.size();
  LayerSums sums(count);
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
    if (point.at == Moment::kForward) sums.forward[point.layer] += took;
    if (point.at == Moment::kBackward) sums.backward[point.layer] += took;
  }
  return sums;
}

}  // namespace

Expected<Time> step_of(const Scenario& job, std::shared_ptr<const plan::StepPlan> plan, PlanTools& tools) {
  const auto layers = cost::price_layers(job, *plan, tools.prices);
  if (!layers) return tl::unexpected<Error>(layers.error());
  const auto step = cost::price(job, std::move(plan), *layers);
  if (!step) return tl::unexpected<Error>(step.error());
  const auto line = step::schedule(*step, answer::Detail::kTime);
  if (!line) return tl::unexpected<Error>(line.error());
  return line->step;
}

PlanBounds::PlanBounds(const PlanSpace& space, PlanTools& tools)
    : space_(space),
      tools_(tools),
      short_(short_model_of(space.base())),
      shapes_(space.shapes().size()),
      held_of_(space.shapes().size()) {}

Scenario PlanBounds::short_job(const ShapeKey& key) const {
  Scenario job = space_.with(key);
  // The software's factor is that of the whole model.
  job.gpu_time_factor.set(plan::gpu_time_factor_of(job));
  job.software = nullptr;
  if (short_ && key.stages == 1) job.model = short_->model;
  return job;
}

const PlanShape* PlanBounds::shape(std::size_t index) {
  auto& known = shapes_[index];
  if (!known) {
    known.emplace(make_shape(space_.shapes()[index]));
    ++priced_;
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
  LayerSums all(0);
  const std::size_t classes = key.stages == 1 ? 1 : step->plan->classes.size();  // one kind of GPUs has the same layers
  for (std::size_t c = 0; c < classes; ++c) {
    const LayerSums one = layer_sums(*step, c);
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(all.forward, one.forward);
    append(all.backward, one.backward);
    for (std::size_t i = 0; i < one.forward.size(); ++i) {
      all.weights.push_back(times[all.weights.size()].weights.total() * plan::gpu_time_factor_of(job));
    }
    append(all.kernels, one.kernels);
    append(all.issued, one.issued);
  }
  const bool shortened = short_ && key.stages == 1;
  const auto sums = [&](const auto& parts) {
    if (!shortened) return sums_of(parts);
    std::remove_cvref_t<decltype(parts)> whole;
    whole.reserve(short_->source.size());
    for (const std::size_t source : short_->source) whole.push_back(parts[source]);
    return sums_of(whole);
  };
  if (shortened && all.forward.size() != short_->model->layers.size()) return std::nullopt;
  return PlanShape{.forward = sums(all.forward),
                   .backward = sums(all.backward),
                   .weights = sums(all.weights),
                   .kernels = sums(all.kernels),
                   .issued = sums(all.issued),
                   .launch_interval = step->launch_interval,
                   .waiting = step->wait_for_slowest};
}

const std::optional<plan::HeldSums>& PlanBounds::held(const ShapeKey& shape) {
  ShapeKey key = shape;
  key.stages = 1;
  key.batch = 1;  // all of it grows with the micro-batch
  const auto [found, added] = held_.try_emplace(key);
  if (added) {
    if (auto sums = tools_.lowerer.held(space_.with(key))) found->second = std::move(*sums);
  }
  return found->second;
}

/// Where the parts of a pipeline are, as the lowering has them; they follow from the model's layers alone.
const std::vector<PlanBounds::Place>& PlanBounds::places_of(const Split& split) {
  static const std::vector<Place> none;
  auto [found, added] = places_.try_emplace(stages_of(split));
  if (!added) return found->second;
  const auto plan = tools_.lowerer.outline(space_.with(split));
  if (!plan) {
    // Another plan with those stages may be legal.
    places_.erase(found);
    return none;
  }
  std::vector<Place>& places = found->second;
  places.resize(plan::positions_of(pipeline_of(split)));
  for (std::size_t c = 0; c < plan->classes.size(); ++c) {
    const plan::RankClass& one = plan->classes[c];
    if (one.parts.empty()) places[c] = {one.chunk.first, one.chunk.first + one.chunk.count};
    for (const plan::Part& part : one.parts) places[part.position] = {part.layer, part.layer + part.count};
  }
  return places;
}

const std::vector<double>& PlanBounds::in_flight(const Split& split) {
  // Enough for any order to keep as many as it ever does.
  const bool all = split.schedule == PipelineSchedule::kGpipe;
  const std::int64_t passes = all ? split.passes : std::min(split.passes, 4 * split.pipeline);
  auto [found, added] =
      in_flight_.try_emplace({std::tuple{split.pipeline, split.schedule, split.virtual_stages}, passes});
  if (!added) return found->second;
  Split shortened = split;
  shortened.passes = passes;
  const plan::Pipeline pipeline = pipeline_of(shortened);
  const std::vector<double> alike(static_cast<std::size_t>(plan::parts_of(pipeline)), 1.0);
  for (std::int64_t s = 0; s < split.pipeline; ++s) {
    const auto kept = plan::in_flight(pipeline, static_cast<std::size_t>(s), alike);
    const std::int64_t least = *std::min_element(kept.begin(), kept.end());
    found->second.push_back(static_cast<double>(std::max<std::int64_t>(least, 1)));
  }
  return found->second;
}

namespace {

/// However the layers are shared, some rank has its mean share of the work.
Time by_share(const Split& split, const PlanShape& shape) {
  return shape.whole() * (static_cast<double>(split.passes) / static_cast<double>(split.pipeline) * kRounding);
}

/// What stages send to their replicas, beside the passes of `parts` and after them.
Time with_sent(const Split& split, const std::vector<plan::PartTime>& parts, const std::vector<StageExchange>& sent,
               double runs) {
  Time bound;
  for (const StageExchange& stage : sent) bound = max(bound, stage.every_pass * runs + stage.update + stage.after);
  if (!in_order(split)) return bound;
  Time before;
  Time after;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const plan::PartTime& part = parts[s];
    const Time busy = before + (part.forward + part.backward) * runs;
    bound = max(bound, max(busy, busy - part.backward + sent[s].once) + sent[s].update + sent[s].after);
    bound = max(bound, busy + after + sent[0].update + sent[0].after);
    before += part.forward;
    after += part.backward;
  }
  return bound;
}

}  // namespace

Time PlanBounds::by_mean(const Split& split, std::size_t index) {
  const PlanShape* shape = this->shape(index);
  return shape == nullptr ? Time::infinity() : by_share(split, *shape);
}

Time PlanBounds::by_kernels(const Split& split, std::size_t index) {
  const PlanShape* shape = this->shape(index);
  return shape == nullptr ? Time::infinity() : laid_out(split, *shape, nullptr);
}

namespace {

/// One stage: passes follow each other.
Time one_stage(const Split& split, const PlanShape& shape, const std::vector<StageExchange>* exchange) {
  const auto passes = static_cast<double>(split.passes);
  const Time busy = max(shape.whole() * passes, shape.launch_interval * (shape.issued.back() * passes));
  const Time waiting = shape.kernels.back() * (std::sqrt(passes) * shape.waiting);
  if (exchange == nullptr) return busy + waiting;
  const StageExchange& sent = exchange->front();
  const Time own = max(max(busy, busy - shape.backward.back() + sent.once), sent.every_pass * passes);
  return own + sent.update + sent.after + waiting;
}

}  // namespace

Time PlanBounds::laid_out(const Split& split, const PlanShape& shape, const std::vector<StageExchange>* exchange) {
  if (split.pipeline == 1) return one_stage(split, shape, exchange) * kRounding;
  const std::vector<Place>& places = places_of(split);
  const auto stages = static_cast<std::size_t>(split.pipeline);
  if (places.empty()) return by_share(split, shape);
  const plan::Pipeline pipeline = pipeline_of(split);
  const auto sum = [](const std::vector<Time>& of, const Place& place) { return of[place.end] - of[place.first]; };
  const bool in_two = plan::splits_backward(split.schedule);
  const auto runs = static_cast<double>(plan::passes_of(pipeline));
  std::vector<plan::PartTime> parts;
  std::vector<Time> kernels(stages);
  std::vector<double> issued(stages);
  for (std::size_t q = 0; q < places.size(); ++q) {
    const Place& place = places[q];
    parts.push_back(
        {sum(shape.forward, place), sum(shape.backward, place), in_two ? sum(shape.weights, place) : Time::zero()});
    for (std::int64_t direction = 0; direction < plan::directions_of(split.schedule); ++direction) {
      const std::size_t rank = plan::place_of(pipeline, q, direction).stage;
      kernels[rank] += sum(shape.kernels, place) * runs;
      issued[rank] += (shape.issued[place.end] - shape.issued[place.first]) * runs;
    }
  }
  Time bound =
      max(plan::least_step(pipeline, parts), shape.launch_interval * *std::max_element(issued.begin(), issued.end()));
  if (exchange != nullptr) bound = max(bound, with_sent(split, parts, *exchange, runs));
  const double waiting = shape.waiting / std::sqrt(runs);
  return (bound + *std::min_element(kernels.begin(), kernels.end()) * waiting) * kRounding;
}

PlanBounds::Exchange PlanBounds::make_exchange(const Split& split) {
  Exchange exchange;
  const Scenario job = space_.with(split);
  auto plan = tools_.lowerer.lower(job);
  if (!plan || !plain_exchange(space_.base()) || plan->servers) return {.bounds = false, .stages = {}};
  // What stands in the way of kernels is the shape's, what crosses stages the schedule's.
  std::erase_if(plan->rows, [](const plan::Row& row) {
    return row.rank_class != row.needed_by || (row.every_pass && row.in_the_way) || row.beside != 0;
  });
  for (plan::RankClass& one : plan->classes) one.chunk.count = 0;
  const auto step = priced(job, std::move(*plan), tools_);
  if (!step) return {.bounds = false, .stages = {}};
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

Time PlanBounds::with_exchange(const Split& split, std::size_t index) {
  const PlanShape* shape = this->shape(index);
  if (shape == nullptr) return Time::infinity();
  if (split.data * split.context == 1 || (split.pipeline > 1 && !in_order(split))) {
    return laid_out(split, *shape, nullptr);
  }
  ExchangeKey key{.shape = space_.shapes()[index], .stages = stages_of(split), .zero = split.zero};
  // Gradients of dense layers are as large whatever the batch.
  if (space_.base().model->totals.sparse_parameters > 0) {
    key.passes = split.passes;
  } else {
    key.shape.batch = 0;
    key.shape.recompute = plan::Recompute::kNone;
  }
  auto found = exchanges_.find(key);
  if (found == exchanges_.end()) found = exchanges_.emplace(key, make_exchange(split)).first;
  const Exchange& exchange = found->second;
  const bool per_stage = static_cast<std::int64_t>(exchange.stages.size()) == split.pipeline;
  return laid_out(split, *shape, exchange.bounds && per_stage ? &exchange.stages : nullptr);
}

namespace {

/// Of what replicas share each holds a part, from a stage of zero on.
double share_of(const Split& split, int from) {
  return split.zero >= from ? 1.0 / static_cast<double>(split.data * split.context) : 1.0;
}

DataSize held_between(const plan::HeldSums& sums, const Split& split, std::size_t first, std::size_t end) {
  const auto of = [&](const std::vector<DataSize>& all) { return all[end] - all[first]; };
  return of(sums.weights) * share_of(split, 3) + of(sums.gradients) * share_of(split, 2) +
         of(sums.states) * share_of(split, 1);
}

}  // namespace

/// However layers are shared, some rank has its mean share, and one micro-batch of it.
DataSize PlanBounds::least_memory(const Split& split, std::size_t index, std::int64_t parts) {
  const auto*& known = held_of_[index];
  if (known == nullptr) known = &held(space_.shapes()[index]);
  if (!*known) return DataSize::infinity();
  const plan::HeldSums& sums = **known;
  const DataSize kept = sums.kept.back() * static_cast<double>(split.batch);
  const DataSize all = held_between(sums, split, 0, sums.kept.size() - 1) + kept;
  // Of several parts of a rank all but one may hold less when it holds most: by what a layer works with.
  const DataSize mean =
      all / static_cast<double>(split.pipeline) - sums.working * static_cast<double>(split.batch * (parts - 1));
  return max(mean, DataSize::zero()) * kRounding;
}

DataSize PlanBounds::memory(const Split& split, std::size_t index) {
  const std::int64_t parts = plan::parts_of(pipeline_of(split));
  const DataSize least = least_memory(split, index, parts);
  if (least == DataSize::infinity() || split.pipeline == 1) return least;
  const plan::HeldSums& sums = **held_of_[index];
  const auto batch = static_cast<double>(split.batch);
  const std::vector<double>& flying = in_flight(split);
  if (parts == 1) {
    DataSize most = least;
    const std::vector<Place>& places = places_of(split);
    for (std::size_t s = 0; s < places.size(); ++s) {
      const auto [first, end] = places[s];
      const DataSize kept = (sums.kept[end] - sums.kept[first]) * (batch * flying[s]);
      most = max(most, (held_between(sums, split, first, end) + kept) * kRounding);
    }
    return most;
  }
  if (split.recompute != plan::Recompute::kNone) return least;
  // Of ranks that hold a and keep n micro-batches the fullest holds at least sum(a) / sum(1 / n).
  double inverse = 0;
  for (const double one : flying) inverse += 1.0 / one;
  const DataSize mean = held_between(sums, split, 0, sums.kept.size() - 1) / static_cast<double>(split.pipeline);
  const DataSize kept = sums.kept.back() * (batch / inverse) - sums.working * (batch * static_cast<double>(parts - 1));
  return max(least, (mean + max(kept, DataSize::zero())) * kRounding);
}

}  // namespace ddlsim::whatif
