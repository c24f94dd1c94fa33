// What a priced step sends over each link.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "ddlsim/cost/nccl.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/plan/order.h"

namespace ddlsim::cost {
namespace {

std::string_view peer_name(const hardware::Node& node, std::int64_t used) {
  return node.peers(used).by_nvlink() ? "nvlink" : "pcie";
}

class Traffic {
 public:
  Traffic(const plan::Job& job, const PricedStep& step) : job_(job), step_(step), plan_(*step.plan) {}

  std::vector<answer::LinkTraffic> rows() {
    std::vector<answer::LinkTraffic> busiest;
    for (std::size_t c = 0; c < plan_.classes.size(); ++c) {
      rows_.clear();
      add_class(c);
      for (answer::LinkTraffic& row : rows_) {
        const auto known = std::find_if(busiest.begin(), busiest.end(),
                                        [&](const answer::LinkTraffic& other) { return other.link == row.link; });
        if (known == busiest.end()) {
          busiest.push_back(std::move(row));
        } else if (row.time > known->time) {
          *known = std::move(row);
        }
      }
    }
    return busiest;
  }

 private:
  /// What the ranks of a class send: of a pipeline's, one stage.
  void add_class(std::size_t c) {
    const auto passes = static_cast<double>(plan::passes_of(plan::pipeline_of(plan_)));
    DataSize over_host = plan_.input * (passes * step_.rates.on_one_uplink);
    if (step_.servers) {
      over_host += step_.pulled * step_.rates.on_one_uplink;
      if (!step_.servers->local) add_servers();
    } else {
      for (std::size_t g = 0; g < plan_.groups.size(); ++g) add_group(g, c);
    }
    DataSize from_gpu;
    for (const plan::Row& row : plan_.rows) {
      if (row.rank_class != c) continue;
      const double times = static_cast<double>(row.count) * (row.every_pass ? passes : 1.0);
      const double gpus = row.alone ? 1.0 : step_.rates.on_one_uplink;
      if (row.kind == plan::RowKind::kCopy) from_gpu += row.size * (times * gpus);
      if (row.kind == plan::RowKind::kCopyBack) over_host += row.size * (times * gpus);
    }
    over_host = max(over_host, from_gpu);
    add("pcie host", over_host, step_.rates.host_link);
  }

  /// Groups along several axes share a kind of link: one row for all of them.
  void add(std::string_view link, DataSize bytes, Bandwidth rate) {
    if (bytes <= DataSize::zero()) return;
    const auto known =
        std::find_if(rows_.begin(), rows_.end(), [&](const answer::LinkTraffic& row) { return row.link == link; });
    if (known == rows_.end()) {
      rows_.push_back({std::string(link), bytes, bytes / rate});
      return;
    }
    known->bytes += bytes;
    known->time += bytes / rate;
  }

  void add_group(std::size_t g, std::size_t c) {
    const auto& model = step_.groups[g];
    if (!model) return;
    WireBytes sent;
    for (const plan::Row& row : plan_.rows) {
      if (row.kind != plan::RowKind::kCollective || row.group != g || row.rank_class != c) continue;
      const double times = static_cast<double>(row.count) *
                           (row.every_pass ? static_cast<double>(plan::passes_of(plan::pipeline_of(plan_))) : 1.0) /
                           static_cast<double>(plan_.exchange.sync_every);
      const WireBytes once = model->cost(row.op, buffer_of(row, model->communicator().gpus)).wire;
      sent.intra += once.intra * times;
      sent.inter += once.inter * times;
    }
    const EffectiveRates reach = effective_rates(model->communicator(), model->library());
    const auto siblings = static_cast<double>(plan_.groups[g].siblings);
    if (model->communicator().nodes > 1) add("network", sent.inter * siblings, reach.inter * siblings);
    if (model->communicator().gpus_per_node() > 1) {
      const bool staged = plan::stages_in_host(model->library().kind);
      add(staged ? "pcie" : peer_name(job_.cluster.node, model->communicator().gpus_per_node()), sent.intra,
          reach.intra);
    }
  }

  /// The busier of a worker node's port and the fullest server's, one direction.
  void add_servers() {
    const PsFabric& servers = *step_.servers;
    const auto per_node = static_cast<double>(servers.workers_per_node);
    const double nodes = static_cast<double>(servers.workers) / per_node;
    const double flows = servers.local_aggregation ? 1.0 : per_node;
    DataSize all;
    DataSize spread;
    std::map<std::int64_t, DataSize> placed;
    for (const plan::Row& row : plan_.rows) {
      const DataSize size = row.size * static_cast<double>(row.count);
      all += size;
      (row.server < 0 ? spread : placed[row.server]) += size;
    }
    DataSize fullest;
    for (const auto& [server, size] : placed) fullest = max(fullest, size);
    const DataSize at_server = (spread / static_cast<double>(servers.servers) + fullest) * (nodes * flows);
    const DataSize at_node = all * flows;
    if (servers.colocated) {
      // Its own pushes leave by the same direction as what its server serves; one part in `nodes` stays at home.
      add("network", (at_node + at_server * servers.pulled) * ((nodes - 1.0) / nodes), servers.node_network);
      return;
    }
    const bool node_binds = at_node / servers.node_network >= at_server / servers.server_network;
    add("network", (node_binds ? at_node : at_server) * std::max(1.0, servers.pulled),
        node_binds ? servers.node_network : servers.server_network);
  }

  const plan::Job& job_;
  const PricedStep& step_;
  const plan::StepPlan& plan_;
  std::vector<answer::LinkTraffic> rows_;
};

}  // namespace

std::vector<answer::LinkTraffic> traffic_of(const plan::Job& job, const PricedStep& step) {
  return Traffic(job, step).rows();
}

}  // namespace ddlsim::cost
