#include "predict/prediction.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "ddlsim/hardware/link_words.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/memory.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/step/schedule.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/workload/fusion.h"
#include "ddlsim/workload/passes.h"
#include "predict/bottleneck.h"
#include "predict/correction.h"
#include "predict/input_part.h"
#include "predict/interval.h"
#include "predict/notes.h"
#include "predict/stage_times.h"

namespace ddlsim::whatif {
namespace {

using answer::Fidelity;
using answer::Prediction;

/// The same way of training without a split: what one GPU with memory enough would do.
plan::Parallel whole(plan::Parallel parallel) {
  const plan::Parallel none;
  parallel.tensor = parallel.context = parallel.expert = parallel.pipeline = 1;
  parallel.expert_tensor = none.expert_tensor;
  parallel.sequence = none.sequence;
  parallel.scatter_gather = none.scatter_gather;
  parallel.schedule = none.schedule;
  parallel.virtual_stages = none.virtual_stages;
  parallel.cuts.clear();
  parallel.zero = none.zero;
  parallel.shard_ranks = none.shard_ranks;
  parallel.gather_fp8 = none.gather_fp8;
  parallel.offload_optimizer = parallel.offload_weights = parallel.offload_activations = false;
  return parallel;
}

/// The layers with their adapters, whose frozen weights have no gradient; nothing: all is trained.
std::optional<std::vector<workload::Layer>> adapted_layers(const Scenario& scenario) {
  if (scenario.parallel.lora_rank == 0) return std::nullopt;
  std::vector<workload::Layer> layers = scenario.model->layers;
  const workload::Adapters adapters{.rank = scenario.parallel.lora_rank, .products = scenario.parallel.lora_products};
  if (!workload::adapt(layers, adapters)) return std::nullopt;
  return workload::fused(std::move(layers), plan::fusion_as_run(scenario));
}

/// Experts' FLOPs of one sample, all copies of its rows worked on.
Work experts_work(const Scenario& scenario) {
  const auto adapted = adapted_layers(scenario);
  Work work;
  for (const workload::Layer& layer : adapted ? *adapted : scenario.model->layers) {
    if (layer.op && std::holds_alternative<workload::Experts>(*layer.op)) {
      work += layer.forward_work + layer.backward_work;
    }
  }
  return work;
}

/// The busiest rank's FLOPs over the mean of all ranks.
double busier_than_most(const Question& question, Work model_work) {
  const plan::Parallel& parallel = question.scenario.parallel;
  const double load = plan::expert_load(parallel);
  const double share = plan::expert_share(parallel);
  if (load == share) return 1;
  const Work experts = experts_work(question.scenario) * static_cast<double>(question.scenario.batch);
  const Work others = model_work - experts * share;
  return (others + experts * load) / (others + experts * share);
}

/// FLOPs that one pass executes, per GPU: what profiles know of kernels, else what layers say.
Work executed_per_gpu(const Question& question, Work model_work) {
  if (!question.plan) return model_work;
  const auto& classes = question.plan->classes;
  // A rank of DualPipe has parts of either direction, and a micro-batch goes in one.
  const plan::Parallel& parallel = question.scenario.parallel;
  const std::int64_t directions = parallel.pipeline > 1 ? plan::directions_of(parallel.schedule) : 1;
  const auto stages = static_cast<double>(parallel.pipeline * directions);
  if (const cost::CalibratedTimes* times = question.calibrated()) return times->executed / stages;
  Work all;
  for (const plan::RankClass& one : classes) {
    for (std::size_t i = 0; i < one.chunk.count; ++i) all += one.chunk[i].forward_work + one.chunk[i].backward_work;
    if (stages == 1) break;  // other classes run the same layers
  }
  return all * (static_cast<double>(question.scenario.batch) / stages);
}

/// FLOPs of a pass of the model, as MFU counts them: of adapters' training what is asked for, so that a frozen weight
/// has no gradient.
Work model_work_of(const Question& question) {
  const Scenario& scenario = question.scenario;
  const workload::Model& model = question.plan ? *question.plan->model : *scenario.model;
  const double dropped = 1 - plan::expert_share(scenario.parallel);
  const Work unmade = dropped > 0 ? experts_work(scenario) * dropped : Work{};
  if (const auto adapted = adapted_layers(scenario)) {
    Work work;
    for (const workload::Layer& layer : *adapted) {
      work += layer.forward_work + layer.backward_work - workload::computed_again(layer);
    }
    return (work - unmade) * static_cast<double>(scenario.batch);
  }
  return workload::features_at(model, scenario.batch, scenario.precision).flops -
         (model.totals.computed_again + unmade) * static_cast<double>(scenario.batch);
}

answer::Split split_of(const Scenario& scenario, std::int64_t passes) {
  const plan::Parallel& parallel = scenario.parallel;
  return {
      .data = plan::replicas_of(scenario),
      .tensor = parallel.tensor,
      .context = parallel.context,
      .expert = parallel.expert,
      .expert_tensor = plan::has_whole_experts(parallel) ? 1 : parallel.tensor,
      .pipeline = parallel.pipeline,
      .virtual_stages = parallel.virtual_stages,
      .zero = parallel.zero,
      .schedule = std::string(name_of(plan::kPipelineSchedules, parallel.schedule)),
      .recompute = std::string(name_of(plan::kRecomputes, parallel.recompute)),
      .micro_batch = scenario.batch,
      .passes = passes,
      .states = parallel.states ? std::optional(std::string(name_of(plan::kStates, *parallel.states))) : std::nullopt,
      .offload_optimizer = parallel.offload_optimizer,
      .offload_weights = parallel.offload_weights,
      .offload_activations = parallel.offload_activations,
      .lora_rank = parallel.lora_rank,
      .lora_products = parallel.lora_rank > 0
                           ? std::optional(std::string(name_of(plan::kAdaptedProducts, parallel.lora_products)))
                           : std::nullopt,
      .frozen_bits = parallel.frozen_bits,
      .others = other_splits(scenario)};
}

/// One GPU's step by itself; what the same work takes on all of them is compared with it.
Expected<answer::Timeline> step_alone(const Question& question) {
  const Scenario& scenario = question.scenario;
  if (question.plan && question.plan->folds) {
    const auto step = cost::price_alone(scenario, *question.plan, *question.layers);
    if (!step) return tl::unexpected<Error>(step.error());
    return step::schedule(*step, answer::Detail::kTime);
  }
  Scenario alone = scenario;
  alone.cluster.nodes = 1;
  alone.cluster.gpus_per_node = 1;
  if (question.plan) {
    alone.fusion = plan::fusion_as_run(scenario);
    alone.parallel = whole(scenario.parallel);
    const auto asked = ask(alone);
    if (!asked) return tl::unexpected<Error>(asked.error());
    return lay_out(*asked, {}, answer::Detail::kTime).map([](Laid&& laid) { return std::move(laid.line); });
  }
  return lay_out({.scenario = alone, .fidelity = question.fidelity}, {}, answer::Detail::kTime).map([](Laid&& laid) {
    return std::move(laid.line);
  });
}

/// How many replicas share a set of experts: each has the experts of its GPUs, and works on rows of all.
std::int64_t replicas_with_experts(const Scenario& scenario) {
  if (scenario.parallel.expert == 1) return 1;
  const auto ranks = plan::expert_ranks(scenario.parallel, plan::replicas_of(scenario));
  return ranks ? ranks->data : 1;
}

/// One GPU that does what those of a replica do: where replicas share experts it has their part of them, and works on
/// as many rows of each; what it would wait for does not count.
Expected<Time> work_beside_experts(const Scenario& scenario, std::int64_t replicas) {
  Scenario alone = scenario;
  alone.fusion = plan::fusion_as_run(scenario);
  alone.parallel = whole(scenario.parallel);
  alone.parallel.expert = replicas;
  alone.parallel.expert_imbalance = 1;
  alone.cluster.nodes = replicas;
  alone.cluster.gpus_per_node = 1;
  alone.fidelity = Fidelity::kAnalytic;
  // Nothing that needs a simulation: nobody is beside it, or slower.
  const Scenario undisturbed;
  alone.straggler = undisturbed.straggler;
  alone.stragglers = undisturbed.stragglers;
  alone.jobs = undisturbed.jobs;
  alone.jobs_offset = undisturbed.jobs_offset;
  alone.leaf_uplink = undisturbed.leaf_uplink;
  alone.other_jobs.clear();
  const auto asked = ask(alone);
  if (!asked) return tl::unexpected<Error>(asked.error());
  return lay_out(*asked, {}, answer::Detail::kParts).map([](const Laid& laid) {
    const answer::Breakdown& parts = laid.line.parts;
    return parts.compute + parts.memory + parts.launch + parts.input_exposed - laid.line.update - laid.line.copying;
  });
}

/// What a step's work takes one GPU by itself, but for the update: each updates what it has, and that one GPU would
/// update all of a model is no loss that sharing it makes good.
Expected<Time> work_alone(const Question& question) {
  const std::int64_t replicas = question.plan ? replicas_with_experts(question.scenario) : 1;
  if (replicas > 1) return work_beside_experts(question.scenario, replicas);
  return step_alone(question).map([](const answer::Timeline& one) { return one.step - one.update; });
}

plan::Needed needed_without_plan(const Scenario& s) {
  return plan::needed_by(s, plan::memory_footprint(*s.model, s.strategy, s.cluster.gpus(), s.batch, s.precision));
}

void add_memory(const plan::Needed& needed, Prediction& prediction) {
  const plan::MemoryFootprint& footprint = needed.tensors;
  prediction.memory_per_gpu = footprint.total();
  prediction.memory_complete = footprint.complete;
  prediction.memory = {.weights = footprint.weights,
                       .gradients = footprint.gradients,
                       .gradients_later = footprint.gradients_later,
                       .master = footprint.master,
                       .optimizer_state = footprint.optimizer_state,
                       .weight_casts = footprint.weight_casts,
                       .activations = footprint.activations,
                       .loss = footprint.loss,
                       .working = footprint.working,
                       .buffers = footprint.buffers,
                       .context = needed.overhead.context,
                       .slack = needed.overhead.slack,
                       .tight = footprint.complete && needed.is_tight(),
                       .rank = needed.rank,
                       .micro_batches = footprint.micro_batches,
                       .capacity = needed.capacity,
                       .host = needed.host,
                       .host_capacity = needed.host_capacity};
  if (!needed.fits() || footprint.complete) prediction.fits = needed.fits();
}

/// A run that outlasts everybody is a slip of its length.
Expected<void> check_run(const answer::Training& run) {
  constexpr double kLongest = 10'000 * 365 * 86400.0;  // seconds
  if (run.time().in(seconds) <= kLongest) return {};
  return fail(
      ErrorCode::kInfeasible,
      fmt::format("the run would take {}, over ten thousand years: {} steps", to_text(run.time()), to_text(run.steps)),
      {}, {"--samples and --tokens are of one epoch, --steps are of the run"});
}

/// What a step of the epoch takes that fills the cache.
Expected<void> add_first_epoch(const Scenario& scenario, StepShape& shape) {
  const auto first = in_first_epoch(scenario);
  if (!first) return {};
  const auto asked = ask(*first);
  if (!asked) return tl::unexpected<Error>(asked.error());
  const auto laid = lay_out(*asked, {}, answer::Detail::kTime);
  if (!laid) return tl::unexpected<Error>(laid.error());
  shape.first_epoch_step = corrected_step(*asked, *laid);
  return {};
}

/// What is asked of a run beside its step, which `shape` is told of as well; nothing: its length is not stated.
Expected<std::optional<answer::Training>> lasting_run(const Scenario& scenario, StepShape& shape) {
  if (scenario.failures.stated()) {
    auto lasting = goodput(scenario);
    if (!lasting) return tl::unexpected<Error>(std::move(lasting.error()));
    shape.goodput = std::move(*lasting);
  }
  if (!asks_for_training(scenario)) return std::nullopt;
  if (auto slower = add_first_epoch(scenario, shape); !slower) return tl::unexpected<Error>(slower.error());
  answer::Training run = train(scenario, shape);
  if (auto sane = check_run(run); !sane) return tl::unexpected<Error>(sane.error());
  return run;
}

std::int64_t passes_in_step(const Question& question) {
  return question.fidelity == Fidelity::kAggregate ? 1 : question.scenario.strategy.accumulation.get();
}

}  // namespace

std::optional<answer::PowerPart> power_of(const Question& question, const Laid& laid) {
  const hardware::Gpu& gpu = question.scenario.cluster.node.gpu;
  if (!gpu.draw || !laid.step || laid.step->clocks.drawn <= Power::zero()) return std::nullopt;
  const cost::SustainedClocks& clocks = laid.step->clocks;
  return answer::PowerPart{
      .working = clocks.drawn, .idle = gpu.draw->idle, .limit = gpu.tdp, .slowdown = clocks.slowdown};
}

Expected<void> check_answer(const Question& question, Time laid_out, Time corrected) {
  if (auto sane = check_step(laid_out); !sane) return sane;
  const Scenario& scenario = question.scenario;
  if (!scenario.failures.stated() && !asks_for_training(scenario)) return {};
  StepShape shape{.step = corrected,
                  .global_batch = plan::replicas_of(scenario) * scenario.batch * passes_in_step(question),
                  .tokens_per_sample = tokens_of(*scenario.model)};
  return lasting_run(scenario, shape).map([](const auto&) {});
}

Expected<void> check_step(Time step) {
  constexpr double kShortest = 1e-12;  // seconds: what event time counts in
  constexpr double kLongest = 100 * 365 * 86400.0;
  const double count = step.in(seconds);
  if (!std::isfinite(count)) {
    return fail(ErrorCode::kInfeasible, "the step time is not a finite number: some rate is too small or too large");
  }
  if (count >= kShortest && count <= kLongest) return {};
  return fail(ErrorCode::kInfeasible,
              count < kShortest
                  ? "the step would take under a picosecond: some rate is too large"
                  : fmt::format("the step would take {}, over a hundred years: some rate is too small, or "
                                "some time too long",
                                to_text(step)));
}

Expected<plan::Needed> needed_by(const Scenario& scenario) {
  if (!scenario.model->has_layers()) return needed_without_plan(scenario);
  return StageTimes()
      .lowered(scenario, [](const plan::Job& cut) { return plan::lower(cut); })
      .map([&](const plan::StepPlan& plan) { return plan::needed_by(scenario, plan); });
}

// Winograd's transforms do with fewer products than the model has.
Time least_of_work(const Prediction& prediction) {
  return prediction.step_time * std::min(prediction.mfu, prediction.hfu);
}

namespace {

/// What the bytes of a step take at the network's full rate; nothing can be faster.
Time least_on_network(const Question& question, const std::vector<answer::LinkTraffic>& traffic) {
  const hardware::Cluster& cluster = question.scenario.cluster;
  for (const answer::LinkTraffic& one : traffic) {
    if (one.link == "network") return one.bytes / cluster.node.network_bandwidth();
  }
  return Time::zero();
}

/// What a step takes at the least: its bytes on the network, its samples from storage of stated rates, its work at the
/// GPU's peak.
Time least_step(const Question& question, const Prediction& prediction) {
  const auto passes = static_cast<double>(passes_in_step(question));
  const Time reading = question.plan ? cost::least_reading(question.scenario) * passes : Time::zero();
  return max(max(least_on_network(question, prediction.traffic), reading), least_of_work(prediction));
}

/// What job it is.
Prediction without_times(const Question& question) {
  const Scenario& scenario = question.scenario;
  const hardware::Cluster& cluster = scenario.cluster;
  Prediction prediction;
  prediction.fidelity = question.fidelity;
  prediction.architecture =
      name_of(workload::kArchitectures, plan::architecture_of(scenario.strategy, cluster.nodes, cluster.gpus()));
  prediction.gpus = cluster.gpus();
  prediction.batch_per_gpu = scenario.batch;
  prediction.sample = scenario.model->sample;
  if (const auto& links = cluster.node.nvlink) prediction.gpu_links = hardware::gpu_link_word(*links);
  prediction.optimizer = name_of(workload::kOptimizers, scenario.model->optimizer);
  prediction.model = scenario.model->name;
  prediction.precision = name_of(kPrecisions, scenario.precision);
  prediction.split = split_of(scenario, passes_in_step(question));
  prediction.tokens_per_sample = tokens_of(*scenario.model);
  return prediction;
}

/// Of a prediction whose step is known.
void add_use_of_gpus(const Question& question, Prediction& prediction) {
  const Scenario& scenario = question.scenario;
  const auto passes = static_cast<double>(passes_in_step(question));
  const ComputeRate peak = *scenario.cluster.node.gpu.peak.at(scenario.precision);
  const Work work = model_work_of(question);
  prediction.model_work = work * (passes * static_cast<double>(prediction.split.data));
  prediction.mfu = prediction.rate_per_gpu() / peak;
  const Work executed = executed_per_gpu(question, work) / busier_than_most(question, work);
  prediction.hfu = executed * passes / prediction.step_time / peak;
}

/// The whole training, where the scenario says how long it is, with its failures and its price.
Expected<void> add_run(const Scenario& scenario, Prediction& prediction) {
  StepShape shape{.step = prediction.step_time,
                  .kernels = prediction.breakdown.compute + prediction.breakdown.memory,
                  .global_batch = prediction.split.global_batch(),
                  .tokens_per_sample = prediction.tokens_per_sample,
                  .power = prediction.power};
  auto run = lasting_run(scenario, shape);
  if (!run) return tl::unexpected<Error>(std::move(run.error()));
  prediction.training = *run;
  prediction.goodput = std::move(shape.goodput);
  prediction.price = price_of_cluster(scenario, prediction.goodput);
  if (prediction.training) {
    if (shape.first_epoch_step && *shape.first_epoch_step > shape.step) {
      prediction.notes.push_back(fmt::format(
          "input: the first epoch reads from storage: {} a step, {} of {} steps{}", to_text(*shape.first_epoch_step),
          to_text(first_epoch_steps(scenario, shape)), to_text(prediction.training->steps),
          fills_over_epochs(scenario) ? "; later ones what their server has not read yet" : ""));
    }
    const Time wall = prediction.training->time() - prediction.training->startup;
    if (prediction.goodput) prediction.goodput->of_run = wall * prediction.goodput->failures;
  }
  return {};
}

}  // namespace

Expected<Prediction> prediction_of(const Question& question) {
  const Scenario& scenario = question.scenario;
  auto laid = lay_out(question, {}, answer::Detail::kParts);
  if (!laid) return tl::unexpected<Error>(std::move(laid.error()));
  answer::Timeline& line = laid->line;
  if (auto sane = check_step(line.step); !sane) return tl::unexpected<Error>(sane.error());
  Prediction prediction = without_times(question);
  prediction.step_time = line.step;
  prediction.breakdown = line.parts;
  const auto replicas = static_cast<double>(prediction.split.data);
  prediction.throughput_samples_per_second =
      replicas * static_cast<double>(scenario.batch * passes_in_step(question)) / line.step.in(seconds);
  if (prediction.gpus > 1) {
    const double replicas_per_gpu = replicas / static_cast<double>(prediction.gpus);
    if (const auto work = work_alone(question)) {
      prediction.scaling_efficiency = (*work + line.update) / line.step * replicas_per_gpu;
    }
  }
  const auto measured = scenario.own_runs ? std::optional(correction_of(question, *laid)) : std::nullopt;
  const Bottleneck bottleneck = bottleneck_of(question, *laid, measured ? &*measured : nullptr);
  prediction.bottleneck = bottleneck.name;
  prediction.interval_90 = interval_of(question, line);
  const std::pair<Time, Time> unmeasured =
      scenario.own_runs ? interval_without_runs(question, line) : std::pair(line.step, line.step);
  prediction.provenance = provenance_of(question);
  prediction.traffic = std::move(laid->traffic);
  prediction.critical_path = std::move(line.critical_path);
  prediction.bounds = line.bounds;
  add_use_of_gpus(question, prediction);
  const plan::Needed needed = question.plan ? plan::needed_by(scenario, *question.plan) : needed_without_plan(scenario);
  add_memory(needed, prediction);
  if (measured) correct(question, line, *measured, bottleneck.gain, unmeasured, prediction);
  prediction.input = input_part(question, prediction);
  prediction.interval_90.first =
      max(prediction.interval_90.first, min(least_step(question, prediction), prediction.step_time));
  if (scenario.own_runs) add_correction_notes(question, line.step, prediction);
  prediction.power = power_of(question, *laid);
  if (auto run = add_run(scenario, prediction); !run) return tl::unexpected<Error>(std::move(run.error()));
  add_notes(question, needed, prediction);
  return prediction;
}

}  // namespace ddlsim::whatif
