#include "ddlsim/events/collective_programs.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/support/checked.h"

namespace ddlsim::events {
namespace {

/// A port has two directions.
struct Port {
  LinkId out{};
  LinkId in{};
};

/// From one rank to another. When one message stands for all, `alike` is how many cross the ports of a node at a time.
struct Way {
  std::int64_t from = 0;
  std::int64_t to = 0;
  double alike = 1;
};

/// Messages between ranks. What it adds was checked at the door, so adding cannot fail.
class Builder {
 public:
  explicit Builder(const AllReduce& collective) : setting_(collective) {
    const bool each = setting_.ranks == Ranks::kEach;
    shown_ = each ? setting_.nodes * setting_.gpus_per_node : 1;
    if (setting_.gpus_per_node > 1) add_ports(gpus_, shown_, "gpu", setting_.gpu);
    if (setting_.nodes > 1) add_ports(nodes_, each ? setting_.nodes : 1, "node", setting_.network);
    for (std::int64_t rank = 0; rank < shown_; ++rank) {
      streams_.push_back(*program_.add_stream({.name = fmt::format("gpu {}", rank)}));
    }
  }

  /// Ranks that are described: all, or one that stands for all.
  [[nodiscard]] std::int64_t shown() const { return shown_; }
  [[nodiscard]] std::int64_t node_of(std::int64_t rank) const { return rank / setting_.gpus_per_node; }
  [[nodiscard]] Program& program() { return program_; }

  RouteId route(const Way& way) {
    const auto [from, to, alike] = way;
    if (node_of(from) == node_of(to)) return *program_.add_route({{port(gpus_, from).out}, {port(gpus_, to).in}});
    return *program_.add_route({{port(nodes_, node_of(from)).out, alike}, {port(nodes_, node_of(to)).in, alike}});
  }
  [[nodiscard]] Time latency(const Way& way) const {
    return node_of(way.from) == node_of(way.to) ? setting_.gpu_latency : setting_.network_latency;
  }
  [[nodiscard]] StreamId stream(std::int64_t rank) const { return at(streams_, rank); }

 private:
  template <typename T>
  static const T& at(const std::vector<T>& all, std::int64_t index) {
    return all[static_cast<std::size_t>(index) % all.size()];  // folded: the one there is
  }
  static const Port& port(const std::vector<Port>& ports, std::int64_t index) { return at(ports, index); }

  void add_ports(std::vector<Port>& ports, std::int64_t count, std::string_view what, Bandwidth capacity) {
    for (std::int64_t i = 0; i < count; ++i) {
      ports.push_back({*program_.add_link({fmt::format("{} {} out", what, i), capacity}),
                       *program_.add_link({fmt::format("{} {} in", what, i), capacity})});
    }
  }

  const AllReduce& setting_;
  Program program_;
  std::int64_t shown_ = 1;
  std::vector<Port> gpus_;
  std::vector<Port> nodes_;
  std::vector<StreamId> streams_;
};

/// `steps` rounds in which every rank sends a message of `size` to the rank after it in its ring.
struct RingPhase {
  std::string_view name;
  std::int64_t steps = 0;
  DataSize size{};
  std::vector<std::int64_t> next;  // the rank after each
};

/// `last` is what each rank sent last; filled on return.
void add_ring(Builder& builder, const RingPhase& phase, std::vector<TaskId>& last) {
  const auto ranks = static_cast<std::size_t>(builder.shown());
  std::vector<RouteId> routes;
  std::vector<std::size_t> before(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    routes.push_back(builder.route({static_cast<std::int64_t>(rank), phase.next[rank]}));
    before[static_cast<std::size_t>(phase.next[rank])] = rank;
  }
  std::vector<TaskId> now(ranks);
  for (std::int64_t step = 0; step < phase.steps; ++step) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto id = static_cast<std::int64_t>(rank);
      const Transfer message{.name = phase.name,
                             .stream = builder.stream(id),
                             .route = routes[rank],
                             .size = phase.size,
                             .latency = builder.latency({id, phase.next[rank]})};
      now[rank] = last.empty() ? *builder.program().transfer(message)
                               : *builder.program().transfer(message, {last[rank], last[before[rank]]});
    }
    last.resize(ranks);
    std::swap(last, now);
  }
}

/// The same `steps` times over by one rank that stands for all, as one message.
struct FoldedPhase {
  std::string_view name;
  double steps = 0;
  DataSize size{};
  std::int64_t to = 0;  // from rank 0
  double alike = 1;
};

