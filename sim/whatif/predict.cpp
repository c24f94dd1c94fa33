#include "ddlsim/whatif/predict.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "ddlsim/cost/pai.h"
#include "ddlsim/plan/memory.h"
#include "ddlsim/plan/messages.h"
#include "ddlsim/sim/step.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

using answer::Fidelity;
using answer::Prediction;
using plan::StrategyKind;
using workload::Architecture;

/// What the parts of a cluster reach under a scenario's efficiencies.
struct Reached {
  cost::DeviceRates device;
  Bandwidth pcie;        // one host link
  Bandwidth pcie_share;  // one GPU's share of it
  Bandwidth peer;        // between GPUs of a node
  Bandwidth network;     // of a node, as far as its GPUs' PCIe links can feed it
  double on_one_uplink = 1;
};

struct Context {
  const Scenario& scenario;
  ComputeRate peak;
  Fidelity fidelity;
};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Reached reached(const Context& context) {
  const hardware::Cluster& cluster = context.scenario.cluster;
  const hardware::Node& node = cluster.node;
  const cost::Efficiency& share = context.scenario.efficiency;
  const bool nvlink = node.gpu_interconnect == hardware::Interconnect::kNvlink;
  Reached rates;
  rates.device = {context.peak * share.compute, node.gpu.memory_bandwidth * share.memory};
  rates.on_one_uplink = static_cast<double>(ceil_div(cluster.gpus_per_node, node.pcie_uplinks));
  rates.pcie = node.host_link.bandwidth * share.pcie;
  rates.pcie_share = min(rates.pcie / rates.on_one_uplink, node.pcie.bandwidth * share.pcie);
  rates.peer = node.peer_link().bandwidth * (nvlink ? share.nvlink : share.pcie);
  rates.network = min(node.network_bandwidth() * share.network,
                      node.pcie.bandwidth * (share.pcie * static_cast<double>(cluster.gpus_per_node)));
  return rates;
}

std::string_view peer_name(const hardware::Node& node) {
  return node.gpu_interconnect == hardware::Interconnect::kNvlink ? "nvlink" : "pcie";
}

/// The parts of a step, whichever fidelity made them.
struct Step {
  answer::Breakdown breakdown;
  Time time;
  std::vector<answer::LinkTraffic> traffic;
  std::vector<answer::Segment> segments;
  std::optional<std::pair<Time, Time>> bounds;
};

std::int64_t server_count(const Scenario& scenario) {
  return scenario.strategy.servers > 0 ? scenario.strategy.servers : scenario.cluster.nodes;
}

sim::Fabric fabric_of(const Scenario& scenario, const Reached& rates) {
  const hardware::Cluster& cluster = scenario.cluster;
  const hardware::Node& node = cluster.node;
  if (cluster.gpus() == 1) return std::monostate{};
  if (scenario.strategy.kind == StrategyKind::kPs) {
    return cost::PsFabric{.workers = cluster.gpus(),
                          .workers_per_node = cluster.gpus_per_node,
                          .servers = server_count(scenario),
                          .local = cluster.nodes == 1,
                          .pcie = rates.pcie_share,
                          .node_network = rates.network,
                          .server_network = rates.network,
                          .latency = node.network.latency};
  }
  return cost::Ring{.gpus = cluster.gpus(),
                    .nodes = cluster.nodes,
                    .intra = rates.peer,
                    .inter = rates.network,
                    .intra_latency = node.peer_link().latency,
                    .inter_latency = node.network.latency};
}

std::vector<answer::LinkTraffic> analytic_traffic(const Scenario& scenario, const Reached& rates,
                                                  const sim::Fabric& fabric, DataSize gradients, DataSize input) {
  std::vector<answer::LinkTraffic> traffic;
  const auto add = [&](std::string_view link, DataSize bytes, Bandwidth rate) {
    traffic.push_back({std::string(link), bytes, bytes / rate});
  };
  DataSize over_pcie = input * rates.on_one_uplink;
  if (const auto* ring = std::get_if<cost::Ring>(&fabric)) {
    const DataSize hop = cost::ring_traffic(gradients, *ring);
    if (ring->nodes > 1) add("network", hop, rates.network);
    if (ring->gpus > ring->nodes) add(peer_name(scenario.cluster.node), hop, rates.peer);
  } else if (const auto* servers = std::get_if<cost::PsFabric>(&fabric)) {
    over_pcie += gradients * rates.on_one_uplink;
    if (!servers->local) {
      const double per_node = static_cast<double>(servers->workers_per_node);
      const double per_server = static_cast<double>(servers->workers) / static_cast<double>(servers->servers);
      add("network", gradients * std::max(per_node, per_server), rates.network);
    }
  }
  add("pcie host", over_pcie, rates.pcie);
  return traffic;
}

