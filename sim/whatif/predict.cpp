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
  std::array<Resource, 9> resources{{
      {"gpu compute", parts.compute, [](StepQuestion& q) { q.efficiency.compute *= kFaster; }},
      {"gpu memory bandwidth", parts.memory, [](StepQuestion& q) { q.efficiency.memory *= kFaster; }},
      {"kernel launches", parts.launch, [](StepQuestion& q) { q.launch_interval = q.launch_interval / kFaster; }},
      {"network", on("network"), [](StepQuestion& q) { q.efficiency.network *= kFaster; }},
      {"nvlink", on("nvlink"), [](StepQuestion& q) { q.efficiency.nvlink *= kFaster; }},
      {"pcie", pcie, [](StepQuestion& q) { q.efficiency.pcie *= kFaster; }},
      {"server memory", at_servers, [](StepQuestion& q) { q.server_speed *= kFaster; }},
      {"transport", question.scenario.ps_transport ? at_servers : Time::zero(),
       [](StepQuestion& q) { q.transport_speed *= kFaster; }},
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

/// Where a setting of the strategy, the collectives or the servers has an effect.
struct Use {
  std::string_view path;
  bool (*used)(const StepQuestion&);
};

bool by_servers(const StepQuestion& q) { return q.scenario.strategy.kind == StrategyKind::kPs && q.gpus() > 1; }
bool by_collectives(const StepQuestion& q) { return !by_servers(q) && q.gpus() > 1; }
bool by_grouping(const StepQuestion& q, plan::Grouping a, plan::Grouping b) {
  const plan::Grouping grouping = plan::grouping_of(q.scenario.strategy);
  return q.gpus() > 1 && (grouping == a || grouping == b);
}
bool by_several_nodes(const StepQuestion& q) { return q.nodes > 1; }
bool by_remote_servers(const StepQuestion& q) { return by_servers(q) && q.nodes > 1; }
bool by_several_gpus(const StepQuestion& q) { return q.gpus() > 1; }
template <plan::Compression kKind>
bool by_compression(const StepQuestion& q) {
  return q.gpus() > 1 && q.scenario.strategy.compression == kKind;
}

/// What is not listed always has one, in the analytic fidelity.
constexpr auto kUses = std::to_array<Use>({
    {"strategy.grouping", by_several_gpus},
    {"strategy.first_bucket",
     [](const StepQuestion& q) { return by_grouping(q, plan::Grouping::kBuckets, plan::Grouping::kBuckets); }},
    {"strategy.bucket",
     [](const StepQuestion& q) { return by_grouping(q, plan::Grouping::kBuckets, plan::Grouping::kFusion); }},
    {"strategy.cycle",
     [](const StepQuestion& q) { return by_grouping(q, plan::Grouping::kFusion, plan::Grouping::kFusion); }},
    {"strategy.partition",
     [](const StepQuestion& q) { return by_grouping(q, plan::Grouping::kPartitions, plan::Grouping::kPartitions); }},
    {"strategy.priority", by_several_gpus},
    {"strategy.gradients", by_several_gpus},
    {"strategy.compression", by_several_gpus},
    {"strategy.density", by_compression<plan::Compression::kTopK>},
    {"strategy.rank", by_compression<plan::Compression::kPowerSgd>},
    {"strategy.accumulation", [](const StepQuestion&) { return true; }},
    {"strategy.servers", by_remote_servers},
    {"strategy.colocated", by_remote_servers},
    {"strategy.placement", by_remote_servers},
    {"strategy.local_aggregation", by_servers},
    {"strategy.pull_at_start", by_servers},
    {"strategy.consistency", by_servers},
    {"strategy.staleness",
     [](const StepQuestion& q) {
       return by_servers(q) && q.scenario.strategy.consistency == plan::Consistency::kStale;
     }},
    {"collective.library", by_collectives},
    {"collective.algorithm", by_collectives},
    {"collective.table", by_collectives},
    {"ps.transport", by_remote_servers},
    {"ps.memory_bandwidth", by_servers},
    {"network.transport", [](const StepQuestion& q) { return by_collectives(q) && q.nodes > 1; }},
    {"network.latency", by_several_nodes},
    {"nvlink.latency", by_collectives},
    {"pcie.latency", by_collectives},
    {"jitter", by_several_gpus},
    {"launch_interval", [](const StepQuestion&) { return true; }},
    {"gpu.time_factor", [](const StepQuestion&) { return true; }},
    {"jobs", by_several_nodes},
    {"jobs.offset", [](const StepQuestion& q) { return q.nodes > 1 && q.scenario.jobs > 1; }},
    {"straggler.gpus", [](const StepQuestion& q) { return q.scenario.straggler > 1; }},
});

/// Settings that somebody stated and that this prediction had no use for. The aggregate fidelity has for none above.
std::string unused_settings(const StepQuestion& question) {
  std::string unused;
  for (const std::string& path : question.scenario.stated) {
    const auto use = std::find_if(kUses.begin(), kUses.end(), [&](const Use& u) { return u.path == path; });
    if (use == kUses.end()) continue;
    if (question.fidelity != Fidelity::kAggregate && use->used(question)) continue;
    unused += (unused.empty() ? "" : ", ") + path;
  }
  return unused;
}

/// Shares of peak rates that this prediction used and nobody stated.
std::vector<std::string> assumed_shares(const StepQuestion& question) {
  const Scenario& scenario = question.scenario;
  std::vector<std::string> used{"compute", "memory", "pcie"};
  if (scenario.model->measured) used = {"pcie"};
  // A profile knows what its kernels reach; the host link then matters to servers alone.
  if (question.calibrated) {
    used.clear();
    if (question.calibrated->assumed > Time::zero()) used = {"compute", "memory"};
    if (by_servers(question)) used.emplace_back("pcie");
  }
  // A collective library knows what it reaches.
  if (question.fidelity == Fidelity::kAggregate || by_servers(question)) used.insert(used.end(), {"nvlink", "network"});
  std::erase_if(used, [&](const std::string& name) {
    return scenario.efficiency.assumed == 0 ||
           std::find(scenario.stated.begin(), scenario.stated.end(), "efficiency." + name) != scenario.stated.end();
  });
  return used;
}

/// Whether the model's times were measured on another GPU, or at another batch or precision.
bool measured_elsewhere(const Scenario& scenario) {
  const auto& on = scenario.model->measured;
  return on && (on->gpu != scenario.cluster.node.gpu.id || scenario.batch != scenario.model->batch ||
                on->precision != scenario.precision);
}

/// What rests on nothing better than an assumption. A measured step says what the GPU reaches.
Provenance provenance_of(const StepQuestion& question) {
  const Scenario& scenario = question.scenario;
  std::vector<std::string> shares = assumed_shares(question);
  if (scenario.gpu_time_measured || scenario.model->measured) {
    std::erase_if(shares, [](const std::string& s) { return s == "compute" || s == "memory"; });
  }
  const bool servers = question.fidelity != Fidelity::kAggregate && by_servers(question);
  const bool guessed = servers && (scenario.server_memory == kDefaultServerMemory ||
                                   (scenario.ps_transport && cost::transport_cost(*scenario.ps_transport).assumed));
  if (!shares.empty() || guessed) return Provenance::kAssumed;
  if (measured_elsewhere(scenario)) return Provenance::kExtrapolated;
  if (!question.calibrated || scenario.gpu_time_measured) return Provenance::kAnalytic;
  if (question.calibrated->extrapolated > Time::zero()) return Provenance::kExtrapolated;
  // Nothing but kernels between measured ones, or formulas beside them as well.
  return question.gpus() == 1 ? Provenance::kInterpolated : Provenance::kAnalytic;
}

std::string calibration_note(const StepQuestion& question) {
  const cost::CalibratedTimes& times = *question.calibrated;
  const Time all = times.measured + times.extrapolated + times.assumed;
  const auto percent = [&](Time part) { return all > Time::zero() ? 100 * (part / all) : 0; };
  std::vector<std::string> names;
  for (const ChosenProfile& chosen : question.scenario.profiles) {
    names.push_back(chosen.profile->id + (chosen.lent ? " (lent)" : ""));
  }
  std::string note = fmt::format(
      "kernels by the profile {}: {:.0f} % of GPU time within what was measured, {:.0f} % extrapolated, {:.0f} % "
      "assumed",
      join(names), percent(times.measured), percent(times.extrapolated), percent(times.assumed));
  return note;
}

void add_server_notes(const StepQuestion& question, std::vector<std::string>& notes) {
  const Scenario& scenario = question.scenario;
  const plan::Strategy& strategy = scenario.strategy;
  if (question.nodes > 1 && !strategy.colocated) {
    notes.emplace_back("parameter servers: their own machines are not in the price");
  }
  if (scenario.server_memory == kDefaultServerMemory) {
    notes.push_back(fmt::format("assumed: a server's host memory moves {} (--set ps.memory_bandwidth=...)",
                                to_text(scenario.server_memory)));
  }
  if (scenario.ps_transport && question.nodes > 1 && cost::transport_cost(*scenario.ps_transport).assumed) {
    notes.push_back(fmt::format("assumed: costs of the transport {} (cost/parameter_server.h)",
                                name_of(cost::kPsTransports, *scenario.ps_transport)));
  }
  if (strategy.consistency == plan::Consistency::kAsync) {
    notes.push_back(fmt::format("asynchronous: a gradient is {} updates old when it is applied, on average",
                                to_text(question.gpus() - 1)));
  } else if (strategy.consistency == plan::Consistency::kStale) {
    notes.push_back(
        fmt::format("stale-synchronous: a worker may be {} steps ahead of the slowest", to_text(strategy.staleness)));
  }
}

void add_notes(const StepQuestion& question, const plan::MemoryFootprint& footprint, Prediction& prediction) {
  const Scenario& scenario = question.scenario;
  const workload::Model& model = *scenario.model;
  std::vector<std::string>& notes = prediction.notes;
  if (const auto shares = assumed_shares(question); !shares.empty()) {
    notes.push_back(
        fmt::format("assumed: 70 % of the peak rate of {} (Wang et al. 2019); state measured shares with "
                    "--set efficiency.{}=...",
                    join(shares), shares.front()));
  }
  if (question.calibrated) notes.push_back(calibration_note(question));
  if (const auto& on = model.measured) {
    notes.push_back(measured_elsewhere(scenario)
                        ? fmt::format("kernels' times scaled from {}, {} {}{}, {} (cost/wave_scaling.h)", on->gpu,
                                      to_text(model.batch), model.sample, model.batch == 1 ? "" : "s",
                                      name_of(kPrecisions, on->precision))
                        : fmt::format("kernels' times as measured on {}", on->gpu));
  }
  if (!model.recalled.empty()) {
    std::string keys;
    for (const std::string& key : model.recalled) keys += (keys.empty() ? "" : ", ") + key;
    notes.push_back("recalled, not checked against the paper's text: " + keys);
  }
  if (question.gpus() == 1) notes.emplace_back("one GPU keeps its weights: nothing is communicated");
  if (prediction.fits == false) {
    notes.push_back(fmt::format("does not fit: {} needed, {} has {}", to_text(footprint.total()),
                                scenario.cluster.node.gpu.name, to_text(scenario.cluster.node.gpu.memory_size)));
  }
  if (!footprint.complete) notes.emplace_back("memory counts the weights alone: the model's activations are unknown");
  const bool analytic = question.fidelity != Fidelity::kAggregate && question.gpus() > 1;
  if (analytic && by_servers(question)) add_server_notes(question, notes);
  if (analytic && by_collectives(question) && question.nodes > 1 && !scenario.transport) {
    notes.push_back(
        fmt::format("network driven by {}, as its link's name says; --set network.transport=... says otherwise",
                    name_of(cost::kNetworkTransports, communicator_of(scenario).transport)));
  }
  if (analytic && scenario.strategy.kind == StrategyKind::kAllReduce && !model.totals.sparse_tables.empty()) {
    notes.emplace_back("embedding gradients are gathered, not summed: every GPU receives the rows of all others");
  }
  if (scenario.straggler > 1) {
    notes.push_back(fmt::format("{} of {} GPUs: all their work takes {:.6g} times as long",
                                to_text(scenario.stragglers), to_text(question.gpus()), scenario.straggler));
  }
  if (scenario.jobs > 1) {
    notes.push_back(
        fmt::format("{} alike jobs share the servers' network ports; this is one of them", to_text(scenario.jobs)));
  }
  if (const std::string unused = unused_settings(question); !unused.empty()) {
    notes.push_back("stated, but without effect here: " + unused);
  }
}

}  // namespace

namespace {

std::pair<Time, Time> interval_of(const StepQuestion& question, const StepParts& step) {
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

Expected<sim::EventStep> simulate(const Scenario& scenario) {
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
