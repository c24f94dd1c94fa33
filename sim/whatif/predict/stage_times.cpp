#include "predict/stage_times.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <variant>

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lowerer.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/plan/stage_cuts.h"
#include "ddlsim/plan/timed_cuts.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/workload/blocks.h"

namespace ddlsim::whatif {

/// What layers take, and all that it depends on; what is shared is kept alive, so that addresses stay theirs.
struct StageTimes::Timed {
  std::shared_ptr<const workload::Model> model;
  std::shared_ptr<const hardware::Gpu> gpu;  // that the inputs refer to
  cost::PriceInputs inputs;
  workload::Fusion fusion;
  plan::Parallel parallel;
  hardware::SoftwareFactor factor;
  Time launch_interval{};
  double host = 1;
  bool blocking = false;

  std::size_t most = 0;  // parts
  plan::CutPoints points;
  std::vector<std::size_t> products;  // and the first layer: no framework parts a convolution from its norm
  std::vector<plan::TimedLayer> times;
  std::vector<DataSize> sent;  // where a stage begins with a layer
  /// By schedule, stages, virtual stages, micro-batches where they matter, rates and stages of a server.
  std::map<
      std::tuple<plan::PipelineSchedule, std::int64_t, std::int64_t, std::int64_t, Bandwidth, Bandwidth, std::int64_t>,
      std::vector<std::size_t>>
      cuts;
};

namespace {

/// One GPU of the job by itself, in the way that its layers run.
plan::Job on_one_gpu(const plan::Job& job) {
  plan::Job one = job;
  const plan::Parallel& split = job.parallel;
  one.cluster.nodes = 1;
  one.cluster.gpus_per_node = 1;
  one.strategy = {};
  one.strategy.accumulation.set(2);
  one.overlap.reset();
  one.straggler = by_default(1.0);
  one.parallel = {.recompute = split.recompute,
                  .recompute_every = split.recompute_every,
                  .recompute_first = split.recompute_first,
                  .recompute_stops = split.recompute_stops,
                  .states = split.states,
                  .lora_rank = split.lora_rank,
                  .lora_products = split.lora_products,
                  .frozen_bits = split.frozen_bits};
  return one;
}

/// Layers' passes on the GPU, or by the CPU that launches their kernels where that takes longer; both where launches
/// block.
std::vector<plan::TimedLayer> timed_layers(const cost::PricedClass& priced, Time launch_interval, bool blocking) {
  const std::size_t count = priced.forward.size();
  const auto longer = [&](const cost::PricedLayer& pass) {
    const Time launching = launch_interval * pass.kernels;
    return blocking ? pass.time + launching : max(pass.time, launching);
  };
  std::vector<plan::TimedLayer> times;
  times.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    times.push_back({longer(priced.forward[i]), longer(priced.backward[count - 1 - i])});
  }
  return times;
}

/// What crosses before each layer, in one direction: the output of the one before, and within a block what its residual
/// sum adds.
std::vector<DataSize> sent_before(const plan::Job& job, const std::vector<workload::Layer>& layers,
                                  const plan::CutPoints& points) {
  const DataSize element = activation_size(job.precision) * static_cast<double>(job.batch);
  std::vector<DataSize> sent(layers.size());
  for (std::size_t b = 0; b < points.starts.size(); ++b) {
    const std::size_t end = b + 1 < points.starts.size() ? points.starts[b + 1] : layers.size();
    double added = 0;
    for (std::size_t i = end; i-- > points.starts[b];) {
      if (workload::is_residual(layers[i])) added = static_cast<double>(layers[i].output_elements);
      if (i == 0) break;
      const bool inside = i > points.starts[b] && !workload::is_residual(layers[i - 1]);
      sent[i] = element * (static_cast<double>(layers[i - 1].output_elements) + (inside ? added : 0.0));
    }
  }
  return sent;
}

std::vector<std::size_t> products_of(const std::vector<workload::Layer>& layers) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto& op = layers[i].op;
    const bool product =
        op && (std::holds_alternative<workload::Convolution>(*op) || std::holds_alternative<workload::Linear>(*op) ||
               std::holds_alternative<workload::Lstm>(*op));
    if (i == 0 || product) found.push_back(i);
  }
  return found;
}

/// CNNs and RNNs. Tables alone, and layers without an operator, stay where the lowering cuts them.
bool is_cut_anywhere(const workload::Model& model) {
  const auto is_timed = [](const workload::Layer& layer) {
    return layer.op && (std::holds_alternative<workload::Convolution>(*layer.op) ||
                        std::holds_alternative<workload::Lstm>(*layer.op));
  };
  return std::any_of(model.layers.begin(), model.layers.end(), is_timed) &&
         std::none_of(model.layers.begin(), model.layers.end(), workload::is_attention);
}

}  // namespace

