#include "ddlsim/whatif/predict.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ddlsim/plan/memory.h"
#include "ddlsim/support/quantity_io.h"
#include "step_parts.h"

namespace ddlsim::whatif {
namespace {

using answer::Fidelity;
using answer::Prediction;
using plan::StrategyKind;

Expected<Fidelity> fidelity_of(const Scenario& scenario) {
  const bool layers = scenario.model->has_layers();
  const bool pearl = scenario.strategy.kind == StrategyKind::kPearl;
  const Fidelity fidelity = scenario.fidelity.value_or(layers && !pearl ? Fidelity::kAnalytic : Fidelity::kAggregate);
  if (fidelity == Fidelity::kAnalytic && !layers) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} is known by the features of a whole step; the analytic fidelity needs its layers",
                            scenario.model->id),
                {}, {"use fidelity aggregate"});
  }
  if (fidelity == Fidelity::kAnalytic && pearl) {
    return fail(ErrorCode::kUnsupported, "the PEARL strategy has no analytic fidelity", {}, {"use fidelity aggregate"});
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
  std::array<Resource, 7> resources{{
      {"gpu compute", parts.compute, [](StepQuestion& q) { q.efficiency.compute *= kFaster; }},
      {"gpu memory bandwidth", parts.memory, [](StepQuestion& q) { q.efficiency.memory *= kFaster; }},
      {"kernel launches", parts.launch, [](StepQuestion& q) { q.launch_interval = q.launch_interval / kFaster; }},
      {"network", on("network"), [](StepQuestion& q) { q.efficiency.network *= kFaster; }},
      {"nvlink", on("nvlink"), [](StepQuestion& q) { q.efficiency.nvlink *= kFaster; }},
      {"pcie", pcie, [](StepQuestion& q) { q.efficiency.pcie *= kFaster; }},
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
    resource.speed_up(varied);
    const Time gain = step.time - step_parts(varied, Detail::kTime).time;
    if (gain > most) {
      most = gain;
      best = resource.name;
    }
  }
  return std::string(best);
}

/// Settings that somebody stated and that this prediction had no use for.
std::string unused_settings(const StepQuestion& question) {
  constexpr auto kAnalyticOnly = std::to_array<std::string_view>(
      {"strategy.bucket", "strategy.partition", "strategy.servers", "strategy.gradients", "network.latency",
       "nvlink.latency", "pcie.latency", "launch_interval"});
  constexpr auto kPsOnly = std::to_array<std::string_view>({"strategy.partition", "strategy.servers"});
  const auto one_of = [](const auto& names, std::string_view path) {
    return std::find(names.begin(), names.end(), path) != names.end();
  };
  const bool servers = question.scenario.strategy.kind == StrategyKind::kPs && question.gpus() > 1;
  std::string unused;
  for (const std::string& path : question.scenario.stated) {
    const bool idle = (question.fidelity == Fidelity::kAggregate && one_of(kAnalyticOnly, path)) ||
                      (!servers && one_of(kPsOnly, path)) || (servers && path == "strategy.bucket") ||
                      (question.nodes == 1 && (path == "strategy.servers" || path == "network.latency"));
    if (idle) unused += (unused.empty() ? "" : ", ") + path;
  }
  return unused;
}

void add_notes(const StepQuestion& question, const plan::MemoryFootprint& footprint, Prediction& prediction) {
  const Scenario& scenario = question.scenario;
  const workload::Model& model = *scenario.model;
  std::vector<std::string>& notes = prediction.notes;
  if (scenario.efficiency.assumed > 0) {
    notes.push_back(
        fmt::format("assumed: 70 % of {} peak rate{} (Wang et al. 2019); state measured shares with "
                    "--set efficiency.compute=... and its siblings",
                    scenario.efficiency.assumed == 5 ? "every" : "each unstated",
                    scenario.efficiency.assumed == 5 ? "" : " of five"));
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
  const bool analytic = question.fidelity == Fidelity::kAnalytic && question.gpus() > 1;
  if (analytic && scenario.strategy.kind == StrategyKind::kPs) {
    notes.emplace_back(
        "parameter servers: the servers sum for free and update as fast as a GPU would; their own machines are not in "
        "the price");
  }
  if (analytic && scenario.strategy.kind == StrategyKind::kAllReduce && !model.totals.sparse_tables.empty()) {
    notes.emplace_back("embedding gradients are gathered, not summed: every GPU receives the rows of all others");
  }
  if (const std::string unused = unused_settings(question); !unused.empty()) {
    notes.push_back("stated, but without effect here: " + unused);
  }
}

}  // namespace

namespace {

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
                        .messages = {}};
  if (auto prepared = prepare(question); !prepared) return tl::unexpected<Error>(prepared.error());
  return question;
}

}  // namespace

Expected<double> fit_gpu_time(const Scenario& scenario, Time measured) {
  auto question = ask(scenario);
  if (!question) return tl::unexpected<Error>(question.error());
  const auto step_at = [&](double factor) {
    question->gpu_time_factor = factor;
    return step_parts(*question, Detail::kTime).time;
  };
  double low = 1e-6;
  double high = 1;
  while (step_at(high) < measured && high < 1e6) high *= 4;
  if (step_at(low) > measured || step_at(high) < measured) {
    return fail(ErrorCode::kInfeasible, fmt::format("no GPU speed gives a step of {}: communication alone takes {}",
                                                    to_text(measured), to_text(step_at(low))));
  }
  while (high - low > 1e-10 * high) {
    const double middle = 0.5 * (low + high);
    (step_at(middle) < measured ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

Expected<Prediction> predict(const Scenario& scenario) {
  auto asked = ask(scenario);
  if (!asked) return tl::unexpected<Error>(asked.error());
  StepQuestion& question = *asked;
  const Fidelity* fidelity = &question.fidelity;
  const ComputeRate* peak = &question.peak;
  const hardware::Cluster& cluster = scenario.cluster;
  StepParts step = step_parts(question, Detail::kAll);
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
  const std::int64_t passes = *fidelity == Fidelity::kAnalytic ? scenario.strategy.accumulation : 1;
  prediction.throughput_samples_per_second =
      static_cast<double>(gpus) * static_cast<double>(scenario.batch * passes) / step.time.in(seconds);
  if (gpus > 1) {
    StepQuestion alone = question;
    alone.nodes = 1;
    alone.gpus_per_node = 1;
    alone.messages.clear();
    prediction.scaling_efficiency = step_parts(alone, Detail::kTime).time / step.time;
  }
  prediction.bottleneck = bottleneck_of(question, step);
  prediction.interval_90 = {step.time * (gpus == 1 ? kInterval90Low : kInterval90LowCluster),
                            step.time * (gpus == 1 ? kInterval90High : kInterval90HighCluster)};
  prediction.provenance = weaker(Provenance::kAnalytic, scenario.efficiency.provenance());
  prediction.traffic = std::move(step.traffic);
  prediction.critical_path = std::move(step.segments);
  prediction.bounds = step.bounds;
  prediction.mfu = workload::features_at(*scenario.model, scenario.batch, scenario.precision).flops * static_cast<double>(passes) / step.time / *peak;
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
