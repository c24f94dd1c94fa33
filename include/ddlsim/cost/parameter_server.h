// Parameter servers: one gradient piece on its way from a worker to its server and back.
//
// A piece of s bytes passes seven stations, each of which serves one piece at a time, in order:
//   1 copy out   s / B_pcie (+ sum inside the node, whose links it       GPU to host
//                shares with what comes back where both are under way)
//   2 send       k s / R_node + k t_message                              worker node to network
//   3 receive    W s / R_server + W t_message                            server from network
//   4 sum        (3 W s + u r s) / B_memory                              reads and writes of the server's memory:
//                                                                        W gradients onto a sum, then the update:
//                                                                        u = 0 where workers update (BytePS)
//   5 serve, 6 fetch, 7 copy in: as 3, 2, 1, the other way, of r s       full duplex: both ways at once; r = 1 but for
//                                                                        compressed gradients of whole weights
// W workers send, k of them on one node; with aggregation inside the node W is the number of nodes and k is 1. A piece
// that is spread over S servers loads each of them with s/S; a piece that lives on one server loads that one with s,
// which is why the largest tensor of a badly placed model sets the step. Pieces cut to one size (P3, BytePS) live on
// one server each, in turn: of many, a server sees one in S, bytes and messages alike. A station's rate is the wire's
// or the transport's connections', whichever is slower: R_node = min(B_node, C b), C the connections it has (one per
// worker and server). Between 2|3 and 5|6 a piece travels for the network's latency, which occupies nobody. With all
// workers on one node the weights are in its memory and only 1, 4 and 7 remain. On machines that are both worker and
// server, (N-1)/N of the bytes leave the machine, and pushes share each port's direction with what its server serves.
// Source: Li et al., OSDI 2014 (design); Jiang et al., BytePS, OSDI 2020 (full duplex, bandwidth optimum).
// Limits: no TCP incast or retransmission; the servers' own stalls; one NUMA domain.
//
// c equal pieces that arrive together at time a and find the stations free at b_j leave station m at
//   max( a + P(1), b_1 + P(1), ..., b_m + P(m) ),   P(j) = sum of s_j..s_m and their latencies + (c-1) max(s_j..s_m)
// (the longest path through the grid of pieces and stations), so a tensor costs the same however many pieces it has.
// Worked example: stations 1, 3, 3, 1 ms, all free, no latency: one piece takes 8 ms, ten take 8 + 9 * 3 = 35 ms.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ddlsim/plan/strategy.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

inline constexpr std::size_t kPsStations = 7;

using plan::kPsTransports;
using plan::PsTransport;

struct PsTransportCost {
  Bandwidth connection{};    // one stream, one direction
  Time per_message{};        // on either end
  bool through_host = true;  // copied between GPU and host memory
  bool assumed = true;       // a figure without a measurement
};

[[nodiscard]] PsTransportCost transport_cost(PsTransport transport);

/// Rates are what is reached, per direction.
struct PsFabric {
  std::int64_t workers = 1;
  std::int64_t workers_per_node = 1;
  std::int64_t servers = 1;
  bool local = false;              // all workers on one node, weights in its memory
  bool colocated = false;          // servers on the workers' machines
  bool local_aggregation = false;  // a node's workers push and pull as one
  bool whole_pieces = false;       // a piece that any server may have is a message to one of them, not to each
  bool pushes_meet_pulls = true;   // at once under way: they share a node's links, and ports of co-located servers
  Bandwidth pcie{};                // one GPU's share of its uplink
  Bandwidth peer{};                // between the GPUs of a node, for aggregation inside it
  Bandwidth node_network{};        // of a worker node
  Bandwidth server_network{};      // of one server
  Bandwidth server_memory{};       // of one server's host
  std::int64_t senders = 0;        // at a server at once; 0: all of them (asynchronous workers meet few)
  double update_accesses = 0;      // of the optimizer, per weight; 0: servers only sum
  double pulled = 1;               // r: bytes that come back for one that is pushed
  PsTransportCost transport{Bandwidth::infinity(), Time::zero(), true, false};
  Time latency{};  // one way
};

/// Service of every station: per byte (as the Time of one byte) and per message, and the travel to it.
struct PsPath {
  std::array<Time, kPsStations> per_byte{};
  std::array<Time, kPsStations> per_message{};
  std::array<Time, kPsStations> travel{};
};

/// What a worker pushes, or pulls, at once: `count` alike pieces.
struct PsLoad {
  DataSize piece{};
  double count = 1;
  std::int64_t server = -1;  // -1: spread over all
};

/// The stations of one worker's path, and when each is free next.
class PsPipeline {
 public:
  explicit PsPipeline(const PsFabric& fabric);

  /// Out and back; returns when the last piece has come back.
  Time push_and_pull(Time ready, const PsLoad& load) { return pass(0, kPsStations, ready, load); }
  /// Stations 1 to 4; returns when the server has the new weights.
  Time push(Time ready, const PsLoad& load) { return pass(0, kPull, ready, load); }
  /// Stations 5 to 7.
  Time pull(Time ready, const PsLoad& load) { return pass(kPull, kPsStations, ready, load); }
  /// When another piece could start and wait nowhere on its way, were it as long as `largest`: who sends by priority
  /// keeps back what would only wait, for something more urgent may come (credits of ByteScheduler, Peng et al. 2019).
  /// Of what lives on one server each, stations of servers are left out: the next piece may go to another.
  [[nodiscard]] Time free_to_send(const PsLoad& largest) const;

 private:
  static constexpr std::size_t kPull = 4;

  /// Where a load's pieces wait: stations of the worker, and of one server or of all alike.
  Time& free(std::size_t station, std::int64_t server);
  Time pass(std::size_t from, std::size_t to, Time ready, const PsLoad& load);

  PsPath spread_;  // of a piece spread over all servers
  PsPath placed_;  // of a piece on one server
  std::array<Time, kPsStations> worker_free_{};
  std::array<std::vector<Time>, kPsStations> server_free_;  // by server, for placed loads
};

/// The services of a worker's path; `shards` servers share a piece.
[[nodiscard]] PsPath ps_path(const PsFabric& fabric, std::int64_t shards);

/// Asynchronous workers: the time between two steps of one worker when nobody waits for anybody is at least what the
/// busiest station needs for what all workers send in one step of each.
[[nodiscard]] Time async_bound(const PsFabric& fabric, std::span<const PsLoad> loads);

}  // namespace ddlsim::cost
