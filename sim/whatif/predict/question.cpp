#include "predict/question.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include "ddlsim/cost/totals.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/step/local_sgd.h"
#include "ddlsim/step/phases.h"
#include "ddlsim/step/schedule.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/predict.h"
#include "predict/stage_times.h"
#include "scenario/sound.h"

namespace ddlsim::whatif {
namespace {

using answer::Detail;
using answer::Fidelity;

/// What the event fidelity alone can answer, and somebody asked for; empty: nothing.
std::string event_settings(const Scenario& scenario) {
  std::string asked;
  const auto add = [&](bool said, std::string_view path) {
    if (said) asked += (asked.empty() ? "" : ", ") + std::string(path);
  };
  add(scenario.jobs.stated() || scenario.jobs > 1, "jobs");
  add(scenario.jobs_offset.stated(), "jobs.offset");
  add(!scenario.other_jobs.empty(), "other_jobs");
  add(scenario.leaf_uplink.stated(), "network.uplink");
  add(scenario.straggler.stated() || scenario.straggler > 1, "straggler");
  add(scenario.stragglers.stated(), "straggler.gpus");
  return asked;
}

Expected<Fidelity> fidelity_of(const Scenario& scenario) {
  const bool layers = scenario.model->has_layers();
  const std::string events = event_settings(scenario);
  const Fidelity simplest = layers ? Fidelity::kAnalytic : Fidelity::kAggregate;
  const Fidelity fidelity = scenario.fidelity.value_or(events.empty() ? simplest : Fidelity::kEvent);
  const auto name = name_of(answer::kFidelities, fidelity);
  const auto unsupported = [](std::string what, std::string note) {
    return fail(ErrorCode::kUnsupported, std::move(what), {}, {std::move(note)});
  };
  if (fidelity != Fidelity::kEvent && !events.empty()) {
    return unsupported(fmt::format("the {} fidelity knows nothing of {}", name, events),
                       "leave the fidelity out, or use fidelity event");
  }
  if (fidelity != Fidelity::kAggregate && !layers) {
    return unsupported(fmt::format("{} is known by the features of a whole step; the {} fidelity needs its layers",
                                   scenario.model->id, name),
                       "use fidelity aggregate");
  }
  if (fidelity == Fidelity::kAggregate && scenario.model->measured) {
    return unsupported(
        fmt::format("{} is known by measured times; the {} fidelity needs FLOPs and bytes", scenario.model->id, name),
        "use fidelity analytic");
  }
  if (fidelity == Fidelity::kEvent && scenario.straggler > 1 && scenario.stragglers > scenario.cluster.gpus()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("straggler.gpus: {} slow GPUs in a job of {}", to_text(scenario.stragglers),
                            to_text(scenario.cluster.gpus())),
                {}, {"valid: at most as many as the job has"});
  }
  if (fidelity == Fidelity::kAggregate && plan::splits_model(scenario.parallel)) {
    return unsupported(
        "the aggregate fidelity has no layers to split",
        layers ? "leave parallel.* out, or use fidelity analytic"
               : fmt::format("leave parallel.* out: {} is known by the features of a whole step", scenario.model->id));
  }
  if (fidelity == Fidelity::kAggregate && scenario.input.dataset) {
    return unsupported("the aggregate fidelity knows nothing of the loader", "leave the data set out, or use layers");
  }
  if (fidelity == Fidelity::kAggregate && scenario.overlap == plan::Overlap::kBackward) {
    return unsupported("the aggregate fidelity has no layers to overlap", "use overlap none or ideal");
  }
  return fidelity;
}

/// A trace that says nothing of gradients would scale perfectly: nobody knows what replicas send.
Expected<void> check_gradients(const Scenario& scenario) {
  const workload::Model& model = *scenario.model;
  if (!model.measured || model.parameters() > 0 || plan::replicas_of(scenario) == 1) return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("{} is a trace without gradients: what {} replicas send each other is unknown", model.id,
                          to_text(plan::replicas_of(scenario))),
              {},
              {"trace one rank of a job of several GPUs, or with profile(record_shapes=True), and import it again",
               "or ask about one GPU: --nodes 1 --gpus-per-node 1"});
}

