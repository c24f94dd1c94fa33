#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "nvlink_rings.h"
#include "topology_graph.h"

namespace ddlsim::hardware {
namespace {

/// More GPUs than this in one server keep their own order.
constexpr std::size_t kMostSearched = 64;
/// Steps of the search for a ring of NVLinks; the boards that exist need a few hundred.
constexpr int kRingSteps = 20'000;

using Order = std::vector<std::size_t>;

class Rings {
 public:
  explicit Rings(const Topology& topology)
      : topology_(topology), servers_(static_cast<std::size_t>(topology.servers())) {
    for (const std::size_t gpu : topology.gpus()) {
      servers_[static_cast<std::size_t>(topology.vertices()[gpu].server)].push_back(gpu);
    }
    std::erase_if(servers_, [](const Order& gpus) { return gpus.empty(); });
    nvlinks_.resize(topology.vertices().size());
    for (std::size_t i = 0; i < topology.edges().size(); ++i) {
      if (topology.edges()[i].kind == EdgeKind::kNvlink) nvlinks_[topology.edges()[i].ends.from].push_back(i);
    }
  }

  [[nodiscard]] std::optional<Ring> best() {
    if (topology_.gpus().size() < 2) return std::nullopt;
    for (const Order& gpus : servers_) pools_.push_back(pool_of(gpus));
    std::optional<Ring> best = build(servers_);
    std::vector<Order> searched = servers_;
    std::vector<Order> greedy = servers_;
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      if (servers_[s].size() < 3 || servers_[s].size() > kMostSearched) continue;
      const auto classes = path_classes(servers_[s]);
      searched[s] = order_of(servers_[s], nvlink_ring(classes));
      greedy[s] = order_of(servers_[s], nearest_first(classes));
    }
    for (const auto& orders : {searched, greedy}) {
      if (orders == servers_) continue;
      const std::optional<Ring> other = build(orders);
      if (other && (!best || other->bandwidth > best->bandwidth)) best = other;
    }
    return best;
  }

 private:
  using Classes = std::vector<std::vector<PathClass>>;

  /// What the links between the GPUs of a server carry as rings.
  struct Pool {
    Bandwidth bandwidth{};  // zero: no rings of NVLinks between GPUs
    bool direct = false;    // from GPU to GPU, not through a third
  };

  [[nodiscard]] Pool pool_of(const Order& gpus) {
    LinkMatrix rates(gpus.size(), std::vector<double>(gpus.size(), 0.0));
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      for (const std::size_t edge : nvlinks_[gpus[i]]) {
        const Edge& link = topology_.edges()[edge];
        const auto to = std::find(gpus.begin(), gpus.end(), link.ends.to);
        if (to == gpus.end()) continue;
        double& rate = rates[i][static_cast<std::size_t>(to - gpus.begin())];
        rate += link.bandwidth.in(bytes_per_second);
        least = std::min(least, rate);
      }
    }
    if (!std::isfinite(least)) return {};
    for (auto& row : rates) {
      for (double& rate : row) rate /= least;
    }
    const auto known = searched_.find(rates);
    const NvlinkRings found = known != searched_.end() ? known->second : nvlink_rings(rates);
    if (known == searched_.end()) searched_.emplace(std::move(rates), found);
    return {bytes_per_second(least) * found.rings, found.direct};
  }

