// What holds between plans, schedules and simulations, on random jobs of the catalog.
#include <fmt/core.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "catalog.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/order.h"
#include "property/random_scenario.h"
#include "unit/step/setting.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::log_uniform;
using ddlsim::test::model;

namespace {

plan::Job random_job() {
  plan::Job job;
  job.model = model(*rc::gen::element<std::string>("resnet50", "gpt2", "bert_large"));
  job.cluster.node = catalog().node(*rc::gen::element<std::string>("dgx1-v100", "dgx-a100")).value();
  job.cluster.nodes = *rc::gen::element<std::int64_t>(1, 2, 4);
  job.cluster.gpus_per_node = *rc::gen::element<std::int64_t>(1, 2, 4, 8);
  job.cluster.node.network.bandwidth = gigabits_per_second(25) * log_uniform();
  job.cluster.node.gpu.peak.fp32 = job.cluster.node.gpu.peak.fp32 * log_uniform();
  job.batch = *rc::gen::inRange<std::int64_t>(1, 100);
  job.launch_interval = microseconds(6) * log_uniform();
  job.strategy.accumulation = *rc::gen::element<std::int64_t>(1, 1, 2, 5);
  job.overlap = *rc::gen::element(plan::Overlap::kNone, plan::Overlap::kBackward);
  return job;
}

plan::Job random_folded_job() {
  plan::Job job = random_job();
  plan::Strategy& strategy = job.strategy;
  strategy.partition = megabytes(4) * std::exp(*rc::gen::inRange(0, 3000) / 1000.0);
  if (*rc::gen::arbitrary<bool>()) {
    strategy.kind = plan::StrategyKind::kPs;
    strategy.servers = *rc::gen::element<std::int64_t>(0, 1, 3);
    strategy.pull_at_start = *rc::gen::arbitrary<bool>();
    strategy.local_aggregation = *rc::gen::arbitrary<bool>();
    strategy.placement =
        *rc::gen::element(plan::Placement::kEven, plan::Placement::kRoundRobin, plan::Placement::kGreedy);
    strategy.grouping =
        *rc::gen::element(plan::Grouping::kPerTensor, plan::Grouping::kFlat, plan::Grouping::kPartitions);
  } else {
    strategy.grouping = *rc::gen::element(plan::Grouping::kBuckets, plan::Grouping::kPerTensor, plan::Grouping::kFlat,
                                          plan::Grouping::kPartitions);
    strategy.bucket = mebibytes(25) * log_uniform();
    strategy.compression =
        *rc::gen::element(plan::Compression::kNone, plan::Compression::kTopK, plan::Compression::kPowerSgd);
  }
  return job;
}

plan::Job random_split_job() {
  plan::Job job = random_job();
  job.parallel.tensor = *rc::gen::element<std::int64_t>(1, 1, 2, 4);
  job.parallel.pipeline = *rc::gen::element<std::int64_t>(1, 1, 2, 4);
  job.parallel.schedule = *rc::gen::element(
      plan::PipelineSchedule::kGpipe, plan::PipelineSchedule::kOneForwardOneBackward, plan::PipelineSchedule::kNone,
      plan::PipelineSchedule::kInterleaved, plan::PipelineSchedule::kZeroBubbleH1, plan::PipelineSchedule::kDualPipe);
  if (job.parallel.schedule == plan::PipelineSchedule::kInterleaved) job.parallel.virtual_stages = 2;
  job.strategy.accumulation = *rc::gen::element<std::int64_t>(1, 2, 4, 5, 8, 16, 64, 100);
  job.parallel.zero = *rc::gen::element(0, 1, 2, 3);
  job.parallel.prefetch = *rc::gen::element<std::int64_t>(0, 1, 2, 100);
  job.parallel.offload_optimizer = *rc::gen::arbitrary<bool>();
  job.parallel.offload_weights =
      job.parallel.zero == 3 && job.parallel.offload_optimizer && *rc::gen::arbitrary<bool>();
  job.parallel.context = *rc::gen::element<std::int64_t>(1, 1, 1, 2);
  job.parallel.sequence = *rc::gen::arbitrary<bool>();
  job.parallel.recompute = *rc::gen::element(plan::Recompute::kNone, plan::Recompute::kSelective,
                                             plan::Recompute::kFull, plan::Recompute::kStage);
  job.parallel.reshard = *rc::gen::arbitrary<bool>();
  job.parallel.overlap_gather = *rc::gen::arbitrary<bool>();
  job.parallel.offload_activations = *rc::gen::element(false, false, true);
  job.parallel.lora_rank = *rc::gen::element<std::int64_t>(0, 0, 0, 8);
  job.parallel.shard_ranks = job.parallel.zero > 0 ? *rc::gen::element<std::int64_t>(0, 0, 2) : 0;
  job.parallel.order = *rc::gen::element(
      plan::kMegatronOrder, plan::AxisOrder{plan::Axis::kTensor, plan::Axis::kPipeline, plan::Axis::kContext,
                                            plan::Axis::kExpert, plan::Axis::kData});
  return job;
}

std::string words(const plan::Job& job) {
  return fmt::format("{} batch {} on {} x {} {}, tensor {} pipeline {} zero {} offload {}, {} passes, {} {} overlap {}",
                     job.model->id, job.batch, job.cluster.nodes, job.cluster.gpus_per_node, job.cluster.node.id,
                     job.parallel.tensor, job.parallel.pipeline, job.parallel.zero, job.parallel.offload_optimizer,
                     job.strategy.accumulation.get(), plan::word_for(job.strategy),
                     name_of(plan::kGroupings, plan::grouping_of(job.strategy)),
                     name_of(plan::kOverlaps, *job.overlap));
}

cost::PricedStep priced(const plan::Job& job, const std::shared_ptr<const plan::StepPlan>& plan) {
  const cost::LayerPrices prices = cost::price_layers(job, *plan, {1, 1}).value();
  return cost::price(job, plan, prices).value();
}

/// To 1e-9, or a picosecond for every message.
bool same(Time a, Time b, std::size_t messages) {
  return std::abs((a - b).in(seconds)) <= std::max(1e-9 * b.in(seconds), 1e-12 * static_cast<double>(messages + 1));
}

/// Whether the step is known where it is not too long, and known to be too long else.
void check_step_time(const cost::PricedStep& step, Time whole) {
  const Time enough = whole * *rc::gen::element(0.3, 0.9, 0.999, 1.0, 1.001, 2.0);
  const Time known = step::step_time(step, enough).value();
  RC_LOG(fmt::format("enough {} of {}: {}", enough.in(seconds), whole.in(seconds), known.in(seconds)));
  RC_ASSERT((whole > enough ? known > enough : known == whole));
}

}  // namespace