/// No framework trains most of these layers in fp8 or fp4, so that a rate of it would be a promise nobody keeps.
Expected<void> check_cast(const Scenario& scenario) {
  const workload::Model& model = *scenario.model;
  if (!is_cast(scenario.precision) || !scenario.cluster.node.gpu.peak.at(scenario.precision) || model.measured) {
    return {};
  }
  const double share = share_without_cast(model);
  if (share <= 0.5) return {};
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("{0}: {1:.0f} % of the FLOPs of {2} are convolutions and recurrences, which have no {0} kernels",
                  name_of(kPrecisions, scenario.precision), 100 * share, model.id),
      {},
      {fmt::format("frameworks train linear layers in {} (Transformer Engine); use bf16 or fp16",
                   name_of(kPrecisions, scenario.precision))});
}

Expected<void> check_attention(const Scenario& scenario) {
  const primitives::AttentionKernel kernel = scenario.software_attention;
  if (kernel != primitives::AttentionKernel::kBest && !scenario.cluster.node.gpu.peak.bf16) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("software.attention: {} has no {}", scenario.cluster.node.gpu.name,
                            name_of(primitives::kAttentionKernels, kernel)),
                {}, {"leave it out, or --set fusion=none"});
  }
  return {};
}

/// The plan as if all GPUs were nominal.
std::shared_ptr<const plan::StepPlan> nominal(const plan::StepPlan& kinds) {
  auto plan = std::make_shared<plan::StepPlan>(kinds);
  std::int64_t ranks = 0;
  for (const plan::RankClass& kind : kinds.classes) ranks += kind.ranks;
  plan->classes.resize(1);
  plan->classes.front().ranks = ranks;
  plan->classes.front().slowness = 1;
  return plan;
}

/// The jobs that are simulated, with what they hold on to.
struct Simulated {
  struct Other {
    cost::PricedStep step;
    answer::Timeline alone;
  };
  std::deque<Other> others;
  std::vector<events::SimulatedJob> jobs;
  events::EventOptions options;
};

/// Jobs that share servers agree on whether links inside them are shared: where one's transfers meet inside them.
void share_servers(const Question& question, Simulated& all) {
  const bool inside = std::any_of(all.jobs.begin(), all.jobs.end(), [](const events::SimulatedJob& job) {
    return job.servers == 0 && !job.step->plan->folds;
  });
  std::int64_t first = 0;
  for (std::size_t i = 0; i < all.jobs.size(); ++i) {
    events::SimulatedJob& job = all.jobs[i];
    if (job.servers != 0 || !inside) continue;
    job.cluster = &question.scenario.cluster;
    const std::size_t alike = all.jobs.size() - question.scenario.other_jobs.size();
    if (i < alike) continue;
    if (i == alike) first = question.scenario.cluster.gpus_per_node;
    job.first_gpu = first;
    first += question.scenario.other_jobs[i - alike].job->cluster.gpus_per_node;
  }
}

/// The jobs of a scenario: alike ones, each so much later than the one before, and those beside them.
Expected<Simulated> jobs_of(const Question& question, const cost::PricedStep& step, const answer::Timeline& alone,
                            std::int64_t jobs, bool with_others = true) {
  const Scenario& scenario = question.scenario;
  Simulated all;
  all.options.uplink = scenario.leaf_uplink.get();
  for (std::int64_t i = 0; i < jobs; ++i) {
    all.jobs.push_back({.step = &step, .alone = &alone, .offset = scenario.jobs_offset * static_cast<double>(i)});
  }
  for (std::size_t i = 0; with_others && i < scenario.other_jobs.size(); ++i) {
    const OtherJob& other = scenario.other_jobs[i];
    const auto in_job = [&](Error error) {
      error.notes.push_back(fmt::format("in other_jobs, number {}", i));
      return tl::unexpected<Error>(std::move(error));
    };
    if (other.job == nullptr) return in_job({ErrorCode::kInvalidArgument, "there is no job", {}, {}, {}});
    const auto asked = ask(*other.job);
    if (!asked) return in_job(asked.error());
    if (!asked->plan) return in_job({ErrorCode::kUnsupported, "a job without layers is not simulated", {}, {}, {}});
    if (asked->plan->exchange.sync_every > 1) {
      return in_job({ErrorCode::kUnsupported, "local SGD beside other jobs is not simulated", {}, {}, {}});
    }
    auto priced = cost::price(*other.job, asked->plan, *asked->layers);
    if (!priced) return in_job(priced.error());
    auto line = step::schedule(*priced, Detail::kWork);
    if (!line) return in_job(line.error());
    const Simulated::Other& kept = all.others.emplace_back(Simulated::Other{std::move(*priced), std::move(*line)});
    all.jobs.push_back({.step = &kept.step,
                        .alone = &kept.alone,
                        .offset = other.offset,
                        .servers = other.same_servers ? std::size_t{0} : i + 1});
  }
  share_servers(question, all);
  return all;
}

