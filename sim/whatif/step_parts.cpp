#include "step_parts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "ddlsim/cost/collective.h"
#include "ddlsim/cost/nccl.h"
#include "ddlsim/cost/pai.h"
#include "ddlsim/cost/parameter_server.h"
#include "ddlsim/cost/straggler.h"
#include "ddlsim/events/event_step.h"
#include "ddlsim/step/step.h"
#include "ddlsim/whatif/collective.h"
#include "gpu_time.h"

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

/// From where the model's layers were measured to here. The share of the peak that was reached there is reached here.
cost::WaveScaling measured_scaling(const StepQuestion& question) {
  const Scenario& scenario = question.scenario;
  const auto& on = scenario.model->measured;
  if (!on) return {};
  const cost::Efficiency& usual = scenario.efficiency;
  const Bandwidth memory = scenario.cluster.node.gpu.memory_bandwidth;
  return {.memory = on->memory / memory * (usual.memory / question.efficiency.memory),
          .compute = on->peak / question.peak * (usual.compute / question.efficiency.compute),
          .batch = static_cast<double>(scenario.batch) / static_cast<double>(scenario.model->batch)};
}

Reached reached(const StepQuestion& question) {
  const hardware::Node& node = question.scenario.cluster.node;
  const cost::Efficiency& share = question.efficiency;
  Reached rates;
  rates.device = {question.peak * share.compute, node.gpu.memory_bandwidth * share.memory, measured_scaling(question)};
  const std::int64_t fullest_uplink = (question.gpus_per_node + node.pcie_uplinks - 1) / node.pcie_uplinks;
  rates.on_one_uplink = static_cast<double>(fullest_uplink);
  rates.host_link = node.host_link.bandwidth * share.pcie;
  rates.pcie_share = min(rates.host_link / rates.on_one_uplink, node.pcie.bandwidth * share.pcie);
  rates.peer = node.peer_bandwidth(question.gpus_per_node) * (node.joined_by_nvlink() ? share.nvlink : share.pcie);
  rates.server_network = question.scenario.cluster.network_bandwidth() * share.network;
  rates.network =
      min(rates.server_network, node.pcie.bandwidth * (share.pcie * static_cast<double>(question.gpus_per_node)));
  return rates;
}

std::string_view peer_name(const hardware::Node& node) { return node.joined_by_nvlink() ? "nvlink" : "pcie"; }

plan::Strategy strategy_of(const StepQuestion& question) {
  plan::Strategy strategy = question.scenario.strategy;
  if (strategy.servers == 0) strategy.servers = question.nodes;
  if (question.nodes == 1) strategy.servers = 1;
  return strategy;
}

/// A collective library over the question's GPUs. Rates that the question varies scale with it.
Expected<cost::CollectiveModel> collectives_of(const StepQuestion& question) {
  const Scenario& scenario = question.scenario;
  cost::Communicator communicator = communicator_of(scenario, question.nodes, question.gpus_per_node);
  const double pcie = question.efficiency.pcie / scenario.efficiency.pcie;
  const double nvlink = question.efficiency.nvlink / scenario.efficiency.nvlink;
  communicator.intra = communicator.intra * (scenario.cluster.node.joined_by_nvlink() ? nvlink : pcie);
  communicator.pcie = communicator.pcie * pcie;
  communicator.inter = communicator.inter * (question.efficiency.network / scenario.efficiency.network);
  communicator.intra_latency = communicator.intra_latency * question.latency_factor;
  communicator.inter_latency = communicator.inter_latency * question.latency_factor;
  communicator.transport_speed = question.transport_speed;
  if (question.rdma) communicator = cost::driven_by_rdma(communicator);
  return cost::CollectiveModel::create(communicator, collective_library_of(scenario), scenario.collective_table);
}

cost::PsFabric servers_of(const StepQuestion& question, const Reached& rates, const plan::Strategy& strategy) {
  const Scenario& scenario = question.scenario;
  cost::PsFabric fabric{.workers = question.gpus(),
                        .workers_per_node = question.gpus_per_node,
                        .servers = strategy.servers,
                        .local = question.nodes == 1,
                        .colocated = strategy.colocated,
                        .local_aggregation = strategy.local_aggregation && question.gpus_per_node > 1,
                        .pushes_meet_pulls = !strategy.pull_at_start,
                        .pcie = rates.pcie_share,
                        .peer = rates.peer,
                        .node_network = rates.network,
                        .server_network = rates.server_network,
                        .server_memory = scenario.server_memory * question.server_speed,
                        .update_accesses = static_cast<double>(update_accesses(scenario.model->optimizer)),
                        .latency = scenario.cluster.node.network.latency * question.latency_factor};
  if (scenario.ps_transport) fabric.transport = cost::transport_cost(*scenario.ps_transport);
  fabric.transport.connection = fabric.transport.connection * question.transport_speed;
  fabric.transport.per_message = fabric.transport.per_message / question.transport_speed;
  return fabric;
}

