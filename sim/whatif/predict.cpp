#include "ddlsim/whatif/predict.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ddlsim/plan/memory.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/collective.h"
#include "gpu_time.h"
#include "notes.h"
#include "step_parts.h"

namespace ddlsim::whatif {
namespace {

using answer::Fidelity;
using answer::Prediction;
using plan::StrategyKind;

/// What the event fidelity alone can answer, and somebody asked for; empty: nothing.
std::string asked_of_events(const Scenario& scenario) {
  std::string asked;
  for (const std::string_view path : {"jobs", "jobs.offset", "straggler", "straggler.gpus"}) {
    const bool stated = std::find(scenario.stated.begin(), scenario.stated.end(), path) != scenario.stated.end();
    const bool set = (path == "jobs" && scenario.jobs > 1) || (path == "straggler" && scenario.straggler > 1);
    if (stated || set) asked += (asked.empty() ? "" : ", ") + std::string(path);
  }
  return asked;
}

Expected<Fidelity> fidelity_of(const Scenario& scenario) {
  const bool layers = scenario.model->has_layers();
  const bool pearl = scenario.strategy.kind == StrategyKind::kPearl;
  const std::string events = asked_of_events(scenario);
  const Fidelity simplest = layers && !pearl ? Fidelity::kAnalytic : Fidelity::kAggregate;
  const Fidelity fidelity = scenario.fidelity.value_or(events.empty() ? simplest : Fidelity::kEvent);
  const auto name = name_of(answer::kFidelities, fidelity);
  if (fidelity != Fidelity::kEvent && !events.empty()) {
    return fail(ErrorCode::kUnsupported, fmt::format("the {} fidelity knows nothing of {}", name, events), {},
                {"leave the fidelity out, or use fidelity event"});
  }
  if (fidelity != Fidelity::kAggregate && !layers) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} is known by the features of a whole step; the {} fidelity needs its layers",
                            scenario.model->id, name),
                {}, {"use fidelity aggregate"});
  }
  if (fidelity == Fidelity::kAggregate && scenario.model->measured) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{} is known by measured times; the {} fidelity needs FLOPs and bytes", scenario.model->id, name),
        {}, {pearl ? "use another strategy than pearl" : "use fidelity analytic"});
  }
  if (fidelity != Fidelity::kAggregate && pearl) {
    return fail(ErrorCode::kUnsupported, fmt::format("the PEARL strategy has no {} fidelity", name), {},
                {"use fidelity aggregate"});
  }
  if (fidelity == Fidelity::kEvent && scenario.straggler > 1 && scenario.stragglers > scenario.cluster.gpus()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("straggler.gpus: {} slow GPUs in a job of {}", to_text(scenario.stragglers),
                            to_text(scenario.cluster.gpus())),
                {}, {"valid: at most as many as the job has"});
  }
  if (fidelity == Fidelity::kAggregate && scenario.overlap == plan::Overlap::kBackward) {
    return fail(ErrorCode::kUnsupported, "the aggregate fidelity has no layers to overlap", {},
                {"use overlap none or ideal"});
  }
  return fidelity;
}

Expected<ComputeRate> peak_of(const Scenario& scenario) {
  const hardware::Gpu& gpu = scenario.cluster.node.gpu;
  if (const auto peak = gpu.peak.at(scenario.precision)) return *peak;
  std::string has;
  for (const auto& [name, precision] : kPrecisions) {
    if (gpu.peak.at(precision) && name != "amp") has += (has.empty() ? "" : ", ") + std::string(name);
  }
  const auto wanted = name_of(kPrecisions, scenario.precision);
  return fail(ErrorCode::kUnsupported, fmt::format("no {} rate is known for {}", wanted, gpu.name), {},
              {"it has: " + has, fmt::format("or state one: --set gpu.peak.{}=...", wanted)});
}

bool driven_by_tcp(const hardware::Node& node) {
  return node.network.transport.value_or(hardware::NetworkTransport::kTcp) == hardware::NetworkTransport::kTcp;
}

