#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/report/views.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "table.h"

namespace ddlsim::report {
namespace {

using hardware::NetworkPath;
using hardware::PathClass;
using hardware::Ring;
using hardware::Route;
using hardware::Topology;

/// More GPUs than this in one server make no readable matrix.
constexpr std::size_t kMostInMatrix = 128;

const std::string& id(const Topology& topology, std::size_t vertex) { return topology.vertices()[vertex].id; }

std::string name(PathClass path) { return std::string(name_of(hardware::kPathClasses, path)); }

/// Servers are alike, or there is one: the first stands for all.
std::vector<std::size_t> shown_gpus(const Topology& topology) {
  std::vector<std::size_t> gpus;
  const std::int64_t first = topology.vertices()[topology.gpus().front()].server;
  for (const std::size_t gpu : topology.gpus()) {
    if (topology.vertices()[gpu].server == first) gpus.push_back(gpu);
  }
  return gpus;
}

struct Facts {
  std::vector<std::size_t> gpus;
  std::vector<NetworkPath> network;  // of gpus
  std::vector<std::vector<std::optional<Route>>> routes;
  std::optional<Ring> ring;
};

Facts facts_of(const Topology& topology) {
  Facts facts{.gpus = shown_gpus(topology), .network = {}, .routes = {}, .ring = topology.ring()};
  for (NetworkPath& path : topology.network_paths()) {
    if (std::find(facts.gpus.begin(), facts.gpus.end(), path.gpu) != facts.gpus.end()) {
      facts.network.push_back(std::move(path));
    }
  }
  if (facts.gpus.size() > kMostInMatrix) return facts;
  for (const std::size_t from : facts.gpus) {
    auto& row = facts.routes.emplace_back();
    for (const std::size_t to : facts.gpus) {
      auto route = topology.route({from, to});
      row.push_back(route ? std::optional(std::move(*route)) : std::nullopt);
    }
  }
  return facts;
}

Table network_table(const Topology& topology, const Facts& facts) {
  Table table({"GPU", "nearest NIC", "path", "alone", "all GPUs send"});
  table.numbers_from(3);
  for (const NetworkPath& path : facts.network) {
    table.add({id(topology, path.gpu), id(topology, path.nic), name(path.route.path), to_text(path.route.bandwidth),
               to_text(path.together)});
  }
  return table;
}

std::string network_csv(const Topology& topology, const Facts& facts) {
  Table table({"gpu", "nic", "path", "bandwidth_bytes_per_s", "bandwidth_all_gpus_send_bytes_per_s"});
  for (const NetworkPath& path : facts.network) {
    table.add({id(topology, path.gpu), id(topology, path.nic), name(path.route.path),
               fmt::format("{}", path.route.bandwidth.in(bytes_per_second)),
               fmt::format("{}", path.together.in(bytes_per_second))});
  }
  return table.render(Format::kCsv);
}

/// NVIDIA's and AMD's tools (nvidia-smi topo -m, rocm-smi --showtopo) have their own names for links between GPUs.
std::string name_in_matrix(PathClass path, const TopologyTitle& title) {
  if (title.gpu_links == "NVLink") return name(path);
  if (path == PathClass::kNvl) return "XGMI";
  return path == PathClass::kNvb ? "XGMI-2" : name(path);
}

Table matrix_table(const Topology& topology, const Facts& facts, const TopologyTitle& title) {
  std::vector<std::string> header{""};
  for (const std::size_t gpu : facts.gpus) header.push_back(id(topology, gpu));
  Table table(std::move(header));
  for (std::size_t i = 0; i < facts.routes.size(); ++i) {
    std::vector<std::string> row{id(topology, facts.gpus[i])};
    for (const auto& route : facts.routes[i]) row.push_back(route ? name_in_matrix(route->path, title) : "-");
    table.add(std::move(row));
  }
  return table;
}

std::string narrowest(const Topology& topology, const Ring& ring, const TopologyTitle& title) {
  const std::string links = title.gpu_links == "NVLink" ? "nvlink" : title.gpu_links;
  if (!ring.edge) return links + ", all rings over the links between GPUs";
  const hardware::Edge& edge = topology.edges()[*ring.edge];
  const std::string kind(name_of(hardware::kEdgeKinds, edge.kind));
  return fmt::format("{}, {} to {} ({}{})", edge.kind == hardware::EdgeKind::kNvlink ? links : kind,
                     id(topology, edge.ends.from), id(topology, edge.ends.to), to_text(edge.bandwidth),
                     ring.flows > 1 ? fmt::format(", {} flows", ring.flows) : "");
}

Json narrowest_json(const Topology& topology, const Ring& ring) {
  if (!ring.edge) return nullptr;
  const hardware::Edge& edge = topology.edges()[*ring.edge];
  return {{"kind", name_of(hardware::kEdgeKinds, edge.kind)},
          {"from", id(topology, edge.ends.from)},
          {"to", id(topology, edge.ends.to)},
          {"bandwidth_bytes_per_s", edge.bandwidth.in(bytes_per_second)},
          {"flows", ring.flows}};
}

Json ring_json(const Topology& topology, const Facts& facts) {
  if (!facts.ring) return nullptr;
  const Ring& ring = *facts.ring;
  Json order = Json::array();
  for (const std::size_t gpu : ring.order) order.push_back(id(topology, gpu));
  return {{"gpus", ring.order.size()},
          {"rings", ring.rings},
          {"bandwidth_bytes_per_s", ring.bandwidth.in(bytes_per_second)},
          {"latency_s", ring.latency.in(seconds)},
          {"narrowest", narrowest_json(topology, ring)},
          {"order", std::move(order)}};
}

Json json_of(const Topology& topology, const Facts& facts, const TopologyTitle& title) {
  Json vertices = Json::object();
  for (const auto& [word, kind] : hardware::kVertexKinds) vertices[std::string(word)] = topology.count(kind);
  Json gpus = Json::array();
  for (const NetworkPath& path : facts.network) {
    gpus.push_back({{"id", id(topology, path.gpu)},
                    {"nic", id(topology, path.nic)},
                    {"path", name(path.route.path)},
                    {"bandwidth_bytes_per_s", path.route.bandwidth.in(bytes_per_second)},
                    {"bandwidth_all_gpus_send_bytes_per_s", path.together.in(bytes_per_second)},
                    {"latency_s", path.route.latency.in(seconds)}});
  }
  Json ids = Json::array();
  for (const std::size_t gpu : facts.gpus) ids.push_back(id(topology, gpu));
  Json paths = Json::array();
  Json rates = Json::array();
  for (const auto& row : facts.routes) {
    Json path_row = Json::array();
    Json rate_row = Json::array();
    for (const auto& route : row) {
      path_row.push_back(route ? Json(name(route->path)) : Json(nullptr));
      const bool moves = route && !route->edges.empty();
      rate_row.push_back(moves ? Json(route->bandwidth.in(bytes_per_second)) : Json(nullptr));
    }
    paths.push_back(std::move(path_row));
    rates.push_back(std::move(rate_row));
  }
  return {{"schema", "ddlsim/topology/1"},
          {"title", title.text},
          {"servers", topology.servers()},
          {"vertices", std::move(vertices)},
          {"links", topology.edges().size() / 2},
          {"ring", ring_json(topology, facts)},
          {"gpus", std::move(ids)},
          {"network", std::move(gpus)},
          {"gpu_paths", std::move(paths)},
          {"gpu_bandwidth_bytes_per_s", std::move(rates)},
          {"notes", title.notes}};
}

std::string answer_first(const Topology& topology, const Facts& facts, const TopologyTitle& title) {
  if (!facts.ring) return "one GPU: nothing to send to\n";
  const Ring& ring = *facts.ring;
  const std::string rings = ring.rings > 1 ? fmt::format("{} rings", ring.rings) : std::string("a ring");
  std::string text = fmt::format("{} over {} GPUs: {} per GPU, held back by {}\n", rings, ring.order.size(),
                                 to_text(ring.bandwidth), narrowest(topology, ring, title));
  if (!title.through_host) return text;
  return fmt::format("through the host's memory, {} per GPU; the links alone would carry {}",
                     to_text(*title.through_host), text);
}

}  // namespace

std::string render(const Topology& topology, const TopologyTitle& title, Format format) {
  const Facts facts = facts_of(topology);
  if (format == Format::kJson) return dump(json_of(topology, facts, title));
  if (format == Format::kCsv) return network_csv(topology, facts);
  std::string text = answer_first(topology, facts, title) + "\n" + title.text + "\n";
  std::string counts;
  for (const auto& [word, kind] : hardware::kVertexKinds) {
    if (const std::int64_t count = topology.count(kind); count > 0) {
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, word);
    }
  }
  text += fmt::format("{}; {} full-duplex links\n", counts, topology.edges().size() / 2);
  const std::string of = topology.servers() > 1 ? " of the first server" : "";
  if (facts.network.empty()) {
    text += "\nno NIC\n";
  } else {
    text += fmt::format("\nGPUs{} to the network:\n{}", of, network_table(topology, facts).render(format));
  }
  if (facts.routes.empty()) {
    text += fmt::format("\nno matrix of paths: more than {} GPUs in a server\n", kMostInMatrix);
  } else if (facts.gpus.size() > 1) {
    text += fmt::format("\npaths between GPUs{}:\n{}", of, matrix_table(topology, facts, title).render(format));
  }
  for (const std::string& note : title.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace ddlsim::report
