#include "ddlsim/cost/parameter_server.h"

namespace ddlsim::cost {

PsPath ps_path(const PsFabric& fabric) {
  const DataSize byte = bytes(1);
  PsPath path;
  const Time copy = byte / fabric.pcie;
  path.per_byte.front() = copy;
  path.per_byte.back() = copy;
  if (fabric.local) return path;
  const Time at_node = byte * static_cast<double>(fabric.workers_per_node) / fabric.node_network;
  const Time at_server =
      byte * (static_cast<double>(fabric.workers) / static_cast<double>(fabric.servers)) / fabric.server_network;
  path.per_byte[1] = path.per_byte[2] = max(at_node, at_server);
  path.latency_before[1] = path.latency_before[3] = fabric.latency;
  return path;
}

Time PsPipeline::send(Time ready, DataSize piece, double count) {
  const double size = piece.in(bytes);
  const std::array<Time, kPsStations> free = free_;
  for (std::size_t last = 0; last < kPsStations; ++last) {
    // P(first) of the header, built from station `last` backwards.
    Time service;
    Time slowest;
    Time leave;
    for (std::size_t first = last + 1; first-- > 0;) {
      const Time serve = path_.per_byte[first] * size;
      service += serve + (first < last ? path_.latency_before[first + 1] : Time::zero());
      slowest = max(slowest, serve);
      leave = max(leave, free[first] + service + slowest * (count - 1.0));
    }
    leave = max(leave, ready + path_.latency_before[0] + service + slowest * (count - 1.0));
    free_[last] = leave;
  }
  return free_.back();
}

}  // namespace ddlsim::cost