TEST_CASE("law: a simulated plan takes as long as its schedule, whatever GPUs it has", "[property]") {
  CHECK(rc::check("kinds", [] {
    plan::Job job = random_folded_job();
    job.straggler = *rc::gen::element(1.0, 1.3, 4.0);
    job.stragglers = *rc::gen::inRange<std::int64_t>(1, job.cluster.gpus() + 1);
    RC_LOG(words(job) + fmt::format(", {} GPUs x {}", job.stragglers.get(), job.straggler.get()));
    cost::PricedStep kinds = priced(job, std::make_shared<const plan::StepPlan>(plan::lower(job).value()));
    // What collectives take from kernels is counted for alike GPUs alone.
    kinds.sm_share = 0;
    kinds.memory_per_wire_byte = Time::zero();
    plan::StepPlan alike = *kinds.plan;
    alike.classes.resize(1);
    alike.classes.front().slowness = 1;
    cost::PricedStep nominal = kinds;
    nominal.plan = std::make_shared<const plan::StepPlan>(alike);
    const answer::Timeline alone = step::schedule(nominal, answer::Detail::kWork).value();
    const std::vector<events::SimulatedJob> one{{.step = &kinds, .alone = &alone}};
    const Time by_events = events::simulate(one).value().step;
    const Time by_recurrence = step::schedule(kinds).value().step;
    RC_LOG(fmt::format("{} {}", by_events.in(seconds), by_recurrence.in(seconds)));
    RC_ASSERT(same(by_events, by_recurrence, kinds.rows.size()));
  }));
}

