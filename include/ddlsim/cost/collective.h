// What a collective costs: one question, whichever library answers it.
//
//   time = min over the library's algorithms and protocols of   latency + size * seconds per byte
//
// Every candidate is a line in the size (NCCL corrects its tree by a table), worked out once from who talks over what
// (`Communicator`) with which software (`CollectiveLibrary`), so that a question costs some tens of nanoseconds and a
// billion ranks no more than eight. The lines are those of cost/nccl.h, cost/mpi_collectives.h,
// cost/gloo_collectives.h. A measured table (hardware/collective_table.h) of the same operation and ranks replaces
// them: between its sizes the answer is interpolated, beyond them extrapolated.
//
// `size` is what nccl-tests prints: the whole buffer of one rank for all_reduce, broadcast, reduce, all_to_all and
// sendrecv; the gathered (scattered) total for all_gather (reduce_scatter). Bus bandwidth is nccl-tests' own:
// size / time * factor, factor 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and all_to_all, 1 else.
// Source of the factors: NVIDIA/nccl-tests doc/PERFORMANCE.md.
//
// Limits: one collective at a time on these links; no stragglers; a network without a bottleneck inside it.
// Worked example: 8 GPUs with six NVLinks of 25 GB/s each (Volta, a mesh). NCCL's Simple ring reaches 23.1 of 25 GB/s,
// 138.6 GB/s in all, and costs 8.4 + 14 * 3.4 = 56 us: 1 GB takes 56 us + 1 GB * 14/8 / 138.6 GB/s = 12.682 ms (and the
// local pass of cost/nccl.h, 0.417 ms at 900 GB/s).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ddlsim/hardware/collective_table.h"
#include "ddlsim/hardware/node.h"
#include "ddlsim/plan/collective_library.h"
#include "ddlsim/primitives/collective_op.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/provenance.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

using hardware::GpuGeneration;
using hardware::kNetworkTransports;
using hardware::NetworkTransport;
using primitives::bus_bandwidth_factor;
using primitives::CollectiveOp;
using primitives::kCollectiveOps;

using plan::CollectiveAlgorithm;
using plan::CollectiveLibrary;
using plan::CollectiveLibraryKind;
using plan::CollectiveProtocol;
using plan::kCollectiveAlgorithms;
using plan::kCollectiveLibraries;
using plan::kCollectiveProtocols;

/// What joins the GPUs of a node.
enum class GpuFabric : std::uint8_t {
  kNvswitch,      // every GPU reaches every other with all its links
  kNvlinkMesh,    // links from GPU to GPU; rings use all of them
  kNvlinkBridge,  // PCIe cards that bridges join; where they leave a gap the GPUs meet over PCIe
  kPcie,          // peer to peer through switches and sockets
  kHostMemory,    // no peer-to-peer: staged through shared memory of the host
};

/// Who talks, over what. Rates are those of the wire, one direction, before any efficiency.
struct Communicator {
  std::int64_t gpus = 1;
  std::int64_t nodes = 1;
  GpuGeneration generation = GpuGeneration::kAmpere;
  GpuFabric fabric = GpuFabric::kPcie;
  NetworkTransport transport = NetworkTransport::kInfiniband;
  Bandwidth intra{};               // one GPU to the others of its node: all its links, or its PCIe link
  Bandwidth inter{};               // one node to the others, all ports together
  std::int64_t network_ports = 1;  // of a node
  Bandwidth pcie{};                // one GPU to the host, which network cards hang on too
  /// Of one GPU's part of a host link, all GPUs of the node moving at once: host staging has no more.
  Bandwidth host_share = Bandwidth::infinity();
  Bandwidth memory{};                            // of one GPU
  bool crosses_sockets = false;                  // the GPUs of a node hang on several host links
  bool transport_assumed = false;                // nobody says what drives the network
  double transport_speed = 1;                    // of what TCP moves over one port at most
  double staging_speed = 1;                      // of what meets in a host's memory at most
  bool tuning_assumed = false;                   // nobody says how NCCL is tuned for this GPU
  Bandwidth connection = Bandwidth::infinity();  // what a cloud lets one connection between two servers carry
  Time intra_latency{};                          // one hop, as NCCL's Simple ring counts it: 3.4 us NVLink, 5.7 us PCIe
  Time inter_latency{};                          // likewise: 14 us

  [[nodiscard]] std::int64_t gpus_per_node() const { return gpus / nodes; }
};

/// Of a whole cluster, or of `gpus` of it: whole nodes first, as launchers place ranks; a multiple of the GPUs per node
/// or fewer than one node has; or of the same GPUs, by their places, in each of `nodes` servers (errors:
/// kInvalidArgument for GPUs or nodes that are not there). What joins the GPUs of a server is `Node::peers`. What the
/// hardware's files leave open is assumed, and marked so: a network without a transport is driven by
/// `assumed_transport`, a GPU without a tuning generation has the constants of Pascal.
[[nodiscard]] Communicator communicator_of(const hardware::Cluster& cluster);
[[nodiscard]] Communicator communicator_of(const hardware::Cluster& cluster, std::int64_t gpus);
[[nodiscard]] Expected<Communicator> communicator_of(const hardware::Cluster& cluster, std::int64_t nodes,
                                                     std::span<const std::int64_t> places);
/// The first `per_node` GPUs of each of `nodes` servers; the cluster may have more or fewer.
[[nodiscard]] Communicator communicator_of(const hardware::Cluster& cluster, std::int64_t nodes, std::int64_t per_node);