Step analytic_step(const Context& context) {
  const Scenario& scenario = context.scenario;
  const workload::Model& model = *scenario.model;
  const Reached rates = reached(context);
  const auto batch = static_cast<double>(scenario.batch);
  const sim::Fabric fabric = fabric_of(scenario, rates);
  const bool servers = std::holds_alternative<cost::PsFabric>(fabric);
  const bool alone = std::holds_alternative<std::monostate>(fabric);
  const DataSize input = model.input_per_sample * batch;
  const DataSize gradients =
      workload::gradient_bytes(model, scenario.batch, gradient_size(scenario.strategy.gradients));
  const double updated = static_cast<double>(model.totals.dense_parameters) +
                         static_cast<double>(model.totals.sparse_gradient_elements) * batch;
  const std::vector<plan::Message> messages = alone     ? std::vector<plan::Message>{}
                                              : servers ? plan::pieces(model, scenario.strategy, scenario.batch)
                                                        : plan::buckets(model, scenario.strategy, scenario.batch);
  const sim::StepTimeline line =
      sim::run_step(model, messages,
                    {.device = rates.device,
                     .launch_interval = scenario.launch_interval,
                     .activation = activation_size(scenario.precision),
                     .batch = batch,
                     .fabric = fabric,
                     .overlap = scenario.overlap.value_or(plan::Overlap::kBackward),
                     .update = bytes(4) * (updated * update_accesses(model.optimizer)) / rates.device.memory,
                     .input = input / rates.pcie_share,
                     .pulled = servers ? gradients : DataSize::zero()});
  Step step;
  step.time = line.step;
  step.breakdown.compute = line.compute;
  step.breakdown.memory = line.memory;
  step.breakdown.launch = line.launch;
  step.breakdown.input_exposed = line.input_exposed;
  step.breakdown.communication = line.communication;
  step.breakdown.communication_exposed = line.communication_exposed;
  step.traffic = analytic_traffic(scenario, rates, fabric, gradients, input);
  step.segments = {{"forward", line.forward},
                   {"backward", line.backward},
                   {servers ? "push and pull after backward" : "all-reduce after backward", line.communication_exposed},
                   {"weight update", line.update},
                   {"waiting for input", line.input_exposed}};
  return step;
}