/// The priced step of all kinds of GPUs.
cost::PricedStep of_kinds(const Question& question, const cost::PricedStep& step) {
  cost::PricedStep kinds = step;
  if (question.kinds) kinds.plan = question.kinds;
  return kinds;
}

/// The step of a simulation, with what servers that do not wait add to it.
Time step_of(const cost::PricedStep& step, const answer::Timeline& alone, const events::EventStep& run) {
  answer::Timeline line;
  line.forward = alone.forward;
  line.backward = alone.backward;
  // Who may be a few steps ahead is held by the slowest in the end.
  line.step = step.plan->exchange.consistency == plan::Consistency::kStale ? run.slowest : run.step;
  step::relax(step, line);
  return line.step;
}

/// What the recurrence has too much of, where ranks end a step by themselves (plan/order.h): they wait less, for others
/// and for messages. Nothing falls below zero.
void take_away(Time surplus, answer::Timeline& line) {
  const auto take = [](Time& left, Time& from) {
    const Time taken = min(left, from);
    from = from - taken;
    left = left - taken;
  };
  answer::Breakdown& parts = line.parts;
  Time left = surplus;
  for (Time* part : {&parts.bubble, &parts.communication_exposed, &parts.input_exposed, &parts.launch, &parts.memory,
                     &parts.compute}) {
    take(left, *part);
  }
  line.kept_waiting = min(line.kept_waiting, parts.communication_exposed);
  Time of_path = surplus;
  const auto shorten = [&](bool waits) {
    for (answer::Segment& one : line.critical_path) {
      if (waits == (one.name == "waiting for other stages" || one.name == "communication, exposed")) {
        take(of_path, one.time);
      }
    }
  };
  shorten(true);
  shorten(false);
}

/// Adds to the parts what the simulation found beyond the recurrence; what rounding left goes to the largest.
void add_found(const Question& question, Time total, Time unshared, answer::Timeline& line) {
  const Scenario& scenario = question.scenario;
  const Time slower = scenario.straggler > 1 ? max(unshared - line.step, Time::zero()) : Time::zero();
  const bool meets_itself = !question.plan->folds;  // groups of a split model share links
  const bool beside = scenario.jobs > 1 || !scenario.other_jobs.empty();
  const bool uplink = scenario.leaf_uplink.get().has_value();
  const Time sharing = beside || meets_itself || uplink ? max(total - unshared, Time::zero()) : Time::zero();
  answer::Breakdown& parts = line.parts;
  parts.other += slower;
  parts.communication += sharing;
  parts.communication_exposed += sharing;
  const bool all_slow = scenario.stragglers >= question.gpus();
  auto& path = line.critical_path;
  if (slower > Time::zero()) path.push_back({all_slow ? "slower GPUs" : "waiting for the straggler", slower});
  if (sharing > Time::zero()) {
    path.push_back({beside   ? "sharing the network with other jobs"
                    : uplink ? "waiting for the leaf's uplink"
                             : "sharing links with itself",
                    sharing});
  }
  const Time rest = total - line.step - slower - sharing;
  constexpr double kRounding = 1e-9;
  if (rest < total * -kRounding) {
    take_away(Time::zero() - rest, line);
    return;
  }
  Time* largest = &parts.compute;
  for (Time* part : {&parts.memory, &parts.launch, &parts.communication_exposed, &parts.input_exposed}) {
    if (*part > *largest) largest = part;
  }
  *largest += rest;
  std::max_element(path.begin(), path.end(), [](const auto& a, const auto& b) { return a.time < b.time; })->time +=
      rest;
}