  [[nodiscard]] Classes path_classes(const Order& gpus) const {
    Classes classes(gpus.size(), std::vector<PathClass>(gpus.size(), PathClass::kSelf));
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      for (std::size_t k = 0; k < gpus.size(); ++k) {
        const auto route = topology_.route({gpus[i], gpus[k]});
        classes[i][k] = route ? route->path : PathClass::kNet;
      }
    }
    return classes;
  }

  static Order order_of(const Order& gpus, const Order& places) {
    Order order;
    for (const std::size_t place : places) order.push_back(gpus[place]);
    return order.empty() ? gpus : order;
  }

  /// A ring of NVLink hops alone, through third GPUs where there is no other; empty where none was found.
  static Order nvlink_ring(const Classes& classes) {
    const Order direct = nvlink_ring(classes, PathClass::kNvl);
    return direct.empty() ? nvlink_ring(classes, PathClass::kNvb) : direct;
  }

  /// A ring of hops no worse than `worst`, by depth first search.
  static Order nvlink_ring(const Classes& classes, PathClass worst) {
    const std::size_t n = classes.size();
    Order order{0};
    std::vector<bool> taken(n, false);
    taken[0] = true;
    std::size_t next = 1;
    for (int step = 0; step < kRingSteps; ++step) {
      while (next < n && (taken[next] || classes[order.back()][next] > worst)) ++next;
      if (next < n) {
        taken[next] = true;
        order.push_back(next);
        next = 1;
        if (order.size() == n && classes[order.back()][0] <= worst) return order;
        continue;
      }
      if (order.size() == 1) return {};
      next = order.back() + 1;
      taken[order.back()] = false;
      order.pop_back();
    }
    return {};
  }

  /// From the first GPU always on to the nearest that is left.
  static Order nearest_first(const Classes& classes) {
    const std::size_t n = classes.size();
    Order order{0};
    std::vector<bool> taken(n, false);
    taken[0] = true;
    while (order.size() < n) {
      std::size_t best = kNone;
      for (std::size_t i = 1; i < n; ++i) {
        if (!taken[i] && (best == kNone || classes[order.back()][i] < classes[order.back()][best])) best = i;
      }
      taken[best] = true;
      order.push_back(best);
    }
    return order;
  }

  /// Where the rings enter a server: the first GPU at each of its NICs.
  [[nodiscard]] std::vector<std::size_t> entries(const Order& order) const {
    std::vector<std::size_t> places;
    std::vector<std::size_t> nics;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::size_t nic = topology_.nearest_nic(order[i]).value_or(kNone);
      if (std::find(nics.begin(), nics.end(), nic) != nics.end()) continue;
      nics.push_back(nic);
      places.push_back(i);
    }
    return places;
  }

  [[nodiscard]] std::optional<Ring> build(const std::vector<Order>& orders) const {
    if (orders.size() == 1) return build(orders, {{0}}, 1);
    std::vector<std::vector<std::size_t>> places;
    std::size_t most = kNone;
    for (const Order& order : orders) {
      places.push_back(entries(order));
      most = std::min(most, places.back().size());
    }
    auto best = build(orders, places, 1);
    if (most == 1) return best;
    auto all = build(orders, places, most);
    return best && all && all->bandwidth <= best->bandwidth ? best : all;
  }

  /// `rings` rings, ring c entering server s at places[s][c].
  [[nodiscard]] std::optional<Ring> build(const std::vector<Order>& orders,
                                          const std::vector<std::vector<std::size_t>>& places,
                                          std::size_t rings) const {
    Ring ring;
    ring.rings = static_cast<std::int64_t>(rings);
    std::vector<std::int64_t> flows(topology_.edges().size(), 0);
    Bandwidth rate = Bandwidth::infinity();
    const bool alone = orders.size() == 1;
    for (std::size_t s = 0; s < orders.size(); ++s) {
      const Order& order = orders[s];
      const std::size_t n = order.size();
      const std::size_t start = places[s][0];
      for (std::size_t i = 0; i < n; ++i) ring.order.push_back(order[(start + i) % n]);
      for (std::size_t i = start; i < start + n; ++i) {
        const std::size_t next = (i + 1) % n;
        // A ring that enters at `next` has left the server before.
        const auto end = places[s].begin() + static_cast<std::ptrdiff_t>(rings);
        const bool enters = !alone && std::find(places[s].begin(), end, next) != end;
        const std::int64_t users = ring.rings - (enters ? 1 : 0);
        const bool of_first = alone || next != start;
        if (n == 1 || (users == 0 && !of_first)) continue;
        const auto hop = topology_.route({order[i % n], order[next]});
        if (!hop) return std::nullopt;
        if (of_first) ring.hops.push_back(*hop);
        load(*hop, users, pools_[s], flows, rate);
      }
      if (alone || n == 0) continue;
      const std::size_t t = (s + 1) % orders.size();
      for (std::size_t c = 0; c < rings; ++c) {
        const std::size_t exit = order[(places[s][c] + n - 1) % n];
        const auto hop = topology_.route({exit, orders[t][places[t][c]]});
        if (!hop) return std::nullopt;
        if (c == 0) ring.hops.push_back(*hop);
        load(*hop, 1, {}, flows, rate);
      }
    }
    finish(ring, flows, rate);
    return ring;
  }

  /// Counts a hop; one over links between GPUs draws on the pool of its server.
  static void load(const Route& hop, std::int64_t users, const Pool& pool, std::vector<std::int64_t>& flows,
                   Bandwidth& rate) {
    if (users == 0) return;
    const bool direct = hop.path == PathClass::kNvl && hop.edges.size() == 1;
    if (pool.bandwidth > Bandwidth::zero() && (direct || (!pool.direct && hop.path == PathClass::kNvb))) {
      rate = min(rate, pool.bandwidth / static_cast<double>(users));
      return;
    }
    for (const std::size_t edge : hop.edges) flows[edge] += users;
  }

  void finish(Ring& ring, const std::vector<std::int64_t>& flows, Bandwidth rate) const {
    const auto edges = topology_.edges();
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (flows[i] == 0) continue;
      const Bandwidth share = edges[i].bandwidth / static_cast<double>(flows[i]);
      if (share >= rate) continue;
      rate = share;
      ring.edge = i;
      ring.flows = flows[i];
    }
    ring.bandwidth = rate * static_cast<double>(ring.rings);
    for (const Route& hop : ring.hops) ring.latency = max(ring.latency, hop.latency);
  }

  const Topology& topology_;
  std::vector<Order> servers_;
  std::vector<std::vector<std::size_t>> nvlinks_;  // vertex -> NVLink edges out of it
  std::vector<Pool> pools_;                        // of each server
  std::map<LinkMatrix, NvlinkRings> searched_;     // servers are mostly alike
};

}  // namespace

std::optional<Ring> Topology::ring() const { return Rings(*this).best(); }

}  // namespace ddlsim::hardware
