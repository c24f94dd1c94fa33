#include "job_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ddlsim/cost/nccl.h"

namespace ddlsim::events {

struct JobLinks::Stand {
  std::int64_t server = 0;
  std::vector<std::int64_t> ranks{};  // of the job, counted on from server 0's first
  std::vector<std::size_t> gpus{};    // vertices; none without a topology

  [[nodiscard]] double count() const { return static_cast<double>(ranks.size()); }
};

namespace {

/// Ranks of one stage between a rank of it and the next stage's.
std::int64_t stage_apart(const plan::Grid& grid) {
  std::int64_t apart = 1;
  for (const plan::Axis axis : grid.order) {
    if (axis == plan::Axis::kPipeline) break;
    apart *= grid.at(axis);
  }
  return apart;
}

}  // namespace

void JobLinks::show(const SimulatedJob& job, std::set<std::int64_t>& shown) {
  const plan::StepPlan& plan = *job.step->plan;
  for (std::size_t c = 0; c < plan.classes.size(); ++c) {
    // Kinds of GPUs are told as servers of their own.
    const std::int64_t first = plan.classes[c].stage * stage_apart(plan.grid) / plan.grid.gpus_per_node;
    shown.insert(plan.folds ? static_cast<std::int64_t>(c) : first);
  }
}

JobLinks::JobLinks(LinkTable& table, const ServerSet& servers, const SimulatedJob& job, std::size_t number,
                   std::optional<std::size_t> uplink)
    : table_(table), servers_(servers), job_(job), number_(number), uplink_(uplink) {
  if (servers_.topology) {
    const auto vertices = servers_.topology->vertices();
    for (std::size_t i = 0; i < vertices.size(); ++i) {
      if (vertices[i].kind == hardware::VertexKind::kSocket) sockets_.push_back(i);
      if (vertices[i].kind == hardware::VertexKind::kLeafSwitch) leaf_ = i;
    }
  }
  const plan::StepPlan& plan = *job_.step->plan;
  for (const plan::Row& row : plan.rows) {
    if (row.kind != plan::RowKind::kCollective || !job_.step->groups[row.group]) continue;
    if (ways_.contains({row.group, row.rank_class, row.needed_by})) continue;
    if (row.rank_class == row.needed_by) {
      add_group(row.group, row.rank_class);
    } else {
      add_sends(row);
    }
  }
  for (std::size_t c = 0; c < plan.classes.size(); ++c) add_copies(c);
  add_ports();
}

std::vector<JobLinks::Stand> JobLinks::stands(std::size_t rank_class) const {
  const plan::StepPlan& plan = *job_.step->plan;
  const std::int64_t per_node = plan.grid.gpus_per_node;
  std::vector<Stand> all;
  for (const std::int64_t server : servers_.shown) {
    Stand stand{.server = server};
    for (std::int64_t rank = server * per_node; rank < (server + 1) * per_node; ++rank) {
      const std::int64_t stage = rank / stage_apart(plan.grid) % plan.grid.at(plan::Axis::kPipeline);
      if (!folds() && (stage != plan.classes[rank_class].stage || rank >= plan.grid.ranks())) continue;
      stand.ranks.push_back(rank);
      if (!servers_.topology) continue;
      stand.gpus.push_back(
          servers_.topology->gpus()[static_cast<std::size_t>(job_.first_gpu + rank - server * per_node)]);
    }
    if (stand.ranks.empty()) continue;
    all.push_back(std::move(stand));
  }
  return all;
}

std::size_t JobLinks::port(std::int64_t server, Direction direction, Bandwidth capacity) const {
  return table_.link(
      fmt::format("{}server {}: network {}", servers_.name, server, direction == Direction::kOut ? "out" : "in"),
      capacity);
}

std::size_t JobLinks::edge(std::int64_t server, std::size_t index) const {
  const hardware::Edge& edge = servers_.topology->edges()[index];
  const auto vertices = servers_.topology->vertices();
  const hardware::Vertex& from = vertices[edge.ends.from];
  const hardware::Vertex& to = vertices[edge.ends.to];
  const bool own = from.kind == hardware::VertexKind::kGpu || to.kind == hardware::VertexKind::kGpu;
  return table_.link(fmt::format("{}{}server {}: {} > {}", own ? fmt::format("job {}, ", number_ + 1) : "",
                                 servers_.name, server, from.id, to.id),
                     edge.bandwidth);
}

/// What a group makes of an edge; without a group, copies.
Bandwidth JobLinks::reached(const hardware::Edge& edge, std::optional<std::size_t> group) const {
  const hardware::Node& node = job_.cluster->node;
  const Bandwidth copied = edge.bandwidth * (job_.step->rates.host_link / node.host_link.bandwidth);
  if (edge.kind == hardware::EdgeKind::kSocketLink) return edge.bandwidth;
  if (!group || edge.kind == hardware::EdgeKind::kPcie || edge.kind == hardware::EdgeKind::kHostBridge) return copied;
  if (edge.kind == hardware::EdgeKind::kNetwork) {
    return edge.bandwidth * (network_rate(*group) / node.network_bandwidth());
  }
  const cost::CollectiveModel& model = *job_.step->groups[*group];
  const hardware::PeerPath peers = node.peers(model.communicator().gpus_per_node());
  if (!peers.by_nvlink()) return edge.bandwidth;
  return edge.bandwidth * (cost::effective_rates(model.communicator(), model.library()).intra / peers.bandwidth);
}

void JobLinks::route(const Stand& stand, hardware::Ends ends, std::optional<std::size_t> group, double share,
                     Loads& loads) const {
  const auto way = servers_.topology->route(ends);
  if (!way) return;  // what joins them is known to the price alone
  for (const std::size_t index : way->edges) {
    const Bandwidth rate = reached(servers_.topology->edges()[index], group);
    if (rate > Bandwidth::zero()) loads.push_back({edge(stand.server, index), bytes(share) / rate});
  }
}

/// The GPUs of each of its groups on a server, as places among those of the class.
std::vector<std::vector<std::size_t>> JobLinks::groups_on(const Stand& stand, std::size_t group) const {
  const plan::StepPlan& plan = *job_.step->plan;
  std::map<std::int64_t, std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < stand.ranks.size(); ++i) {
    members[folds() ? 0 : plan::group_number(plan.grid, plan.groups[group], stand.ranks[i])].push_back(i);
  }
  std::vector<std::vector<std::size_t>> groups;
  for (auto& [key, places] : members) groups.push_back(std::move(places));
  return groups;
}