/// Share of a GPU's multiprocessors that a running collective holds: one thread block per channel of NCCL.
double held_share(const StepQuestion& question) {
  const hardware::Node& node = question.scenario.cluster.node;
  if (question.scenario.collective.kind != cost::CollectiveLibraryKind::kNccl || node.gpu.sm_count <= 0) return 0;
  // 24 blocks of an all-gather on an H100 (NVIDIA developer forum 337991); a mesh of six NVLinks has 12 channels;
  // without NVLink NCCL makes two, doubled.
  double blocks = 4;
  if (node.joined_by_nvlink()) blocks = node.gpu_interconnect == hardware::Interconnect::kNvlink ? 24 : 12;
  return blocks / static_cast<double>(node.gpu.sm_count);
}

/// Every byte that crosses a link is written where it arrives, read from there, and summed or stored (derived).
constexpr double kAccessesPerByte = 3;

DataSize total_of(const std::vector<plan::Message>& messages, bool gathered) {
  DataSize sum;
  for (const plan::Message& message : messages) {
    if (message.gathered == gathered) sum += message.size * static_cast<double>(message.count);
  }
  return sum;
}

/// What one step sends over the busiest instance of each link.
class Traffic {
 public:
  void add(std::string_view link, DataSize bytes, Bandwidth rate) {
    if (bytes > DataSize::zero()) rows_.push_back({std::string(link), bytes, bytes / rate});
  }
  std::vector<answer::LinkTraffic> take() { return std::move(rows_); }

 private:
  std::vector<answer::LinkTraffic> rows_;
};

/// Of what one GPU's worker sends, the part that crosses its own link to the host.
DataSize over_host_link(const cost::PsFabric& servers, DataSize all) {
  if (!servers.local && !servers.transport.through_host) return DataSize::zero();
  return servers.local_aggregation ? all / static_cast<double>(servers.workers_per_node) : all;
}

/// The busier of a worker node's port and the fullest server's, one direction.
void add_server_traffic(const StepQuestion& question, const Reached& rates, const cost::PsFabric& servers,
                        Traffic& traffic) {
  const auto per_node = static_cast<double>(servers.workers_per_node);
  const double nodes = static_cast<double>(servers.workers) / per_node;
  const double flows = servers.local_aggregation ? 1.0 : per_node;
  DataSize all;
  DataSize spread;
  std::map<std::int64_t, DataSize> placed;
  for (const plan::Message& message : question.messages) {
    const DataSize size = message.size * static_cast<double>(message.count);
    all += size;
    (message.server < 0 ? spread : placed[message.server]) += size;
  }
  DataSize fullest;
  for (const auto& [server, size] : placed) fullest = max(fullest, size);
  const DataSize at_server = (spread / static_cast<double>(servers.servers) + fullest) * (nodes * flows);
  const DataSize at_node = all * flows;
  if (servers.colocated) {
    // Its own pushes leave by the same direction as what its server serves; one part in `nodes` stays at home.
    traffic.add("network", (at_node + at_server) * ((nodes - 1.0) / nodes), rates.network);
    return;
  }
  const bool node_binds = at_node / rates.network >= at_server / rates.server_network;
  traffic.add("network", node_binds ? at_node : at_server, node_binds ? rates.network : rates.server_network);
}

/// What all-reduces and gathers send over the busiest network port of a node, by each one's algorithm.
DataSize collective_network_bytes(const std::vector<plan::Message>& messages, const cost::CollectiveModel& model) {
  DataSize sum;
  const auto gpus = static_cast<double>(model.communicator().gpus);
  for (const plan::Message& message : messages) {
    const primitives::CollectiveOp op =
        message.gathered ? primitives::CollectiveOp::kAllGather : primitives::CollectiveOp::kAllReduce;
    const DataSize size = message.gathered ? message.size * gpus : message.size;
    sum += model.network_bytes(op, size) * static_cast<double>(message.count);
  }
  return sum;
}