/// A group's ranks in one server.
struct PlacedRanks {
  std::int64_t count = 1;
  std::int64_t between = 1;  // groups alike that stand in each other's gaps, this one included
};

/// GPUs that PCIe alone joins share the ways between its switches with those that stand between them. Eight A100 PCIe
/// in two sockets: one ring over four GPUs of both has 14 GB/s, each of two at once 8, each of four 4
/// (MooreThreads/SimuMax configs/system/a100_pcie.json, dp_fixed_bw).
[[nodiscard]] Communicator communicator_of(const hardware::Cluster& cluster, std::int64_t nodes,
                                           const PlacedRanks& placed);

/// What drives a network where nobody says it: RDMA on servers of modules from Hopper on, which come with a card for
/// every GPU (NVIDIA DGX BasePOD: 8 ConnectX-7 in a DGX H100, H200 and B200), else TCP; where an assumption was kept
/// (hardware::says_transport), that one.
[[nodiscard]] NetworkTransport assumed_transport(const hardware::Node& node);

/// Where a transport is assumed, another one: RDMA (RoCE) and TCP are the ends of what it may be. Changes nothing that
/// is stated.
[[nodiscard]] Communicator driven_by(Communicator communicator, NetworkTransport transport);

/// What a collective sends, one direction: out of the busiest GPU over its own link inside the server (its PCIe link
/// where the library stages in the host), and over all network ports of the busiest server. Payload: the flags of LL
/// and LL128 and the frames of a network are in the rates.
struct WireBytes {
  DataSize intra{};
  DataSize inter{};

  /// Through the memory of each GPU of a server: what its own link carries, or its share of the ports.
  [[nodiscard]] DataSize of_gpu(std::int64_t gpus_per_node) const {
    return max(intra, inter / static_cast<double>(gpus_per_node));
  }
};

struct CollectiveCost {
  Time time{};
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kNone;
  CollectiveProtocol protocol = CollectiveProtocol::kNone;
  Provenance provenance = Provenance::kAnalytic;
  WireBytes wire{};
};

/// One candidate, for sizes above `above` and up to `up_to`:
///   latency + size * per_byte [/ tree_correction(size)] + growth_per_doubling * log2(1 + size / 4 MiB)
/// `wire_intra` and `wire_inter` are what one byte of size puts on the wires of `WireBytes`; `per_byte` is made of them
/// and the rates of those wires (cost/nccl.h, cost/mpi_collectives.h, cost/gloo_collectives.h).
struct CollectiveLine {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kNone;
  CollectiveProtocol protocol = CollectiveProtocol::kNone;
  Time latency{};
  Time per_byte{};                        // of one byte
  double wire_intra = 0;                  // bytes; zero for one GPU per server, unless staged
  double wire_inter = 0;                  // bytes; zero for one server
  Time growth_per_doubling{};             // of the size, from 4 MiB on: cost/nccl.h
  DataSize above = bytes(-1);             // exclusive
  DataSize up_to = DataSize::infinity();  // inclusive
  bool tree_corrected = false;            // by NCCL's table of size: cost/nccl.h
  Provenance provenance = Provenance::kAnalytic;

  [[nodiscard]] Time time(DataSize size) const {
    return time(size, growth_per_doubling > Time::zero() ? doublings(size) : 0.0);
  }
  /// The same for one who asks many lines: `doublings` of the size is their common part.
  [[nodiscard]] Time time(DataSize size, double doublings_of_size) const;
  /// log2(1 + size / 4 MiB)
  [[nodiscard]] static double doublings(DataSize size);
};

using hardware::CollectiveTable;

/// A communicator and a library, prepared once and asked many times.
class CollectiveModel {
 public:
  /// Fails for counts below one, ranks that do not fill their nodes, a rate that is not positive where it is used, an
  /// efficiency outside (0, 1], a negative latency, and an algorithm the library does not have. Nothing but `ops` may
  /// be asked of it.
  [[nodiscard]] static Expected<CollectiveModel> create(
      const Communicator& communicator, const CollectiveLibrary& library = {},
      std::shared_ptr<const CollectiveTable> table = nullptr,
      std::span<const primitives::CollectiveOp> ops = primitives::kAllCollectiveOps);

  /// The cheapest candidate, or the table, whose algorithm is unknown and said to send what a ring would. One rank
  /// costs nothing. Requires 0 <= size <= 1e16 bytes.
  [[nodiscard]] CollectiveCost cost(primitives::CollectiveOp op, DataSize size) const;

  /// What bus bandwidth approaches as the size grows, candidates only.
  [[nodiscard]] Bandwidth bus_bandwidth_limit(primitives::CollectiveOp op) const;
  [[nodiscard]] const Communicator& communicator() const { return communicator_; }
  [[nodiscard]] const CollectiveLibrary& library() const { return library_; }
  /// The candidates of an operation, for views that explain the choice.
  [[nodiscard]] const std::vector<CollectiveLine>& candidates(primitives::CollectiveOp op) const {
    return lines_[static_cast<std::size_t>(op)];
  }

 private:
  CollectiveModel() = default;
  /// The cheapest candidate and its time; null for one rank.
  [[nodiscard]] std::pair<const CollectiveLine*, Time> cheapest(primitives::CollectiveOp op, DataSize size) const;

  Communicator communicator_;
  CollectiveLibrary library_;
  std::array<std::vector<CollectiveLine>, primitives::kCollectiveOpCount> lines_;
  std::shared_ptr<const CollectiveTable> table_;
};

}  // namespace ddlsim::cost