TEST_CASE("law: a split plan by events takes as long as by recurrence where nothing is shared", "[property]") {
  CHECK(rc::check("splits", [] {
    const plan::Job job = random_split_job();
    RC_LOG(words(job));
    const auto lowered = plan::lower(job);
    RC_CLASSIFY(!lowered);
    if (!lowered || lowered->folds) return;
    cost::PricedStep step = priced(job, std::make_shared<const plan::StepPlan>(*lowered));
    // Groups that share links are bounded by them; here every group has links of its own.
    for (cost::PricedRow& row : step.rows) row.network = row.peers = Time::zero();
    const answer::Timeline alone = step::schedule(step, answer::Detail::kWork).value();
    const std::vector<events::SimulatedJob> one{{.step = &step, .alone = &alone}};
    const Time by_events = events::simulate(one).value().step;
    RC_LOG(fmt::format("{} {}", by_events.in(seconds), alone.step.in(seconds)));
    RC_ASSERT(same(by_events, alone.step, step.rows.size() * static_cast<std::size_t>(lowered->micro_batches)));
  }));
}

TEST_CASE("law: ranks that end a step by themselves take no longer by events than by recurrence", "[property]") {
  CHECK(rc::check("by themselves", [] {
    plan::Job job = random_split_job();
    job.parallel.virtual_stages = 1;
    job.parallel.pipeline = *rc::gen::element<std::int64_t>(2, 4);
    job.parallel.schedule =
        *rc::gen::element(plan::PipelineSchedule::kZeroBubbleH2, plan::PipelineSchedule::kZeroBubbleV);
    RC_LOG(words(job));
    const auto lowered = plan::lower(job);
    RC_CLASSIFY(!lowered);
    if (!lowered) return;
    cost::PricedStep step = priced(job, std::make_shared<const plan::StepPlan>(*lowered));
    for (cost::PricedRow& row : step.rows) row.network = row.peers = Time::zero();
    const answer::Timeline alone = step::schedule(step, answer::Detail::kWork).value();
    const std::vector<events::SimulatedJob> one{{.step = &step, .alone = &alone}};
    const Time by_events = events::simulate(one).value().step;
    RC_LOG(fmt::format("{} {}", by_events.in(seconds), alone.step.in(seconds)));
    const std::size_t messages = step.rows.size() * static_cast<std::size_t>(lowered->micro_batches);
    RC_ASSERT(by_events <= alone.step || same(by_events, alone.step, messages));
    check_step_time(step, alone.step);
  }));
}