StageTimes::StageTimes() = default;
StageTimes::~StageTimes() = default;
StageTimes::StageTimes(StageTimes&&) noexcept = default;
StageTimes& StageTimes::operator=(StageTimes&&) noexcept = default;

StageTimes::Timed* StageTimes::timed_on(const plan::Job& one) {
  constexpr std::size_t kKept = 256;  // a bound of memory
  const auto inputs = cost::price_inputs(one);
  if (!inputs) return nullptr;
  const hardware::SoftwareFactor factor = plan::gpu_time_factor_of(one);
  const Time launch_interval = plan::launch_interval_of(one) * one.gpu_time_factor;
  const double host = one.cuda_graphs ? 0.0 : one.gpu_time_factor.get();
  const bool blocking = plan::blocks_launches(one);
  auto found = std::find_if(timed_.begin(), timed_.end(), [&](const Timed& timed) {
    return timed.model == one.model && timed.inputs == *inputs && timed.fusion == one.fusion &&
           timed.parallel == one.parallel && timed.factor == factor && timed.launch_interval == launch_interval &&
           timed.host == host && timed.blocking == blocking;
  });
  if (found == timed_.end()) {
    plan::Lowerer lowerer;
    const auto plan = lowerer.passes(one);
    if (!plan) return nullptr;
    const auto prices = cost::price_layers(one, *plan, {kInterval90Low, kInterval90High});
    if (!prices) return nullptr;
    const std::vector<workload::Layer>& layers = *plan->classes.front().chunk.layers;
    plan::CutPoints points = plan::cut_points_of(workload::blocks_of(layers), plan::loads_of(layers));
    std::vector<DataSize> sent = sent_before(one, layers, points);
    if (timed_.size() == kKept) timed_.pop_back();
    timed_.push_front({.model = one.model,
                       .gpu = std::make_shared<const hardware::Gpu>(*inputs->gpu),
                       .inputs = *inputs,
                       .fusion = one.fusion,
                       .parallel = one.parallel,
                       .factor = factor,
                       .launch_interval = launch_interval,
                       .host = host,
                       .blocking = blocking,
                       .most = plan::most_parts(layers),
                       .points = std::move(points),
                       .products = products_of(layers),
                       .times = timed_layers(prices->classes.front(), launch_interval, blocking),
                       .sent = std::move(sent),
                       .cuts = {}});
    found = timed_.begin();
    found->inputs.gpu = found->gpu.get();
  }
  return &*found;
}

std::vector<std::size_t> StageTimes::cuts_of(const plan::Job& job) {
  // Interleaved parts wait for those beside them in ways that plan/timed_cuts.h does not count.
  const bool follow = job.parallel.cuts.empty() && job.parallel.schedule != plan::PipelineSchedule::kInterleaved;
  if (job.parallel.pipeline <= 1 || !follow || !is_cut_anywhere(*job.model)) return {};
  Timed* const found = timed_on(on_one_gpu(job));
  if (found == nullptr) return {};
  const plan::Pipeline pipeline{.schedule = job.parallel.schedule,
                                .stages = job.parallel.pipeline,
                                .virtual_stages = job.parallel.virtual_stages,
                                .micro_batches = job.strategy.accumulation};
  if (!plan::check(pipeline) || plan::positions_of(pipeline) > found->most) return {};
  const auto rates = cost::reached_rates(job);
  if (!rates) return {};
  const std::int64_t stage = std::max<std::int64_t>(job.cluster.gpus() / pipeline.stages, 1);
  const std::int64_t sending = std::min(stage, job.cluster.gpus_per_node);
  const Bandwidth between = rates->network / static_cast<double>(sending);
  const std::int64_t stages_of_server = std::max<std::int64_t>(job.cluster.gpus_per_node / stage, 1);
  const std::int64_t passes = plan::fills_alone(pipeline.schedule) ? pipeline.micro_batches : 0;
  const auto [cuts, added] = found->cuts.try_emplace(
      {pipeline.schedule, pipeline.stages, pipeline.virtual_stages, passes, rates->peer, between, stages_of_server});
  if (!added) return cuts->second;
  cuts->second = plan::timed_cuts(
      found->points, found->times,
      {.before = found->sent, .inside = rates->peer, .between = between, .stages_of_server = stages_of_server},
      pipeline, found->products);
  return cuts->second;
}

}  // namespace ddlsim::whatif