std::vector<answer::LinkTraffic> analytic_traffic(const StepQuestion& question, const Reached& rates,
                                                  const step::Fabric& fabric, DataSize input) {
  Traffic traffic;
  const DataSize summed = total_of(question.messages, false);
  const DataSize gathered = total_of(question.messages, true);
  DataSize over_pcie = input * rates.on_one_uplink;
  if (const auto* collectives = std::get_if<step::CollectiveFabric>(&fabric)) {
    const cost::EffectiveRates reach =
        cost::effective_rates(collectives->model->communicator(), collectives->model->library());
    const auto n = static_cast<double>(question.gpus());
    const DataSize hop = summed * (2.0 * (n - 1.0) / n) + gathered * (n - 1.0);
    if (question.nodes > 1) {
      traffic.add("network", collective_network_bytes(question.messages, *collectives->model), reach.inter);
    }
    if (question.gpus() > question.nodes) {
      const bool staged = collectives->model->library().kind == cost::CollectiveLibraryKind::kMpi;
      traffic.add(staged ? "pcie" : peer_name(question.scenario.cluster.node), hop, reach.intra);
    }
  } else if (const auto* servers = std::get_if<cost::PsFabric>(&fabric)) {
    const DataSize all = summed + gathered;
    over_pcie += over_host_link(*servers, all) * rates.on_one_uplink;
    if (!servers->local) add_server_traffic(question, rates, *servers, traffic);
  }
  traffic.add("pcie host", over_pcie, rates.host_link);
  return traffic.take();
}

step::StepSetting setting_of(const StepQuestion& question, const Reached& rates, step::Fabric fabric) {
  const Scenario& scenario = question.scenario;
  const workload::Model& model = *scenario.model;
  const plan::Strategy& strategy = scenario.strategy;
  const bool servers = std::holds_alternative<cost::PsFabric>(fabric);
  const bool collective = std::holds_alternative<step::CollectiveFabric>(fabric);
  const bool among_layers = model.measured && model.measured->update;
  const bool synchronous = !servers || strategy.consistency == plan::Consistency::kSync;
  const auto batch = static_cast<double>(scenario.batch);
  const auto* by = std::get_if<cost::PsFabric>(&fabric);
  const DataSize all = total_of(question.messages, false) + total_of(question.messages, true);
  const DataSize pulled = by == nullptr ? DataSize::zero() : over_host_link(*by, all);
  step::StepSetting setting{
      .device = rates.device,
      .launch_interval = question.launch_interval,
      .gpu_time_factor = question.gpu_time_factor,
      .activation = activation_size(scenario.precision),
      .batch = batch,
      .fabric = fabric,
      .overlap = scenario.overlap.value_or(plan::Overlap::kBackward),
      .cycle = std::nullopt,
      .fusion_buffer = strategy.bucket,
      .priority = strategy.priority && (servers || collective),
      .pull_at_start = servers && strategy.pull_at_start,
      .accumulation = strategy.accumulation,
      .held = collective ? held_share(question) : 0,
      .held_memory = bytes(kAccessesPerByte) / scenario.cluster.node.gpu.memory_bandwidth,
      .wait = synchronous ? scenario.jitter * cost::expected_largest(question.gpus()) : 0,
      .update = servers || among_layers ? Time::zero() : updated_bytes(question) / rates.device.memory,
      .input = model.input_per_sample * batch / rates.pcie_share,
      .pulled = pulled};
  if (plan::grouping_of(strategy) == plan::Grouping::kFusion && collective) setting.cycle = strategy.cycle;
  return setting;
}

std::vector<cost::PsLoad> loads_of(const std::vector<plan::Message>& messages) {
  std::vector<cost::PsLoad> loads;
  loads.reserve(messages.size());
  for (const plan::Message& message : messages) {
    loads.push_back({message.size, static_cast<double>(message.count), message.server});
  }
  return loads;
}

/// Workers that wait for nobody, or for those far behind alone.
void relax(const StepQuestion& question, const step::Fabric& fabric, step::StepTimeline& line) {
  const plan::Strategy& strategy = question.scenario.strategy;
  const auto* servers = std::get_if<cost::PsFabric>(&fabric);
  if (servers == nullptr || strategy.consistency == plan::Consistency::kSync) return;
  const Time bound = max(line.step, cost::async_bound(*servers, loads_of(question.messages)));
  Time wait;
  if (strategy.consistency == plan::Consistency::kStale) {
    const double jitter = question.scenario.jitter * cost::expected_largest(question.gpus());
    wait = (line.forward + line.backward) * (jitter / static_cast<double>(strategy.staleness + 1));
  }
  line.waiting += wait;
  line.communication_exposed += bound - line.step;
  line.step = bound + wait;
}