namespace {

/// Whether two transfers were on one link at once.
bool met(const events::EventStep& run) {
  std::map<std::uint32_t, std::vector<events::TaskTimes>> by_link;
  for (std::uint32_t i = 0; i < run.program.tasks(); ++i) {
    const events::TaskTimes times = run.run[events::TaskId{i}];
    if (times.start == times.end) continue;
    for (const events::Hop& hop : run.program.hops(events::TaskId{i}))
      by_link[events::index_of(hop.link)].push_back(times);
  }
  for (auto& [link, times] : by_link) {
    std::sort(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    events::Picoseconds busy_until{};
    for (const events::TaskTimes& one : times) {
      if (one.start < busy_until) return true;
      busy_until = std::max(busy_until, one.end);
    }
  }
  return false;
}

}  // namespace

TEST_CASE("law: on the links of its servers a split plan is never faster, and as fast where nothing meets",
          "[property]") {
  CHECK(rc::check("splits on links", [] {
    plan::Job job = random_split_job();
    job.cluster.node =
        catalog()
            .node(*rc::gen::element<std::string>("dgx1-v100", "dgx-a100", "pcie-4x2080ti", "piz-daint-xc50"))
            .value();
    job.cluster.gpus_per_node = std::min(job.cluster.gpus_per_node, job.cluster.node.gpus);
    job.cluster.node.pcie.bandwidth = job.cluster.node.pcie.bandwidth * log_uniform();
    RC_LOG(words(job));
    const auto lowered = plan::lower(job);
    RC_CLASSIFY(!lowered);
    if (!lowered || lowered->folds) return;
    const cost::PricedStep step = priced(job, std::make_shared<const plan::StepPlan>(*lowered));
    const answer::Timeline alone = step::schedule(step, answer::Detail::kWork).value();
    const std::vector<events::SimulatedJob> one{{.step = &step, .alone = &alone, .cluster = &job.cluster}};
    const events::EventStep run = events::simulate(one).value();
    const std::size_t messages = 2 * step.rows.size() * static_cast<std::size_t>(lowered->micro_batches);
    RC_LOG(fmt::format("{} {}", run.step.in(seconds), alone.step.in(seconds)));
    const bool shared = met(run);
    RC_CLASSIFY(shared, "shared");
    if (!shared) RC_ASSERT(same(run.step, alone.step, messages));
    // A transfer that is held back may let another one of its class through earlier, but FIFO keeps their order. Where
    // the recurrence has messages queue at a port, fair shares may be the faster.
    cost::PricedStep unqueued = step;
    for (cost::PricedRow& row : unqueued.rows) row.network = Time::zero();
    const answer::Timeline free = step::schedule(unqueued).value();
    RC_ASSERT(free.step <= alone.step * (1 + 1e-9));
    const Time least = free.step - free.contention;
    RC_ASSERT(run.step >= least * (1 - 1e-9) - seconds(1e-12) * static_cast<double>(messages));
  }));
}

TEST_CASE("law: equal stages and free sends take (m + p - 1)(F + B)", "[property]") {
  CHECK(rc::check("pipelines", [] {
    const auto stages = *rc::gen::inRange<std::int64_t>(2, 17);
    const auto micro_batches = *rc::gen::inRange<std::int64_t>(1, 40);
    const auto layers = *rc::gen::inRange<std::int64_t>(1, 4);
    const Time forward = milliseconds(1) * log_uniform();
    const Time backward = milliseconds(1) * log_uniform();
    auto whole = std::make_shared<workload::Model>();
    whole->layers.resize(static_cast<std::size_t>(stages * layers));
    plan::Job job;
    job.model = whole;
    job.cluster.gpus_per_node = job.cluster.node.gpus = stages;
    job.parallel.pipeline = stages;
    job.strategy.accumulation = micro_batches;
    job.parallel.schedule =
        *rc::gen::element(plan::PipelineSchedule::kGpipe, plan::PipelineSchedule::kOneForwardOneBackward);
    const auto free = [](const plan::Row&) { return Time::zero(); };
    const auto line = step::schedule(test::by_hand(plan::lower(job).value(), forward, backward, free)).value();
    const double stage = (forward + backward).in(seconds) * static_cast<double>(layers);
    const double expected = static_cast<double>(micro_batches + stages - 1) * stage;
    RC_ASSERT(std::abs(line.step.in(seconds)-expected) <= 1e-12 * expected);
    RC_ASSERT(std::abs(line.parts.bubble.in(seconds) - static_cast<double>(stages - 1) * stage) <= 1e-12 * expected);
  }));
}

TEST_CASE("law: no schedule is below its bound, and its parts are the whole", "[property]") {
  CHECK(rc::check("schedules", [] {
    using enum plan::PipelineSchedule;
    const auto stages = 2 * *rc::gen::inRange<std::int64_t>(1, 5);
    plan::Job job;
    job.parallel.pipeline = stages;
    job.parallel.schedule = *rc::gen::element(kNone, kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubbleH1,
                                              kZeroBubbleH2, kZeroBubbleV, kDualPipe, kPipeDream, kPipeDream2Bw);
    const bool interleaved = job.parallel.schedule == kInterleaved;
    if (interleaved) job.parallel.virtual_stages = *rc::gen::inRange<std::int64_t>(2, 4);
    job.parallel.overlap_p2p = *rc::gen::arbitrary<bool>();
    job.strategy.accumulation = stages * *rc::gen::inRange<std::int64_t>(2, 5);
    const bool few = job.parallel.schedule == kZeroBubbleV && *rc::gen::arbitrary<bool>();
    if (few) job.strategy.accumulation = *rc::gen::inRange<std::int64_t>(1, 4);
    auto whole = std::make_shared<workload::Model>();
    whole->layers.resize(static_cast<std::size_t>(stages * 4));
    job.model = whole;
    job.cluster.gpus_per_node = job.cluster.node.gpus = stages;
    const Time sends = milliseconds(*rc::gen::inRange(0, 3));
    const auto once = [&](const plan::Row&) { return sends; };
    cost::PricedStep step = test::by_hand(plan::lower(job).value(), milliseconds(1), milliseconds(2), once);
    const plan::Pipeline pipeline = plan::pipeline_of(*step.plan);
    RC_LOG(fmt::format("{} p {} m {} v {}", name_of(plan::kPipelineSchedules, pipeline.schedule), stages,
                       pipeline.micro_batches, pipeline.virtual_stages));
    // Every layer another time; both copies of a stage of DualPipe the same.
    const auto milli = [] { return milliseconds(1) * log_uniform(); };
    std::vector<std::array<Time, 3>> of_layer(whole->layers.size());
    for (auto& times : of_layer) times = {milli(), milli(), milli()};
    std::vector<plan::PartTime> parts(plan::positions_of(pipeline));
    for (std::size_t c = 0; c < step.classes.size(); ++c) {
      cost::PricedClass& priced = step.classes[c];
      const plan::RankClass& one = step.plan->classes[c];
      std::vector<cost::PricedLayer> passes[4];
      for (std::vector<cost::PricedLayer>& pass : passes) pass.resize(one.chunk.count);
      priced.compute = Time::zero();
      for (const plan::Part& part : one.parts) {
        plan::PartTime& time = parts[part.position] = {};
        for (std::size_t i = 0; i < part.count; ++i) {
          const auto& [forward, input, weights] = of_layer[part.layer + i];
          const std::size_t at = part.first + i;
          const std::size_t back = one.chunk.count - 1 - at;
          passes[0][at] = cost::PricedLayer::of(forward, 1);
          passes[1][back] = cost::PricedLayer::of(input + weights, 1);
          passes[2][back] = cost::PricedLayer::of(input, 1);
          passes[3][back] = cost::PricedLayer::of(weights, 1);
          priced.compute += forward + input + weights;
          time.forward += forward;
          time.backward += input + weights;
          time.weights += weights;
        }
      }
      priced.forward = std::move(passes[0]);
      priced.backward = std::move(passes[1]);
      priced.backward_input = std::move(passes[2]);
      priced.backward_weights = std::move(passes[3]);
    }
    const answer::Timeline line = step::schedule(step).value();
    RC_ASSERT(plan::least_step(pipeline, parts) <= line.step * (1 + 1e-9));
    RC_ASSERT(std::abs((line.parts.step() - line.step).in(seconds)) <= 1e-9 * line.step.in(seconds));
    RC_ASSERT(line.parts.bubble >= Time::zero());
    check_step_time(step, line.step);
    // Slower sends never make it shorter (but where ranks end by themselves: they start later too), and all of
    // everybody in turn is longer.
    cost::PricedStep slower = step;
    for (cost::PricedRow& row : slower.rows) row.once = row.once * 2.0;
    const bool by_itself = pipeline.schedule == kZeroBubbleH2 || pipeline.schedule == kZeroBubbleV;
    RC_ASSERT(by_itself || step::schedule(slower).value().step >= line.step * (1 - 1e-12));
    Time serial;
    for (const plan::PartTime& part : parts) serial += part.forward + part.backward;
    serial += sends * static_cast<double>(step.rows.size());
    RC_ASSERT(line.step <= serial * (static_cast<double>(pipeline.micro_batches) * (1 + 1e-9)));
  }));
}

TEST_CASE("law: of a split step the parts are the whole, between its own work and all in turn", "[property]") {
  CHECK(rc::check("splits", [] {
    const plan::Job job = random_split_job();
    RC_LOG(words(job));
    const auto lowered = plan::lower(job);
    RC_CLASSIFY(!lowered);
    if (!lowered) {
      const ErrorCode code = lowered.error().code;
      RC_ASSERT(code == ErrorCode::kInvalidArgument || code == ErrorCode::kUnsupported);
      return;
    }
    const auto plan = std::make_shared<const plan::StepPlan>(*lowered);
    const cost::PricedStep step = priced(job, plan);
    const answer::Timeline line = step::schedule(step).value();
    const double whole = line.step.in(seconds);
    check_step_time(step, line.step);
    RC_ASSERT(std::abs(line.parts.step().in(seconds)-whole) <= 1e-9 * whole);
    double path = 0;
    for (const answer::Segment& segment : line.critical_path) {
      RC_ASSERT(segment.time >= Time::zero());
      path += segment.time.in(seconds);
    }
    RC_ASSERT(std::abs(path - whole) <= 1e-9 * whole);
    RC_ASSERT(line.parts.communication_exposed <= line.parts.communication * (1 + 1e-9));
    // A class cannot be faster than its kernels, nor the step slower than everything of everybody in turn.
    const auto passes = static_cast<double>(plan::passes_of(plan::pipeline_of(*plan)));
    double serial = (line.waiting + line.parts.launch * static_cast<double>(plan->classes.size()) + step.input * passes)
                        .in(seconds);
    double kernels = 0;
    for (const cost::PricedClass& one : step.classes) {
      RC_ASSERT(whole >= ((one.compute + one.memory) * passes).in(seconds) * (1 - 1e-9));
      for (const auto* pass : {&one.forward, &one.backward}) {
        for (const cost::PricedLayer& layer : *pass) kernels += layer.kernels;
      }
      serial += ((one.compute + one.memory) * passes + one.update).in(seconds);
    }
    serial += kernels * passes * step.launch_interval.in(seconds);
    for (std::size_t r = 0; r < step.rows.size(); ++r) {
      const double times = static_cast<double>(plan->rows[r].count) * (plan->rows[r].every_pass ? passes : 1.0);
      serial += step.rows[r].once.in(seconds)*times + step.rows[r].encoding.in(seconds)*times;
    }
    RC_ASSERT(whole <= serial * (1 + 1e-9));
  }));
}

TEST_CASE("law: stages and shards hold what the whole model holds", "[property]") {
  CHECK(rc::check("memory", [] {
    plan::Job job = random_job();
    job.parallel.pipeline = *rc::gen::element<std::int64_t>(2, 4);
    job.parallel.zero = *rc::gen::element(0, 1, 2, 3);
    if (job.cluster.gpus() % job.parallel.pipeline != 0) return;
    RC_LOG(words(job));
    const plan::StepPlan plan = plan::lower(job).value();
    double parameters = 0;
    for (const workload::Layer& layer : job.model->layers) {
      for (const std::int64_t tensor : layer.parameters) parameters += static_cast<double>(tensor);
      // A tied head is another stage's than its table: it has a copy.
      const auto* linear = std::get_if<workload::Linear>(&*layer.op);
      if (linear != nullptr && linear->tied) parameters += static_cast<double>(layer.in.back() * linear->out);
    }
    const auto data_ranks = static_cast<double>(plan.groups.front().ranks);
    double weights = 0;
    double states = 0;
    std::size_t layers = 0;
    for (const plan::RankClass& stage : plan.classes) {
      RC_ASSERT(stage.chunk.first == layers);
      layers += stage.chunk.count;
      weights += stage.memory.weights.in(bytes);
      states += stage.memory.optimizer_state.in(bytes);
    }
    RC_ASSERT(layers == job.model->layers.size());
    const double whole = 4 * parameters;
    RC_ASSERT(std::abs(weights * (job.parallel.zero == 3 ? data_ranks : 1) - whole) <= 1e-9 * whole);
    const double all_states = whole * workload::state_values(job.model->optimizer);
    RC_ASSERT(std::abs(states * (job.parallel.zero >= 1 ? data_ranks : 1) - all_states) <= 1e-9 * whole);
  }));
}
