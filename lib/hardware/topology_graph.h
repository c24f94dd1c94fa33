// What a Topology holds; Boost.Graph stays behind this door.
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "ddlsim/hardware/topology.h"

namespace ddlsim::hardware {

inline constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// The directed edges among some vertices; a bundled edge is its index in the topology.
using LocalGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, std::size_t>;

/// The PCIe tree of a server, or the switches of the network.
struct Region {
  std::vector<std::size_t> members;  // local index -> vertex
  LocalGraph graph;
};

struct Topology::Graph {
  std::vector<Vertex> vertices;
  std::vector<Edge> edges;
  std::vector<std::size_t> gpus;
  std::vector<std::size_t> nics;
  std::vector<Region> servers;                    // without NVLink and network
  Region network;                                 // leaf and spine switches
  std::vector<std::size_t> local;                 // vertex -> local index
  std::vector<std::vector<std::size_t>> nvlinks;  // vertex -> NVLink edges out of it, nearest index first
  std::vector<std::size_t> uplink;                // NIC -> edge to its leaf switch
  std::vector<std::size_t> nearest;               // GPU -> NIC
  std::unordered_map<std::string, std::size_t> by_id;

  [[nodiscard]] const Region& region(std::size_t vertex) const {
    const std::int64_t server = vertices[vertex].server;
    return server == kNoServer ? network : servers[static_cast<std::size_t>(server)];
  }

  /// Fills what follows from vertices and edges.
  void index();
  void choose_nics();
  /// Edges from one vertex to another of the same region, by the fewest costly links; empty where there is no way.
  [[nodiscard]] std::vector<std::size_t> shortest(Ends ends) const;
  /// Cost of the way from a vertex to every other of its region, by local index.
  [[nodiscard]] std::vector<std::int64_t> costs_from(std::size_t vertex) const;
  /// Edges of NVLink alone, through NVSwitches or one other GPU.
  [[nodiscard]] std::vector<std::size_t> by_nvlink(Ends ends) const;
  /// Between servers, or to a switch of the network.
  [[nodiscard]] std::vector<std::size_t> by_network(Ends ends) const;
  [[nodiscard]] Route describe(Ends ends, std::vector<std::size_t> path) const;
};

}  // namespace ddlsim::hardware