/// What one GPU sends to the others of its group over NVLinks that join it to them; false where none do.
bool JobLinks::over_mesh(const Stand& stand, std::size_t gpu, std::span<const std::size_t> members, std::size_t group,
                         Loads& loads) const {
  const auto edges = servers_.topology->edges();
  std::vector<std::size_t> direct;
  Bandwidth all;
  for (std::size_t e = 0; e < edges.size(); ++e) {
    if (edges[e].ends.from != gpu || edges[e].kind != hardware::EdgeKind::kNvlink) continue;
    const bool member = std::any_of(members.begin(), members.end(),
                                    [&](std::size_t other) { return stand.gpus[other] == edges[e].ends.to; });
    if (!member) continue;
    direct.push_back(e);
    all += edges[e].bandwidth;
  }
  for (const std::size_t e : direct) {
    loads.push_back({edge(stand.server, e), bytes(edges[e].bandwidth / all) / reached(edges[e], group)});
  }
  return !direct.empty();
}

/// One byte of every GPU to the others of its group.
void JobLinks::inside(const Stand& stand, std::size_t group, Loads& loads) const {
  const cost::CollectiveModel& model = *job_.step->groups[group];
  const bool staged =
      model.communicator().fabric == cost::GpuFabric::kHostMemory || plan::stages_in_host(model.library().kind);
  for (const auto& members : groups_on(stand, group)) {
    for (std::size_t i = 0; i < members.size() && members.size() > 1; ++i) {
      const std::size_t gpu = stand.gpus[members[i]];
      if (staged) {
        route(stand, {gpu, socket_of(gpu)}, group, 1, loads);
        route(stand, {socket_of(gpu), gpu}, group, 1, loads);
      } else if (!over_mesh(stand, gpu, members, group, loads)) {
        route(stand, {gpu, stand.gpus[members[(i + 1) % members.size()]]}, group, 1, loads);
      }
    }
  }
}