/// One worker's own loop for asynchronous servers: its node's other workers apart, it meets nobody at a server.
cost::PsFabric alone_at(const cost::PsFabric& fabric) {
  cost::PsFabric alone = fabric;
  alone.senders = fabric.local_aggregation ? 1 : fabric.workers_per_node;
  return alone;
}

/// What run_step takes. Stays where it is: the setting points into it.
struct StepInput {
  StepInput(const StepQuestion& question, Detail detail) : rates(reached(question)) {
    const plan::Strategy strategy = strategy_of(question);
    if (question.gpus() > 1 && strategy.kind == StrategyKind::kPs) {
      fabric = servers_of(question, rates, strategy);
    } else if (question.gpus() > 1) {
      collectives = std::move(*collectives_of(question));  // prepare() saw that it can be made
      fabric = step::CollectiveFabric{&*collectives};
    }
    setting = setting_of(question, rates, fabric);
    setting.communication_alone = detail == Detail::kAll;
    if (question.calibrated) {
      const cost::Efficiency& usual = question.scenario.efficiency;
      const double memory = usual.memory / question.efficiency.memory;
      layers = varied_times(*question.calibrated, usual.compute / question.efficiency.compute, memory);
      setting.layers = layers;
      if (setting.update > Time::zero()) setting.update = question.calibrated->update * memory;
    }
    const auto* servers = std::get_if<cost::PsFabric>(&fabric);
    synchronous = servers == nullptr || strategy.consistency == plan::Consistency::kSync;
    if (!synchronous) setting.fabric = alone_at(*servers);
  }
  StepInput(const StepInput&) = delete;
  StepInput& operator=(const StepInput&) = delete;

  Reached rates;
  std::optional<cost::CollectiveModel> collectives;
  step::Fabric fabric;
  std::vector<cost::LayerTimes> layers;
  step::StepSetting setting;
  bool synchronous = true;
};

StepParts parts_of(const StepQuestion& question, const StepInput& input, step::StepTimeline line, Detail detail) {
  const Scenario& scenario = question.scenario;
  const plan::Strategy& strategy = scenario.strategy;
  const bool servers = std::holds_alternative<cost::PsFabric>(input.fabric);
  relax(question, input.fabric, line);
  StepParts step;
  step.time = line.step;
  if (detail == Detail::kTime) return step;
  step.breakdown.compute = line.compute;
  step.breakdown.memory = line.memory;
  step.breakdown.launch = line.launch;
  step.breakdown.input_exposed = line.input_exposed;
  step.breakdown.communication = line.communication;
  step.breakdown.communication_exposed = line.communication_exposed;
  step.breakdown.other = line.contention + line.waiting;
  step.traffic =
      analytic_traffic(question, input.rates, input.fabric,
                       scenario.model->input_per_sample * static_cast<double>(scenario.batch * strategy.accumulation));
  const auto add = [&](std::string name, Time time, bool always) {
    if (always || time > Time::zero()) step.segments.push_back({std::move(name), time});
  };
  add("earlier passes", line.earlier_passes, false);
  add("forward", line.forward, true);
  add("backward", line.backward, true);
  add("copying gradients", line.copying, false);
  add("kernels slowed by collectives", line.contention, false);
  add("waiting for the slowest GPU", line.waiting, false);
  add(servers ? "push and pull, exposed" : "all-reduce, exposed", line.communication_exposed, true);
  add("weight update", line.update, true);
  add("waiting for input", line.input_exposed, true);
  return step;
}

StepParts analytic_step(const StepQuestion& question, Detail detail) {
  const StepInput input(question, detail);
  return parts_of(question, input, step::run_step(*question.scenario.model, question.messages, input.setting), detail);
}

events::EventSetting event_setting_of(const StepQuestion& question, const StepInput& input) {
  const Scenario& scenario = question.scenario;
  events::EventSetting event{
      .jobs = scenario.jobs, .offset = scenario.jobs_offset, .workers = {}, .synchronous = input.synchronous};
  const std::int64_t slow = scenario.straggler > 1 ? std::min(scenario.stragglers, question.gpus()) : 0;
  if (slow < question.gpus()) event.workers.push_back({1, question.gpus() - slow});
  if (slow > 0) event.workers.push_back({scenario.straggler, slow});
  return event;
}

