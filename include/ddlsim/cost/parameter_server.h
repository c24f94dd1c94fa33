// Synchronous parameter servers: one gradient piece on its way from a worker to its server and back.
//
// A piece of s bytes passes four stations, each of which serves one piece at a time, in order:
//   1 copy out   s / B_pcie                                  GPU to host
//   2 push       s * max( k / B_node, W / (S * B_server) )   worker node to server; aggregation waits for all W workers
//   3 pull       the same, the other way                     full duplex: push and pull do not disturb each other
//   4 copy in    s / B_pcie                                  host to GPU
// k workers share a node's port (no aggregation inside the node), S servers share the load evenly. Between 1|2 and 3|4
// a piece travels for the network's latency, which occupies nobody. With all workers on one node the parameters are in
// its host memory and 2 and 3 fall away.
// Source: Li et al., OSDI 2014 (design); Jiang et al., BytePS, OSDI 2020 (full duplex, bandwidth optimum).
// Limits: the server's summation costs nothing; tensors are spread evenly; no TCP effects.
//
// c equal pieces that arrive together at time a and find the stations free at b_j leave station m at
//   max( a + P(1), b_1 + P(1), ..., b_m + P(m) ),   P(j) = sum of s_j..s_m and their latencies + (c-1) max(s_j..s_m)
// (the longest path through the grid of pieces and stations), so a tensor costs the same however many pieces it has.
// Worked example: stations 1, 3, 3, 1 ms, all free, no latency: one piece takes 8 ms, ten take 8 + 9 * 3 = 35 ms.
#pragma once

#include <array>
#include <cstdint>

#include "ddlsim/support/units.h"

namespace ddlsim::cost {

inline constexpr std::size_t kPsStations = 4;

/// Rates are what is reached, per direction.
struct PsFabric {
  std::int64_t workers = 1;
  std::int64_t workers_per_node = 1;
  std::int64_t servers = 1;
  bool local = false;          // all workers on one node, parameters in its memory
  Bandwidth pcie{};            // one GPU's share of its uplink
  Bandwidth node_network{};    // of a worker node
  Bandwidth server_network{};  // of one server
  Time latency{};              // one way
};

/// Seconds per byte at a station, as a Time for one byte would be; zero where there is no station.
struct PsPath {
  std::array<Time, kPsStations> per_byte{};
  std::array<Time, kPsStations> latency_before{};  // travel to the station
};

[[nodiscard]] PsPath ps_path(const PsFabric& fabric);

/// The stations of one worker's path, and when each is free next.
class PsPipeline {
 public:
  explicit PsPipeline(const PsPath& path) : path_(path) {}

  /// Sends `count` pieces of `piece` bytes that are ready at `ready`; returns when the last has come back.
  Time send(Time ready, DataSize piece, double count);

 private:
  PsPath path_;
  std::array<Time, kPsStations> free_;
};

}  // namespace ddlsim::cost