/// The resource that, 10 % faster, shortens the step most. What it takes by itself bounds what it can give, so
/// resources are asked in that order and most are never asked.
std::string bottleneck_of(const StepQuestion& question, const StepParts& step) {
  constexpr double kFaster = 1.1;
  struct Resource {
    std::string_view name;
    Time busy;
    void (*speed_up)(StepQuestion&);
  };
  const answer::Breakdown& parts = step.breakdown;
  const auto on = [&](std::string_view link) {
    Time sum;
    for (const answer::LinkTraffic& traffic : step.traffic) {
      if (traffic.link.starts_with(link)) sum += traffic.time;
    }
    return sum;
  };
  const Time busiest = max(on("network"), max(on("nvlink"), on("pcie")));
  const hardware::Node& node = question.scenario.cluster.node;
  const bool pcie_feeds_network =
      node.pcie.bandwidth * (question.efficiency.pcie * static_cast<double>(question.gpus_per_node)) <
      node.network_bandwidth() * (question.efficiency.network * kFaster);
  // Weights cross PCIe both ways, and PCIe may be what bounds a node's network port.
  const Time pcie = on("pcie") * 2.0 + (pcie_feeds_network ? on("network") : Time::zero());
  // Stations of servers that no link's traffic shows.
  const bool servers = question.scenario.strategy.kind == StrategyKind::kPs && question.gpus() > 1;
  const Time at_servers = servers ? parts.communication : Time::zero();
  Time at_transport = driven_by_tcp(node) && !servers ? on("network") : Time::zero();
  if (servers && question.scenario.ps_transport) at_transport = at_servers;
  std::array<Resource, 9> resources{{
      {"gpu compute", parts.compute, [](StepQuestion& q) { q.efficiency.compute *= kFaster; }},
      {"gpu memory bandwidth", parts.memory, [](StepQuestion& q) { q.efficiency.memory *= kFaster; }},
      {"kernel launches", parts.launch, [](StepQuestion& q) { q.launch_interval = q.launch_interval / kFaster; }},
      {"network", on("network"), [](StepQuestion& q) { q.efficiency.network *= kFaster; }},
      {"nvlink", on("nvlink"), [](StepQuestion& q) { q.efficiency.nvlink *= kFaster; }},
      {"pcie", pcie, [](StepQuestion& q) { q.efficiency.pcie *= kFaster; }},
      {"server memory", at_servers, [](StepQuestion& q) { q.server_speed *= kFaster; }},
      {"transport", at_transport, [](StepQuestion& q) { q.transport_speed *= kFaster; }},
      {"latency", max(parts.communication - busiest, Time::zero()),
       [](StepQuestion& q) { q.latency_factor /= kFaster; }},
  }};
  std::sort(resources.begin(), resources.end(), [](const Resource& a, const Resource& b) { return b.busy < a.busy; });
  std::string_view best = resources.front().name;
  Time most;
  StepQuestion varied = question;
  for (const Resource& resource : resources) {
    if (resource.busy * (1.0 - 1.0 / kFaster) <= most) break;
    varied.efficiency = question.efficiency;
    varied.launch_interval = question.launch_interval;
    varied.latency_factor = question.latency_factor;
    varied.server_speed = question.server_speed;
    varied.transport_speed = question.transport_speed;
    resource.speed_up(varied);
    const auto faster = step_parts(varied, Detail::kTime);
    const Time gain = faster ? step.time - faster->time : Time::zero();
    if (gain > most) {
      most = gain;
      best = resource.name;
    }
  }
  return std::string(best);
}