TaskId add_folded(Builder& builder, const FoldedPhase& phase, std::optional<TaskId> last,
                  std::optional<StreamId> stream) {
  const Transfer message{.name = phase.name,
                         .stream = stream,
                         .route = builder.route({0, phase.to, phase.alike}),
                         .size = phase.size * phase.steps,
                         .latency = builder.latency({0, phase.to}) * phase.steps};
  return last ? *builder.program().transfer(message, {*last}) : *builder.program().transfer(message);
}

void ring(Builder& builder, const AllReduce& setting) {
  const std::int64_t ranks = setting.nodes * setting.gpus_per_node;
  const std::int64_t steps = 2 * (ranks - 1);
  const DataSize chunk = setting.size / static_cast<double>(ranks);
  if (setting.ranks == Ranks::kEach) {
    RingPhase phase{"ring", steps, chunk, {}};
    for (std::int64_t rank = 0; rank < ranks; ++rank) phase.next.push_back((rank + 1) % ranks);
    std::vector<TaskId> last;
    if (ranks > 1) add_ring(builder, phase, last);
    return;
  }
  // All hops work at once, and the slowest is never idle: the ring takes as long as its messages alone.
  const auto count = static_cast<double>(steps);
  if (setting.gpus_per_node > 1) add_folded(builder, {"ring, in the node", count, chunk, 1}, {}, {});
  if (setting.nodes > 1) {
    add_folded(builder, {"ring, between nodes", count, chunk, setting.gpus_per_node}, {}, {});
  }
}

void halving_doubling(Builder& builder, const AllReduce& setting) {
  const std::int64_t ranks = setting.nodes * setting.gpus_per_node;
  std::vector<std::pair<std::int64_t, DataSize>> exchanges;
  DataSize half = setting.size / 2.0;
  for (std::int64_t away = 1; away < ranks; away *= 2, half = half / 2.0) exchanges.emplace_back(away, half);
  for (std::size_t i = exchanges.size(); i-- > 0;) exchanges.push_back(exchanges[i]);

  const bool folded = setting.ranks == Ranks::kFolded;
  std::vector<TaskId> last;
  std::vector<TaskId> now(static_cast<std::size_t>(builder.shown()));
  std::int64_t away_before = 0;
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    const auto [away, size] = exchanges[i];
    const std::string name = fmt::format("{} {}", i < exchanges.size() / 2 ? "halving" : "doubling", away);
    for (std::int64_t rank = 0; rank < builder.shown(); ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      const double alike = folded ? static_cast<double>(setting.gpus_per_node) : 1;
      const Transfer message{.name = name,
                             .stream = builder.stream(rank),
                             .route = builder.route({rank, rank ^ away, alike}),
                             .size = size,
                             .latency = builder.latency({rank, rank ^ away})};
      if (last.empty()) {
        now[at] = *builder.program().transfer(message);
      } else {
        const auto partner = folded ? 0 : static_cast<std::size_t>(rank ^ away_before);
        now[at] = *builder.program().transfer(message, {last[at], last[partner]});
      }
    }
    last.resize(now.size());
    std::swap(last, now);
    away_before = away;
  }
}

void hierarchical(Builder& builder, const AllReduce& setting) {
  const std::int64_t gpus = setting.gpus_per_node;
  const DataSize share = setting.size / static_cast<double>(gpus);
  const DataSize chunk = share / static_cast<double>(setting.nodes);
  if (setting.ranks == Ranks::kFolded) {
    const auto in_node = static_cast<double>(gpus - 1);
    std::optional<TaskId> last;
    const auto stream = builder.stream(0);
    if (gpus > 1) last = add_folded(builder, {"reduce-scatter in the node", in_node, share, 1}, last, stream);
    if (setting.nodes > 1) {
      const double steps = 2.0 * static_cast<double>(setting.nodes - 1);
      const auto alike = static_cast<double>(gpus);
      last = add_folded(builder, {"all-reduce between nodes", steps, chunk, gpus, alike}, last, stream);
    }
    if (gpus > 1) add_folded(builder, {"all-gather in the node", in_node, share, 1}, last, stream);
    return;
  }
  RingPhase in_node{"reduce-scatter in the node", gpus - 1, share, {}};
  RingPhase between{"all-reduce between nodes", 2 * (setting.nodes - 1), chunk, {}};
  const std::int64_t ranks = setting.nodes * gpus;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    in_node.next.push_back(rank / gpus * gpus + (rank + 1) % gpus);
    between.next.push_back((rank + gpus) % ranks);
  }
  std::vector<TaskId> last;
  if (gpus > 1) add_ring(builder, in_node, last);
  if (setting.nodes > 1) add_ring(builder, between, last);
  in_node.name = "all-gather in the node";
  if (gpus > 1) add_ring(builder, in_node, last);
}