Expected<answer::Timeline> simulated_line(const Question& question, const cost::PricedStep& step, Detail detail);

/// Local SGD: a step by oneself and one that averages weights, each simulated, and their mean.
Expected<answer::Timeline> simulated_period(const Question& question, const cost::PricedStep& step, Detail detail) {
  if (question.scenario.jobs > 1 || !question.scenario.other_jobs.empty()) {
    return fail(ErrorCode::kUnsupported, "local SGD beside other jobs is not simulated", {},
                {"use one job, or strategy.sync_every 1"});
  }
  const step::LocalSgd parts = step::taken_apart(step);
  Question alone = question;
  if (question.kinds) alone.kinds = step::taken_apart(of_kinds(question, step)).local.plan;
  auto local = simulated_line(alone, parts.local, detail);
  if (!local) return local;
  return simulated_line(question, parts.averaging, detail).map([&](answer::Timeline line) {
    return step::amortised(*local, std::move(line), step.plan->exchange.sync_every);
  });
}

/// What a simulation makes of one schedule.
Expected<answer::Timeline> simulated_once(const Question& question, const cost::PricedStep& step,
                                          answer::Timeline alone, Detail detail) {
  const cost::PricedStep kinds = of_kinds(question, step);
  const std::int64_t jobs = question.scenario.jobs;
  const bool beside = jobs > 1 || !question.scenario.other_jobs.empty();
  const auto all = jobs_of(question, kinds, alone, jobs);
  if (!all) return tl::unexpected<Error>(all.error());
  const auto run = events::simulate(all->jobs, all->options);
  if (!run) return tl::unexpected<Error>(run.error());
  const Time total = step_of(kinds, alone, *run);
  if (detail != Detail::kTime) {
    const bool shared = beside || question.scenario.leaf_uplink.get();
    Time unshared = shared || !question.plan->folds ? alone.step : total;
    if (shared && question.kinds) {
      auto one = jobs_of(question, kinds, alone, 1, false);
      if (!one) return tl::unexpected<Error>(one.error());
      one->options.uplink.reset();
      const auto by_itself = events::simulate(one->jobs, one->options);
      if (!by_itself) return tl::unexpected<Error>(by_itself.error());
      unshared = step_of(kinds, alone, *by_itself);
    }
    add_found(question, total, unshared, alone);
  }
  alone.step = total;
  return alone;
}

Expected<answer::Timeline> simulated_line(const Question& question, const cost::PricedStep& step, Detail detail) {
  if (step.plan->exchange.sync_every > 1) return simulated_period(question, step, detail);
  if (!step::wakes_in_cycles(step)) {
    return step::schedule(step, Detail::kWork).and_then([&](answer::Timeline alone) {
      return simulated_once(question, step, std::move(alone), detail);
    });
  }
  std::vector<answer::Timeline> lines;
  for (const double phase : step::phases()) {
    auto line = simulated_once(question, step, step::schedule_at(step, phase, Detail::kWork), detail);
    if (!line) return line;
    lines.push_back(std::move(*line));
  }
  return step::mean_of(std::move(lines));
}

}  // namespace

double share_without_cast(const workload::Model& model) {
  Work without;
  Work all;
  for (const workload::Layer& layer : model.layers) {
    const Work work = layer.forward_work + layer.backward_work;
    const bool has_none = layer.op && (std::holds_alternative<workload::Convolution>(*layer.op) ||
                                       std::holds_alternative<workload::Lstm>(*layer.op));
    all += work;
    if (has_none) without += work;
  }
  return all > Work::zero() ? without / all : 0.0;
}

namespace {

/// Nothing is kept.
struct Afresh final : Shelf {
  Expected<plan::StepPlan> plan(const plan::Job& job, Wanted) override {
    return StageTimes().lowered(job, [](const plan::Job& cut) { return plan::lower(cut); });
  }
  Expected<std::shared_ptr<const cost::LayerPrices>> prices(const plan::Job& job, const plan::StepPlan& plan) override {
    auto priced = cost::price_layers(job, plan, {kInterval90Low, kInterval90High});
    if (!priced) return tl::unexpected<Error>(priced.error());
    return std::make_shared<const cost::LayerPrices>(std::move(*priced));
  }
};

}  // namespace