std::pair<Time, Time> interval_as_asked(const StepQuestion& question, const StepParts& step) {
  const bool measured = question.scenario.gpu_time_measured;
  if (!measured && !question.calibrated) return {step.time * kInterval90Low, step.time * kInterval90High};
  const Time exposed = step.breakdown.communication_exposed;
  std::pair<Time, Time> interval{step.time * kMeasuredInterval90Low - exposed * 0.5,
                                 step.time * kMeasuredInterval90High + exposed};
  if (measured) return interval;
  // What the curves err by, on top of what a step of known kernels does.
  const cost::CalibratedTimes& times = *question.calibrated;
  const Time kernels = times.measured + times.extrapolated + times.assumed;
  const Time busy = step.breakdown.compute + step.breakdown.memory;
  const double lowest = kernels > Time::zero() ? times.low / kernels : 1;
  const double highest = kernels > Time::zero() ? times.high / kernels : 1;
  return {max(interval.first - busy * (1 - lowest), step.time * kInterval90Low),
          interval.second + busy * (highest - 1)};
}

/// Where nobody says what drives the network, it reaches from what RDMA would give to what TCP does.
std::pair<Time, Time> interval_of(const StepQuestion& question, const StepParts& step) {
  std::pair<Time, Time> interval = interval_as_asked(question, step);
  if (!assumes_transport(question)) return interval;
  StepQuestion other = question;
  other.rdma = true;
  if (const auto faster = step_parts(other, Detail::kAll)) {
    interval.first = min(interval.first, interval_as_asked(other, *faster).first);
  }
  return interval;
}

Expected<StepQuestion> ask(const Scenario& scenario) {
  const auto fidelity = fidelity_of(scenario);
  if (!fidelity) return tl::unexpected<Error>(fidelity.error());
  const auto peak = peak_of(scenario);
  if (!peak) return tl::unexpected<Error>(peak.error());
  const hardware::Cluster& cluster = scenario.cluster;
  StepQuestion question{.scenario = scenario,
                        .fidelity = *fidelity,
                        .peak = *peak,
                        .nodes = cluster.nodes,
                        .gpus_per_node = cluster.gpus_per_node,
                        .efficiency = scenario.efficiency,
                        .launch_interval = scenario.launch_interval,
                        .gpu_time_factor = scenario.gpu_time_factor,
                        .messages = {},
                        .calibrated = nullptr};
  if (auto prepared = prepare(question); !prepared) return tl::unexpected<Error>(prepared.error());
  return question;
}

}  // namespace

