#include "ddlsim/cost/parameter_server.h"

#include <algorithm>

namespace ddlsim::cost {
namespace {

/// The server's own stations; the others are the worker's.
constexpr bool at_server(std::size_t station) { return station >= 2 && station <= 4; }

}  // namespace

PsTransportCost transport_cost(PsTransport transport) {
  switch (transport) {
    // 569 MB/s between two processes of one host, 128 MB tensors, TensorFlow 0.12 (tensorflow/tensorflow#6116). Small
    // tensors are bound by the control plane (#11411); 50 us per message is assumed.
    case PsTransport::kGrpc: return {gigabytes_per_second(0.569), microseconds(50), true, true};
    // One MPI thread serves all requests, and tensors are encoded unless MPI_OPTIMAL_PATH=1 (contrib/mpi/README.md):
    // twice gRPC's stream rate is assumed.
    case PsTransport::kGrpcMpi: return {gigabytes_per_second(1.1), microseconds(30), true, true};
    // 3.4 GB/s were seen with grpc+gdr where gRPC gave 0.5 (tensorflow/tensorflow#6116); verbs through a host proxy are
    // taken to stream as fast. The request still goes by gRPC.
    case PsTransport::kGrpcVerbs: return {gigabytes_per_second(3.4), microseconds(30), true, true};
    case PsTransport::kGrpcGdr: return {gigabytes_per_second(3.4), microseconds(30), false, true};
    // A ZeroMQ stream on 2018-2020 hosts moves about 10 Gb/s to 25 Gb/s; 2.5 GB/s is assumed.
    case PsTransport::kTcp: return {gigabytes_per_second(2.5), microseconds(20), true, true};
    case PsTransport::kRdma: return {Bandwidth::infinity(), microseconds(5), true, true};
  }
  return {};
}

PsPath ps_path(const PsFabric& fabric, std::int64_t shards) {
  const DataSize byte = bytes(1);
  const auto per_node = static_cast<double>(fabric.workers_per_node);
  const double nodes = static_cast<double>(fabric.workers) / per_node;
  const double all = fabric.local_aggregation ? nodes : static_cast<double>(fabric.workers);
  const double senders = fabric.senders > 0 ? static_cast<double>(fabric.senders) : all;
  const double at_node = fabric.local_aggregation ? 1.0 : per_node;
  const double share = 1.0 / static_cast<double>(shards);
  PsPath path;
  Time copy = fabric.transport.through_host || fabric.local ? byte / fabric.pcie : Time::zero();
  Time among;
  if (fabric.local_aggregation && per_node > 1) {
    // Each GPU sums its part of the gradient, then copies that part alone: a reduce-scatter, and its mirror image. Both
    // go both ways over the node's links, which they share where they meet.
    copy = copy / per_node;
    among = byte * ((per_node - 1.0) / per_node) / fabric.peer;
  }
  const double both = 1.0 + fabric.pulled;
  path.per_byte[0] = copy + among * (fabric.pushes_meet_pulls ? both : 1.0);
  path.per_byte[6] = copy * fabric.pulled + among * (fabric.pushes_meet_pulls ? both : fabric.pulled);
  path.per_byte[3] = byte * (share * (3.0 * senders + fabric.update_accesses * fabric.pulled)) / fabric.server_memory;
  if (fabric.local) return path;
  const double away = fabric.colocated ? (nodes - 1.0) / nodes : 1.0;
  // A machine that is both pushes and serves through one port.
  const bool meet = fabric.colocated && fabric.pushes_meet_pulls;
  const auto wire = [&](double load, double sent, Bandwidth port, double connections) {
    const double through_port = load * away * (meet ? 1.0 + fabric.pulled : sent);
    return max(byte * through_port / port, byte * (load * sent) / (fabric.transport.connection * connections));
  };
  const auto shared_by = at_node * static_cast<double>(shards);
  path.per_byte[1] = wire(at_node, 1, fabric.node_network, shared_by);
  path.per_byte[5] = wire(at_node, fabric.pulled, fabric.node_network, shared_by);
  path.per_byte[2] = wire(senders * share, 1, fabric.server_network, senders);
  path.per_byte[4] = wire(senders * share, fabric.pulled, fabric.server_network, senders);
  path.per_message[1] = path.per_message[5] = fabric.transport.per_message * at_node;
  path.per_message[2] = path.per_message[4] =
      fabric.transport.per_message * (senders * (fabric.whole_pieces ? share : 1.0));
  path.travel[2] = path.travel[5] = fabric.latency;
  return path;
}

PsPipeline::PsPipeline(const PsFabric& fabric)
    : spread_(ps_path(fabric, fabric.servers)), placed_(ps_path(fabric, 1)) {}

Time& PsPipeline::free(std::size_t station, std::int64_t server) {
  if (!at_server(station) || server < 0) return worker_free_[station];
  std::vector<Time>& servers = server_free_[station];
  const auto index = static_cast<std::size_t>(server);
  if (servers.size() <= index) servers.resize(index + 1);
  return servers[index];
}

Time PsPipeline::pass(std::size_t from, std::size_t to, Time ready, const PsLoad& load) {
  const PsPath& path = load.server < 0 ? spread_ : placed_;
  const double size = load.piece.in(bytes);
  if (load.count == 1 && load.server < 0) {  // what follows for most loads, without a detour over the servers
    Time leave = ready;
    for (std::size_t i = from; i < to; ++i) {
      leave = max(leave + path.travel[i], worker_free_[i]) + (path.per_byte[i] * size + path.per_message[i]);
      worker_free_[i] = leave;
    }
    return leave;
  }
  std::array<Time, kPsStations> serve;
  std::array<Time, kPsStations> was_free;
  for (std::size_t i = from; i < to; ++i) {
    serve[i] = path.per_byte[i] * size + path.per_message[i];
    was_free[i] = free(i, load.server);
  }
  if (load.count == 1) {  // P without its last term: what a piece waits for at a station is the later of two times
    Time leave = ready;
    for (std::size_t i = from; i < to; ++i) {
      leave = max(leave + path.travel[i], was_free[i]) + serve[i];
      free(i, load.server) = leave;
    }
    return leave;
  }
  Time leave = ready;
  for (std::size_t last = from; last < to; ++last) {
    // P(first) of the header, built from station `last` backwards.
    Time service;
    Time slowest;
    leave = Time::zero();
    for (std::size_t first = last + 1; first-- > from;) {
      service += serve[first] + (first < last ? path.travel[first + 1] : Time::zero());
      slowest = max(slowest, serve[first]);
      leave = max(leave, was_free[first] + service + slowest * (load.count - 1.0));
    }
    leave = max(leave, ready + path.travel[from] + service + slowest * (load.count - 1.0));
    free(last, load.server) = leave;
  }
  return leave;
}

Time PsPipeline::free_to_send(const PsLoad& largest) const {
  const PsPath& path = largest.server < 0 ? spread_ : placed_;
  Time way;  // to the station
  Time when;
  for (std::size_t i = 0; i < kPsStations; ++i) {
    way += path.travel[i];
    // The next piece may go to another server.
    const bool known = !at_server(i) || largest.server < 0;
    if (known) when = max(when, worker_free_[i] - way);
    way += path.per_byte[i] * largest.piece.in(bytes) + path.per_message[i];
  }
  return when;
}

Time async_bound(const PsFabric& fabric, std::span<const PsLoad> loads) {
  const PsPath spread = ps_path(fabric, fabric.servers);
  const PsPath placed = ps_path(fabric, 1);
  std::array<Time, kPsStations> worker{};
  std::array<Time, kPsStations> everywhere{};         // of loads spread over all servers
  std::array<std::vector<Time>, kPsStations> server;  // of each server's own
  for (const PsLoad& load : loads) {
    const PsPath& path = load.server < 0 ? spread : placed;
    for (std::size_t i = 0; i < kPsStations; ++i) {
      const Time busy = (path.per_byte[i] * load.piece.in(bytes) + path.per_message[i]) * load.count;
      if (!at_server(i)) {
        worker[i] += busy;
      } else if (load.server < 0) {
        everywhere[i] += busy;
      } else {
        const auto index = static_cast<std::size_t>(load.server);
        if (server[i].size() <= index) server[i].resize(index + 1);
        server[i][index] += busy;
      }
    }
  }
  Time bound;
  for (std::size_t i = 0; i < kPsStations; ++i) {
    Time fullest;
    for (const Time& own : server[i]) fullest = max(fullest, own);
    bound = max(bound, max(worker[i], everywhere[i] + fullest));
  }
  return bound;
}

}  // namespace ddlsim::cost
