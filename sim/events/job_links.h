// Which links what a job sends goes over: the ways of its groups through the servers it stands on. Private to the room.
//
// Jobs of one number stand on the same servers. What is alike is one: a server stands for those that a stage fills
// alike, so a server is simulated where some class of some job begins, and a class that spans several loads each.
//
// With the cluster known the links are the edges of hardware::Topology, of one server with its NICs' links to the leaf;
// GPU g of a class is the g-th place from the job's first. Edges that end at a GPU are the job's own.
//   inside, NVSwitch or PCIe   a ring through the group's GPUs in their order, over the topology's routes
//   inside, NVLink mesh        what a GPU sends to the others, spread over its NVLinks to them by their width
//   inside, through the host   every GPU to its socket and back
//   to other servers           an equal part of what the group sends from every GPU, over the NIC that is nearest to it
//   from stage to stage        rank r of the one to rank r of the other
//   copies                     between every GPU and its socket
//   a worker of servers        all NICs alike
// One byte fills an NVLink for 1/(share x width), share being what the price reaches of the width of the group's links;
// likewise of NICs; of PCIe what copies reach (efficiency.pcie); of the link between sockets all, for its rate is one
// that was reached (hardware::TopologyOptions).
// Without the cluster a server has one port to the network, in and out, at what its jobs reach there, and nothing
// inside it fills.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ddlsim/cost/price.h"
#include "ddlsim/events/step.h"
#include "ddlsim/hardware/topology.h"
#include "link_table.h"

namespace ddlsim::events {

/// Servers that some jobs stand on.
struct ServerSet {
  std::string name;                              // before the names of its servers; empty for the first
  std::optional<hardware::Topology> topology{};  // of one of them
  std::set<std::int64_t> shown{};                // which of them are simulated
};

enum class Direction { kOut, kIn };

/// Of a group, from one rank class to another: whose links a transfer crosses.
struct GroupWay {
  std::size_t group = 0;
  std::size_t from = 0;
  std::size_t to = 0;
  auto operator<=>(const GroupWay&) const = default;
};

class JobLinks {
 public:
  using Shape = LinkTable::Shape;

  /// The ways of one group of a class: inside servers for a byte on a GPU's links, between them for one on a server's.
  struct Ways {
    std::optional<Shape> inside{};
    std::optional<Shape> between{};
  };

  JobLinks(LinkTable& table, const ServerSet& servers, const SimulatedJob& job, std::size_t number,
           std::optional<std::size_t> uplink);

  /// Which servers classes of a job begin on.
  static void show(const SimulatedJob& job, std::set<std::int64_t>& shown);

  [[nodiscard]] LinkTable& table() const { return table_; }
  /// A collective of a class, or what one class sends to another.
  [[nodiscard]] Ways ways(const GroupWay& of) const;
  /// Copies of all GPUs of a class.
  [[nodiscard]] std::optional<Shape> copies(std::size_t rank_class, Direction direction) const;
  /// Of a worker's server, or of a parameter server (-1: of all alike); none where it is no link.
  [[nodiscard]] std::optional<Shape> port_of_worker(std::int64_t worker, Direction direction) const;
  [[nodiscard]] std::optional<Shape> port_of_server(std::int64_t server, Direction direction) const;

 private:
  struct Stand;  // the ranks of a class on one server
  using Loads = std::vector<LinkTable::Load>;

  void add_group(std::size_t group, std::size_t rank_class);
  void add_sends(const plan::Row& row);
  void add_copies(std::size_t rank_class);
  void add_ports();
  std::optional<Shape> added(const Loads& loads);
  [[nodiscard]] bool folds() const { return job_.step->plan->folds; }
  [[nodiscard]] std::vector<Stand> stands(std::size_t rank_class) const;
  [[nodiscard]] std::vector<std::vector<std::size_t>> groups_on(const Stand& stand, std::size_t group) const;
  void inside(const Stand& stand, std::size_t group, Loads& loads) const;
  bool over_mesh(const Stand& stand, std::size_t gpu, std::span<const std::size_t> members, std::size_t group,
                 Loads& loads) const;
  void between(const Stand& stand, std::size_t group, double bytes_of_gpu, Direction direction, Loads& loads) const;
  void route(const Stand& stand, hardware::Ends ends, std::optional<std::size_t> group, double share,
             Loads& loads) const;
  [[nodiscard]] Bandwidth reached(const hardware::Edge& edge, std::optional<std::size_t> group) const;
  [[nodiscard]] Bandwidth network_rate(std::size_t group) const;
  [[nodiscard]] std::size_t edge(std::int64_t server, std::size_t index) const;
  [[nodiscard]] std::size_t port(std::int64_t server, Direction direction, Bandwidth capacity) const;
  [[nodiscard]] std::size_t socket_of(std::size_t gpu) const;

  LinkTable& table_;
  const ServerSet& servers_;
  const SimulatedJob& job_;
  std::size_t number_;
  std::optional<std::size_t> uplink_;
  std::vector<std::size_t> sockets_;  // vertices
  std::size_t leaf_ = 0;
  std::map<GroupWay, Ways> ways_;
  std::map<std::pair<std::size_t, Direction>, Shape> copies_;
  std::map<std::tuple<bool, std::int64_t, Direction>, Shape> ports_;
};

/// What a collective puts on links, `count` times over.
struct OnLinks {
  const cost::CollectiveModel* model = nullptr;
  primitives::CollectiveOp op = primitives::CollectiveOp::kAllReduce;
  DataSize buffer{};
  double count = 1;
  std::size_t group = 0;
  std::size_t from = 0;  // classes
  std::size_t to = 0;
};

/// Its transfer, that takes `moving` alone.
[[nodiscard]] LinkTable::Flow collective_flow(EventBuilder& builder, const JobLinks& links, const OnLinks& what,
                                              Time moving, std::string_view pace);

}  // namespace ddlsim::events