/// `bytes_of_gpu` of every GPU to the network, or from it.
void JobLinks::between(const Stand& stand, std::size_t group, double bytes_of_gpu, Direction direction,
                       Loads& loads) const {
  if (servers_.topology) {
    for (const std::size_t gpu : stand.gpus) {
      const bool out = direction == Direction::kOut;
      route(stand, out ? hardware::Ends{gpu, leaf_} : hardware::Ends{leaf_, gpu}, group, bytes_of_gpu, loads);
    }
    return;
  }
  const Bandwidth rate = network_rate(group);
  if (rate > Bandwidth::zero() && rate < Bandwidth::infinity()) {
    const double sent = bytes_of_gpu * stand.count();
    loads.push_back({port(stand.server, direction, rate), bytes(sent) / rate});
  }
}

/// What all groups that share a server's ports reach there together.
Bandwidth JobLinks::network_rate(std::size_t group) const {
  const cost::CollectiveModel& model = *job_.step->groups[group];
  const auto siblings = static_cast<double>(job_.step->plan->groups[group].siblings);
  return cost::effective_rates(model.communicator(), model.library()).inter * siblings;
}

void JobLinks::add_group(std::size_t group, std::size_t rank_class) {
  const plan::StepPlan& plan = *job_.step->plan;
  const cost::CollectiveModel& model = *job_.step->groups[group];
  const bool networked = model.communicator().nodes > 1;
  Loads in_server;
  Loads to_others;
  double groups = 1;     // of the class, on one server
  double on_server = 1;  // of its ranks
  for (const Stand& stand : stands(rank_class)) {
    groups = static_cast<double>(groups_on(stand, group).size());
    on_server = stand.count();
    if (servers_.topology && model.communicator().gpus_per_node() > 1) inside(stand, group, in_server);
    if (!networked) continue;
    const double of_gpu = groups / stand.count();
    between(stand, group, of_gpu, Direction::kOut, to_others);
    between(stand, group, of_gpu, Direction::kIn, to_others);
  }
  if (uplink_ && networked) {
    const double nodes = folds() ? static_cast<double>(model.communicator().nodes)
                                 : static_cast<double>(plan.classes[rank_class].ranks) / on_server;
    to_others.push_back({*uplink_, bytes(groups * nodes) / table_.capacity(*uplink_)});
  }
  ways_[{group, rank_class, rank_class}] = {added(in_server), added(to_others)};
}

/// Every rank of a stage to the rank of the other that has its place there.
void JobLinks::add_sends(const plan::Row& row) {
  const std::vector<Stand> from = stands(row.rank_class);
  const std::vector<Stand> to = stands(row.needed_by);
  Loads in_server;
  Loads to_others;
  if (job_.step->groups[row.group]->communicator().nodes > 1) {
    for (const Stand& stand : from) between(stand, row.group, 1, Direction::kOut, to_others);
    for (const Stand& stand : to) between(stand, row.group, 1, Direction::kIn, to_others);
    if (uplink_) {
      const auto ranks = static_cast<double>(job_.step->plan->classes[row.rank_class].ranks);
      to_others.push_back({*uplink_, bytes(ranks) / table_.capacity(*uplink_)});
    }
  } else if (servers_.topology) {
    for (const Stand& here : from) {
      const auto there = std::find_if(to.begin(), to.end(), [&](const Stand& s) { return s.server == here.server; });
      if (there == to.end()) continue;
      for (std::size_t i = 0; i < std::min(here.gpus.size(), there->gpus.size()); ++i) {
        route(here, {here.gpus[i], there->gpus[i]}, row.group, 1, in_server);
      }
    }
  }
  ways_[{row.group, row.rank_class, row.needed_by}] = {added(in_server), added(to_others)};
}

/// Between every GPU and its socket.
void JobLinks::add_copies(std::size_t rank_class) {
  if (!servers_.topology) return;
  for (const Direction direction : {Direction::kOut, Direction::kIn}) {
    Loads loads;
    for (const Stand& stand : stands(rank_class)) {
      for (const std::size_t gpu : stand.gpus) {
        const std::size_t socket = socket_of(gpu);
        route(stand, direction == Direction::kOut ? hardware::Ends{gpu, socket} : hardware::Ends{socket, gpu}, {}, 1,
              loads);
      }
    }
    if (const auto shape = added(loads)) copies_.emplace(std::pair{rank_class, direction}, *shape);
  }
}

