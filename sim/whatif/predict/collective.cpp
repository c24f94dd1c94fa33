#include "ddlsim/whatif/collective.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ddlsim/support/quantity_io.h"
#include "predict/notes.h"
#include "scenario/sound.h"

namespace ddlsim::whatif {
namespace {

constexpr DataSize kLargestMessage = bytes(1e16);

Expected<std::vector<DataSize>> sizes_of(const CollectiveQuestion& question) {
  const auto bad = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  const auto sound = [](DataSize size) { return size > DataSize::zero() && size <= kLargestMessage; };
  if (!sound(question.smallest) || !sound(question.largest)) return bad("sizes must be above 0 and at most 1e16 bytes");
  if (question.largest < question.smallest) return bad("the largest size is below the smallest");
  if (question.step && !sound(*question.step)) return bad("the step must be above 0 and at most 1e16 bytes");
  if (!question.step && question.factor < 2) return bad("the factor must be at least 2");
  std::vector<DataSize> sizes;
  for (DataSize size = question.smallest; size <= question.largest;) {
    if (static_cast<std::int64_t>(sizes.size()) == kMaxCollectiveRows) {
      return bad(fmt::format("more than {} sizes", to_text(kMaxCollectiveRows)));
    }
    sizes.push_back(size);
    size = question.step ? size + *question.step : size * static_cast<double>(question.factor);
  }
  return sizes;
}

answer::CollectiveRow row_of(const cost::CollectiveModel& model, primitives::CollectiveOp op, DataSize size) {
  const cost::CollectiveCost cost = model.cost(op, size);
  answer::CollectiveRow row;
  row.size = size;
  row.time = cost.time;
  if (cost.time > Time::zero()) {
    row.algorithm_bandwidth = size / cost.time;
    row.bus_bandwidth = row.algorithm_bandwidth * primitives::bus_bandwidth_factor(op, model.communicator().gpus);
  }
  row.algorithm = name_of(cost::kCollectiveAlgorithms, cost.algorithm);
  row.protocol = name_of(cost::kCollectiveProtocols, cost.protocol);
  row.provenance = cost.provenance;
  return row;
}

std::string title_of(const Scenario& scenario, const CollectiveQuestion& question, const cost::Communicator& c) {
  const hardware::Node& node = scenario.cluster.node;
  std::string text = fmt::format("{} of {} GPU{} ({}) on {} x {}", name_of(primitives::kCollectiveOps, question.op),
                                 to_text(c.gpus), c.gpus == 1 ? "" : "s", node.gpu.name, to_text(c.nodes), node.name);
  if (c.nodes > 1) {
    text += fmt::format(", network {} per server over {}", to_text_in_bits(node.network_bandwidth()),
                        name_of(hardware::kNetworkTransports, c.transport));
  }
  return text;
}

}  // namespace

std::string assumed_transport_note(const Scenario& scenario) {
  if (cost::assumed_transport(scenario.cluster.node) != cost::NetworkTransport::kTcp) {
    return "assumed: RDMA drives the network, as on servers of GPU modules from Hopper on; the interval reaches to "
           "TCP; "
           "--set network.transport=tcp says otherwise";
  }
  const auto& own = scenario.own_transport;
  if (!own || own == cost::NetworkTransport::kTcp) {
    return "assumed: TCP drives the network; --set network.transport=... says otherwise";
  }
  return fmt::format(
      "assumed: TCP drives the network, of which a rate alone is stated; --set network.transport={} has it driven as "
      "the "
      "server's own",
      name_of(hardware::kNetworkTransports, *own));
}

std::optional<std::string> omni_path_note(const Scenario& scenario) {
  const bool by_nccl = scenario.collective.kind == plan::CollectiveLibraryKind::kNccl;
  const bool over_it = cost::communicator_of(scenario).transport == cost::NetworkTransport::kOmniPath;
  if (!by_nccl || !over_it || scenario.cluster.nodes == 1) return std::nullopt;
  return "assumed: NCCL drives Omni-Path by its verbs, one port of two at 42 % of its rate (cost/nccl.h); where it has "
         "the maker's plugin (psm2-nccl): --set network.transport=infiniband";
}

Expected<answer::CollectiveReport> sweep_collective(const Scenario& scenario, const CollectiveQuestion& question) {
  if (auto sound = check_cluster_values(scenario); !sound) return tl::unexpected<Error>(sound.error());
  const auto sizes = sizes_of(question);
  if (!sizes) return tl::unexpected<Error>(sizes.error());
  const cost::Communicator communicator = cost::communicator_of(scenario);
  std::vector<cost::CollectiveLibrary> libraries;
  for (const ComparedLibrary& compared : question.libraries) {
    libraries.push_back(cost::collective_library_of(scenario));
    libraries.back().kind = compared.kind;
    if (compared.algorithm) libraries.back().algorithm = compared.algorithm;
  }
  if (libraries.empty()) libraries.push_back(cost::collective_library_of(scenario));

  answer::CollectiveReport report;
  report.title = title_of(scenario, question, communicator);
  report.op = question.op;
  report.gpus = communicator.gpus;
  report.nodes = communicator.nodes;
  for (const cost::CollectiveLibrary& library : libraries) {
    // A measurement belongs to the library that made it, which the table does not say: it never meets a comparison.
    const auto model = cost::CollectiveModel::create(communicator, library,
                                                     libraries.size() == 1 ? scenario.collective_table : nullptr);
    if (!model) return tl::unexpected<Error>(model.error());
    answer::CollectiveSweep sweep;
    sweep.library = name_of(plan::kCollectiveLibraries, library.kind.get());
    if (library.algorithm && libraries.size() > 1) {
      sweep.library += ":" + std::string(name_of(cost::kCollectiveAlgorithms, *library.algorithm));
    }
    for (const DataSize size : *sizes) sweep.rows.push_back(row_of(*model, question.op, size));
    report.sweeps.push_back(std::move(sweep));
  }
  if (communicator.nodes > 1 && communicator.transport_assumed) {
    report.notes.emplace_back(assumed_transport_note(scenario));
  }
  if (auto note = omni_path_note(scenario)) report.notes.push_back(std::move(*note));
  if (auto congestion = congestion_note(scenario.cluster)) report.notes.push_back(std::move(*congestion));
  const auto& table = scenario.collective_table;
  if (table != nullptr && libraries.size() > 1) report.notes.emplace_back("libraries are compared by their formulas");
  if (table != nullptr && libraries.size() == 1 &&
      !table->time(question.op, communicator.gpus, communicator.nodes, question.smallest)) {
    report.notes.push_back(fmt::format("the table does not hold {} of {} GPUs on {} nodes: the formulas answer",
                                       name_of(primitives::kCollectiveOps, question.op), communicator.gpus,
                                       communicator.nodes));
  }
  return report;
}

Expected<std::shared_ptr<const hardware::CollectiveTable>> load_collective_table(
    const std::filesystem::path& path, const importers::CollectiveFileDefaults& defaults) {
  const auto rows = importers::load_collectives(path, defaults);
  if (!rows) return tl::unexpected<Error>(rows.error());
  auto table = hardware::CollectiveTable::create(*rows);
  if (table) return std::make_shared<const hardware::CollectiveTable>(std::move(*table));
  Error error = std::move(table.error());
  if (error.where.file.empty()) error.where.file = path.string();
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace ddlsim::whatif