Expected<double> fit_gpu_time(const Scenario& scenario, Time measured) {
  auto question = ask(scenario);
  if (!question) return tl::unexpected<Error>(question.error());
  if (const auto can = step_parts(*question, Detail::kTime); !can) return tl::unexpected<Error>(can.error());
  const auto step_at = [&](double factor) {
    question->gpu_time_factor = factor;
    const auto step = step_parts(*question, Detail::kTime);
    return step ? step->time : Time::infinity();  // it would take over 106 days
  };
  double low = 1e-6;
  double high = 1;
  while (step_at(high) < measured && high < 1e6) high *= 4;
  if (step_at(low) > measured) {
    return fail(ErrorCode::kInfeasible, fmt::format("no GPU speed gives a step of {}: what is no GPU time takes {}",
                                                    to_text(measured), to_text(step_at(low))));
  }
  if (step_at(high) < measured) {
    return fail(ErrorCode::kInfeasible,
                fmt::format("a step of {} is over a million times what is predicted", to_text(measured)));
  }
  while (high - low > 1e-10 * high) {
    const double middle = 0.5 * (low + high);
    (step_at(middle) < measured ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

Expected<events::EventStep> simulate(const Scenario& scenario) {
  const auto question = ask(scenario);
  if (!question) return tl::unexpected<Error>(question.error());
  if (question->fidelity != Fidelity::kEvent) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the {} fidelity simulates nothing", name_of(answer::kFidelities, question->fidelity)), {},
                {"use fidelity event"});
  }
  return simulate(*question);
}

Expected<RecordedStep> record(const Scenario& scenario) {
  const auto question = ask(scenario);
  if (!question) return tl::unexpected<Error>(question.error());
  if (question->fidelity == Fidelity::kAggregate) {
    return fail(ErrorCode::kUnsupported, "the aggregate fidelity has no layers to make a graph of", {},
                {"use fidelity analytic"});
  }
  if (scenario.strategy.kind == StrategyKind::kPs && question->gpus() > 1) {
    return fail(ErrorCode::kUnsupported, "parameter servers have no node in a graph of kernels and collectives", {},
                {"use strategy allreduce"});
  }
  if (scenario.overlap == plan::Overlap::kIdeal) {
    return fail(ErrorCode::kUnsupported, "ideal overlap is a bound, and no schedule", {}, {"use overlap backward"});
  }
  if (scenario.jobs > 1) {
    return fail(ErrorCode::kUnsupported, fmt::format("one graph for {} jobs", to_text(scenario.jobs)), {},
                {"leave jobs out"});
  }
  RecordedStep step{.record = record(*question)};
  if (step.record.update > Time::zero()) step.updated = updated_bytes(*question);
  return step;
}

Expected<Prediction> predict(const Scenario& scenario) {
  auto asked = ask(scenario);
  if (!asked) return tl::unexpected<Error>(asked.error());
  StepQuestion& question = *asked;
  const Fidelity* fidelity = &question.fidelity;
  const ComputeRate* peak = &question.peak;
  const hardware::Cluster& cluster = scenario.cluster;
  auto parts = step_parts(question, Detail::kAll);
  if (!parts) return tl::unexpected<Error>(std::move(parts.error()));
  StepParts& step = *parts;
  const double step_seconds = step.time.in(seconds);
  if (!std::isfinite(step_seconds) || step_seconds <= 0) {
    return fail(ErrorCode::kInfeasible, "the step time is not a finite number: some rate is too small or too large");
  }

  Prediction prediction;
  prediction.fidelity = *fidelity;
  const std::int64_t gpus = cluster.gpus();
  prediction.architecture =
      name_of(workload::kArchitectures, plan::architecture_of(scenario.strategy.kind, cluster.nodes, gpus));
  prediction.gpus = gpus;
  prediction.batch_per_gpu = scenario.batch;
  prediction.sample = scenario.model->sample;
  prediction.step_time = step.time;
  prediction.breakdown = step.breakdown;
  const std::int64_t passes = *fidelity == Fidelity::kAggregate ? 1 : scenario.strategy.accumulation;
  prediction.throughput_samples_per_second =
      static_cast<double>(gpus) * static_cast<double>(scenario.batch * passes) / step.time.in(seconds);
  if (gpus > 1) {
    StepQuestion alone = question;
    alone.nodes = 1;
    alone.gpus_per_node = 1;
    alone.messages.clear();
    if (alone.fidelity == Fidelity::kEvent) alone.fidelity = Fidelity::kAnalytic;  // a nominal GPU, and no other job
    if (const auto one = step_parts(alone, Detail::kTime)) prediction.scaling_efficiency = one->time / step.time;
  }
  prediction.bottleneck = bottleneck_of(question, step);
  prediction.interval_90 = interval_of(question, step);
  prediction.provenance = provenance_of(question);
  prediction.traffic = std::move(step.traffic);
  prediction.critical_path = std::move(step.segments);
  prediction.bounds = step.bounds;
  prediction.mfu = workload::features_at(*scenario.model, scenario.batch, scenario.precision).flops *
                   static_cast<double>(passes) / step.time / *peak;
  const plan::MemoryFootprint footprint =
      plan::memory_footprint(*scenario.model, scenario.strategy, gpus, scenario.batch, scenario.precision);
  prediction.memory_per_gpu = footprint.total();
  prediction.memory_complete = footprint.complete;
  const bool small = footprint.total() <= cluster.node.gpu.memory_size;
  if (!small || footprint.complete) prediction.fits = small;
  if (const auto& price = cluster.node.price) prediction.price = *price * static_cast<double>(cluster.nodes);
  add_notes(question, footprint, prediction);
  return prediction;
}

}  // namespace ddlsim::whatif