/// Of parameter servers, whose pieces have ports to themselves but for what other jobs send.
void JobLinks::add_ports() {
  const auto& servers = job_.step->servers_seen_by_one ? job_.step->servers_seen_by_one : job_.step->servers;
  if (!servers || servers->local) return;
  const auto finite = [](Bandwidth rate) { return rate > Bandwidth::zero() && rate < Bandwidth::infinity(); };
  const auto with_uplink = [&](Loads loads) {
    if (uplink_) loads.push_back({*uplink_, bytes(1) / table_.capacity(*uplink_)});
    return table_.add(loads);
  };
  std::set<std::int64_t> holders{-1};
  for (const plan::Row& row : job_.step->plan->rows) holders.insert(row.server);
  for (const Direction direction : {Direction::kOut, Direction::kIn}) {
    const std::string_view word = direction == Direction::kOut ? "out" : "in";
    for (std::size_t w = 0; finite(servers->node_network) && w < job_.step->plan->classes.size(); ++w) {
      Loads loads;
      const auto at = static_cast<std::int64_t>(w);
      if (servers_.topology) {
        const auto edges = servers_.topology->edges();
        for (std::size_t e = 0; e < edges.size(); ++e) {
          const bool leaves = edges[e].kind == hardware::EdgeKind::kNetwork &&
                              (direction == Direction::kOut ? edges[e].ends.to : edges[e].ends.from) == leaf_;
          if (leaves) loads.push_back({edge(at, e), bytes(1) / servers->node_network});
        }
      } else {
        loads.push_back({port(at, direction, servers->node_network), bytes(1) / servers->node_network});
      }
      ports_[{false, at, direction}] = with_uplink(std::move(loads));
    }
    for (const std::int64_t holder : holders) {
      if (!finite(servers->server_network)) break;
      const std::string name = holder < 0
                                   ? fmt::format("{}parameter servers: network {}", servers_.name, word)
                                   : fmt::format("{}parameter server {}: network {}", servers_.name, holder, word);
      ports_[{true, holder, direction}] =
          with_uplink({{table_.link(name, servers->server_network), bytes(1) / servers->server_network}});
    }
  }
}

std::optional<JobLinks::Shape> JobLinks::added(const Loads& loads) {
  if (loads.empty()) return std::nullopt;
  return table_.add(loads);
}

std::size_t JobLinks::socket_of(std::size_t gpu) const {
  std::size_t nearest = sockets_.front();
  std::size_t fewest = 0;
  for (const std::size_t socket : sockets_) {
    const auto way = servers_.topology->route({gpu, socket});
    if (!way || (fewest > 0 && way->edges.size() >= fewest)) continue;
    nearest = socket;
    fewest = way->edges.size();
  }
  return nearest;
}

JobLinks::Ways JobLinks::ways(const GroupWay& of) const {
  const auto found = ways_.find(of);
  return found == ways_.end() ? Ways{} : found->second;
}

std::optional<JobLinks::Shape> JobLinks::copies(std::size_t rank_class, Direction direction) const {
  const auto found = copies_.find({rank_class, direction});
  return found == copies_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<JobLinks::Shape> JobLinks::port_of_worker(std::int64_t worker, Direction direction) const {
  const auto found = ports_.find({false, worker, direction});
  return found == ports_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<JobLinks::Shape> JobLinks::port_of_server(std::int64_t server, Direction direction) const {
  const auto found = ports_.find({true, server, direction});
  return found == ports_.end() ? std::nullopt : std::optional(found->second);
}

LinkTable::Flow collective_flow(EventBuilder& builder, const JobLinks& links, const OnLinks& what, Time moving,
                                std::string_view pace) {
  const JobLinks::Ways ways = links.ways({what.group, what.from, what.to});
  const cost::WireBytes wire = what.model->cost(what.op, what.buffer).wire;
  std::vector<LinkTable::Part> parts;
  if (ways.inside) parts.push_back({*ways.inside, wire.intra * what.count});
  if (ways.between) parts.push_back({*ways.between, wire.inter * what.count});
  const DataSize told = (ways.between ? wire.inter : wire.intra) * what.count;
  return links.table().flow(builder, parts, told, moving, pace);
}

}  // namespace ddlsim::events