Step aggregate_step(const Context& context) {
  const Scenario& scenario = context.scenario;
  const hardware::Cluster& cluster = scenario.cluster;
  const hardware::Node& node = cluster.node;
  const bool nvlink = node.gpu_interconnect == hardware::Interconnect::kNvlink;
  cost::Efficiency efficiency = scenario.efficiency;
  if (!nvlink) efficiency.nvlink = efficiency.pcie;
  const cost::PaiSetting setting{.peak = context.peak,
                                 .memory = node.gpu.memory_bandwidth,
                                 .pcie = node.host_link.bandwidth,
                                 .nvlink = node.peer_link().bandwidth,
                                 .network = node.network_bandwidth(),
                                 .efficiency = efficiency,
                                 .gpus_per_server = cluster.gpus_per_node,
                                 .workers_per_server = cluster.gpus_per_node,
                                 .pcie_uplinks = node.pcie_uplinks};
  const cost::PaiJob job{workload::features_at(*scenario.model, scenario.batch, scenario.precision),
                         plan::architecture_of(scenario.strategy.kind, cluster.nodes, cluster.gpus()), cluster.gpus()};
  const cost::PaiStep parts = cost::pai_step(job, setting);
  Step step;
  step.bounds = {parts.ideal_overlap(), parts.no_overlap()};
  step.breakdown.compute = parts.compute;
  step.breakdown.memory = parts.memory;
  step.breakdown.communication = parts.weights();
  step.breakdown.communication_exposed = parts.weights();
  step.breakdown.input_exposed = parts.input;
  const plan::Overlap overlap = scenario.overlap.value_or(plan::Overlap::kNone);
  if (overlap != plan::Overlap::kNone) {
    // The bound: what is longest hides the others. Calculation keeps its share, the rest is what sticks out.
    const Time calculation = parts.calculation();
    step.breakdown.communication_exposed = max(parts.weights() - calculation, Time::zero());
    step.breakdown.input_exposed = max(parts.input - max(calculation, parts.weights()), Time::zero());
  }
  step.time = step.breakdown.step();
  const auto add = [&](std::string_view link, Time time, Bandwidth rate) {
    if (time > Time::zero()) step.traffic.push_back({std::string(link), time * rate, time});
  };
  add("network", parts.network, setting.network * efficiency.network);
  add(peer_name(node), parts.nvlink, setting.nvlink * efficiency.nvlink);
  add("pcie host", parts.pcie + parts.input, setting.pcie * efficiency.pcie);
  step.segments = {{"input", step.breakdown.input_exposed},
                   {"calculation", parts.calculation()},
                   {"weights", step.breakdown.communication_exposed}};
  return step;
}

Step step_of(const Context& context) {
  return context.fidelity == Fidelity::kAnalytic ? analytic_step(context) : aggregate_step(context);
}

Expected<Fidelity> fidelity_of(const Scenario& scenario) {
  const bool layers = scenario.model->has_layers();
  const bool pearl = scenario.strategy.kind == StrategyKind::kPearl;
  if (!scenario.fidelity) return layers && !pearl ? Fidelity::kAnalytic : Fidelity::kAggregate;
  if (*scenario.fidelity == Fidelity::kAnalytic && !layers) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} is known by the features of a whole step; the analytic fidelity needs its layers",
                            scenario.model->id),
                {}, {"use fidelity aggregate"});
  }
  if (*scenario.fidelity == Fidelity::kAnalytic && pearl) {
    return fail(ErrorCode::kUnsupported, "the PEARL strategy has no analytic fidelity", {}, {"use fidelity aggregate"});
  }
  if (*scenario.fidelity == Fidelity::kAggregate && scenario.overlap == plan::Overlap::kBackward) {
    return fail(ErrorCode::kUnsupported, "the aggregate fidelity has no layers to overlap", {},
                {"use overlap none or ideal"});
  }
  return *scenario.fidelity;
}

Expected<ComputeRate> peak_of(const Scenario& scenario) {
  const hardware::Gpu& gpu = scenario.cluster.node.gpu;
  if (const auto peak = gpu.peak.at(scenario.precision)) return *peak;
  std::string has;
  for (const auto& [name, precision] : kPrecisions) {
    if (gpu.peak.at(precision) && name != "amp") has += (has.empty() ? "" : ", ") + std::string(name);
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("no {} rate is known for {}", name_of(kPrecisions, scenario.precision), gpu.name), {},
              {"it has: " + has, "or state one: --set gpu.peak=..."});
}

/// The resource behind the largest part of the step.
std::string bottleneck_of(const Step& step) {
  const answer::Breakdown& parts = step.breakdown;
  std::string link = "network";
  Time longest = Time::zero();
  for (const answer::LinkTraffic& traffic : step.traffic) {
    if (traffic.time > longest) {
      longest = traffic.time;
      link = traffic.link;
    }
  }
  const std::array<std::pair<Time, std::string>, 5> candidates{{{parts.compute, "gpu compute"},
                                                                {parts.memory, "gpu memory bandwidth"},
                                                                {parts.launch, "kernel launches"},
                                                                {parts.input_exposed, "pcie host"},
                                                                {parts.communication_exposed, link}}};
  const auto largest = std::max_element(candidates.begin(), candidates.end(),
                                        [](const auto& a, const auto& b) { return a.first < b.first; });
  return largest->second;
}

