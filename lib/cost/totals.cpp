#include "ddlsim/cost/totals.h"

#include <string>
#include <string_view>
#include <utility>

#include "ddlsim/cost/pai.h"
#include "ddlsim/plan/lower.h"

namespace ddlsim::cost {

Expected<TotalsStep> totals_step(const plan::Job& job, const Variation& variation) {
  const hardware::Cluster& cluster = job.cluster;
  const auto reached = reached_rates(job, variation);
  if (!reached) return tl::unexpected<Error>(reached.error());
  const ReachedRates& rates = *reached;
  const PaiSetting setting{.peak = rates.device.compute,
                           .memory = rates.device.memory,
                           .pcie = rates.host_link,
                           // One GPU per server sends nothing to a neighbour.
                           .nvlink = cluster.gpus_per_node == 1 ? Bandwidth::infinity() : rates.peer,
                           .network = rates.network,
                           .efficiency = plan::Efficiency::uniform(1.0),
                           .gpus_per_server = cluster.gpus_per_node,
                           .workers_per_server = cluster.gpus_per_node,
                           .pcie_uplinks = cluster.node.pcie_uplinks};
  const auto model = plan::model_as_run(job);
  if (!model) return tl::unexpected<Error>(model.error());
  const PaiJob whole{workload::features_at(**model, job.batch, job.precision),
                     plan::architecture_of(job.strategy, cluster.nodes, cluster.gpus()), cluster.gpus()};
  const PaiStep parts = pai_step(whole, setting);
  TotalsStep step;
  answer::Timeline& line = step.line;
  line.bounds = {parts.ideal_overlap(), parts.no_overlap()};
  line.parts.compute = parts.compute;
  line.parts.memory = parts.memory;
  line.parts.communication = parts.weights();
  line.parts.communication_exposed = parts.weights();
  line.parts.input_exposed = parts.input;
  if (job.overlap == plan::Overlap::kIdeal) {
    // The bound: what is longest hides the others. Calculation keeps its share, the rest is what sticks out.
    line.parts.communication_exposed = max(parts.weights() - parts.calculation(), Time::zero());
    line.parts.input_exposed = max(parts.input - max(parts.calculation(), parts.weights()), Time::zero());
  }
  line.step = line.parts.step();
  const auto add = [&](std::string_view link, Time time, Bandwidth rate) {
    if (time > Time::zero()) step.traffic.push_back({std::string(link), time * rate, time});
  };
  add("network", parts.network, rates.network);
  add(cluster.node.peers(cluster.gpus_per_node).by_nvlink() ? "nvlink" : "pcie", parts.nvlink, rates.peer);
  add("pcie host", parts.pcie + parts.input, rates.host_link);
  line.critical_path = {{"input", line.parts.input_exposed},
                        {"calculation", parts.calculation()},
                        {"weights", line.parts.communication_exposed}};
  return step;
}

}  // namespace ddlsim::cost
