#include "step_parts.h"

#include <algorithm>
#include <string_view>
#include <variant>

#include "ddlsim/cost/pai.h"
#include "ddlsim/sim/step.h"

namespace ddlsim::whatif {
namespace {

using plan::StrategyKind;

/// What the parts of a cluster reach under a question's efficiencies.
struct Reached {
  cost::DeviceRates device;
  Bandwidth host_link;       // between host and one switch
  Bandwidth pcie_share;      // one GPU's share of it
  Bandwidth peer;            // between GPUs of a node
  Bandwidth network;         // of a node, as far as its GPUs' PCIe links can feed it
  Bandwidth server_network;  // of a parameter server's machine
  double on_one_uplink = 1;
};

Reached reached(const StepQuestion& question) {
  const hardware::Node& node = question.scenario.cluster.node;
  const cost::Efficiency& share = question.efficiency;
  Reached rates;
  rates.device = {question.peak * share.compute, node.gpu.memory_bandwidth * share.memory};
  const std::int64_t fullest_uplink = (question.gpus_per_node + node.pcie_uplinks - 1) / node.pcie_uplinks;
  rates.on_one_uplink = static_cast<double>(fullest_uplink);
  rates.host_link = node.host_link.bandwidth * share.pcie;
  rates.pcie_share = min(rates.host_link / rates.on_one_uplink, node.pcie.bandwidth * share.pcie);
  rates.peer = node.peer_bandwidth(question.gpus_per_node) * (node.joined_by_nvlink() ? share.nvlink : share.pcie);
  rates.server_network = node.network_bandwidth() * share.network;
  rates.network =
      min(rates.server_network, node.pcie.bandwidth * (share.pcie * static_cast<double>(question.gpus_per_node)));
  return rates;
}

std::string_view peer_name(const hardware::Node& node) { return node.joined_by_nvlink() ? "nvlink" : "pcie"; }

sim::Fabric fabric_of(const StepQuestion& question, const Reached& rates) {
  const hardware::Node& node = question.scenario.cluster.node;
  if (question.gpus() == 1) return std::monostate{};
  const Time network_latency = node.network.latency * question.latency_factor;
  if (question.scenario.strategy.kind == StrategyKind::kPs) {
    const std::int64_t servers = question.scenario.strategy.servers;
    return cost::PsFabric{.workers = question.gpus(),
                          .workers_per_node = question.gpus_per_node,
                          .servers = servers > 0 ? servers : question.nodes,
                          .local = question.nodes == 1,
                          .pcie = rates.pcie_share,
                          .node_network = rates.network,
                          .server_network = rates.server_network,
                          .latency = network_latency};
  }
  return cost::Ring{.gpus = question.gpus(),
                    .nodes = question.nodes,
                    .intra = rates.peer,
                    .inter = rates.network,
                    .intra_latency = node.peer_link().latency * question.latency_factor,
                    .inter_latency = network_latency};
}

DataSize total_of(const std::vector<plan::Message>& messages, bool gathered) {
  DataSize sum;
  for (const plan::Message& message : messages) {
    if (message.gathered == gathered) sum += message.size * static_cast<double>(message.count);
  }
  return sum;
}

std::vector<answer::LinkTraffic> analytic_traffic(const StepQuestion& question, const Reached& rates,
                                                  const sim::Fabric& fabric, DataSize input) {
  std::vector<answer::LinkTraffic> traffic;
  const auto add = [&](std::string_view link, DataSize bytes, Bandwidth rate) {
    traffic.push_back({std::string(link), bytes, bytes / rate});
  };
  const DataSize summed = total_of(question.messages, false);
  const DataSize gathered = total_of(question.messages, true);
  DataSize over_pcie = input * rates.on_one_uplink;
  if (const auto* ring = std::get_if<cost::Ring>(&fabric)) {
    const DataSize hop = cost::ring_traffic(summed, *ring) + cost::ring_gather_traffic(gathered, *ring);
    if (ring->nodes > 1) add("network", hop, rates.network);
    if (ring->gpus > ring->nodes) add(peer_name(question.scenario.cluster.node), hop, rates.peer);
  } else if (const auto* servers = std::get_if<cost::PsFabric>(&fabric)) {
    over_pcie += summed * rates.on_one_uplink;
    if (!servers->local) {
      const DataSize at_node = summed * static_cast<double>(servers->workers_per_node);
      const DataSize at_server =
          summed * (static_cast<double>(servers->workers) / static_cast<double>(servers->servers));
      const bool node_binds = at_node / rates.network >= at_server / rates.server_network;
      add("network", node_binds ? at_node : at_server, node_binds ? rates.network : rates.server_network);
    }
  }
  add("pcie host", over_pcie, rates.host_link);
  return traffic;
}

StepParts analytic_step(const StepQuestion& question, Detail detail) {
  const Scenario& scenario = question.scenario;
  const workload::Model& model = *scenario.model;
  const Reached rates = reached(question);
  const auto batch = static_cast<double>(scenario.batch);
  const sim::Fabric fabric = fabric_of(question, rates);
  const bool servers = std::holds_alternative<cost::PsFabric>(fabric);
  const DataSize input = model.input_per_sample * batch;
  const double updated = workload::gradient_elements(model, scenario.batch) * update_accesses(model.optimizer);
  const sim::StepTimeline line =
      sim::run_step(model, question.messages,
                    {.device = rates.device,
                     .launch_interval = question.launch_interval,
                     .activation = activation_size(scenario.precision),
                     .batch = batch,
                     .fabric = fabric,
                     .overlap = scenario.overlap.value_or(plan::Overlap::kBackward),
                     .update = bytes(4) * updated / rates.device.memory,
                     .input = input / rates.pcie_share,
                     .pulled = servers ? total_of(question.messages, false) : DataSize::zero(),
                     .communication_alone = detail == Detail::kAll});
  StepParts step;
  step.time = line.step;
  if (detail == Detail::kTime) return step;
  step.breakdown.compute = line.compute;
  step.breakdown.memory = line.memory;
  step.breakdown.launch = line.launch;
  step.breakdown.input_exposed = line.input_exposed;
  step.breakdown.communication = line.communication;
  step.breakdown.communication_exposed = line.communication_exposed;
  step.traffic = analytic_traffic(question, rates, fabric, input);
  step.segments = {{"forward", line.forward},
                   {"backward", line.backward},
                   {servers ? "push and pull after backward" : "all-reduce after backward", line.communication_exposed},
                   {"weight update", line.update},
                   {"waiting for input", line.input_exposed}};
  return step;
}

StepParts aggregate_step(const StepQuestion& question, Detail detail) {
  const Scenario& scenario = question.scenario;
  const hardware::Node& node = scenario.cluster.node;
  const Reached rates = reached(question);
  const bool alone_in_server = question.gpus_per_node == 1;
  const cost::PaiSetting setting{.peak = rates.device.compute,
                                 .memory = rates.device.memory,
                                 .pcie = rates.host_link,
                                 // One GPU per server sends nothing to a neighbour.
                                 .nvlink = alone_in_server ? Bandwidth::infinity() : rates.peer,
                                 .network = rates.network,
                                 .efficiency = cost::Efficiency::uniform(1.0),
                                 .gpus_per_server = question.gpus_per_node,
                                 .workers_per_server = question.gpus_per_node,
                                 .pcie_uplinks = node.pcie_uplinks};
  const cost::PaiJob job{workload::features_at(*scenario.model, scenario.batch, scenario.precision),
                         plan::architecture_of(scenario.strategy.kind, question.nodes, question.gpus()),
                         question.gpus()};
  const cost::PaiStep parts = cost::pai_step(job, setting);
  StepParts step;
  step.bounds = {parts.ideal_overlap(), parts.no_overlap()};
  step.breakdown.compute = parts.compute;
  step.breakdown.memory = parts.memory;
  step.breakdown.communication = parts.weights();
  step.breakdown.communication_exposed = parts.weights();
  step.breakdown.input_exposed = parts.input;
  if (scenario.overlap == plan::Overlap::kIdeal) {
    // The bound: what is longest hides the others. Calculation keeps its share, the rest is what sticks out.
    step.breakdown.communication_exposed = max(parts.weights() - parts.calculation(), Time::zero());
    step.breakdown.input_exposed = max(parts.input - max(parts.calculation(), parts.weights()), Time::zero());
  }
  step.time = step.breakdown.step();
  if (detail == Detail::kTime) return step;
  const auto add = [&](std::string_view link, Time time, Bandwidth rate) {
    if (time > Time::zero()) step.traffic.push_back({std::string(link), time * rate, time});
  };
  add("network", parts.network, rates.network);
  add(peer_name(node), parts.nvlink, rates.peer);
  add("pcie host", parts.pcie + parts.input, rates.host_link);
  step.segments = {{"input", step.breakdown.input_exposed},
                   {"calculation", parts.calculation()},
                   {"weights", step.breakdown.communication_exposed}};
  return step;
}

}  // namespace

void prepare(StepQuestion& question) {
  question.messages.clear();
  if (question.fidelity == answer::Fidelity::kAggregate || question.gpus() == 1) return;
  const Scenario& scenario = question.scenario;
  question.messages = scenario.strategy.kind == StrategyKind::kPs
                          ? plan::pieces(*scenario.model, scenario.strategy, scenario.batch)
                          : plan::buckets(*scenario.model, scenario.strategy, scenario.batch);
}

StepParts step_parts(const StepQuestion& question, Detail detail) {
  return question.fidelity == answer::Fidelity::kAnalytic ? analytic_step(question, detail)
                                                          : aggregate_step(question, detail);
}

}  // namespace ddlsim::whatif