void add_notes(const Context& context, const plan::MemoryFootprint& footprint, Prediction& prediction) {
  const Scenario& scenario = context.scenario;
  const workload::Model& model = *scenario.model;
  std::vector<std::string>& notes = prediction.notes;
  if (scenario.efficiency.provenance == Provenance::kAssumed) {
    notes.emplace_back(
        "assumed: 70 % of every peak rate (Wang et al. 2019); state measured shares with --set efficiency.compute=... "
        "and its siblings");
  }
  if (!model.recalled.empty()) {
    std::string keys;
    for (const std::string& key : model.recalled) keys += (keys.empty() ? "" : ", ") + key;
    notes.push_back("recalled, not checked against the paper's text: " + keys);
  }
  if (scenario.cluster.gpus() == 1) notes.emplace_back("one GPU keeps its weights: nothing is communicated");
  if (prediction.fits == false) {
    notes.push_back(fmt::format("does not fit: {} needed, {} has {}", to_text(footprint.total()),
                                scenario.cluster.node.gpu.name, to_text(scenario.cluster.node.gpu.memory_size)));
  }
  if (!footprint.complete) notes.emplace_back("memory counts the weights alone: the model's activations are unknown");
  if (context.fidelity == Fidelity::kAnalytic && scenario.strategy.kind == StrategyKind::kPs &&
      scenario.cluster.gpus() > 1) {
    notes.emplace_back(
        "parameter servers: the servers sum for free and update as fast as a GPU would; their own machines are not in "
        "the price");
  }
}

}  // namespace

Scenario on_one_gpu(const Scenario& scenario) {
  Scenario alone = scenario;
  alone.cluster.nodes = 1;
  alone.cluster.gpus_per_node = 1;
  return alone;
}

Expected<Prediction> predict(const Scenario& scenario) {
  const auto fidelity = fidelity_of(scenario);
  if (!fidelity) return tl::unexpected<Error>(fidelity.error());
  const auto peak = peak_of(scenario);
  if (!peak) return tl::unexpected<Error>(peak.error());
  const Context context{scenario, *peak, *fidelity};
  Step step = step_of(context);

  Prediction prediction;
  prediction.fidelity = *fidelity;
  const std::int64_t gpus = scenario.cluster.gpus();
  const auto samples = static_cast<double>(scenario.batch);
  prediction.architecture =
      name_of(workload::kArchitectures, plan::architecture_of(scenario.strategy.kind, scenario.cluster.nodes, gpus));
  prediction.gpus = gpus;
  prediction.batch_per_gpu = scenario.batch;
  prediction.sample = scenario.model->sample;
  prediction.step_time = step.time;
  prediction.breakdown = step.breakdown;
  prediction.throughput_samples_per_second = static_cast<double>(gpus) * samples / step.time.in(seconds);
  if (gpus > 1) {
    const Scenario alone = on_one_gpu(scenario);
    prediction.scaling_efficiency = step_of({alone, *peak, *fidelity}).time / step.time;
  }
  prediction.bottleneck = bottleneck_of(step);
  prediction.interval_90 = {step.time * kInterval90Low, step.time * kInterval90High};
  prediction.provenance = weaker(Provenance::kAnalytic, scenario.efficiency.provenance);
  prediction.traffic = std::move(step.traffic);
  prediction.critical_path = std::move(step.segments);
  prediction.bounds = step.bounds;
  const Work work = workload::features_at(*scenario.model, scenario.batch, scenario.precision).flops;
  prediction.mfu = work / step.time / *peak;
  const plan::MemoryFootprint footprint =
      plan::memory_footprint(*scenario.model, scenario.strategy, gpus, scenario.batch, scenario.precision);
  prediction.memory_per_gpu = footprint.total();
  prediction.memory_complete = footprint.complete;
  const bool small = footprint.total() <= scenario.cluster.node.gpu.memory_size;
  if (!small || footprint.complete) prediction.fits = small;
  if (const auto& price = scenario.cluster.node.price) {
    prediction.price = *price * static_cast<double>(scenario.cluster.nodes);
  }
  add_notes(context, footprint, prediction);
  return prediction;
}

}  // namespace ddlsim::whatif