/// The step of a simulation, with what servers that do not wait add to it.
Time step_of(const StepQuestion& question, const StepInput& input, const events::EventStep& run) {
  const bool stale = question.scenario.strategy.consistency == plan::Consistency::kStale;
  step::StepTimeline line = run.analytic;
  // Who may be a few steps ahead is held by the slowest in the end.
  line.step = stale ? run.slowest : run.step;
  relax(question, input.fabric, line);
  return line.step;
}

/// Adds to the parts what the simulation found beyond the recurrence; what rounding left goes to the largest.
void add_found(const StepQuestion& question, Time total, Time unshared, StepParts& step) {
  const Time slower = question.scenario.straggler > 1 ? max(unshared - step.time, Time::zero()) : Time::zero();
  const Time sharing = question.scenario.jobs > 1 ? max(total - unshared, Time::zero()) : Time::zero();
  answer::Breakdown& parts = step.breakdown;
  parts.other += slower;
  parts.communication += sharing;
  parts.communication_exposed += sharing;
  const bool all_slow = question.scenario.stragglers >= question.gpus();
  if (slower > Time::zero()) step.segments.push_back({all_slow ? "slower GPUs" : "waiting for the straggler", slower});
  if (sharing > Time::zero()) step.segments.push_back({"sharing the network with other jobs", sharing});
  const Time rest = total - step.time - slower - sharing;
  Time* largest = &parts.compute;
  for (Time* part : {&parts.memory, &parts.launch, &parts.communication_exposed, &parts.input_exposed}) {
    if (*part > *largest) largest = part;
  }
  *largest += rest;
  std::max_element(step.segments.begin(), step.segments.end(), [](const auto& a, const auto& b) {
    return a.time < b.time;
  })->time += rest;
}

Expected<StepParts> event_step(const StepQuestion& question, Detail detail) {
  const StepInput input(question, detail);
  events::EventSetting event = event_setting_of(question, input);
  const workload::Model& model = *question.scenario.model;
  const auto run = events::run_event_step(model, question.messages, input.setting, event);
  if (!run) return tl::unexpected<Error>(run.error());
  const Time total = step_of(question, input, *run);
  StepParts step = parts_of(question, input, run->analytic, detail);
  if (detail == Detail::kAll) {
    Time unshared = event.jobs > 1 ? step.time : total;
    if (event.jobs > 1 && question.scenario.straggler > 1) {
      event.jobs = 1;
      const auto alone = events::run_event_step(model, question.messages, input.setting, event);
      if (!alone) return tl::unexpected<Error>(alone.error());
      unshared = step_of(question, input, *alone);
    }
    add_found(question, total, unshared, step);
  }
  step.time = total;
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

Expected<void> prepare(StepQuestion& question) {
  question.messages.clear();
  if (!question.scenario.profiles.empty() && question.fidelity != answer::Fidelity::kAggregate) {
    question.calibrated = calibrate(question, reached(question).device);
  }
  if (question.fidelity == answer::Fidelity::kAggregate || question.gpus() == 1) return {};
  const Scenario& scenario = question.scenario;
  question.messages =
      plan::messages(*scenario.model, strategy_of(question), scenario.batch * scenario.strategy.accumulation);
  if (scenario.strategy.kind == StrategyKind::kPs) return {};
  if (const auto model = collectives_of(question); !model) return tl::unexpected<Error>(model.error());
  return {};
}

Expected<StepParts> step_parts(const StepQuestion& question, Detail detail) {
  switch (question.fidelity) {
    case answer::Fidelity::kAggregate: return aggregate_step(question, detail);
    case answer::Fidelity::kAnalytic: return analytic_step(question, detail);
    case answer::Fidelity::kEvent: return event_step(question, detail);
  }
  return analytic_step(question, detail);
}

step::StepRecord record(const StepQuestion& question) {
  const StepInput input(question, Detail::kTime);
  step::StepRecord record;
  static_cast<void>(step::run_step(*question.scenario.model, question.messages, input.setting, &record));
  return record;
}

Expected<events::EventStep> simulate(const StepQuestion& question) {
  const StepInput input(question, Detail::kTime);
  events::EventSetting event = event_setting_of(question, input);
  event.named = true;
  return events::run_event_step(*question.scenario.model, question.messages, input.setting, event);
}

}  // namespace ddlsim::whatif