/// Messages that are described, or nothing when they do not fit in 64 bits.
std::optional<std::int64_t> messages(const AllReduce& setting) {
  const auto ranks = checked_multiply(setting.nodes, setting.gpus_per_node);
  if (!ranks || *ranks > std::int64_t{1} << 53) return std::nullopt;
  if (setting.ranks == Ranks::kFolded) return 128;
  switch (setting.algorithm) {
    case AllReduceAlgorithm::kRing: return checked_multiply(*ranks, 2 * (*ranks - 1));
    case AllReduceAlgorithm::kHalvingDoubling: {
      const auto levels = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(*ranks))) - 1;
      return checked_multiply(*ranks, 2 * levels);
    }
    case AllReduceAlgorithm::kHierarchical:
      return checked_multiply(*ranks, 2 * (setting.gpus_per_node - 1) + 2 * (setting.nodes - 1));
  }
  return std::nullopt;
}

Expected<void> check(const AllReduce& setting, std::optional<std::int64_t> count) {
  const auto bad = [](std::string_view what, const std::string& value, std::string_view valid) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("all-reduce: {} of {}", what, value), {},
                {fmt::format("valid: {}", valid)});
  };
  if (setting.nodes < 1) return bad("a number of nodes", fmt::to_string(setting.nodes), "1 or more");
  if (setting.gpus_per_node < 1 || setting.gpus_per_node > std::numeric_limits<std::uint32_t>::max()) {
    return bad("a number of GPUs per node", fmt::to_string(setting.gpus_per_node), "1 to 2^32 - 1");
  }
  if (!count || *count >= std::int64_t{1} << 31) {
    return fail(
        ErrorCode::kInfeasible,
        fmt::format("all-reduce: {} nodes of {} GPUs need too many messages", setting.nodes, setting.gpus_per_node), {},
        {"fold the ranks that are alike (Ranks::kFolded)"});
  }
  const auto ranks = static_cast<std::uint64_t>(setting.nodes * setting.gpus_per_node);
  if (setting.algorithm == AllReduceAlgorithm::kHalvingDoubling && !std::has_single_bit(ranks)) {
    return bad("a number of ranks for halving and doubling", fmt::to_string(ranks), "a power of two");
  }
  const auto is_amount = [](double value) { return value >= 0.0 && std::isfinite(value); };
  if (const double size = setting.size.in(bytes); !is_amount(size) || size > 9.2e18) {
    return bad("a size", fmt::format("{} bytes", size), "0 to 9.2e18 bytes");
  }
  const auto steps = 2.0 * static_cast<double>(ranks);
  for (const Time latency : {setting.gpu_latency, setting.network_latency}) {
    if (is_amount(latency.in(seconds)) && latency.in(seconds)*steps < 9e6) continue;
    return bad("a latency", fmt::format("{} s", latency.in(seconds)), "0 s to 104 days in all steps together");
  }
  const auto is_rate = [](Bandwidth rate) { return rate > Bandwidth::zero() && rate < Bandwidth::infinity(); };
  if (setting.gpus_per_node > 1 && !is_rate(setting.gpu)) {
    return bad("a rate per GPU", fmt::format("{} B/s", setting.gpu.in(bytes_per_second)), "positive and finite");
  }
  if (setting.nodes > 1 && !is_rate(setting.network)) {
    return bad("a network rate", fmt::format("{} B/s", setting.network.in(bytes_per_second)), "positive and finite");
  }
  return {};
}

}  // namespace

Expected<Program> all_reduce_program(const AllReduce& collective) {
  const auto count = messages(collective);
  if (auto checked = check(collective, count); !checked) return tl::unexpected<Error>(checked.error());
  Builder builder(collective);
  const auto expected = static_cast<std::size_t>(*count);
  builder.program().reserve(expected, 2 * expected);
  switch (collective.algorithm) {
    case AllReduceAlgorithm::kRing: ring(builder, collective); break;
    case AllReduceAlgorithm::kHalvingDoubling: halving_doubling(builder, collective); break;
    case AllReduceAlgorithm::kHierarchical: hierarchical(builder, collective); break;
  }
  return std::move(builder.program());
}

}  // namespace ddlsim::events