Expected<Question> ask(const Scenario& scenario) {
  Afresh shelf;
  return ask(scenario, shelf, Wanted::kAll);
}

Expected<Question> ask(const Scenario& scenario, Shelf& shelf, Wanted wanted) {
  if (auto sound = check_values(scenario); !sound) return tl::unexpected<Error>(sound.error());
  const auto fidelity = fidelity_of(scenario);
  if (!fidelity) return tl::unexpected<Error>(fidelity.error());
  if (auto known = check_gradients(scenario); !known) return tl::unexpected<Error>(known.error());
  if (auto kernels = check_cast(scenario); !kernels) return tl::unexpected<Error>(kernels.error());
  if (auto known = check_attention(scenario); !known) return tl::unexpected<Error>(known.error());
  const bool fused = scenario.fusion.pointwise || scenario.fusion.attention;
  if (fused && !scenario.model->has_layers()) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("fusion: {} is known by the features of a whole step", scenario.model->id));
  }
  Question question{.scenario = scenario, .fidelity = *fidelity};
  if (*fidelity == Fidelity::kAggregate) {
    if (const auto rates = cost::reached_rates(scenario); !rates) return tl::unexpected<Error>(rates.error());
    return question;
  }
  auto plan = shelf.plan(scenario, wanted);
  if (!plan) return tl::unexpected<Error>(plan.error());
  const bool kinds = plan->folds && plan->classes.front().slowness * plan->classes.back().slowness != 1;
  auto lowered = std::make_shared<const plan::StepPlan>(std::move(*plan));
  question.plan = kinds ? nominal(*lowered) : lowered;
  if (kinds) question.kinds = lowered;
  auto prices = shelf.prices(scenario, *question.plan);
  if (!prices) return tl::unexpected<Error>(prices.error());
  question.layers = std::move(*prices);
  return question;
}

Time issuing_of(const Question& question) {
  const plan::Chunk& layers = question.plan->classes.front().chunk;
  double kernels = 0;
  for (std::size_t i = 0; i < layers.count; ++i) kernels += layers[i].forward_kernels + layers[i].backward_kernels;
  const auto passes = static_cast<double>(question.plan->micro_batches);
  return plan::launch_interval_of(question.scenario) * (kernels * passes);
}

Expected<Laid> lay_out(const Question& question, const cost::Variation& variation, Detail detail) {
  if (question.fidelity == Fidelity::kAggregate) {
    auto totals = cost::totals_step(question.scenario, variation);
    if (!totals) return tl::unexpected<Error>(totals.error());
    return Laid{.line = std::move(totals->line), .traffic = std::move(totals->traffic)};
  }
  auto step = cost::price(question.scenario, question.plan, *question.layers, variation);
  if (!step) return tl::unexpected<Error>(step.error());
  auto line =
      question.fidelity == Fidelity::kEvent ? simulated_line(question, *step, detail) : step::schedule(*step, detail);
  if (!line) return tl::unexpected<Error>(line.error());
  Laid laid{.line = std::move(*line)};
  if (detail != Detail::kTime) laid.traffic = cost::traffic_of(question.scenario, *step);
  laid.step = std::move(*step);
  return laid;
}

Expected<events::EventStep> simulate(const Question& question) {
  auto step = cost::price(question.scenario, question.plan, *question.layers);
  if (!step) return tl::unexpected<Error>(step.error());
  // Of a period of local SGD its last step, which averages the weights.
  if (step->plan->exchange.sync_every > 1) *step = step::taken_apart(*step).averaging;
  const auto alone = step::schedule(*step, Detail::kWork);
  if (!alone) return tl::unexpected<Error>(alone.error());
  const cost::PricedStep kinds = of_kinds(question, *step);
  auto all = jobs_of(question, kinds, *alone, question.scenario.jobs);
  if (!all) return tl::unexpected<Error>(all.error());
  all->options.named = true;
  return events::simulate(all->jobs, all->options);
}

}  // namespace ddlsim::whatif
